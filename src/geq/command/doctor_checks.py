"""Findings of ``geq doctor``: versions, packages, devices, the compiler, data and folders, with hints."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from geq.data.download_sources import YOURS
from geq.errors import GeqError, MissingDataError, one_line

State = Literal["ok", "note", "problem"]

PURPOSES: dict[str, str] = {
    "train": "geq train, and all tables of the command line",
    "vision": "reading image files, augmentation on the fly",
    "corruption": "CIFAR-10-C: 19 corruptions of images",
    "explain": "saliency maps and the pictures of geq explain",
    "export": "ONNX and onnxruntime",
    "sklearn": "estimators for scikit-learn",
    "docs": "building the documentation",
    "tune": "geq tune: searching settings",
    "hub": "datasets of Hugging Face",
    "stress": "make stress",
    "test": "tests of the core",
    "dev": "tests and checks of this package",
}
"""Extra -> what it is for."""

PACKAGES: dict[str, str] = {
    "geq-papers": "tables, figures and theorems of the papers: geq reproduce, report, bench, theorems",
    "geq-papers[baselines]": "the Neural ODE, for comparison",
    "geq-papers[cluster]": "geq reproduce --launcher ray",
    "geq-demo": "the web page of geq demo",
}
"""Package of this repository, or an extra of one -> what it is for."""

NEEDED_EXTRA = "train"
"""Without it the library works, and next to nothing of the command line."""

MODULES: dict[str, str] = {
    "mkdocs-material": "material",
    "opencv-python-headless": "cv2",
    "pillow": "PIL",
    "pytest-xdist": "xdist",
    "scikit-image": "skimage",
    "scikit-learn": "sklearn",
}
"""Package -> what is imported, where the names differ."""

LITTLE_SPACE = 2**30
LITTLE_SHARED = 2**26
"""Bytes below which a folder, and the memory that processes share, are said to be short of room."""


@dataclass(frozen=True)
class Finding:
    """
    Args:
        group: heading.
        name: what was checked.
        state: "note" is worth knowing, "problem" must be solved.
        value: what was found.
        hint: what to do.
    """

    group: str
    name: str
    state: State
    value: str
    hint: str = ""


def examine() -> Iterator[Finding]:
    """Everything, in the order in which it is shown."""
    yield from versions()
    yield from extras()
    yield from packages()
    yield from devices()
    yield from kernel()
    yield from data()
    yield from folders()
    yield from shared_memory(Path("/dev/shm"))


def versions() -> Iterator[Finding]:
    yield Finding("versions", "geq", "ok", f"{metadata.version('geq')} in {Path(__file__).parents[1]}")
    python = f"{platform.python_version()} ({sys.executable})"
    yield Finding("versions", "Python", "ok", python)
    yield Finding(
        "versions", "system", "ok", f"{platform.system()} {platform.release()} {platform.machine()}"
    )
    for package in required()[""]:
        found = installed(package)
        hint = "" if found else "pip install geq"
        yield Finding("versions", package, "ok" if found else "problem", found or "missing", hint)
    yield solve_finding()


def solve_finding() -> Finding:
    """Solve an equilibrium and differentiate it."""
    try:
        import torch

        from geq.layers.energy import OptEqLinear

        layer = OptEqLinear(4, 4)
        layer(torch.ones(2, 4)).sum().backward()
    except Exception as problem:  # any failure of a broken installation is a finding
        hint = "reinstall torch, as https://pytorch.org/get-started says for your machine"
        said = f"{type(problem).__name__}: {one_line(problem)}"
        return Finding("versions", "equilibrium", "problem", said, hint)
    return Finding("versions", "equilibrium", "ok", "solved and differentiated")


def required(distribution: str = "geq") -> dict[str, list[str]]:
    """Return extra ("" for none) -> its packages; extras that consist of others have theirs."""
    found: dict[str, list[str]] = {"": []}
    for line in metadata.requires(distribution) or ():
        wanted, _, condition = line.partition(";")
        named = re.match(r"[A-Za-z0-9._-]+", wanted.strip())
        extra = re.search(r"extra == ['\"]([^'\"]+)['\"]", condition)
        if named is not None and (extra is not None or not condition.strip()):
            package = named.group().lower()
            others = re.search(r"\[([^\]]+)\]", wanted) if package == distribution else None
            group = found.setdefault(extra.group(1) if extra else "", [])
            group += [f"[{other.strip()}]" for other in others.group(1).split(",")] if others else [package]
    return {extra: expanded(packages, found) for extra, packages in found.items()}


def expanded(packages: list[str], extras: dict[str, list[str]]) -> list[str]:
    """
    >>> expanded(["a", "[x]"], {"x": ["b", "[y]"], "y": ["a", "c"]})
    ['a', 'b', 'c']
    """
    result: dict[str, None] = {}
    for package in packages:
        inner = expanded(extras.get(package[1:-1], []), extras) if package.startswith("[") else [package]
        result |= dict.fromkeys(inner)
    return list(result)


def installed(package: str) -> str | None:
    """The version of a package, or that it can be imported; nothing is imported for that."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        module = MODULES.get(package, package.replace("-", "_"))
        return "of unknown version" if importlib.util.find_spec(module) is not None else None


def extras() -> Iterator[Finding]:
    wanted = required()
    for extra, purpose in PURPOSES.items():
        missing = [package for package in wanted.get(extra, ()) if installed(package) is None]
        if not missing:
            yield Finding("extras", extra, "ok", purpose)
            continue
        state: State = "problem" if extra == NEEDED_EXTRA else "note"
        value = f"{purpose}; missing: {', '.join(missing)}"
        yield Finding("extras", extra, state, value, f"pip install 'geq[{extra}]'")


def packages() -> Iterator[Finding]:
    """The other packages of this repository."""
    for name, purpose in PACKAGES.items():
        distribution, _, extra = name.rstrip("]").partition("[")
        try:
            wanted = required(distribution).get(extra, [])
        except metadata.PackageNotFoundError:
            wanted = [distribution]
        missing = [package for package in wanted if installed(package) is None]
        if missing:
            value, hint = f"{purpose}; missing: {', '.join(missing)}", f"pip install {name!r}"
            yield Finding("packages", name, "note", value, hint)
        else:
            yield Finding("packages", name, "ok", purpose)


def devices() -> Iterator[Finding]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        import torch
    except (ImportError, OSError):
        return  # said already
    threads = f"{usable} of {os.cpu_count()} cores may be used; torch takes {torch.get_num_threads()} threads"
    yield Finding("devices", "CPU", "ok", threads)
    for number in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(number)
        yield Finding("devices", f"CUDA {number}", "ok", f"{card.name}, {in_bytes(card.total_memory)}")
    if torch.cuda.device_count() == 0:
        built = torch.version.cuda
        value = "no device" if built else "this torch is built without it"
        hint = (
            "" if not shutil.which("nvidia-smi") else "install the CUDA build of torch, or check the driver"
        )
        yield Finding("devices", "CUDA", "note", value, hint)
    if platform.system() == "Darwin":
        there = torch.backends.mps.is_available()
        yield Finding("devices", "MPS", "ok" if there else "note", "available" if there else "not available")


def kernel() -> Iterator[Finding]:
    """The compiled twin of the patch operation, which makes GEQ faster on a CPU."""
    command = os.environ.get("CC", "cc")
    compiler = shutil.which(command)
    if compiler is None:
        hint = "install a C compiler (gcc or clang), or name it in CC: GEQ on a CPU is slower without"
        yield Finding("compiler", command, "note", "not found", hint)
        return
    try:
        said = subprocess.run(
            [compiler, "--version"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=20,
            check=False,
        )
        version = (said.stdout.splitlines() or [""])[0]
    except (OSError, subprocess.TimeoutExpired) as problem:
        version = str(problem)
    yield Finding("compiler", command, "ok", f"{compiler}: {version}")
    try:
        from geq.kernels.compiled_patch import load

        library = load()
    except (ImportError, OSError):
        return  # without torch, which is said already
    if library is not None:
        yield Finding("compiler", "patch kernel", "ok", f"loaded from {library._name}")
    elif os.environ.get("GEQ_COMPILE") == "0":
        yield Finding("compiler", "patch kernel", "note", "turned off by GEQ_COMPILE=0")
    else:
        hint = "the plain formula is used, which is slower: check the compiler and the cache folder"
        yield Finding("compiler", "patch kernel", "note", "cannot be compiled or loaded", hint)


def data() -> Iterator[Finding]:
    try:
        from geq.data.dataset_options import SUMMARIES, VARIABLE, data_root
        from geq.data.dataset_registry import load_dataset
        from geq.data.download_sources import SOURCES, how_to_get, known_sizes
    except (ImportError, OSError):
        return
    root = data_root()
    named = (
        f"${VARIABLE}" if os.environ.get(VARIABLE) else f"the default; {VARIABLE} or --data_root change it"
    )
    there = root.is_dir()
    wrong = bool(os.environ.get(VARIABLE)) and not there
    hint = (
        f"make that folder, or correct {VARIABLE}" if wrong else "" if there else "'geq data fetch' makes it"
    )
    value = f"{root} ({named})" + ("" if there else ": not there")
    yield Finding("data", "root", "problem" if wrong else "ok" if there else "note", value, hint)
    for name in SUMMARIES:
        if name in YOURS:
            continue
        try:
            known = known_sizes(name, root) or {}
            number = known["test"] if known else len(load_dataset(name, "test"))
            yield Finding("data", name, "ok", f"{number:,} test images")
        except GeqError as problem:
            hint = "" if name not in SOURCES else how_to_get(name)
            value = "not there" if isinstance(problem, MissingDataError) else str(problem)
            yield Finding("data", name, "note", value, hint)


def folders() -> Iterator[Finding]:
    """Check the folders that geq writes to: its cache, and runs/ and results/ below the current folder."""
    from geq.cache_folder import user_cache

    try:
        cache = user_cache() / "geq"
    except RuntimeError as problem:
        yield Finding("folders", "cache", "note", str(problem), "set HOME or XDG_CACHE_HOME")
    else:
        yield folder_finding("cache", cache, "set XDG_CACHE_HOME to a folder that may be written", "note")
    for name in ("runs", "results"):
        yield folder_finding(
            name, Path.cwd() / name, f"go to another folder, or give --{name} FOLDER", "problem"
        )


def folder_finding(name: str, folder: Path, hint: str, state: State) -> Finding:
    """Check that a file can be written there or, if the folder does not exist yet, above."""
    above = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=above, prefix=".geq-doctor-"):
            pass
    except OSError as problem:
        return Finding("folders", name, state, f"{folder} cannot be written: {problem.strerror}", hint)
    free = shutil.disk_usage(above).free
    value = f"{folder} can be written, {in_bytes(free)} free"
    if free < LITTLE_SPACE:
        return Finding("folders", name, "note", value, "free some space: runs and data need it")
    return Finding("folders", name, "ok", value)


def shared_memory(folder: Path) -> Iterator[Finding]:
    """Loader processes pass images through it."""
    if folder.is_dir():
        free = shutil.disk_usage(folder).free
        little = free < LITTLE_SHARED
        hint = "in a container: --shm-size=1g, or train with --workers 0" if little else ""
        yield Finding("folders", "shared memory", "note" if little else "ok", f"{in_bytes(free)} free", hint)


def in_bytes(number: float | int) -> str:
    """
    >>> in_bytes(512), in_bytes(3 * 2**20), in_bytes(2.5 * 2**30)
    ('512 B', '3.0 MB', '2.5 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TB"


def as_mapping(findings: list[Finding]) -> dict[str, Any]:
    return {
        "ok": all(finding.state != "problem" for finding in findings),
        "findings": [asdict(finding) | {"hint": finding.hint or None} for finding in findings],
    }
