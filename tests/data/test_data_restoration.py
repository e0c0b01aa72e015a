from __future__ import annotations

from pathlib import Path

import pytest
import torch

from geq.data.dataset_registry import DatasetOptions, load_dataset
from geq.data.fingerprint import Fingerprint
from geq.data.restoration import BLOCK, DAMAGES, SHARE, SIGMA, DamageName, RestorationDataset, damaged
from geq.data.transform.damage import Damaging
from geq.errors import DataError, GeqError, OptionError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


GREY = torch.full((400, 3, 32, 32), 0.5, dtype=torch.float64)
PIXELS = 400 * 32 * 32


def hit_by(damage: DamageName) -> tuple[torch.Tensor, torch.Tensor]:
    """Damaged grey images, and the places where they changed, in any colour and in all."""
    result = damaged(GREY, damage, seeded())
    changed = result != GREY
    assert torch.equal(changed.any(1), changed.all(1)), "a pixel is damaged in all of its colours"
    return result, changed.any(1)


def within(found: float, expected: float, deviation: float, number: int) -> bool:
    """Whether a mean of so many independent values lies within five standard errors."""
    return abs(found - expected) < 5 * deviation / number**0.5


def test_impulses_are_uniform_on_a_fifth_of_the_pixels() -> None:
    result, hit = hit_by("impulses")
    assert within(float(hit.double().mean()), SHARE, (SHARE * (1 - SHARE)) ** 0.5, PIXELS)
    values = result.permute(0, 2, 3, 1)[hit]
    for colour in values.T:
        assert within(float(colour.mean()), 0.5, 12**-0.5, len(colour))
        assert within(float(colour.var()), 1 / 12, (1 / 180) ** 0.5, len(colour))
    assert abs(float(torch.corrcoef(values.T)[0, 1])) < 5 / len(values) ** 0.5


def test_salt_and_pepper_are_as_many() -> None:
    result, hit = hit_by("salt_and_pepper")
    assert within(float(hit.double().mean()), SHARE, (SHARE * (1 - SHARE)) ** 0.5, PIXELS)
    values = result.permute(0, 2, 3, 1)[hit]
    assert set(values.flatten().tolist()) == {0.0, 1.0}
    assert torch.equal(values.amin(1), values.amax(1)), "white or black, and no colour"
    assert within(float(values[:, 0].mean()), 0.5, 0.5, len(values))


def test_blocks_cover_a_fifth_of_each_image() -> None:
    result, hit = hit_by("blocks")
    blocks = hit.view(400, 8, BLOCK, 8, BLOCK).transpose(2, 3)
    assert torch.equal(blocks.any((3, 4)), blocks.all((3, 4))), "whole aligned blocks"
    assert set(blocks.any((3, 4)).sum((1, 2)).tolist()) == {13}
    colours = result.view(400, 3, 8, BLOCK, 8, BLOCK)
    assert torch.equal(colours.amin((3, 5)), colours.amax((3, 5))), "one colour each"
    assert len(colours.flatten().unique()) > 400 * 13 * 2
    anywhere = blocks.any((3, 4)).double().mean(0)
    assert (anywhere - 13 / 64).abs().max() < 5 * (0.2 * 0.8 / 400) ** 0.5, "no place is preferred"
    with pytest.raises(DataError, match="must consist of 4×4 blocks"):
        damaged(torch.zeros(1, 1, 6, 8), "blocks", seeded())


def test_noise_is_gaussian_and_not_clipped() -> None:
    noise = (damaged(GREY, "noise", seeded()) - GREY) / SIGMA
    number = noise.numel()
    assert within(float(noise.mean()), 0.0, 1.0, number)
    assert within(float(noise.var()), 1.0, 2**0.5, number)
    assert within(float(noise.pow(4).mean()), 3.0, 96**0.5, number)
    assert damaged(torch.ones(1, 1, 32, 32), "noise", seeded()).max() > 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_depends_on_the_generator_alone(damage: DamageName) -> None:
    images = torch.rand(4, 3, 8, 8)
    before = images.clone()
    assert torch.equal(damaged(images, damage, seeded()), damaged(images, damage, seeded()))
    assert not torch.equal(damaged(images, damage, seeded(0)), damaged(images, damage, seeded(1)))
    assert torch.equal(images, before)


def test_an_unknown_damage_is_answered_with_the_nearest() -> None:
    with pytest.raises(GeqError, match="did you mean 'impulses'"):
        damaged(torch.zeros(1, 1, 8, 8), "impulse", seeded())


def test_the_labels_are_the_clean_images(cifar10_root: Path) -> None:
    clean = load_dataset("cifar10", "test", root=cifar10_root)
    dataset = load_dataset("cifar10", "test", root=cifar10_root, damage="impulses", test_subset=10)
    assert isinstance(dataset, RestorationDataset)
    assert (len(dataset), dataset.classes, dataset.split) == (10, ("red", "green", "blue"), "test")
    images, labels = dataset.batch(torch.arange(10))
    assert torch.equal(images.long(), labels)
    found, targets = Damaging("impulses").with_masks(images, labels, seeded())
    assert torch.equal(targets, labels)
    changed = ((found - labels / 255).abs() > 1e-6).any(1).double().mean()
    assert 0.15 < float(changed) < 0.25
    assert {row.tobytes() for row in labels.byte().numpy()} <= {
        row.tobytes() for row in clean.batch(torch.arange(len(clean)))[0].numpy()
    }
    assert len(load_dataset("cifar10", "train", root=cifar10_root, test_subset=10)) == 90


def test_a_resumed_run_knows_its_damage(cifar10_root: Path) -> None:
    def fingerprint(**options: str) -> Fingerprint:
        return Fingerprint.of(load_dataset("cifar10", "test", root=cifar10_root, **options))  # type: ignore[arg-type]

    found = [fingerprint(), fingerprint(damage="impulses"), fingerprint(damage="noise")]
    assert len({one.digest for one in found}) == 3
    assert fingerprint(damage="noise") == found[-1]


def test_what_cannot_be_damaged_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="camvid has no option 'damage'"):
        load_dataset("camvid", "test", root=tmp_path, damage="noise")
    with pytest.raises(OptionError, match="test_subset must be at least 1"):
        DatasetOptions(test_subset=0)
