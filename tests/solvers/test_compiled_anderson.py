"""The compiled step of Anderson against the same step by torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import geq
from geq.solvers import Anderson, compiled_anderson

pytestmark = pytest.mark.skipif(compiled_anderson.load() is None, reason="no C compiler on this machine")


def iterates(solver: Anderson, slope: Tensor, start: Tensor, steps: int) -> list[Tensor]:
    """The states of z ↦ tanh(az) + 1, entry by entry."""
    found, memory = [start], None
    with torch.no_grad():
        for _ in range(steps):
            z = found[-1]
            fz = torch.tanh(z * slope) + 1
            memory = solver.init(z) if memory is None else memory
            z, memory = solver.step(z, fz, fz - z, memory)
            found.append(z)
    return found


def by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_anderson, "load", lambda: None)


@pytest.mark.parametrize("dtype, tol", [(torch.float64, 1e-7), (torch.float32, 2e-3)])
@pytest.mark.parametrize("batch, size", [(1, 12), (3, 7), (2, 4099)])
@pytest.mark.parametrize(
    "options", [{}, {"memory": 1}, {"memory": 2, "mixing": 0.5}, {"memory": 7, "ridge": 1e-3}]
)
def test_equals_torch(
    dtype: torch.dtype,
    tol: float,
    batch: int,
    size: int,
    options: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = torch.Generator().manual_seed(0)
    slope = torch.rand(size, generator=generator, dtype=dtype) - 0.5
    start = torch.randn(batch, size, generator=generator, dtype=dtype)
    solver = Anderson(**options)  # type: ignore[arg-type]
    compiled = iterates(solver, slope, start, 9)
    by_torch(monkeypatch)
    for found, expected in zip(compiled, iterates(solver, slope, start, 9), strict=True):
        # Differences by rounding grow where the residuals have become small.
        torch.testing.assert_close(found, expected, rtol=tol, atol=tol)


def test_the_history_is_that_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    steps = [(torch.randn(2, 5).double(), torch.randn(2, 5).double()) for _ in range(8)]

    def windows() -> list[Tensor]:
        solver, memory = Anderson(memory=6), None
        with torch.no_grad():
            for z, fz in steps:
                memory = solver.init(z) if memory is None else memory
                _, memory = solver.step(z, fz, fz - z, memory)
        assert memory is not None
        return [memory.images, memory.residuals, memory.gram]

    compiled = windows()
    by_torch(monkeypatch)
    torch.testing.assert_close(compiled, windows())


def test_strided_rows_and_every_number_of_threads() -> None:
    torch.manual_seed(0)
    z, fz = torch.randn(6, 40)[:, ::2], torch.randn(20, 6).t()
    solver, before = Anderson(), torch.get_num_threads()
    found = []
    with torch.no_grad():
        for threads in (1, 2):
            torch.set_num_threads(threads)
            _, memory = solver.step(z, fz, fz - z, solver.init(z))
            found.append(solver.step(fz, z, (z - fz), memory)[0])
    torch.set_num_threads(before)
    assert torch.equal(*found)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_sample_that_is_not_finite_leaves_the_others_alone(bad: float) -> None:
    torch.manual_seed(0)
    slope, start = 0.1 * torch.randn(6), torch.randn(3, 6)
    expected = iterates(Anderson(), slope, start, 5)[-1]
    start[1, 2] = bad
    found = iterates(Anderson(), slope, start, 5)[-1]
    assert torch.equal(found[[0, 2]], expected[[0, 2]])


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-30])
def test_singular_systems_take_the_plain_step(value: float) -> None:
    """Equal residuals have no best combination; those of zero count for nothing."""
    fz, residual = torch.randn(2, 5), torch.full((2, 5), value)
    solver = Anderson(ridge=0.0)
    memory = solver.init(fz)
    with torch.no_grad():
        for _ in range(3):
            z, memory = solver.step(fz - residual, fz, residual, memory)
    torch.testing.assert_close(z, fz)


def test_the_whole_solve_takes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer, x = geq.GEQ2d(3, 24, tol=1e-5).eval(), torch.randn(5, 3, 12, 10)
    compiled = layer.solve(x)
    by_torch(monkeypatch)
    plain = layer.solve(x)
    assert bool((compiled.steps - plain.steps).abs().max() <= 1)
    torch.testing.assert_close(compiled.value, plain.value, rtol=1e-3, atol=1e-5)
    assert bool(compiled.converged.all())


def test_what_it_cannot_take_goes_by_torch() -> None:
    with torch.no_grad():
        rows = torch.ones(2, 3)
        assert compiled_anderson.usable(rows, 5)
        assert not compiled_anderson.usable(rows.half(), 5)
        assert not compiled_anderson.usable(rows[:0], 5)
        assert not compiled_anderson.usable(rows, compiled_anderson.MOST + 1)
        assert not compiled_anderson.usable(rows.to("meta"), 5)
    assert not compiled_anderson.usable(rows, 5)  # autograd would not see it


@pytest.mark.parametrize("wrong", ["residual", "images", "gram", "dtype", "slot"])
def test_every_array_is_checked_before_a_pointer_is_handed_over(wrong: str) -> None:
    image, residual = torch.ones(2, 5), torch.ones(2, 5)
    images, residuals, gram = torch.ones(2, 4, 5), torch.ones(2, 4, 5), torch.ones(2, 6, 6)
    slot, count = (4, 5) if wrong == "slot" else (1, 2)
    if wrong == "residual":
        residual = residual[:1]
    elif wrong == "images":
        images = images[:, :, :4]
    elif wrong == "gram":
        gram = gram[:, :, :5]
    elif wrong == "dtype":
        residuals = residuals.double()
    with pytest.raises(geq.errors.InputError, match="must fit each other"):
        compiled_anderson.step(image, residual, (images, residuals, gram), slot, count, (1e-8, 1e3, 1.0))
