"""GEQ: parallel equilibria with the Gaussian kernel on patches (GEQ appendix A.7).

The paper does not give the stem nor the kernel size of U and W. 3×3 everywhere, with a stem of two
convolutions (CIFAR) or four (ImageNet, two of them down-sampling), reproduces the sizes that it reports.
"""

from __future__ import annotations

from dataclasses import replace

from geq.layers.energy import STRONGEST
from geq.model.branch_network import BranchConfig, BranchNetwork
from geq.model.model_registry import ModelSpec, register

CIFAR_SCALES = (32, 16, 8, 8, 4, 4)
IMAGENET_SCALES = (64, 32, 16, 16, 8, 8)


def cifar_config(out_channels: int, mid_channels: tuple[int, ...], num_classes: int = 10) -> BranchConfig:
    """The papers' network for 32×32 images."""
    return BranchConfig(
        (3, 32, 32),
        stem_channels=(out_channels, out_channels),
        stem_strides=(1, 1),
        scales=CIFAR_SCALES,
        mid_channels=mid_channels,
        out_channels=out_channels,
        fusion_scale=8,
        num_classes=num_classes,
    )


def imagenet_config(out_channels: int, mid_channels: tuple[int, ...], num_classes: int = 100) -> BranchConfig:
    """The papers' network for 256×256 images."""
    return BranchConfig(
        (3, 256, 256),
        stem_channels=(out_channels,) * 4,
        stem_strides=(2, 2, 1, 1),
        scales=IMAGENET_SCALES,
        mid_channels=mid_channels,
        out_channels=out_channels,
        fusion_scale=16,
        hidden=128,
        num_classes=num_classes,
    )


CIFAR_5M = cifar_config(256, (64, 128, 128, 128, 256, 256))
CIFAR_8M = cifar_config(320, (80, 160, 160, 160, 320, 320))
IMAGENET_6M = imagenet_config(256, (32, 64, 128, 128, 256, 256))
IMAGENET_13M = imagenet_config(384, (48, 96, 192, 192, 384, 384))

TINY = BranchConfig(
    (1, 8, 8),
    stem_channels=(16,),
    stem_strides=(1,),
    scales=(8, 4),
    mid_channels=(16, 16),
    out_channels=32,
    fusion_scale=8,
    pool=4,
    hidden=16,
)
SMALL = BranchConfig(
    (3, 32, 32),
    stem_channels=(16, 24),
    stem_strides=(2, 2),
    scales=(8, 8, 4),
    mid_channels=(24, 24, 24),
    out_channels=40,
    fusion_scale=8,
    hidden=32,
)
CASCADE_TINY = replace(TINY, topology="cascade", out_channels=28, fusion_scale=4)
CASCADE_SMALL = replace(
    SMALL,
    topology="cascade",
    stem_strides=(1, 2),
    scales=(16, 8, 4),
    mid_channels=(16, 24, 32),
    out_channels=34,
    fusion_scale=4,
)
STRONG_TINY, STRONG_SMALL = (replace(config, bound=STRONGEST) for config in (CASCADE_TINY, CASCADE_SMALL))
SMALL_200K = replace(SMALL, stem_channels=(24, 48), mid_channels=(48, 48, 48), out_channels=88, hidden=64)

WITHOUT_PROJECTION = {"geq_tiny": 34, "geq_small": 44, "geq_small_200k": 92}

register(
    ModelSpec("geq_cifar_5m", BranchNetwork, CIFAR_5M, "GEQ table 1", "CIFAR-10 94.8, CIFAR-100 76.4; 5M"),
    ModelSpec("geq_cifar_8m", BranchNetwork, CIFAR_8M, "GEQ table 1", "CIFAR-10 95.6, CIFAR-100 78.2; 8M"),
    ModelSpec("geq_imagenet_6m", BranchNetwork, IMAGENET_6M, "GEQ table 2", "ImageNet-100 82.2; 6M"),
    ModelSpec("geq_imagenet_13m", BranchNetwork, IMAGENET_13M, "GEQ table 2", "ImageNet-100 83.9; 13M"),
    ModelSpec("geq_cascade_tiny", BranchNetwork, CASCADE_TINY, "GEQ layers in a row, laptop size"),
    ModelSpec("geq_cascade_small", BranchNetwork, CASCADE_SMALL, "GEQ layers in a row, laptop size"),
    ModelSpec("geq_strong_tiny", BranchNetwork, STRONG_TINY, "GEQ layers in a row, ‖W‖ ≤ 1.4"),
    ModelSpec("geq_strong_small", BranchNetwork, STRONG_SMALL, "GEQ layers in a row, ‖W‖ ≤ 1.4"),
)
for name, config in (
    ("geq_cifar_5m", CIFAR_5M),
    ("geq_tiny", TINY),
    ("geq_small", SMALL),
    ("geq_small_200k", SMALL_200K),
):
    if config is not CIFAR_5M:
        register(ModelSpec(name, BranchNetwork, config, "laptop size of GEQ"))
    control = replace(config, gamma="zero")
    # Without W_h a few more channels keep the size.
    whole = replace(config, kernel="gaussian", out_channels=WITHOUT_PROJECTION.get(name, config.out_channels))
    register(
        ModelSpec(f"{name}_control", BranchNetwork, control, "GEQ with γ = 0: all weights β are 1"),
        ModelSpec(f"{name}_nonpatch", BranchNetwork, whole, "GEQ eq. 5: one distance per image"),
    )
