"""Lemma 1: any feed-forward network is a chain of unit layers W̄ᵀσ(W̄z + b)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geq.errors import InputError, OptionError
from geq.penalties import Penalty, penalty_of
from geq.penalties.activation import Function
from geq_papers.theorem.theorem_check import Comparison, TheoremCheck

CLAIM = "a feed-forward network equals z̄ ← W̄_kᵀσ(W̄_kz̄ + b_k), y = W̄z̄"
TOLERANCE = 1e-9


@dataclass(frozen=True)
class FeedForward:
    """y = A_Kσ(… σ(A₁x + c₁) …) + c_K: the last pair of weight and bias has no activation after it.

    Args:
        affine: pairs (weight, bias), as ``nn.Linear`` keeps them, in float64.
        activation: what ``penalty_of`` takes; None is ReLU.
    """

    affine: Sequence[tuple[Tensor, Tensor]]
    activation: Penalty | Function | None = None

    def __post_init__(self) -> None:
        if len(self.affine) < 2:
            raise OptionError(
                "a network needs at least one hidden layer, hence two pairs of weight and bias: got "
                f"{len(self.affine)}"
            )
        for place, (weight, bias) in enumerate(self.affine):
            if weight.dtype != torch.float64 or bias.dtype != torch.float64:
                raise InputError(f"pair {place} must be in float64: got {weight.dtype}; use .double()")
            if weight.dim() != 2 or bias.shape != weight.shape[:1]:
                raise InputError(
                    f"pair {place} must be a matrix and one bias per row: got shapes {tuple(weight.shape)} "
                    f"and {tuple(bias.shape)}"
                )
            if place and weight.shape[1] != len(self.affine[place - 1][1]):
                raise InputError(
                    f"weight {place} must have {len(self.affine[place - 1][1])} columns, the size of the "
                    f"layer before: got {weight.shape[1]}"
                )

    @property
    def penalty(self) -> Penalty:
        return penalty_of(self.activation)

    @property
    def hidden(self) -> Sequence[tuple[Tensor, Tensor]]:
        return self.affine[:-1]

    def __call__(self, x: Float[Tensor, "batch inputs"]) -> Float[Tensor, "batch outputs"]:
        penalty = self.penalty
        for weight, bias in self.hidden:
            x = penalty.prox(x @ weight.T + bias)
        weight, bias = self.affine[-1]
        return x @ weight.T + bias


@dataclass(frozen=True)
class UnitChain:
    """The network of eq. 2: z̄ = lift·x, then z̄ ← W̄_kᵀσ(W̄_kz̄ + b_k), then y = output·z̄ + output_bias."""

    lift: Float[Tensor, "state inputs"]
    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]
    output: Float[Tensor, "outputs state"]
    output_bias: Float[Tensor, " outputs"]
    penalty: Penalty

    def __call__(self, x: Float[Tensor, "batch inputs"]) -> Float[Tensor, "batch outputs"]:
        z = x @ self.lift.T
        for weight, bias in zip(self.weights, self.biases, strict=True):
            z = self.penalty.prox(z @ weight.T + bias) @ weight
        return z @ self.output.T + self.output_bias


def rewrite(network: FeedForward) -> UnitChain:
    """The weights W̄_k of lemma 1, in a state of m = max(n_k + n_{k+1}) entries.

    W̄₁ has orthonormal rows. Then W̄_{k+1} = A_{k+1}(W̄_kᵀ)⁺ + Q with the rows of Q orthonormal in the null
    space of W̄_k, which has room for them because m ≥ n_k + n_{k+1}. So W̄_{k+1}W̄_kᵀ = A_{k+1}, and QQᵀ = I
    keeps every W̄_k of full rank with singular values of at least 1. Any activation will do.

    (The appendix with the paper's proof is not part of the printed text; this construction is ours.)
    """
    sizes = [len(bias) for _, bias in network.hidden]
    state = max([sizes[0], *(a + b for a, b in itertools.pairwise(sizes))])
    first = torch.eye(sizes[0], state, dtype=torch.float64)
    weights = [first]
    for weight, _ in network.hidden[1:]:
        previous = weights[-1]
        # The rows of a full V after the rank of W̄_k span its null space.
        null_space = torch.linalg.svd(previous, full_matrices=True).Vh[len(previous) :]
        weights.append(weight @ torch.linalg.pinv(previous.T) + null_space[: len(weight)])
    output, output_bias = network.affine[-1]
    return UnitChain(
        lift=first.T @ network.affine[0][0],
        weights=tuple(weights),
        biases=tuple(bias for _, bias in network.hidden),
        output=output @ torch.linalg.pinv(weights[-1].T),
        output_bias=output_bias,
        penalty=network.penalty,
    )


def check_lemma_1(network: FeedForward, points: int = 8, seed: int = 0) -> TheoremCheck:
    """Compare the outputs of a network and of its rewritten form at random inputs."""
    chain = rewrite(network)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(points, network.affine[0][0].shape[1], generator=generator, dtype=torch.float64)
    expected = network(x)
    error = (chain(x) - expected).norm().item() / (1 + expected.norm().item())
    comparison = Comparison("output of the chain against the network's", error, TOLERANCE)
    return TheoremCheck("lemma 1", CLAIM, (comparison,))
