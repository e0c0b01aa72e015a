"""What is minimised: similarities, penalties, operators, and the hidden problem that joins them."""

from geq.problem.activation import ActivationPenalty, SigmoidPenalty, TanhPenalty, penalty_of
from geq.problem.certificate import MonotoneWellPosedness, WellPosedness
from geq.problem.gamma import FixedGamma, GammaRule, LearnedGamma, MedianGamma, PaperGamma, ZeroGamma
from geq.problem.hidden import Context, HiddenProblem
from geq.problem.hsic import HSIC
from geq.problem.norm import NoNorm, NormRule, OperatorNorm, WeightNorm
from geq.problem.norm_variant import ChannelGain, FrobeniusNorm, FullNorm, LearnedNorm
from geq.problem.operator import Conv2d, Dense, LinearMap, Operator
from geq.problem.patch import PatchGaussian, from_patches, to_patches
from geq.problem.penalty import L1, Box, ElasticNet, LeakyPenalty, NonNegative, NoPenalty, Penalty
from geq.problem.regulariser import (
    Decorrelation,
    FeatureDecay,
    FeatureRegulariser,
    FeatureSparsity,
    Incay,
    SeparableRegulariser,
)
from geq.problem.separable import Separable2d
from geq.problem.similarity import Gaussian, Linear, Polynomial, Sigmoid, Similarity

__all__ = [
    "HSIC",
    "L1",
    "ActivationPenalty",
    "Box",
    "ChannelGain",
    "Context",
    "Conv2d",
    "Decorrelation",
    "Dense",
    "ElasticNet",
    "FeatureDecay",
    "FeatureRegulariser",
    "FeatureSparsity",
    "FixedGamma",
    "FrobeniusNorm",
    "FullNorm",
    "GammaRule",
    "Gaussian",
    "HiddenProblem",
    "Incay",
    "LeakyPenalty",
    "LearnedGamma",
    "LearnedNorm",
    "Linear",
    "LinearMap",
    "MedianGamma",
    "MonotoneWellPosedness",
    "NoNorm",
    "NoPenalty",
    "NonNegative",
    "NormRule",
    "Operator",
    "OperatorNorm",
    "PaperGamma",
    "PatchGaussian",
    "Penalty",
    "Polynomial",
    "Separable2d",
    "SeparableRegulariser",
    "Sigmoid",
    "SigmoidPenalty",
    "Similarity",
    "TanhPenalty",
    "WeightNorm",
    "WellPosedness",
    "ZeroGamma",
    "from_patches",
    "penalty_of",
    "to_patches",
]
