"""How far training gradients are from the exact one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from geq.bench.branch import Branch, backward, torchdeq_solve
from geq.bench.case import Finding, Setting, Skip
from geq.bench.literal import LiteralMap
from geq.bench.statistic import constant
from geq.equilibrium import Equilibrium
from geq.gradient import Gradient, Implicit, Phantom


def weight_gradient(layer: Equilibrium) -> Tensor:
    gradient = layer.problem.W.raw_weight.grad
    assert gradient is not None
    return gradient.double()


def gradient_error(branch: Branch, setting: Setting) -> Iterator[Finding]:
    """‖dL/dW − exact‖/‖exact‖ at the default tolerance; the exact one in double precision, to 1e-12."""
    branch = replace(branch, batch=2)
    x, cotangent = branch.input(), branch.cotangent()
    reference = branch.layer(Implicit(tol=1e-12), tol=1e-12, max_steps=200).double()
    backward(reference, reference(x.double()), cotangent.double())
    exact = weight_gradient(reference)
    scale = float(exact.norm())
    methods: dict[str, Gradient | None] = {"default": None, "phantom 5 × 0.8": Phantom()}
    for name, gradient in methods.items():
        layer = branch.layer(gradient)
        backward(layer, layer(x), cotangent)
        error = float((weight_gradient(layer) - exact).norm()) / scale
        target = 0.01 if name == "default" else None
        yield Finding(f"{branch.name} dL/dW, {name}", constant(error), "relative error", at_most=target)
    try:
        solve = torchdeq_solve(tol=1e-3, max_steps=50, lam=None)
    except Skip:
        return
    layer = branch.layer()
    backward(layer, solve(LiteralMap.of(layer, x)), cotangent)
    error = float((weight_gradient(layer) - exact).norm()) / scale
    yield Finding(f"{branch.name} dL/dW, torchdeq phantom", constant(error), "relative error")
