"""Between the library's deep cells and the dense compositions that theorems are checked on."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from geq.cells import DeepCell, UnitLayer
from geq.constraints import Unconstrained
from geq.errors import InputError, OptionError
from geq.operators import Dense
from geq_papers.theorem.composition import Composition
from geq_papers.theorem.lemma_2 import DeepWeights
from geq_papers.theorem.unit_layer import Unit


@torch.no_grad()
def composition_of(cell: DeepCell, x: Float[Tensor, " one *features"]) -> Composition:
    """A deep cell at one input, with every operator (convolutions too) written out as a matrix.

    Its blocks, objectives and residuals are those of the layer, so the theorems can be checked on a trained
    one. Meant for small states: a matrix has (features × state) entries.

    Args:
        cell: of a layer such as ``DeepOptEqLinear(...).double()``, without a regulariser.
        x: one sample, in float64.

    >>> from geq.layers import DeepOptEqLinear
    >>> layer = DeepOptEqLinear(3, features=(4, 2)).double()
    >>> x = torch.ones(1, 3).double()
    >>> z = composition_of(layer.cell, x).equilibrium()
    >>> bool((z - layer(x)).norm() < 1e-3)
    True
    """
    if x.shape[0] != 1 or x.dtype != torch.float64:
        raise InputError(
            f"x must be one sample in float64: got {x.shape[0]} in {x.dtype}; use x[:1].double() and "
            "layer.double()"
        )
    if cell.regulariser is not None:
        raise OptionError("a cell with a regulariser is no composition of unit layers: leave it out")
    c = cell.inject(x)
    alphas = {float(layer.alpha) for layer in c.layers}
    if len(alphas) > 1:
        different = ", ".join(f"{alpha:.4g}" for alpha in sorted(alphas))
        raise OptionError(f"the theorems are about one α for all layers: got {different}")
    size = c.start.numel()
    basis = torch.eye(size, dtype=torch.float64).view(size, *c.start.shape[1:])
    units = (
        Unit(layer.W(basis).flatten(1).T.contiguous(), layer.v.flatten(), layer.penalty) for layer in c.layers
    )
    return Composition(tuple(units), alphas.pop())


def cell_of(deep: DeepWeights) -> DeepCell:
    """The cell of a deep OptEq with given weights, as for :class:`~geq.Equilibrium`; nothing is normalised.

    >>> import geq
    >>> from geq_papers.theorem.lemma_1 import FeedForward
    >>> from geq_papers.theorem.lemma_2 import contain
    >>> network = FeedForward([(torch.eye(2).double(), torch.ones(2).double())] * 2)
    >>> deep = contain(network)
    >>> layer = geq.Equilibrium(cell_of(deep), tol=1e-12)
    >>> x = torch.randn(3, 2).double()
    >>> torch.allclose(layer(x) @ deep.output.T + deep.output_bias, network(x))
    True
    """
    layers = []
    for weight, injection, bias in zip(deep.weights, deep.inputs, deep.biases, strict=True):
        W = Dense(weight.shape[1], weight.shape[0], constraint=Unconstrained()).double()
        U = Dense(injection.shape[1], injection.shape[0], bias=True, constraint=Unconstrained()).double()
        with torch.no_grad():
            W.raw_weight.copy_(weight)
            U.raw_weight.copy_(injection)
            assert U.bias is not None
            U.bias.copy_(bias)
        layers.append(UnitLayer(W, U, deep.penalty, deep.alpha))
    return DeepCell(layers)
