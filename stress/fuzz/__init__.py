"""Mutated files for every reader of outside data: they must be read, or refused in words."""
