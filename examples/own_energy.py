"""Write an energy, get a layer: a custom kernel and a custom penalty, checked, solved and drawn.

The kernel is the log-likelihood of a Cauchy distribution, S = −½ Σ log(1 + (v − u)²): far-off entries keep
pulling, but ever less. The penalty keeps the state non-negative and shrinks it a little. From these two, geq
derives the layer, its exact gradient and its energy.

    python examples/own_energy.py --output own_energy.png
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

import geq


class Cauchy(geq.kernels.Kernel):
    """S(u, v) = −½ Σ log(1 + (v − u)²), one number per sample. Its value is all that geq needs."""

    def value(self, u: Tensor, v: Tensor) -> Tensor:
        return -0.5 * torch.log1p((v - u).square()).flatten(1).sum(1)


class Shrunk(geq.penalties.Penalty):
    """f(z) = ½·weight·z² for z ≥ 0, and forbidden below; the layer's activation is its prox."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight

    def cost(self, z: Tensor) -> Tensor:
        return torch.where(z < 0, torch.inf, 0.5 * self.weight * z.square())

    def prox(self, s: Tensor, step: float = 1.0) -> Tensor:
        return s.relu() / (1 + step * self.weight)

    def slope(self, s: Tensor) -> Tensor:
        return (s > 0).to(s.dtype) / (1 + self.weight)


SOLVERS = {
    "plain iteration": geq.solvers.Picard(),
    "proximal gradient, step 0.5": geq.solvers.ProximalGradient(step_size=0.5),
    "Anderson": geq.solvers.Anderson(),
}


def energies(problem: geq.EnergyProblem, solver: geq.solvers.Solver, x: Tensor, steps: int) -> list[float]:
    """The mean energy after 1, 2, … evaluations, each time of the image, which satisfies the constraint."""
    found = []
    for count in range(1, steps + 1):
        layer = geq.Equilibrium(problem, solver, tol=1e-12, max_steps=count, on_failure="ignore")
        equation = problem.equation(x)
        with torch.no_grad():
            image = equation(layer.solve(x).value)
            found.append(float(problem.energy(image, equation.context).mean()))
    return found


def draw(curves: dict[str, list[float]], lowest: float, path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, values in curves.items():
        left.semilogy(range(1, len(values) + 1), [max(value - lowest, 1e-15) for value in values], label=name)
    left.set(xlabel="evaluations of the map", ylabel="energy above the lowest", title="The energy falls")
    left.legend(frameon=False)
    distance = torch.linspace(-6, 6, 241, dtype=torch.double)[:, None]
    zero = torch.zeros_like(distance)
    for kernel, label in (
        (Cauchy(), "Cauchy (custom)"),
        (geq.kernels.GaussianKernel(gamma=0.2), "Gaussian, γ = 0.2"),
        (geq.kernels.GaussianKernel(gamma=0.0), "square (γ = 0)"),
    ):
        right.plot(distance[:, 0].numpy(), kernel.grad(zero, distance)[:, 0].detach().numpy(), label=label)
    right.set(xlabel="v − u", ylabel="∂S/∂u", ylim=(-3, 3), title="How hard an entry pulls")
    right.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> dict[str, list[float]]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20, help="evaluations to follow")
    parser.add_argument("--output", default=None, help="PNG to draw")
    asked = parser.parse_args(arguments)
    torch.manual_seed(0)

    problem = geq.EnergyProblem(
        Cauchy(),
        W=geq.operators.Dense(24, 12),
        U=geq.operators.Dense(6, 12, bias=True),
        penalty=Shrunk(0.1),
    ).double()
    x = 2 * torch.randn(8, 6, dtype=torch.double)
    layer = geq.Equilibrium(
        problem, tol=1e-10, gradient=geq.gradients.Implicit(tol=1e-12), max_steps=500
    ).eval()
    z = layer(x)
    print(f"the layer maps {tuple(x.shape)} to {tuple(z.shape)}; {int((z == 0).sum())} entries are zero")
    print(f"it took {int(layer.solve(x).steps.max())} evaluations to a residual of 1e-10")

    point = x[:2].clone().requires_grad_()
    torch.autograd.gradcheck(layer, (point,), eps=1e-6, atol=1e-7)
    print("the exact gradient agrees with finite differences")

    (slope,) = torch.autograd.grad(layer.energy(point).sum(), point)
    moved = point.detach().clone()
    moved[0, 0] += 1e-6
    difference = float((layer.energy(moved).sum() - layer.energy(point).sum()).detach()) / 1e-6
    print(f"the energy's own derivative: {float(slope[0, 0]):.6f}, by differences {difference:.6f}")

    curves = {name: energies(problem, solver, x, asked.steps) for name, solver in SOLVERS.items()}
    lowest = float(layer.energy(x).mean().detach())
    for name, values in curves.items():
        print(f"{name:28} energy {values[0]:.6f} → {values[-1]:.6f} (lowest {lowest:.6f})")
    if asked.output:
        draw(curves, lowest, asked.output)
        print(f"drawn in {asked.output}")
    return curves


if __name__ == "__main__":
    main()
