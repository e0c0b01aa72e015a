"""The networks that one can choose from on the page."""

from __future__ import annotations

from geq.errors import GeqError, unknown_name
from geq.model.shipped_networks import shipped_names
from geq.training.run_folder import RunFolder, known_runs
from geq_demo.recent_cache import RecentCache
from geq_demo.served_network import Exhibit

LOADED = 4
"""Networks that are held in memory."""
PREFERRED = "geq-digits"
"""The shipped network that is shown where there is no run."""


class Collection:
    """Networks by name, each loaded on first use.

    Args:
        folders: of the runs.
        data_root: of the datasets.
    """

    def __init__(self, folders: dict[str, RunFolder], data_root: str | None = None) -> None:
        self.folders, self.data_root = folders, data_root
        self._loaded: RecentCache[Exhibit] = RecentCache(LOADED)

    @property
    def names(self) -> list[str]:
        return list(self.folders)

    def exhibit(self, name: str) -> Exhibit:
        if name not in self.folders:
            raise unknown_name("network of this page", name, self.folders)
        return self._loaded.get(name, lambda: Exhibit(name, self.folders[name]))


def gathered(named: list[RunFolder], runs: str, data_root: str | None = None) -> Collection:
    """The named runs first, then the finished ones, newest first, and the networks that come with geq."""
    found = [*named, *finished_runs(runs), *(RunFolder.find(name, runs) for name in shipped_names())]
    folders: dict[str, RunFolder] = {}
    for folder in found:
        if folder.home.resolve() not in {known.home.resolve() for known in folders.values()}:
            folders[folder.name if folder.name not in folders else folder.title] = folder
    return Collection(folders, data_root)


def finished_runs(runs: str) -> list[RunFolder]:
    """Runs that classify images and came to their end, newest first."""
    folders = [RunFolder.find(name, runs) for name in reversed(known_runs(runs))]
    return [folder for folder in folders if _is_finished(folder)]


def _is_finished(folder: RunFolder) -> bool:
    try:
        final = folder.result()
    except GeqError:  # a damaged log is no reason to show nothing at all
        return False
    return final is not None and "test_accuracy" in final and folder.model.is_dir()


def default_run(runs: str) -> RunFolder | None:
    """Return the network shown by default: the newest finished run, or the shipped network."""
    finished = finished_runs(runs)
    if finished:
        return finished[0]
    return RunFolder.find(PREFERRED, runs) if PREFERRED in shipped_names() else None
