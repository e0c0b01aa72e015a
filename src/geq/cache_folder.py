"""Cache folder of a program."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def user_cache() -> Path:
    """The folder that the platform gives programs for what can be fetched again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    configured = os.environ.get("XDG_CACHE_HOME", "")
    # The specification says that a relative path there is invalid and to be ignored.
    return Path(configured) if os.path.isabs(configured) else Path.home() / ".cache"
