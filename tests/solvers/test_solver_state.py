"""Packing: the same numbers, in the order of memory, without copies where none are needed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import problems
from geq.solvers import Anderson, Broyden, Picard, fixed_point
from geq.solvers.fixed_point import Packing

shapes = st.lists(st.integers(1, 4), min_size=0, max_size=4).map(tuple)


@given(st.integers(1, 3), st.lists(shapes, min_size=1, max_size=3), st.booleans())
def test_round_trip(batch: int, sizes: list[tuple[int, ...]], channels_last: bool) -> None:
    parts = tuple(torch.randn(batch, *size) for size in sizes)
    if channels_last:
        parts = tuple(p.to(memory_format=torch.channels_last) if p.dim() == 4 else p for p in parts)
    for state in (parts, parts[0]):
        packing = Packing.of(state)
        rows = packing.pack(state)
        assert rows.shape[0] == batch
        back = packing.unpack(rows)
        assert isinstance(back, tuple) == isinstance(state, tuple)
        for one, other in zip(back, state, strict=True) if isinstance(state, tuple) else [(back, state)]:
            assert torch.equal(one, other)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_single_tensor_is_packed_without_a_copy(memory_format: torch.memory_format) -> None:
    z = torch.randn(2, 3, 4, 5).contiguous(memory_format=memory_format)
    packing = Packing.of(z)
    rows = packing.pack(z)
    assert rows.data_ptr() == z.data_ptr()
    assert rows.is_contiguous()
    back = packing.unpack(rows)
    assert back.data_ptr() == z.data_ptr()
    assert back.is_contiguous(memory_format=memory_format)


@pytest.mark.parametrize("solver", [Picard(), Anderson(), Anderson(mixing=0.5), Broyden()], ids=str)
def test_a_map_keeps_its_channels_last(solver) -> None:
    """Even from a start in the other order, every later state has the order that the map returns."""
    problem = problems.image()
    layouts = []

    def watched(z: torch.Tensor) -> torch.Tensor:
        layouts.append(z.is_contiguous(memory_format=torch.channels_last))
        return problem.fn(z)

    solution = fixed_point(watched, problem.start.contiguous(), solver, tol=1e-10, max_steps=200)
    assert not layouts[0]
    assert len(layouts) > 2
    assert all(layouts[1:])
    assert solution.value.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(solution.value, problem.answer, rtol=0, atol=1e-8)


def test_a_map_that_changes_its_layout_is_still_right() -> None:
    problem = problems.image()
    calls = []

    def fickle(z: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        formats = (torch.channels_last, torch.contiguous_format)
        return problem.fn(z).contiguous(memory_format=formats[len(calls) % 2])

    solution = fixed_point(fickle, problem.start, Anderson(), tol=1e-10, max_steps=200)
    torch.testing.assert_close(solution.value, problem.answer, rtol=0, atol=1e-8)


def test_tuples_keep_their_layout_and_join_in_one_residual() -> None:
    problem = problems.two_scales()
    solution = fixed_point(problem.fn, problem.start, Anderson(), tol=1e-6, max_steps=100)
    image = problem.fn(solution.value)
    change = sum(((a - b) ** 2).flatten(1).sum(1) for a, b in zip(image, solution.value, strict=True)).sqrt()
    scale = sum((a**2).flatten(1).sum(1) for a in image).sqrt()
    torch.testing.assert_close(solution.residual, change / scale, rtol=1e-6, atol=1e-12)


def test_packing_is_differentiable() -> None:
    state = (torch.randn(2, 3, dtype=torch.float64), torch.randn(2, 2, 2, 2, dtype=torch.float64))
    packing = Packing.of(state)

    def there_and_back(one: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return packing.unpack(packing.pack((one, other)) ** 2)

    assert torch.autograd.gradcheck(there_and_back, tuple(part.requires_grad_() for part in state))
