"""Faults of machines, made on purpose: kills, full disks, lost folders, dead processes."""
