"""Deep OptEq: the composed map, its other forms, and what is proved about it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import geq
from energy_problems import matrix_of
from geq.cells import Cell, DeepCell, UnitLayer
from geq.operators import SeparableConvolution
from geq.penalties import TanhPenalty
from geq.regularizers import Decorrelation, FeatureDecay
from geq_papers.theorem.equivalent_forms import AffineChange, BlockForm, ChangedForm, FeatureForm

SIZES = (3, 6, 2)


def dense_cell(
    alpha: float = 0.7, learn: bool = False, penalty: geq.penalties.Penalty | None = None
) -> DeepCell:
    """Three layers on states of 4 and inputs of 5."""
    torch.manual_seed(0)
    layers = [
        UnitLayer(
            geq.operators.Dense(4, n), geq.operators.Dense(5, n, bias=True), penalty, alpha, learn_alpha=learn
        )
        for n in SIZES
    ]
    return DeepCell(layers).double().eval()


def convolutional_cell(
    kind: type[geq.operators.Convolution] = geq.operators.Convolution, bound: float = 0.95
) -> DeepCell:
    torch.manual_seed(0)
    norm = geq.constraints.SpectralBound(bound)
    layers = [
        UnitLayer(kind(3, n, constraint=norm), kind(3, n, bias=True), TanhPenalty(), 0.6) for n in (2, 4)
    ]
    return DeepCell(layers).double().eval()


def parts(cell: Cell, x: Tensor) -> tuple[Tensor, ...]:
    """The equilibrium, as a tuple also where it is one tensor."""
    z = geq.Equilibrium(cell, tol=1e-13, max_steps=2000).eval()(x)
    return z if isinstance(z, tuple) else (z,)


def solved(cell: Cell, x: Tensor) -> Tensor:
    (z,) = parts(cell, x)
    return z.detach()


INPUT = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
MAPS = torch.randn(2, 3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("alpha", [0.2, 0.7, 1.0])
def test_the_map_is_the_formula(alpha: float) -> None:
    """f_l = αWᵀσ(Wz + Ux + b) + (1 − α)z with matrices written out, and a fixed point by plain iteration."""
    cell = dense_cell(alpha)
    for layer in cell.units:
        layer.U.bias.data.normal_()

    def composed(z: Tensor) -> Tensor:
        for layer in cell.units:
            W = layer.W.weight
            hidden = (z @ W.T + INPUT @ layer.U.weight.T + layer.U.bias).clamp_min(0)
            z = alpha * hidden @ W + (1 - alpha) * z
        return z

    c = cell.inject(INPUT)
    z = torch.randn(3, 4, dtype=torch.float64)
    torch.testing.assert_close(cell(z, c), composed(z))
    for _ in range(2000):
        z = composed(z)
    torch.testing.assert_close(solved(cell, INPUT), z.detach())
    assert float(z.detach().abs().max()) > 0.1


def test_each_layer_without_skip_is_firmly_non_expansive() -> None:
    """Theorem 1: Wᵀσ(Wz + v) is a prox, here of tanh."""
    cell = convolutional_cell()
    for layer in cell.inject(MAPS).layers:
        a, b = 3 * torch.randn(2, *MAPS.shape, dtype=torch.float64)
        moved = (layer.prox(a) - layer.prox(b)).detach()
        assert float(moved.square().sum()) <= float((moved * (a - b)).sum()) + 1e-12
        torch.testing.assert_close(layer(a), 0.6 * layer.prox(a) + 0.4 * a)


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_every_form_has_the_same_equilibrium(alpha: float) -> None:
    deep = dense_cell(alpha)
    z = solved(deep, INPUT)
    c = deep.inject(INPUT)
    features, blocks = FeatureForm(deep), BlockForm(deep)
    torch.testing.assert_close(features.original(parts(features, INPUT), c), z)
    torch.testing.assert_close(blocks.original(parts(blocks, INPUT), c), z)
    change = AffineChange(torch.randn(4, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64))
    changed = ChangedForm(deep, change)
    y = solved(changed, INPUT)
    torch.testing.assert_close(changed.original(y, c), z)
    torch.testing.assert_close(change.inverse(z), y)
    assert not torch.allclose(y, z)


def test_the_forms_on_maps_and_learned_alphas() -> None:
    deep = convolutional_cell()
    z, c = solved(deep, MAPS), deep.inject(MAPS)
    for form in (FeatureForm(deep), BlockForm(deep)):
        torch.testing.assert_close(form.original(parts(form, MAPS), c), z)
    rotation = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64))[0]
    for change in (AffineChange(rotation), AffineChange(shift=torch.ones(3, dtype=torch.float64))):
        form = ChangedForm(deep, change)
        torch.testing.assert_close(form.original(solved(form, MAPS), c), z)
    learned = dense_cell(learn=True)
    with torch.no_grad():
        for layer, raw in zip(learned.units, (-0.5, 0.4, 1.5), strict=True):
            layer.raw_alpha.fill_(raw)
    features = FeatureForm(learned)
    found = features.original(parts(features, INPUT), learned.inject(INPUT))
    torch.testing.assert_close(found, solved(learned, INPUT))


def test_one_layer_in_its_features_is_geqs_opteq() -> None:
    """h = σ(WWᵀh + Ux + b) is the linear hidden problem with Wᵀ as its feedback."""
    deep = DeepCell([dense_cell().units[1]])
    unit = deep.units[0]
    problem = geq.EnergyProblem(
        geq.kernels.LinearKernel(),
        W=geq.operators.Dense(6, 4, constraint=geq.constraints.Unconstrained()),
        U=unit.U,
    ).double()
    with torch.no_grad():
        problem.W.raw_weight.copy_(unit.W.weight.T)
    h = geq.Equilibrium(problem, tol=1e-13, max_steps=2000).eval()(INPUT)
    (found,) = parts(FeatureForm(deep), INPUT)
    torch.testing.assert_close(found, h)
    torch.testing.assert_close(solved(deep, INPUT), (h @ unit.W.weight).detach())


def test_blocks_are_the_states_on_the_way() -> None:
    """Lemma 3, with W̃ and P assembled as matrices (and P inside σ, which eq. 7 omits)."""
    deep, alpha = dense_cell(0.7), 0.7
    stacked = torch.cat(parts(BlockForm(deep), INPUT), 1)
    W = torch.block_diag(*(unit.W.weight for unit in deep.units))
    eye, zero = torch.eye(4, dtype=torch.float64), torch.zeros(4, 4, dtype=torch.float64)
    P = torch.cat([torch.cat(row, 1) for row in ((zero, zero, eye), (eye, zero, zero), (zero, eye, zero))])
    U = torch.cat([unit.U.weight for unit in deep.units])
    b = torch.cat([unit.U.bias for unit in deep.units])
    moved = stacked @ P.T
    image = alpha * (moved @ W.T + INPUT @ U.T + b).clamp_min(0) @ W + (1 - alpha) * moved
    torch.testing.assert_close(image, stacked)


@pytest.mark.parametrize("kind", [geq.operators.Convolution, SeparableConvolution])
def test_the_certificate_bounds_the_jacobian(kind: type[geq.operators.Convolution]) -> None:
    cell = convolutional_cell(kind, 0.7)  # the certificate of a zero-padded map of this size is loose
    c = cell.inject(MAPS[:1])
    proved = cell.well_posedness((4, 5))
    assert proved.rate is not None
    assert proved.contraction
    assert proved.unique
    for _ in range(3):
        z = torch.randn(1, 3, 4, 5, dtype=torch.float64)
        jacobian = torch.autograd.functional.jacobian(lambda z: cell(z, c), z).reshape(60, 60)
        assert float(torch.linalg.matrix_norm(jacobian, 2)) <= proved.rate


def test_the_certificate_with_a_regulariser() -> None:
    layers = dense_cell().units
    assert DeepCell(layers, FeatureDecay()).well_posedness().contraction
    unknown = DeepCell(layers, Decorrelation()).well_posedness()
    assert unknown.rate is None
    assert unknown.feedback_norm == pytest.approx(0.95)
    free = [
        UnitLayer(
            geq.operators.Dense(4, 3, constraint=geq.constraints.Unconstrained()), geq.operators.Dense(5, 3)
        )
        for _ in range(2)
    ]
    with torch.no_grad():
        free[0].W.raw_weight.mul_(10)
    assert DeepCell(free).well_posedness().unique is False


def test_a_regulariser_changes_the_problem() -> None:
    """z = T(T_R(z), x): with feature decay T_R(z) = z/(1 + γ), and the state is smaller."""
    plain = dense_cell()
    decayed = DeepCell(plain.units, FeatureDecay(), regulariser_step=0.5)
    z = solved(decayed, INPUT)
    torch.testing.assert_close(plain(z / 1.5, plain.inject(INPUT)), z)
    assert float(z.square().sum()) < float(solved(plain, INPUT).square().sum())
    blocks = BlockForm(decayed)
    torch.testing.assert_close(parts(blocks, INPUT)[-1], z)
    with pytest.raises(geq.errors.OptionError, match="without a regulariser"):
        FeatureForm(decayed)


def test_a_solve_starts_at_x_where_that_is_a_state() -> None:
    layers = [UnitLayer(geq.operators.Dense(5, 3), geq.operators.Dense(5, 3))]
    cell = DeepCell(layers).double()
    assert torch.equal(cell.initial_state(cell.inject(INPUT)), INPUT)
    other = dense_cell()
    start = other.initial_state(other.inject(INPUT))
    assert start.shape == (3, 4)
    assert not start.any()


def test_weights_are_bound_once_per_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    cell, calls = convolutional_cell(), []
    original = geq.operators.Convolution.bind

    def counting(self: geq.operators.Convolution, like: Tensor) -> object:
        calls.append(self)
        return original(self, like)

    monkeypatch.setattr(geq.operators.Convolution, "bind", counting)
    layer = geq.Equilibrium(cell, tol=1e-8, max_steps=500).eval()
    layer(MAPS)
    assert layer.last_solution is not None
    assert int(layer.last_solution.steps.max()) > 4
    assert len(calls) == 4, "W and U of two layers"


def test_alpha_learns_within_its_range() -> None:
    unit = UnitLayer(geq.operators.Dense(4, 3), geq.operators.Dense(5, 3), learn_alpha=True)
    assert float(unit.alpha.detach()) == pytest.approx(0.8, abs=1e-6)
    for raw in (-1e4, -30.0, 0.0, 30.0, 1e4):
        with torch.no_grad():
            unit.raw_alpha.fill_(raw)
        assert 0 < float(unit.alpha.detach()) <= 1
    assert "learned α" in repr(unit)
    assert "α=0.8" in repr(UnitLayer(geq.operators.Dense(4, 3), geq.operators.Dense(5, 3)))


def unit(state: int = 4, features: int = 3, **options: object) -> UnitLayer:
    return UnitLayer(geq.operators.Dense(state, features), geq.operators.Dense(5, 3), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: unit(alpha=0.0), r"α must lie in \(0, 1\]: got 0.0"),
        (lambda: unit(alpha=1.2), r"α must lie in \(0, 1\]: got 1.2"),
        (lambda: unit(alpha=float("nan")), r"α must lie in \(0, 1\]: got nan"),
        (lambda: unit(alpha=1.0, learn_alpha=True), "a learned α must start.*got 1.0; start at 0.8"),
        (lambda: unit(features=2), "U must map to the output of W, 2 channels: got 3"),
        (lambda: unit(alfa=0.3), "did you mean 'alpha'"),
        (lambda: DeepCell([]), "at least one layer"),
        (lambda: DeepCell([unit(), unit(state=6)]), r"states of one size: got \[4, 6\]"),
        (lambda: DeepCell([unit()], FeatureDecay(), -1.0), "regulariser_step must be above 0: got -1.0"),
        (lambda: AffineChange(torch.zeros(3, 3)), r"invertible: got shape \(3, 3\) and no inverse"),
        (lambda: AffineChange(torch.ones(3, 2)), r"must be square.*got shape \(3, 2\)"),
    ],
)
def test_bad_options(build: object, told: str) -> None:
    with pytest.raises(geq.errors.OptionError, match=told):
        build()  # type: ignore[operator]


def test_bad_inputs() -> None:
    cell = dense_cell()
    with pytest.raises(
        geq.errors.InputError, match=r"precision of the weights, torch\.float64: got torch\.float32"
    ):
        cell.inject(INPUT.float())
    with pytest.raises(geq.errors.InputError, match="must be finite"):
        cell.inject(INPUT * float("nan"))
    wrong = DeepCell([UnitLayer(geq.operators.Dense(4, 3), nn.Linear(5, 2))])
    with pytest.raises(geq.errors.InputError, match=r"added to the features Wz, must be \(batch, …, 3\)"):
        wrong.inject(INPUT.float())


def test_matrix_of_a_separable_layer_is_bounded() -> None:
    """The norm rule holds for the product of both convolutions."""
    W = convolutional_cell(SeparableConvolution).units[1].W
    with torch.no_grad():
        W.raw_weight.mul_(10)
    W(MAPS)
    assert float(torch.linalg.matrix_norm(matrix_of(W, (3, 4, 5)), 2)) == pytest.approx(0.95, rel=1e-4)
