"""The trained networks that come with the package, by name; each is a small run folder below ``weights/``."""

from __future__ import annotations

from pathlib import Path

from geq.errors import unknown_name

FOLDER = Path(__file__).resolve().parents[1] / "weights"
CARD = "card.json"


def shipped_names() -> list[str]:
    """The names, in alphabetical order.

    >>> "geq-digits" in shipped_names()
    True
    """
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{CARD}"))


def shipped_folder(name: str) -> Path:
    """The folder of a network; an unknown name is an error that names the nearest one."""
    if name not in shipped_names():
        raise unknown_name("network that comes with geq", name, shipped_names())
    return FOLDER / name


def is_shipped(path: Path) -> bool:
    """Return whether a folder is one of these, which must not be written into.

    >>> is_shipped(FOLDER / "geq-digits"), is_shipped(Path("geq-digits"))
    (True, False)
    """
    return path.resolve().parent == FOLDER
