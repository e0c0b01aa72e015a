"""One picture of one equilibrium: how fast it is found, how the objective falls, what it looks like there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geq.analysis.explanation import EquilibriumView
from geq.analysis.landscape import Landscape, log_floor
from geq.analysis.solver_trace import Trace
from geq.training.matplotlib_figure import new_figure, png

OWN, PLAIN, PROMISE = "#0072B2", "#D55E00", "#009E73"
"""Blue, vermilion and green of Okabe and Ito, distinct for every kind of colour vision."""
GREY = "#8C8C8C"


def draw_equilibrium(title: str, view: EquilibriumView) -> bytes:
    """A PNG: residuals; with a hidden problem also the objective along the way and around z*."""
    panels = 1 if view.landscape is None else 3
    figure = new_figure(7.0 if panels == 1 else 17.0, 5.5, "pictures of explanations", "explain")
    figure.suptitle(title, fontsize=12, fontweight="bold")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    draw_residuals(axes[0], view)
    if view.landscape is not None:
        draw_energies(axes[1], view.trace)
        draw_landscape(figure, axes[2], view.landscape, view.trace)
    return png(figure)


def evaluations(values: Float[Tensor, " n"]) -> np.ndarray:
    return np.arange(1, len(values) + 1)


def draw_residuals(axis: Any, view: EquilibriumView) -> None:
    found = view.trace
    draw_others(axis, view)
    promised = found.promised()
    if promised is not None and found.rate is not None:
        axis.plot(
            evaluations(promised),
            positive(promised / found.norm),
            ":",
            color=PROMISE,
            linewidth=2,
            label=f"promised to the plain iteration: × {found.rate:.3f} each",
        )
    plain, own = found.plain.residual / found.norm, found.own.residual / found.norm
    axis.plot(evaluations(plain), positive(plain), "s--", color=PLAIN, markersize=4, label="plain iteration")
    axis.plot(evaluations(own), positive(own), "o-", color=OWN, markersize=5, label=f"solver, {view.label}")
    axis.axhline(found.tolerance, color="black", linewidth=0.8, label=f"tolerance {found.tolerance:g}")
    axis.set(yscale="log", xlabel="evaluations of the map", ylabel="residual ‖z − T(z)‖ / ‖z*‖")
    finish(axis, "Residual")


def draw_others(axis: Any, view: EquilibriumView) -> None:
    """The other equilibria in grey; those that end with the same evaluation share one label, best last."""
    ends: dict[int, list[tuple[float, str]]] = {}
    for number, (label, way) in enumerate(view.others.items()):
        values = positive(way.residual / (float(way.points[-1].norm()) or 1.0))
        words = "solver, other equilibria" if number == 0 else "_"
        axis.plot(evaluations(way.residual), values, color=GREY, linewidth=1, label=words)
        ends.setdefault(len(values), []).append((float(values[-1]), label.removeprefix("branch ")))
    for last, found in ends.items():
        ordered = sorted(found, reverse=True)
        axis.annotate(
            ", ".join(label for _, label in ordered),
            (last, ordered[0][0]),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=8,
            color="#505050",
            va="center",
        )


def draw_energies(axis: Any, found: Trace) -> None:
    assert found.energy is not None
    for way, style, colour, label in (
        (found.plain, "s--", PLAIN, "plain iteration"),
        (found.own, "o-", OWN, "solver"),
    ):
        assert way.energy is not None
        excess = way.energy - found.energy
        axis.plot(evaluations(excess), positive(excess), style, color=colour, markersize=5, label=label)
    axis.set(yscale="log", xlabel="evaluations of the map", ylabel="energy above its minimum, G(z) − G(z*)")
    promise = (
        "plain iteration is proved to lower it with each step"
        if found.descends
        else "the weights do not prove that the plain iteration lowers it"
    )
    finish(axis, "Hidden objective", promise)


def draw_landscape(figure: Any, axis: Any, around: Landscape, found: Trace) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import LogLocator

    top = float(around.energy.max())
    least = float(around.energy[around.energy > 0].min()) if top > 0 else 0.0
    floor = max(log_floor(around.energy, 6), least)
    values = around.energy.clamp_min(floor).numpy()
    across, along = around.across.numpy(), around.along.numpy()
    if top > floor:
        levels = np.geomspace(floor, top, 19)
        shown = axis.contourf(
            across, along, values, levels=levels, norm=LogNorm(floor, top), cmap="cividis", extend="min"
        )
        axis.contour(across, along, values, levels=levels, colors="white", linewidths=0.4, alpha=0.6)
        bar = figure.colorbar(shown, ax=axis, ticks=LogLocator(numticks=7), format="%.0e")
        bar.set_label("G − G(z*)", fontsize=9)
    else:
        axis.text(0.5, 0.5, "the objective is flat here", ha="center", transform=axis.transAxes)
    for way, style, colour, label in (
        (found.plain, "s--", PLAIN, "plain iteration"),
        (found.own, "o-", "white", "solver"),
    ):
        where = around.plane.coordinates(way.points).numpy()
        axis.plot(
            where[:, 0],
            where[:, 1],
            style,
            color=colour,
            markersize=4,
            linewidth=1.3,
            markeredgecolor="black",
            markeredgewidth=0.5,
            label=label,
        )
    axis.plot([0], [0], "*", color="#F0E442", markersize=15, markeredgecolor="black", label="z*")
    axis.set(xlim=(across[0], across[-1]), ylim=(along[0], along[-1]))
    axis.set(xlabel=direction(around, 0), ylabel=direction(around, 1))
    finish(
        axis,
        "Around the equilibrium",
        f"the plane holds {100 * around.plane.captured:.1f} % of the trajectory; the axes differ in scale",
    )
    legend = axis.get_legend()
    legend.set_frame_on(True)
    legend.get_frame().set(facecolor="#B0B0B0", alpha=0.85, edgecolor="none")
    axis.grid(False)


def direction(around: Landscape, axis: int) -> str:
    names = ("first", "second")
    if axis < around.plane.principal:
        return f"{names[axis]} principal direction of the way"
    return "random direction"


def positive(values: Float[Tensor, " n"]) -> np.ndarray:
    """For a logarithmic axis: what rounding made zero or negative is left out."""
    return torch.where(values > 0, values, torch.nan).double().numpy()


def finish(axis: Any, title: str, below: str | None = None) -> None:
    axis.set_title(title if below is None else f"{title}\n{below}", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)
    # Below, because inside no corner is free in every picture.
    axis.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3)
    if "evaluations" in axis.get_xlabel():
        axis.xaxis.get_major_locator().set_params(integer=True)
