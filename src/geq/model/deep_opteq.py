"""Deep OptEq on CIFAR: a short extractor, one deep equilibrium, a linear head (OptEq §7.1–7.3).

    x = g(x₀)     z = f_L ∘ … ∘ f_1(z, x), from z⁰ = x     y = W_{L+1}·pool(ReLU(norm(z)))

From the paper: five 3×3 layers with 16, 32, 64, 128, 128 channels (199k parameters) or 16, 32, 64, 64, 128
(162k, with an extractor of one convolution), α = 0.8, ReLU, z⁰ = x, SGD. It leaves open the channels of the
state, the extractor, the resolution, the head, all norms, and everything about the model of 1.4M.

Chosen here: z⁰ = x asks for a state of the size of x, so the layers of 162k have 304·9·2m weights, and m = 29
is the only whole number that can give 162k; the extractor is one 5×5 convolution, since a 3×3 one gives 160k.
The same m with the channels of 199k needs an extractor of two 3×3 convolutions, 20 and 29 channels. Both work
at the full 32×32 pixels. The model of 1.4M doubles the channels and has a state of 104. A batch norm stands
after each convolution of the extractor and after z, which is small; the layers have their b_l and no norm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from geq.errors import OptionError
from geq.layers.deep import DeepOptEq2d
from geq.model.deep_layer_config import DeepLayerConfig
from geq.model.model_registry import ModelSpec, register
from geq.model.network import FeatureMap, Network

Activation = Literal["relu", "leaky_relu", "tanh", "elu", "softplus"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "leaky_relu": nn.LeakyReLU(),
    "tanh": torch.tanh,
    "elu": nn.ELU(),
    "softplus": nn.Softplus(),
}


@dataclass(frozen=True)
class DeepConfig(DeepLayerConfig):
    """Configuration of a classifier with a deep equilibrium.

    Args:
        kernel_sizes: odd side of the kernels, one per layer; a single one is that of all.
        activation: σ.
        normalise_input: batch norm on every U_l x instead of a bias.
    """

    kernel_sizes: tuple[int, ...] = field(default=(3,), kw_only=True)
    activation: Activation = field(default="relu", kw_only=True)
    normalise_input: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.kernel_sizes:
            raise OptionError("kernel_sizes must have one number, or one per layer; got none")

    def equilibrium(self, state_channels: int) -> DeepOptEq2d:
        """The deep layer on x and z of ``state_channels``."""
        kernels = self.kernel_sizes
        return self.deep_layer(
            state_channels,
            kernel_size=kernels[0] if len(kernels) == 1 else kernels,
            activation=ACTIVATIONS[self.activation],
            normalise_input=self.normalise_input,
        )


@dataclass(frozen=True)
class DeepOptEqConfig(DeepConfig):
    """The same with its extractor and head.

    Args:
        extractor: channels of the extractor's convolutions (norm, ReLU); the last is that of x and z.
        extractor_strides: their strides.
        extractor_kernel: their odd side.
        pool: side to which the head pools (1: global average).
    """

    extractor: tuple[int, ...] = field(kw_only=True)
    extractor_strides: tuple[int, ...] = field(kw_only=True)
    extractor_kernel: int = field(default=3, kw_only=True)
    pool: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.extractor or len(self.extractor) != len(self.extractor_strides):
            raise OptionError(
                "extractor and extractor_strides need one entry per convolution: "
                f"got {self.extractor} and {self.extractor_strides}"
            )
        if self.extractor_kernel % 2 == 0 or min(*self.extractor, *self.extractor_strides, self.pool) < 1:
            raise OptionError(
                "the extractor needs positive channels and strides and an odd kernel, the head a positive "
                f"side: got {self.extractor}, {self.extractor_strides}, {self.extractor_kernel}, {self.pool}"
            )


class DeepOptEq(Network):
    """Extractor, deep equilibrium, norm, ReLU, pool, linear head.

    >>> from geq.model.model_registry import create_model
    >>> create_model("deep_opteq_tiny")(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    family = "deep_opteq"
    config_class = DeepOptEqConfig
    config: DeepOptEqConfig

    def __init__(self, config: DeepOptEqConfig) -> None:
        super().__init__(config)
        self.extractor = nn.Sequential()
        before = config.input_shape[0]
        for after, stride in zip(config.extractor, config.extractor_strides, strict=True):
            kernel = config.extractor_kernel
            self.extractor.append(nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False))
            self.extractor.append(nn.BatchNorm2d(after))
            self.extractor.append(nn.ReLU())
            before = after
        self.equilibrium = config.equilibrium(before)
        self.norm = nn.BatchNorm2d(before)
        self.head = nn.Linear(before * config.pool**2, config.num_classes)

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch classes"]:
        self.check_input(x)
        z = self.norm(self.equilibrium(self.extractor(x))).relu()
        return self.head(F.adaptive_avg_pool2d(z, self.config.pool).flatten(1))

    def last_feature_map(self) -> FeatureMap:
        return FeatureMap("equilibrium", self.equilibrium, equilibrium="equilibrium")


CIFAR, DIGITS = (3, 32, 32), (1, 8, 8)
CIFAR_199K = DeepOptEqConfig(
    CIFAR, extractor=(20, 29), extractor_strides=(1, 1), channels=(16, 32, 64, 128, 128)
)
CIFAR_162K = DeepOptEqConfig(
    CIFAR, extractor=(29,), extractor_strides=(1,), extractor_kernel=5, channels=(16, 32, 64, 64, 128)
)
CIFAR_1M4 = DeepOptEqConfig(
    CIFAR, extractor=(24, 104), extractor_strides=(1, 1), channels=(32, 64, 128, 256, 256)
)
TINY = DeepOptEqConfig(DIGITS, extractor=(16,), extractor_strides=(1,), channels=(16, 20, 30))
SMALL = DeepOptEqConfig(CIFAR, extractor=(16, 24), extractor_strides=(2, 2), channels=(16, 32, 56))
SMALL_200K = DeepOptEqConfig(CIFAR, extractor=(24, 48), extractor_strides=(2, 2), channels=(32, 64, 120))

register(
    ModelSpec("opteq_cifar_199k", DeepOptEq, CIFAR_199K, "OptEq tables 3 and 5", "CIFAR-10 87.4, 88.1"),
    ModelSpec("opteq_cifar_162k", DeepOptEq, CIFAR_162K, "OptEq table 4", "CIFAR-10 85.7, with HSIC 87.4"),
    ModelSpec("opteq_cifar_1m4", DeepOptEq, CIFAR_1M4, "OptEq table 4", "CIFAR-10 with decorrelation 91.0"),
    ModelSpec("deep_opteq_tiny", DeepOptEq, TINY, "laptop size of Deep OptEq"),
    ModelSpec("deep_opteq_small", DeepOptEq, SMALL, "laptop size of Deep OptEq"),
    ModelSpec("deep_opteq_small_200k", DeepOptEq, SMALL_200K, "laptop size of Deep OptEq"),
)
