"""KerDEQ: the earlier version of GEQ, with γ = 0.5 and, on ImageNet, larger patches of fewer channels.

With γ = 0.5 and a normalised Ux, nearly every patch is an outlier (β ≈ 0) and nothing trains. The injection
is therefore scaled so that a patch has a squared norm of about 1 at first.
"""

from __future__ import annotations

import math
from dataclasses import replace

from geq.model.branch_network import BranchConfig, BranchNetwork
from geq.model.geq import CIFAR_5M, CIFAR_8M, IMAGENET_6M, IMAGENET_13M, SMALL, SMALL_200K, TINY
from geq.model.model_registry import ModelSpec, register


def with_fixed_gamma(config: BranchConfig, patch: int, channel_split: int) -> BranchConfig:
    return replace(
        config,
        gamma="fixed",
        gamma_value=0.5,
        patch=patch,
        channel_split=channel_split,
        injection_scale=1 / math.sqrt(channel_split * patch**2),
    )


register(
    ModelSpec("kerdeq_cifar_5m", BranchNetwork, with_fixed_gamma(CIFAR_5M, 2, 8), "KerDEQ section 4"),
    ModelSpec("kerdeq_cifar_8m", BranchNetwork, with_fixed_gamma(CIFAR_8M, 2, 8), "KerDEQ section 4"),
    ModelSpec("kerdeq_imagenet_6m", BranchNetwork, with_fixed_gamma(IMAGENET_6M, 4, 4), "KerDEQ section 4"),
    ModelSpec("kerdeq_imagenet_13m", BranchNetwork, with_fixed_gamma(IMAGENET_13M, 4, 4), "KerDEQ section 4"),
    ModelSpec("kerdeq_tiny", BranchNetwork, with_fixed_gamma(TINY, 2, 8), "laptop size of KerDEQ"),
    ModelSpec("kerdeq_small", BranchNetwork, with_fixed_gamma(SMALL, 2, 8), "laptop size of KerDEQ"),
    ModelSpec(
        "kerdeq_small_200k", BranchNetwork, with_fixed_gamma(SMALL_200K, 2, 8), "laptop size of KerDEQ"
    ),
)
