"""Asking a layer, and judging what it says: right, said otherwise, or wrong in silence."""

from __future__ import annotations

import contextlib
import enum
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from geq.equilibrium import Equilibrium
from geq.errors import ConvergenceWarning, GeqError
from geq.solvers import FISTA, ProximalGradient, Solution
from stress.number.literal import LiteralMap, norm
from stress.part import Row

ROUNDING = 64
"""Units of rounding, of the numbers that are added up, by which a residual may differ from one computed in
double precision.
"""
SLACK = 1.01
"""Of the tolerance itself: the norms in it are rounded as well."""


class Verdict(enum.Enum):
    RIGHT = "right"
    SAID = "said otherwise"
    SILENT = "WRONG IN SILENCE"


@dataclass
class Tally:
    """What became of the cases of one kind."""

    what: str
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, case: str, verdict: Verdict, words: str = "") -> None:
        self.verdicts[verdict] += 1
        if verdict is Verdict.SAID:
            self.said[words] += 1
        if verdict is Verdict.SILENT:
            self.wrong.append(f"{case}: {words}")

    def must(self, case: str, holds: bool, words: str = "") -> None:
        """A case that is right or wrong, with nothing to say in between."""
        self.add(case, Verdict.RIGHT if holds else Verdict.SILENT, words)

    def ask(self, case: str, question: Callable[[], None]) -> None:
        """Run it; an error of geq is an answer, and so is one of torch about shapes or singular matrices."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ConvergenceWarning)
                question()
        except (GeqError, ConvergenceWarning, torch.linalg.LinAlgError) as said:
            self.add(case, Verdict.SAID, type(said).__name__)

    def row(self) -> Row:
        tried = self.verdicts.total()
        silent = self.verdicts[Verdict.SILENT]
        right, said = self.verdicts[Verdict.RIGHT], self.verdicts[Verdict.SAID]
        note = f"{right:,} right, {said:,} said otherwise" + (f"; {self.wrong[0]}" if self.wrong else "")
        detail: dict[str, Any] = {"right": right, "said": dict(self.said), "wrong": self.wrong[:20]}
        return Row(self.what, tried, tried - silent, note, detail)


def residual(layer: Equilibrium, context: Any, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """‖T(z) − z‖, ‖T(z)‖ and the size of the numbers that rounding acts on, all in double precision."""
    image = LiteralMap(layer, context)(z)
    return norm(image.value - z.double()), norm(image.value), image.scale


def allowed(tol: float, image: Tensor, scale: Tensor, dtype: torch.dtype, size: int) -> Tensor:
    """The residual that a claim to ``tol`` permits."""
    numbers = torch.finfo(dtype)
    floor = size**0.5 * numbers.tiny  # below it numbers have no digits to be relative to
    return SLACK * tol * image + ROUNDING * numbers.eps * scale + floor


@contextlib.contextmanager
def contexts_of(layer: Equilibrium) -> Iterator[list[Any]]:
    """What the layer's solves inside work with, in their order."""
    seen: list[Any] = []
    inject = layer.cell.inject

    def remembered(x: Any) -> Any:
        seen.append(inject(x))
        return seen[-1]

    layer.cell.inject = remembered  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        del layer.cell.inject


def judge(tally: Tally, case: str, layer: Equilibrium, context: Any, z: Tensor, solution: Solution) -> None:
    """Every sample of a solve: does what was claimed hold?"""
    assert isinstance(z, Tensor)
    size = z[0].numel() if len(z) else 0
    with torch.no_grad():
        off, image, scale = residual(layer, context, z.detach())
    # Rounding to half precision afterwards is the caller's choice, and as good as that precision.
    working = torch.promote_types(z.dtype, torch.float32)
    coarse = torch.finfo(z.dtype).eps * image if z.dtype != working else 0.0
    # A descent measures relative to its own image, which is as far from T(z) as the residual is large.
    descends = isinstance(layer.solver, (ProximalGradient, FISTA))
    tol = layer.tol * (1 + 2 * layer.tol) if descends else layer.tol
    limit = allowed(tol, image, scale, working, size) + coarse
    for sample, claimed in enumerate(solution.converged.tolist()):
        if not claimed:
            tally.add(case, Verdict.SAID, solution.status.name)
        elif bool(off[sample] <= limit[sample]):
            tally.add(case, Verdict.RIGHT)
        else:
            words = f"residual {float(off[sample]):.2e}, allowed {float(limit[sample]):.2e}"
            tally.add(f"{case}, sample {sample}", Verdict.SILENT, words)


def solve(tally: Tally, case: str, layer: Equilibrium, x: Tensor, z0: Tensor | None = None) -> None:
    """Solve for x and judge."""

    def question() -> None:
        before, layer.on_failure = layer.on_failure, "ignore"
        try:
            with contexts_of(layer) as seen:
                solution = layer.solve(x, z0)
        finally:
            layer.on_failure = before
        assert isinstance(solution.value, Tensor)
        judge(tally, case, layer, seen[0], solution.value, solution)

    tally.ask(case, question)
