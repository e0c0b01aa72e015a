from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from geq.data.dataset import Statistics
from geq.data.dataset_registry import dataset_info
from geq.data.segmentation import IGNORE
from geq.data.transform import (
    Compose,
    CropFlip,
    Normalize,
    RandAugment,
    Resize,
    SegmentationCrop,
    ShiftOnly,
    Transform,
    default_transform,
)
from geq.data.transform import randaugment as rand
from geq.errors import InputError, OptionError


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def pictures(count: int = 6, channels: int = 3, side: int = 12) -> Tensor:
    return torch.randint(0, 256, (count, channels, side, side), dtype=torch.uint8, generator=generator(9))


RANDOM: list[Transform] = [CropFlip(3), ShiftOnly(2), RandAugment(3, 20), SegmentationCrop(10, 14)]


@pytest.mark.parametrize("transform", RANDOM, ids=lambda transform: type(transform).__name__)
def test_the_generator_decides_everything(transform: Transform) -> None:
    images = pictures()
    before = images.clone()
    state = torch.get_rng_state()
    first, again = transform(images, generator(1)), transform(images, generator(1))
    assert torch.equal(first, again)
    assert not torch.equal(first, transform(images, generator(2)))
    assert torch.equal(images, before), "the images of the dataset must not change"
    assert torch.equal(torch.get_rng_state(), state), "the global generator must not be used"


@pytest.mark.parametrize("transform", [CropFlip(3), ShiftOnly(2)], ids=["CropFlip", "ShiftOnly"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_each_result_is_a_window_of_the_padded_image(transform: Any, dtype: torch.dtype) -> None:
    images = pictures(count=200, side=6).to(dtype)
    result = transform(images, generator())
    padding = transform.padding if isinstance(transform, CropFlip) else transform.pixels
    padded = torch.nn.functional.pad(images, (padding,) * 4)
    seen = set()
    for image, source in zip(result, padded, strict=True):
        found = [
            (down, right, mirrored)
            for down in range(2 * padding + 1)
            for right in range(2 * padding + 1)
            for mirrored in (False, True)
            if torch.equal(
                image.flip(-1) if mirrored else image, source[:, down : down + 6, right : right + 6]
            )
        ]
        assert found
        seen.update(found[:1])
    shifts = {(down, right) for down, right, _ in seen}
    assert len(shifts) > 0.8 * (2 * padding + 1) ** 2
    assert any(mirrored for _, _, mirrored in seen) == isinstance(transform, CropFlip)


def test_half_of_the_images_are_mirrored() -> None:
    images = torch.zeros(2000, 1, 4, 4, dtype=torch.uint8)
    images[..., 0] = 1
    mirrored = (CropFlip(0)(images, generator())[:, 0, 0, 3] == 1).float().mean()
    assert 0.45 < mirrored < 0.55


def test_normalize_is_the_formula_for_bytes_and_floats() -> None:
    images = pictures()
    normalize = Normalize((0.4, 0.5, 0.6), (0.2, 0.25, 0.3))
    mean, std = torch.tensor(normalize.mean).view(3, 1, 1), torch.tensor(normalize.std).view(3, 1, 1)
    expected = (images.double() / 255 - mean) / std
    assert torch.allclose(normalize(images, generator()).double(), expected, atol=1e-5)
    assert torch.allclose(normalize(images.float() / 255, generator()).double(), expected, atol=1e-5)
    with pytest.raises(InputError, match="images have 1 channels but the statistics 3"):
        normalize(images[:, :1], generator())


def test_resize_averages_and_keeps_labels_whole() -> None:
    images = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    images[..., :4] = 200
    masks = torch.zeros(1, 8, 8, dtype=torch.int64)
    masks[..., :4] = 7
    small, labels = Resize(4).with_masks(images, masks, generator())
    assert small.shape == (1, 1, 4, 4)
    assert small[0, 0, 0, 0] == 200
    assert labels[0, 0].tolist() == [7, 7, 0, 0]
    assert Resize(4, 6)(images, generator()).shape == (1, 1, 4, 6)
    with pytest.raises(OptionError, match="positive"):
        Resize(0)


def test_randaugment_draws_for_each_image_and_stays_in_range() -> None:
    one = pictures(count=1, side=16)
    result = RandAugment(2, 25)(one.expand(64, -1, -1, -1), generator())
    assert result.dtype == torch.float32
    assert 0 <= float(result.min()) <= float(result.max()) <= 1
    assert len({tuple(image.flatten().tolist()) for image in result}) > 40
    assert RandAugment()(pictures(channels=1), generator()).shape == (6, 1, 12, 12)


@pytest.mark.parametrize(
    "operation", [name for name in rand.OPERATIONS if name not in ("auto_contrast", "equalize")]
)
def test_an_operation_of_no_strength_changes_nothing(operation: str) -> None:
    images = pictures().float() / 255
    drawn = torch.full((len(images),), rand.OPERATIONS.index(operation))
    result = rand._apply(images.clone(), drawn, torch.zeros(len(images)))
    # Posterising to eight bits, too, leaves bytes what they are.
    assert torch.allclose(result, images, atol=2e-3)


@pytest.mark.parametrize("operation", rand.OPERATIONS[1:])
def test_every_operation_does_something(operation: str) -> None:
    images = pictures(side=32).float() / 255 * 0.6 + 0.1
    drawn = torch.full((len(images),), rand.OPERATIONS.index(operation))
    result = rand._apply(images.clone(), drawn, torch.full((len(images),), 0.9))
    assert (result - images).abs().amax((1, 2, 3)).min() > 0.02


def test_posterize_and_sharpness_equal_those_of_kornia() -> None:
    """Written out here because they are several times faster so; kornia's are the reference."""
    enhance = pytest.importorskip("kornia").enhance
    images = pictures(side=20).float() / 255
    for strength in (-0.9, -0.3, 0.0, 0.4, 1.0):
        each = torch.full((len(images),), strength)
        bits = (8 - 4 * each.abs()).round().int()
        expected = enhance.posterize(images, bits)
        assert torch.allclose(rand._recolour(images, "posterize", each), expected, atol=1e-6)
        expected = enhance.sharpness(images, 1 + rand.ENHANCE * each)
        assert torch.allclose(rand._recolour(images, "sharpness", each).clamp(0, 1), expected, atol=1e-5)


def test_operations_move_as_their_names_say() -> None:
    images = torch.zeros(1, 3, 20, 40)
    images[:, :, 10, 20] = 1

    def moved(name: str, strength: float) -> list[int]:
        result = rand._move(images, torch.tensor([rand.OPERATIONS.index(name)]), torch.tensor([strength]))
        return [int(n) for n in (result[0, 0] == result.max()).nonzero()[0]]

    quarter = 0.25 / rand.SHIFT
    assert moved("translate_x", quarter) == [10, 30]
    assert moved("translate_y", -quarter) == [5, 20]
    # A point to the right of the middle moves down by a clockwise turn, and not at all by a horizontal shear.
    images = torch.zeros(1, 3, 20, 40)
    images[:, :, 9:11, 34:36] = 1
    assert moved("rotate", 0.5)[0] != 9
    assert moved("shear_x", 0.5)[0] in (9, 10)
    assert moved("shear_y", 0.5)[0] not in (9, 10)


def test_auto_contrast_leaves_a_plain_image() -> None:
    plain = torch.full((1, 3, 4, 4), 0.3)
    assert torch.equal(rand._recolour(plain, "auto_contrast", torch.tensor([0.3])), plain)


def test_images_and_masks_move_together() -> None:
    """The image says what its mask says, so after any crop it must still do so."""
    masks = (
        torch.randint(0, 11, (8, 5, 7), generator=generator(3))
        .repeat_interleave(6, 1)
        .repeat_interleave(6, 2)
    )
    images = (masks * 20 + 10).to(torch.uint8)[:, None].expand(-1, 3, -1, -1)
    crop = SegmentationCrop(24, 32, scale=(0.7, 1.8))
    image, mask = crop.with_masks(images, masks, generator(4))
    assert image.shape == (8, 3, 24, 32)
    assert mask.shape == (8, 24, 32)
    decoded = (image[:, 0] * 255 - 10) / 20
    inside = mask != IGNORE
    # Between two labels the image is interpolated; elsewhere it is exactly its label.
    exact = (decoded[inside] - mask[inside]).abs() < 0.05
    assert exact.float().mean() > 0.6
    # Cuts shifted by a few pixels would agree far less.
    rolled = (decoded.roll(4, -1)[inside] - mask[inside]).abs() < 0.05
    assert rolled.float().mean() < 0.5 * exact.float().mean()


def test_what_lies_outside_is_black_and_ignored() -> None:
    images = torch.full((4, 3, 10, 10), 255, dtype=torch.uint8)
    masks = torch.ones(4, 10, 10, dtype=torch.int64)
    image, mask = SegmentationCrop(20, 20, scale=(1.0, 1.0)).with_masks(images, masks, generator())
    assert (mask == 1).sum(dim=(1, 2)).tolist() == [100] * 4
    assert set(mask.unique().tolist()) == {1, IGNORE}
    assert image[:, 0][mask == IGNORE].mean() < 0.1


def test_a_crop_at_scale_one_is_a_plain_window() -> None:
    images = pictures(count=3, side=12)
    result = SegmentationCrop(12, 12, scale=(1.0, 1.0), flip=False)(images, generator())
    assert torch.allclose(result, images.float() / 255, atol=1e-5)
    mirrored = SegmentationCrop(12, 12, scale=(1.0, 1.0))(images.repeat(10, 1, 1, 1), generator())
    kinds = [
        torch.allclose(image, images[n % 3].float() / 255, atol=1e-5) for n, image in enumerate(mirrored)
    ]
    assert 5 < sum(kinds) < 25
    assert torch.allclose(
        mirrored[kinds.index(False)], images[kinds.index(False) % 3].flip(-1).float() / 255, atol=1e-5
    )


@pytest.mark.parametrize(
    "transform", [CropFlip(), ShiftOnly(), RandAugment()], ids=lambda t: type(t).__name__
)
def test_what_cannot_move_masks_says_so(transform: Transform) -> None:
    with pytest.raises(OptionError, match="use SegmentationCrop"):
        Compose((transform,)).with_masks(pictures(), torch.zeros(6, 12, 12, dtype=torch.int64), generator())


@pytest.mark.parametrize(
    "make",
    [
        lambda: CropFlip(-1),
        lambda: ShiftOnly(-1),
        lambda: RandAugment(operations=0),
        lambda: RandAugment(magnitude=31),
        lambda: SegmentationCrop(0, 3),
        lambda: SegmentationCrop(3, 3, scale=(2.0, 1.0)),
        lambda: CropFlip(pading=3),  # type: ignore[call-arg]
    ],
)
def test_wrong_options_are_refused(make: Any) -> None:
    with pytest.raises(OptionError):
        make()


def test_transforms_are_records() -> None:
    assert CropFlip(3) == CropFlip(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        CropFlip(3).padding = 4  # type: ignore[misc]


def test_default_transforms() -> None:
    normalize = Normalize.by(dataset_info("cifar10").statistics)
    assert default_transform("cifar10", train=False, augment="randaugment") == normalize
    assert default_transform("cifar10", train=True, augment="none") == normalize
    assert default_transform("cifar10", train=True, augment="crop_flip") == Compose((CropFlip(4), normalize))
    augmented = default_transform("cifar10", train=True, augment="randaugment")
    assert augmented == Compose((CropFlip(4), RandAugment(), normalize))
    digits = Normalize.by(dataset_info("digits").statistics)
    assert default_transform("digits", True, "shift") == Compose((ShiftOnly(1), digits))
    camvid = default_transform("camvid", True, "crop_flip")
    assert isinstance(camvid, Compose)
    assert camvid.transforms[0] == SegmentationCrop(160, 224)
    with pytest.raises(OptionError, match="has masks"):
        default_transform("camvid", True, "randaugment")
    own = Statistics((0.1,), (0.2,))
    assert default_transform("hub", False, statistics=own) == Normalize.by(own)
