"""Any module inside of a cell: one map per solve, and its gradient; states of every kind; clear refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

import geq
from geq.gradients import Implicit, Phantom, Reversible, Unrolled

SIZE = 5
GRADIENTS: dict[str, geq.gradients.Gradient] = {
    "implicit": Implicit(tol=1e-12),
    "phantom": Phantom(60, 0.9),
    "unrolled": Unrolled(60),
    "reversible": Reversible(20, 0.7, tol=0.02),
}


def vectors(batch: int = 4, size: int = SIZE) -> Tensor:
    return torch.randn(batch, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def linear() -> nn.Linear:
    torch.manual_seed(1)
    layer = nn.Linear(SIZE, SIZE).double()
    with torch.no_grad():
        layer.weight.mul_(0.6)
    return layer


def layer_of(cell: Any, gradient: geq.gradients.Gradient | None = None) -> geq.Equilibrium:
    return geq.Equilibrium(cell, gradient=gradient, tol=1e-12, max_steps=300)


class Normed(geq.Cell):
    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.linear = norm(linear())

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        return torch.tanh(0.8 * self.linear(z) + c)


class Counted(nn.Module):
    """A parametrization that counts how often the weight is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, weight: Tensor) -> Tensor:
        self.calls += 1
        return 0.5 * torch.tanh(weight)


def counted(layer: nn.Linear) -> nn.Linear:
    parametrize.register_parametrization(layer, "weight", Counted())
    return layer


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("wrapped", [True, False], ids=["cell", "function"])
def test_parametrized_weight_is_computed_once_per_solve(name: str, wrapped: bool) -> None:
    cell = Normed(counted)
    module = cell.linear
    counter = module.parametrizations.weight[0]
    given = cell if wrapped else (lambda z, x: torch.tanh(0.8 * module(z) + x))
    layer, x = layer_of(given, GRADIENTS[name]), vectors().requires_grad_()
    before = counter.calls
    layer(x).sum().backward()
    assert counter.calls == before + 1, "in forward and backward together"
    found = module.parametrizations.weight.original.grad
    plain = layer_of(lambda z, x: torch.tanh(0.8 * F.linear(z, module.weight, module.bias) + x), Unrolled(80))
    expected = torch.autograd.grad(plain(x).sum(), module.parametrizations.weight.original)[0]
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)
    with torch.no_grad():
        layer(x)
    assert parametrize._cache == {}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("norm", [parametrizations.weight_norm, parametrizations.spectral_norm])
def test_gradcheck_under_weight_and_spectral_norm(norm: Any, name: str) -> None:
    cell = Normed(norm)
    if norm is parametrizations.spectral_norm:
        cell.linear(vectors())  # its power iteration, which moves in training mode only
    layer, x = layer_of(cell, GRADIENTS[name]).eval(), vectors(2).requires_grad_()
    weight = next(p for n, p in cell.named_parameters() if n.endswith(("original", "original1")))

    def call(x: Tensor, value: Tensor) -> Tensor:
        named = next(n for n, p in layer.named_parameters() if p is weight)
        return torch.func.functional_call(layer, {named: value}, (x,))

    assert torch.autograd.gradcheck(
        call, (x, weight.detach().clone().requires_grad_()), fast_mode=True, atol=1e-4
    )


def test_spectral_norm_iterates_once_per_solve_in_training() -> None:
    cell = Normed(parametrizations.spectral_norm)
    layer, x = layer_of(cell), vectors()
    vector = cell.linear.parametrizations.weight[0]._u
    twin = Normed(parametrizations.spectral_norm)
    twin.load_state_dict(cell.state_dict())
    layer(x)
    _ = twin.linear.weight
    torch.testing.assert_close(vector, twin.linear.parametrizations.weight[0]._u)


class Dropping(geq.Cell):
    """Random numbers by a module and by a function."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = linear(), nn.Dropout(0.4)

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        return torch.tanh(F.dropout(self.dropout(self.linear(z)), 0.1, self.training) * 0.6 + c)


@pytest.mark.parametrize("name", GRADIENTS)
def test_dropout_keeps_its_mask_during_a_solve_and_its_backward(name: str) -> None:
    cell, x = Dropping(), vectors().requires_grad_()
    layer = layer_of(cell, GRADIENTS[name]).train()
    torch.manual_seed(3)
    z = layer(x)
    assert layer.last_solution is not None
    assert layer.last_solution.residual.max() < 1e-6, "one map, which has a fixed point"
    after = torch.rand(1)
    found = torch.autograd.grad(z.square().sum(), [x, *cell.parameters()])

    def by_hand(x: Tensor) -> Tensor:
        state = torch.zeros_like(x)
        for _ in range(80):
            torch.manual_seed(3)
            state = cell(state, x)
        return state

    expected = by_hand(x)
    torch.testing.assert_close(torch.rand(1), after)  # as if the map had been evaluated once
    torch.testing.assert_close(z, expected, rtol=1e-7, atol=1e-8)
    wanted = torch.autograd.grad(expected.square().sum(), [x, *cell.parameters()])
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)
    assert not torch.allclose(layer(x), z), "another mask in the next solve"
    torch.testing.assert_close(layer.eval()(x), layer(x))


class Batch(geq.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.entry = (
            linear(),
            nn.BatchNorm1d(SIZE).double(),
            nn.BatchNorm1d(SIZE).double(),
        )

    def inject(self, x: Tensor) -> Tensor:
        return self.entry(x)

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        return 0.3 * self.norm(self.linear(z) + c)


@pytest.mark.parametrize("name", GRADIENTS)
def test_batch_norm_moves_its_statistics_once_per_solve(name: str) -> None:
    cell, x = Batch(), vectors(6)
    layer = layer_of(cell, GRADIENTS[name]).train()
    z = layer(x.requires_grad_())
    assert int(cell.norm.num_batches_tracked) == int(cell.entry.num_batches_tracked) == 1
    expected = 0.1 * (cell.linear(z) + F.batch_norm(x, None, None, training=True)).mean(0)
    torch.testing.assert_close(cell.norm.running_mean, expected.detach(), rtol=1e-6, atol=1e-8)
    z.sum().backward()
    assert int(cell.norm.num_batches_tracked) == 1
    with torch.no_grad():
        layer.solve(x)
    assert int(cell.norm.num_batches_tracked) == 1
    layer.eval()(x)
    assert int(cell.norm.num_batches_tracked) == 1
    assert cell.norm.track_running_stats


@pytest.mark.parametrize("name", ["implicit", "unrolled"])
def test_gradient_through_the_statistics_of_the_batch(name: str) -> None:
    """Samples are coupled in training mode, and the adjoint system with them."""
    layer, x = layer_of(Batch(), GRADIENTS[name]).train(), vectors(3).requires_grad_()
    assert layer.equation(x).couples_samples
    assert not layer.eval().equation(x).couples_samples
    assert torch.autograd.gradcheck(layer.train(), (x,), fast_mode=True)


@pytest.mark.parametrize("name", GRADIENTS)
def test_dictionaries_as_states(name: str) -> None:
    class Scales(geq.Cell):
        def initial_state(self, c: dict[str, Tensor]) -> dict[str, Tensor]:
            return {"fine": torch.zeros_like(c["x"]), "coarse": c["x"].new_zeros(len(c["x"]), 1)}

        def forward(self, z: dict[str, Tensor], c: dict[str, Tensor]) -> dict[str, Tensor]:
            return {"coarse": 0.3 * z["fine"].mean(1, keepdim=True), "fine": 0.2 * z["coarse"] + c["x"]}

    layer, x = layer_of(Scales(), GRADIENTS[name]), vectors().requires_grad_()
    z = layer({"x": x})
    assert list(z) == ["fine", "coarse"]
    mean = x.mean(1, keepdim=True) / (1 - 0.06)
    torch.testing.assert_close(z["coarse"], 0.3 * mean)
    torch.testing.assert_close(z["fine"], x + 0.06 * mean)
    (gradient,) = torch.autograd.grad(z["fine"].sum(), x)
    torch.testing.assert_close(gradient, torch.full_like(x, 1 + 0.06 / 0.94))
    again = layer({"x": x}, z0={key: part.detach() for key, part in z.items()})
    torch.testing.assert_close(again["fine"], z["fine"])
    solved = layer.solve({"x": x}).value
    assert isinstance(solved, dict)
    torch.testing.assert_close(layer.image({"x": x}, z)["fine"], z["fine"])
    assert geq.regularizers.JacobianPenalty()(layer, {"x": x}, z) > 0
    radius = layer.spectral_radius({"x": x})
    torch.testing.assert_close(radius, torch.full_like(radius, 0.06**0.5))


def test_a_function_is_a_cell_and_a_decorator_is_natural() -> None:
    W = 0.1 * vectors(SIZE, SIZE)

    @geq.Equilibrium
    def layer(z: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(z @ W) + x

    x = vectors()
    z = layer(x)
    torch.testing.assert_close(z, torch.tanh(z @ W) + x, rtol=1e-3, atol=1e-3)
    other = geq.Equilibrium(lambda z, x: 0.5 * z[:, :2] + x[:, :2])
    torch.testing.assert_close(other(x, z0=torch.zeros(4, 2).double()), 2 * x[:, :2], rtol=1e-3, atol=1e-3)
    pair = geq.Equilibrium(lambda z, x: (0.5 * z[0] + x[0], 0.1 * z[1] + x[1]), tol=1e-10, max_steps=100)
    torch.testing.assert_close(pair((x, x))[0], 2 * x)
    with pytest.raises(geq.errors.InputError, match=r"starts at zeros like x.*z0="):
        geq.Equilibrium(lambda z, x: z)({"x": 3})


REFUSED: list[tuple[Any, str]] = [
    (lambda z, x: z[:, :2], r"\(4, 5\) float64 cpu, returned \(4, 2\)"),
    (lambda z, x: (0.5 * z + x).float(), r"returned \(4, 5\) float32"),
    (lambda z, x: (0.5 * z + x).to("meta"), r"returned \(4, 5\) float64 meta"),
    (lambda z, x: (z, x), r"returned \(\(4, 5\)"),
    (lambda z, x: [z], "returned list"),
    (lambda z, x: z.mul_(0.5).add_(x), r"changed in place; write z = z \+ x instead of z \+= x"),
    (lambda z, x: 0.5 * F.relu(z, inplace=True) + x, r"torch\.relu\(z\)"),
]


@pytest.mark.parametrize(("cell", "told"), REFUSED)
def test_maps_that_change_the_kind_of_state_or_the_state_are_refused(cell: Any, told: str) -> None:
    with pytest.raises(geq.errors.InputError, match=told):
        geq.Equilibrium(cell)(vectors())


def test_dictionaries_must_keep_their_keys() -> None:
    layer = geq.Equilibrium(lambda z, x: {"b": z["a"]})
    with pytest.raises(geq.errors.InputError, match="got a state of a, returned b"):
        layer({"a": vectors()})
    with pytest.raises(
        geq.errors.InputError, match=r"tensor or a tuple of tensors: got dict; geq.Equilibrium also"
    ):
        geq.fixed_point(lambda z: z, {"a": vectors()}, geq.solvers.Picard())  # type: ignore[arg-type]
