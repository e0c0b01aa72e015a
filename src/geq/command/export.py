"""``geq export RUN --onnx [FILE] --torch [FILE]``: a trained network as a file that runs without geq."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from geq.command.argument_parser import add_json, add_quiet, parse
from geq.command.terminal import console_for, print_json
from geq.errors import CheckpointError, OptionError

SUMMARY = """Write the trained network of a run as an ONNX file, as a torch.export file, or both.

Fixed points are loops that stop by tolerance, and the batch may have any size. The input is an image with
values from 0 to 1; the file normalises it. The outputs are the logits, the residual and the steps of every
equilibrium, and whether all converged. The file is compared with the network before it is written."""

ABSENT, BESIDE = "", "RUN"
"""An option that was not given, and one that was given without a file: the file is in the run's folder."""

NAMES = {"onnx": "model.onnx", "torch": "model.pt2"}


def declare(parser: Any) -> None:
    parser.usage = "geq export RUN [--onnx [FILE]] [--torch [FILE]] [options]"
    parser.add_argument("run", type=str, help="folder of a run, or its name below --runs")
    for kind, name in NAMES.items():
        parser.add_argument(
            f"--{kind}",
            type=str,
            nargs="?",
            default=ABSENT,
            const=BESIDE,
            metavar="FILE",
            help=f"write this file; without a name {name} in the run's folder",
        )
    own = "; the default is the network's own"
    parser.add_argument("--tol", type=float | None, default=None, help=f"tolerance of the equilibria{own}")
    parser.add_argument(
        "--max_steps", type=int | None, default=None, help=f"maximum number of evaluations of a map{own}"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    parser.add_argument("--images", type=int, default=64, help="number of images of the comparison")
    parser.add_argument("--runs", type=str, default="runs", help="folder that holds the runs")
    parser.add_argument("--data_root", type=str | None, default=None, help="folder of the datasets")
    add_json(parser)
    add_quiet(parser)


def main(arguments: list[str]) -> int:
    asked = parse("export", SUMMARY, arguments, declare)
    if asked.images < 1:
        raise OptionError(
            f"--images must be at least 1, or the file would not be checked: got {asked.images}"
        )

    from geq.training.run_folder import RunFolder

    folder = RunFolder.find(asked.run, asked.runs)

    from geq.export import Description, save_onnx, save_torch
    from geq.export.check import sample_images
    from geq.export.onnx_file import need_onnx
    from geq.model.network import Network
    from geq.training.device import limited_threads

    targets = chosen_files(folder.path, asked)
    if "onnx" in targets:
        need_onnx()
    state = folder.state()
    if state != "finished":
        raise CheckpointError(
            f"a network is exported once its run has finished; {folder.path} is {state}: "
            + ("wait for it" if state == "running" else f"resume it with 'geq train --resume {folder.path}'")
        )
    data, options = folder.data(), folder.options()
    network = Network.from_pretrained(folder.model)
    tune(network, asked.tol, asked.max_steps)
    images, source = sample_images(options, data.shape, asked.images, asked.data_root)
    description = Description(options.model, data.classes, data.statistics, data.shape)
    writers = {"onnx": save_onnx, "torch": save_torch}
    results = []
    with limited_threads(options, network):
        for kind, path in targets.items():
            agreement = writers[kind](network, description, images, path)
            results.append(
                {"kind": kind, "file": str(path), "bytes": path.stat().st_size, **asdict(agreement)}
            )
            if not asked.json and not asked.quiet:
                show(results[-1], source)
    if asked.json:
        print_json({"run": str(folder.path), "compared_on": source, "files": results})
    return 0


def tune(network: Any, tol: float | None, max_steps: int | None) -> None:
    """Another tolerance and number of steps for every equilibrium."""
    if tol is not None and not 0 < tol < 1:
        raise OptionError(
            f"--tol must lie between 0 and 1: got {tol}; 1e-3 is usual, 1e-6 the least in float32"
        )
    if max_steps is not None and max_steps < 1:
        raise OptionError(f"--max_steps must be at least 1: got {max_steps}")
    for layer in network.equilibria().values():
        layer.tol = layer.tol if tol is None else tol
        layer.max_steps = layer.max_steps if max_steps is None else max_steps


def chosen_files(folder: Path, asked: Any) -> dict[str, Path]:
    """The files to write; none of them may be there, unless forced, and their folders must be."""
    from geq.atomic_io import explained_write_errors
    from geq.export.output_file import check_place

    result = {}
    for kind, name in NAMES.items():
        given = getattr(asked, kind)
        if given != ABSENT:
            result[kind] = folder / name if given == BESIDE else Path(given)
    if not result:
        raise OptionError("geq export needs the kind of file: --onnx, --torch or both")
    if len(set(result.values())) < len(result):
        raise OptionError("--onnx and --torch need two different files")
    for path in result.values():
        if path.is_dir():
            raise OptionError(
                f"a file is needed; {path} is a folder: add a name, such as {path / 'model.onnx'}"
            )
        if path.exists() and not asked.force:
            raise OptionError(f"{path} exists already: give another name, or --force to replace it")
        if path.parent == folder:
            with explained_write_errors(folder, "Nothing was written."):
                folder.mkdir(parents=True, exist_ok=True)  # that of a network that comes with geq is new
        if not path.parent.is_dir():
            raise OptionError(f"the folder of the file must exist: {path.parent} does not")
        check_place(path)
    return result


def show(result: dict[str, Any], source: str) -> None:
    console = console_for()

    def line(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    line(f"{result['file']}  {result['bytes'] / 1e6:.2f} MB")
    line(f"  compared with the network on {result['images']} {source}:")
    line(f"  largest difference of a logit {result['difference']:.1e} at a tolerance of 1e-6")
    line(
        f"  {100 * result['same_class']:.1f} % the same class at its own tolerance "
        f"(logits differ by up to {result['own_difference']:.1e})"
    )
    if result["unconverged"]:
        line(f"  not converged: {result['unconverged']} images, which the output 'converged' tells")
