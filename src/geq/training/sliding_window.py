"""Inference of a segmenter: on the full image, or by a sliding window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from geq.model.network import Network
from geq.training.train_options import SegmentationOptions


@dataclass(frozen=True)
class Inference:
    """
    Args:
        window: height and width of the window; None for the whole image.
        overlap: share by which neighbouring windows overlap.
    """

    window: tuple[int, int] | None = None
    overlap: float = 1 / 3

    @classmethod
    def of(cls, options: SegmentationOptions) -> Inference:
        return cls(options.window if options.inference == "sliding" else None, options.overlap)

    def logits(
        self,
        model: Network,
        images: Float[Tensor, "b c h w"],
        seen: Callable[[], None] = lambda: None,
    ) -> Float[Tensor, "b k h w"]:
        """Logits of every pixel; where windows overlap, the mean. ``seen`` is called after each pass.

        An image that is no larger than the window is one window: the result is that of the whole image.
        """
        height, width = int(images.shape[-2]), int(images.shape[-1])
        tall, wide = (height, width) if self.window is None else self.window
        tall, wide = min(tall, height), min(wide, width)
        if (tall, wide) == (height, width):
            result = model(images)
            seen()
            return result
        total = images.new_zeros(len(images), model.num_classes, height, width)
        count = images.new_zeros(height, width)
        for top in self._starts(height, tall):
            for left in self._starts(width, wide):
                area = (..., slice(top, top + tall), slice(left, left + wide))
                total[area] += model(images[area].contiguous())
                count[area] += 1
                seen()
        return total / count

    def _starts(self, extent: int, window: int) -> list[int]:
        """First pixels of the windows; the last window ends where the image does."""
        step = max(1, round(window * (1 - self.overlap)))
        return [*range(0, extent - window, step), extent - window]
