"""Kernels: what a hidden objective rewards. Changing the kernel changes the network."""

from geq.kernels.base import BoundKernel, Kernel
from geq.kernels.gaussian import (
    BoundGaussian,
    GaussianKernel,
    PatchGaussianKernel,
    from_patches,
    to_patches,
)
from geq.kernels.inner_product import InnerProductKernel, LinearKernel, PolynomialKernel, SigmoidKernel

__all__ = [
    "BoundGaussian",
    "BoundKernel",
    "GaussianKernel",
    "InnerProductKernel",
    "Kernel",
    "LinearKernel",
    "PatchGaussianKernel",
    "PolynomialKernel",
    "SigmoidKernel",
    "from_patches",
    "to_patches",
]
