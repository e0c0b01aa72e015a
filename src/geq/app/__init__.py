"""The web demo: a page on which people play with a trained network.

From data to page: :mod:`~geq.app.picture` (what is looked at), :mod:`~geq.app.distortion` (what is done to
it), :mod:`~geq.app.exhibit` (a network that answers), :mod:`~geq.app.collection` (the networks to choose
from), :mod:`~geq.app.answer`, :mod:`~geq.app.settling` and :mod:`~geq.app.focus` (the three parts of a panel
as HTML), :mod:`~geq.app.session` (what each control does), :mod:`~geq.app.page` (the controls) and
:mod:`~geq.app.server`.
"""
