"""Table 1: how a change of φ changes the layer. Its last row is theorem 4."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geq.errors import InputError, OptionError
from geq_papers.theorem.composition import Composition
from geq_papers.theorem.conjugate import objective
from geq_papers.theorem.envelope import envelope, minimum_violation, prox_violation
from geq_papers.theorem.theorem_1 import equilibrium_if_any, images
from geq_papers.theorem.theorem_check import Comparison, TheoremCheck
from geq_papers.theorem.unit_layer import Unit

TOLERANCE = 1e-9


def skip_objective(unit: Unit, alpha: float, y: Float[Tensor, " state"]) -> float:
    """αM_φ^{1−α}(y), whose prox is the layer with a skip connection; φ itself for α = 1."""
    if not 0 < alpha <= 1:
        raise OptionError(f"alpha must be in (0, 1]: got {alpha}")
    return objective(unit, y) if alpha == 1 else alpha * envelope(unit, y, 1 - alpha).value


def skip_gradient(unit: Unit, alpha: float, y: Float[Tensor, " state"]) -> Float[Tensor, " state"]:
    """∇αM_φ^{1−α}(y), for α < 1, where the envelope is smooth."""
    if not 0 < alpha < 1:
        raise OptionError(f"alpha must be in (0, 1) for αM_φ^(1−α) to have a gradient: got {alpha}")
    return alpha * envelope(unit, y, 1 - alpha).gradient


def check_skip_connection(unit: Unit, alpha: float, points: int = 3, seed: int = 0) -> TheoremCheck:
    """Row 2: αf(z) + (1 − α)z is the prox of αM_φ^{1−α}, and has the equilibrium of f."""
    unit.require_proximal()
    generator = torch.Generator().manual_seed(seed)
    deep = Composition((unit,), alpha)
    prox = stationary = 0.0
    others = images(unit, points, generator)
    for _ in range(points):
        z = 2 * torch.randn(unit.weight.shape[1], generator=generator, dtype=torch.float64)
        u = deep(z)
        prox = max(prox, prox_violation(lambda y: skip_objective(unit, alpha, y), z, u, others))
        if alpha < 1:
            stationary = max(stationary, (skip_gradient(unit, alpha, u) + u - z).norm().item())
    comparisons = [Comparison("the layer against other minimisers of αM + ½‖· − z‖²", prox, TOLERANCE)]
    if alpha < 1:
        comparisons.append(Comparison("α∇M(u) + u − z at the layer's output u", stationary, TOLERANCE))
        equilibrium = equilibrium_if_any(unit)
        if equilibrium is not None:
            slope = skip_gradient(unit, alpha, equilibrium).norm().item()
            comparisons.append(Comparison("α∇M at the equilibrium of f", slope, TOLERANCE))
    claim = "αf(z) + (1 − α)z is the prox of αM_φ^{1−α}"
    return TheoremCheck("table 1, skip connection", claim, tuple(comparisons))


@dataclass(frozen=True)
class ChangedVariable:
    """The layer A⁻¹∘f∘A for the affine map A(z) = Mz + t (row 3).

    Its fixed points minimise φ∘A for every invertible M. It is a prox only if M is a multiple of an isometry,
    MᵀM = s²I, and then that of φ∘A / s².

    Erratum: the paper calls it the prox of φ∘A and counts scalings among its examples. For a scaling by s the
    prox of φ∘A is A⁻¹∘prox_{s²φ}∘A, which is another layer; the factor 1/s² makes the row right.
    """

    unit: Unit
    matrix: Float[Tensor, "state state"]
    shift: Float[Tensor, " state"]

    def __post_init__(self) -> None:
        if not torch.linalg.cond(self.matrix).item() < 1e12:
            raise InputError("a change of variable must be invertible: got a singular matrix")

    def forward_change(self, z: Float[Tensor, " state"]) -> Float[Tensor, " state"]:
        """A(z)."""
        return self.matrix @ z + self.shift

    def inverse_change(self, y: Float[Tensor, " state"]) -> Float[Tensor, " state"]:
        """A⁻¹(y)."""
        return torch.linalg.solve(self.matrix, y - self.shift)

    def __call__(self, z: Float[Tensor, " state"]) -> Float[Tensor, " state"]:
        return self.inverse_change(self.unit(self.forward_change(z)))

    def jacobian(self, z: Float[Tensor, " state"]) -> Float[Tensor, "state state"]:
        return torch.linalg.solve(self.matrix, self.unit.jacobian(self.forward_change(z)) @ self.matrix)

    def objective(self, z: Float[Tensor, " state"]) -> float:
        """φ(A(z)), as printed."""
        return objective(self.unit, self.forward_change(z))

    @property
    def squared_scale(self) -> float | None:
        """s² if MᵀM = s²I; None if M is no multiple of an isometry, and the layer no prox."""
        gram = self.matrix.T @ self.matrix
        square = gram.diagonal().mean()
        multiple = square * torch.eye(len(gram), dtype=gram.dtype)
        return square.item() if torch.allclose(gram, multiple, rtol=0, atol=1e-12 * square.item()) else None


def check_change_of_variable(changed: ChangedVariable, points: int = 3, seed: int = 0) -> TheoremCheck:
    """Row 3, with its correction: see :class:`ChangedVariable`."""
    changed.unit.require_proximal()
    generator = torch.Generator().manual_seed(seed)
    others = [changed.inverse_change(y) for y in images(changed.unit, points, generator)]
    comparisons = []
    square = changed.squared_scale
    if square is not None:
        prox = 0.0
        for _ in range(points):
            z = torch.randn(len(changed.shift), generator=generator, dtype=torch.float64)
            scaled = prox_violation(lambda y: changed.objective(y) / square, z, changed(z), others)
            prox = max(prox, scaled)
        comparisons.append(Comparison("A⁻¹fA against the prox of φ∘A/s²", prox, TOLERANCE))
    equilibrium = equilibrium_if_any(changed.unit)
    if equilibrium is not None:
        moved = changed.inverse_change(equilibrium)
        scale = 1 + moved.norm().item()
        comparisons.append(
            Comparison(
                "A⁻¹z* as fixed point of A⁻¹fA", (changed(moved) - moved).norm().item() / scale, TOLERANCE
            )
        )
        lower = minimum_violation(changed.objective, moved, others)
        comparisons.append(Comparison("φ∘A there against φ∘A elsewhere", lower, TOLERANCE))
    claim = "A⁻¹∘f∘A has the minimisers of φ∘A as fixed points; it is the prox of φ∘A/s² if MᵀM = s²I"
    return TheoremCheck("table 1, change of variable", claim, tuple(comparisons))


def multivariate_objective(
    weight: Float[Tensor, "state state"],
    mixing: Float[Tensor, "state state"],
    bias: Float[Tensor, " state"],
    y: Float[Tensor, " state"],
) -> float:
    """½pᵀS⁻¹p − ⟨a, p⟩ − ½‖y‖² with p = W⁻ᵀy: φ of the layer WᵀS(Wz + a) (row 4)."""
    p = torch.linalg.solve(weight.T, y)
    return (0.5 * p @ torch.linalg.solve(mixing, p) - bias @ p - 0.5 * y @ y).item()


def check_multivariate_activation(
    weight: Float[Tensor, "state state"],
    mixing: Float[Tensor, "state state"],
    bias: Float[Tensor, " state"],
    points: int = 3,
    seed: int = 0,
) -> TheoremCheck:
    """Row 4: a matrix S instead of σ. S must be symmetric with eigenvalues in (0, 1], and ‖W‖ ≤ 1."""
    eigenvalues = torch.linalg.eigvalsh(mixing)
    zero = len(mixing) * torch.finfo(mixing.dtype).eps  # an eigenvalue of 0 is computed as one of ±1e-17
    if not torch.allclose(mixing, mixing.T) or not (
        zero < eigenvalues[0].item() <= eigenvalues[-1].item() <= 1 + 1e-9
    ):
        raise OptionError(
            "a matrix is the activation of a prox if it is symmetric with eigenvalues in (0, 1]: got "
            f"eigenvalues {eigenvalues[0].item():.4g} to {eigenvalues[-1].item():.4g}, asymmetry "
            f"{(mixing - mixing.T).abs().max().item():.4g}"
        )
    norm = torch.linalg.matrix_norm(weight, 2).item()
    if norm > 1 + TOLERANCE or not math.isfinite(norm):
        raise OptionError(f"‖W‖ must be at most 1: got {norm:.6g}; divide the weight by it")
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(2 * points, len(bias), generator=generator, dtype=torch.float64)
    prox = 0.0
    for z in states[:points]:
        u = weight.T @ (mixing @ (weight @ z + bias))
        violation = prox_violation(
            lambda y: multivariate_objective(weight, mixing, bias, y), z, u, [u + 0.1 * d for d in states]
        )
        prox = max(prox, violation)
    comparison = Comparison("WᵀS(Wz + a) against other minimisers", prox, TOLERANCE)
    claim = "WᵀS(Wz + a) is the prox of ½yᵀW⁻¹S⁻¹W⁻ᵀy − ⟨a, W⁻ᵀy⟩ − ½‖y‖²"
    return TheoremCheck("table 1, multivariate activation", claim, (comparison,))
