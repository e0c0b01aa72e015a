"""Hidden problems of every kind in double precision, and formulas written a second time, by hand."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import geq

BATCH, INPUTS, STATE, FEATURES = 3, 4, 6, 5
CHANNELS_IN, CHANNELS_STATE, CHANNELS_MID, SIDE = 2, 3, 4, 4
SIZE = (SIDE, SIDE)


class InverseMultiquadric(geq.Similarity):
    """One's own similarity, of which the library knows only the value."""

    def value(self, u: Tensor, v: Tensor) -> Tensor:
        return (1 + ((v - u) ** 2).flatten(1).sum(-1)).rsqrt()


SIMILARITIES: dict[str, Callable[[], geq.Similarity]] = {
    "linear": geq.Linear,
    "polynomial": lambda: geq.Polynomial(degree=2),
    "polynomial-3": lambda: geq.Polynomial(degree=3, offset=0.5, width=2.0),
    "polynomial-literal": lambda: geq.Polynomial(degree=2, offset=0.0, averaged=False),
    "sigmoid": geq.Sigmoid,
    "sigmoid-literal": lambda: geq.Sigmoid(averaged=False),
    "gaussian": lambda: geq.Gaussian(gamma=0.1),
    "gaussian-learned": geq.Gaussian,
    "gaussian-paper": lambda: geq.Gaussian(geq.PaperGamma()),
    "gaussian-zero": lambda: geq.Gaussian(geq.ZeroGamma()),
    "own": InverseMultiquadric,
}
"""Similarities of vectors and of maps."""

PATCHED: dict[str, Callable[[], geq.Similarity]] = {
    "patch": lambda: geq.PatchGaussian(patch=2, channel_split=2, hidden=5, gamma=0.3),
    "patch-learned": lambda: geq.PatchGaussian(patch=2, channel_split=4, hidden=6),
    "patch-paper": lambda: geq.PatchGaussian(patch=1, channel_split=2, hidden=3, gamma=geq.PaperGamma()),
    "patch-zero": lambda: geq.PatchGaussian(patch=4, channel_split=1, hidden=8, gamma=geq.ZeroGamma()),
}
"""Similarities of maps alone."""

PADDINGS = ("zeros", "circular")


def dense(
    kernel: str = "gaussian",
    *,
    penalty: geq.Penalty | None = None,
    norm: geq.NormRule | None = None,
    seed: int = 0,
) -> geq.HiddenProblem:
    """A problem on vectors, with random weights and a random bias."""
    torch.manual_seed(seed)
    similarity = SIMILARITIES[kernel]()
    target = FEATURES if similarity.acts_on == "features" else STATE
    problem = geq.HiddenProblem(
        similarity,
        W=geq.Dense(STATE, FEATURES, norm=norm),
        U=geq.Dense(INPUTS, target, True),
        penalty=penalty,
    )
    return randomised(problem)


def conv(
    kernel: str = "patch", padding: str = "zeros", *, norm: geq.NormRule | None = None, seed: int = 0
) -> geq.HiddenProblem:
    """A problem on maps."""
    torch.manual_seed(seed)
    similarity = {**SIMILARITIES, **PATCHED}[kernel]()
    target = CHANNELS_MID if similarity.acts_on == "features" else CHANNELS_STATE
    problem = geq.HiddenProblem(
        similarity,
        W=geq.Conv2d(CHANNELS_STATE, CHANNELS_MID, padding=padding, norm=norm),
        U=geq.Conv2d(CHANNELS_IN, target, padding=padding, bias=True),
    )
    return randomised(problem)


def randomised(problem: geq.HiddenProblem) -> geq.HiddenProblem:
    """In double precision and evaluation mode, with biases that are not zero."""
    with torch.no_grad():
        problem.U.bias.normal_(std=0.3)  # type: ignore[union-attr, operator]
        if isinstance(problem.similarity, geq.PatchGaussian):
            problem.similarity.raw_projection.normal_(std=0.4)
    return problem.double().eval()


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


CASES: dict[str, tuple[Callable[[], geq.HiddenProblem], Callable[[], Tensor]]] = {
    **{
        f"dense-{kernel}": (lambda kernel=kernel: dense(kernel, norm=geq.OperatorNorm(0.6)), small_vectors)
        for kernel in SIMILARITIES
    },
    **{
        f"conv-{kernel}-{padding}": (
            lambda kernel=kernel, padding=padding: conv(kernel, padding, norm=geq.OperatorNorm(0.6)),
            small_maps,
        )
        for kernel in [*SIMILARITIES, *PATCHED]
        for padding in PADDINGS
    },
}
"""Every kernel, dense and convolutional: name -> (problem, input)."""


SOLVERS: dict[str, geq.Solver] = {
    "picard": geq.Picard(),
    "damped": geq.Picard(damping=0.7),
    "anderson": geq.Anderson(),
    "anderson-mixed": geq.Anderson(memory=3, mixing=0.7),
    "broyden": geq.Broyden(),
    "proximal": geq.ProximalGradient(),
    "fista": geq.FISTA(),
}


def layer_of(problem: geq.HiddenProblem | geq.Cell, **options: object) -> geq.Equilibrium:
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


def hessian_of_score(problem: geq.HiddenProblem, z: Tensor, c: object) -> Tensor:
    """∇²S of one sample, by autograd twice."""
    shape = z.shape

    def score(flat: Tensor) -> Tensor:
        return problem.score(flat.view(shape), c).sum()

    return torch.autograd.functional.hessian(score, z.flatten())
