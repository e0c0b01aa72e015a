"""What is minimised: similarities, penalties, operators, and the hidden problem that joins them."""

from geq.problem.certificate import MonotoneWellPosedness, WellPosedness
from geq.problem.gamma import FixedGamma, GammaRule, LearnedGamma, PaperGamma, ZeroGamma
from geq.problem.hidden import Context, HiddenProblem
from geq.problem.norm import NoNorm, NormRule, OperatorNorm, WeightNorm
from geq.problem.operator import Conv2d, Dense, LinearMap, Operator
from geq.problem.patch import PatchGaussian, from_patches, to_patches
from geq.problem.penalty import L1, Box, ElasticNet, NonNegative, NoPenalty, Penalty
from geq.problem.similarity import Gaussian, Linear, Polynomial, Sigmoid, Similarity

__all__ = [
    "L1",
    "Box",
    "Context",
    "Conv2d",
    "Dense",
    "ElasticNet",
    "FixedGamma",
    "GammaRule",
    "Gaussian",
    "HiddenProblem",
    "LearnedGamma",
    "Linear",
    "LinearMap",
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
    "Sigmoid",
    "Similarity",
    "WeightNorm",
    "WellPosedness",
    "ZeroGamma",
    "from_patches",
    "to_patches",
]
