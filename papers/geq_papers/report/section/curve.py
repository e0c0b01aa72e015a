"""Figures of one experiment at one scale: the training, the corruptions, the ablation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from geq.data.corruption.corruption_registry import corruption_names
from geq.number_format import Real
from geq_papers.experiment.experiment import Metric
from geq_papers.report.chart import Curve, bar_chart, line_chart
from geq_papers.report.evidence import Group
from geq_papers.report.seed_values import Sample, number
from geq_papers.report.svg_drawing import Figure

TOGETHER = 6
"""Curves in one picture; more would hide each other."""

CURVES = (
    ("validation_accuracy", "validation accuracy (%)"),
    ("validation_miou", "validation mIoU (%)"),
    ("train_accuracy", "training accuracy (%)"),
    ("train_miou", "training mIoU (%)"),
    ("train_loss", "training loss"),
)
"""Key of an epoch's line, and name of the axis; of those before the loss, only the first that is a curve."""


def training_figures(group: Group) -> list[Figure]:
    """Quality and loss over the epochs, a curve for each arm."""
    most = {key: max((len(by_epoch(group, arm, key)) for arm in group.arms), default=0) for key, _ in CURVES}
    present = [curve for curve in CURVES if most[curve[0]]]
    # What was measured at the end only is in the table already; as a picture it is a dot.
    quality = sorted(
        (curve for curve in present if curve[0] != "train_loss"), key=lambda curve: most[curve[0]] < 2
    )[:1]
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
            figures.append(Figure(title, caption, picture, tuple(curve.label for curve in chosen)))
    return figures


def spans_decades(curves: list[Curve]) -> bool:
    """Return whether only a logarithmic axis shows all of it."""
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
    return [Figure(title, caption, picture, tuple(series), "bar", "tall")]


def corruption_name(key: str) -> str:
    return key.removeprefix("corruption/").replace("_", " ")


def ablation_figures(group: Group) -> list[Figure]:
    """Each metric over the options that an ablation varies; axes "α, one" and "α, two" share a picture."""
    if group.experiment is None:
        return []
    axes: dict[str, dict[str, Mapping[str, Real]]] = {}
    for axis, arms in group.experiment.axes.items():
        name, _, label = axis.partition(", ")
        axes.setdefault(name, {})[label or "ours"] = arms
    return [
        figure
        for name, curves in axes.items()
        for metric in group.metrics
        if (figure := ablation_figure(group, name, curves, metric)) is not None
    ]


def ablation_figure(
    group: Group, name: str, axis: dict[str, Mapping[str, Real]], metric: Metric
) -> Figure | None:
    """``metric`` over ``name``, a curve for each entry of ``axis``; None with fewer than two points."""
    curves = [Curve.of(label, ablation_points(group, arms, metric)) for label, arms in axis.items()]
    curves = [curve for curve in curves if len(curve.points) > 1]
    if not curves:
        return None
    tried = [x for curve in curves for x, _ in curve.points]
    logarithmic = min(tried) > 0 and max(tried) / min(tried) >= 16
    title = f"{words(group)}: {metric.label} over {name}"
    picture = line_chart(curves, title, name, metric.head, marked=True, logarithmic_x=logarithmic)
    choose = min if metric.lower_is_better else max
    best = {curve.label: choose(curve.points, key=lambda point: mean(point[1]))[0] for curve in curves}
    ours = ", ".join(
        f"{value:g} ({label})" if len(best) > 1 else f"{value:g}" for label, value in best.items()
    )
    said = f"Mean over the seeds, and the range of the seeds. Best {name}: {ours}"
    paper = {
        float(value): found[0]
        for arms in axis.values()
        for arm, value in arms.items()
        if (found := group.published(arm, metric.key)) is not None
    }
    if len(axis) == 1 and len(paper) > 1:
        said += f"; in the paper {choose(paper, key=paper.__getitem__):g}"
    return Figure(title, f"{said}.", picture, tuple(curve.label for curve in curves))


def ablation_points(group: Group, arms: Mapping[str, Real], metric: Metric) -> dict[float, list[float]]:
    points: dict[float, list[float]] = {}
    for arm, value in arms.items():
        points.setdefault(float(value), []).extend(group.sample(arm, metric.key).values)
    return points


def mean(sample: Sample) -> float:
    return sum(sample.values) / len(sample.values)


def words(group: Group) -> str:
    return f"{group.experiment.source if group.experiment else group.name} ({group.scale})"
