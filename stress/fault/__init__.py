"""Faults of machines, made on purpose: each kind in a file of its own, with ``attack(scale)``."""
