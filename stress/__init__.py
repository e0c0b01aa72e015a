"""Attacks on geq: readers fed with rubbish, commands killed, disks filled, numbers at their limits.

``python -m stress`` runs the short form of every part and prints what was tried and survived.
"""
