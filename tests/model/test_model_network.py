"""Reports of a network about its equilibria: a small one with two branches, and one without any."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn

from geq.cells import Cell, EnergyProblem
from geq.equilibrium import Equilibrium
from geq.errors import ConvergenceWarning, GeqError, InputError, OptionError
from geq.kernels import GaussianKernel
from geq.model.config import NetworkConfig
from geq.model.model_registry import create_model
from geq.model.network import Network
from geq.operators import Dense


@dataclass(frozen=True)
class TwoBranchConfig(NetworkConfig):
    state: int = field(default=6, kw_only=True)


class TwoBranch(Network):
    """Two dense equilibria on the pixels, of which the second sees the first one's output."""

    family = "two_branch"
    config_class = TwoBranchConfig
    config: TwoBranchConfig

    def __init__(self, config: TwoBranchConfig) -> None:
        super().__init__(config)
        pixels = config.input_shape[0] * config.input_shape[1] * config.input_shape[2]
        self.first = self.branch(pixels, config.state)
        self.second = nn.Sequential(nn.Linear(config.state, 3), self.branch(3, config.state))
        self.head = nn.Linear(config.state, config.num_classes)

    @staticmethod
    def branch(inputs: int, state: int) -> Equilibrium:
        problem = EnergyProblem(GaussianKernel(gamma=0.5), W=Dense(state, 4), U=Dense(inputs, 4, bias=True))
        return Equilibrium(problem, tol=1e-10, max_steps=200)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return self.head(self.second(self.first(x.flatten(1))))


@pytest.fixture
def model() -> TwoBranch:
    return TwoBranch(TwoBranchConfig((1, 2, 3))).double()


@pytest.fixture
def images() -> Tensor:
    return torch.randn(5, 1, 2, 3, dtype=torch.float64)


def test_equilibria_have_dotted_names(model: TwoBranch) -> None:
    assert model.equilibria() == {"first": model.first, "second.1": model.second[1]}


def test_solutions_summarise_the_last_forward(model: TwoBranch, images: Tensor) -> None:
    assert model.solutions() == {}
    model(images)
    reports = model.solutions()
    assert list(reports) == ["first", "second.1"]
    for name, report in reports.items():
        solution = model.get_submodule(name).last_solution
        assert report.steps_mean == pytest.approx(sum(solution.steps.tolist()) / 5)
        assert report.steps_max == max(solution.steps.tolist())
        assert report.residual_max == max(solution.residual.tolist()) <= 1e-10
        assert report.converged == 1.0
    model.first.max_steps = 1
    with pytest.warns(ConvergenceWarning, match="5 of 5"):
        model.train()(images)
    assert model.solutions()["first"].converged < 1
    assert model.solutions()["first"].steps_max == 1


def test_energy_is_the_sum_over_equilibria(model: TwoBranch, images: Tensor) -> None:
    with torch.no_grad():
        pixels = images.flatten(1)
        first, second = model.first, model.second[1]
        between = model.second[0](first(pixels))
        total = first.energy(pixels) + second.energy(between)
        assert torch.allclose(model.energy(images), total)
        assert model.energy(images).shape == (5,)
        # The energy is G at the solved state, not at another one.
        context = first.problem.inject(pixels)
        assert torch.allclose(first.energy(pixels), first.problem.energy(first(pixels), context))
        assert (first.problem.energy(first(pixels) + 0.1, context) > first.energy(pixels)).all()


def test_energy_leaves_no_hook_behind(model: TwoBranch, images: Tensor) -> None:
    model.energy(images)
    assert not model.first._forward_pre_hooks
    with pytest.raises(InputError):
        model.energy(images[:, :, :1])
    assert not model.first._forward_pre_hooks


def test_well_posedness_by_equilibrium(model: TwoBranch, images: Tensor) -> None:
    model(images)
    found = model.well_posedness()
    assert list(found) == ["first", "second.1"]
    assert all(verdict.feedback_norm > 0 for verdict in found.values())


def test_multiply_adds_are_those_of_one_evaluation_of_every_map(model: TwoBranch) -> None:
    # Wz and Wᵀ(·) are 4×6 matrices, in each of two branches.
    assert model.multiply_adds() == 2 * 2 * 4 * 6
    assert model.solutions() == {}, "nothing was solved for that"


class Asking(Cell):
    """A map that needs a number of its context, as a step size from a norm is."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(6) / 2)

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        return z @ self.weight * min(1.0, float(c.norm())) + c


def test_multiply_adds_where_the_map_asks_for_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TwoBranch, "branch", staticmethod(lambda inputs, state: Equilibrium(Asking())))
    model = TwoBranch(TwoBranchConfig((1, 2, 3)))
    model.second = nn.Sequential()
    with pytest.raises(RuntimeError, match="meta"):
        model.to("meta").first.cell(torch.zeros(1, 6, device="meta"), torch.zeros(1, 6, device="meta"))
    monkeypatch.setattr(TwoBranch, "forward", lambda self, x: self.head(self.first(x.flatten(1))))
    assert model.multiply_adds() == 6 * 6


@pytest.mark.parametrize("name", ["geq_tiny", "geq_small", "opteq_tiny"])
def test_multiply_adds_by_hand(name: str) -> None:
    """Per pixel of a branch: 9·out·mid for each of Wz and Wᵀ(·), and, with patches, the Gram matrix."""
    model = create_model(name)
    config = model.config
    entries = config.channel_split * config.patch**2 if config.kernel == "patch_gaussian" else 0
    assert model.multiply_adds() == sum(
        scale**2 * mid * (2 * 9 * config.out_channels + entries)
        for scale, mid in zip(config.scales, config.mid_channels, strict=True)
    )


def test_a_network_without_equilibrium() -> None:
    model = create_model("resnet_tiny").eval()
    assert model.equilibria() == model.solutions() == model.well_posedness() == {}
    with pytest.raises(GeqError, match="ResNet has no equilibrium"):
        model.energy(torch.zeros(1, 1, 8, 8))


def test_wrong_images_are_refused() -> None:
    model = create_model("resnet_tiny")
    with pytest.raises(InputError, match=r"takes images of shape \(batch, 1, 8, 8\); got \(2, 3, 8, 8\)"):
        model(torch.zeros(2, 3, 8, 8))


@pytest.mark.parametrize(
    "options", [{"input_shape": (1, 0, 8)}, {"input_shape": (1, 8, 8), "num_classes": 0}]
)
def test_impossible_configurations_are_refused(options: dict) -> None:
    with pytest.raises(OptionError):
        NetworkConfig(**options)
