from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geq.data.corruption import SEVERITIES, corrupt, corruption_names
from geq.data.corruption.blur import disk, enlarge, motion_kernel
from geq.data.corruption.corruption_registry import FAULTS, _corruptions
from geq.data.corruption.weather import TEXTURES, plasma, texture
from geq.data.dataset_registry import load_dataset
from geq.errors import InputError, OptionError

STRENGTH = {
    "gaussian_noise": (7.98, 11.88, 15.71, 17.60, 19.47),
    "shot_noise": (5.95, 8.36, 13.10, 15.06, 18.29),
    "impulse_noise": (1.26, 2.56, 3.79, 6.34, 8.95),
    "defocus_blur": (1.38, 3.32, 5.00, 6.51, 9.27),
    "glass_blur": (11.22, 11.35, 11.14, 18.15, 17.40),
    "motion_blur": (7.07, 10.53, 13.23, 13.23, 15.45),
    "zoom_blur": (8.80, 10.34, 12.34, 14.40, 16.38),
    "snow": (10.69, 23.69, 25.26, 37.00, 50.54),
    "frost": (30.29, 44.57, 49.02, 44.35, 42.74),
    "fog": (10.83, 21.44, 27.60, 32.45, 39.10),
    "brightness": (10.02, 20.23, 29.98, 39.17, 55.54),
    "contrast": (10.80, 21.59, 25.91, 30.23, 36.71),
    "elastic_transform": (22.16, 20.23, 18.22, 16.77, 13.77),
    "pixelate": (1.80, 3.38, 4.16, 6.22, 8.62),
    "jpeg_compression": (5.30, 6.56, 7.00, 7.46, 8.07),
    "speckle_noise": (5.74, 9.44, 11.26, 14.83, 18.33),
    "gaussian_blur": (1.34, 4.91, 6.27, 7.44, 9.46),
    "spatter": (1.02, 2.78, 6.79, 3.19, 5.30),
    "saturate": (11.45, 14.79, 7.98, 20.35, 29.78),
}
"""Mean absolute change of the pixels (0..255) of CIFAR-10 test images at severities 1 to 5."""


def pictures(count: int = 4, height: int = 32, width: int = 32, colours: int = 3) -> np.ndarray:
    """Smooth random images: noise on a coarse grid, enlarged."""
    random = np.random.default_rng(1)
    coarse = random.integers(20, 235, size=(count, -(-height // 4), -(-width // 4), colours))
    return coarse.repeat(4, axis=1).repeat(4, axis=2)[:, :height, :width].astype(np.uint8)


def test_there_are_19_and_each_has_five_strengths() -> None:
    assert len(corruption_names()) == len(set(corruption_names())) == 19
    assert set(_corruptions()) == {*corruption_names(), *FAULTS}
    assert set(corruption_names()) == set(STRENGTH)
    assert all(len(corruption.strengths) == 5 for corruption in _corruptions().values())


@pytest.mark.parametrize("name", corruption_names())
def test_the_same_seed_gives_the_same_and_pieces_equal_the_whole(name: str) -> None:
    images = pictures()
    before = images.copy()
    whole = corrupt(images, name, 3, seed=7)
    assert np.array_equal(whole, corrupt(images, name, 3, seed=7))
    pieces = [corrupt(images[:1], name, 3, seed=7), corrupt(images[1:], name, 3, seed=7, first_index=1)]
    assert np.array_equal(whole, np.concatenate(pieces))
    assert np.array_equal(images, before)
    assert whole.shape == images.shape
    assert np.abs(whole.astype(int) - images).mean() > 0.3


RANDOM = set(corruption_names()) - {
    *("brightness", "contrast", "saturate", "jpeg_compression", "pixelate"),
    *("defocus_blur", "gaussian_blur", "zoom_blur"),
}


@pytest.mark.parametrize("name", sorted(RANDOM))
def test_seed_and_index_change_the_noise(name: str) -> None:
    images = np.repeat(pictures(1), 2, axis=0)
    result = corrupt(images, name, 5, seed=0)
    assert not np.array_equal(result[0], result[1])
    assert not np.array_equal(result, corrupt(images, name, 5, seed=1))


@pytest.mark.parametrize("name", corruption_names())
@pytest.mark.parametrize("height, width, colours", [(28, 28, 1), (8, 8, 1), (48, 65, 3)])
def test_any_size_and_grey_images_are_taken(name: str, height: int, width: int, colours: int) -> None:
    images = pictures(2, height, width, colours)
    for severity in (1, 5):
        result = corrupt(images, name, severity, seed=0)
        assert result.shape == images.shape
        assert result.dtype == np.uint8


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(corruption_names()), value=st.integers(0, 255), severity=st.sampled_from(SEVERITIES)
)
def test_plain_images_give_no_warnings(name: str, value: int, severity: int) -> None:
    """A black image has no brightest value, a plain one no edges: nothing may be divided by zero."""
    images = corrupt(np.full((1, 32, 32, 3), value, dtype=np.uint8), name, severity, seed=0)
    assert images.shape == (1, 32, 32, 3)
    assert images.dtype == np.uint8


def test_wrong_requests_are_refused() -> None:
    images = pictures(1)
    with pytest.raises(OptionError, match="did you mean 'gaussian_noise'"):
        corrupt(images, "gausian_noise", 1, 0)
    for severity in (0, 6):
        with pytest.raises(OptionError, match="severity must be 1, 2, 3, 4 or 5"):
            corrupt(images, "fog", severity, 0)
    with pytest.raises(OptionError, match="seed"):
        corrupt(images, "fog", 1, -1)
    with pytest.raises(InputError, match=r"got \(1, 32, 32, 2\)"):
        corrupt(np.zeros((1, 32, 32, 2), dtype=np.uint8), "fog", 1, 0)


def test_kernels_are_averages() -> None:
    for radius, softness in ((0.3, 0.4), (1.5, 0.1), (10.0, 0.5)):
        assert disk(radius, softness).sum() == pytest.approx(1)
    for angle in (-135.0, -45.0, 0.0, 30.0):
        kernel = motion_kernel(6, 2.0, angle)
        assert kernel.sum() == pytest.approx(1)
        rows, columns = np.mgrid[-6:7, -6:7]
        direction = np.array([(kernel * columns).sum(), (kernel * rows).sum()])
        turned = np.degrees(np.arctan2(direction[1], direction[0])) - angle
        assert abs(turned) < 8, "rounded to pixels, but in the direction of the angle"
        assert kernel[6, 6] > 0
    assert motion_kernel(3, 1.0, 0.0)[3].sum() == pytest.approx(1)


def test_enlarging_is_exact_on_a_ramp() -> None:
    """Bilinear interpolation reproduces a linear function, here sampled about the middle."""
    ramp = np.tile(np.arange(32.0), (32, 1))
    large = enlarge(ramp, 1.1)
    steps = np.diff(large, axis=1)
    assert np.allclose(steps, steps[0, 0], atol=0.05)  # OpenCV knows 32 positions between two pixels
    assert steps[0, 0] < 1
    assert np.array_equal(enlarge(ramp, 1.0), ramp)


def test_clouds_fill_the_range() -> None:
    cloud = plasma(64, 2.0, np.random.default_rng(0))
    assert cloud.min() == 0
    assert cloud.max() == 1
    rough, smooth = (np.abs(np.diff(plasma(64, d, np.random.default_rng(0)))).mean() for d in (1.5, 3.0))
    assert rough > 2 * smooth


def test_frost_is_the_same_on_every_call_and_has_five_kinds() -> None:
    bank = [texture(number, 128) for number in range(TEXTURES)]
    assert all(ice.shape == (128, 128, 3) and 0 <= ice.min() <= ice.max() <= 1 for ice in bank)
    assert all(ice.std() > 0.1 for ice in bank)
    means = [ice.mean() for ice in bank]
    assert means == sorted(means)
    texture.cache_clear()
    assert np.array_equal(bank[2], texture(2, 128))


@pytest.mark.data
@pytest.mark.parametrize("name", sorted(STRENGTH))
def test_strengths_on_real_images_match_the_published_ones(name: str, real_root: Path) -> None:
    dataset = load_dataset("cifar10", "test", root=real_root, subset=300)
    images = dataset.images.permute(0, 2, 3, 1).contiguous().numpy()
    changes = [np.abs(corrupt(images, name, s, seed=0).astype(int) - images).mean() for s in SEVERITIES]
    assert changes == pytest.approx(STRENGTH[name], rel=0.1)
