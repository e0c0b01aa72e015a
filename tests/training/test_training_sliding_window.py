"""Sliding windows: every pixel is seen, overlaps are averaged, and a small image is one window."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from geq.errors import OptionError
from geq.model.model_registry import create_model
from geq.model.segmenter import Segmenter
from geq.training.sliding_window import Inference
from geq.training.train_options import TrainOptions
from geq_papers.model.fcn import FCN


class Position(FCN):
    """Its logits are the pixels themselves, and the number of the pass: what a window sees, it says."""

    passes = 0

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k h w"]:
        self.passes += 1
        return torch.cat([x[:, :1], torch.full_like(x[:, :1], self.passes)], 1)


@pytest.fixture
def model() -> Segmenter:
    return create_model("fcn_camvid_small", stem_channels=(4, 6), channels=(6, 8), strides=(1, 2)).eval()


@pytest.fixture
def position() -> Position:
    config = create_model("fcn_camvid_small", num_classes=2).config
    return Position(config)


@pytest.mark.parametrize("window", [(20, 30), (21, 31), (200, 300)])
def test_an_image_no_larger_than_the_window_is_seen_whole(model: Segmenter, window: tuple[int, int]) -> None:
    images = torch.randn(2, 3, 20, 30)
    with torch.no_grad():
        assert torch.equal(Inference(window).logits(model, images), model(images))
        assert torch.equal(Inference().logits(model, images), model(images))


@pytest.mark.parametrize("window", [(5, 7), (8, 300), (200, 4), (1, 1)])
@pytest.mark.parametrize("overlap", [0.0, 1 / 3, 0.9])
def test_every_pixel_keeps_its_place(position: Position, window: tuple[int, int], overlap: float) -> None:
    images = torch.randn(2, 3, 13, 17)
    found = Inference(window, overlap).logits(position, images)
    torch.testing.assert_close(found[:, 0], images[:, 0])


def test_overlapping_windows_are_averaged(position: Position) -> None:
    """Width 6, window 4, half of it shared: passes 1 and 2 see columns 0–3 and 2–5."""
    calls: list[int] = []
    found = Inference((3, 4), 0.5).logits(position, torch.zeros(1, 3, 3, 6), lambda: calls.append(1))
    assert found[0, 1, 0].tolist() == [1, 1, 1.5, 1.5, 2, 2]
    assert len(calls) == position.passes == 2


def test_the_last_window_ends_with_the_image(position: Position) -> None:
    """Width 5, window 4, nothing shared: the second window starts at 1, not at 4."""
    found = Inference((1, 4), 0.0).logits(position, torch.zeros(1, 3, 1, 5))
    assert found[0, 1, 0].tolist() == [1, 1.5, 1.5, 1.5, 2]


def test_options() -> None:
    assert Inference.of(TrainOptions()) == Inference()
    sliding = TrainOptions(inference="sliding", window=(4, 6), overlap=0.25)
    assert Inference.of(sliding) == Inference((4, 6), 0.25)
    for values in ({"window": (0, 4)}, {"overlap": 1.0}, {"overlap": -0.1}):
        with pytest.raises(OptionError):
            TrainOptions(**values)  # type: ignore[arg-type]
