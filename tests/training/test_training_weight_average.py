"""The moving average of the weights against its recursion."""

from __future__ import annotations

import torch
from torch import nn

from geq.training.weight_average import WeightAverage


def test_recursion_and_lending() -> None:
    model = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        model.weight.fill_(0.0)
    average = WeightAverage(model, decay=0.5)
    expected = 0.0
    for step, value in enumerate([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]):
        with torch.no_grad():
            model.weight.fill_(value)
        average.update(model)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
    version = model.weight._version
    with average.lent_to(model):
        torch.testing.assert_close(model.weight.item(), expected)
        assert model.weight._version > version, "caches keyed on the weights must notice"
    assert model.weight.item() == 10.0


def test_state_goes_on_the_same() -> None:
    model = nn.Linear(3, 2)
    first = WeightAverage(model, 0.9)
    first.update(model)
    second = WeightAverage(nn.Linear(3, 2), 0.9)
    second.load_state_dict(
        {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in first.state_dict().items()}
    )
    nn.init.ones_(model.weight)
    first.update(model)
    second.update(model)
    assert first.steps == second.steps == 2
    for name, weight in first.weights.items():
        assert torch.equal(weight, second.weights[name])
