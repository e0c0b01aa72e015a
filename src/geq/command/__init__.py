"""One file per command of ``geq``; see :mod:`geq.cli` for the table."""
