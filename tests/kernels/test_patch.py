from __future__ import annotations

import itertools

import pytest
import torch

import geq
from geq.kernels import from_patches, to_patches


@pytest.mark.parametrize(("patch", "split"), [(1, 1), (2, 3), (3, 2), (2, 6)])
def test_patches_are_the_slices_of_the_map(patch: int, split: int) -> None:
    maps = torch.randn(2, 6, 6, 12)
    patches = to_patches(maps, patch, split)
    assert patches.shape == (2, 6 // split, 6 // patch, 12 // patch, split * patch**2)
    for b, g, r, c in itertools.product(*map(range, patches.shape[:4])):
        piece = maps[b, g * split : (g + 1) * split, r * patch : (r + 1) * patch, c * patch : (c + 1) * patch]
        assert torch.equal(patches[b, g, r, c], piece.flatten())
    assert torch.equal(from_patches(patches, patch, split), maps)


def test_one_patch_of_everything_is_the_plain_gaussian() -> None:
    """p the whole map, all channels, W_h = I: one distance per sample."""
    patched = geq.kernels.PatchGaussianKernel(patch=3, channel_split=2, hidden=18, gamma=0.2).double()
    with torch.no_grad():
        patched.raw_projection.copy_(torch.eye(18))
    plain = geq.kernels.GaussianKernel(gamma=0.2)
    u, v = torch.randn(2, 4, 2, 3, 3, dtype=torch.float64)
    torch.testing.assert_close(patched.value(u, v), plain.value(u, v))
    torch.testing.assert_close(patched.grad(u, v), plain.grad(u, v))


def test_projection_starts_orthogonal_and_stays_bounded() -> None:
    similarity = geq.kernels.PatchGaussianKernel(patch=2, channel_split=2, hidden=5).double()
    gram = similarity.projection.T @ similarity.projection
    torch.testing.assert_close(gram, torch.eye(5, dtype=torch.float64), atol=1e-6, rtol=0)
    with torch.no_grad():
        similarity.raw_projection.mul_(7.0)
    assert torch.linalg.matrix_norm(similarity.projection, 2).item() == pytest.approx(1.0)
    with torch.no_grad():
        similarity.raw_projection.mul_(0.01)
    assert torch.equal(similarity.projection, similarity.raw_projection), "a small W_h is left alone"


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((8, 9, 9), r"patch must divide the feature map: got patch 2 on a 9×9 map; use one of \[1, 3, 9\]"),
        ((6, 8, 8), r"channel_split must divide the mid channels: got channel_split 4 for 6 channels"),
        ((8,), r"needs maps \(channels, height, width\): got \(8,\); for vectors use Gaussian"),
    ],
)
def test_maps_that_cannot_be_cut(shape: tuple[int, ...], told: str) -> None:
    similarity = geq.kernels.PatchGaussianKernel(patch=2, channel_split=4, hidden=3)
    with pytest.raises(geq.errors.InputError, match=told):
        similarity.bind(torch.zeros(2, *shape))
    with pytest.raises(geq.errors.InputError, match=told):
        similarity.check(shape)


@pytest.mark.parametrize("name", ["patch", "channel_split", "hidden"])
def test_sizes_must_be_positive(name: str) -> None:
    with pytest.raises(geq.errors.OptionError, match=f"{name} must be at least 1: got 0"):
        geq.kernels.PatchGaussianKernel(**{name: 0})


def test_repr_names_the_sizes() -> None:
    assert "patch=2, channel_split=4, hidden=3" in repr(geq.kernels.PatchGaussianKernel(2, 4, 3))
