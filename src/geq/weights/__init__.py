"""Trained networks that come with the package, and how they are made.

Each folder below this one is a run in miniature, with its card: what the network is, how it was trained, what
it reached and what it is not for. :mod:`geq.model.shipped_networks` finds them by name.
"""
