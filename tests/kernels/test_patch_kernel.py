"""The compiled patch operation: equal to the formula, in every layout, and absent without harm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import geq
from geq import c_code
from geq.kernels import compiled_patch

needs_compiler = pytest.mark.skipif(compiled_patch.load() is None, reason="no C compiler on this machine")


@needs_compiler
@pytest.mark.parametrize("dtype, tol", [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("patch, split", [(2, 8), (1, 4), (4, 2), (2, 3)])
def test_equals_the_formula(
    dtype: torch.dtype, tol: float, layout: torch.memory_format, patch: int, split: int
) -> None:
    similarity = geq.kernels.PatchGaussianKernel(patch, split, 10, gamma=0.03).to(dtype)
    v = torch.randn(3, 2 * split, 8, 4, dtype=dtype).contiguous(memory_format=layout)
    u = torch.randn_like(v)
    recorded = similarity.bind(v).grad(u)
    with torch.no_grad():
        bound = similarity.bind(v)
        assert compiled_patch.usable(v, u, split * patch**2)
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
    similarity = geq.kernels.PatchGaussianKernel(2, 4, 10).double()
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
    bound = geq.kernels.PatchGaussianKernel(2, 8, 32).bind(v)
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
        m = geq.kernels.PatchGaussianKernel(2, 8, 32, gamma=0.1).bind(torch.zeros_like(v)).grad(v)
    assert torch.isnan(m[0, :, :2, :2]).all()
    assert torch.isfinite(m[1]).all()
    assert torch.isfinite(m[0, :, 2:, 2:]).all()


@pytest.mark.parametrize("setting", [{"GEQ_COMPILE": "0"}, {"CC": "no-such-compiler"}, {"CC": "false"}])
def test_without_a_compiler_the_formula_serves(setting: dict[str, str], tmp_path: Path) -> None:
    code = (
        "import torch, geq; from geq.kernels import compiled_patch\n"
        "layer = geq.GEQ2d(3, 16); layer(torch.randn(2, 3, 4, 4)).sum().backward()\n"
        "print(compiled_patch.load() is None, bool(layer.last_solution.converged.all()))"
    )
    environment = {**setting, "XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True"]


def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert not c_code.trusted(tmp_path)
    tmp_path.chmod(0o700)
    assert c_code.trusted(tmp_path)


def kernel_arguments() -> dict[str, torch.Tensor]:
    return {
        "v": torch.randn(3, 8, 8, 4),
        "u": torch.randn(3, 8, 8, 4),
        "gram": torch.eye(16),
        "gamma": torch.tensor(0.1),
        "direction": torch.randn(3, 8, 8, 4),
    }


WRONG = {
    "v": [
        lambda t: t[:1],
        lambda t: t.double(),
        lambda t: t[:, :7],
        lambda t: t[..., :3],
        lambda t: t.half(),
    ],
    "u": [
        lambda t: t[:1],
        lambda t: t.double(),
        lambda t: t[:, :4],
        lambda t: t[..., :2],
        lambda t: t.long(),
    ],
    "gram": [lambda t: t[:8], lambda t: t[:8, :8], lambda t: t.double(), lambda t: t.int()],
    "gamma": [
        lambda t: t.double(),
        lambda t: t.long(),
        lambda t: t.view(1),
        lambda t: t.expand(2, 1),
        lambda t: t.expand(1, 15),
        lambda t: t.expand(3, 17),
        lambda t: t.expand(3, 16, 1),
    ],
    "direction": [lambda t: t[:2], lambda t: t.double(), lambda t: t[:, :, :4]],
}


@needs_compiler
@pytest.mark.parametrize(
    "name, change", [(name, change) for name, changes in WRONG.items() for change in changes]
)
def test_every_argument_is_checked_before_a_pointer_is_handed_over(name: str, change: object) -> None:
    given = kernel_arguments()
    given[name] = change(given[name])  # type: ignore[operator]
    direction = given.pop("direction")
    v, u, *parts = given.values()
    with pytest.raises(geq.errors.InputError, match="must fit each other"):
        compiled_patch.PatchOperation(v, *parts, 2, 4)(u, direction)


@needs_compiler
def test_maps_of_other_batches_go_through_the_formula() -> None:
    """Which broadcasts; the compiled form would read beyond the smaller one."""
    similarity = geq.kernels.PatchGaussianKernel(2, 4, 16, gamma=0.1)
    u, v = torch.randn(1, 4, 4, 4), torch.randn(9, 4, 4, 4)
    with torch.no_grad():
        found = similarity.bind(v).grad(u)
        each = torch.cat([similarity.bind(v[k : k + 1]).grad(u) for k in range(9)])
    torch.testing.assert_close(found, each)


@pytest.mark.parametrize(
    "answer, told",
    [
        (lambda q: 0.5, "must return γ as a tensor.*got float"),
        (lambda q: torch.full((1, q.shape[1] - 1), 0.5), r"must return γ as a tensor.*got \(1, 3\)"),
        (lambda q: torch.full((q.shape[0], 1, 1), 0.5), "must return γ as a tensor"),
        (lambda q: torch.full((q.shape[0], 1), -0.5), "must return γ ≥ 0: got -0.5"),
        (lambda q: torch.tensor(float("nan")), "must return γ ≥ 0: got nan"),
    ],
)
def test_a_rule_for_gamma_that_answers_nonsense_is_refused(answer: object, told: str) -> None:
    with pytest.raises(geq.errors.InputError, match=told):
        solved_with(answer)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
@pytest.mark.parametrize("per_sample", [False, True])
def test_a_rule_for_gamma_may_answer_in_another_type(dtype: torch.dtype, per_sample: bool) -> None:
    expected = solved_with(lambda q: torch.tensor(1.0))
    shape = (4, 1) if per_sample else ()
    torch.testing.assert_close(solved_with(lambda q: torch.ones(shape, dtype=dtype)), expected)


def solved_with(answer: object) -> torch.Tensor:
    class Own(geq.bandwidth.GammaRule):
        def forward(self, q: torch.Tensor, expected: torch.Tensor, observe: bool) -> torch.Tensor:
            return answer(q)  # type: ignore[operator]

    torch.manual_seed(0)
    layer = geq.GEQ2d(3, 8, hidden=16, gamma=Own(), normalise_input=False, tol=1e-6, max_steps=300).eval()
    with torch.no_grad():
        return layer(torch.randn(4, 3, 4, 4))


@pytest.mark.nightly
@needs_compiler
def test_no_read_or_write_beyond_an_array(tmp_path: Path) -> None:
    """Under AddressSanitizer, which ends the process at the first one."""
    library = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True
    ).stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip("the compiler has no AddressSanitizer")
    script = Path(__file__).parents[1] / "reliability" / "sanitized_kernel.py"
    surroundings = {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env={**os.environ, **surroundings}
    )
    assert done.returncode == 0, done.stderr
    assert "1008 calls" in done.stdout


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_its_exponential_is_exact_to_rounding(dtype: torch.dtype) -> None:
    """Patches of one entry with G = 1 give β·d, so that β = e^{−γd²} can be compared at every exponent."""
    exponents = torch.cat([torch.linspace(0, 120, 4001), torch.tensor([700.0, 800.0, 1e6])]).to(dtype)
    d = exponents.sqrt().view(1, 1, 1, -1)
    zeros, gram = torch.zeros_like(d), torch.ones(1, 1, dtype=dtype)
    (found,) = compiled_patch.PatchOperation(d, gram, torch.ones((), dtype=dtype), 1, 1)(zeros)
    # The exponent that the kernel sees is rounded, which e^x multiplies by x.
    expected = torch.exp(-d.square()) * d
    rounding = torch.finfo(dtype).eps * (4 + 2 * exponents.view_as(d))
    assert bool(((found - expected).abs() <= rounding * expected + torch.finfo(dtype).tiny).all())
    assert found.flatten()[0] == 0
    assert bool((found.flatten()[-2:] == 0).all())


@needs_compiler
def test_infinite_and_nan_entries_are_not_hidden() -> None:
    v = torch.tensor([torch.inf, torch.nan, 1.0, -torch.inf]).view(1, 1, 1, 4)
    operation = compiled_patch.PatchOperation(v, torch.ones(1, 1), torch.tensor(0.1), 1, 1)
    (found,) = operation(torch.zeros_like(v))
    assert torch.isfinite(found).flatten().tolist() == [False, False, True, False]
