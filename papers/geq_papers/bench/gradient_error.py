"""Error of training gradients against the exact one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from geq.equilibrium import Equilibrium
from geq.gradients import Gradient, Implicit, Phantom
from geq.layers.energy import STRONGEST
from geq_papers.bench.case import BenchSetting, CaseResult, Skip
from geq_papers.bench.cifar_branches import Branch, backward, torchdeq_solve
from geq_papers.bench.literal_algorithm import LiteralMap
from geq_papers.bench.timing import constant


def weight_gradient(layer: Equilibrium) -> Tensor:
    gradient = layer.problem.W.raw_weight.grad
    assert gradient is not None
    return gradient.double()


def gradient_error(branch: Branch, setting: BenchSetting) -> Iterator[CaseResult]:
    """‖dL/dW − exact‖/‖exact‖ at the default tolerance; the exact one in double precision, to 1e-12."""
    branch = replace(branch, batch=2)
    x, cotangent = branch.input(), branch.cotangent()
    exact = exact_gradient(branch)
    cases: dict[str, tuple[Branch, Gradient | None]] = {
        f"‖W‖ ≤ {branch.bound:g}": (branch, None),
        f"‖W‖ ≤ {STRONGEST:g}": (replace(branch, bound=STRONGEST), None),
        "phantom 5 × 0.8": (branch, Phantom()),
    }
    for name, (of, gradient) in cases.items():
        layer = of.layer(gradient)
        backward(layer, layer(x), cotangent)
        error = relative_error(layer, exact if of is branch else exact_gradient(of))
        target = 0.01 if gradient is None else None
        yield CaseResult(f"{branch.name} dL/dW, {name}", constant(error), "relative error", at_most=target)
    try:
        solve = torchdeq_solve(tol=1e-3, max_steps=50, lam=None)
    except Skip:
        return
    layer = branch.layer()
    backward(layer, solve(LiteralMap.of(layer, x)), cotangent)
    error = relative_error(layer, exact)
    yield CaseResult(f"{branch.name} dL/dW, torchdeq phantom", constant(error), "relative error")


def exact_gradient(branch: Branch) -> Tensor:
    reference = branch.layer(Implicit(tol=1e-12), tol=1e-12, max_steps=200).double()
    backward(reference, reference(branch.input().double()), branch.cotangent().double())
    return weight_gradient(reference)


def relative_error(layer: Equilibrium, exact: Tensor) -> float:
    return float((weight_gradient(layer) - exact).norm() / exact.norm())
