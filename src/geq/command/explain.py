"""``geq explain RUN IMAGE…``: saliency maps, attention and solver traces of a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geq.command.argument_parser import add_dataset_options, add_json, add_quiet, chosen_data, parse
from geq.command.terminal import console_for, new_table, print_json
from geq.errors import CheckpointError, GeqError, OptionError, check_seed
from geq.number_format import percent

if TYPE_CHECKING:
    from torch import Tensor

    from geq.analysis.explanation import Explainer, Explanation
    from geq.training.run_folder import RunFolder

SUMMARY = """Explain predictions of the trained network of a run, alone or side by side with other runs.

For each image NAME.saliency.png shows Grad-CAM at the equilibrium, and for each branch the attention β of the
patches and their share in the hidden objective. NAME.RUN.equilibrium.png shows how the solver found one
equilibrium: residuals with the certified rate, the objective along the trajectory, and a slice of it around
the equilibrium. Without images it takes test images of the run's dataset."""

SHOWN = 3
"""Test images that are explained if none are named."""


def declare(parser: Any) -> None:
    parser.usage = "geq explain RUN [IMAGE ...] [options]"
    parser.add_argument(
        "run", type=str, help="folder of a run, its name below --runs, or a name of 'geq weights'"
    )
    parser.add_argument("images", type=str, nargs="*", help="image files; their middle square is used")
    parser.add_argument("--index", type=int, nargs="+", default=None, help="numbers of test images instead")
    parser.add_argument("--against", type=str, nargs="+", default=[], help="other runs, side by side")
    parser.add_argument(
        "--target",
        type=str | None,
        default=None,
        help="class to explain; default the prediction of each network",
    )
    parser.add_argument(
        "--branch", type=int | None, default=None, help="only the equilibrium of this number, from 0"
    )
    parser.add_argument(
        "--layer", type=str | None, default=None, help="layer for Grad-CAM; default the input of the head"
    )
    parser.add_argument(
        "--output", type=str | None, default=None, help="folder for the pictures; default RUN/explain"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of random directions, where the trajectory spans no plane"
    )
    parser.add_argument("--runs", type=str, default="runs", help="folder that holds the runs")
    parser.add_argument("--data_root", type=str | None, default=None, help="folder of the datasets")
    add_dataset_options(parser)
    add_json(parser)
    add_quiet(parser)


@dataclass(frozen=True)
class Item:
    """An image to explain.

    Args:
        title: what to call it in pictures.
        name: what to call it in tables.
        stem: of the names of its pictures.
        open: the image as a network takes it.
    """

    title: str
    name: str
    stem: str
    open: Callable[[Explainer], Tensor]


@dataclass
class ExplainedImage:
    """Result for an image: explanations and files, or an error."""

    item: Item
    explanations: list[Explanation]
    files: list[Path]
    error: str | None = None


def main(arguments: list[str]) -> int:
    try:
        asked = parse("explain", SUMMARY, arguments, declare)
    except OptionError as problem:
        if "unrecognized arguments" in str(problem):
            raise OptionError(f"{problem} (images come right after RUN, before the options)") from problem
        raise

    from geq.training.run_folder import RunFolder

    if asked.images and asked.index is not None:
        raise OptionError("give image files or --index, not both")
    check_seed(asked.seed)
    folders = [RunFolder.find(name, asked.runs) for name in (asked.run, *asked.against)]

    from geq.analysis.explanation import Explainer

    explainers = [Explainer(folder) for folder in folders]
    explainers[0].check(asked.branch, asked.layer)
    for explainer in explainers:
        if asked.target is not None:
            explainer.class_number(asked.target)
    items = file_items(asked.images) if asked.images else test_items(folders[0], asked)
    output = make_folder(folders[0].explanation if asked.output is None else Path(asked.output))
    outcomes = []
    for item in items:
        outcome = ExplainedImage(item, [], [])
        outcomes.append(outcome)
        try:
            explain_item(outcome, explainers, output, asked)
        except GeqError as problem:
            outcome.error = str(problem)
    if asked.json:
        print_json([as_mapping(o) for o in outcomes])
    else:
        show(outcomes, asked.quiet)
    return 1 if any(outcome.error is not None for outcome in outcomes) else 0


def from_file(path: Path) -> Callable[[Explainer], Tensor]:
    return lambda explainer: explainer.read(path)


def from_memory(image: Tensor) -> Callable[[Explainer], Tensor]:
    return lambda explainer: image


def file_items(names: list[str]) -> list[Item]:
    """Image files, with different names for their pictures."""
    items, used = [], set()
    for name in names:
        path = Path(name)
        stem, number = path.stem, 1
        while stem in used:
            number += 1
            stem = f"{path.stem}-{number}"
        used.add(stem)
        items.append(Item(path.name, str(path), stem, from_file(path)))
    return items


def test_items(folder: RunFolder, asked: Any) -> list[Item]:
    """Images of the run's test set."""
    import torch

    from geq.data.dataset import check_indices
    from geq.training.run_picture import spread_over_classes
    from geq.training.setup import open_split

    test = open_split(chosen_data(folder.options(), asked), "test")
    few = asked.index is None
    chosen = spread_over_classes(test, SHOWN) if few else check_indices(asked.index, len(test))
    items = []
    for index in dict.fromkeys(chosen.tolist()):
        image, label = test.batch(torch.tensor([index]))
        title = f"test image {index} of {test.name}"
        if label.ndim == 1:
            title += f", class {test.classes[int(label)]}"
        items.append(Item(title, f"test {index}", f"test-{index}", from_memory(image)))
    return items


def make_folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise CheckpointError(
            f"{path} cannot be made ({problem.strerror}): choose another with --output"
        ) from problem
    return path


def explain_item(outcome: ExplainedImage, explainers: list[Explainer], output: Path, asked: Any) -> None:
    """Explanations and pictures of one image."""
    from geq.analysis.equilibrium_picture import draw_equilibrium
    from geq.analysis.saliency_picture import draw_saliency

    item, images = outcome.item, []
    for number, explainer in enumerate(explainers):
        branch, layer = asked.branch, asked.layer
        if number:
            branch, layer = available(explainer, branch, layer)
        images.append(item.open(explainer))
        outcome.explanations.append(explainer.explain(images[-1], asked.target, branch, layer))
    picture = draw_saliency(item.title, images, outcome.explanations)
    outcome.files.append(keep(output / f"{item.stem}.saliency.png", picture))
    for number, (explainer, image) in enumerate(zip(explainers, images, strict=True)):
        if not explainer.model.equilibria():
            continue
        branch, _ = available(explainer, asked.branch, None)
        view = explainer.follow(image, branch or 0, asked.seed)
        title = f"{item.title}: {view.label} of {explainer.name}"
        again = sum(other.name == explainer.name for other in explainers[:number])
        name = explainer.name if not again else f"{explainer.name}-{again + 1}"
        outcome.files.append(
            keep(output / f"{item.stem}.{name}.equilibrium.png", draw_equilibrium(title, view))
        )


def available(explainer: Explainer, branch: int | None, layer: str | None) -> tuple[int | None, str | None]:
    """Branch and layer, as far as a network that is shown for comparison has them."""
    try:
        explainer.check(branch, layer)
    except GeqError:
        return None, None
    return branch, layer


def keep(path: Path, content: bytes) -> Path:
    from geq.atomic_io import explained_write_errors, write_durably

    with explained_write_errors(path, "The picture was not kept."):
        write_durably(path, content)
    return path


def as_mapping(outcome: ExplainedImage) -> dict[str, Any]:
    return {
        "image": outcome.item.name,
        "error": outcome.error,
        "files": [str(path) for path in outcome.files],
        "networks": [
            {
                "run": e.run,
                "model": e.model,
                "class": e.label,
                "confidence": e.confidence,
                "target": e.target,
                "saliency_at": e.place or None,
                "steps": e.steps,
                "residual": e.residual,
                "relative_distance_bound": e.distance,
                "notes": list(e.notes),
                "equilibria": {
                    b.label: {
                        "steps": b.steps,
                        "residual": b.residual,
                        "relative_distance_bound": b.distance,
                        "beta_mean": None if b.maps.mean is None else float(b.maps.mean.mean()),
                        "beta_least": None if b.maps.least is None else float(b.maps.least.min()),
                        "energy": None if b.maps.energy is None else float(b.maps.energy.sum()),
                    }
                    for b in e.branches
                },
            }
            for e in outcome.explanations
        ],
    }


def show(outcomes: list[ExplainedImage], quiet: bool) -> None:
    console = console_for(width=120, quiet=quiet)
    table = new_table(
        *("image", "run", "class", ">confidence", "saliency for", ">evaluations", ">residual"),
        ">‖z − z*‖/‖z‖ ≤",
    )
    for outcome in outcomes:
        for e in outcome.explanations:
            table.add_row(
                outcome.item.name,
                e.run,
                e.label,
                percent(100 * e.confidence, 1),
                e.target,
                "–" if e.steps is None else str(e.steps),
                "–" if e.residual is None else f"{e.residual:.1e}",
                "–" if e.distance is None else f"{100 * e.distance:.2g} %",
            )
    if table.row_count:
        console.print(table)
    for outcome in outcomes:
        for path in outcome.files:
            console.print(f"wrote  {path}", highlight=False, soft_wrap=True, markup=False)
    for note in dict.fromkeys(f"{e.run}: {n}" for o in outcomes for e in o.explanations for n in e.notes):
        console.print(f"note   {note}", highlight=False, soft_wrap=True, markup=False)
    for outcome in outcomes:
        if outcome.error is not None:
            console.print(
                f"error  {outcome.item.name}: {outcome.error}", highlight=False, soft_wrap=True, markup=False
            )
