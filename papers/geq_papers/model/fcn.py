"""The fully convolutional network (Shelhamer, Long and Darrell 2017), the explicit baseline of segmentation.

A chain of convolutions that halves the resolution several times; a 1×1 convolution scores the classes at the
end and before each halving, and the scores are summed from coarse to fine, each stretched to the next map.

Ours: batch norm instead of dropout, bilinear up-sampling that is not learned, no pre-trained weights; widths
are chosen so that the number of parameters is that of the Deep OptEq beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor, nn

from geq.model.model_registry import ModelSpec, register
from geq.model.segmenter import Segmenter, SegmenterConfig, check_layers, convolution, stretched


@dataclass(frozen=True)
class FCNConfig(SegmenterConfig):
    """Args:
    channels: channels of each 3×3 convolution after the stem.
    strides: 1 or 2 for each.
    """

    channels: tuple[int, ...] = field(kw_only=True)
    strides: tuple[int, ...] = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_layers("channels", self.channels, "strides", self.strides)


class FCN(Segmenter):
    """Stem, convolutions, and scores from every resolution.

    >>> import torch
    >>> from geq.model.model_registry import create_model
    >>> create_model("fcn_camvid_small")(torch.zeros(2, 3, 45, 61)).shape
    torch.Size([2, 11, 45, 61])
    """

    family = "fcn"
    config_class = FCNConfig
    config: FCNConfig

    def __init__(self, config: FCNConfig) -> None:
        super().__init__(config)
        stages: list[list[nn.Module]] = [[]]
        widths = [config.stem_channels[-1]]
        for channels, stride in zip(config.channels, config.strides, strict=True):
            if stride == 2:
                stages.append([])
                widths.append(widths[-1])
            stages[-1].append(convolution(widths[-1], channels, stride))
            widths[-1] = channels
        self.stages = nn.ModuleList(nn.Sequential(*stage) for stage in stages)
        self.classifiers = nn.ModuleList(nn.Conv2d(width, config.num_classes, 1) for width in widths)

    def scores(self, features: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k h w"]:
        scores = []
        for stage, classifier in zip(self.stages, self.classifiers, strict=True):
            features = stage(features)
            scores.append(classifier(features))
        total = scores.pop()
        while scores:
            finer = scores.pop()
            total = finer + stretched(total, finer)
        return total


CAMVID, CITYSCAPES = (3, 180, 240), (3, 512, 1024)
"""Images of CamVid at a quarter of their size, and the training window of Cityscapes."""

register(
    ModelSpec(
        "fcn_cityscapes",
        FCN,
        FCNConfig(
            CITYSCAPES,
            num_classes=19,
            stem_channels=(64, 128, 256),
            stem_strides=(2, 2, 2),
            channels=(256, 512, 512, 512),
            strides=(1, 2, 2, 1),
        ),
        "OptEq table 10",
        "Cityscapes mIoU 71.47, mAcc 79.23, aAcc 95.56",
    ),
    ModelSpec(
        "fcn_camvid_small",
        FCN,
        FCNConfig(
            CAMVID,
            num_classes=11,
            stem_channels=(16, 32),
            stem_strides=(2, 2),
            channels=(32, 56, 58, 60),
            strides=(1, 2, 2, 1),
        ),
        "laptop size of fcn_cityscapes",
    ),
)
