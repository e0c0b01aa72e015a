"""Residual networks (He et al. 2016; wide: Zagoruyko and Komodakis 2016), the explicit baseline.

Counts of parameters equal torchvision's. The ImageNet stem is a 7×7 convolution of stride 2 and a pooling of
stride 2; the CIFAR stem one 3×3 convolution, which keeps the resolution.

Initialisation: convolutions from N(0, 2/fan_out) (He et al. 2015, for ReLU), batch norm at scale 1 and shift
0 (also in the last norm of a block: a zero there would leave the block without gradient at first), the
linear head as PyTorch does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from geq.errors import OptionError
from geq.model.config import NetworkConfig
from geq.model.model_registry import ModelSpec, register
from geq.model.network import FeatureMap, Network
from geq.model.residual_block import basic_block, bottleneck_block, plain_convolution


@dataclass(frozen=True)
class ResNetConfig(NetworkConfig):
    """Args:
    depths: number of blocks in each stage; every stage but the first halves the resolution.
    widths: channels of each stage (before a bottleneck's expansion by 4).
    block: ``basic`` (two 3×3 convolutions) or ``bottleneck`` (1×1, 3×3, 1×1).
    stem: ``imagenet`` (down by 4) or ``cifar`` (keeps the resolution).
    inner: factor on the inner channels of a bottleneck; 2 makes a wide ResNet.
    """

    depths: tuple[int, ...] = field(kw_only=True)
    widths: tuple[int, ...] = field(default=(64, 128, 256, 512), kw_only=True)
    block: Literal["basic", "bottleneck"] = field(default="basic", kw_only=True)
    stem: Literal["imagenet", "cifar"] = field(default="cifar", kw_only=True)
    inner: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            len(self.depths) != len(self.widths)
            or not self.depths
            or min(*self.depths, *self.widths, self.inner) < 1
        ):
            raise OptionError(
                "depths and widths must be as many positive numbers as there are stages; "
                f"got depths {self.depths}, widths {self.widths}, inner {self.inner}"
            )
        if self.block == "basic" and self.inner != 1:
            raise OptionError(
                f"inner widens bottleneck blocks only; got inner {self.inner} with basic blocks"
            )


class ResNet(Network):
    """Stem, stages of residual blocks, global average, linear head.

    >>> import torch
    >>> from geq.model.model_registry import create_model
    >>> create_model("resnet_tiny")(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    family = "resnet"
    config_class = ResNetConfig
    config: ResNetConfig

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__(config)
        image_channels, first = config.input_shape[0], config.widths[0]
        if config.stem == "imagenet":
            stem = [plain_convolution(image_channels, first, 7, 2), nn.BatchNorm2d(first), nn.ReLU()]
            self.stem = nn.Sequential(*stem, nn.MaxPool2d(3, 2, padding=1))
        else:
            self.stem = nn.Sequential(
                plain_convolution(image_channels, first, 3), nn.BatchNorm2d(first), nn.ReLU()
            )
        channels = first
        self.stages = nn.ModuleList()
        for index, (depth, width) in enumerate(zip(config.depths, config.widths, strict=True)):
            stage = nn.Sequential()
            for position in range(depth):
                stride = 2 if index > 0 and position == 0 else 1
                if config.block == "basic":
                    stage.append(basic_block(channels, width, stride))
                    channels = width
                else:
                    stage.append(bottleneck_block(channels, width, stride, config.inner))
                    channels = 4 * width
            self.stages.append(stage)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels, config.num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch classes"]:
        self.check_input(x)
        features = self.stem(x)
        for stage in self.stages:
            features = stage(features)
        return self.head(self.pool(features).flatten(1))

    def last_feature_map(self) -> FeatureMap:
        return FeatureMap(f"stages.{len(self.stages) - 1}", self.stages[-1])


IMAGENET, CIFAR, DIGITS = (3, 224, 224), (3, 32, 32), (1, 8, 8)
_OPTEQ, _GEQ, _OURS = "OptEq table 7", "GEQ tables 1–2", "He et al. 2016, scaled down"


def _imagenet(depths: tuple[int, ...], block: Literal["basic", "bottleneck"], inner: int = 1) -> ResNetConfig:
    return ResNetConfig(IMAGENET, num_classes=1000, depths=depths, block=block, stem="imagenet", inner=inner)


def _cifar(depths: tuple[int, ...], block: Literal["basic", "bottleneck"], inner: int = 1) -> ResNetConfig:
    return ResNetConfig(CIFAR, depths=depths, block=block, inner=inner)


register(
    ModelSpec(
        "resnet18",
        ResNet,
        _imagenet((2, 2, 2, 2), "basic"),
        f"{_OPTEQ}; GEQ table 2",
        "ImageNet 70.2 / 89.9; ImageNette 92.3 ± 0.1, ImageNet-100 80.9 ± 0.3",
    ),
    ModelSpec("resnet34", ResNet, _imagenet((3, 4, 6, 3), "basic"), _OPTEQ, "ImageNet 74.8 / 91.1"),
    ModelSpec(
        "resnet50",
        ResNet,
        _imagenet((3, 4, 6, 3), "bottleneck"),
        f"{_OPTEQ}; GEQ table 2",
        "ImageNet 75.1 / 92.5; ImageNette 93.0 ± 0.2, ImageNet-100 81.7 ± 0.2",
    ),
    ModelSpec("resnet101", ResNet, _imagenet((3, 4, 23, 3), "bottleneck"), _OPTEQ, "ImageNet 77.1 / 93.5"),
    ModelSpec(
        "wide_resnet50", ResNet, _imagenet((3, 4, 6, 3), "bottleneck", 2), _OPTEQ, "ImageNet 78.1 / 93.9"
    ),
    ModelSpec(
        "resnet18_cifar",
        ResNet,
        _cifar((2, 2, 2, 2), "basic"),
        "GEQ table 1",
        "CIFAR-10 93.5 ± 0.2, CIFAR-100 74.5 ± 0.2",
    ),
    ModelSpec("resnet34_cifar", ResNet, _cifar((3, 4, 6, 3), "basic"), "He et al. 2016"),
    ModelSpec(
        "resnet50_cifar",
        ResNet,
        _cifar((3, 4, 6, 3), "bottleneck"),
        "GEQ table 1",
        "CIFAR-10 95.2 ± 0.2, CIFAR-100 77.9 ± 0.1",
    ),
    ModelSpec("resnet101_cifar", ResNet, _cifar((3, 4, 23, 3), "bottleneck"), "He et al. 2016"),
    ModelSpec(
        "wide_resnet50_cifar", ResNet, _cifar((3, 4, 6, 3), "bottleneck", 2), "Zagoruyko and Komodakis 2016"
    ),
    ModelSpec("resnet_tiny", ResNet, ResNetConfig(DIGITS, depths=(1, 1), widths=(16, 32)), _OURS),
    ModelSpec("resnet_small", ResNet, ResNetConfig(CIFAR, depths=(1, 1, 1), widths=(14, 28, 48)), _OURS),
    ModelSpec("resnet_small_200k", ResNet, ResNetConfig(CIFAR, depths=(1, 1, 1), widths=(28, 56, 96)), _OURS),
)
