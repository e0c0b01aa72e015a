"""How the input enters a layer: a linear map, optionally normalised."""

from __future__ import annotations

from torch import Tensor, nn

from geq.operators import Convolution, Dense


class Injection(nn.Module):
    """x ↦ scale·norm(Ux + b).

    The norm has no learned scale: with one, weight decay lets the injection shrink until the layer is dead. A
    normalised injection needs no bias of its own.

    Args:
        linear: U.
        normalise: batch norm without learned parameters.
        scale: constant factor. A fixed γ needs distances of order one: KerDEQ uses 1/√(entries of a patch).
    """

    def __init__(self, linear: Convolution | Dense, normalise: bool, scale: float = 1.0) -> None:
        super().__init__()
        self.linear, self.scale = linear, scale
        kind = nn.BatchNorm2d if isinstance(linear, Convolution) else nn.BatchNorm1d
        self.norm = kind(linear.out_channels, affine=False) if normalise else None

    def forward(self, x: Tensor) -> Tensor:
        v = self.linear(x)
        if self.norm is not None:
            v = self.norm(v)
        return v if self.scale == 1 else self.scale * v

    def extra_repr(self) -> str:
        return f"scale={self.scale:g}"
