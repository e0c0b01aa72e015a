"""Makes the folder of a network that comes with the package out of a finished run."""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from geq.analysis.settings import Progress, silent
from geq.atomic_io import exclusively, explained_write_errors, remove_leftovers, replace_folder, write_durably
from geq.errors import CheckpointError, OptionError
from geq.model.pretrained import CONFIG, WEIGHTS
from geq.model.shipped_networks import CARD
from geq.training.run_folder import RunFolder
from geq.weights.card import Card, card_text, disk_size
from geq.weights.card_measurements import IMAGES, measure, trained

LARGEST = 1_000_000
"""Bytes that such a folder may have."""

TEXT = "README.md"
KEPT = ("started", "seed", "commit", "python", "machine", "cores", "threads", "devices", "packages")
"""Facts of an environment that explain a number and tell nothing of whose machine it was."""

_MACHINE_PATH = re.compile(r"""(?:^|[\s=:,"'(\[])(?:~?/|~\\|[A-Za-z]:\\)[\w.][^\s"',)\]]*""")


def pack(
    folder: RunFolder,
    name: str,
    output: Path,
    images: int = IMAGES,
    force: bool = False,
    data_root: str | None = None,
    progress: Progress = silent,
) -> tuple[Path, Card]:
    """Measure a finished run and write ``output/name``; returns that folder and its card.

    Args:
        folder: of the run.
        name: of the network.
        output: folder that it goes into.
        images: test images that are corrupted.
        force: replace a folder of this name.
        data_root: of the datasets.
        progress: hears how far it is.
    """
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", name):
        raise OptionError(
            f"a name has small letters, digits and single hyphens, such as geq-digits: got {name!r}"
        )
    target = output / name
    if target.exists() and not force:
        raise CheckpointError(f"{target} exists already: choose another name, or replace it with --force")
    trained(folder)
    check_size(folder.model / WEIGHTS, (folder.model / WEIGHTS).stat().st_size)
    card = measure(folder, name, images, data_root, progress)
    with explained_write_errors(target, "Nothing was packed."):
        output.mkdir(parents=True, exist_ok=True)
        with exclusively(output):
            remove_leftovers(output, f".{name}.*.tmp")
            with tempfile.TemporaryDirectory(prefix=f".{name}.", suffix=".tmp", dir=output) as temporary:
                whole = Path(temporary) / name
                write(folder, whole, card)
                check(whole)
                replace_folder(whole, target)
    return target, card


def write(folder: RunFolder, target: Path, card: Card) -> None:
    """The files of a run without what only resuming needs, and the card."""
    packed = RunFolder(target)
    packed.model.mkdir(parents=True)
    options = replace(folder.options(), name=card.name, runs="runs", data_root=None)
    packed.describe(options, environment(folder, card), folder.data())
    packed.write_log(folder.log())
    for name in (CONFIG, WEIGHTS):
        write_durably(packed.model / name, (folder.model / name).read_bytes())
    written = json.dumps(card.as_mapping(), indent=2, ensure_ascii=False, allow_nan=False)
    write_durably(target / CARD, (written + "\n").encode())
    write_durably(target / TEXT, card_text(card).encode())


def environment(folder: RunFolder, card: Card) -> dict[str, Any]:
    """Return the environment of the run without the details of one machine."""
    found = folder.environment()
    kept = {name: found[name] for name in KEPT if name in found}
    return {"command": shlex.split(card.training.command), **kept}


def check(folder: Path) -> None:
    """Refuse a folder that is too large, or that speaks of this machine."""
    check_size(folder, disk_size(folder))
    for path in sorted(folder.rglob("*")):
        found = (
            machine_path(path.read_text(encoding="utf-8"))
            if path.is_file() and path.name != WEIGHTS
            else None
        )
        if found is not None:
            raise CheckpointError(
                f"{path.name} must not name a place of this machine, which nobody else has: got {found}; "
                "train with data that a name of 'geq data' stands for"
            )


def check_size(path: Path, size: int) -> None:
    if size > LARGEST:
        raise CheckpointError(
            f"a network in the package has at most {LARGEST:,} bytes; {path} has {size:,}: train a "
            "smaller one"
        )


def machine_path(text: str) -> str | None:
    r"""The first thing that looks like an absolute path.

    >>> machine_path('{"folder": "/home/me/x"}'), machine_path("T-shirt/top, https://a.b/c, ‖z‖/‖y‖")
    ('/home/me/x', None)
    >>> machine_path("folder=C:\\x y"), machine_path("see ~/data")
    ('C:\\x', '~/data')
    """
    found = _MACHINE_PATH.search(text)
    return None if found is None else found.group().lstrip("\"' =:,([\n\t")
