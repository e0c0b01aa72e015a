"""MDEQ: one joint fixed point of all scales, checked against the formula written out with plain modules."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from geq.equilibrium import Equilibrium
from geq.errors import GeqError, InputError, OptionError
from geq.gradients import Implicit
from geq.model.mdeq import MDEQ
from geq.model.mdeq_cell import Chain, MDEQCell, ScaleContext, UnitConvolution, UnitGroupNorm
from geq.model.model_registry import create_model

CHANNELS = (4, 8, 8)


def make(channels: tuple[int, ...] = CHANNELS, feedback: float = 0.2) -> MDEQCell:
    """A cell in double precision whose weights are at no special place (not of norm 1, shifts not 0)."""
    cell = MDEQCell(channels, expansion=2, groups=2, feedback=feedback).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.mul_(1.5).add_(0.1 * torch.randn_like(parameter))
    return cell


def maps(batch: int = 2, side: int = 8) -> Tensor:
    return torch.randn(batch, CHANNELS[0], side, side, dtype=torch.float64)


def solved(cell: MDEQCell, x: Tensor) -> tuple[Tensor, ...]:
    with torch.no_grad():
        return Equilibrium(cell, tol=1e-11, max_steps=500).eval()(x)


def convolve(part: UnitConvolution, x: Tensor) -> Tensor:
    weight = torch.stack([row / row.norm() for row in part.weight])
    return F.conv2d(x, weight, stride=part.stride, padding=weight.shape[-1] // 2)


def normalise(part: UnitGroupNorm, x: Tensor) -> Tensor:
    """Group norm by its definition, with the gains scaled to mean square 1."""
    grouped = x.reshape(len(x), part.groups, -1)
    centred = grouped - grouped.mean(2, keepdim=True)
    unit = (centred / (centred.square().mean(2, keepdim=True) + 1e-5).sqrt()).view_as(x)
    gain = part.weight / part.weight.square().mean().sqrt()
    return unit * gain[:, None, None] + part.bias[:, None, None]


def run(chain: Chain, x: Tensor) -> Tensor:
    for part in chain:
        if isinstance(part, UnitConvolution):
            x = convolve(part, x)
        elif isinstance(part, UnitGroupNorm):
            x = normalise(part, x)
        else:
            x = part(x)
    return x


def formula(cell: MDEQCell, z: tuple[Tensor, ...], x: Tensor, rho: float = 0.2) -> list[Tensor]:
    """The map of the module's text."""
    blocks = []
    for i, block in enumerate(cell.blocks):
        expand, norm, relu, shrink = block.branch
        inner = rho * convolve(shrink, relu(normalise(norm, convolve(expand, z[i]))))
        if i == 0:
            inner = inner + run(cell.injection, x)
        blocks.append(normalise(block.out_norm, (normalise(block.norm, inner) + rho * z[i]).relu()))
    fused = []
    for i, output in enumerate(cell.outputs):
        total = blocks[i] * (1 if i == 0 else rho)
        for j, block in enumerate(blocks):
            if j < i:
                total = total + run(cell.paths[i][j], block)
            elif j > i:
                total = total + rho * run(cell.paths[i][j], block)
        fused.append(run(output, total))
    return fused


@torch.no_grad()
def test_the_joint_fixed_point_solves_the_equation() -> None:
    cell, x = make(), maps()
    z = solved(cell, x)
    assert [tuple(part.shape) for part in z] == [(2, 4, 8, 8), (2, 8, 4, 4), (2, 8, 2, 2)]
    for part, image in zip(z, formula(cell, z, x), strict=True):
        assert (image - part).norm() <= 1e-9 * part.norm()
        assert part.norm() > 1
    off = tuple(part + 0.1 for part in z)
    assert all((image - part).norm() > 0.1 for part, image in zip(off, formula(cell, off, x), strict=True))


def test_paths_are_what_the_authors_use() -> None:
    cell = MDEQCell((4, 8, 8, 16), groups=2)
    for i, j in product(range(4), repeat=2):
        kinds = [
            (p.weight.shape[-1], p.stride)
            for p in cell.paths[i][j].modules()
            if isinstance(p, UnitConvolution)
        ]
        if i == j:
            assert kinds == []
        else:
            assert kinds == ([(3, 2)] * (i - j) if j < i else [(1, 1)])


class Pushed(MDEQCell):
    """The same map, plus a constant on the image of one scale."""

    scale = 0

    def forward(self, z: tuple[Tensor, ...], c: ScaleContext) -> tuple[Tensor, ...]:
        image = list(super().forward(z, c))
        ramp = torch.linspace(-0.1, 0.1, image[self.scale].numel(), dtype=torch.float64)
        image[self.scale] = image[self.scale] + ramp.view_as(image[self.scale])
        return tuple(image)


@torch.no_grad()
@pytest.mark.parametrize("scale", range(3))
def test_every_scale_acts_on_every_other_at_the_equilibrium(scale: int) -> None:
    cell, x = make(), maps()
    pushed = Pushed(CHANNELS, expansion=2, groups=2).double()
    pushed.load_state_dict(cell.state_dict())
    pushed.scale = scale
    changes = [
        ((a - b).norm() / b.norm()).item() for a, b in zip(solved(pushed, x), solved(cell, x), strict=True)
    ]
    assert min(changes) > 1e-4, changes


@torch.no_grad()
def test_the_input_enters_at_the_finest_scale_only() -> None:
    cell, x = make(), maps()
    z = tuple(torch.randn_like(part) for part in solved(cell, x))

    def images(x: Tensor, cut: bool) -> tuple[Tensor, ...]:
        c = cell.inject(x)
        if cut:  # the ways from the finest scale to the others
            paths = [
                (row[0] if i == 0 else lambda o: o.new_zeros(()), *row[1:]) for i, row in enumerate(c.paths)
            ]
            c = replace(c, paths=tuple(paths))
        return cell(z, c)

    for cut in (False, True):
        moved = [
            (a - b).abs().max() > 1e-3 for a, b in zip(images(x, cut), images(x.flip(3), cut), strict=True)
        ]
        assert moved == [True, not cut, not cut]


def test_gradients_against_finite_differences() -> None:
    channels = (4, 4)
    cell = make(channels)
    x = maps(1, side=4)
    layer = Equilibrium(cell, gradient=Implicit(tol=1e-11, max_steps=300), tol=1e-11, max_steps=300)
    names, values = zip(*cell.named_parameters(), strict=True)
    weights = [torch.randn(1, 4, side, side, dtype=torch.float64) for side in (4, 2)]

    def output(x: Tensor, *values: Tensor) -> Tensor:
        named = {f"cell.{name}": value for name, value in zip(names, values, strict=True)}
        scales = torch.func.functional_call(layer, named, (x,))
        return sum(((w * z).sum() for w, z in zip(weights, scales, strict=True)), x.new_zeros(()))

    arguments = [x, *[value.detach().clone() for value in values]]
    for argument in arguments:
        argument.requires_grad_()
    gradients = torch.autograd.grad(output(*arguments), arguments)
    assert layer.last_adjoint.converged.all()
    for place, gradient in enumerate(gradients):
        direction = torch.randn_like(gradient)
        ends = []
        for sign in (1, -1):
            moved = [a.detach() for a in arguments]
            moved[place] = moved[place] + sign * 1e-5 * direction
            with torch.no_grad():
                ends.append(output(*moved).item())
        expected = (ends[0] - ends[1]) / 2e-5
        assert (gradient * direction).sum().item() == pytest.approx(expected, rel=1e-4, abs=1e-6), place


@torch.no_grad()
def test_the_scale_of_filters_and_gains_does_not_matter() -> None:
    cell, x = make(), maps()
    expected = solved(cell, x)
    for name, parameter in cell.named_parameters():
        if name.endswith("weight"):
            parameter.mul_(
                torch.rand(len(parameter), *[1] * (parameter.dim() - 1)) + 1 if parameter.dim() > 1 else 7
            )
    for a, b in zip(solved(cell, x), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@torch.no_grad()
def test_at_full_feedback_the_start_does_not_converge() -> None:
    """Reason for ``feedback``: at 0.2 the same cell needs 20 evaluations at most."""
    x = torch.randn(2, 16, 16, 16)
    steps = {}
    for feedback in (0.2, 1.0):
        torch.manual_seed(0)
        layer = Equilibrium(
            MDEQCell((16, 32, 32), groups=4, feedback=feedback), tol=1e-3, on_failure="ignore"
        )
        steps[feedback] = layer.solve(x)
    assert steps[0.2].converged.all()
    assert steps[0.2].steps.max() <= 20
    assert not steps[1.0].converged.any()


def test_parameter_count_is_the_papers() -> None:
    with torch.device("meta"):
        assert round(create_model("mdeq_cifar_10m").parameter_count() / 1e6) == 10


def train(model: MDEQ, x: Tensor, labels: Tensor, steps: int, lr: float) -> None:
    optimiser = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    model.train()
    for _ in range(steps):
        optimiser.zero_grad()
        F.cross_entropy(model(x), labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimiser.step()


@pytest.mark.parametrize("lr", [0.05, 0.1])
def test_converges_at_the_start_and_after_training(lr: float) -> None:
    model = create_model("mdeq_tiny")
    assert isinstance(model, MDEQ)
    x, labels = torch.randn(16, 1, 8, 8), torch.arange(16) % 10
    with torch.no_grad():
        model(x)
        model.eval()(x)
    assert model.solutions()["equilibrium"].steps_max <= 15
    train(model, x, labels, 20, lr)
    with torch.no_grad():
        logits = model(x)
        model.eval()(x)
    report = model.solutions()["equilibrium"]
    assert report.converged == 1.0
    assert report.residual_max <= 1e-3
    assert report.steps_max <= 20
    assert F.cross_entropy(logits, labels) < 2.0, "it learns, from 2.3"


def test_a_network_says_what_it_is() -> None:
    model = create_model("mdeq_tiny").eval()
    x = torch.randn(2, 1, 8, 8)
    with pytest.raises(GeqError, match="MDEQCell has no energy"):
        model.energy(x)
    found = model.well_posedness()["equilibrium"]
    assert (
        found.feedback_norm is found.rate is found.unique is found.contraction is found.largest_step is None
    )
    assert "nothing is proved" in str(found)
    with pytest.raises(InputError, match="2 scales need sides that 2 divides, of 4 at least: got 7×8"):
        model(torch.randn(2, 1, 7, 8))
    assert model(torch.randn(2, 1, 4, 12)).shape == (2, 10)


def test_a_half_precision_module_solves_in_single() -> None:
    model = create_model("mdeq_tiny").bfloat16().eval()
    with torch.no_grad():
        assert model(torch.randn(2, 1, 8, 8).bfloat16()).dtype == torch.bfloat16
    assert model.solutions()["equilibrium"].converged == 1.0


@pytest.mark.parametrize(
    "options",
    [
        {"channels": (8,)},
        {"channels": (8, 0)},
        {"groups": 3},
        {"feedback": 0.0},
        {"feedback": 1.5},
        {"expansion": 0},
    ],
)
def test_impossible_options_are_refused(options: dict) -> None:
    with pytest.raises(OptionError):
        create_model("mdeq_tiny", **options)
