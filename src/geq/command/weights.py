"""``geq weights``: the trained networks that come with geq, and how a finished run becomes one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from geq.command.argument_parser import add_json, add_quiet, parse
from geq.command.terminal import Bars, console_for, new_table, print_json
from geq.errors import OptionError
from geq.number_format import percent

SUMMARY = """List the trained networks that ship with geq, print the card of one, or pack a finished run.

Other commands take their names in place of a run: geq predict geq-digits picture.png. --pack RUN measures
accuracy, calibration, robustness and certificate of a run. It writes them, with the weights and a card, into
a folder of at most 1 MB, which 'geq predict' and other commands take as well."""


def declare(parser: Any) -> None:
    parser.usage = "geq weights [NAME] [options]"
    parser.add_argument(
        "network", type=str | None, nargs="?", default=None, help="name of the network whose card to print"
    )
    parser.add_argument(
        "--pack",
        type=str | None,
        default=None,
        metavar="RUN",
        help="measure a finished run and write its folder: a folder of a run, or its name below --runs",
    )
    parser.add_argument("--name", type=str | None, default=None, help="with --pack: name of the network")
    parser.add_argument("--output", type=str, default="weights", help="with --pack: where its folder is made")
    parser.add_argument(
        "--images", type=int, default=1000, help="with --pack: number of test images for the corruptions"
    )
    parser.add_argument("--force", action="store_true", help="with --pack: replace a folder of this name")
    parser.add_argument("--runs", type=str, default="runs", help="folder that holds the runs")
    parser.add_argument("--data_root", type=str | None, default=None, help="folder of the datasets")
    add_json(parser)
    add_quiet(parser)


def main(arguments: list[str]) -> int:
    asked = parse("weights", SUMMARY, arguments, declare)
    if asked.pack is not None:
        if asked.name is None or asked.network is not None:
            raise OptionError("geq weights --pack RUN needs --name NAME, and nothing else beside its options")
        pack_run(asked)
    elif asked.name is not None:
        raise OptionError(f"--name goes with --pack RUN; 'geq weights {asked.name}' prints a card")
    elif asked.network is not None:
        show_card(asked.network, asked.json)
    else:
        show_list(asked.json)
    return 0


def pack_run(asked: Any) -> None:
    from geq.training.run_folder import RunFolder
    from geq.weights.card import disk_size
    from geq.weights.pack import pack

    with Bars(quiet=asked.quiet) as bars:
        folder, card = pack(
            RunFolder.find(asked.pack, asked.runs),
            asked.name,
            Path(asked.output),
            asked.images,
            asked.force,
            asked.data_root,
            bars,
        )
    if asked.json:
        print_json({"folder": str(folder), "card": card.as_mapping()})
        return
    console = console_for(quiet=asked.quiet)
    console.print(f"wrote  {folder}  ({disk_size(folder):,} bytes)", highlight=False, soft_wrap=True)
    console.print(
        f"accuracy {card.test.accuracy:.2f} %   ECE {card.calibration.ece:.2f} %   under corruption "
        f"{card.corruption.accuracy:.2f} % ({card.corruption.images:,} images)",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"next   geq predict {folder} IMAGE", highlight=False, soft_wrap=True)


def show_card(name: str, as_json: bool) -> None:
    from rich.markdown import Markdown

    from geq.model.shipped_networks import shipped_folder
    from geq.weights.card import model_card, read_card

    card = read_card(shipped_folder(name))
    if as_json:
        print_json(card.as_mapping())
        return
    console = console_for()
    text = model_card(card).text.lstrip("\n")
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        print(text)


def show_list(as_json: bool) -> None:
    from geq.model.shipped_networks import shipped_folder
    from geq.weights.card import disk_size, shipped_cards

    rows: list[dict[str, Any]] = [
        {
            "name": card.name,
            "data": card.data,
            "model": card.model,
            "parameters": card.parameters,
            "accuracy": card.test.accuracy,
            "ece": card.calibration.ece,
            "corruption_accuracy": card.corruption.accuracy,
            "bytes": disk_size(shipped_folder(card.name)),
        }
        for card in shipped_cards()
    ]
    if as_json:
        print_json(rows)
        return
    columns = ("name", "data", "parameters", "accuracy", "ECE", "corrupted", "on disk")
    table = new_table(
        *columns[:2],
        *(f">{column}" for column in columns[2:]),
        unbroken=columns,
        caption="accuracy on the test images; corrupted: mean over 19 corruptions at 5 severities; "
        "'geq weights NAME' says more",
    )
    for row in rows:
        table.add_row(
            row["name"],
            row["data"],
            f"{row['parameters']:,}",
            percent(row["accuracy"]),
            percent(row["ece"]),
            percent(row["corruption_accuracy"]),
            f"{row['bytes'] / 1000:.0f} kB",
        )
    console = console_for(width=100)
    console.print(table)
