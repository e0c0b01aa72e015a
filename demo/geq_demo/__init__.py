"""The web demo: a page on which people play with a trained network.

From data to page: :mod:`~geq_demo.input_image` (what is looked at, and what is done to it),
:mod:`~geq_demo.served_network` (a network that answers), :mod:`~geq_demo.network_choice` (the networks to
choose from), :mod:`~geq_demo.answer_panel`, :mod:`~geq_demo.solve_panel` and :mod:`~geq_demo.attention_panel`
(the three parts of a panel as HTML), :mod:`~geq_demo.session` (what each control does), :mod:`~geq_demo.page`
(the controls) and :mod:`~geq_demo.server`.
"""
