"""Counting what a GPU would be asked, and what the solver asks of it."""

from __future__ import annotations

import torch

import geq
from geq_papers.bench.pretended_device import PretendedDevice, counted


def test_reads_of_the_host_are_counted_and_its_own_arithmetic_is_not() -> None:
    x = torch.ones(4)
    device = PretendedDevice()
    with device, device.operations:
        y = x + 1
        read = y.cpu()
        assert bool((read > 0).all())
        assert read.sum().item() == 8
        host = torch.zeros(4)  # made without a device
        assert not bool(host.any())
        assert not bool((y < 0).any())
        (y.view(2, 2) * 2).sum().tolist()
    assert device.waits == {"cpu": 1, "_local_scalar_dense": 1, "tolist": 1}
    assert device.launches["add"] == device.launches["mul"] == device.launches["lt"] == 1
    assert device.launches["gt"] == device.launches["view"] == 0


def solves(max_steps: int) -> PretendedDevice:
    torch.manual_seed(0)
    layer = geq.GEQ2d(3, 16, tol=1e-12, max_steps=max_steps, on_failure="ignore").eval()
    x = torch.randn(5, 3, 8, 8)
    return counted(lambda: layer.solve(x))


def test_one_wait_per_evaluation() -> None:
    """The norms: masks, counters and the stopping test cost none."""
    few, many = solves(4), solves(9)
    assert sum(many.waits.values()) - sum(few.waits.values()) == 5
    assert many.waits["cpu"] == 9


def test_samples_that_stop_early_cost_no_wait() -> None:
    torch.manual_seed(0)
    layer = geq.GEQ2d(3, 16, tol=1e-4).eval()
    x = torch.randn(6, 3, 8, 8) * torch.logspace(-3, 1, 6).view(-1, 1, 1, 1)
    found = counted(lambda: layer.solve(x))
    assert layer.last_solution is not None
    steps = layer.last_solution.steps
    assert int(steps.min()) < int(steps.max())
    assert found.waits["cpu"] == int(steps.max())
    # x and Ux, and the singular value of W_h.
    assert sum(found.waits.values()) - found.waits["cpu"] <= 4


def test_waits_of_a_training_step_stay_few() -> None:
    """Beside one for each evaluation and each product of the adjoint system, a fixed number per layer."""
    torch.manual_seed(0)
    model = geq.create_model("geq_tiny").train()
    x = torch.randn(8, 1, 8, 8)
    found = counted(lambda: model(x).square().sum().backward())
    evaluations = products = 0
    for layer in model.equilibria().values():
        assert layer.last_solution is not None
        assert layer.last_adjoint is not None
        evaluations += int(layer.last_solution.steps.max())
        products += int(layer.last_adjoint.steps.max())
    assert found.waits["cpu"] == evaluations
    layers = len(model.equilibria())
    assert sum(found.waits.values()) <= evaluations + 2 * products + 8 * layers
