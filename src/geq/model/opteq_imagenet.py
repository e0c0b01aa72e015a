"""Deep OptEq on ImageNet: a (wide) ResNet as extractor, separable layers, a convolutional head (tables 6–7).

From the paper: an extractor from ResNet-50 (8M) or Wide-ResNet-50 (24M), trained from scratch, which makes
28×28×512 features of 224×224 pixels; five 3×3 depthwise-separable layers (7M), or three times a 5×5 and a 3×3
one (13M); a head of two 1×1 convolutions 512 → 1024 → 2048, each with ReLU and max-pooling, and an average
(3M); α = 0.8, or learned. In total 18M and 40M.

These numbers do not fit together. The paper calls its extractors the first two stages, but two stages have
1.4M and 4.1M weights, and three have 8.5M and 24.9M. Separable layers with its 512 channels (1024 and 512)
have 2.7M (4.9M) instead of 7M (13M), counting W and U. The linear map from 2048 to 1000 classes, 2M, is in
none of the parts.

Chosen here, so that the sizes in all are the printed ones: three stages, the third without its stride (so
that the map is 28×28), a 1×1 convolution to 512 channels, and layers of 832 channels, or 2048 and 1152. The
paper trains with K = 5 unrolled steps and decorrelation; both are in the presets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor, nn

from geq.errors import OptionError
from geq.model.deep_opteq import DeepConfig
from geq.model.model_registry import ModelSpec, register
from geq.model.network import FeatureMap, Network
from geq.model.residual_block import bottleneck_block


@dataclass(frozen=True)
class OptEqImageNetConfig(DeepConfig):
    """Args:
    depths: blocks of each stage of the extractor.
    widths: channels of each stage, before the bottleneck's expansion by 4.
    inner: factor on the inner channels of a bottleneck; 2 makes a wide ResNet.
    state_channels: of x and z.
    head_channels: of the head's convolutions, each followed by a pooling.
    """

    depths: tuple[int, ...] = field(default=(3, 4, 6), kw_only=True)
    widths: tuple[int, ...] = field(default=(64, 128, 256), kw_only=True)
    inner: int = field(default=1, kw_only=True)
    state_channels: int = field(default=512, kw_only=True)
    head_channels: tuple[int, ...] = field(default=(1024, 2048), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = (*self.depths, *self.widths, self.inner, self.state_channels, *self.head_channels)
        if not self.depths or len(self.depths) != len(self.widths) or min(sizes) < 1:
            raise OptionError(
                "depths and widths must be as many positive numbers as there are stages; "
                f"got depths {self.depths}, widths {self.widths}"
            )
        if not self.head_channels:
            raise OptionError("head_channels must have one number per convolution; got none")


class OptEqImageNet(Network):
    """Extractor, deep equilibrium, head: see the module's text."""

    family = "opteq_imagenet"
    config_class = OptEqImageNetConfig
    config: OptEqImageNetConfig

    def __init__(self, config: OptEqImageNetConfig) -> None:
        super().__init__(config)
        channels = config.widths[0]
        self.extractor = nn.Sequential(
            nn.Conv2d(config.input_shape[0], channels, 7, 2, padding=3, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, padding=1),
        )
        for stage, (depth, width) in enumerate(zip(config.depths, config.widths, strict=True)):
            for position in range(depth):
                stride = 2 if stage == 1 and position == 0 else 1
                self.extractor.append(bottleneck_block(channels, width, stride, config.inner))
                channels = 4 * width
        self.extractor.append(nn.Conv2d(channels, config.state_channels, 1, bias=False))
        self.extractor.append(nn.BatchNorm2d(config.state_channels))
        self.extractor.append(nn.ReLU())
        for module in self.extractor.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.equilibrium = config.equilibrium(config.state_channels)
        self.norm = nn.BatchNorm2d(config.state_channels)
        self.classifier = nn.Sequential()
        before = config.state_channels
        for after in config.head_channels:
            self.classifier.append(nn.Conv2d(before, after, 1))
            self.classifier.append(nn.ReLU())
            self.classifier.append(nn.MaxPool2d(2, ceil_mode=True))
            before = after
        self.head = nn.Linear(before, config.num_classes)

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch classes"]:
        self.check_input(x)
        z = self.norm(self.equilibrium(self.extractor(x)))
        return self.head(self.classifier(z).mean((2, 3)))

    def last_feature_map(self) -> FeatureMap:
        return FeatureMap("equilibrium", self.equilibrium, equilibrium="equilibrium")


IMAGENET = (3, 224, 224)
SMALL = OptEqImageNetConfig(IMAGENET, num_classes=1000, channels=(832,) * 5, separable=True)
MIDDLE = OptEqImageNetConfig(
    IMAGENET,
    num_classes=1000,
    channels=(2048, 1152) * 3,
    kernel_sizes=(5, 3) * 3,
    separable=True,
    inner=2,
)

register(
    ModelSpec("opteq_imagenet_small", OptEqImageNet, SMALL, "OptEq tables 6–7", "ImageNet 76.9 / 93.1; 18M"),
    ModelSpec(
        "opteq_imagenet_middle", OptEqImageNet, MIDDLE, "OptEq tables 6–7", "ImageNet 78.3 / 94.0; 40M"
    ),
)
