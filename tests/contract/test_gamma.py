"""Every rule for γ: its formula, what it remembers and when, and what the gradient sees."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import energy_problems
import geq

RULES = {
    "fixed": lambda: geq.bandwidth.FixedGamma(0.5),
    "zero": geq.bandwidth.ZeroGamma,
    "learned": geq.bandwidth.LearnedGamma,
    "learned-parts": lambda: geq.bandwidth.LearnedGamma(parts=3),
    "median": geq.bandwidth.MedianGamma,
    "paper": geq.bandwidth.PaperGamma,
    "paper-batch": lambda: geq.bandwidth.PaperGamma(per="batch"),
}
EXPECTED = torch.tensor(7.0, dtype=torch.float64)


def distances(batch: int = 4, patches: int = 6, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 0.1 + torch.rand(batch, patches, dtype=torch.float64, generator=generator)


def statistics(rule: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in rule.named_buffers()}


@pytest.mark.parametrize("name", RULES)
def test_gamma_is_one_number_or_one_per_sample_or_patch(name: str) -> None:
    for observe in (False, True):
        gamma = RULES[name]().double()(distances(), EXPECTED, observe)
        assert gamma.shape in ((), (4, 1), (1, 6))
        assert gamma.dtype == torch.float64
        assert bool((gamma >= 0).all())


@pytest.mark.parametrize("name", RULES)
def test_an_empty_batch_changes_nothing(name: str) -> None:
    rule = RULES[name]().double()
    before = statistics(rule)
    gamma = rule(distances(0), EXPECTED, True)
    assert gamma.shape in ((), (0, 1), (1, 6))
    assert all(torch.equal(before[key], value) for key, value in statistics(rule).items())


def test_fixed() -> None:
    assert geq.bandwidth.FixedGamma(0.5)(distances(), EXPECTED, True).item() == 0.5
    assert geq.bandwidth.ZeroGamma()(distances(), EXPECTED, True).item() == 0
    assert isinstance(geq.kernels.GaussianKernel(2).gamma, geq.bandwidth.FixedGamma)
    assert isinstance(geq.kernels.GaussianKernel().gamma, geq.bandwidth.LearnedGamma)
    assert isinstance(geq.kernels.PatchGaussianKernel().gamma, geq.bandwidth.LearnedGamma)


def test_learned_is_softplus_of_theta_over_the_running_mean() -> None:
    rule = geq.bandwidth.LearnedGamma(initial=0.3, momentum=0.9).double()
    assert F.softplus(rule.theta).item() == pytest.approx(0.3)
    assert rule(distances(), EXPECTED, False).item() == pytest.approx(0.3 / 7), (
        "no batch seen: the expectation"
    )

    mean = 0.0
    for seed in range(4):
        q = distances(seed=seed)
        mean = float(q.mean()) if seed == 0 else 0.9 * mean + 0.1 * float(q.mean())
        with torch.no_grad():
            rule.theta.add_(0.1)
        expected = F.softplus(rule.theta).item() / mean
        assert rule(q, EXPECTED, True).item() == pytest.approx(expected)
        assert rule(distances(seed=99), EXPECTED, False).item() == pytest.approx(expected), (
            "reading changes nothing"
        )
    assert rule.batches_seen.item() == 4


def test_learned_gradient_reaches_theta_and_not_the_statistics() -> None:
    rule = geq.bandwidth.LearnedGamma().double()
    q = distances().requires_grad_()
    gamma = rule(q, EXPECTED, True)
    (in_theta,) = torch.autograd.grad(gamma, rule.theta, retain_graph=True)
    assert in_theta.item() == pytest.approx(torch.sigmoid(rule.theta).item() / q.mean().item())
    assert torch.autograd.grad(gamma, q, allow_unused=True)[0] is None


def test_paper_per_sample() -> None:
    q = distances()
    gamma = geq.bandwidth.PaperGamma(target=0.2)(q, EXPECTED, True)
    torch.testing.assert_close(gamma, 0.2 / q.min(dim=1, keepdim=True).values)


def test_paper_caps_the_largest_weight() -> None:
    """β_max = e^{−0.2} at z = 0, for vectors and for patches."""
    for problem, x in [
        (energy_problems.dense("gaussian-paper"), energy_problems.vectors()),
        (energy_problems.conv("patch-paper"), energy_problems.maps()),
    ]:
        c = problem.inject(x)
        attention = problem.attention(problem.initial_state(c), c).flatten(1)
        torch.testing.assert_close(attention.amax(1), torch.full((3,), math.exp(-0.2), dtype=torch.float64))


def test_paper_through_the_minimum_or_not() -> None:
    q = distances().requires_grad_()
    smallest = q.detach().min(dim=1)
    (gradient,) = torch.autograd.grad(geq.bandwidth.PaperGamma()(q, EXPECTED, True).sum(), q)
    expected = torch.zeros_like(q)
    expected[torch.arange(4), smallest.indices] = -0.2 / smallest.values**2
    torch.testing.assert_close(gradient, expected)
    assert not geq.bandwidth.PaperGamma(through=False)(q, EXPECTED, True).requires_grad


def test_paper_per_batch() -> None:
    rule = geq.bandwidth.PaperGamma(per="batch", momentum=0.5).double()
    first, second = distances(seed=1), distances(seed=2)
    assert rule(first, EXPECTED, False).item() == pytest.approx(0.2 / 7), "nothing seen yet"
    assert rule(first, EXPECTED, True).item() == pytest.approx(0.2 / first.min().item())
    assert rule(second, EXPECTED, True).item() == pytest.approx(0.2 / second.min().item())
    mean = 0.5 * (first.min() + second.min()).item()
    assert rule(first, EXPECTED, False).item() == pytest.approx(0.2 / mean)


def test_exact_hit_keeps_gamma_finite() -> None:
    q = torch.zeros(2, 3, dtype=torch.float64)
    assert bool(torch.isfinite(geq.bandwidth.PaperGamma()(q, EXPECTED, True)).all())
    rule = geq.bandwidth.LearnedGamma().double()
    assert bool(torch.isfinite(rule(q, EXPECTED, True)).all())


@pytest.mark.parametrize("kernel", ["gaussian-learned", "patch-learned"])
def test_statistics_follow_training_solves_only(kernel: str) -> None:
    problem = energy_problems.dense(kernel) if "patch" not in kernel else energy_problems.conv(kernel)
    x = energy_problems.vectors() if "patch" not in kernel else energy_problems.maps()
    layer = geq.Equilibrium(problem)
    rule = problem.kernel.gamma
    assert isinstance(rule, geq.bandwidth.LearnedGamma)

    layer.eval()(x)
    layer.solve(x)
    layer.attention(x)
    layer.train()
    layer.solve(x)
    layer.attention(x)
    assert rule.batches_seen.item() == 0, "neither evaluation nor looking at a layer is training"
    with torch.no_grad():
        layer(x)  # the first pass of a checkpointed layer; as batch norm, by the mode alone
    assert rule.batches_seen.item() == 1
    rule.batches_seen.zero_()
    layer(x)
    assert rule.batches_seen.item() == 1, "once per solve, however many evaluations it took"
    c = problem.inject(x.detach())
    zero = problem.initial_state(c)
    assert rule.scale.item() == pytest.approx(c.distances(c.W(zero)).mean().item())


def test_untrained_scale_expects_inputs_of_unit_variance() -> None:
    """Before any statistics γ·q is of the order of ``initial``, not 0 and not huge."""
    for similarity, shape in [
        (geq.kernels.GaussianKernel(), (500, 40)),
        (geq.kernels.PatchGaussianKernel(patch=2, channel_split=4, hidden=8), (50, 8, 8, 8)),
    ]:
        bound = similarity.eval().bind(torch.randn(shape))
        mean = (bound.gamma * bound.distances(torch.zeros(shape))).mean().item()
        assert mean == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize("on_maps", [False, True])
def test_zero_is_the_limit_of_small_gamma(on_maps: bool) -> None:
    u, v = torch.randn(2, 3, *((4, 4, 4) if on_maps else (5,)), dtype=torch.float64)
    kinds = [geq.bandwidth.ZeroGamma(), geq.bandwidth.FixedGamma(1e-7), geq.bandwidth.FixedGamma(1e-3)]
    torch.manual_seed(0)
    similarities: list[geq.kernels.Kernel] = []
    for rule in kinds:
        torch.manual_seed(0)
        similarities.append(
            geq.kernels.PatchGaussianKernel(2, 2, 6, rule).double()
            if on_maps
            else geq.kernels.GaussianKernel(rule).double()
        )
    zero, tiny, small = similarities
    near, far = ((s.grad(u, v) - zero.grad(u, v)).abs().max().item() for s in (tiny, small))
    assert near < 1e-5 < far, "and the difference shrinks with γ"
    # Values differ by the constant 1/2γ per patch.
    patches = 8 if on_maps else 1
    torch.testing.assert_close(tiny.value(u, v) - patches / 2e-7, zero.value(u, v), rtol=1e-4, atol=1e-4)


def test_zero_makes_non_negative_sparse_coding() -> None:
    """γ = 0: min ½‖z‖² + ½‖v − Wz‖² over z ≥ 0, by an independent solver."""
    from scipy.optimize import nnls

    problem = energy_problems.dense("gaussian-zero", constraint=geq.constraints.Unconstrained())
    x = energy_problems.vectors()
    layer = geq.Equilibrium(problem, solver=geq.solvers.Anderson(memory=8), tol=1e-12, max_steps=500).eval()
    W = problem.W.weight.detach()
    v = problem.inject(x).v.detach()
    stacked = torch.cat([W, torch.eye(W.shape[1], dtype=W.dtype)])
    for sample, z in enumerate(layer.solve(x).value):
        target = torch.cat([v[sample], torch.zeros(W.shape[1], dtype=W.dtype)])
        torch.testing.assert_close(z, torch.from_numpy(nnls(stacked.numpy(), target.numpy())[0]))
    torch.testing.assert_close(layer.attention(x), torch.ones(3, 1, dtype=torch.float64))


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: geq.bandwidth.FixedGamma(-0.5), "not negative: got -0.5; KerDEQ uses 0.5"),
        (lambda: geq.kernels.GaussianKernel(gamma=-1.0), "not negative"),
        (lambda: geq.kernels.PatchGaussianKernel(gamma=-1), "not negative"),
        (lambda: geq.bandwidth.FixedGamma(math.nan), "finite"),
        (lambda: geq.bandwidth.FixedGamma(math.inf), "finite"),
        (lambda: geq.bandwidth.LearnedGamma(initial=0.0), "positive: got 0.0; for none at all use ZeroGamma"),
        (lambda: geq.bandwidth.LearnedGamma(momentum=1.0), r"momentum must be in \[0, 1\): got 1.0"),
        (
            lambda: geq.bandwidth.PaperGamma(target=-0.2),
            "target must be positive: got -0.2; the paper uses 0.2",
        ),
        (lambda: geq.bandwidth.PaperGamma(per="image"), "per must be 'sample' or 'batch': got 'image'"),
        (lambda: geq.bandwidth.LearnedGamma(intial=0.2), "did you mean 'initial'"),
    ],
)
def test_bad_options(build: object, told: str) -> None:
    with pytest.raises(geq.errors.OptionError, match=told):
        build()  # type: ignore[operator]


@pytest.mark.parametrize("initial", [1e-6, 0.2, 50.0, 2000.0])
def test_initial_is_reached_for_every_size(initial: float) -> None:
    assert F.softplus(geq.bandwidth.LearnedGamma(initial).theta).item() == pytest.approx(initial, rel=1e-4)


def test_repr_shows_the_options() -> None:
    assert repr(geq.bandwidth.FixedGamma(0.5)) == "FixedGamma(0.5)"
    assert repr(geq.bandwidth.ZeroGamma()) == "ZeroGamma()"
    assert repr(geq.bandwidth.PaperGamma()) == "PaperGamma(target=0.2, per='sample', through=True)"


def test_parts_are_stretches_of_patches() -> None:
    rule = geq.bandwidth.LearnedGamma(parts=2).double()
    with torch.no_grad():
        rule.theta.copy_(torch.tensor([0.0, 1.0]))
    gamma = rule(distances(), EXPECTED, False)
    first, second = (F.softplus(torch.tensor(t, dtype=torch.float64)).item() / 7 for t in (0.0, 1.0))
    torch.testing.assert_close(gamma, torch.tensor([[first] * 3 + [second] * 3], dtype=torch.float64))
    with pytest.raises(geq.errors.OptionError, match="must divide the number of patches: got 4 for 6"):
        geq.bandwidth.LearnedGamma(parts=4).double()(distances(), EXPECTED, False)
    with pytest.raises(geq.errors.OptionError, match="parts must be at least 1"):
        geq.bandwidth.LearnedGamma(parts=0)


@pytest.mark.parametrize("parts", [3, 12])
def test_gradient_with_a_gamma_for_each_part(parts: int) -> None:
    """Three channel groups of 2×2 patches: the fast derivative against autograd through the iteration."""
    torch.manual_seed(0)
    similarity = geq.kernels.PatchGaussianKernel(2, 2, 5, geq.bandwidth.LearnedGamma(0.5, parts=parts))
    problem = geq.EnergyProblem(
        similarity, geq.operators.Convolution(4, 6), geq.operators.Convolution(3, 6)
    ).double()
    with torch.no_grad():
        similarity.gamma.theta.add_(torch.linspace(-1, 1, parts))
    x = torch.randn(2, 3, 4, 4, dtype=torch.float64)
    weight = torch.randn(2, 4, 4, 4, dtype=torch.float64)
    found = []
    for gradient in (geq.gradients.Implicit(tol=1e-13), geq.gradients.Unrolled(300)):
        layer = geq.Equilibrium(problem, geq.solvers.Anderson(), gradient, tol=1e-13, max_steps=300).eval()
        parameters = [similarity.gamma.theta, similarity.raw_projection, problem.W.raw_weight]
        found.append(torch.autograd.grad((layer(x) * weight).sum(), parameters))
    for implicit, unrolled in zip(*found, strict=True):
        assert implicit.norm() > 0
        torch.testing.assert_close(implicit, unrolled, rtol=1e-7, atol=1e-10)


def test_median_follows_the_equilibria_of_training() -> None:
    torch.manual_seed(0)
    rule = geq.bandwidth.MedianGamma(target=0.3, momentum=0.5)
    layer = geq.GEQ2d(3, 8, 8, gamma=rule).double()
    rule = layer.problem.kernel.gamma
    x = torch.randn(4, 3, 4, 4, dtype=torch.float64)
    expected = 0.0
    for number in range(3):
        with torch.no_grad():
            c = layer.problem.inject(x)
            median = float(c.distances(c.W(layer.solve(x).value)).median())
        expected = median if number == 0 else 0.5 * expected + 0.5 * median
        layer(x)
    assert int(rule.batches_seen) == 3
    assert float(rule.scale) == pytest.approx(
        expected, rel=1e-2
    )  # equilibria to 1e-3, norms of one step more
    gamma = layer.problem.inject(x).gamma.detach()
    assert float(gamma) == pytest.approx(0.3 / float(rule.scale), rel=1e-6)
    before = rule.scale.clone()
    layer.eval()(x)
    layer.train().solve(x)
    assert torch.equal(rule.scale, before), "only a training solve is counted"


def test_a_batch_that_overflows_is_not_remembered() -> None:
    rule = geq.bandwidth.LearnedGamma()
    usual = torch.ones(2, 3)
    rule(usual, torch.tensor(1.0), observe=True)
    before = rule(usual, torch.tensor(1.0), observe=False)
    for bad in (float("inf"), float("nan")):
        rule(bad * usual, torch.tensor(1.0), observe=True)
    assert torch.equal(rule(usual, torch.tensor(1.0), observe=False), before)
    assert int(rule.batches_seen) == 1
