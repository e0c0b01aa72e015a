"""Arrays of an estimator: validation and conversion.

* ``(n, features)``: a table, read by scikit-learn's own checks (names of columns, missing values, …).
* ``(n, h, w)``: grey images. ``(n, c, h, w)`` and ``(n, h, w, c)``: images with channels. Which of the two is
  told from the sizes: channels are 1 to 4, and sides are larger. Where both ends qualify, ``channel_axis``
  must say.
* ``(n, features)`` with ``image_shape=(h, w)`` or one of the above: flattened images, as scikit-learn's
  pipelines need them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from geq.errors import InputError, OptionError

Array = NDArray[Any]

MOST_CHANNELS = 4


def channels_first(images: Array, channel_axis: int | None) -> Array:
    """``(n, c, h, w)`` from any of the image layouts.

    Args:
        images: of three or four axes.
        channel_axis: 1 or −1 (3); None to infer it from the sizes.
    """
    if channel_axis not in (None, 1, 3, -1):
        raise OptionError(f"channel_axis must be 1, -1 or None: got {channel_axis!r}")
    if images.ndim == 3:
        return images[:, None]
    if images.ndim != 4:
        raise InputError(
            "X must be a table (n, features) or images (n, h, w), (n, c, h, w) or (n, h, w, c): "
            f"got an array of shape {images.shape}"
        )
    if channel_axis is None:
        few = [axis for axis in (1, 3) if images.shape[axis] <= MOST_CHANNELS]
        if len(few) != 1:
            raise InputError(
                "one of axis 1 and axis 3 must have 1 to 4 entries to be known as the channels: got images "
                f"of shape {images.shape}; say channel_axis=1 or channel_axis=-1"
            )
        channel_axis = few[0]
    return images if channel_axis == 1 else numpy.moveaxis(images, channel_axis, 1)


def unflattened(table: Array, image_shape: Sequence[int]) -> Array:
    """The rows of a table as images of ``image_shape``."""
    shape = tuple(int(side) for side in image_shape)
    if len(shape) not in (2, 3) or min(shape) < 1:
        raise OptionError(f"image_shape must be (h, w), (c, h, w) or (h, w, c): got {tuple(image_shape)}")
    if numpy.prod(shape) != table.shape[1]:
        raise InputError(
            f"rows must have the {numpy.prod(shape)} entries of image_shape={shape}: got {table.shape[1]}"
        )
    return table.reshape(len(table), *shape)


def as_rows(data: Array) -> Array:
    """Return the rows to standardise: a table by column, images by channel."""
    return data if data.ndim == 2 else numpy.moveaxis(data, 1, -1).reshape(-1, data.shape[1])


def from_rows(rows: Array, like: Array) -> Array:
    """The inverse of :func:`as_rows`, in the shape of ``like``."""
    if like.ndim == 2:
        return rows
    n, channels, height, width = like.shape
    return numpy.ascontiguousarray(numpy.moveaxis(rows.reshape(n, height, width, channels), -1, 1))
