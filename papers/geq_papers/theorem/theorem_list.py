"""Every statement with a check, on random instances: what a command or a page of the documentation runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from geq.errors import unknown_name
from geq.gradients import SequentialAveraging
from geq.penalties import LeakyPenalty, NonNegative, Penalty, TanhPenalty
from geq.regularizers import FeatureDecay
from geq_papers.theorem import (
    corollary_1,
    lemma_1,
    lemma_2,
    lemma_3,
    table_1,
    theorem_1,
    theorem_2,
    theorem_3,
    theorem_4,
    theorem_5,
)
from geq_papers.theorem.composition import Composition
from geq_papers.theorem.lemma_1 import FeedForward
from geq_papers.theorem.theorem_check import TheoremCheck
from geq_papers.theorem.unit_layer import Unit

ACTIVATIONS: tuple[Callable[[], Penalty], ...] = (NonNegative, lambda: LeakyPenalty(0.1), TanhPenalty)


def random_unit(generator: torch.Generator, features: int, state: int, penalty: Penalty, norm: float) -> Unit:
    """A unit with ‖W‖ = norm and μ = 1."""
    weight = torch.randn(features, state, generator=generator, dtype=torch.float64)
    bias = torch.randn(features, generator=generator, dtype=torch.float64)
    return Unit(weight * (norm / torch.linalg.matrix_norm(weight, 2)), bias, penalty)


@dataclass(frozen=True)
class Instance:
    """A source of random instances; the seed decides sizes, weights and activation."""

    seed: int

    @property
    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)

    @property
    def penalty(self) -> Penalty:
        return ACTIVATIONS[self.seed % len(ACTIVATIONS)]()

    @property
    def alpha(self) -> float:
        return (0.8, 0.3, 1.0)[self.seed // len(ACTIVATIONS) % 3]

    def units(self, count: int) -> tuple[Unit, ...]:
        generator, penalty = self.generator, self.penalty
        sizes = torch.randint(1, 5, (count + 1,), generator=generator).tolist()
        norms = (0.5 + 0.45 * torch.rand(count, generator=generator)).tolist()
        return tuple(
            random_unit(generator, sizes[index + 1], sizes[0], penalty, norms[index])
            for index in range(count)
        )

    def square_unit(self) -> Unit:
        return random_unit(self.generator, 3, 3, self.penalty, 0.9)

    def deep(self, count: int) -> Composition:
        return Composition(self.units(count), self.alpha)

    def network(self, penalty: Penalty | None = None) -> FeedForward:
        generator = self.generator
        depth = int(torch.randint(2, 5, (1,), generator=generator))
        sizes = torch.randint(1, 6, (depth + 1,), generator=generator).tolist()
        affine = [
            (self.normal(generator, b, a) / a**0.5, self.normal(generator, b))
            for a, b in itertools.pairwise(sizes)
        ]
        return FeedForward(affine, self.penalty if penalty is None else penalty)

    @staticmethod
    def normal(generator: torch.Generator, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _change_of_variable(seed: int) -> TheoremCheck:
    unit = Instance(seed).square_unit()
    generator = torch.Generator().manual_seed(seed + 1)
    matrix = Instance.normal(generator, 3, 3)
    if seed % 2 == 0:
        matrix = 2 * torch.linalg.qr(matrix).Q
    return table_1.check_change_of_variable(
        table_1.ChangedVariable(unit, matrix, Instance.normal(generator, 3)), seed=seed
    )


def _multivariate(seed: int) -> TheoremCheck:
    unit = Instance(seed).square_unit()
    root = Instance.normal(torch.Generator().manual_seed(seed + 1), 3, 3)
    mixing = root @ root.T + torch.eye(3)
    mixing = mixing / torch.linalg.matrix_norm(mixing, 2)
    return table_1.check_multivariate_activation(unit.weight, mixing, unit.bias, seed=seed)


def _regularised(seed: int) -> TheoremCheck:
    (unit,) = Instance(seed).units(1)
    return theorem_4.check_theorem_4(
        unit, lambda z: (1 + (z - 1).square()).sqrt().sum(), gamma=0.5, seed=seed
    )


def _averaged(seed: int) -> TheoremCheck:
    """z = WᵀWz + a with WWᵀ = I and Wa = 0: every a + Wᵀy is a fixed point, and a the smallest of them."""
    generator = Instance(seed).generator
    W = torch.linalg.qr(Instance.normal(generator, 5, 2)).Q.T
    start, a = Instance.normal(generator, 3, 5), Instance.normal(generator, 3, 5)
    a = a - a @ W.T @ W
    return theorem_5.theorem5(
        lambda z: z @ W.T @ W + a, SequentialAveraging(1, FeatureDecay()), start, a, (10, 100, 1000)
    )


def _contained(seed: int) -> TheoremCheck:
    alpha = 1.0 if seed % 2 else 0.5
    return lemma_2.check_lemma_2(
        Instance(seed).network(None if alpha == 1 else NonNegative()), alpha, seed=seed
    )


@dataclass(frozen=True)
class Theorem:
    """A statement of the OptEq paper and its check on the random instance of a seed."""

    claim: str
    check: Callable[[int], TheoremCheck]


THEOREMS: dict[str, Theorem] = {
    "theorem-1": Theorem(
        theorem_1.CLAIM, lambda seed: theorem_1.check_theorem_1(Instance(seed).units(1)[0], seed=seed)
    ),
    "table-1-skip": Theorem(
        "αf(z) + (1 − α)z is the prox of αM_φ^{1−α}",
        lambda seed: table_1.check_skip_connection(
            Instance(seed).units(1)[0], Instance(seed).alpha, seed=seed
        ),
    ),
    "table-1-affine": Theorem("A⁻¹∘f∘A has the minimisers of φ∘A as fixed points", _change_of_variable),
    "table-1-matrix": Theorem("a matrix S in place of σ gives a quadratic φ", _multivariate),
    "theorem-4": Theorem(theorem_4.CLAIM, _regularised),
    "theorem-5": Theorem("z^k of SAM → argmin R on Fix(T)", _averaged),
    "lemma-1": Theorem(
        lemma_1.CLAIM, lambda seed: lemma_1.check_lemma_1(Instance(seed).network(), seed=seed)
    ),
    "lemma-2": Theorem(lemma_2.CLAIM, _contained),
    "lemma-3": Theorem(lemma_3.CLAIM, lambda seed: lemma_3.check_lemma_3(Instance(seed).deep(3))),
    "theorem-2": Theorem(
        theorem_2.CLAIM, lambda seed: theorem_2.check_theorem_2(Instance(seed).deep(3), seed=seed)
    ),
    "corollary-1": Theorem(
        corollary_1.CLAIM, lambda seed: corollary_1.check_corollary_1(Instance(seed).deep(2), seed=seed)
    ),
    "theorem-3": Theorem(
        theorem_3.CLAIM, lambda seed: theorem_3.check_theorem_3(Instance(seed).units(3), seed=seed)
    ),
}


def check_theorem(name: str, seed: int = 0) -> TheoremCheck:
    """Run one check by name.

    >>> check_theorem("lemma-3").holds
    True
    """
    if name not in THEOREMS:
        raise unknown_name("theorem", name, THEOREMS)
    return THEOREMS[name].check(seed)


def check_theorems(seed: int = 0) -> dict[str, TheoremCheck]:
    """Run all of them on the random instances of one seed."""
    return {name: theorem.check(seed) for name, theorem in THEOREMS.items()}
