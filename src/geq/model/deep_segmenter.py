"""Deep OptEq that labels pixels: the backbone of OptEq's table 10 with a head.

    x = stem(image)     z = f_3 ∘ f_2 ∘ f_1(z, x)     scores = 1×1(ReLU(norm(3×3(ReLU(norm(z))))))

From the paper: three weighted layers of 256, 512 and 512 channels, one resolution, no property asked of the
features. It says nothing of the extractor, the state's size, the head or the resolution. Here the extractor
is a chain of strided convolutions, the state has the size of its output (so that a solve starts at z = x, as
in algorithm 1), and the head is one 3×3 convolution before the scores. z is small, so a norm follows
it, and U_l x is normalised.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor, nn

from geq.errors import OptionError
from geq.layers.deep import DeepOptEq2d
from geq.model.deep_layer_config import DeepLayerConfig
from geq.model.model_registry import ModelSpec, register
from geq.model.segmenter import Segmenter, SegmenterConfig, convolution


@dataclass(frozen=True)
class DeepSegmenterConfig(SegmenterConfig, DeepLayerConfig):
    """Args:
    state_channels: of the state z; None is the stem's last, for which a solve starts at z = x.
    head_channels: of the 3×3 convolution before the scores.
    """

    state_channels: int | None = field(default=None, kw_only=True)
    head_channels: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_channels < 1:
            raise OptionError(f"head_channels must be at least 1; got {self.head_channels}")

    @property
    def state_size(self) -> int:
        return self.state_channels or self.stem_channels[-1]

    def equilibrium(self) -> DeepOptEq2d:
        return self.deep_layer(self.stem_channels[-1], self.state_size, normalise_input=True)


class DeepSegmenter(Segmenter):
    """Stem, Deep OptEq, head.

    >>> import torch
    >>> from geq.model.model_registry import create_model
    >>> create_model("opteq_camvid_small")(torch.zeros(2, 3, 45, 61)).shape
    torch.Size([2, 11, 45, 61])
    """

    family = "deep_segmenter"
    config_class = DeepSegmenterConfig
    config: DeepSegmenterConfig

    def __init__(self, config: DeepSegmenterConfig) -> None:
        super().__init__(config)
        self.equilibrium = config.equilibrium()
        self.norm = nn.Sequential(nn.BatchNorm2d(config.state_size), nn.ReLU())
        self.head = convolution(config.state_size, config.head_channels)
        self.classifier = nn.Conv2d(config.head_channels, config.num_classes, 1)

    def scores(self, features: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k h w"]:
        return self.classifier(self.head(self.norm(self.equilibrium(features))))


CAMVID, CITYSCAPES = (3, 180, 240), (3, 512, 1024)
"""Images of CamVid at a quarter of their size, and the training window of Cityscapes."""

register(
    ModelSpec(
        "opteq_cityscapes",
        DeepSegmenter,
        DeepSegmenterConfig(
            CITYSCAPES,
            num_classes=19,
            stem_channels=(64, 128, 256),
            stem_strides=(2, 2, 2),
            channels=(256, 512, 512),
            head_channels=256,
        ),
        "OptEq table 10",
        "Cityscapes mIoU 74.47, mAcc 81.91, aAcc 95.93",
    ),
    ModelSpec(
        "opteq_camvid_small",
        DeepSegmenter,
        DeepSegmenterConfig(
            CAMVID,
            num_classes=11,
            stem_channels=(16, 32),
            stem_strides=(2, 2),
            channels=(32, 48, 48),
            head_channels=48,
        ),
        "laptop size of opteq_cityscapes",
    ),
)
