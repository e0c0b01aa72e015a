"""One file per command that this package adds to ``geq``."""
