"""Weight decay touches what the table of exemptions leaves, and nothing else."""

from __future__ import annotations

import pytest
import torch

from geq.model.model_registry import create_model
from geq.training.optimizer import build_optimizer, exempt_parameters, parameter_groups
from geq.training.train_options import OptimizerOptions


def test_exemptions_of_geq() -> None:
    model = create_model("geq_tiny")
    exempt = exempt_parameters(model)
    decayed = {name for name, _ in model.named_parameters()} - exempt
    for branch in ("branches.0", "branches.1"):
        prefix = f"{branch}.cell"
        assert f"{prefix}.W.raw_weight" in exempt
        assert f"{prefix}.kernel.raw_projection" in exempt
        assert f"{prefix}.kernel.gamma.theta" in exempt
        assert f"{prefix}.U.linear.raw_weight" in decayed
    assert {"norm.weight", "norm.bias", "head.bias", "stem.1.weight"} <= exempt
    assert {"stem.0.weight", "head.weight"} <= decayed


def test_exemptions_of_a_deep_equilibrium() -> None:
    model = create_model("opteq_camvid_small", channels=(4, 6), learn_alpha=True)
    exempt = exempt_parameters(model)
    decayed = {name for name, _ in model.named_parameters()} - exempt
    for layer in ("equilibrium.cell.layers.0", "equilibrium.cell.layers.1"):
        assert {f"{layer}.W.raw_weight", f"{layer}.raw_alpha"} <= exempt
        assert f"{layer}.U.linear.raw_weight" in decayed
    assert "classifier.weight" in decayed


def test_each_parameter_is_in_one_group() -> None:
    model = create_model("geq_tiny")
    frozen = model.head.weight
    frozen.requires_grad_(False)
    groups = parameter_groups(model, 0.1)
    grouped = [id(parameter) for group in groups for parameter in group["params"]]
    expected = {id(parameter) for parameter in model.parameters()} - {id(frozen)}
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == expected


@pytest.mark.parametrize("decay_all", [False, True])
def test_a_step_without_gradient_shrinks_decayed_weights_only(decay_all: bool) -> None:
    model = create_model("geq_tiny")
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    options = OptimizerOptions(learning_rate=0.5, weight_decay=0.1, decay_all=decay_all)
    optimizer = build_optimizer(options, model)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    exempt = set() if decay_all else exempt_parameters(model)
    for name, parameter in model.named_parameters():
        # Nesterov's first step with gradient g = decay·w is lr·(1 + momentum)·g.
        factor = 1.0 if name in exempt else 1 - 0.5 * 1.9 * 0.1
        torch.testing.assert_close(parameter, factor * before[name])


def test_adamw_is_built_with_the_same_groups() -> None:
    optimizer = build_optimizer(
        OptimizerOptions(optimizer="adamw", weight_decay=0.3), create_model("dnn_tiny")
    )
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.3, 0.0]
