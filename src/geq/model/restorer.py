"""Networks that restore damaged images: blocks with an equilibrium, their plain twin, and DnCNN.

    restored = x + tail(blocks(stem(x)))     one block: f ← f + conv(norm(z*(f)))

x has values from 0 to 1 and any size; all maps have the size of the image. z* minimises a hidden objective
that asks the state to explain Ux, so that restoring is the task which such a layer solves by itself: with the
patch Gaussian on single pixels, β tells which of them the state does not explain.

``kernel="convolutions"`` replaces z* by ReLU(norm(V·ReLU(norm(Ux)))): the convolutions U and Wᵀ, each
evaluated once. DnCNN (Zhang et al. 2017) is the usual feed-forward network for the task.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from geq.constraints import SpectralBound
from geq.errors import InputError, OptionError
from geq.gradients import Implicit
from geq.layers.energy import GAUSSIAN_GRADIENT, GEQ2d, OptEq2d
from geq.model.branch_network import GAMMA_RULES, Gamma
from geq.model.config import NetworkConfig
from geq.model.gradient_config import DifferentiationConfig
from geq.model.model_registry import ModelSpec, register
from geq.model.network import FeatureMap, Network

GREY = 0.5
"""Is subtracted from the image, so that the zeros around it are no black frame."""


def check_positive(config: NetworkConfig, *names: str) -> None:
    for name in names:
        if getattr(config, name) < 1:
            raise OptionError(f"{name} must be at least 1: got {getattr(config, name)}")


def check_colours(config: NetworkConfig) -> None:
    if config.num_classes != config.input_shape[0]:
        raise OptionError(
            "a restorer gives an image with the channels of its input: got num_classes "
            f"{config.num_classes} and {config.input_shape[0]} channels"
        )


@dataclass(frozen=True)
class RestorerConfig(DifferentiationConfig):
    """Args:
    kernel: of each equilibrium; "convolutions" has none.
    blocks: number of blocks.
    features: channels of the maps between the blocks.
    mid_channels, out_channels: of Ux and Wz, and of the state z.
    patch, hidden: p and c_hid of the patch kernel, whose only group has all channels.
    gamma, gamma_value: rule and number, as of a :class:`~geq.model.branch.BranchConfig`.
    bound: of ‖W‖; None is the layer's own.
    tol, max_steps: of the solver.
    """

    kernel: Literal["patch_gaussian", "linear", "convolutions"] = field(
        default="patch_gaussian", kw_only=True
    )
    blocks: int = field(default=2, kw_only=True)
    features: int = field(default=16, kw_only=True)
    mid_channels: int = field(default=16, kw_only=True)
    out_channels: int = field(default=32, kw_only=True)
    patch: int = field(default=1, kw_only=True)
    hidden: int = field(default=16, kw_only=True)
    gamma: Gamma = field(default="learned", kw_only=True)
    gamma_value: float = field(default=0.2, kw_only=True)
    bound: float | None = field(default=None, kw_only=True)
    tol: float = field(default=1e-3, kw_only=True)
    max_steps: int = field(default=50, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "blocks", "features", "mid_channels", "out_channels")
        check_colours(self)
        if self.gamma in ("learned_group", "learned_patch"):
            raise OptionError(f"a restorer has one γ for each equilibrium: got {self.gamma}; use learned")

    def implicit(self) -> Implicit:
        return GAUSSIAN_GRADIENT if self.kernel == "patch_gaussian" else super().implicit()

    def layer(self) -> nn.Module:
        """The part of a block that gives z."""
        constraint = None if self.bound is None else SpectralBound(self.bound)
        if self.kernel == "linear":
            return OptEq2d(
                self.features,
                self.out_channels,
                self.mid_channels,
                constraint=constraint,
                gradient=self.differentiation(),
                tol=self.tol,
                max_steps=self.max_steps,
            )
        if self.kernel == "convolutions":
            return nn.Sequential(
                *convolution(self.features, self.mid_channels),
                *convolution(self.mid_channels, self.out_channels),
            )
        return GEQ2d(
            self.features,
            self.out_channels,
            self.mid_channels,
            patch=self.patch,
            channel_split=self.mid_channels,
            hidden=self.hidden,
            gamma=GAMMA_RULES[self.gamma](self.gamma_value),
            constraint=constraint,
            gradient=self.differentiation(),
            tol=self.tol,
            max_steps=self.max_steps,
        )


def convolution(in_channels: int, out_channels: int) -> tuple[nn.Module, ...]:
    return (
        nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
    )


class AnyRestorer(Network):
    """A :class:`Network` from images to images of the same size."""

    labels_pixels = True
    restores = True

    @abstractmethod
    def correction(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]: ...

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        self.check_input(x)
        return x + self.correction(x - GREY)

    def last_feature_map(self) -> FeatureMap:
        raise InputError(
            "an explanation is of one class of one image, as geq predict gives it; this network restores "
            "images"
        )


class Restorer(AnyRestorer):
    """Stem, residual blocks, tail.

    >>> import torch
    >>> from geq.model.model_registry import create_model
    >>> create_model("restorer_tiny")(torch.zeros(2, 1, 8, 12)).shape
    torch.Size([2, 1, 8, 12])
    """

    family = "restorer"
    config_class = RestorerConfig
    config: RestorerConfig

    def __init__(self, config: RestorerConfig) -> None:
        super().__init__(config)
        channels = config.input_shape[0]
        self.stem = nn.Conv2d(channels, config.features, 3, padding=1)
        self.layers = nn.ModuleList(config.layer() for _ in range(config.blocks))
        # z is small, about 0.01 to 0.1 of a normalised input: hence the norm.
        self.outputs = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(config.out_channels),
                nn.Conv2d(config.out_channels, config.features, 3, padding=1),
            )
            for _ in range(config.blocks)
        )
        self.tail = nn.Conv2d(config.features, channels, 3, padding=1)

    def correction(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        features = self.stem(x)
        for layer, output in zip(self.layers, self.outputs, strict=True):
            features = features + output(layer(features))
        return self.tail(features)


@dataclass(frozen=True)
class DnCNNConfig(NetworkConfig):
    """Args:
    depth: number of 3×3 convolutions.
    channels: of all maps between them.
    """

    depth: int = field(default=10, kw_only=True)
    channels: int = field(default=18, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "channels")
        check_colours(self)
        if self.depth < 2:
            raise OptionError(f"depth must be at least 2: got {self.depth}")


class DnCNN(AnyRestorer):
    """Convolutions with batch norm and ReLU that predict what is wrong with an image (Zhang et al. 2017).

    >>> import torch
    >>> from geq.model.model_registry import create_model
    >>> create_model("dncnn_tiny")(torch.zeros(2, 1, 8, 12)).shape
    torch.Size([2, 1, 8, 12])
    """

    family = "dncnn"
    config_class = DnCNNConfig
    config: DnCNNConfig

    def __init__(self, config: DnCNNConfig) -> None:
        super().__init__(config)
        colours, channels = config.input_shape[0], config.channels
        self.layers = nn.Sequential(nn.Conv2d(colours, channels, 3, padding=1), nn.ReLU())
        for _ in range(config.depth - 2):
            self.layers.extend(convolution(channels, channels))
        self.layers.append(nn.Conv2d(channels, colours, 3, padding=1))

    def correction(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        return self.layers(x)


DIGITS, CIFAR = (1, 8, 8), (3, 32, 32)

register(
    ModelSpec(
        "restorer_tiny",
        Restorer,
        RestorerConfig(DIGITS, num_classes=1, features=8, mid_channels=8, out_channels=16, hidden=8),
        "GEQ in residual blocks, laptop size",
    ),
    ModelSpec(
        "restorer_small",
        Restorer,
        RestorerConfig(CIFAR, num_classes=3),
        "GEQ in residual blocks, laptop size",
    ),
    ModelSpec(
        "dncnn_tiny",
        DnCNN,
        DnCNNConfig(DIGITS, num_classes=1, depth=6, channels=13),
        "Zhang et al. 2017, scaled down",
    ),
    ModelSpec("dncnn_small", DnCNN, DnCNNConfig(CIFAR, num_classes=3), "Zhang et al. 2017, scaled down"),
)
