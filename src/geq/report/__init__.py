"""From records to what a person reads: tables, figures and one HTML page.

markup.py   elements with everything escaped      table.py    a table as HTML, Markdown and CSV
figure.py   a picture with caption and alt text   chart/      pictures as inline SVG
source.py   what is below a folder of records     section/    one file per section of the page
page.py     the page
"""
