"""Copies, files and states: a layer that was saved is the layer that was trained."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import Tensor

import energy_problems
import geq
from geq.constraints.spectral import constraint_memory, restore_constraint_memory

NORMS = {
    "none": geq.constraints.Unconstrained,
    "weight": geq.constraints.WeightNorm,
    "operator": lambda: geq.constraints.SpectralBound(0.7),
}
KINDS = ["linear", "gaussian-learned", "own", "patch-learned"]
cases = pytest.mark.parametrize(("kind", "norm"), [(kind, norm) for kind in KINDS for norm in NORMS])


def trained(kind: str, norm: str, steps: int = 3) -> tuple[geq.Equilibrium, Tensor]:
    """A layer after a few steps of training, with everything it remembers."""
    rule = NORMS[norm]()
    if kind.startswith("patch"):
        problem, x = energy_problems.conv(kind, constraint=rule), energy_problems.small_maps()
    else:
        problem, x = energy_problems.dense(kind, constraint=rule), energy_problems.small_vectors()
    with torch.no_grad():
        problem.W.raw_weight.mul_(0.3)
        if norm == "weight":
            problem.W.constraint.gain.mul_(0.3)
    layer = geq.Equilibrium(problem, tol=1e-9, max_steps=300).train()
    train(layer, x, steps)
    return layer, x


def train(layer: geq.Equilibrium, x: Tensor, steps: int) -> None:
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.05)
    for step in range(steps):
        optimiser.zero_grad()
        layer((1 + 0.1 * step) * x).square().sum().backward()
        optimiser.step()


def fresh(kind: str, norm: str) -> geq.Equilibrium:
    return trained(kind, norm, 0)[0]


@cases
def test_deepcopy_and_pickle(kind: str, norm: str) -> None:
    """Also in the middle of training, after weight norm and with the state of a solve."""
    layer, x = trained(kind, norm)
    expected = layer.eval()(x).detach()
    for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(copied(x).detach(), expected) or torch.allclose(copied(x), expected, atol=1e-10)
        assert copied.state_dict().keys() == layer.state_dict().keys()
        # ... and it is a copy: training it leaves the original alone.
        train(copied.train(), x, 2)
        torch.testing.assert_close(layer(x).detach(), expected)
        assert not torch.allclose(copied.eval()(x), expected, atol=1e-8)


@cases
def test_copies_continue_exactly(kind: str, norm: str) -> None:
    layer, x = trained(kind, norm)
    twin = copy.deepcopy(layer)
    train(layer, x, 3)
    train(twin, x, 3)
    for one, other in zip(layer.state_dict().values(), twin.state_dict().values(), strict=True):
        assert torch.equal(one, other)


@cases
def test_state_dict_round_trip(kind: str, norm: str) -> None:
    layer, x = trained(kind, norm)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = fresh(kind, norm)
    other.load_state_dict(torch.load(file, weights_only=True))
    for name, value in layer.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name
    torch.testing.assert_close(other.eval()(x), layer.eval()(x), rtol=1e-9, atol=1e-11)
    restore_constraint_memory(other, constraint_memory(layer))
    train(layer.train(), x, 2)
    train(other.train(), x, 2)
    for name, value in layer.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, rtol=1e-9, atol=1e-11, msg=name)


def test_what_is_remembered_is_in_the_state() -> None:
    layer, _ = trained("patch-learned", "operator")
    state = layer.state_dict()
    prefix = "cell."
    assert state[prefix + "kernel.gamma.batches_seen"] == 3
    assert state[prefix + "kernel.gamma.scale"] > 0
    assert state.keys() == fresh("patch-learned", "operator").state_dict().keys()


def test_a_wrong_state_is_refused() -> None:
    layer, _ = trained("patch-learned", "operator")
    state = layer.state_dict()
    del state["cell.kernel.gamma.scale"]
    with pytest.raises(RuntimeError, match=r"Missing key.*scale"):
        fresh("patch-learned", "operator").load_state_dict(state)


@pytest.mark.parametrize("kind", KINDS)
def test_moving_to_another_precision_moves_everything(kind: str) -> None:
    layer, x = trained(kind, "operator")
    expected = layer.eval()(x).detach()
    layer.float()
    assert {t.dtype for t in layer.state_dict().values() if t.is_floating_point()} == {torch.float32}
    torch.testing.assert_close(layer.double()(x), expected, rtol=1e-3, atol=1e-5)


def test_solvers_and_gradients_are_plain_values() -> None:
    """Frozen, comparable, usable in a configuration."""
    assert geq.solvers.Anderson(memory=3) == geq.solvers.Anderson(memory=3) != geq.solvers.Anderson(memory=4)
    assert geq.gradients.Implicit() == geq.gradients.Implicit()
    with pytest.raises(AttributeError):
        geq.gradients.Phantom().steps = 3  # type: ignore[misc]
