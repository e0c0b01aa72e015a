"""OptEq (one branch) and MOptEq (the branches of GEQ) with the linear kernel, and MOptEq's other kernels.

GEQ's comparison gives MOptEq the same branches. Its channels are not stated; here they are chosen so that the
sizes are the reported ones. In an inner-product kernel U maps to the state, so it is larger than GEQ's.
"""

from __future__ import annotations

from dataclasses import replace

from geq.model.branch_network import BranchConfig, BranchNetwork
from geq.model.geq import CASCADE_SMALL, CASCADE_TINY, SMALL, TINY, cifar_config, imagenet_config
from geq.model.model_registry import ModelSpec, register


def linear(config: BranchConfig) -> BranchConfig:
    return replace(config, kernel="linear")


CIFAR_8M = linear(cifar_config(288, (72, 144, 144, 144, 288, 288)))
IMAGENET_10M = linear(imagenet_config(300, (38, 75, 150, 150, 300, 300)))
IMAGENET_13M = linear(imagenet_config(340, (43, 85, 170, 170, 340, 340)))

MULTI_TINY = linear(replace(TINY, stem_channels=(12,), mid_channels=(14, 14)))
MULTI_SMALL = linear(replace(SMALL, stem_channels=(16, 22), mid_channels=(20, 20, 20)))
MULTI_SMALL_200K = linear(
    replace(SMALL, stem_channels=(24, 44), mid_channels=(42, 42, 42), out_channels=80, hidden=64)
)

SINGLE_TINY = linear(replace(TINY, stem_channels=(14,), scales=(8,), mid_channels=(36,)))
SINGLE_SMALL = linear(replace(SMALL, scales=(8,), mid_channels=(54,), out_channels=64))
SINGLE_SMALL_200K = linear(
    replace(SMALL, stem_channels=(24, 48), scales=(8,), mid_channels=(100,), out_channels=136)
)

CASCADED_TINY = linear(replace(CASCADE_TINY, out_channels=25))
CASCADED_SMALL = linear(replace(CASCADE_SMALL, out_channels=32))

POLYNOMIAL_BOUND, POLYNOMIAL_WIDTH = 0.6, 4.0
"""The polynomial kernel adds a curvature of its own, vvᵀ/n, to WᵀW. With a bound of 0.95 some batches do not
converge; with a width of 1 a tenth of the samples of CIFAR-100 have no equilibrium, and nothing is learned.
"""

register(
    ModelSpec("mopteq_cifar_8m", BranchNetwork, CIFAR_8M, "GEQ table 1", "CIFAR-10 94.6, CIFAR-100 75.6; 8M"),
    ModelSpec("mopteq_imagenet_10m", BranchNetwork, IMAGENET_10M, "GEQ table 2", "ImageNette 92.4; 10M"),
    ModelSpec("mopteq_imagenet_13m", BranchNetwork, IMAGENET_13M, "GEQ table 2", "ImageNet-100 81.5; 13M"),
    ModelSpec("opteq_tiny", BranchNetwork, SINGLE_TINY, "OptEq, laptop size"),
    ModelSpec("opteq_small", BranchNetwork, SINGLE_SMALL, "OptEq, laptop size"),
    ModelSpec("opteq_small_200k", BranchNetwork, SINGLE_SMALL_200K, "OptEq, laptop size"),
    ModelSpec("opteq_cascade_tiny", BranchNetwork, CASCADED_TINY, "OptEq layers in a row, laptop size"),
    ModelSpec("opteq_cascade_small", BranchNetwork, CASCADED_SMALL, "OptEq layers in a row, laptop size"),
    ModelSpec("mopteq_tiny", BranchNetwork, MULTI_TINY, "laptop size of MOptEq"),
    ModelSpec("mopteq_small", BranchNetwork, MULTI_SMALL, "laptop size of MOptEq"),
    ModelSpec("mopteq_small_200k", BranchNetwork, MULTI_SMALL_200K, "laptop size of MOptEq"),
)
for name, config in (
    ("mopteq_cifar_8m", CIFAR_8M),
    ("mopteq_tiny", MULTI_TINY),
    ("mopteq_small", MULTI_SMALL),
    ("mopteq_small_200k", MULTI_SMALL_200K),
):
    big = config is CIFAR_8M
    register(
        ModelSpec(
            f"{name}_polynomial",
            BranchNetwork,
            replace(config, kernel="polynomial", bound=POLYNOMIAL_BOUND, width=POLYNOMIAL_WIDTH),
            "GEQ table 5",
            "CIFAR-100 75.1; 8M" if big else None,
        ),
        ModelSpec(
            f"{name}_sigmoid",
            BranchNetwork,
            replace(config, kernel="sigmoid"),
            "GEQ table 5",
            "CIFAR-100 76.1; 8M" if big else None,
        ),
    )
