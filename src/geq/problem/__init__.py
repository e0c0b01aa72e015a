"""What is minimised: similarities, penalties, operators, and the hidden problem that joins them."""

from geq.bandwidth import FixedGamma, GammaRule, LearnedGamma, MedianGamma, PaperGamma, ZeroGamma
from geq.cells.energy import Context, EnergyProblem
from geq.certificate import MonotoneWellPosedness, WellPosedness
from geq.constraints.spectral import Constraint, SpectralBound, Unconstrained, WeightNorm
from geq.constraints.variants import ChannelGainBound, FrobeniusBound, LearnedSpectralBound, SpectralEquality
from geq.kernels.base import GaussianKernel, Kernel, LinearKernel, PolynomialKernel, SigmoidKernel
from geq.kernels.patch_gaussian import PatchGaussianKernel, from_patches, to_patches
from geq.operators.operator import Convolution, Dense, LinearMap, Operator
from geq.operators.separable import SeparableConvolution
from geq.penalties.activation import ActivationPenalty, SigmoidPenalty, TanhPenalty, penalty_of
from geq.penalties.base import L1, Box, ElasticNet, LeakyPenalty, NonNegative, NoPenalty, Penalty
from geq.regularizers.features import (
    Decorrelation,
    FeatureDecay,
    FeatureRegulariser,
    FeatureSparsity,
    Incay,
    SeparableRegulariser,
)
from geq.regularizers.hsic import HSIC

__all__ = [
    "HSIC",
    "L1",
    "ActivationPenalty",
    "Box",
    "ChannelGainBound",
    "Constraint",
    "Context",
    "Conv2d",
    "Decorrelation",
    "Dense",
    "ElasticNet",
    "EnergyProblem",
    "FeatureDecay",
    "FeatureRegulariser",
    "FeatureSparsity",
    "FixedGamma",
    "FrobeniusBound",
    "GammaRule",
    "Gaussian",
    "Incay",
    "LeakyPenalty",
    "LearnedGamma",
    "LearnedSpectralBound",
    "Linear",
    "LinearMap",
    "MedianGamma",
    "MonotoneWellPosedness",
    "NoPenalty",
    "NonNegative",
    "Operator",
    "PaperGamma",
    "PatchGaussianKernel",
    "Penalty",
    "Polynomial",
    "SeparableConvolution",
    "SeparableRegulariser",
    "Sigmoid",
    "SigmoidPenalty",
    "Similarity",
    "SpectralBound",
    "SpectralEquality",
    "TanhPenalty",
    "Unconstrained",
    "WeightNorm",
    "WellPosedness",
    "ZeroGamma",
    "from_patches",
    "penalty_of",
    "to_patches",
]
