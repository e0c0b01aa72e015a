"""Environment of a run: versions, machine and code, to explain a number later."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("geq", "torch", "lightning", "numpy", "torchmetrics", "kornia", "scikit-learn")


def describe_environment(seed: int) -> dict[str, Any]:
    """Versions, machine, commit, seed and command, ready for JSON."""
    import torch  # here, as the pages of records ask this module for commits only

    return {
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "seed": seed,
        "commit": git_commit(Path.cwd()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "packages": {name: installed(name) for name in PACKAGES},
    }


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def git_commit(folder: Path) -> str | None:
    """The commit that ``folder`` is at, with '+changes' where files differ from it; None outside of git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, encoding="utf-8", timeout=10)
        return done.stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        return commit + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def short_commit(commit: str | None, digits: int = 7) -> str | None:
    """Return the first digits of a commit, still with a mark where files differed from it.

    >>> short_commit("0123456789abcdef+changes"), short_commit(None)
    ('0123456+changes', None)
    """
    return None if commit is None else commit[:digits] + ("+changes" if commit.endswith("+changes") else "")


MATTERING = ("threads", "machine", "python")
"""Entries that can change the last bits of a sum."""


def differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the differences between two environments that may change the last bits of a result."""
    pairs = {name: (then.get(name), now.get(name)) for name in MATTERING}
    for name in ("torch", "geq", "numpy"):
        pairs[name] = (then.get("packages", {}).get(name), now.get("packages", {}).get(name))
    return [f"{name} {before} → {after}" for name, (before, after) in pairs.items() if before != after]
