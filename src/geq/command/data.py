"""``geq data``: list and check datasets, and fetch or make missing ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geq.command.argument_parser import add_json, add_quiet, parse
from geq.command.terminal import BAD, GOOD, Bars, console_for, new_table, print_json
from geq.data.dataset_options import SUMMARIES, check_dataset_name, data_root
from geq.data.download_sources import SOURCES, YOURS, check_files, known_sizes, source_of
from geq.errors import DataError, GeqError, MissingDataError, unknown_name

if TYPE_CHECKING:
    from geq.data.dataset_options import Split
    from geq.data.dataset_registry import AnyDataset

USAGE = """usage: geq data ACTION [options]

actions:
  list     what is below the data root
  check    compare files with the official checksums, or read every image
  fetch    download a dataset from its official address
  corrupt  write CIFAR-10-C: 19 corruptions of the test set at 5 severities

'geq data ACTION --help' explains one action.
The data root is --data_root, else $GEQ_DATA, else a cache folder of the user."""

SPLITS: tuple[Split, ...] = ("train", "val", "test")


def declare_list(parser: Any) -> None:
    _declare_root(parser)
    add_json(parser)


def list_command(arguments: list[str]) -> int:
    """Return a table of all datasets: presence, check and sizes of the splits."""
    options = parse("data list", "What is below the data root.", arguments, declare_list)
    root = data_root(options.data_root)
    rows = []
    for name in SUMMARIES:
        sizes, problem = _sizes(name, root)
        rows.append(
            {
                "name": name,
                "summary": SUMMARIES[name],
                "there": bool(sizes),
                "checked_by": "md5" if name in SOURCES and SOURCES[name].files else "reading",
                "sizes": sizes,
                "problem": problem or None,
            }
        )
    if options.json:
        print_json({"root": str(root), "datasets": rows})
    else:
        _show(rows, root)
    return 0


def _show(rows: list[dict[str, Any]], root: Path) -> None:
    console = console_for(width=120)
    columns = ("name", "what", "there", "checked by", *SPLITS)
    unbroken = tuple(column for column in columns if column != "what")
    table = new_table(*columns, unbroken=unbroken, title=f"datasets below {root}")
    for row in rows:
        cells = [f"{row['sizes'][split]:,}" if split in row["sizes"] else "–" for split in SPLITS]
        there = f"[{GOOD}]yes[/]" if row["there"] else "yours" if row["name"] in YOURS else "no"
        table.add_row(row["name"], row["summary"], there, row["checked_by"], *cells)
    console.print(table)
    for row in rows:
        if row["problem"]:
            console.print(f"{row['name']}: {row['problem']}", style="dim", markup=False)
    absent = [row["name"] for row in rows if not row["there"] and not row["problem"]]
    fetched = [name for name in absent if name in SOURCES and SOURCES[name].downloads]
    by_hand = [name for name in absent if name in SOURCES and not SOURCES[name].downloads]
    if fetched:
        console.print(f"'geq data fetch NAME' downloads {', '.join(fetched)}", style="dim", markup=False)
    if by_hand:
        how = f"'geq data fetch NAME' says how to get {', '.join(by_hand)}"
        console.print(how, style="dim", markup=False)


def _sizes(name: str, root: Path) -> tuple[dict[Split, int], str]:
    """The sizes of the official splits that can be read, and what is wrong with the first of the others.

    A dataset that is not there has nothing wrong with it. Official files are known by their names and sizes;
    others are read, which takes seconds and torch.
    """
    sizes: dict[Split, int] = {}
    problem = ""
    if name in YOURS:
        return sizes, problem
    known = known_sizes(name, root)
    if known is not None:
        return known, problem

    from geq.data.dataset_registry import dataset_info

    for split in SPLITS:
        if split == "val" and not dataset_info(name).own_val:
            continue
        try:
            sizes[split] = len(_official(name, split, root))
        except MissingDataError:
            continue
        except GeqError as error:
            problem = problem or str(error)
    return sizes, problem


def _official(name: str, split: Split, root: Path) -> AnyDataset:
    """The split as it was published, with nothing held out."""
    from geq.data.dataset_registry import dataset_info, load_dataset

    return load_dataset(name, split, root=root, validation=None if dataset_info(name).own_val else 0)


def declare_check(parser: Any) -> None:
    parser.add_argument("names", nargs="*", help="datasets (default: all below the data root)")
    _declare_root(parser)
    add_json(parser)
    add_quiet(parser)


def check_command(arguments: list[str]) -> int:
    """Exit code 1 if anything is missing or wrong."""
    options = parse("data check", "Compare files with the official checksums.", arguments, declare_check)
    root = data_root(options.data_root)
    names = options.names or [name for name in SUMMARIES if _sizes(name, root)[0]]
    console = console_for(options.json, options.quiet)
    found: list[dict[str, str]] = []
    wrong = 0

    def say(name: str, status: str, what: str) -> None:
        found.append({"dataset": name, "status": status, "what": what})
        console.print(f"{status:8} {what}", highlight=False, markup=False, soft_wrap=True)

    for name in names:
        check_dataset_name(name)  # an unknown name is answered before anything is read
        files = check_files(name, root) if name in SOURCES else []
        for file in files:
            other = f" (md5 {file.found})" if file.status == "differs" else ""
            say(name, file.status, f"{file.path}{other}")
            wrong += file.status != "ok"
        if not files:
            wrong += _check_by_reading(name, root, say)
    if options.json:
        print_json({"root": str(root), "problems": wrong, "checked": found})
    else:
        end = "everything is right" if not wrong else f"{wrong} problems: fetch again what is named above"
        console.print(end, style=BAD if wrong else GOOD, highlight=False)
    return 1 if wrong else 0


def _check_by_reading(name: str, root: Path, say: Callable[[str, str, str], None]) -> int:
    """Read every image of every split; the number of those that cannot be read."""
    from geq.data.dataset_registry import dataset_info

    wrong = 0
    for split in SPLITS:
        if split == "val" and not dataset_info(name).own_val:
            continue
        try:
            dataset = _official(name, split, root)
        except DataError as error:
            if split == "train":
                raise
            say(name, "skipped", f"{name} {split}: {error}")
            continue
        bad = _unreadable(dataset)
        for message in bad:
            say(name, "differs", message)
        wrong += len(bad)
        say(name, "damaged" if bad else "ok", f"{name} {split}: {len(dataset) - len(bad)} images read")
    return wrong


def _unreadable(dataset: AnyDataset) -> list[str]:
    from geq.data.class_folders import FolderDataset
    from geq.data.segmentation import SegmentationDataset

    if not isinstance(dataset, FolderDataset | SegmentationDataset):
        return []
    messages = []
    for index in range(len(dataset)):
        try:
            dataset.read(index)
        except DataError as error:
            messages.append(str(error))
    return messages


def declare_fetch(parser: Any) -> None:
    parser.add_argument("names", nargs="+", help=f"names of datasets: {', '.join(SOURCES)}")
    parser.add_argument(
        "--mirror", type=str, default=None, help="address of a mirror with the same file names"
    )
    _declare_root(parser)
    add_quiet(parser)


def fetch_command(arguments: list[str]) -> int:
    words = "Download datasets from their official addresses."
    options = parse("data fetch", words, arguments, declare_fetch)
    root = data_root(options.data_root)
    console = console_for(quiet=options.quiet)
    for name in options.names:
        source_of(name)  # an unknown name is answered before anything is fetched
    from geq.data.fetch import fetch

    for name in options.names:
        with Bars(in_bytes=True, kept=True, quiet=options.quiet) as bars:
            made = fetch(name, root, mirror=options.mirror, progress=bars)
        what = ", ".join(map(str, made)) if made else f"is below {root} already"
        console.print(f"{name}: {what}", highlight=False, markup=False, soft_wrap=True)
    return 0


def declare_corrupt(parser: Any) -> None:
    parser.add_argument(
        "--output", type=Path, default=None, help="folder (default: CIFAR-10-C below the root)"
    )
    parser.add_argument("--names", nargs="+", default=None, help="corruptions (default: all 19)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the noise")
    parser.add_argument("--subset", type=int, default=None, help="number of test images, stratified")
    _declare_root(parser)
    add_quiet(parser)


def corrupt_command(arguments: list[str]) -> int:
    words = "Write CIFAR-10-C; an interrupted call resumes."
    options = parse("data corrupt", words, arguments, declare_corrupt)
    root = data_root(options.data_root)
    from geq.data.corruption.corruption_registry import corruption_names

    for name in options.names or ():
        if name not in corruption_names():
            raise unknown_name("corruption", name, corruption_names())
    from geq.data.corruption.cifar_c import FOLDER, write_cifar_c
    from geq.data.dataset import ImageDataset
    from geq.data.dataset_registry import load_dataset

    clean = load_dataset("cifar10", "test", root=root, subset=options.subset)
    assert isinstance(clean, ImageDataset)
    directory = options.output or root / FOLDER
    with Bars(kept=True, quiet=options.quiet) as bars:
        made = write_cifar_c(clean, directory, names=options.names, seed=options.seed, progress=bars)
    console = console_for(quiet=options.quiet)
    console.print(f"{len(made)} new files in {directory}", highlight=False, markup=False, soft_wrap=True)
    return 0


def _declare_root(parser: Any) -> None:
    parser.add_argument("--data_root", type=Path, default=None, help="folder that holds the datasets")


DECLARED: dict[str, Callable[[Any], None]] = {
    "list": declare_list,
    "check": declare_check,
    "fetch": declare_fetch,
    "corrupt": declare_corrupt,
}
"""The options of each action."""

ACTIONS: dict[str, Callable[[list[str]], int]] = {
    "list": list_command,
    "check": check_command,
    "fetch": fetch_command,
    "corrupt": corrupt_command,
}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    if arguments[0] not in ACTIONS:
        raise unknown_name("action of geq data", arguments[0], ACTIONS)
    return ACTIONS[arguments[0]](arguments[1:])
