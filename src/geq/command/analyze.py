"""``geq analyze RUN``: certificates and the bounds of the theory, computed on a trained network and its data.

Results are kept in the run's folder as ``analysis/NAME.json``.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from geq.command.argument_parser import add_dataset_options, add_json, add_quiet, nested, parse
from geq.command.terminal import BAD, GOOD, WARNING, Bars, console_for, new_table, print_json
from geq.errors import OptionError

SUMMARY = """Analyse the trained network of a run: certificates, calibration, robustness, bounds.

Without --only: certificate and calibration. The bounds of the papers are computed by --only bounds.

Each part is stored as JSON below RUN/analysis (for a name of 'geq weights' below RUNS/NAME/analysis). It is
recomputed only if the weights or the settings have changed, or with --again."""


def declare(parser: Any) -> None:
    from geq.analysis.settings import GROUPS, PARTS, Settings

    usual = Settings()
    parts = "; ".join(f"{name}: {part.summary or 'a bound'}" for name, part in PARTS.items())
    groups = "; ".join(f"{name} = {', '.join(members)}" for name, members in GROUPS.items())
    parser.usage = "geq analyze RUN [options]"
    parser.add_argument(
        "run", type=str, help="folder of a run, its name below --runs, or a name of 'geq weights'"
    )
    parser.add_argument("--runs", type=str, default="runs", help="folder that holds the runs")
    parser.add_argument(
        "--only", type=str | None, default=None, help=f"parts, separated by commas. {parts}. {groups}"
    )
    parser.add_argument("--again", action="store_true", help="recompute finished parts")
    parser.add_argument("--images", type=int, default=usual.images, help="number of test images")
    parser.add_argument(
        "--train_images",
        type=int,
        default=usual.train_images,
        help="number of training images for the margin loss",
    )
    parser.add_argument(
        "--draws", type=int, default=usual.draws, help="number of samples of a Monte-Carlo estimate"
    )
    parser.add_argument("--steps", type=int, default=usual.steps, help="number of steps of a gradient ascent")
    parser.add_argument("--margin", type=float, default=usual.margin, help="η of the margin loss")
    parser.add_argument("--confidence", type=float, default=usual.confidence, help="δ of the bounds")
    parser.add_argument("--seed", type=int, default=usual.seed, help="seed of all random number generators")
    parser.add_argument(
        "--limit",
        type=int | None,
        default=None,
        help="maximum number of test images for calibration and robustness",
    )
    parser.add_argument(
        "--bins", type=int, default=usual.bins, help="number of bins of the reliability diagram"
    )
    parser.add_argument(
        "--ood", type=str | None, default=None, help="calibration: dataset of out-of-distribution images"
    )
    parser.add_argument(
        "--ood_resize", action="store_true", help="convert its images to the network's size and channels"
    )
    parser.add_argument(
        "--reference",
        type=str | None,
        default=None,
        help="corruption: run whose errors are the reference of mCE",
    )
    parser.add_argument(
        "--beside", type=str | None, default=None, help="corruption: further runs, separated by commas"
    )
    parser.add_argument(
        "--corruptions",
        type=str | None,
        default=None,
        help="names of corruptions, or faults such as occlusion, separated by commas",
    )
    parser.add_argument(
        "--corrupted",
        type=str | None,
        default=None,
        help="corruption: folder of files like CIFAR-10-C (see geq data corrupt); by default computed",
    )
    parser.add_argument(
        "--epsilons",
        type=str,
        default=",".join(f"{epsilon:g}" for epsilon in usual.epsilons),
        help="attack: radii in steps of an 8-bit pixel, separated by commas",
    )
    parser.add_argument(
        "--attack_images", type=int, default=usual.attack_images, help="attack: maximum number of images"
    )
    parser.add_argument(
        "--attack_steps", type=int, default=usual.attack_steps, help="attack: number of steps of PGD"
    )
    parser.add_argument(
        "--attack_restarts", type=int, default=usual.attack_restarts, help="attack: number of starts of PGD"
    )
    parser.add_argument("--data_root", type=str | None, default=None, help="folder of the datasets")
    add_dataset_options(parser)
    add_json(parser)
    add_quiet(parser)


def main(arguments: list[str]) -> int:
    asked = parse("analyze", SUMMARY, arguments, declare)

    from geq.analysis.settings import GROUPS, PARTS, Settings, chosen
    from geq.training.run_folder import RunFolder

    names = chosen(None if asked.only is None else words(asked.only))
    folder = RunFolder.find(asked.run, asked.runs)
    read = {name: asked[name] for name in asdict(Settings()) if name in asked}
    read["epsilons"] = numbers(asked.epsilons, "--epsilons")
    read["beside"] = tuple(str(RunFolder.find(name, asked.runs).home) for name in words(asked.beside))
    read["corruptions"] = tuple(words(asked.corruptions))
    read["data_override"] = nested(asked, "data_override")
    if asked.reference is not None:
        read["reference"] = str(RunFolder.find(asked.reference, asked.runs).home)
    settings = Settings(**read)

    from geq.analysis.part_runner import run_parts

    bars = Bars(quiet=asked.quiet)

    def report(name: str, result: Any, new: bool) -> None:
        bars.close()
        if not asked.json and not asked.quiet:
            show(name, result, new)

    try:
        results = run_parts(folder, names, settings, report, asked.again, asked.data_root, bars)
    finally:
        bars.close()
    if asked.json:
        mapping = {name: result.as_mapping()["values"] for name, result in results.items()}
        print_json(mapping)
    elif not asked.quiet:
        print(f"kept in {folder.analysis}")
        if asked.only is None:
            rest = ", ".join(name for name in (*PARTS, *GROUPS) if name not in names)
            print(f"more by --only: {rest}")
    return 0


def words(text: str | None) -> list[str]:
    """
    >>> words("a, b"), words(None)
    (['a', 'b'], [])
    """
    return [] if text is None else [word.strip() for word in text.split(",")]


def numbers(text: str, option: str) -> tuple[float, ...]:
    """
    >>> numbers("1, 0.5", "--epsilons")
    (1.0, 0.5)
    """
    try:
        return tuple(float(word) for word in words(text))
    except ValueError:
        raise OptionError(
            f"{option} must be numbers separated by commas, such as 1,2,4: got {text}"
        ) from None


def show(name: str, result: Any, new: bool) -> None:
    from rich.text import Text

    from geq.analysis.settings import PARTS

    colours = {"violated": BAD, "holds": GOOD, "yes": GOOD, "not proved": WARNING}
    console = console_for(width=160)
    kept = "" if new else " (kept from before; --again recomputes it)"
    console.print(f"[bold]{name}[/bold] · {PARTS[name].title}{kept}", highlight=False, soft_wrap=True)
    for data in result.tables:
        first, *others = data.columns
        table = new_table(first, *(f">{column}" for column in others), title=data.title, title_justify="left")
        for row in data.rows:
            table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row))
        console.print(table)
    for note in result.notes:
        console.print(f"  {note}", highlight=False, soft_wrap=True)
    console.print()
