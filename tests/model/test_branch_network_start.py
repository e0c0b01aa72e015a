"""The weights that the feedback starts with: their size and their spectrum."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from geq.errors import OptionError
from geq.model.branch_network import BranchNetwork, FeedbackConstraint
from geq.model.geq import STRONG_TINY


def built(constraint: FeedbackConstraint, start: float) -> BranchNetwork:
    torch.manual_seed(0)
    return BranchNetwork(replace(STRONG_TINY, constraint=constraint, feedback_start=start)).double()


def effective(network: BranchNetwork) -> list[torch.Tensor]:
    found = []
    for layer, side in zip(network.equilibria().values(), (8, 4), strict=True):
        W = layer.problem.W
        found.append(W.bind(torch.zeros(1, W.in_channels, side, side, dtype=torch.float64)).weight.detach())
    return found


@pytest.mark.parametrize("constraint", ["none", "weight", "frobenius"])
def test_the_feedback_is_so_much_weaker(constraint: FeedbackConstraint) -> None:
    """A hundredth is below every bound, so that a thousandth is a tenth of it."""
    for hundredth, thousandth in zip(
        effective(built(constraint, 0.01)), effective(built(constraint, 0.001)), strict=True
    ):
        torch.testing.assert_close(thousandth, hundredth / 10)


def test_only_the_feedback_changes() -> None:
    one, quarter = built("operator", 1.0).state_dict(), built("operator", 0.25).state_dict()
    changed = {name for name in one if not torch.equal(one[name], quarter[name])}
    assert changed == {f"branches.{number}.cell.W.raw_weight" for number in range(2)}


def test_the_usual_start_is_cut_by_the_bound_and_a_quarter_is_not() -> None:
    for whole, quarter in zip(
        built("operator", 1.0).equilibria().values(),
        built("operator", 0.25).equilibria().values(),
        strict=True,
    ):
        assert whole.problem.W.norm_enclosure((8, 8)).lower > 1.3
        assert quarter.problem.W.norm_enclosure((8, 8)).upper < 1.0


@pytest.mark.parametrize("constraint", ["full", "learned", "gain"])
def test_rules_that_keep_the_norm_start_alike(constraint: FeedbackConstraint) -> None:
    for one, quarter in zip(
        effective(built(constraint, 1.0)), effective(built(constraint, 0.25)), strict=True
    ):
        torch.testing.assert_close(one, quarter)


@pytest.mark.parametrize("start", [0.0, -1.0])
def test_must_be_positive(start: float) -> None:
    with pytest.raises(OptionError, match="feedback_start must be positive"):
        replace(STRONG_TINY, feedback_start=start)


def test_a_flat_spectrum_explains_more_with_the_same_norm() -> None:
    """Of an input, by the state: W is at its bound in every direction instead of in one."""
    explained = {}
    for spectrum in ("random", "flat"):
        torch.manual_seed(0)
        network = BranchNetwork(replace(STRONG_TINY, feedback_spectrum=spectrum)).double().eval()
        images = torch.randn(16, 1, 8, 8, dtype=torch.float64)
        shares = []
        for name, x in network.inputs_of_equilibria(images).items():
            layer = network.equilibria()[name]
            z = layer.solve(x).value
            share = layer.problem.W(z).norm() / layer.problem.U(x).norm()
            shares.append(float(share.detach()))
            assert 1.3 < layer.problem.W.norm_enclosure(layer.map_size(x)).upper < 1.41
        explained[spectrum] = shares
    for flat, random in zip(explained["flat"], explained["random"], strict=True):
        assert flat > 1.3 * random
