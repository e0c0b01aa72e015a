"""SequentialAveraging: eq. 11 literally, its choice among fixed points, and its derivative."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

import energy_problems
import geq

REGULARISERS = {
    "decay": (geq.regularizers.FeatureDecay(), None),
    "incay": (geq.regularizers.Incay(), None),
    "decorrelation": (geq.regularizers.Decorrelation(), 0.1),
    "hsic": (geq.regularizers.HSIC(0.3), 0.5),
    "hsic_fourier": (geq.regularizers.HSIC(0.3, fourier=8), 0.5),
}


def degenerate_layer(
    gradient: geq.gradients.Gradient | None = None,
) -> tuple[geq.Equilibrium, Tensor, Tensor]:
    """OptEq with ‖W‖ = 1 and no penalty: z = WᵀWz + a with Wa = 0, of which every a + Wᵀy is a solution."""
    torch.manual_seed(1)
    basis = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64)).Q
    problem = geq.EnergyProblem(
        geq.kernels.LinearKernel(),
        W=geq.operators.Dense(5, 2, constraint=geq.constraints.Unconstrained()),
        U=geq.operators.Dense(5, 5),
        penalty=geq.penalties.NoPenalty(),
    ).double()
    with torch.no_grad():
        problem.W.raw_weight.copy_(basis[:2])
        problem.U.raw_weight.copy_(basis[2:].T @ basis[2:])
    layer = geq.Equilibrium(problem, gradient=gradient, tol=1e-10, max_steps=200).eval()
    x = torch.randn(3, 5, dtype=torch.float64)
    return layer, x, basis[:2]


def projected(x: Tensor, W: Tensor) -> Tensor:
    return x - x @ W.T @ W


def test_iterates_are_equation_11() -> None:
    problem, x = energy_problems.dense("gaussian"), energy_problems.vectors()
    gradient = geq.gradients.SequentialAveraging(3, geq.regularizers.Incay(2.0), damping=0.9)
    cell = problem
    c = problem.inject(x)
    z = torch.zeros(3, energy_problems.STATE, dtype=torch.float64)
    lipschitz = 1 / 4
    gamma, eta = 1 / (2 * lipschitz), min(math.sqrt(2 * lipschitz), lipschitz / 2, 0.5)
    for k in range(1, 4):
        beta, ridge = eta / k**0.4, eta / k**0.2
        nabla = -4 * z / (z.square().sum(1, keepdim=True) + 4) ** 2
        mapped = 0.1 * z + 0.9 * cell(z, c)
        z = beta * ((1 - gamma * ridge) * z - gamma * nabla) + (1 - beta) * mapped
    layer = geq.Equilibrium(problem, gradient=gradient)
    torch.testing.assert_close(layer.train()(x), z)
    torch.testing.assert_close(layer.eval()(x), z)
    torch.testing.assert_close(layer.solve(x).value, z.detach())


@pytest.mark.parametrize("name", REGULARISERS)
def test_gradcheck_in_input_and_parameters(name: str) -> None:
    regulariser, gamma = REGULARISERS[name]
    problem, x = energy_problems.dense("gaussian"), energy_problems.small_vectors()
    layer = geq.Equilibrium(
        problem, gradient=geq.gradients.SequentialAveraging(4, regulariser, gamma=gamma)
    ).eval()
    names = [name for name, _ in layer.named_parameters()]
    tensors = [p.detach().clone().requires_grad_() for p in layer.parameters()]
    z0 = torch.rand(len(x), energy_problems.STATE, dtype=torch.float64).requires_grad_()

    def call(x: Tensor, z0: Tensor, *parameters: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(names, parameters, strict=True)), (x, z0))

    assert torch.autograd.gradcheck(call, (x.requires_grad_(), z0, *tensors), fast_mode=True, atol=1e-4)


def test_maps_are_regularised_too() -> None:
    problem, x = energy_problems.conv("linear"), energy_problems.small_maps()
    layer = geq.Equilibrium(
        problem, gradient=geq.gradients.SequentialAveraging(3, geq.regularizers.HSIC(0.1), gamma=1.0)
    ).eval()
    assert torch.autograd.gradcheck(layer, (x.requires_grad_(),), fast_mode=True, atol=1e-4)


def test_sam_selects_the_least_norm_and_plain_iteration_does_not() -> None:
    layer, x, W = degenerate_layer()
    z0 = torch.randn(3, 5, dtype=torch.float64)
    selected = projected(x, W)  # the fixed point next to 0
    distance = {}
    for name, gradient in {
        "implicit": geq.gradients.Implicit(),
        "plain": geq.gradients.Unrolled(1000),
        "sam": geq.gradients.SequentialAveraging(1000, geq.regularizers.FeatureDecay()),
    }.items():
        layer.gradient = gradient
        with torch.no_grad():
            z = layer(x, z0=z0)
            residual = (layer.cell(z, layer.cell.inject(x)) - z).norm()
        distance[name] = float((z - selected).norm() / (z0 @ W.T).norm())
        assert residual < 0.1  # all of them are (almost) fixed points
    assert distance["plain"] == pytest.approx(1)  # it stays at the height at which it began
    assert distance["implicit"] == pytest.approx(1)
    assert distance["sam"] < 0.05


def test_default_schedule_is_that_of_the_theorem() -> None:
    sam = geq.gradients.SequentialAveraging(20, geq.regularizers.FeatureDecay())
    assert sam.step_size == 0.5
    assert sam.eta == 0.5
    assert sam.schedule(1) == (0.5, 0.5)
    assert sam.schedule(32) == pytest.approx((0.5 * 32**-0.4, 0.25))
    assert geq.gradients.SequentialAveraging(20, geq.regularizers.Incay(2.0)).eta == 1 / 8
    assert geq.gradients.SequentialAveraging(20, geq.regularizers.Incay(2.0), scale=0.3).eta == 0.3


def test_a_state_of_several_tensors_is_refused() -> None:
    class Two(geq.Cell):
        def initial_state(self, c: Tensor) -> tuple[Tensor, ...]:
            return torch.zeros_like(c), torch.zeros_like(c)

        def forward(self, z: tuple[Tensor, ...], c: Tensor) -> tuple[Tensor, ...]:
            return 0.1 * z[1] + c, 0.1 * z[0]

    layer = geq.Equilibrium(
        Two(), gradient=geq.gradients.SequentialAveraging(3, geq.regularizers.FeatureDecay())
    )
    with pytest.raises(geq.errors.InputError, match="state of one tensor: got 2; use Unrolled"):
        layer(torch.ones(2, 3))


def test_a_batch_of_one_is_refused_where_samples_are_compared() -> None:
    layer = geq.Equilibrium(
        energy_problems.dense("gaussian"),
        gradient=geq.gradients.SequentialAveraging(3, geq.regularizers.HSIC(), gamma=0.1),
    )
    with pytest.raises(geq.errors.InputError, match="HSIC compares the samples of a batch"):
        layer(energy_problems.vectors()[:1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "SequentialAveraging: steps must be at least 1: got 0"),
        ({"damping": 0.0}, r"SequentialAveraging: damping must lie in \(0, 1\]"),
        ({"gamma": 0.0}, "gamma must be above 0: got 0"),
        ({"scale": 2.0}, r"scale must lie in \(0, 1\]: got 2"),
        ({"beta_power": 0.6}, r"beta_power \+ 2·lambda_power < 1.*got 0.6 and 0.2"),
        ({"lambda_power": 0.0}, "must be above 0"),
        ({"regulariser": geq.regularizers.HSIC()}, r"HSIC knows no Lipschitz constant.*gamma=0.1"),
        ({"beta": 0.5}, "did you mean 'beta_power'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(geq.errors.OptionError, match=message):
        geq.gradients.SequentialAveraging(
            **{"steps": 5, "regulariser": geq.regularizers.FeatureDecay(), **options}
        )
