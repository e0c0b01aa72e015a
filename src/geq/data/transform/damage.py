"""The transform that damages images for networks that restore them."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int64
from torch import Generator, Tensor

from geq.data.restoration import DamageName, damaged
from geq.data.transform.base import Images, Transform, as_float


@dataclass(frozen=True)
class Damaging(Transform):
    """Damage a batch; the last transform of a chain, which gives float32 from 0 to 1."""

    damage: DamageName

    def __call__(self, images: Images, generator: Generator) -> Float[Tensor, "b c h w"]:
        return damaged(as_float(images), self.damage, generator)

    def with_masks(
        self, images: Images, masks: Int64[Tensor, "b c h w"], generator: Generator
    ) -> tuple[Float[Tensor, "b c h w"], Int64[Tensor, "b c h w"]]:
        """Return damaged images, and the clean ones as they are."""
        return self(images, generator), masks
