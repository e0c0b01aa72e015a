"""Every penalty: its prox is the argmin, firmly non-expansive, and ``slope`` its derivative."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from torch import Tensor

import geq
from geq.penalties import ActivationPenalty, LeakyPenalty, SigmoidPenalty, TanhPenalty

PENALTIES = {
    "none": geq.penalties.NoPenalty(),
    "non-negative": geq.penalties.NonNegative(),
    "box": geq.penalties.Box(-0.5, 2.0),
    "l1": geq.penalties.L1(0.7),
    "elastic": geq.penalties.ElasticNet(0.4, 1.5),
    "ridge": geq.penalties.ElasticNet(0.0, 2.0),
    "leaky": LeakyPenalty(0.2),
    "tanh": TanhPenalty(),
    "sigmoid": SigmoidPenalty(),
    "elu": ActivationPenalty(torch.nn.ELU()),
    "arctangent": ActivationPenalty(torch.atan),
}
DOMAINS = {
    "non-negative": (0.0, math.inf),
    "box": (-0.5, 2.0),
    "tanh": (-1.0, 1.0),
    "sigmoid": (0.0, 1.0),
    "elu": (-1.0, math.inf),
    "arctangent": (-math.pi / 2, math.pi / 2),
}
names = pytest.mark.parametrize("name", PENALTIES)
numbers = st.floats(-5, 5, allow_nan=False)
steps = st.floats(0.05, 3)
quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)


def row(*entries: float) -> Tensor:
    return torch.tensor([entries], dtype=torch.float64)


@names
@quick
@given(s=numbers, step=steps)
def test_prox_is_the_argmin(name: str, s: float, step: float) -> None:
    """Against a scalar minimiser over the penalty's own domain."""
    penalty = PENALTIES[name]
    low, high = DOMAINS.get(name, (-math.inf, math.inf))

    def objective(z: float) -> float:
        return step * penalty.value(row(z)).item() + 0.5 * (z - s) ** 2

    found = penalty.prox(row(s), step).item()
    bounds = (max(low, -6.0), min(high, 6.0))
    best = minimize_scalar(objective, bounds=bounds, method="bounded", options={"xatol": 1e-8})
    assert math.isfinite(objective(found))
    assert objective(found) <= best.fun + 1e-12
    assert found == pytest.approx(best.x, abs=1e-5)


@names
@pytest.mark.parametrize("step", [0.3, 1.0, 2.5])
def test_prox_is_differentiable(name: str, step: float) -> None:
    s = torch.linspace(-4.0312, 4.0117, 23, dtype=torch.float64)[None].requires_grad_()  # off the kinks
    assert torch.autograd.gradcheck(lambda s: PENALTIES[name].prox(s, step), s)


@names
def test_primitive_is_an_antiderivative_of_the_activation(name: str) -> None:
    """Its derivative by autograd, and its increments by quadrature, are those of prox(·, 1)."""
    penalty = PENALTIES[name]
    s = torch.linspace(-4.0312, 4.0117, 53, dtype=torch.float64)[None].requires_grad_()
    (slope,) = torch.autograd.grad(penalty.primitive(s).sum(), s)
    torch.testing.assert_close(slope, penalty.prox(s).detach(), rtol=1e-8, atol=1e-8)
    fine = torch.linspace(-5, 5, 20_001, dtype=torch.float64)[None]
    increments = penalty.primitive(fine[:, ::1000]).diff()
    torch.testing.assert_close(
        torch.cumulative_trapezoid(penalty.prox(fine), fine)[:, 999::1000].diff(),
        increments[:, 1:],
        rtol=1e-6,
        atol=1e-6,
    )


@names
def test_primitive_is_the_conjugate(name: str) -> None:
    """σ̃(s) + f(z) + ½z² ≥ sz, with equality at z = σ(s) (Fenchel and Young)."""
    penalty = PENALTIES[name]
    s = torch.linspace(-4, 4, 41, dtype=torch.float64)
    z = penalty.prox(torch.linspace(-3, 3, 31, dtype=torch.float64)[None])[0]
    gap = penalty.primitive(s[None])[0][:, None] + (penalty.cost(z) + 0.5 * z**2) - s[:, None] * z
    assert float(gap.min()) >= -1e-9
    there = penalty.prox(s[None])[0]
    touching = penalty.primitive(s[None])[0] + penalty.cost(there) + 0.5 * there**2
    torch.testing.assert_close(touching, s * there, rtol=1e-9, atol=1e-9)


@names
@quick
@given(a=st.lists(numbers, min_size=3, max_size=3), b=st.lists(numbers, min_size=3, max_size=3), step=steps)
def test_prox_is_firmly_non_expansive(name: str, a: list[float], b: list[float], step: float) -> None:
    """‖p(a) − p(b)‖² ≤ ⟨p(a) − p(b), a − b⟩: what makes the certificate of a contraction valid."""
    penalty = PENALTIES[name]
    moved = penalty.prox(row(*a), step) - penalty.prox(row(*b), step)
    assert float(moved.square().sum()) <= float((moved * (row(*a) - row(*b))).sum()) + 1e-12


@names
def test_slope_is_the_derivative(name: str) -> None:
    penalty = PENALTIES[name]
    s = torch.linspace(-4.0312, 4.0117, 53, dtype=torch.float64)[None].requires_grad_()  # off the kinks
    (expected,) = torch.autograd.grad(penalty.prox(s).sum(), s)
    eps = 1e-6
    numerical = (penalty.prox(s + eps) - penalty.prox(s - eps)) / (2 * eps)
    slope = penalty.slope(s.detach())
    torch.testing.assert_close(slope, expected)
    torch.testing.assert_close(slope, numerical.detach())
    assert 0 <= float(slope.min()) <= float(slope.max()) <= 1


@names
def test_forms_that_may_work_in_place(name: str) -> None:
    penalty = PENALTIES[name]
    s = torch.linspace(-4.0312, 4.0117, 53)[None]
    assert torch.equal(penalty.prox_(s.clone()), penalty.prox(s))
    assert torch.equal(penalty.slope_(s.clone()), penalty.slope(s))


@names
def test_value_is_summed_per_sample(name: str) -> None:
    penalty = PENALTIES[name]
    z = 0.9 * torch.rand(3, 2, 4, dtype=torch.float64)
    value = penalty.value(z)
    assert value.shape == (3,)
    torch.testing.assert_close(value, penalty.cost(z).sum((1, 2)))
    for sample in range(3):
        entries = sum(penalty.value(row(entry)).item() for entry in z[sample].flatten().tolist())
        assert value[sample].item() == pytest.approx(entries)


@names
def test_prox_is_feasible_and_keeps_shape_and_precision(name: str) -> None:
    penalty = PENALTIES[name]
    s = 5 * torch.randn(2, 3, 4, 4)
    p = penalty.prox(s)
    assert p.shape == s.shape
    assert p.dtype == torch.float32
    assert bool(torch.isfinite(penalty.value(p)).all())


def test_values() -> None:
    z = row(-1.0, 2.0)
    assert geq.penalties.NonNegative().value(z).item() == math.inf
    assert geq.penalties.NonNegative().value(z.abs()).item() == 0
    assert geq.penalties.Box(-1.0, 2.0).value(z).item() == 0  # the edges belong to it
    assert geq.penalties.L1(2.0).value(z).item() == 6
    assert geq.penalties.ElasticNet(1.0, 2.0).value(z).item() == 8
    assert geq.penalties.NoPenalty().value(z).item() == 0
    assert LeakyPenalty(0.25).value(z).item() == 1.5
    edge = row(-1.0, 1.0)
    assert TanhPenalty().value(edge).item() == pytest.approx(2 * math.log(2) - 1)
    assert TanhPenalty().value(1.01 * edge).item() == math.inf
    assert SigmoidPenalty().value(edge).item() == math.inf
    assert ActivationPenalty(torch.atan).value(row(1.6)).item() == math.inf
    # −log cos z − ½z² is the integral of tan z − z
    expected = -math.log(math.cos(1.2)) - 0.72
    assert ActivationPenalty(torch.atan).value(row(1.2)).item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: geq.penalties.Box(1.0, 1.0), "low < high: got low=1.0, high=1.0"),
        (lambda: geq.penalties.Box(float("nan"), 1.0), "low < high"),
        (lambda: geq.penalties.L1(-0.1), "must not be negative: got l1=-0.1"),
        (lambda: geq.penalties.ElasticNet(0.1, float("nan")), "must not be negative"),
        (lambda: geq.penalties.ElasticNet(0.1, lambda2=2), "option of ElasticNet 'lambda2'"),
        (lambda: LeakyPenalty(1.5), r"lies in \(0, 1\].*got 1.5"),
        (lambda: LeakyPenalty(0.0), "0 is ReLU, NonNegative"),
    ],
)
def test_bad_options(build: object, told: str) -> None:
    with pytest.raises(geq.errors.OptionError, match=told):
        build()  # type: ignore[operator]


def test_repr_shows_the_options() -> None:
    shown = [repr(p) for p in PENALTIES.values()]
    assert shown == [
        "NoPenalty()",
        "NonNegative()",
        "Box(low=-0.5, high=2.0)",
        "L1(weight=0.7)",
        "ElasticNet(l1=0.4, l2=1.5)",
        "ElasticNet(l1=0.0, l2=2.0)",
        "LeakyPenalty(negative_slope=0.2)",
        "TanhPenalty()",
        "SigmoidPenalty()",
        "ActivationPenalty(\n  (function): ELU(alpha=1.0)\n)",
        "ActivationPenalty(atan)",
    ]
