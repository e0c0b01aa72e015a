"""The plain feed-forward network with an input skip: eq. (1) of the OptEq paper.

    z_{k+1} = σ(W_k z_k + U_k x + b_k),   y = W_{L+1} z_L,   z_0 = 0

Every layer has its own weights; if all layers shared one and their number went to infinity, z would tend to
the equilibrium z = σ(W z + U x + b).

Ours on images: W_k and U_k are 3×3 convolutions, x is the output of a one-convolution extractor, σ is ReLU,
a layer may halve the resolution (x is then average-pooled to match), and the pre-activation is
batch-normalised (the shift of the norm is b_k): five layers without any norm need a learning rate that the
other models do not share. The paper states neither the channels nor the resolution of its DNN, only that its
size equals Deep OptEq's 199k.

Initialisation: W_k and U_k from N(0, 1/(9·out_channels)), so that the two summands together have the
variance 2/fan_out of He et al. 2015; the extractor with 2/fan_out; norms at 1 and 0; the linear head as
PyTorch does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from geq.errors import OptionError
from geq.model.config import NetworkConfig
from geq.model.model_registry import ModelSpec, register
from geq.model.network import FeatureMap, Network


@dataclass(frozen=True)
class DNNConfig(NetworkConfig):
    """Args:
    extractor: channels of x, the output of the feature extractor.
    channels: channels of the state after each layer.
    strides: 1 or 2 for each layer; 2 halves the resolution.
    """

    extractor: int = field(kw_only=True)
    channels: tuple[int, ...] = field(kw_only=True)
    strides: tuple[int, ...] = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            len(self.channels) != len(self.strides)
            or not self.channels
            or min(self.extractor, *self.channels) < 1
        ):
            raise OptionError(
                "channels and strides must be as many positive numbers as there are layers; "
                f"got extractor {self.extractor}, channels {self.channels}, strides {self.strides}"
            )
        if not set(self.strides) <= {1, 2}:
            raise OptionError(f"strides must be 1 or 2; got {self.strides}")


class InputSkipLayer(nn.Module):
    """z ← ReLU(norm(W z + U x)); the first layer has z = 0 and so no W."""

    def __init__(self, state: int, context: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.from_state = nn.Conv2d(state, out_channels, 3, stride, padding=1, bias=False) if state else None
        self.from_input = nn.Conv2d(context, out_channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(out_channels)
        std = (1 / (9 * out_channels)) ** 0.5
        nn.init.normal_(self.from_input.weight, std=std)
        if self.from_state is not None:
            nn.init.normal_(self.from_state.weight, std=std)

    def forward(self, z: Tensor | None, x: Tensor) -> Tensor:
        total = self.from_input(x)
        if self.from_state is not None:
            total = total + self.from_state(z)
        return F.relu(self.norm(total))


class DNN(Network):
    """Extractor, layers of eq. (1), global average, linear head.

    >>> import torch
    >>> from geq.model.model_registry import create_model
    >>> create_model("dnn_tiny")(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    family = "dnn"
    config_class = DNNConfig
    config: DNNConfig

    def __init__(self, config: DNNConfig) -> None:
        super().__init__(config)
        convolution = nn.Conv2d(config.input_shape[0], config.extractor, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
        self.extractor = nn.Sequential(convolution, nn.BatchNorm2d(config.extractor), nn.ReLU())
        self.layers = nn.ModuleList(
            InputSkipLayer(state, config.extractor, out_channels, stride)
            for state, out_channels, stride in zip(
                (0, *config.channels[:-1]), config.channels, config.strides, strict=True
            )
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(config.channels[-1], config.num_classes)

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch classes"]:
        self.check_input(x)
        context = self.extractor(x)
        state = None
        for layer in self.layers:
            if layer.stride == 2:
                context = F.avg_pool2d(context, 2, ceil_mode=True)
            state = layer(state, context)
        assert state is not None
        return self.head(self.pool(state).flatten(1))

    def last_feature_map(self) -> FeatureMap:
        return FeatureMap(f"layers.{len(self.layers) - 1}", self.layers[-1])


CIFAR, DIGITS = (3, 32, 32), (1, 8, 8)
_SOURCE = "OptEq eq. (1)"

register(
    ModelSpec(
        "dnn_cifar_199k",
        DNN,
        DNNConfig(CIFAR, extractor=16, channels=(16, 32, 64, 96, 88), strides=(1, 1, 2, 2, 1)),
        "OptEq table 3",
        "CIFAR-10 82.7",
    ),
    ModelSpec(
        "dnn_cifar_162k",
        DNN,
        DNNConfig(CIFAR, extractor=16, channels=(16, 32, 64, 72, 87), strides=(1, 1, 2, 2, 1)),
        "OptEq eq. (1), in the size of table 4",
    ),
    ModelSpec(
        "dnn_cifar_1m4",
        DNN,
        DNNConfig(CIFAR, extractor=32, channels=(48, 96, 192, 256, 224), strides=(1, 1, 2, 2, 1)),
        "OptEq eq. (1), in the size of table 4",
    ),
    ModelSpec(
        "dnn_tiny", DNN, DNNConfig(DIGITS, extractor=12, channels=(16, 26, 32), strides=(1, 1, 2)), _SOURCE
    ),
    ModelSpec(
        "dnn_small",
        DNN,
        DNNConfig(CIFAR, extractor=16, channels=(16, 24, 40, 50), strides=(1, 2, 2, 1)),
        _SOURCE,
    ),
    ModelSpec(
        "dnn_small_200k",
        DNN,
        DNNConfig(CIFAR, extractor=16, channels=(32, 64, 88, 112), strides=(1, 2, 2, 1)),
        _SOURCE,
    ),
)
