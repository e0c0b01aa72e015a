"""The web demo: a page on which people play with a trained network.

From data to page: :mod:`~geq_demo.picture` (what is looked at), :mod:`~geq_demo.distortion` (what is done to
it), :mod:`~geq_demo.exhibit` (a network that answers), :mod:`~geq_demo.collection` (the networks to choose
from), :mod:`~geq_demo.answer`, :mod:`~geq_demo.settling` and :mod:`~geq_demo.focus` (the three parts of a
panel as HTML), :mod:`~geq_demo.session` (what each control does), :mod:`~geq_demo.page` (the controls) and
:mod:`~geq_demo.server`.
"""
