"""Detection of damaged places by β: against known places, and on edited networks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from scipy.stats import spearmanr

from geq.analysis.corruption import Corrupted
from geq.data.dataset import Labelled
from geq.model.network import Network
from geq_papers.experiment.equilibrium_measurement import first_held_out, held_out
from geq_papers.experiment.outlier_detection import changed, detection, rank_correlation, weights_of
from geq_papers.experiment.outlier_measurement import OutlierWeights
from saved_runs import saved_run

NAMES = ("hot_pixels", "occlusion")


def test_low_weights_at_damaged_places_find_them_all() -> None:
    pixels = torch.zeros(2, 8, 8, dtype=torch.bool)
    pixels[0, 1, 6] = pixels[1, 7, 0] = True
    weights = torch.ones(2, 3, 4, 4)
    assert detection(weights, pixels) == 50
    weights[0, :, 0, 3] = weights[1, :, 3, 0] = 0.2
    assert detection(weights, pixels) == 100
    assert detection(1 - weights, pixels) == 0
    assert detection(weights, pixels & False) is None


def test_only_large_changes_are_damage(tmp_path: Path) -> None:
    run = saved_run(tmp_path, "run", model="geq_tiny", data="digits", validation=200)
    dataset = held_out(run)
    assert isinstance(dataset, Labelled)
    chosen = torch.arange(50)
    damaged = Corrupted(dataset, chosen, "hot_pixels", 5, 0)
    before, after = dataset.batch(chosen)[0][:, 0].int(), damaged.batch(chosen)[0][:, 0].int()
    found = changed(dataset.subset(chosen), damaged)
    assert 0.02 < found.float().mean() < 0.12  # a tenth of the pixels are hot, of which some were white
    assert torch.equal(found, (after == 255) & (before < 230))


@pytest.mark.parametrize("noise", [0.0, 1.0, 10.0])
def test_rank_correlation_is_spearmans(noise: float) -> None:
    one = torch.randn(300, dtype=torch.float64)
    other = one**3 + noise * torch.randn(300, dtype=torch.float64)
    assert rank_correlation(one, other) == pytest.approx(spearmanr(one, other).statistic, abs=1e-6)
    assert rank_correlation(one, torch.ones(300)) is None


def test_without_feedback_the_weights_tell_the_size_of_patches(tmp_path: Path) -> None:
    run = saved_run(tmp_path, "run", model="geq_tiny", data="digits", validation=200)
    before = OutlierWeights(NAMES, images=100).measure(run)
    assert set(before) >= {f"{kind}/{name}" for name in NAMES for kind in ("beta_auroc", "even_loss")}
    model = Network.from_pretrained(run.model)
    with torch.no_grad():
        for layer in model.equilibria().values():
            for parameter in layer.problem.W.parameters():
                parameter.mul_(1e-6)
    model.save_pretrained(run.model)
    [solved, at_zero] = next(weights_of(model, first_held_out(run, 100)))
    torch.testing.assert_close(solved, at_zero)
    assert OutlierWeights((), images=100).measure(run)["beta_by_size"] == pytest.approx(1, abs=1e-4)
    assert before["beta_by_size"] < 0.9999  # type: ignore[operator]


def test_equal_weights_find_nothing(tmp_path: Path) -> None:
    control = saved_run(tmp_path, "control", model="geq_tiny_control", data="digits", validation=200)
    found = OutlierWeights(NAMES, images=100).measure(control)
    assert found == {
        "even_loss": 0,
        **{f"even_loss/{name}": 0 for name in NAMES},
        **{f"beta_auroc/{name}": 50 for name in NAMES},
    }
    linear = saved_run(tmp_path, "linear", model="mopteq_tiny", data="digits", validation=200)
    assert OutlierWeights(NAMES, images=100).measure(linear) == {}
