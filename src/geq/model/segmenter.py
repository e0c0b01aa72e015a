"""Networks that give every pixel its class: what the fully convolutional one and Deep OptEq have in common.

    stem (strided convolutions) → backbone → scores on a coarse map → bilinear up-sampling to the image

Nothing depends on the size of the image, so any size goes in, odd ones too, and a mask of the same size comes
out. The papers' segmentation has no auxiliary head, so neither has this.

Initialisation: convolutions from N(0, 2/fan_out) (He et al. 2015, for ReLU), norms at 1 and 0.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from geq.errors import InputError, OptionError
from geq.model.config import NetworkConfig
from geq.model.network import FeatureMap, Network


@dataclass(frozen=True)
class SegmenterConfig(NetworkConfig):
    """Args:
    stem_channels: channels of the 3×3 convolutions (norm, ReLU) before the backbone.
    stem_strides: 1 or 2 for each.
    """

    stem_channels: tuple[int, ...] = field(kw_only=True)
    stem_strides: tuple[int, ...] = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_layers("stem_channels", self.stem_channels, "stem_strides", self.stem_strides)


def check_layers(
    widths_name: str, widths: tuple[int, ...], strides_name: str, strides: tuple[int, ...]
) -> None:
    if len(widths) != len(strides) or not widths or min(widths) < 1 or not set(strides) <= {1, 2}:
        raise OptionError(
            f"{widths_name} must be positive and {strides_name} 1 or 2, as many as there are layers; "
            f"got {widths} and {strides}"
        )


def convolution(in_channels: int, out_channels: int, stride: int = 1) -> nn.Sequential:
    """3×3 convolution, batch norm, ReLU; a stride of 2 gives ⌈side / 2⌉."""
    layer = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(layer, nn.BatchNorm2d(out_channels), nn.ReLU())


def stretched(scores: Float[Tensor, "b k h w"], like: Tensor) -> Float[Tensor, "b k y x"]:
    """Bilinear, to the height and width of ``like``."""
    return F.interpolate(scores, (int(like.shape[-2]), int(like.shape[-1])), mode="bilinear")


class Segmenter(Network):
    """A :class:`Network` whose logits are maps: ``(B, C, H, W)`` to ``(B, num_classes, H, W)``.

    A subclass defines :meth:`scores`, from the stem's features to logits on a map of any size.
    """

    labels_pixels = True
    config: SegmenterConfig

    def __init__(self, config: SegmenterConfig) -> None:
        super().__init__(config)
        widths = (config.input_shape[0], *config.stem_channels)
        self.stem = nn.Sequential(
            *(
                convolution(before, after, stride)
                for before, after, stride in zip(widths, widths[1:], config.stem_strides, strict=False)
            )
        )

    @abstractmethod
    def scores(self, features: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k y x"]: ...

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k h w"]:
        self.check_input(x)
        if min(x.shape[-2:]) < 1:
            raise InputError(f"an image must have pixels; got {tuple(x.shape)}")
        return stretched(self.scores(self.stem(x)), x)

    def last_feature_map(self) -> FeatureMap:
        raise InputError(
            "an explanation is of one class of one image; this network labels every pixel: show its masks "
            "with geq predict"
        )
