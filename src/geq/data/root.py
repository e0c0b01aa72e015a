"""Root folder of the datasets."""

from __future__ import annotations

import os
from pathlib import Path

from geq.cache import user_cache

VARIABLE = "GEQ_DATA"
OPTION = "--data_root"
"""The option of the commands that names the folder; messages take it from here."""


def data_root(explicit: Path | str | None = None) -> Path:
    """The folder that holds the datasets: ``explicit``, else ``$GEQ_DATA``, else the user's cache folder.

    >>> data_root("pictures").name
    'pictures'
    """
    chosen = explicit or os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else user_cache() / "geq" / "data"
