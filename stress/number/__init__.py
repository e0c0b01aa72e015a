"""Layers, solvers and gradients at the limits of arithmetic: no silent wrong answer.

:mod:`~stress.number.literal` writes the maps down a second time, in double precision and without what makes
them fast; :mod:`~stress.number.verdict` asks a layer and compares; the other modules are what is asked.
"""
