"""From records to what a person reads: tables, figures and one HTML page.

source.py    the records below a folder    section/         contents of each section of the page
table.py     a table, as Markdown and CSV  chart.py         charts drawn by matplotlib
drawing.py   matplotlib as inline SVG      page.html.j2     the page; part.html.j2: tables, figures
page.py      the page from its templates
"""
