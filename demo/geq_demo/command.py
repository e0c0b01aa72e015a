"""``geq demo``: a web page on which people play with a trained network."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from geq.command.argument_parser import parse
from geq.errors import MissingExtraError

if TYPE_CHECKING:
    from geq.training.run_folder import RunFolder
    from geq.training.train_options import TrainOptions

SUMMARY = """Open a web page that explains the predictions of a trained network.

Pick or drop an image, corrupt it, follow the solver step by step, and compare two networks. Without RUN the
page shows the newest finished run, else the network that ships with geq, else it trains a small one first.
Only this machine can reach the page unless --host opens it. The page loads nothing from elsewhere."""


def declare(parser: Any) -> None:
    parser.usage = "geq demo [RUN [RUN2]] [options]"
    parser.add_argument("run", type=str, nargs="?", help="folder of a run, or its name below --runs")
    parser.add_argument("beside", type=str, nargs="?", metavar="RUN2", help="second run, shown side by side")
    parser.add_argument("--port", type=int, default=7860, help="port of the page; 0 is any free one")
    parser.add_argument("--host", type=str, default="127.0.0.1", help="address to listen on; 0.0.0.0 for all")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument("--runs", type=str, default="runs", help="folder that holds the runs")
    parser.add_argument("--data_root", type=str | None, default=None, help="folder of the datasets")


def main(arguments: list[str]) -> int:
    asked = parse("demo", SUMMARY, arguments, declare)
    from geq.training.run_folder import RunFolder

    named = [RunFolder.find(name, asked.runs) for name in (asked.run, asked.beside) if name is not None]
    try:
        import gradio  # noqa: F401 - before anything is trained
    except ImportError as problem:
        raise MissingExtraError.naming("gradio", "", "geq demo", "geq-demo") from problem

    from geq.training.train_options import TrainOptions
    from geq_demo.network_choice import gathered
    from geq_demo.server import LOCAL, checked_port, served
    from geq_demo.session import Session

    port = checked_port(asked.host, asked.port)
    if not named:
        named = [default_or_trained(TrainOptions(runs=asked.runs))]
    collection = gathered(named, asked.runs, asked.data_root)
    names = [name for name, folder in collection.folders.items() if folder in named]
    for name in names:
        collection.exhibit(name)  # what cannot be shown is an error here, and not on the page
    second = names[-1] if len(names) > 1 else None
    with (
        served(Session(collection), names[0], second, asked.host, port, asked.open) as address,
        asked_to_end() as end,
    ):
        if asked.host not in LOCAL:
            print(
                f"warning: everybody who reaches {asked.host} can use this page and upload images to it; "
                "leave --host out to keep it to this machine",
                flush=True,
            )
        print(f"{' and '.join(names)}: {address}   (Ctrl-C ends it)", flush=True)
        end.wait()
        print("stopped")
    return 0


@contextmanager
def asked_to_end() -> Iterator[threading.Event]:
    """Set by Ctrl-C, or by a request to the process to end; either way uploaded files are removed then."""
    end = threading.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, lambda *_: end.set()) for one in signals]
    try:
        yield end
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)


def default_or_trained(options: TrainOptions) -> RunFolder:
    """The newest finished run, the shipped network, or one that is trained now with these options."""
    from geq_demo.network_choice import default_run

    found = default_run(options.runs)
    if found is not None:
        return found
    from rich.console import Console

    from geq.training.fit import train

    console = Console()
    console.print(
        f"no finished run in {options.runs}/: training a small one first, about a minute", highlight=False
    )
    outcome = train(options, console)
    assert outcome is not None  # one process trains
    return outcome.folder
