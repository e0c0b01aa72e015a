"""Measurements of the study on equilibria: against formulas, and on runs with edited weights."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from torch import nn

import geq
from geq.kernels import to_patches
from geq.model.network import Network
from geq.training.equilibrium_probe import effective_rank, probe, probe_with_batch_statistics, summarise
from geq.training.run_folder import RunFolder
from geq.training.setup import evaluation_loader, open_split
from geq.training.training_monitors import LIMITS, AttentionStatistics, collapse_advice
from geq_papers.experiment.equilibrium_measurement import (
    CutOff,
    Equilibria,
    EvenWeights,
    SinceStart,
    Validated,
    cut_off,
    even_weights,
)
from saved_runs import saved_run


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = saved_run(tmp_path, "run", model="geq_tiny", data="digits", validation=200)
    folder.write_log([{"kind": "epoch", "epoch": 1, "validation_accuracy": 12.5, "solver_steps": 4.5}])
    return folder


def images_of(run: RunFolder, number: int = 64) -> torch.Tensor:
    held_out = open_split(run.options(), "val")
    loader = evaluation_loader(held_out, statistics=held_out.statistics, batch_size=number)
    return next(iter(loader))[0]


def with_statistics(model: Network, images: torch.Tensor) -> None:
    """Apply the effect of a first training step on the norms and the scale of γ, and nothing else."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        model.train()(images)
    model.eval()


def test_an_untrained_network_is_probed_with_the_statistics_of_its_images(run: RunFolder) -> None:
    images = images_of(run, 128)
    model = Network.from_pretrained(run.model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = probe_with_batch_statistics(model, images)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    without = probe(model, images)
    with_statistics(model, images)
    for name, branch in probe(model, images).items():
        assert found[name].distance == pytest.approx(branch.distance, rel=0.02)  # n − 1 in running variances
        assert without[name].distance != pytest.approx(branch.distance, rel=0.5)


def test_fresh_weights_have_not_moved(run: RunFolder) -> None:
    model = Network.from_pretrained(run.model)
    with_statistics(model, images_of(run))
    model.save_pretrained(run.model)
    found = SinceStart(images=64).measure(run)
    assert found["gamma_ratio"] == pytest.approx(1.0, rel=0.05)
    # Running variances divide by n − 1, and γ has moved a little from its first batch.
    assert found["distance_ratio"] == pytest.approx(1.0, rel=5e-3)
    assert found["rank_kept"] == pytest.approx(100.0)
    assert Equilibria(images=64).measure(run)["evaluations"] == 4.5
    assert Validated().measure(run) == {"validation_accuracy": 12.5}


def test_feedback_is_the_size_of_wz_by_that_of_the_injection(run: RunFolder) -> None:
    found = Equilibria(images=64).measure(run)["feedback"]
    model = Network.from_pretrained(run.model)
    images = images_of(run)
    expected = []
    with torch.no_grad():
        inputs = model.inputs_of_equilibria(images)
        for name, layer in model.equilibria().items():
            z, c = layer.solve(inputs[name]).value, layer.problem.inject(inputs[name])
            sizes = [t.flatten(1).norm(dim=1) for t in (c.W(z), c.v)]
            expected.append(float((sizes[0] / sizes[1]).mean()))
    assert found == pytest.approx(sum(expected) / len(expected), rel=1e-4)


def test_a_shrunken_projection_is_seen(run: RunFolder) -> None:
    model = Network.from_pretrained(run.model)
    with torch.no_grad():
        for layer in model.equilibria().values():
            raw = layer.problem.kernel.raw_projection
            left, values, right = torch.linalg.svd(raw, full_matrices=False)
            values[2:] *= 1e-3
            raw.copy_(left @ torch.diag(values) @ right)
    model.save_pretrained(run.model)
    found = SinceStart(images=64).measure(run)
    assert found["rank_kept"] == pytest.approx(100 * 2 / 16, rel=0.01)  # 2 of the 16 columns
    assert found["distance_ratio"] < 0.5  # type: ignore[operator]


def test_networks_without_equilibria_have_none_of_it(tmp_path: Path) -> None:
    folder = saved_run(tmp_path, "run", model="resnet_tiny", data="digits", validation=200)
    folder.write_log([{"kind": "epoch", "epoch": 1, "validation_accuracy": 12.5}])
    assert Equilibria(images=32).measure(folder) == SinceStart(images=32).measure(folder) == {}


def test_cut_off_evaluates_the_map_so_often(run: RunFolder) -> None:
    model = Network.from_pretrained(run.model)
    images = images_of(run, 16)
    with torch.no_grad():
        whole = model(images)
        with cut_off(model, 60):
            torch.testing.assert_close(model(images), whole, rtol=1e-2, atol=1e-3)
        with cut_off(model, 1):
            once = model(images)
        assert (once - whole).abs().max() > 1e-3
        layer = model.equilibria()["branches.0"]
        x = model.inputs_of_equilibria(images)["branches.0"]
        c = layer.problem.inject(x)
        first = layer.problem.attraction(layer.problem.initial_state(c), c).relu()
        with cut_off(model, 1):
            torch.testing.assert_close(layer(x), first)
        torch.testing.assert_close(model(images), whole)
    found = CutOff().measure(run)
    assert 0 <= found["cut_accuracy"] <= 100  # type: ignore[operator]


def test_even_weights_pull_every_patch_by_the_mean_weight(run: RunFolder) -> None:
    model, images = Network.from_pretrained(run.model), images_of(run, 32)
    layer = model.equilibria()["branches.0"]
    x = model.inputs_of_equilibria(images)["branches.0"]
    z = layer.solve(x).value
    before = layer.problem.inject(x)
    u = before.W(z)
    weights = before.attention(u)
    assert weights.std() > 1e-3, "else even weights would change nothing"
    pull = before.grad(u)
    assert even_weights(model, images)
    after = layer.problem.inject(x)
    assert (after.attention(u) == 1).all()
    # Patch by patch: the old pull, with its own weight replaced by the mean.
    size = layer.problem.kernel.patch, layer.problem.kernel.channel_split
    alone = to_patches(pull, *size) / weights.unsqueeze(-1)
    torch.testing.assert_close(to_patches(after.grad(u), *size), weights.mean() * alone, rtol=1e-3, atol=1e-5)
    found = EvenWeights(images=32).measure(run)
    assert 0 <= found["even_accuracy"] <= 100  # type: ignore[operator]


def test_what_has_no_weights_loses_none(tmp_path: Path) -> None:
    folder = saved_run(tmp_path, "run", model="mopteq_tiny", data="digits", validation=200)
    assert EvenWeights(images=32).measure(folder) == {}
    control = saved_run(tmp_path, "control", model="geq_tiny_control", data="digits", validation=200)
    assert EvenWeights(images=32).measure(control)["even_loss"] == 0


@pytest.mark.parametrize("count", [1, 4])
def test_effective_rank(count: int) -> None:
    left, _ = torch.linalg.qr(torch.randn(8, count))
    right, _ = torch.linalg.qr(torch.randn(6, count))
    assert effective_rank(left @ right.t()) == pytest.approx(count, rel=1e-4)


def test_a_runaway_is_told_once(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    model, images = Network.from_pretrained(run.model), images_of(run, 16)
    callback = AttentionStatistics(images)
    callback.begin(model)
    with caplog.at_level(logging.WARNING, logger="geq.training"):
        callback.look(model, 1)
        assert not caplog.records
        with torch.no_grad():
            model.equilibria()["branches.1"].problem.kernel.gamma.theta.fill_(50.0)
        callback.look(model, 7)
        callback.look(model, 8)
    [said] = caplog.records
    assert "epoch 7, branches.1: γ has grown" in said.getMessage()
    assert "a lower --learning_rate" in said.getMessage()
    assert "gamma learned" not in said.getMessage(), "this network has a learned γ"
    assert "--decay_all" not in said.getMessage(), "nothing decays W_h here"
    again = AttentionStatistics(images)
    again.load_state_dict(callback.state_dict())
    assert again.first == callback.first
    assert again.warned == {"gamma"}


@pytest.mark.parametrize(
    ("gamma", "decays", "expected"),
    [
        ("paper", True, ["--model.gamma learned", "--decay_all false"]),
        ("paper", False, ["--model.gamma learned"]),
    ],
)
def test_advice_against_a_collapse_is_what_the_run_does_not_do(
    gamma: str, decays: bool, expected: list[str]
) -> None:
    said = collapse_advice(geq.create_model("geq_tiny", gamma=gamma), decays)
    tips = ("--model.gamma learned", "--decay_all false", "--learning_rate")
    assert [tip for tip in tips if tip in said] == expected


def test_running_statistics_that_lag_are_no_collapse(caplog: pytest.LogCaptureFixture) -> None:
    """After a few steps they are mostly those that a network is built with, which stand for no data."""
    torch.manual_seed(0)
    model, images = geq.create_model("geq_strong_tiny"), 5 + 3 * torch.randn(32, 1, 8, 8)
    callback = AttentionStatistics(images)
    callback.begin(model)
    model.train()(images)
    lagging, then = summarise(probe(model, images)), callback.first
    ratios = [lagging[name] / then[name] for name in then if name.startswith("distance/")]
    assert not all(LIMITS["distance"][0] <= ratio for ratio in ratios), "this is a case where they mislead"
    callback.look(model, 1)
    assert not caplog.records


def test_other_kernels_are_probed_as_well() -> None:
    torch.manual_seed(0)
    model = geq.create_model("mopteq_tiny")
    found = summarise(probe(model, torch.randn(4, 1, 8, 8)))
    assert 0 < found["feedback/branches.0"] < 1
    assert "gamma/branches.0" not in found
    assert "rank/branches.0" not in found
