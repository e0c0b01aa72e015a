"""Accuracy under the 19 corruptions of CIFAR-10-C at five severities (GEQ and KerDEQ, figure 2).

E(c, s) is the error in % under corruption c at severity s. Reported are its means over severities and over
corruptions, and, with a reference run R, what Hendrycks & Dietterich (2019) define:

    CE(c) = Σ_s E(c, s) / Σ_s E_R(c, s),    relative CE(c) = Σ_s (E(c, s) − E) / Σ_s (E_R(c, s) − E_R)

with the clean errors E and E_R, and their means over c, mCE and relative mCE. Without a reference, the clean
error of the run itself takes its place: mean E(c, s) / E.

Every E(c, s) is stored as soon as it is known; an interrupted sweep resumes from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from geq.analysis.analysed_network import Subject
from geq.analysis.part_runner import weights_key
from geq.analysis.partial_results import Pieces
from geq.analysis.result import Result, TextTable
from geq.analysis.result_pictures import draw_corruptions
from geq.atomic_io import explained_write_errors
from geq.data.corruption import SEVERITIES, corrupt, corruption_names
from geq.data.corruption.cifar_c import read_cifar_c
from geq.data.corruption.corruption_registry import ALL_GROUPS, known_names
from geq.data.dataset import Dataset, Derived, Labelled
from geq.data.splits import first_classes, stratified
from geq.errors import DataError, InputError, unknown_name
from geq.number_format import shown
from geq.training.device import limited_threads
from geq.training.evaluation import evaluate
from geq.training.run_folder import RunFolder
from geq.training.train_options import stored

CLEAN = "clean"


@dataclass(frozen=True)
class Sweep:
    """Errors in %.

    Args:
        clean: on the images as they are.
        errors: under each corruption, at severities 1 to 5.
    """

    clean: float
    errors: dict[str, tuple[float, ...]]

    def error(self, name: str) -> float:
        """Mean over severities."""
        return sum(self.errors[name]) / len(self.errors[name])

    def mean_error(self, names: tuple[str, ...] | None = None) -> float:
        chosen = tuple(self.errors) if names is None else names
        return sum(map(self.error, chosen)) / len(chosen)

    def corruption_error(self, name: str, reference: Sweep) -> float:
        """CE(c); NaN where the reference makes no error."""
        return ratio(self.error(name), reference.error(name))

    def relative_error(self, name: str, reference: Sweep) -> float:
        """Relative CE(c); NaN where the reference does not get worse."""
        return ratio(self.error(name) - self.clean, reference.error(name) - reference.clean)


def ratio(above: float, below: float) -> float:
    """
    >>> ratio(1.0, 2.0), ratio(1.0, 0.0)
    (0.5, nan)
    """
    return above / below if below > 0 else math.nan


def mean_of_known(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


@dataclass(frozen=True)
class Corrupted(Derived):
    """Chosen images of a dataset, corrupted when they are read; each by its number in the whole dataset, so
    that an image is the same in a sweep of few and in one of all.
    """

    chosen: Int64[Tensor, " m"]
    corruption: str
    severity: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.source.name}/{self.corruption}/{self.severity}"

    def __len__(self) -> int:
        return len(self.chosen)

    def batch(self, indices: Int64[Tensor, " b"]) -> tuple[UInt8[Tensor, "b c h w"], Int64[Tensor, " b"]]:
        numbers = self.chosen[indices]
        images, labels = self.source.batch(numbers)
        pictures = np.ascontiguousarray(images.permute(0, 2, 3, 1).numpy())
        changed = [
            corrupt(picture[None], self.corruption, self.severity, self.seed, first_index=number)
            for picture, number in zip(pictures, numbers.tolist(), strict=True)
        ]
        return torch.from_numpy(np.concatenate(changed)).permute(0, 3, 1, 2).contiguous(), labels


def chosen_images(test: Labelled, limit: int | None) -> Int64[Tensor, " m"]:
    """Return the numbers of the images to use, with the class shares of the whole."""
    if limit is None or limit >= len(test):
        return torch.arange(len(test))
    return stratified(test.labels, limit, seed=0)[0]


def chosen_corruptions(names: tuple[str, ...]) -> tuple[str, ...]:
    """In the order of the registry; the 19 of CIFAR-10-C where none is named.

    >>> chosen_corruptions(("frost", "shot_noise"))
    ('shot_noise', 'frost')
    """
    for name in names:
        if name not in known_names():
            raise unknown_name("corruption", name, known_names())
    return tuple(name for name in known_names() if name in (names or corruption_names()))


def from_files(subject: Subject, folder: Path, test: Labelled, name: str, severity: int) -> Labelled:
    """One file's images, in the classes of the run; they must belong to its test images."""
    whole = read_cifar_c(folder, name, severity)
    classes = subject.options.data_override.get("classes", "all")
    if classes != "all":
        parts = first_classes(whole)
        whole = parts.known if classes == "known" else parts.unseen
    if not torch.equal(whole.labels, test.labels):
        raise DataError(
            f"{folder} must hold the test images of the run, in their order: it has {len(whole)} with other "
            f"labels than the {len(test)} of {test.name}; leave --corrupted out to compute the corruptions"
        )
    return whole


def sweep(subject: Subject) -> Sweep:
    """Measure a run under every corruption, or as much of it as is not kept already."""
    settings = subject.settings
    test = subject.labelled("test")
    chosen = chosen_images(test, settings.limit)
    folder = None if settings.corrupted is None else Path(settings.corrupted)
    key = {
        "weights": weights_key(subject.folder),
        "data": subject.options.data,
        "data_override": stored(subject.options.data_override),
        "images": len(chosen),
        "source": "computed" if folder is None else str(folder.resolve()),
        "seed": settings.seed if folder is None else None,
    }
    pieces = Pieces(subject.folder, "corruption", key, subject.again)
    names = chosen_corruptions(settings.corruptions)
    cases = [(CLEAN, 0), *((name, severity) for name in names for severity in SEVERITIES)]

    def images_of(name: str, severity: int) -> Dataset:
        if name == CLEAN:
            return test.subset(chosen)
        if folder is None:
            return Corrupted(test, chosen, name, severity, settings.seed)
        return from_files(subject, folder, test, name, severity).subset(chosen)

    what = f"corruptions of {subject.folder.name}"
    with limited_threads(subject.options, subject.model):
        for number, (name, severity) in enumerate(cases):
            if label(name, severity) not in pieces.values:
                found = evaluate(subject.model, subject.loader(images_of(name, severity)))
                pieces.put(label(name, severity), {"error": 100 - found.accuracy, **found.as_mapping()})
            subject.progress(what, number + 1, len(cases))
    errors = {case: float(value["error"]) for case, value in pieces.values.items()}
    return Sweep(
        errors[CLEAN],
        {name: tuple(errors[label(name, s)] for s in SEVERITIES) for name in names},
    )


def label(name: str, severity: int) -> str:
    return name if name == CLEAN else f"{name}/{severity}"


def analyse(subject: Subject) -> Result:
    settings = subject.settings
    others = {}
    for path in other_paths(subject):
        weights_key(
            RunFolder.find(path)
        )  # a run that is not finished is an error before anything is computed
        others[path] = subject.beside(path)
        check_comparable(subject, others[path])
    found = {subject.folder.name: sweep(subject)}
    reference = None
    for path, other in others.items():
        name = other.folder.name if other.folder.name not in found else path
        found[name] = sweep(other)
        reference = name if path == settings.reference else reference
    folder = subject.folder.analysis
    with explained_write_errors(folder, "What was measured is kept."):
        folder.mkdir(parents=True, exist_ok=True)
        draw_corruptions(
            {name: (one.clean, {c: one.error(c) for c in one.errors}) for name, one in found.items()},
            folder / "corruption.png",
            f"{subject.options.data}: accuracy under corruption, mean of 5 severities",
        )
    mine = found[subject.folder.name]
    against = None if reference is None else found[reference]
    values = {"runs": {name: figures(one, against) for name, one in found.items()}, "reference": reference}
    tables = (summary_table(values, found), corruption_table(values, mine, against))
    return Result(values, tables, notes(values, reference, mine))


def other_paths(subject: Subject) -> list[str]:
    paths = [path for path in (subject.settings.reference, *subject.settings.beside) if path is not None]
    return [path for path in dict.fromkeys(paths) if Path(path).resolve() != subject.folder.path.resolve()]


def check_comparable(subject: Subject, other: Subject) -> None:
    ours, theirs = subject.folder.data(), other.folder.data()
    if (ours.name, ours.shape, ours.classes) != (theirs.name, theirs.shape, theirs.classes):
        raise InputError(
            "runs side by side must be measured on the same images: "
            f"{subject.folder.name} has {ours.name} ({len(ours.classes)} classes, {ours.shape}), "
            f"{other.folder.name} has {theirs.name} ({len(theirs.classes)} classes, {theirs.shape})"
        )


def figures(one: Sweep, reference: Sweep | None) -> dict[str, Any]:
    """Every number of a sweep."""
    names = tuple(one.errors)
    result: dict[str, Any] = {
        "clean_error": one.clean,
        "errors": {name: list(one.errors[name]) for name in names},
        "mean_error": one.mean_error(),
        "group_error": group_errors(one),
        "error_over_clean": ratio(one.mean_error(), one.clean),
        "lost_accuracy": one.mean_error() - one.clean,
    }
    if reference is not None:
        ce = {name: one.corruption_error(name, reference) for name in names}
        relative = {name: one.relative_error(name, reference) for name in names}
        result |= {
            "ce": ce,
            "relative_ce": relative,
            "mce": mean_of_known(list(ce.values())),
            "relative_mce": mean_of_known(list(relative.values())),
        }
    return result


def group_errors(one: Sweep) -> dict[str, float]:
    """Mean error of each group of corruptions, where there are some."""
    members = {
        group: tuple(name for name in names if name in one.errors) for group, names in ALL_GROUPS.items()
    }
    return {group: one.mean_error(names) for group, names in members.items() if names}


def summary_table(values: dict[str, Any], found: dict[str, Sweep]) -> TextTable:
    rows = []
    for name in found:
        one = values["runs"][name]
        rows.append(
            (
                name + (" (reference)" if name == values["reference"] else ""),
                f"{one['clean_error']:.2f} %",
                f"{one['mean_error']:.2f} %",
                *(f"{error:.2f} %" for error in one["group_error"].values()),
                shown(one["error_over_clean"], 2),
                shown(one.get("mce"), 3),
                shown(one.get("relative_mce"), 3),
            )
        )
    groups = list(next(iter(values["runs"].values()))["group_error"])
    columns = ("run", "clean error", "mean error", *groups, "mean / clean", "mCE", "relative mCE")
    return TextTable("Errors under corruption, means of 5 severities", columns, tuple(rows))


def corruption_table(values: dict[str, Any], mine: Sweep, reference: Sweep | None) -> TextTable:
    rows = []
    for name, errors in mine.errors.items():
        row = [name, *(f"{error:.1f}" for error in errors), f"{mine.error(name):.2f}"]
        if reference is not None:
            row += [
                shown(mine.corruption_error(name, reference)),
                shown(mine.relative_error(name, reference)),
            ]
        rows.append(tuple(row))
    columns = ["corruption", *(f"severity {s}" for s in SEVERITIES), "mean"]
    if reference is not None:
        columns += ["CE", "relative CE"]
    return TextTable("Error in %", tuple(columns), tuple(rows))


def notes(values: dict[str, Any], reference: str | None, mine: Sweep) -> list[str]:
    worst = max(mine.errors, key=mine.error)
    said = [f"The worst corruption is {worst}: error {mine.error(worst):.2f} %."]
    if reference is not None:
        undefined = [
            name for name, value in values["runs"][reference]["relative_ce"].items() if math.isnan(value)
        ]
        if undefined:
            said.append(
                f"relative mCE leaves out {', '.join(undefined)}, which do not make {reference} worse."
            )
    said.append("Picture: analysis/corruption.png in the run's folder.")
    return said
