"""Figures of one experiment at one scale: the training, the corruptions, the ablation."""

from __future__ import annotations

from collections.abc import Iterator

from geq.data.corruption.registry import corruption_names
from geq.report.chart.bar_chart import bar_chart
from geq.report.chart.line_chart import Curve, line_chart
from geq.report.figure import Figure, legend
from geq.report.number import Sample, number
from geq.report.source import Group

TOGETHER = 6
"""Curves in one picture; more would hide each other."""

CURVES = (
    ("validation_accuracy", "validation accuracy (%)"),
    ("validation_miou", "validation mIoU (%)"),
    ("train_accuracy", "training accuracy (%)"),
    ("train_miou", "training mIoU (%)"),
    ("train_loss", "training loss"),
)
"""Key of an epoch's line, and name of the axis; of those before the loss, only the first that is there."""


def training_figures(group: Group) -> list[Figure]:
    """Quality and loss over the epochs, a curve for each arm."""
    present = [
        curve for curve in CURVES if any(curve[0] in line for one in group.records for line in one.epochs)
    ]
    quality = [curve for curve in present if curve[0] != "train_loss"][:1]
    figures = []
    for key, axis in quality + [curve for curve in present if curve[0] == "train_loss"]:
        curves = [
            Curve.of(group.labels[arm], by_epoch(group, arm, key)) for arm in group.arms if group.of(arm)
        ]
        curves = [curve for curve in curves if curve.points]
        for part, of, chosen in pieces(curves):
            counted = f", part {part} of {of}" if of > 1 else ""
            title = f"{words(group)}: {axis.split(' (')[0]}{counted}"
            picture = line_chart(chosen, title, "epoch", axis, logarithmic_y=spans_decades(chosen))
            caption = f"{axis[0].upper()}{axis[1:]} after each epoch: mean over the seeds, and their range."
            figures.append(Figure(title, caption, picture, legend([curve.label for curve in chosen])))
    return figures


def spans_decades(curves: list[Curve]) -> bool:
    """Whether only a logarithmic axis shows all of it."""
    every = [value for curve in curves for _, sample in curve.points for value in sample.values]
    return min(every) > 0 and max(every) / min(every) >= 50


def pieces(curves: list[Curve]) -> Iterator[tuple[int, int, list[Curve]]]:
    """So many at a time that they can be told apart."""
    of = -(-len(curves) // TOGETHER)
    for part in range(of):
        yield part + 1, of, curves[part * TOGETHER : (part + 1) * TOGETHER]


def by_epoch(group: Group, arm: str, key: str) -> dict[float, list[float]]:
    points: dict[float, list[float]] = {}
    for record in group.of(arm):
        for line in record.epochs:
            epoch, value = number(line.get("epoch")), number(line.get(key))
            if epoch is not None and value is not None:
                points.setdefault(epoch, []).append(value)
    return points


def corruption_figures(group: Group) -> list[Figure]:
    """The accuracy under each corruption, from metrics that are called ``corruption/NAME``."""
    present = {key for one in group.records for key in one.metrics if key.startswith("corruption/")}
    usual = [f"corruption/{name}" for name in corruption_names()]
    keys = [key for key in usual if key in present] + sorted(present - set(usual))
    if not keys:
        return []
    series = {
        group.labels[arm]: {corruption_name(key): group.sample(arm, key) for key in keys}
        for arm in group.arms
        if any(group.sample(arm, key) for key in keys)
    }
    title = f"{words(group)}: accuracy under corruption"
    caption = (
        "Test accuracy under each corruption, mean of its severities; bars are means over the seeds, "
        "the thin lines their range."
    )
    picture = bar_chart([corruption_name(key) for key in keys], series, title, "accuracy (%)")
    return [Figure(title, caption, picture, legend(list(series)))]


def corruption_name(key: str) -> str:
    return key.removeprefix("corruption/").replace("_", " ")


def ablation_figures(group: Group) -> list[Figure]:
    """Each metric over the option that an ablation varies."""
    if group.experiment is None or group.experiment.axis is None:
        return []
    name, values = group.experiment.axis
    positive = [value for value in values.values() if value > 0]
    logarithmic = len(positive) == len(values) and max(positive) / min(positive) >= 16
    figures = []
    for metric in group.metrics:
        points: dict[float, list[float]] = {}
        published: dict[float, list[float]] = {}
        for arm, value in values.items():
            points.setdefault(value, []).extend(group.sample(arm, metric.key).values)
            found = group.published(arm, metric.key)
            if found is not None:
                published[value] = [found[0]]
        ours = Curve.of("ours", points)
        if len(ours.points) < 2:
            continue
        title = f"{words(group)}: {metric.label} over {name}"
        picture = line_chart([ours], title, name, metric.head, marked=True, logarithmic_x=logarithmic)
        best = (min if metric.lower_is_better else max)(ours.points, key=lambda point: mean(point[1]))
        said = f"Mean over the seeds, and the range of the seeds. Best for {name} = {best[0]:g}"
        said += f"; published: best for {best_of(published, metric.lower_is_better):g}." if published else "."
        figures.append(Figure(title, said, picture))
    return figures


def best_of(published: dict[float, list[float]], lower: bool) -> float:
    return (min if lower else max)(published, key=lambda value: published[value][0])


def mean(sample: Sample) -> float:
    return sum(sample.values) / len(sample.values)


def words(group: Group) -> str:
    return f"{group.experiment.source if group.experiment else group.name} ({group.scale})"
