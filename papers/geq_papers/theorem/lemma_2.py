"""Lemma 2: a deep OptEq whose equilibrium gives the output of a feed-forward network."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geq.errors import OptionError
from geq.penalties import Penalty
from geq_papers.theorem.composition import Composition
from geq_papers.theorem.lemma_1 import FeedForward, rewrite
from geq_papers.theorem.theorem_check import Comparison, TheoremCheck
from geq_papers.theorem.unit_layer import Unit

CLAIM = "a deep OptEq with one layer more than the network has hidden ones gives the network's output"
TOLERANCE = 1e-8


@dataclass(frozen=True)
class DeepWeights:
    """A deep OptEq: f_l(z, x) = αW_lᵀσ(W_lz + U_lx + b_l) + (1 − α)z, and y = output·z + output_bias."""

    weights: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]
    output: Float[Tensor, "outputs state"]
    output_bias: Float[Tensor, " outputs"]
    penalty: Penalty
    alpha: float

    def at(self, x: Float[Tensor, " inputs"]) -> Composition:
        """The composition for one input."""
        layers = zip(self.weights, self.inputs, self.biases, strict=True)
        units = (Unit(W, U @ x + b, self.penalty) for W, U, b in layers)
        return Composition(tuple(units), self.alpha)

    def __call__(self, x: Float[Tensor, " inputs"]) -> Float[Tensor, " outputs"]:
        """The output at the equilibrium, which is searched from 0 by Newton's method."""
        return self.output @ self.at(x).equilibrium() + self.output_bias


def contain(network: FeedForward, alpha: float = 1.0) -> DeepWeights:
    """A deep OptEq with the output of a network: its hidden layers, and one that makes them start afresh.

    **α = 1, any activation.** The first layer has W = 0, so it forgets the state; the others are the chain of
    lemma 1, with U₁ = A₁ in the first of them. T is a constant map, and plain iteration ends after one step.

    **α < 1, for activations with σ(s) − σ(−s) = κs** (ReLU, leaky ReLU). Now every f_l is invertible and
    nothing is forgotten, but it can be moved away. The state has a work space with one block per hidden
    layer, and a store of the same size. Layer l reads block l − 1, adds σ to block l, and spoils only what is
    no longer read; if the work space starts at 0, it ends with some g whose last block is ασ_K. A last,
    linear layer R moves g to the store and leaves the work space at 0:

        R = [ r, −r/(δm) ; m(1 − δt), t ],  R(g, δS) = (0, S) for S = mg,  δ = (1 − α)^K,

    and as R = (1 − α)I + αBᵀ(σ(B·) − σ(−B·)) must be symmetric with eigenvalues of at least 1 − α, we take
    t = 2/δ, m² = r/δ, and r large enough. The fixed point (0, mg) is the only one: R's two rows give
    S = mG(w) and then w = 0. T does not contract, so iteration does not find it; Newton's method does.

    For α < 1 and other activations (tanh) we know no construction, and the paper, which states the lemma for
    α in (0, 1), prints none.
    """
    if not 0 < alpha <= 1:
        raise OptionError(f"alpha must be in (0, 1]: got {alpha}")
    return _forgetting(network) if alpha == 1 else _moving(network, alpha)


def _forgetting(network: FeedForward) -> DeepWeights:
    chain = rewrite(network)
    inputs = network.affine[0][0].shape[1]
    state = chain.lift.shape[0]
    zero = torch.zeros(1, state, dtype=torch.float64)
    injected = [network.affine[0][0], *(torch.zeros(len(b), inputs, dtype=b.dtype) for b in chain.biases[1:])]
    # With σ(0) ≠ 0 the layer that forgets still gives 0, because its W is 0.
    return DeepWeights(
        weights=(zero, *chain.weights),
        inputs=(torch.zeros(1, inputs, dtype=torch.float64), *injected),
        biases=(torch.zeros(1, dtype=torch.float64), *chain.biases),
        output=chain.output,
        output_bias=chain.output_bias,
        penalty=chain.penalty,
        alpha=1.0,
    )


def odd_slope(penalty: Penalty) -> float | None:
    """κ if σ(s) − σ(−s) = κs for all s, else None."""
    s = torch.tensor([[1e-3, 0.1, 0.5, 1.0, 3.0, 50.0, 1e4]], dtype=torch.float64)
    ratio = (penalty.prox(s) - penalty.prox(-s)) / s
    kappa = ratio[0, 0]
    return kappa.item() if torch.allclose(ratio, kappa, rtol=1e-12) and kappa > 0 else None


def _moving(network: FeedForward, alpha: float) -> DeepWeights:
    penalty = network.penalty
    kappa = odd_slope(penalty)
    if kappa is None:
        raise OptionError(
            f"below alpha = 1 the construction needs σ(s) − σ(−s) = κs, as ReLU has it: got {penalty}; use "
            "alpha=1"
        )
    sizes = [len(bias) for _, bias in network.hidden]
    work, depth, keep = sum(sizes), len(sizes), 1 - alpha
    delta = keep**depth
    if delta < 1e-8:
        raise OptionError(
            f"(1 − alpha)^{depth} = {delta:.1g} is too small for float64 to carry the output past the "
            "layers; lower alpha or use alpha=1"
        )
    t = 2 / delta
    r = 2 * keep * (t - keep) / (1 / delta - keep) + 1
    m = (r / delta) ** 0.5
    reset = torch.tensor([[r, -r / (delta * m)], [-m, t]], dtype=torch.float64)  # m(1 − δt) = −m
    eigenvalues, vectors = torch.linalg.eigh(
        (reset - keep * torch.eye(2, dtype=torch.float64)) / (alpha * kappa)
    )
    half = torch.kron(eigenvalues.sqrt().unsqueeze(1) * vectors.T, torch.eye(work, dtype=torch.float64))

    inputs = network.affine[0][0].shape[1]
    starts = [sum(sizes[:index]) for index in range(depth)]
    weights, injected = [], []
    for index, (weight, _) in enumerate(network.hidden):
        layer = torch.zeros(sizes[index], 2 * work, dtype=torch.float64)
        layer[:, starts[index] : starts[index] + sizes[index]] = torch.eye(sizes[index])
        if index:
            layer[:, starts[index - 1] : starts[index]] = weight / alpha
        weights.append(layer)
        injected.append(weight if index == 0 else torch.zeros(sizes[index], inputs, dtype=torch.float64))
    output, output_bias = network.affine[-1]
    stored = torch.zeros(len(output), 2 * work, dtype=torch.float64)
    stored[:, work + starts[-1] :] = output / (alpha * m)
    return DeepWeights(
        weights=(*weights, torch.cat((half, -half))),
        inputs=(*injected, torch.zeros(4 * work, inputs, dtype=torch.float64)),
        biases=(*(bias for _, bias in network.hidden), torch.zeros(4 * work, dtype=torch.float64)),
        output=stored,
        output_bias=output_bias,
        penalty=penalty,
        alpha=alpha,
    )


def check_lemma_2(network: FeedForward, alpha: float = 1.0, points: int = 4, seed: int = 0) -> TheoremCheck:
    """Solve the deep OptEq for random inputs and compare its output with the network's."""
    deep = contain(network, alpha)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(points, network.affine[0][0].shape[1], generator=generator, dtype=torch.float64)
    expected = network(x)
    found = torch.stack([deep(row) for row in x])
    error = (found - expected).norm().item() / (1 + expected.norm().item())
    comparison = Comparison("output at the equilibrium against the network's", error, TOLERANCE)
    return TheoremCheck("lemma 2", CLAIM, (comparison,))
