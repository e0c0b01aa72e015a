"""Every operator: exact adjoint, the effective weight, and norms against the assembled matrix."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import geq
from energy_problems import convolve, convolve_back, matrix_of
from geq.operators import SeparableConvolution
from geq.operators.operator import size_of

NORMS = {
    "none": geq.constraints.Unconstrained,
    "weight": geq.constraints.WeightNorm,
    "operator": lambda: geq.constraints.SpectralBound(0.8),
    "role": lambda: None,
}
KERNELS = [1, 3, 5]


def operators() -> dict[
    str, tuple[geq.operators.Dense | geq.operators.Convolution, tuple[int, ...], tuple[int, ...]]
]:
    """name -> (operator, shape of an argument, shape of a value)."""
    torch.manual_seed(0)
    found: dict[
        str, tuple[geq.operators.Dense | geq.operators.Convolution, tuple[int, ...], tuple[int, ...]]
    ] = {}
    for name, norm in NORMS.items():
        found[f"dense-{name}"] = (geq.operators.Dense(6, 4, constraint=norm()), (6,), (4,))
        for padding in ("zeros", "circular"):
            for kernel in KERNELS:
                operator = geq.operators.Convolution(3, 2, kernel, padding, constraint=norm())
                found[f"conv{kernel}-{padding}-{name}"] = (operator, (3, 5, 6), (2, 5, 6))
                separable = SeparableConvolution(3, 2, kernel, padding, constraint=norm())
                found[f"separable{kernel}-{padding}-{name}"] = (separable, (3, 5, 6), (2, 5, 6))
    for operator, _, _ in found.values():
        with torch.no_grad():
            operator.raw_weight.mul_(2.0)  # so that a bound has something to do
        operator.double().eval()
    return found


OPERATORS = operators()
each = pytest.mark.parametrize("name", OPERATORS)


def pair(name: str) -> tuple[geq.operators.Dense | geq.operators.Convolution, Tensor, Tensor]:
    operator, argument, value = OPERATORS[name]
    z = torch.randn(3, *argument, dtype=torch.float64)
    y = torch.randn(3, *value, dtype=torch.float64)
    return operator, z, y


@each
def test_adjoint_identity(name: str) -> None:
    """⟨Az, y⟩ = ⟨z, Aᵀy⟩, sample by sample."""
    operator, z, y = pair(name)
    left = (operator(z) * y).flatten(1).sum(1)
    right = (z * operator.adjoint(y)).flatten(1).sum(1)
    torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)


@each
def test_weight_gradient_is_autograds(name: str) -> None:
    operator, z, y = pair(name)
    bound = operator.bind(z)
    weight = bound.weight.detach().requires_grad_()
    (expected,) = torch.autograd.grad(operator.apply_weight(weight, z), weight, y)
    torch.testing.assert_close(bound.weight_gradient(z, y), expected)


@each
def test_adjoint_is_the_transposed_matrix(name: str) -> None:
    operator, argument, value = OPERATORS[name]
    matrix = matrix_of(operator, argument)
    torch.testing.assert_close(matrix_of(operator.adjoint, value), matrix.T)


@each
def test_weight_is_what_is_applied(name: str) -> None:
    operator, z, y = pair(name)
    value, back = operator(z), operator.adjoint(y)
    if isinstance(operator, geq.operators.Dense):
        torch.testing.assert_close(value, torch.einsum("oi,bi->bo", operator.weight, z))
        torch.testing.assert_close(back, torch.einsum("oi,bo->bi", operator.weight, y))
    else:
        kernel = operator.full_kernel(operator.effective_weight(size_of(z)))
        torch.testing.assert_close(value, convolve(z, kernel, None, operator.padding))
        torch.testing.assert_close(back, convolve_back(y, kernel, operator.padding))


@each
def test_norm_upper_bound_is_one(name: str) -> None:
    operator, z, _ = pair(name)
    exact = float(torch.linalg.matrix_norm(matrix_of(operator, tuple(z.shape[1:])), 2))
    bound = operator.norm_enclosure(size_of(z)).upper
    assert exact <= bound + 1e-9
    if "zeros" not in name or "conv1" in name or "separable1" in name:
        assert bound == pytest.approx(exact), "exact where the convolution is circular"
    else:
        assert bound < 1.6 * exact, "and not far off where it is not"


@pytest.mark.parametrize("name", [name for name in OPERATORS if name.endswith("operator")])
def test_operator_norm_holds(name: str) -> None:
    operator, z, _ = pair(name)
    exact = float(torch.linalg.matrix_norm(matrix_of(operator, tuple(z.shape[1:])), 2))
    assert exact == pytest.approx(0.8, rel=1e-3)


@pytest.mark.parametrize("padding", ["zeros", "circular"])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_the_quick_norm_bound_of_a_large_separable_operator(
    padding: str, kernel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = SeparableConvolution(3, 2, kernel, padding).double()
    exact = operator.norm_enclosure((5, 4)).upper
    monkeypatch.setattr(SeparableConvolution, "EXACT_NORM_SIZE", 0)
    assert exact <= operator.norm_enclosure((5, 4)).upper + 1e-12 <= 2 * exact


def test_a_separable_operator_has_its_own_count_and_bias() -> None:
    operator = SeparableConvolution(6, 4, 5, bias=True)
    assert sum(p.numel() for p in operator.parameters()) == 6 * 25 + 6 * 4 + 4
    kernel = operator.full_kernel(operator.effective_weight((8, 8)))
    assert kernel.shape == (4, 6, 5, 5)
    assert torch.linalg.matrix_rank(kernel[:, 0].flatten(1)) == 1, "one filter per channel"


def test_a_layer_with_a_separable_feedback() -> None:
    """The closed-form gradient of a hidden problem, against finite differences."""
    # The derivative of σ is exact at the singular vectors, so the largest singular values must not be alike.
    torch.manual_seed(3)
    W = SeparableConvolution(3, 2)
    problem = geq.EnergyProblem(geq.kernels.LinearKernel(), W=W, U=geq.operators.Convolution(2, 3, bias=True))
    layer = geq.Equilibrium(problem, gradient=geq.gradients.Implicit(tol=1e-12), tol=1e-12, max_steps=500)
    layer.double().eval()
    x = torch.randn(2, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    weight = W.raw_weight.detach().clone().requires_grad_()

    def solved(x: Tensor, weight: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"cell.W.raw_weight": weight}, (x,))

    assert torch.autograd.gradcheck(solved, (x, weight), atol=1e-5)


def test_weight_norm_does_not_bound_the_operator() -> None:
    """Reason for another default: with unit rows a convolution still amplifies."""
    operator = geq.operators.Convolution(8, 8, constraint=geq.constraints.WeightNorm()).double()
    z = torch.ones(1, 8, 8, 8, dtype=torch.float64)
    rows = operator.effective_weight(size_of(z)).flatten(1).norm(dim=1)
    torch.testing.assert_close(rows, operator.constraint.gain)
    assert float(torch.linalg.matrix_norm(matrix_of(operator, (8, 8, 8)), 2)) > 1.2 * rows.max().item()


def test_feedback_is_bounded_by_its_role_and_input_is_not() -> None:
    problem = geq.EnergyProblem(
        geq.kernels.GaussianKernel(0.1), W=geq.operators.Dense(4, 5), U=geq.operators.Dense(3, 5)
    )
    assert isinstance(problem.W.constraint, geq.constraints.SpectralBound)
    assert problem.W.constraint.bound == 0.95
    assert isinstance(problem.U.constraint, geq.constraints.Unconstrained)
    chosen = geq.EnergyProblem(
        geq.kernels.GaussianKernel(0.1),
        W=geq.operators.Dense(4, 5, constraint=geq.constraints.Unconstrained()),
        U=geq.operators.Dense(3, 5),
    )
    assert isinstance(chosen.W.constraint, geq.constraints.Unconstrained), "a rule that was asked for stays"


def test_bias_shifts_the_value_and_not_the_adjoint() -> None:
    for operator, shape in [
        (geq.operators.Dense(3, 2, bias=True), (4, 3)),
        (geq.operators.Convolution(3, 2, bias=True), (4, 3, 5, 5)),
    ]:
        zero = torch.zeros(shape)
        with torch.no_grad():
            operator.bias.copy_(torch.tensor([1.0, -2.0]))
        value = operator(zero)
        expected = operator.bias.view(1, -1, *[1] * (value.dim() - 2)).expand_as(value)
        torch.testing.assert_close(value, expected)
        assert not operator.adjoint(torch.zeros_like(value)).any()


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: geq.operators.Dense(0, 3), "positive sizes: got 0 → 3"),
        (lambda: geq.operators.Convolution(3, 0), "positive channels: got 3 → 0"),
        (
            lambda: geq.operators.Convolution(3, 3, kernel_size=4),
            "kernel_size must be odd.*got 4; use 1, 3, 5",
        ),
        (lambda: geq.operators.Convolution(3, 3, kernel_size=-1), "must be odd"),
        (
            lambda: geq.operators.Convolution(3, 3, padding="reflect"),
            "padding must be one of zeros, circular: got 'reflect'",
        ),
        (lambda: geq.operators.Convolution(3, 3, kernelsize=3), "did you mean 'kernel_size'"),
        (lambda: geq.constraints.SpectralBound(0.0), "must be positive: got 0.0"),
        (lambda: geq.constraints.SpectralBound(-1.0), "must be positive"),
        (lambda: geq.constraints.SpectralBound(bond=1.0), "did you mean 'bound'"),
    ],
)
def test_bad_options(build: object, told: str) -> None:
    with pytest.raises(geq.errors.OptionError, match=told):
        build()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("operator", "shape", "told"),
    [
        (geq.operators.Dense(3, 2), (5, 4), r"the argument of Dense must be \(batch, …, 3\): got \(5, 4\)"),
        (geq.operators.Dense(3, 2), (3,), r"got \(3,\)"),
        (
            geq.operators.Convolution(3, 2),
            (5, 4, 6, 6),
            r"of Convolution must be \(batch, 3, height, width\): got \(5, 4, 6, 6\)",
        ),
        (geq.operators.Convolution(3, 2), (3, 6, 6), r"got \(3, 6, 6\)"),
        (
            geq.operators.Convolution(3, 2, kernel_size=7),
            (1, 3, 2, 8),
            r"at least 3 pixels wide for a kernel of 7: got \(2, 8\)",
        ),
    ],
)
def test_bad_shapes(
    operator: geq.operators.Dense | geq.operators.Convolution, shape: tuple[int, ...], told: str
) -> None:
    with pytest.raises(geq.errors.InputError, match=told):
        operator(torch.zeros(shape))


def test_bad_shapes_of_the_adjoint() -> None:
    with pytest.raises(
        geq.errors.InputError, match=r"adjoint of Dense must be \(batch, …, 2\): got \(5, 3\)"
    ):
        geq.operators.Dense(3, 2).adjoint(torch.zeros(5, 3))


def test_repr_shows_the_sizes() -> None:
    assert "Dense(" in repr(geq.operators.Dense(3, 2))
    assert "3, 2, bias=False" in repr(geq.operators.Dense(3, 2))
    assert "3, 2, kernel_size=5, padding='circular', bias=True" in repr(
        geq.operators.Convolution(3, 2, 5, "circular", True)
    )
