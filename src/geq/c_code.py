"""C files of geq, compiled on first use, where the machine has a C compiler.

A file is compiled once (about a second) into the user's cache and loaded with ctypes. ``GEQ_COMPILE=0`` turns
all of them off.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from geq.cache_folder import user_cache

FLAGS = ("-O3", "-march=native", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math")


def cpu_features() -> str:
    """Return the CPU features that ``-march=native`` uses: a shared home may serve different machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def load(source: Path) -> ctypes.CDLL | None:
    """Return the compiled library of a C file, or None where it cannot be had."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if os.environ.get("GEQ_COMPILE") == "0" or compiler is None:
        return None
    flags = (*FLAGS, "-fopenmp" if shares_openmp() else "-fopenmp-simd")
    key = "\n".join(
        [source.read_text(encoding="utf-8"), *flags, compiler, cpu_features(), platform.machine()]
    )
    name = f"{source.stem}-{hashlib.sha256(key.encode()).hexdigest()[:20]}.so"
    try:
        folder = user_cache() / "geq" / "kernel"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        library = folder / name
        if not (trusted(folder) and (library.exists() or compiled(compiler, flags, source, library))):
            return None
        return ctypes.CDLL(str(library))
    except (OSError, RuntimeError):
        return None  # no home, no cache to write to, or a library that does not load


def shares_openmp() -> bool:
    """Return whether torch's own OpenMP is visible; a second one would fight with it for the cores."""
    return hasattr(ctypes.CDLL(None), "GOMP_parallel") and platform.system() == "Linux"


def trusted(folder: Path) -> bool:
    """Only load code from a folder that nobody else can write to."""
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def compiled(compiler: str, flags: tuple[str, ...], source: Path, library: Path) -> bool:
    """Compile beside the target and rename, so that a half-written file is never loaded."""
    handle, part = tempfile.mkstemp(suffix=".so", dir=library.parent)
    os.close(handle)
    try:
        command = [compiler, *flags, str(source), "-o", part, "-lm"]
        if "-fopenmp" in flags:
            command.insert(-1, "-Wl,--as-needed,--unresolved-symbols=ignore-all")
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        if done.returncode:
            return False
        os.replace(part, library)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        Path(part).unlink(missing_ok=True)
