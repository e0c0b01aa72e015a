"""The middle part of a panel: the state after step k of a solve, and how far it is from its equilibrium."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geq.analysis.solver_trace import Trace, Way
from geq.number_format import shown
from geq_demo.markup import Markup, coloured, drawn, element, figure, scale
from geq_demo.step_chart import Line, step_chart

Kind = Literal["solver", "plain"]
STATE, DISTANCE = "cividis", "inferno"
CHANNELS = 24
"""Channels of a state that are drawn, those that matter most at the equilibrium."""
DECADES = 4
"""Powers of ten that the picture of the distance tells apart."""
GAP = 1
"""Pixels between the channels."""
EMPTY_PLACE = 128


def way_of(trace: Trace, kind: Kind) -> Way:
    return trace.own if kind == "solver" else trace.plain


def steps_of(trace: Trace, kind: Kind) -> int:
    return len(way_of(trace, kind).points)


def settling_part(trace: Trace, part: int | None, kind: Kind, step: int) -> Markup:
    """
    Args:
        trace: of the equilibrium.
        part: which part of its state, where it has several.
        kind: whose way.
        step: from 1 to the number of steps.
    """
    way = way_of(trace, kind)
    step = max(1, min(step, len(way.points)))
    point, end = way.points[step - 1], trace.equilibrium
    left = float((point - end).norm()) / trace.norm
    here, there = part_of(point, trace, part), part_of(end, trace, part)
    pictures = [
        figure(
            drawn(mosaic(here, there), f"the state after step {step}"),
            f"State after step {step}",
            f"{min(len(here), CHANNELS)} of {len(here)} channels"
            if len(here) > CHANNELS
            else "one square per channel",
        ),
        figure(
            drawn(distance_map(here, there), f"distance from the equilibrium after step {step}"),
            "Still to go",
            f"{percent(left)} of the whole state",
        ),
    ]
    return element(
        "div",
        [
            element("div", [*pictures], {"class": "maps wide"}),
            scale(DISTANCE, f"still to go: {100 * 10.0**-DECADES:g} %", "100 %"),
            element("div", charts(trace, kind, step), {"class": "charts"}),
            legend(trace),
        ],
        {"class": "geq settling", "data-step": str(step)},
    )


def percent(share: float) -> str:
    """
    >>> percent(0.5), percent(0.00012), percent(float("nan"))
    ('50 %', '0.012 %', '–')
    """
    return f"{100 * share:.2g} %" if math.isfinite(share) else shown(None)


def part_of(
    point: Float[Tensor, " size"], trace: Trace, part: int | None
) -> Float[Tensor, "channels rows columns"]:
    """One part of a flattened state, as a stack of maps; a state without places is a column of numbers."""
    number = part or 0
    sizes = [math.prod(shape) for shape in trace.shapes]
    chosen = point[sum(sizes[:number]) : sum(sizes[: number + 1])]
    shape = trace.shapes[number]
    return chosen.view(shape) if len(shape) == 3 else chosen.view(-1, 1, 1)


def mosaic(here: Float[Tensor, "c h w"], end: Float[Tensor, "c h w"]) -> np.ndarray:
    """The channels side by side; order and colours are those of the equilibrium, so that steps compare."""
    order = end.flatten(1).norm(dim=1).argsort(descending=True, stable=True)[:CHANNELS]
    low, high = float(end.min()), float(end.max())
    if not high > low:
        high = low + 1.0
    columns = math.ceil(math.sqrt(1.5 * len(order)))
    rows = math.ceil(len(order) / columns)
    height, width = here.shape[-2:]
    whole = np.full(
        (rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, 3), EMPTY_PLACE, dtype=np.uint8
    )
    for position, channel in enumerate(order.tolist()):
        top, left = (height + GAP) * (position // columns), (width + GAP) * (position % columns)
        values = here[channel].double().numpy()
        whole[top : top + height, left : left + width] = coloured(values, STATE, low, high)
    return whole


def distance_map(here: Float[Tensor, "c h w"], end: Float[Tensor, "c h w"]) -> np.ndarray:
    """‖z − z*‖ of each place relative to the largest ‖z*‖ of a place, on a logarithmic scale."""
    whole = float(end.norm(dim=0).max()) or 1.0
    share = ((here - end).norm(dim=0) / whole).clamp_min(10.0**-DECADES)
    return coloured(torch.log10(share).double().numpy(), DISTANCE, -float(DECADES), 0.0)


def charts(trace: Trace, kind: Kind, step: int) -> list[Markup]:
    lines = [
        Line(f"{name}", tuple((way.residual / trace.norm).tolist()), name == kind)
        for name, way in (("plain", trace.plain), ("solver", trace.own))
    ]
    found = [step_chart("How much still moves (residual)", lines, step, trace.tolerance)]
    if trace.energy is not None and trace.own.energy is not None and trace.plain.energy is not None:
        lines = [
            Line(name, tuple((energy - trace.energy).tolist()), name == kind)
            for name, energy in (("plain", trace.plain.energy), ("solver", trace.own.energy))
        ]
        found.append(step_chart("Energy above its minimum", lines, step, None))
    return found


def legend(trace: Trace) -> Markup:
    """Return the legend of the lines, with what is proved about them."""
    entries = [
        element("span", "the model's solver", {"class": "key solver"}),
        element("span", "plain repetition", {"class": "key plain"}),
        element("span", "good enough: it stops", {"class": "key stop"}),
    ]
    words = ""
    if trace.energy is not None:
        words = (
            "Proved: every plain repetition lowers the energy."
            if trace.descends
            else "That every plain repetition lowers the energy is not proved here."
        )
    return element(
        "div", [element("div", entries, {"class": "keys"}), element("p", words, {"class": "quiet"})]
    )
