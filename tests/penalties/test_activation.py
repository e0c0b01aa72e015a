"""Penalties of given activations, and functions that are no activation at all."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import geq
from geq.penalties import ActivationPenalty, LeakyPenalty, SigmoidPenalty, TanhPenalty, penalty_of

ACTIVATIONS = [
    (nn.ReLU(), geq.penalties.NonNegative),
    (nn.ReLU(inplace=True), geq.penalties.NonNegative),
    (torch.relu, geq.penalties.NonNegative),
    (F.relu, geq.penalties.NonNegative),
    (nn.LeakyReLU(0.3), LeakyPenalty),
    (nn.LeakyReLU(0.0), geq.penalties.NonNegative),
    (nn.Tanh(), TanhPenalty),
    (torch.tanh, TanhPenalty),
    (nn.Sigmoid(), SigmoidPenalty),
    (nn.ReLU6(), geq.penalties.Box),
    (nn.Hardtanh(-0.5, 2.0), geq.penalties.Box),
    (nn.Softshrink(0.7), geq.penalties.L1),
    (nn.Identity(), geq.penalties.NoPenalty),
    (nn.ELU(), ActivationPenalty),
    (nn.Softplus(), ActivationPenalty),
    (nn.Softsign(), ActivationPenalty),
    (torch.atan, ActivationPenalty),
    (lambda s: 0.5 * s, ActivationPenalty),
]


@pytest.mark.parametrize(("activation", "kind"), ACTIVATIONS)
def test_the_prox_is_the_activation(activation: object, kind: type) -> None:
    penalty = penalty_of(activation)
    assert type(penalty) is kind
    s = torch.linspace(-8, 8, 101, dtype=torch.float64)[None]
    torch.testing.assert_close(penalty.prox(s), activation(s.clone()))  # type: ignore[operator]


def test_none_is_relu_and_a_penalty_is_itself() -> None:
    assert isinstance(penalty_of(None), geq.penalties.NonNegative)
    box = geq.penalties.Box(0.0, 1.0)
    assert penalty_of(box) is box


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (nn.GELU(), "must not decrease.*GELU.*slope -0.1.* near -1.4"),
        (nn.SiLU(), "must not decrease.*SiLU"),
        (torch.sin, "must not decrease.*sin, with the slope -1 near"),
        (lambda s: -s, "must not decrease"),
        (lambda s: 2 * s.relu(), r"must be 1-Lipschitz.*<lambda>, with the slope 2 near 0"),
        (nn.ELU(alpha=2.0), r"must be 1-Lipschitz.*slope 1.999 near -0.001; use ReLU"),
        (nn.LeakyReLU(1.5), r"negative slope lies in \(0, 1\].*got 1.5"),
        (lambda s: s.softmax(0), "every entry alone"),
        (lambda s: s.sum(), "of its argument's shape"),
        (torch.log, "must be finite.*log, which is not at -1e"),
        (nn.ELU(inplace=True), "must not change its argument.*inplace=False"),
        (nn.PReLU(), "no weights of its own.*PReLU"),
        (nn.Dropout(0.5), "and always alike.*Dropout"),
    ],
)
def test_what_is_no_prox_is_refused(function: object, told: str) -> None:
    with pytest.raises(geq.errors.OptionError, match=told):
        penalty_of(function)


def test_the_inverse_of_a_slow_activation() -> None:
    """Far values of a flat function, and values that it only approaches."""
    penalty = ActivationPenalty(lambda s: 0.01 * s)
    z = torch.tensor([[-7.0, 0.0, 3.0]], dtype=torch.float64)
    torch.testing.assert_close(penalty.inverse(z), 100 * z)
    torch.testing.assert_close(penalty.cost(z), 49.5 * z**2)
    softplus = ActivationPenalty(nn.Softplus())
    assert float(softplus.cost(torch.tensor([-1e-3]))) == float("inf")
    # f = Li₂(e^{−z}) + const; Li₂(1) − Li₂(e^{−1}) = π²/6 − 0.408 754
    ends = softplus.cost(torch.tensor([1e-9, 1.0], dtype=torch.float64))
    assert float(ends[0] - ends[1]) == pytest.approx(1.644934 - 0.408754, abs=1e-5)


def test_a_layer_with_any_activation_has_its_equilibrium() -> None:
    """z = tanh(WᵀWz + Ux), and the same with tanh known only as a function; the energy falls towards it."""

    def solved(penalty: geq.penalties.Penalty) -> tuple[Tensor, Tensor, geq.Equilibrium]:
        torch.manual_seed(0)
        problem = geq.EnergyProblem(
            geq.kernels.LinearKernel(),
            W=geq.operators.Dense(5, 4),
            U=geq.operators.Dense(3, 5),
            penalty=penalty,
        )
        layer = geq.Equilibrium(problem, tol=1e-10).double()
        x = torch.randn(2, 3, dtype=torch.float64)
        z = layer(x)
        c = problem.inject(x)
        torch.testing.assert_close(z, torch.tanh(problem.attraction(z, c)), rtol=1e-8, atol=1e-8)
        nearby = 0.99 * z + 0.005
        assert bool((problem.energy(z, c) < problem.energy(nearby, c)).all())
        (z**2).sum().backward()
        return z, problem.U.raw_weight.grad, layer

    z, gradient, layer = solved(TanhPenalty())
    z_again, gradient_again, _ = solved(ActivationPenalty(lambda s: s.tanh()))
    torch.testing.assert_close(z_again, z)
    torch.testing.assert_close(gradient_again, gradient)
    assert copy.deepcopy(layer)(torch.ones(1, 3, dtype=torch.float64)).shape == (1, 5)


@pytest.mark.parametrize("solver", [geq.solvers.FISTA(), geq.solvers.ProximalGradient(step_size=0.5)])
def test_solvers_with_steps_of_their_own_find_it_too(solver: geq.solvers.Solver) -> None:
    problem = geq.EnergyProblem(
        geq.kernels.LinearKernel(),
        W=geq.operators.Dense(5, 4),
        U=geq.operators.Dense(3, 5),
        penalty=TanhPenalty(),
    )
    x = torch.randn(2, 3, dtype=torch.float64)
    layer = geq.Equilibrium(problem, tol=1e-9, max_steps=2000).double()
    other = geq.Equilibrium(problem, solver, tol=1e-9, max_steps=2000).double()
    torch.testing.assert_close(other(x), layer(x), rtol=1e-6, atol=1e-7)
