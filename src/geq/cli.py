"""The command ``geq``: a table of commands, each loaded only when it is called.

Nothing heavy is imported here, so ``geq --help`` answers at once.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from types import ModuleType

from geq.deferred_interrupt import interruptible
from geq.errors import GeqError, unknown_name
from geq.plugin import entry_points
from geq.standard_streams import prepare_streams, silence_output

COMMANDS: dict[str, str] = {
    "train": "train a network (without options: a small GEQ on digits), or resume a run",
    "evaluate": "measure the trained network of a run",
    "analyze": "certify the equilibria of a run, measure its calibration and robustness",
    "explain": "draw saliency maps, attention and the solver's trajectory for images",
    "predict": "classify image files with the trained network of a run",
    "export": "write the trained network of a run as an ONNX or torch.export file",
    "runs": "list the runs",
    "weights": "list the trained networks that ship with geq, or pack a run",
    "compare": "compare the options and results of runs",
    "tune": "search γ rule, patch, split and learning rate",
    "data": "list, check and fetch datasets; write corrupted images",
    "models": "list the models: size, cost, input, source, published accuracy",
    "show": "draw the architecture of a model with its shapes",
    "doctor": "check versions, devices, compiler, data and folders, with hints for each problem",
    "completion": "print a completion script for bash, zsh or fish",
}
"""Name -> one line of help. Command ``name`` lives in ``geq/command/name.py`` as ``main(arguments)``;
further ones come from other packages."""


PACKAGED: dict[str, tuple[str, str]] = {
    "reproduce": ("geq-papers", "run a table or figure of the papers and test its claims"),
    "report": ("geq-papers", "show the records of runs: claims, tables and figures on one HTML page"),
    "bench": ("geq-papers", "measure speed and memory as ratios to peers"),
    "theorems": ("geq-papers", "check the theorems of OptEq on random layers"),
    "tradeoff": (
        "geq-papers",
        "compare unrolled iterations with the implicit gradient: accuracy, time, residual",
    ),
    "demo": ("geq-demo", "open a web page to try a trained network: image, solver, attention, comparison"),
}
"""Name -> the package of this repository that brings the command, and one line of help."""


def installed_commands() -> dict[str, str]:
    """Commands of other packages: name -> "module:main", from entry points of the group ``geq.commands``."""
    return {name: target for name, target in entry_points("geq.commands").items() if name not in COMMANDS}


def command_module(name: str) -> ModuleType:
    """The module of a command, of this package or of another."""
    if name in COMMANDS:
        return import_module(f"geq.command.{name}")
    found = installed_commands()
    if name in found:
        return import_module(found[name].partition(":")[0])
    if name in PACKAGED:
        package = PACKAGED[name][0]
        raise GeqError(f"geq {name} comes with {package}, which is not installed: pip install {package}")
    raise unknown_name("command", name, [*COMMANDS, *PACKAGED, *found])


def summaries() -> dict[str, str]:
    """One line of help for each command that is installed."""
    packaged = {name: summary for name, (_, summary) in PACKAGED.items()}
    others = {
        name: f"from {target.partition(':')[0].partition('.')[0]}"
        for name, target in installed_commands().items()
    }
    return COMMANDS | {name: packaged.get(name, source) for name, source in others.items()}


def missing_packages() -> list[str]:
    """A line for each package of this repository that is not installed."""
    found = installed_commands()
    missing: dict[str, list[str]] = {}
    for name, (package, _) in PACKAGED.items():
        if name not in found:
            missing.setdefault(package, []).append(name)
    return [f"  pip install {package:<12} {', '.join(names)}" for package, names in missing.items()]


def overview() -> str:
    known, missing = summaries(), missing_packages()
    width = max(map(len, known))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in known.items()]
    return "\n".join(
        [
            "usage: geq COMMAND [options]",
            "",
            "Optimization-induced equilibrium models: write an energy, get a layer.",
            "",
            "commands:",
            *lines,
            "",
            *(["more commands:", *missing, ""] if missing else []),
            "'geq COMMAND --help' explains one command; 'geq --version' prints the version.",
        ]
    )


INTERRUPTED, BROKEN_PIPE = 130, 141
"""Exit status after Ctrl-C, and when nobody reads the output any more: as of programs that a signal ends."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; every error that is meant for a person is a line on the error stream."""
    prepare_streams()
    try:
        try:
            with interruptible():
                return run(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()  # a closed pipe shows itself here, and not at the end of the interpreter
    except GeqError as error:
        print(f"{coloured('geq: error:')} {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("geq: stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        silence_output()
        return BROKEN_PIPE
    except OSError as problem:
        if problem.errno not in SYSTEM:
            raise
        print(f"{coloured('geq: error:')} {explained(problem)}", file=sys.stderr)
        if problem.filename is None:
            silence_output()
        return 2


SYSTEM = {
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
}
"""Errors of the system that anything may meet that is given a path or prints, and what helps."""


def explained(problem: OSError) -> str:
    where = "the output" if problem.filename is None else str(problem.filename)
    cut = where if len(where) <= 100 else f"{where[:99]}…"
    return f"{cut} cannot be used ({problem.strerror}): {SYSTEM[problem.errno or 0]}"


def coloured(text: str) -> str:
    """Red on a terminal; rich, which the commands use, would take longer to load than an error to answer."""
    plain = not sys.stderr.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[1;31m{text}\x1b[0m"


def run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if arguments[0] in ("-V", "--version", "version"):
        from importlib.metadata import version  # slower to load than all the rest of this file

        print(f"geq {version('geq')}")
        return 0
    name, *rest = arguments
    return int(command_module(name).main(rest) or 0)


if __name__ == "__main__":
    sys.exit(main())
