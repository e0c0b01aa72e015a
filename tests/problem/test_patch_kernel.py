"""The compiled patch operation: equal to the formula, in every layout, and absent without harm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import geq
from geq.problem import patch_kernel

needs_compiler = pytest.mark.skipif(patch_kernel.load() is None, reason="no C compiler on this machine")


@needs_compiler
@pytest.mark.parametrize("dtype, tol", [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("patch, split", [(2, 8), (1, 4), (4, 2), (2, 3)])
def test_equals_the_formula(
    dtype: torch.dtype, tol: float, layout: torch.memory_format, patch: int, split: int
) -> None:
    similarity = geq.PatchGaussian(patch, split, 10, gamma=0.03).to(dtype)
    v = torch.randn(3, 2 * split, 8, 4, dtype=dtype).contiguous(memory_format=layout)
    u = torch.randn_like(v)
    recorded = similarity.bind(v).grad(u)
    with torch.no_grad():
        bound = similarity.bind(v)
        assert patch_kernel.usable(v, split * patch**2)
        torch.testing.assert_close(bound.grad(u), recorded.detach(), rtol=tol, atol=tol)
        strided = torch.randn(3, 2 * split, 4, 8, dtype=dtype).transpose(2, 3)
        torch.testing.assert_close(
            similarity.bind(v).grad(strided),
            similarity.bind(v).grad(strided.contiguous()),
            rtol=tol,
            atol=tol,
        )


@needs_compiler
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", [(), (3, 1), (1, 16), (3, 16)])
def test_every_shape_of_gamma(layout: torch.memory_format, shape: tuple[int, ...]) -> None:
    """Products and gradients of the compiled form against autograd of the formula."""
    torch.manual_seed(0)
    similarity = geq.PatchGaussian(2, 4, 10).double()
    v, u, q = (torch.randn(3, 8, 8, 4, dtype=torch.float64).contiguous(memory_format=layout) for _ in "vuq")
    v.requires_grad_(True)
    bound = similarity.bind(v)
    bound.gamma = torch.rand(shape, dtype=torch.float64).mul_(0.2).requires_grad_(True)
    u.requires_grad_(True)
    value = bound.grad(u)
    expected = torch.autograd.grad((q * value).sum(), [u, v, bound.gram, bound.gamma])
    with torch.no_grad():
        torch.testing.assert_close(bound.grad(u), value)
        torch.testing.assert_close(bound.product(u, q), expected[0])
        again, gradients = bound.pull_back(u, q)
    torch.testing.assert_close(again, value)
    for got, wanted in zip(gradients, expected[1:], strict=True):
        torch.testing.assert_close(got, wanted)


@needs_compiler
def test_result_does_not_depend_on_the_number_of_threads() -> None:
    v, u, q = torch.randn(3, 5, 16, 8, 8)
    bound = geq.PatchGaussian(2, 8, 32).bind(v)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            with torch.no_grad():
                results.append(bound.fused(u, q, gradients=True))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for got, expected in zip(other, results[0], strict=True):
            assert torch.equal(got, expected)


@needs_compiler
def test_nan_stays_in_its_patch() -> None:
    v = torch.randn(2, 8, 4, 4)
    v[0, 0, 0, 0] = torch.nan
    with torch.no_grad():
        m = geq.PatchGaussian(2, 8, 32, gamma=0.1).bind(torch.zeros_like(v)).grad(v)
    assert torch.isnan(m[0, :, :2, :2]).all()
    assert torch.isfinite(m[1]).all()
    assert torch.isfinite(m[0, :, 2:, 2:]).all()


@pytest.mark.parametrize("setting", [{"GEQ_COMPILE": "0"}, {"CC": "no-such-compiler"}, {"CC": "false"}])
def test_without_a_compiler_the_formula_serves(setting: dict[str, str], tmp_path: Path) -> None:
    code = (
        "import torch, geq; from geq.problem import patch_kernel\n"
        "layer = geq.GEQ2d(3, 16); layer(torch.randn(2, 3, 4, 4)).sum().backward()\n"
        "print(patch_kernel.load() is None, bool(layer.last_solution.converged.all()))"
    )
    environment = {**setting, "XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True"]


def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert not patch_kernel.trusted(tmp_path)
    tmp_path.chmod(0o700)
    assert patch_kernel.trusted(tmp_path)
