"""Datasets of the Hugging Face hub on disk: Arrow tables and the notes beside them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from geq.data.hub import read_hub
from stress.fuzz.picture_target import drawn
from stress.fuzz.target import add, put, scratch

PICTURES = 3


@lru_cache(maxsize=1)
def _saved(process: str) -> tuple[Path, dict[str, bytes]]:
    import datasets

    datasets.disable_progress_bars()
    # A pool of threads for each table of three pictures takes longer than all the rest.
    datasets.arrow_dataset.thread_map = lambda read, tables, **options: list(map(read, tables))
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    )
    picture = {"bytes": drawn("RGB", "PNG", 4), "path": None}
    content = {"image": [picture] * PICTURES, "label": [n % 2 for n in range(PICTURES)]}
    folder = scratch("hub")
    datasets.Dataset.from_dict(content, features=features).save_to_disk(str(folder))
    return folder, {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def _seeds() -> list[bytes]:
    return list(_saved(str(scratch()))[1].values())


def _hub(data: bytes) -> None:
    """As the table, or as the note that is most like it."""
    folder, files = _saved(str(scratch()))
    table = next(name for name in files if name.endswith(".arrow"))
    state = b"_data_files" in data
    name = ("state.json" if state else "dataset_info.json") if data[:1] == b"{" else table
    for other, content in files.items():
        # A new file each time: the old one may still be mapped into memory.
        (folder / other).unlink(missing_ok=True)
        put(folder / other, data if other == name else content)
    read = read_hub(folder, "train")
    for index in range(min(len(read), PICTURES)):
        read.read(index)


add("hub", "a dataset of the Hugging Face hub on disk", _hub, _seeds, largest=4096, rate=0.2)
