"""Distortions of an image before a network gets it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from geq.data.corruption import SEVERITIES, corrupt, corrupt_by
from geq.errors import OptionError

NOISE, BLUR = 0.4, 2.0
"""Standard deviations at full noise (white is 1) and at full blur (in pixels)."""
FADED = 0.95
"""Share of the contrast that is gone at the end of its slider; without any the image would be lost."""


@dataclass(frozen=True)
class Distortion:
    """Less contrast first, then blur, then one of the 19 corruptions, then noise: as from scene to sensor.

    Args:
        noise, blur, fade: from 0 (none) to 100 (all).
        corruption: name of one of the 19, or None.
        severity: of the corruption, 1 to 5; 0 is none.
    """

    noise: float | int = 0
    blur: float | int = 0
    fade: float | int = 0
    corruption: str | None = None
    severity: int = 0

    def __post_init__(self) -> None:
        for name in ("noise", "blur", "fade"):
            if not 0 <= getattr(self, name) <= 100:
                raise OptionError(f"{name} must lie in 0..100: got {getattr(self, name)}")
        if self.severity not in (0, *SEVERITIES):
            raise OptionError(f"severity must lie in 0..{SEVERITIES[-1]}: got {self.severity}")

    def apply(self, image: UInt8[Tensor, "1 c h w"]) -> UInt8[Tensor, "1 c h w"]:
        """The same image every time: the noise has a fixed seed."""
        pixels = np.ascontiguousarray(image.permute(0, 2, 3, 1).numpy())
        if self.fade:
            pixels = corrupt_by(pixels, "contrast", 1 - FADED * self.fade / 100, seed=0)
        if self.blur:
            pixels = corrupt_by(pixels, "gaussian_blur", BLUR * self.blur / 100, seed=0)
        if self.corruption is not None and self.severity:
            pixels = corrupt(pixels, self.corruption, self.severity, seed=0)
        if self.noise:
            pixels = corrupt_by(pixels, "gaussian_noise", NOISE * self.noise / 100, seed=0)
        return torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()


CLEAR = Distortion()
