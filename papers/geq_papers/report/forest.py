"""The forest plot: differences with their intervals, those that the papers print beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from geq.number_format import signed
from geq.safe_parsing import printable
from geq_papers.experiment.claim import Judgement
from geq_papers.experiment.experiment import Experiment
from geq_papers.report.svg_drawing import Figure, embedded_png

SCALE = "small"
POINTS = "points of accuracy"
UNITS = {"test_accuracy": POINTS, "corruption_accuracy": POINTS, "test_psnr": "dB of PSNR"}
"""Metric of a claim -> what its differences are in. Others are in no plot."""
PAPERS = ("geq-", "kerdeq-")
"""Experiments whose claims are shown where the paper prints a number. OptEq's are about other questions."""
ANSWERS = ("study-final-", "study-power-", "study-full-", "study-restoration-")
"""Experiments of the study that choose nothing, and whose questions are shown with what the papers claim."""
COLOURS = {"holds": "tab:green", "fails": "tab:red", "undecided at this scale": "tab:gray"}


@dataclass(frozen=True)
class ForestRow:
    """One line of the plot; above 0 speaks for the claim.

    Args:
        text, where: Claim, and the source of its experiment with the number of seeds.
        published: Difference in the paper; None where it has none.
        mean, low, high: Ours.
        verdict: What follows from ours.
    """

    text: str
    where: str
    published: float | None
    mean: float
    low: float
    high: float
    verdict: str


def forest_rows(found: list[tuple[Experiment, str, Judgement]]) -> dict[str, list[ForestRow]]:
    """Return the rows by unit: claims of the papers with a number, and the answers of the study."""
    rows: dict[str, list[ForestRow]] = {}
    for experiment, scale, judged in found:
        claim = judged.claim
        claimed = claim.published_difference is not None and experiment.name.startswith(PAPERS)
        asked = claimed or experiment.name.startswith(ANSWERS)
        if scale != SCALE or claim.metric not in UNITS or not asked or judged.verdict not in COLOURS:
            continue
        if judged.mean is None or judged.low is None or judged.high is None:
            continue
        if len(judged.seeds) < claim.seeds:
            continue  # its experiment is not complete, and a picture would decide what the verdict does not
        number = "" if experiment.source.endswith("seeds") else f", {len(judged.seeds)} seeds"
        where = f"{experiment.source}{number}"
        row = ForestRow(
            claim.text,
            where,
            claim.published_difference,
            judged.mean,
            judged.low,
            judged.high,
            judged.verdict,
        )
        rows.setdefault(UNITS[claim.metric], []).append(row)
    return rows


def draw_forest(rows: list[ForestRow], unit: str, figure: Any) -> None:
    """Draw one line for each row: a dot with its interval is ours, the hollow diamond the paper's."""
    axes = figure.subplots()
    height = len(rows)
    axes.axvline(0, color="black", linewidth=0.8)
    for place, row in enumerate(rows):
        colour = COLOURS[row.verdict]
        axes.plot([row.low, row.high], [place, place], color=colour, linewidth=2, solid_capstyle="butt")
        axes.plot([row.mean], [place], "o", color=colour, markersize=5)
        if row.published is not None:
            axes.plot([row.published], [place], "D", color="tab:blue", fillstyle="none", markersize=6)
    labels = [printable(f"{row.text}\n{row.where}") for row in rows]
    axes.set_yticks(range(height), labels, fontsize=7)
    axes.set(ylim=(height - 0.4, -0.6), xlabel=f"difference in {unit}, 95 % interval over paired seeds")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.25)
    handles = [
        *(
            axes.plot([], [], "o-", color=colour, label=f"ours: {word.partition(' ')[0]}")[0]
            for word, colour in COLOURS.items()
        ),
        axes.plot([], [], "D", color="tab:blue", fillstyle="none", label="the paper's")[0],
    ]
    axes.legend(
        handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize=8
    )


def forest_png(found: list[tuple[Experiment, str, Judgement]]) -> bytes:
    """Return the plot of all units below each other, as a file; an error where there is nothing to draw."""
    from geq.errors import DataError
    from geq.training.matplotlib_figure import new_figure, png

    parts = forest_rows(found)
    if not parts:
        raise DataError(
            "a forest plot needs claims on accuracy or PSNR with all of their seeds at scale small: there is "
            "none; see 'geq reproduce'"
        )
    sizes = [1.2 + 0.33 * len(rows) for rows in parts.values()]
    figure = new_figure(9.0, sum(sizes), "the forest plot")
    panels = figure.subfigures(len(parts), 1, squeeze=False, height_ratios=sizes)
    for panel, (unit, rows) in zip(panels[:, 0], parts.items(), strict=True):
        draw_forest(rows, unit, panel)
    return png(figure)


def forest_figures(found: list[tuple[Experiment, str, Judgement]]) -> tuple[Figure, ...]:
    """Return the plot for the page; none where there is nothing to draw."""
    parts = forest_rows(found)
    if not parts:
        return ()
    words = "; ".join(
        f"{row.text} ({row.where}): ours {signed(row.mean, 2)} from {signed(row.low, 2)} to "
        f"{signed(row.high, 2)}, published {signed(row.published, 2)}"
        for rows in parts.values()
        for row in rows
    )
    caption = (
        "Differences with Student's 95 % interval at scale small; above 0 speaks for the claim. Hollow "
        "diamonds are the papers' differences. Claims whose seeds are not complete are left out."
    )
    return (Figure("The papers and we", caption, embedded_png(forest_png(found), words), shape="wide"),)
