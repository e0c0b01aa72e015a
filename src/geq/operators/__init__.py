"""Linear operators with exact adjoints and bounds of their norms."""

from geq.operators.operator import Convolution, Dense, LinearMap, Operator
from geq.operators.separable import SeparableConvolution

__all__ = ["Convolution", "Dense", "LinearMap", "Operator", "SeparableConvolution"]
