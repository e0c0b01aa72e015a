"""Small layers, questions to them, and the verdict: right, said otherwise, or wrong in silence."""

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
from geq.kernels import PatchGaussianKernel, PolynomialKernel, SigmoidKernel
from geq.layers import DeepOptEq2d, DeepOptEqLinear, GEQ2d, GEQLinear, OptEq2d, OptEqLinear
from geq.solvers import FISTA, Anderson, Broyden, Picard, ProximalGradient, Solution, Solver
from stress.number.literal_cells import LiteralCell, norm
from stress.stress_parts import StressRow

C, SIDE = 3, 4
LAYERS: dict[str, Callable[..., Equilibrium]] = {
    "GEQ2d": lambda **o: GEQ2d(C, 8, channel_split=4, hidden=8, **o),
    "GEQ2d, no norm of the input": lambda **o: GEQ2d(
        C, 8, channel_split=4, hidden=8, normalise_input=False, **o
    ),
    "GEQLinear": lambda **o: GEQLinear(C, 8, **o),
    "OptEq2d": lambda **o: OptEq2d(C, 8, normalise_input=False, **o),
    "OptEqLinear": lambda **o: OptEqLinear(C, 8, **o),
    "OptEqLinear, polynomial": lambda **o: OptEqLinear(C, 8, kernel=PolynomialKernel(2), **o),
    "OptEqLinear, sigmoid": lambda **o: OptEqLinear(C, 8, kernel=SigmoidKernel(), **o),
    "DeepOptEq2d": lambda **o: DeepOptEq2d(C, (4, 6), **o),
    "DeepOptEqLinear": lambda **o: DeepOptEqLinear(C, (4, 6), **o),
}
"""Small enough to ask thousands of times."""
SOLVERS: dict[str, Solver[Any]] = {
    "Picard": Picard(),
    "damped Picard": Picard(damping=0.5),
    "Anderson": Anderson(),
    "Anderson, memory 10, no ridge": Anderson(memory=10, ridge=0.0),
    "Broyden": Broyden(),
    "ProximalGradient": ProximalGradient(),
    "FISTA": FISTA(),
}
DTYPES = (torch.float32, torch.float64)
HALF = (torch.float16, torch.bfloat16)
ROUNDING = 64
"""Units of rounding of the added numbers by which a residual may differ from one in double precision."""
SLACK = 1.01
"""Factor of the tolerance itself: the norms in it are rounded as well."""


def from_an_energy(solver: Solver[Any]) -> bool:
    return isinstance(solver, (ProximalGradient, FISTA))


def fits(name: str, solver: Solver[Any]) -> bool:
    """Return whether the solver applies to the layer: a composition has no energy of its own."""
    return not (name.startswith("Deep") and from_an_energy(solver))


def build(name: str, solver: Solver[Any] | None = None, tol: float = 1e-4, seed: int = 0) -> Equilibrium:
    """Build a layer in evaluation mode, with statistics as after training."""
    torch.manual_seed(seed)
    layer = LAYERS[name](solver=Anderson() if solver is None else solver, tol=tol, max_steps=200)
    for module in layer.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            assert module.running_var is not None
            module.running_var.fill_(0.3)
        if isinstance(module, PatchGaussianKernel):
            # Away from its start, an isometry: there its norm has no derivative.
            module.raw_projection.data.mul_(0.9)
        bias = getattr(module, "bias", None)
        if isinstance(bias, Tensor):
            bias.data.normal_(std=0.3)
    return layer.eval()


def sample(name: str, batch: int, generator: torch.Generator, side: int = SIDE) -> Tensor:
    """Draw inputs of unit size."""
    shape = (batch, C, side, side) if "2d" in name else (batch, C)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


class Verdict(enum.Enum):
    RIGHT = "right"
    SAID = "said otherwise"
    SILENT = "WRONG IN SILENCE"


@dataclass
class VerdictTally:
    """Verdicts on the cases of one kind."""

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
        """Add a case that is right or wrong, with nothing to say in between."""
        self.add(case, Verdict.RIGHT if holds else Verdict.SILENT, words)

    def claims(self, case: str, solution: Solution, off: Tensor, limit: Tensor) -> None:
        """Add every sample of a solve: is the residual of a claimed equilibrium within its limit?"""
        for number, claimed in enumerate(solution.converged.tolist()):
            if not claimed:
                self.add(case, Verdict.SAID, solution.status.name)
                continue
            words = f"residual {float(off[number]):.2e}, allowed {float(limit[number]):.2e}"
            self.must(f"{case}, sample {number}", bool(off[number] <= limit[number]), words)

    def ask(self, case: str, question: Callable[[], None]) -> None:
        """Run it; an error of geq is an answer, and so is one of torch about singular matrices."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ConvergenceWarning)
                question()
        except (GeqError, ConvergenceWarning, torch.linalg.LinAlgError) as said:
            self.add(case, Verdict.SAID, type(said).__name__)

    def row(self) -> StressRow:
        tried = self.verdicts.total()
        right, said, silent = (self.verdicts[verdict] for verdict in Verdict)
        note = f"{right:,} right, {said:,} said otherwise" + (f"; {self.wrong[0]}" if self.wrong else "")
        detail: dict[str, Any] = {"right": right, "said": dict(self.said), "wrong": self.wrong[:20]}
        return StressRow(self.what, tried, tried - silent, note, detail)


def allowed(tol: float, image: Tensor, scale: Tensor, dtype: torch.dtype, size: int) -> Tensor:
    """Return the residual that a claim to ``tol`` permits."""
    numbers = torch.finfo(dtype)
    floor = size**0.5 * numbers.tiny  # below it numbers have no digits to be relative to
    return SLACK * tol * image + ROUNDING * numbers.eps * scale + floor


@contextlib.contextmanager
def contexts_of(layer: Equilibrium) -> Iterator[list[Any]]:
    """Collect the contexts of the layer's solves inside, in their order."""
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


def judge(
    tally: VerdictTally, case: str, layer: Equilibrium, context: Any, z: Tensor, solution: Solution
) -> None:
    """Add every sample of a solve: does what was claimed hold?"""
    assert isinstance(z, Tensor)
    size = z[0].numel() if len(z) else 0
    with torch.no_grad():
        literal = LiteralCell(layer, context)(z.detach())
        off, image = norm(literal.value - z.detach().double()), norm(literal.value)
    # Rounding to half precision afterwards is the caller's choice, and as good as that precision.
    working = torch.promote_types(z.dtype, torch.float32)
    coarse = torch.finfo(z.dtype).eps * image if z.dtype != working else 0.0
    # A descent measures relative to its own image, which is as far from T(z) as the residual is large.
    tol = layer.tol * (1 + 2 * layer.tol) if from_an_energy(layer.solver) else layer.tol
    tally.claims(case, solution, off, allowed(tol, image, literal.scale, working, size) + coarse)


def solve(tally: VerdictTally, case: str, layer: Equilibrium, x: Tensor, z0: Tensor | None = None) -> None:
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
