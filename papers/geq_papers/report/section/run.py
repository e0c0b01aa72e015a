"""Results of ``geq analyze`` and ``geq explain`` in run folders: reliability, corruption, saliency."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geq.errors import DataError
from geq.number_format import shown
from geq.safe_parsing import parse_json
from geq_papers.report.chart import Bin, bar_chart, expected_error, reliability_chart
from geq_papers.report.section import Section
from geq_papers.report.seed_values import Sample, number
from geq_papers.report.svg_drawing import Figure, embedded_png

SIGNATURE = b"\x89PNG\r\n\x1a\n"
LARGEST = 3_000_000
"""Bytes of a picture that is taken into the page."""
MOST = 8
"""Saliency grids of one run."""

PICTURES = {
    "ood.png": "Scores of test images and out-of-distribution images: well separated is well detected",
    "attack.png": "Accuracy under attacks of growing strength",
}


def runs(folder: str | Path) -> Section | None:
    """A part for each run below ``folder`` that has an analysis; None if none has."""
    above = Path(folder)
    if not above.is_dir():
        raise DataError(
            f"--runs must be a folder of runs: {folder} is none; 'geq train' makes them below runs/"
        )
    found = {path.parent for name in ("analysis", "explain") for path in above.rglob(name) if path.is_dir()}
    parts: list[tuple[str, list[Figure]]] = []
    complaints: list[str] = []
    for run in sorted(found):
        name = str(run.relative_to(above)) if run != above else run.name
        figures = run_figures(run, name, complaints)
        if figures:
            parts.append((name, figures))
    if not parts and not complaints:
        return None
    return Section("analysis", "Analysis of runs", "analysis", {"runs": parts, "complaints": complaints})


def run_figures(run: Path, name: str, complaints: list[str]) -> list[Figure]:
    figures = []
    analysis = run / "analysis"
    for file, draw in (("calibration", reliability_figure), ("corruption", corruption_figure)):
        figure = None
        path = analysis / f"{file}.json"
        if path.is_file():
            try:
                figure = draw(parse_json(path.read_text(encoding="utf-8"))["values"], name)
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
                complaints.append(f"{name}/{path.name} is not an analysis that can be drawn ({problem!r})")
        if figure is None:  # the picture of the run, if it cannot be drawn again
            figure = picture(
                path.with_suffix(".png"), f"{name}: {file}", f"{file.capitalize()} of the run", complaints
            )
        figures.append(figure)
    for file, caption in PICTURES.items():
        figures.append(picture(analysis / file, f"{name}: {file.removesuffix('.png')}", caption, complaints))
    grids = sorted((run / "explain").glob("*.saliency.png"))
    for path in grids[:MOST]:
        image = path.name.removesuffix(".saliency.png")
        caption = "Grad-CAM at the equilibrium, attention and energy of the patches"
        figures.append(picture(path, f"{name}: saliency of {image}", caption, complaints))
    if len(grids) > MOST:
        complaints.append(f"{name}: {len(grids) - MOST} of {len(grids)} saliency grids")
    return [figure for figure in figures if figure is not None]


def reliability_figure(values: Mapping[str, Any], name: str) -> Figure:
    bins = [
        Bin(
            float(one["from"]),
            float(one["to"]),
            int(one["images"]),
            number(one["confidence"]) or 0.0,
            number(one["accuracy"]) or 0.0,
        )
        for one in values["bins"]
    ]
    title = f"{name}: reliability"
    caption = (
        "Accuracy of the images in bins of confidence (blue), and the gap to their mean confidence "
        "(orange); pale where fewer than 1 % of the images are. On the dashed line confidence can be "
        f"believed. Expected calibration error {shown(expected_error(bins), 3)}."
    )
    return Figure(title, caption, reliability_chart(bins, title))


def corruption_figure(values: Mapping[str, Any], name: str) -> Figure:
    series: dict[str, dict[str, Sample]] = {}
    for run, found in values["runs"].items():
        errors = {kind: Sample.of(list(each)) for kind, each in found["errors"].items()}
        series[str(run)] = {
            kind.replace("_", " "): Sample((100 - error.mean,))
            for kind, error in errors.items()
            if error.mean is not None
        }
    groups = list(dict.fromkeys(kind for found in series.values() for kind in found))
    title = f"{name}: accuracy under corruption"
    chart = bar_chart(groups, series, title, "accuracy (%)")
    return Figure(
        title,
        "Test accuracy under each corruption, mean of its severities.",
        chart,
        tuple(series),
        "bar",
        "tall",
    )


def picture(path: Path, title: str, caption: str, complaints: list[str]) -> Figure | None:
    """A PNG file as a figure; None if there is none."""
    if not path.is_file():
        return None
    content = path.read_bytes()
    if not content.startswith(SIGNATURE) or len(content) > LARGEST:
        complaints.append(f"{path.name}: not a PNG of at most {LARGEST // 1_000_000} MB")
        return None
    return Figure(
        title,
        f"{caption}.",
        embedded_png(content, f"{title}. {caption}."),
        shape="wide" if "saliency" in path.name else None,
    )
