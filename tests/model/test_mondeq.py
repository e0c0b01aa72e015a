"""monDEQ: the operator against dense matrices and plain convolutions, both splittings against each other."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from geq.certificates.well_posedness import MonotoneWellPosedness
from geq.equilibrium import Equilibrium
from geq.errors import GeqError, InputError, OptionError
from geq.gradients import Implicit
from geq.model.circular_convolution import apply_symbol, norm_upper_bound, symbol
from geq.model.model_registry import create_model
from geq.model.mondeq import Mon
from geq.model.mondeq_cell import ForwardBackwardCell, MonotoneCell, PeacemanRachfordCell, prox

CELLS = [ForwardBackwardCell, PeacemanRachfordCell]
SIZE = (5, 6)
"""Of the state's map; the image is two pixels smaller on each axis."""


def make(kind: type[MonotoneCell], gain: float = 1.0, m: float = 0.5, channels: int = 3) -> MonotoneCell:
    """A cell with strong feedback: ‖W‖ is far above 1."""
    cell = kind(2, channels, monotonicity=m).double()
    with torch.no_grad():
        cell.symmetric_gain.fill_(gain)
        cell.skew_gain.fill_(-gain)
    return cell


@pytest.mark.parametrize(("stride", "image"), [(2, (6, 8)), (2, (5, 7)), (3, (7, 10))])
def test_a_stride_spreads_the_states_over_the_image(stride: int, image: tuple[int, int]) -> None:
    cell = PeacemanRachfordCell(2, 3, monotonicity=0.5, stride=stride).double()
    x = torch.randn(2, 2, *image, dtype=torch.float64)
    z = solve(cell, x)
    # Without the border: every stride-th position of the plain injection, the first of them at the corner.
    drive = F.conv2d(x, cell.injection.weight, cell.injection.bias, padding=1)[..., ::stride, ::stride]
    inside = (..., slice(1, -1), slice(1, -1))
    assert z[inside].shape == drive.shape == (2, 3, SIZE[0] - 2, SIZE[1] - 2)
    assert (z[inside] - (feedback(cell, z)[inside] + drive).relu()).norm() <= 1e-9 * z.norm()


def images(batch: int = 2) -> Tensor:
    return torch.randn(batch, 2, SIZE[0] - 2, SIZE[1] - 2, dtype=torch.float64)


def solve(cell: MonotoneCell, x: Tensor) -> Tensor:
    """z with its border, to 1e-12."""
    layer = Equilibrium(cell, tol=1e-12, max_steps=2000).eval()
    with torch.no_grad():
        return prox(layer(x))


def feedback(cell: MonotoneCell, z: Tensor) -> Tensor:
    """Wz from convolutions on the map itself, with no Fourier transform."""

    def circular(z: Tensor, kernel: Tensor) -> Tensor:
        return F.conv2d(F.pad(z, (1, 1, 1, 1), mode="circular"), kernel)

    a = cell.symmetric_gain * cell.symmetric / cell.symmetric.norm()
    b = cell.skew_gain * cell.skew / cell.skew.norm()
    a_adjoint, b_adjoint = (k.transpose(0, 1).flip(2, 3) for k in (a, b))
    m = cell.monotonicity
    return (1 - m) * z - circular(circular(z, a), a_adjoint) + circular(z, b) - circular(z, b_adjoint)


def assembled(operator: Tensor, channels: int = 3) -> Tensor:
    """The dense matrix of an operator, column by column."""
    size = channels * SIZE[0] * SIZE[1]
    units = torch.eye(size, dtype=torch.float64).view(size, channels, *SIZE)
    return apply_symbol(operator, units).flatten(1).T


@pytest.mark.parametrize("side", [1, 3, 5])
def test_a_symbol_is_the_circular_convolution_and_its_conjugate_the_adjoint(side: int) -> None:
    kernel = torch.randn(3, 3, side, side, dtype=torch.float64)
    z, y = torch.randn(2, 4, 3, *SIZE, dtype=torch.float64)
    operator = symbol(kernel, *SIZE)
    pad = side // 2
    expected = F.conv2d(F.pad(z, (pad,) * 4, mode="circular") if pad else z, kernel)
    torch.testing.assert_close(apply_symbol(operator, z), expected)
    torch.testing.assert_close(
        (apply_symbol(operator, z) * y).sum(), (z * apply_symbol(operator.mH.contiguous(), y)).sum()
    )


def test_the_norm_bound_is_above_the_norm_and_near_it() -> None:
    for scale in (1e-12, 1.0, 1e12):
        operator = scale * symbol(torch.randn(3, 3, 3, 3, dtype=torch.float64), *SIZE)
        true = torch.linalg.matrix_norm(assembled(operator), 2)
        bound = norm_upper_bound(operator)
        assert true * (1 - 1e-12) <= bound <= 3 ** (1 / 32) * true * (1 + 1e-12)


@pytest.mark.parametrize("kind", CELLS)
def test_the_operator_is_what_its_formula_says(kind: type[MonotoneCell]) -> None:
    cell = make(kind)
    z = torch.randn(2, 3, *SIZE, dtype=torch.float64)
    operator = cell.monotone_operator(*SIZE)
    torch.testing.assert_close(z - apply_symbol(operator, z), feedback(cell, z))


@pytest.mark.parametrize("m", [0.05, 1.0])
def test_uniqueness_condition_by_eigenvalues(m: float) -> None:
    cell = make(ForwardBackwardCell, gain=4.0, m=m)
    matrix = assembled(cell.monotone_operator(*SIZE))
    lowest = torch.linalg.eigvalsh((matrix + matrix.T) / 2).min().item()
    assert lowest >= m - 1e-12
    assert torch.linalg.matrix_norm(torch.eye(len(matrix)) - matrix, 2) > 1, "else the norm alone would do"


def test_the_resolvent_inverts() -> None:
    cell = make(PeacemanRachfordCell)
    cell.step = 0.7
    operator = cell.monotone_operator(*SIZE)
    found = cell.split(operator)
    identity = torch.eye(3 * SIZE[0] * SIZE[1], dtype=torch.float64)
    resolvent = torch.linalg.inv(identity + 0.7 * assembled(operator))
    torch.testing.assert_close(assembled(found.resolvent), resolvent)
    torch.testing.assert_close(assembled(found.linear), 2 * resolvent - identity)
    x = images(1)
    drive = F.conv2d(x, cell.injection.weight, cell.injection.bias, padding=2)
    torch.testing.assert_close(cell.inject(x).constant.flatten(), 2 * 0.7 * resolvent @ drive.flatten())


def test_the_step_of_peaceman_rachford_is_the_best_for_a_symmetric_operator() -> None:
    """The factor of u ↦ (2V − I)u, from the eigenvalues of the assembled matrix."""
    cell = make(PeacemanRachfordCell, gain=4.0, m=0.2)
    with torch.no_grad():
        cell.skew_gain.zero_()
    operator = cell.monotone_operator(*SIZE)
    bound = norm_upper_bound(operator).item()

    def factor(step: float | None) -> float:
        cell.step = step
        return torch.linalg.eigvalsh(assembled(cell.split(operator).linear)).abs().max().item()

    ours = factor(None)
    assert ours <= (bound**0.5 - 0.2**0.5) / (bound**0.5 + 0.2**0.5) + 1e-12
    assert all(ours < factor(times / bound) for times in (0.5, 1.0)), "the step 1/L of the general bound"


@pytest.mark.parametrize("kind", CELLS)
def test_evaluation_follows_the_weights(kind: type[MonotoneCell]) -> None:
    """State kept between solves is correct after every way to change the weights, the step and the size."""
    cell, x = make(kind).eval(), images()

    def check() -> None:
        with torch.no_grad():
            found = cell.inject(x)
        expected = cell.inject(x)
        torch.testing.assert_close(found.linear, expected.linear)
        torch.testing.assert_close(found.constant, expected.constant)
        with torch.no_grad():
            cell.inject(x)  # for the next change to find something kept

    with torch.no_grad():
        assert cell.inject(x).linear is cell.inject(2 * x).linear, "kept"
    check()
    with torch.no_grad():
        before = cell.inject(x).linear
        cell.skew_gain.mul_(2)
        assert (cell.inject(x).linear - before).abs().max() > 0.01
    check()
    cell.load_state_dict(make(kind).state_dict())
    check()
    cell.skew = torch.nn.Parameter(torch.randn_like(cell.skew))
    check()
    cell.step = 0.3
    check()
    x = x[:, :, :-1]
    check()
    with torch.no_grad():
        twin = copy.deepcopy(cell)
        cell.symmetric_gain.mul_(2)
        assert (cell.inject(x).linear - twin.inject(x).linear).abs().max() > 0.01


@pytest.mark.parametrize("kind", CELLS)
def test_each_splitting_contracts_by_its_rate(kind: type[MonotoneCell]) -> None:
    cell = make(kind)
    lipschitz = norm_upper_bound(cell.monotone_operator(*SIZE)).item()
    ratio = cell.monotonicity / lipschitz
    rate = (1 - ratio**2) ** 0.5 if kind is ForwardBackwardCell else (1 - ratio) ** 0.5
    map_ = cell.equation(images(1))
    for _ in range(20):
        a, b = torch.randn(2, 1, 3, *SIZE, dtype=torch.float64)
        assert (map_(a) - map_(b)).norm() <= (rate + 1e-12) * (a - b).norm()


@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_without_a_certificate_has_no_rate(kind: type[MonotoneCell]) -> None:
    class Louder(kind):  # type: ignore[misc, valid-type]
        def forward(self, z: Tensor, c: object) -> Tensor:
            return 2 * super().forward(z, c)

    cell = make(Louder)
    certificate = cell.well_posedness(SIZE)
    assert certificate.reason
    assert cell.contraction_rate(certificate) is None


@pytest.mark.parametrize("kind", CELLS)
def test_the_fixed_point_solves_the_equation(kind: type[MonotoneCell]) -> None:
    cell, x = make(kind), images()
    z = solve(cell, x)
    drive = F.conv2d(x, cell.injection.weight, cell.injection.bias, padding=2)
    image = (feedback(cell, z) + drive).relu()
    inside = (..., slice(1, -1), slice(1, -1))
    assert (image - z)[inside].norm() <= 1e-9 * z.norm()
    assert z.norm() > 0.1
    border = z.clone()
    border[inside] = 0
    assert border.abs().max() == 0
    # Hence nothing wraps around: W acts as the zero-padded convolution.
    a = cell.symmetric_gain * cell.symmetric / cell.symmetric.norm()
    wrapped = F.conv2d(F.pad(z, (1, 1, 1, 1), mode="circular"), a)
    torch.testing.assert_close(wrapped, F.conv2d(z, a, padding=1))


def test_both_splittings_and_every_step_find_the_same_point() -> None:
    forward_backward, x = make(ForwardBackwardCell), images()
    expected = solve(forward_backward, x)
    for step in (None, 0.05, 2.0):
        peaceman_rachford = make(PeacemanRachfordCell)
        peaceman_rachford.load_state_dict(forward_backward.state_dict())
        peaceman_rachford.step = step
        assert (solve(peaceman_rachford, x) - expected).abs().max() <= 1e-8
    start = torch.randn_like(expected)
    other = Equilibrium(forward_backward, tol=1e-12, max_steps=2000).eval().solve(x, z0=start).value
    assert (other - expected).abs().max() <= 1e-8


def test_both_splittings_have_the_same_gradient() -> None:
    x = images().requires_grad_()
    found = []
    cells = [make(kind) for kind in CELLS]
    cells[1].load_state_dict(cells[0].state_dict())
    weights = torch.randn(2, 3, 3, 4, dtype=torch.float64)
    for cell in cells:
        layer = Equilibrium(cell, gradient=Implicit(tol=1e-12, max_steps=2000), tol=1e-12, max_steps=2000)
        loss = (cell.read(layer(x)) * weights).sum()
        found.append(torch.autograd.grad(loss, [x, *cell.parameters()]))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", CELLS)
def test_gradients_against_finite_differences(kind: type[MonotoneCell]) -> None:
    cell, x = make(kind, channels=2), images()
    layer = Equilibrium(cell, gradient=Implicit(tol=1e-11, max_steps=500), tol=1e-11, max_steps=500)
    names, values = zip(*cell.named_parameters(), strict=True)

    def output(x: Tensor, *values: Tensor) -> Tensor:
        named = {f"cell.{name}": value for name, value in zip(names, values, strict=True)}
        return cell.read(torch.func.functional_call(layer, named, (x,)))

    inputs = [x.requires_grad_(), *[v.detach().clone().requires_grad_() for v in values]]
    assert torch.autograd.gradcheck(output, inputs, eps=1e-5, atol=1e-5, fast_mode=True)


def test_certificate() -> None:
    cell = make(ForwardBackwardCell)
    before = cell.well_posedness()
    matrix = assembled(cell.monotone_operator(*SIZE))
    after = cell.well_posedness(SIZE)
    identity = torch.eye(len(matrix), dtype=torch.float64)
    for found in (before, after):
        assert found.monotonicity == 0.5
        assert found.unique
        assert not found.contraction
        assert found.lipschitz >= torch.linalg.matrix_norm(matrix, 2) - 1e-9
        assert found.feedback_norm >= torch.linalg.matrix_norm(identity - matrix, 2) - 1e-9
        assert found.largest_step == pytest.approx(1.0 / found.lipschitz**2)
    assert after.lipschitz < before.lipschitz, "the size of the map is known"
    assert "one equilibrium" in str(after)
    assert not MonotoneWellPosedness(1.0, monotonicity=0.0, lipschitz=1.0).unique
    assert make(ForwardBackwardCell, gain=0.05, m=1.0).well_posedness().contraction


def test_parameters_are_those_of_the_paper() -> None:
    with torch.device("meta"):
        assert create_model("mon_cifar_172k").parameter_count() == 172_218
        assert create_model("mon_cifar_854k").parameter_count() == 853_612


def train(model: Mon, x: Tensor, steps: int, lr: float = 0.1) -> None:
    labels = torch.arange(len(x)) % 10
    optimiser = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    model.train()
    for _ in range(steps):
        optimiser.zero_grad()
        F.cross_entropy(model(x), labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimiser.step()


@pytest.mark.parametrize("splitting", ["forward_backward", "peaceman_rachford"])
def test_converges_at_the_start_and_after_training(splitting: str) -> None:
    model = create_model("mon_tiny", splitting=splitting)
    assert isinstance(model, Mon)
    x = torch.randn(8, 1, 8, 8)
    model.eval()(x)
    assert model.solutions()["equilibrium"].steps_max <= 10
    train(model, x, 20)
    with torch.no_grad():
        logits = model.eval()(x)
    report = model.solutions()["equilibrium"]
    assert report.converged == 1.0
    assert report.residual_max <= 1e-4
    assert report.steps_max <= 40
    assert F.cross_entropy(logits, torch.arange(8)) < 1.5, "it learns, from 2.3"


def test_a_network_says_what_it_is() -> None:
    model = create_model("mon_tiny")
    x = torch.randn(2, 1, 8, 8)
    model(x)
    with pytest.raises(GeqError, match="has no energy"):
        model.energy(x)
    assert model.well_posedness()["equilibrium"].unique
    # 10 × (10/2 + 1) frequencies, of a 32×32 complex matrix each.
    assert model.multiply_adds() == 4 * 60 * 32 * 32
    with pytest.raises(InputError, match=r"images must be 8×8.*input_shape=\(1, 12, 8\)"):
        model(torch.randn(2, 1, 12, 8))


def test_a_half_precision_module_solves_in_single() -> None:
    model = create_model("mon_tiny").bfloat16().eval()
    with torch.no_grad():
        assert model(torch.randn(2, 1, 8, 8).bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize(
    "options",
    [
        {"channels": 0},
        {"pool": 9},
        {"stride": 0},
        {"stride": 4, "pool": 3},
        {"monotonicity": 0.0},
        {"step": -1.0},
    ],
)
def test_impossible_options_are_refused(options: dict) -> None:
    with pytest.raises(OptionError):
        create_model("mon_tiny", **options)
