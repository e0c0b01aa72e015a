"""The other norm rules: what their formulas say, and the bound that all of them keep."""

from __future__ import annotations

import pytest
import torch

import geq
from energy_problems import matrix_of

RULES = {
    "full": geq.constraints.SpectralEquality,
    "learned": geq.constraints.LearnedSpectralBound,
    "gain": geq.constraints.ChannelGainBound,
    "frobenius": geq.constraints.FrobeniusBound,
}


def operator(name: str, bound: float, dense: bool, scale: float) -> geq.operators.Operator:
    torch.manual_seed(0)
    rule = RULES[name](bound)
    made = (
        geq.operators.Dense(5, 4, constraint=rule)
        if dense
        else geq.operators.Convolution(3, 4, constraint=rule)
    )
    with torch.no_grad():
        made.raw_weight.mul_(scale)
    return made.double().eval()


def exact_norm(made: geq.operators.Operator, dense: bool) -> float:
    shape = (5,) if dense else (3, 6, 6)
    weight = made.bind(torch.zeros(1, *(shape if dense else (4, 6, 6)), dtype=torch.float64)).weight.detach()
    return float(torch.linalg.matrix_norm(matrix_of(lambda z: made.apply_weight(weight, z), shape), 2))


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_bound_is_kept(name: str, dense: bool, scale: float) -> None:
    norm = exact_norm(operator(name, 1.3, dense, scale), dense)
    assert norm <= 1.3 * (1 + 2e-3)  # 200 power iterations
    if name == "full":
        assert norm == pytest.approx(1.3, rel=2e-3)
    if name in ("learned", "gain"):
        assert norm == pytest.approx(1.3 * torch.sigmoid(torch.tensor(2.0)).item(), rel=2e-3)


def test_gains_are_learned_for_each_channel() -> None:
    made = operator("gain", 1.0, dense=False, scale=1.0)
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    before = made(x).detach()
    with torch.no_grad():
        made.constraint.theta[1] = 0.0
    after = made(x)
    torch.testing.assert_close(after[:, 1], before[:, 1] * 0.5 / torch.sigmoid(torch.tensor(2.0).double()))
    torch.testing.assert_close(after[:, 0], before[:, 0])
    after.sum().backward()
    assert made.constraint.theta.grad.abs().min() > 0


@pytest.mark.parametrize("name", RULES)
def test_they_certify_as_the_default_rule_does(name: str) -> None:
    layer = geq.GEQ2d(3, 8, 8, constraint=RULES[name](1.4)).eval()
    assert layer.well_posedness((4, 4)).unique
