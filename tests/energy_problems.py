"""Hidden problems of every kind in double precision, and formulas written a second time, by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

import geq

BATCH, INPUTS, STATE, FEATURES = 3, 4, 6, 5
CHANNELS_IN, CHANNELS_STATE, CHANNELS_MID, SIDE = 2, 3, 4, 4
SIZE = (SIDE, SIDE)


class InverseMultiquadric(geq.kernels.Kernel):
    """One's own similarity, of which the library knows only the value."""

    def value(self, u: Tensor, v: Tensor) -> Tensor:
        return (1 + ((v - u) ** 2).flatten(1).sum(-1)).rsqrt()


SIMILARITIES: dict[str, Callable[[], geq.kernels.Kernel]] = {
    "linear": geq.kernels.LinearKernel,
    "polynomial": lambda: geq.kernels.PolynomialKernel(degree=2),
    "polynomial-3": lambda: geq.kernels.PolynomialKernel(degree=3, offset=0.5, width=2.0),
    "polynomial-literal": lambda: geq.kernels.PolynomialKernel(degree=2, offset=0.0, averaged=False),
    "sigmoid": geq.kernels.SigmoidKernel,
    "sigmoid-literal": lambda: geq.kernels.SigmoidKernel(averaged=False),
    "gaussian": lambda: geq.kernels.GaussianKernel(gamma=0.1),
    "gaussian-learned": geq.kernels.GaussianKernel,
    "gaussian-paper": lambda: geq.kernels.GaussianKernel(geq.bandwidth.PaperGamma()),
    "gaussian-zero": lambda: geq.kernels.GaussianKernel(geq.bandwidth.ZeroGamma()),
    "own": InverseMultiquadric,
}
"""Similarities of vectors and of maps."""

PATCHED: dict[str, Callable[[], geq.kernels.Kernel]] = {
    "patch": lambda: geq.kernels.PatchGaussianKernel(patch=2, channel_split=2, hidden=5, gamma=0.3),
    "patch-learned": lambda: geq.kernels.PatchGaussianKernel(patch=2, channel_split=4, hidden=6),
    "patch-paper": lambda: geq.kernels.PatchGaussianKernel(
        patch=1, channel_split=2, hidden=3, gamma=geq.bandwidth.PaperGamma()
    ),
    "patch-zero": lambda: geq.kernels.PatchGaussianKernel(
        patch=4, channel_split=1, hidden=8, gamma=geq.bandwidth.ZeroGamma()
    ),
}
"""Similarities of maps alone."""

PADDINGS = ("zeros", "circular")


def dense(
    kernel: str = "gaussian",
    *,
    penalty: geq.penalties.Penalty | None = None,
    constraint: geq.constraints.Constraint | None = None,
    seed: int = 0,
) -> geq.EnergyProblem:
    """A problem on vectors, with random weights and a random bias."""
    torch.manual_seed(seed)
    similarity = SIMILARITIES[kernel]()
    target = FEATURES if similarity.acts_on == "features" else STATE
    problem = geq.EnergyProblem(
        similarity,
        W=geq.operators.Dense(STATE, FEATURES, constraint=constraint),
        U=geq.operators.Dense(INPUTS, target, True),
        penalty=penalty,
    )
    return randomised(problem)


def conv(
    kernel: str = "patch",
    padding: str = "zeros",
    *,
    constraint: geq.constraints.Constraint | None = None,
    seed: int = 0,
) -> geq.EnergyProblem:
    """A problem on maps."""
    torch.manual_seed(seed)
    similarity = {**SIMILARITIES, **PATCHED}[kernel]()
    target = CHANNELS_MID if similarity.acts_on == "features" else CHANNELS_STATE
    problem = geq.EnergyProblem(
        similarity,
        W=geq.operators.Convolution(CHANNELS_STATE, CHANNELS_MID, padding=padding, constraint=constraint),
        U=geq.operators.Convolution(CHANNELS_IN, target, padding=padding, bias=True),
    )
    return randomised(problem)


def randomised(problem: geq.EnergyProblem) -> geq.EnergyProblem:
    """In double precision and evaluation mode, with biases that are not zero."""
    with torch.no_grad():
        problem.U.bias.normal_(std=0.3)  # type: ignore[union-attr, operator]
        if isinstance(problem.kernel, geq.kernels.PatchGaussianKernel):
            problem.kernel.raw_projection.normal_(std=0.4)
    return problem.double().eval()


def derived(problem: geq.EnergyProblem) -> geq.EnergyProblem:
    """The same problem, of which the library knows only the score: its gradient is derived by autograd."""

    class Derived(type(problem)):  # type: ignore[misc]
        def score(self, z: Tensor, c: object) -> Tensor:
            return super().score(z, c)

    twin = copy.copy(problem)
    twin.__class__ = Derived
    return twin


def vectors(batch: int = BATCH, seed: int = 1) -> Tensor:
    return torch.randn(batch, INPUTS, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def maps(batch: int = BATCH, seed: int = 1) -> Tensor:
    shape = (batch, CHANNELS_IN, SIDE, SIDE)
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def small_vectors() -> Tensor:
    """Small enough for the polynomial kernel, which no bound on W alone makes well posed."""
    return 0.3 * vectors()


def small_maps() -> Tensor:
    return 0.3 * maps()


CASES: dict[str, tuple[Callable[[], geq.EnergyProblem], Callable[[], Tensor]]] = {
    **{
        f"dense-{kernel}": (
            lambda kernel=kernel: dense(kernel, constraint=geq.constraints.SpectralBound(0.6)),
            small_vectors,
        )
        for kernel in SIMILARITIES
    },
    **{
        f"conv-{kernel}-{padding}": (
            lambda kernel=kernel, padding=padding: conv(
                kernel, padding, constraint=geq.constraints.SpectralBound(0.6)
            ),
            small_maps,
        )
        for kernel in [*SIMILARITIES, *PATCHED]
        for padding in PADDINGS
    },
}
"""Every kernel, dense and convolutional: name -> (problem, input)."""


SOLVERS: dict[str, geq.solvers.Solver] = {
    "picard": geq.solvers.Picard(),
    "damped": geq.solvers.Picard(damping=0.7),
    "anderson": geq.solvers.Anderson(),
    "anderson-mixed": geq.solvers.Anderson(memory=3, mixing=0.7),
    "broyden": geq.solvers.Broyden(),
    "proximal": geq.solvers.ProximalGradient(),
    "fista": geq.solvers.FISTA(),
}


def layer_of(problem: geq.EnergyProblem | geq.Cell, **options: object) -> geq.Equilibrium:
    options = {"tol": 1e-11, "max_steps": 2000, **options}
    return geq.Equilibrium(problem, **options).eval()  # type: ignore[arg-type]


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, padding: str) -> Tensor:
    """A convolution as a sum over the offsets of its kernel."""
    height, width = x.shape[2:]
    margin = weight.shape[2] // 2
    value = torch.zeros(x.shape[0], weight.shape[0], height, width, dtype=x.dtype)
    for row in range(height):
        for column in range(width):
            for i in range(weight.shape[2]):
                for j in range(weight.shape[3]):
                    r, c = row + i - margin, column + j - margin
                    if padding == "circular":
                        r, c = r % height, c % width
                    if 0 <= r < height and 0 <= c < width:
                        value[:, :, row, column] += x[:, :, r, c] @ weight[:, :, i, j].T
    return value if bias is None else value + bias[None, :, None, None]


def convolve_back(y: Tensor, weight: Tensor, padding: str) -> Tensor:
    """The adjoint of :func:`convolve`: every product is returned to where it came from."""
    height, width = y.shape[2:]
    margin = weight.shape[2] // 2
    value = torch.zeros(y.shape[0], weight.shape[1], height, width, dtype=y.dtype)
    for row in range(height):
        for column in range(width):
            for i in range(weight.shape[2]):
                for j in range(weight.shape[3]):
                    r, c = row + i - margin, column + j - margin
                    if padding == "circular":
                        r, c = r % height, c % width
                    if 0 <= r < height and 0 <= c < width:
                        value[:, :, r, c] += y[:, :, row, column] @ weight[:, :, i, j]
    return value


def matrix_of(linear: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> Tensor:
    """The matrix of a linear map of one sample of this shape, column by column."""
    size = int(torch.tensor(shape).prod())
    basis = torch.eye(size, dtype=torch.float64).view(size, *shape)
    with torch.no_grad():
        return linear(basis).flatten(1).T


def hessian_of_score(problem: geq.EnergyProblem, z: Tensor, c: object) -> Tensor:
    """∇²S of one sample, by autograd twice."""
    shape = z.shape

    def score(flat: Tensor) -> Tensor:
        return problem.score(flat.view(shape), c).sum()

    return torch.autograd.functional.hessian(score, z.flatten())
