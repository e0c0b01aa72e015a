"""Every gradient, against dense linear algebra in double precision."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from geq.constraints import Unconstrained
from geq.equilibrium import Equilibrium
from geq.errors import ConvergenceError, ConvergenceWarning, GeqError
from geq.gradients import Gradient, Implicit, JacobianFree, Phantom, Unrolled
from geq.solvers import Anderson, Broyden, Picard
from stress.number.edited_weights import feedbacks
from stress.number.verdicts import DTYPES, LAYERS, Verdict, VerdictTally, build, sample
from stress.stress_parts import StressRow

GRADIENTS: dict[str, Gradient] = {
    "Implicit": Implicit(),
    "Implicit by Anderson": Implicit(solver=Anderson(memory=10)),
    "Implicit by Broyden": Implicit(solver=Broyden()),
    "Implicit by Picard": Implicit(solver=Picard(), max_steps=500),
    "Phantom": Phantom(),
    "JacobianFree": JacobianFree(),
    "Unrolled": Unrolled(steps=12, damping=0.7),
}
LIMIT = {torch.float32: 2e-2, torch.float64: 1e-4}
"""Limit of the distance to the reference, relative to the size of `reference`: the state is found to a
tolerance, a few entries of it lie at the kink of ReLU, and (I − J)⁻¹ magnifies both by up to
1/(1 − 0.95²) ≈ 10.
"""


def run(short: bool, generator: torch.Generator) -> Iterator[StressRow]:
    chosen = [name for name in GRADIENTS if not short or " by " not in name]
    yield sizes((-20, 0) if short else (-30, -20, -12, -3, 0, 3, 15), chosen, generator)
    yield strong(chosen, generator)


def sizes(decades: tuple[int, ...], chosen: list[str], generator: torch.Generator) -> StressRow:
    """Vary the size of the input, and of the gradient of the loss."""
    tally = VerdictTally("gradients of inputs and of losses from tiny to huge")
    cases = [(10.0**decade, 1.0) for decade in decades] + [(1.0, 1e-30), (1.0, 1e30)]
    for name, gradient, dtype, (size, loss) in product(LAYERS, chosen, DTYPES, cases):
        layer = prepared(name, GRADIENTS[gradient], dtype)
        x = (size * sample(name, 1, generator)).to(dtype)
        case = f"{name}, {gradient}, {dtype}, input {size:g}, loss {loss:g}"
        check(tally, case, layer, x, loss, generator)
    return tally.row()


def strong(chosen: list[str], generator: torch.Generator) -> StressRow:
    """Edit weights so that the adjoint system is hard, indefinite or not contractive."""
    tally = VerdictTally("gradients of layers without a norm bound, feedback 0.5 to 4")
    for name, gradient, strength in product(LAYERS, chosen, (0.5, 0.999, 1.2, 4.0)):
        layer = prepared(name, GRADIENTS[gradient], torch.float64)
        for operator in feedbacks(layer):
            operator.adopt_constraint(Unconstrained())
            weight = operator.raw_weight.data
            weight.mul_(strength / torch.linalg.matrix_norm(weight.flatten(1), 2))
        x = sample(name, 1, generator)
        check(tally, f"{name}, {gradient}, feedback {strength}", layer, x, 1.0, generator)
    return tally.row()


def prepared(name: str, gradient: Gradient, dtype: torch.dtype) -> Equilibrium:
    layer = build(name, tol=1e-6 if dtype == torch.float32 else 1e-10).to(dtype)
    layer.gradient = gradient
    layer.max_steps = 400
    return layer


def check(
    tally: VerdictTally, case: str, layer: Equilibrium, x: Tensor, loss: float, generator: torch.Generator
) -> None:
    x = x.clone().requires_grad_()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            z = layer(x)
            g = loss * torch.randn(z.shape, generator=generator, dtype=torch.float64)
            inputs = [x, *layer.parameters()]
            found = torch.autograd.grad(z, inputs, g.to(z), allow_unused=True)
    except (GeqError, ConvergenceWarning) as said:
        tally.add(case, Verdict.SAID, type(said).__name__)
        return
    try:
        wanted = reference(layer, x.detach(), z.detach(), g)
    except (ConvergenceError, torch.linalg.LinAlgError):
        # The solve in double precision from this very answer does not stay there: nothing to compare with.
        tally.add(case, Verdict.SAID, "no reference")
        return
    biggest = torch.finfo(x.dtype).max
    for one, (other, size) in zip(found, wanted, strict=True):
        if other is None or float(other.abs().max()) > 1e-3 * biggest:
            continue
        one = torch.zeros_like(other) if one is None else one.double()
        far = float((one - other).norm())
        floor = other.numel() ** 0.5 * torch.finfo(x.dtype).tiny * max(1.0, 1 / torch.finfo(x.dtype).eps)
        if not far <= LIMIT[x.dtype] * size + floor:
            tally.add(case, Verdict.SILENT, f"{tuple(other.shape)} off by {far:.1e} of {size:.1e}")
            return
    tally.add(case, Verdict.RIGHT)


def reference(layer: Equilibrium, x: Tensor, z: Tensor, g: Tensor) -> list[tuple[Tensor | None, float]]:
    """Return the derivatives with J as a matrix, in double precision, and the size to judge each by.

    That is its norm; of a single number like γ, the sum uᵀ∂f/∂γ over all entries of the state, whose terms
    may cancel, it is ‖u‖·‖∂f/∂γ‖, to which an error of u is in proportion.
    """
    twin = copy.deepcopy(layer).double()
    x = x.double().requires_grad_()
    inputs = [x, *twin.parameters()]
    if isinstance(twin.gradient, Unrolled):
        context: Any = twin.cell.inject(x)
        state: Any = twin.cell.initial_state(context)
        for _ in range(twin.gradient.steps):
            state = state + twin.gradient.damping * (twin.cell(state, context) - state)
        return judged(torch.autograd.grad(state, inputs, g, allow_unused=True), {})
    twin.tol, twin.max_steps, twin.on_failure, twin.solver = 1e-11, 3000, "raise", Anderson()
    value = twin.solve(x.detach(), z.double()).value
    assert isinstance(value, Tensor)
    context = twin.cell.inject(x)
    state = value.detach().requires_grad_()
    image = twin.cell(state, context)
    assert isinstance(image, Tensor)
    numbers = [i for i, one in enumerate(inputs) if one.numel() == 1]
    wrt = [state, *(inputs[i] for i in numbers)]
    rows = [
        torch.autograd.grad(image, wrt, one.view_as(image), retain_graph=True, materialize_grads=True)
        for one in torch.eye(image.numel(), dtype=torch.float64)
    ]
    jacobian, *columns = (torch.stack([one.flatten() for one in part]) for part in zip(*rows, strict=True))
    u = adjoint(twin.gradient, jacobian, g.flatten())
    sizes = {i: float(u.norm() * column.norm()) for i, column in zip(numbers, columns, strict=True)}
    return judged(torch.autograd.grad(image, inputs, u.view_as(image), allow_unused=True), sizes)


def judged(
    gradients: tuple[Tensor | None, ...], sizes: dict[int, float]
) -> list[tuple[Tensor | None, float]]:
    return [
        (one, 0.0 if one is None else max(float(one.norm()), sizes.get(i, 0.0)))
        for i, one in enumerate(gradients)
    ]


def adjoint(gradient: Gradient, jacobian: Tensor, g: Tensor) -> Tensor:
    unit = torch.eye(len(g), dtype=torch.float64)
    match gradient:
        case Implicit():
            return torch.linalg.solve(unit - jacobian.t(), g)
        case Phantom():
            step = (1 - gradient.damping) * unit + gradient.damping * jacobian.t()
            term, total = gradient.damping * g, torch.zeros_like(g)
            for _ in range(gradient.steps):
                total, term = total + term, step @ term
            return total
    return g
