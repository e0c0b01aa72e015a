"""Scores of out-of-distribution images: AUROC against torchmetrics, distances against a direct formula."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_auroc

from geq.analysis.image_outputs import Observation
from geq.analysis.ood_datasets import Reshaped, limited, noise, shape_of, shuffled, stand_in
from geq.analysis.ood_scores import Scores, Usual, auroc, doubt, gain
from geq.data.dataset import ImageDataset, Statistics
from geq.errors import InputError


@pytest.mark.parametrize("ties", [False, True])
def test_auroc_against_torchmetrics(ties: bool) -> None:
    inside, outside = torch.randn(301), torch.randn(157) + 0.4
    if ties:
        inside, outside = inside.round(), outside.round()
    target = torch.cat([torch.zeros(301), torch.ones(157)]).long()
    values = torch.cat([inside, outside]).sigmoid()  # monotone: torchmetrics takes values of 0..1 as they are
    assert auroc(inside, outside) == pytest.approx(float(binary_auroc(values, target)), abs=1e-6)


def test_auroc_by_hand() -> None:
    assert auroc(torch.tensor([1.0, 2.0]), torch.tensor([3.0])) == 1.0
    assert auroc(torch.tensor([1.0, 2.0]), torch.tensor([0.0])) == 0.0
    assert auroc(torch.ones(7), torch.ones(3)) == 0.5
    with pytest.raises(InputError, match="both kinds: got 0 and 1"):
        auroc(torch.ones(0), torch.ones(1))


def test_doubt_orders_as_confidence_does_and_goes_on_where_that_is_one() -> None:
    logits = torch.randn(100, 4, dtype=torch.float64)
    confidence = logits.softmax(1).amax(1)
    torch.testing.assert_close(doubt(logits), (1 / confidence - 1).log())
    saturated = torch.tensor([[50.0, 0.0], [60.0, 0.0]])
    assert doubt(saturated).tolist() == [-50.0, -60.0]


def test_distance_is_mahalanobis_and_ignores_what_never_varies() -> None:
    values = torch.randn(400, 3, dtype=torch.float64) @ torch.randn(3, 3, dtype=torch.float64) + 5
    usual, away = Usual.of(values), torch.randn(9, 3, dtype=torch.float64)
    inverse = torch.linalg.inv(torch.cov(values.T))
    centred = away - values.mean(0)
    expected = torch.einsum("ni,ij,nj->n", centred, inverse, centred).sqrt()
    torch.testing.assert_close(usual.distance(away), expected)
    constant = Usual.of(torch.ones(10, 2, dtype=torch.float64))
    assert constant.distance(torch.full((3, 2), 7.0, dtype=torch.float64)).tolist() == [0.0] * 3


def seen(shift: float, count: int = 300, branches: int = 2) -> Observation:
    """Images whose energy is higher and whose β is lower by ``shift``."""
    generator = torch.Generator().manual_seed(int(10 * shift) + count)

    def normal() -> Tensor:
        return torch.randn(count, generator=generator, dtype=torch.float64)

    names = [f"branches.{number}" for number in range(branches)]
    return Observation(
        logits=torch.stack([normal() for _ in range(3)], 1),
        labels=torch.zeros(count, dtype=torch.int64),
        energy={name: normal() + shift for name in names},
        attention={name: normal() - shift for name in names},
        unconverged=0.0,
    )


def test_scores_have_the_documented_signs() -> None:
    scores = Scores.fit(seen(0.0, 200))
    ours, theirs = scores.all(seen(0.0)), scores.all(seen(2.0))
    areas = {name: auroc(ours[name], theirs[name]) for name in ours}
    for name in ("energy, summed", "energy of branches.1", "β, mean", "β of branches.0", "energy, unusual"):
        assert areas[name] > 0.9, name
    assert 0.4 < areas["confidence"] < 0.6
    assert areas["confidence + energy, summed"] > 0.8
    # Lower energy is as unusual as higher: only the score without a sign notices both.
    lower = scores.all(seen(-2.0))
    assert auroc(ours["energy, summed"], lower["energy, summed"]) < 0.1
    assert auroc(ours["energy, unusual"], lower["energy, unusual"]) > 0.8


def test_without_equilibria_the_classifier_still_has_scores() -> None:
    plain = seen(0.0, branches=0)
    assert list(Scores.fit(plain).all(plain)) == ["confidence", "entropy", "free energy of the logits"]


def test_a_gain_is_found_where_there_is_one_and_only_there() -> None:
    inside, outside = torch.randn(400), torch.randn(400)
    useful, useless = (inside, outside + 1.5), (torch.randn(400), torch.randn(400))
    assert gain(useful, useless, draws=200, seed=0).verdict == "helps"
    assert gain(useless, useful, draws=200, seed=0).verdict == "harms"
    assert gain(useless, useless, draws=200, seed=0).verdict == "no difference"
    assert gain(useful, useless, draws=50, seed=3) == gain(useful, useless, draws=50, seed=3)


def coloured(count: int = 12, channels: int = 3) -> ImageDataset:
    images = torch.randint(0, 256, (count, channels, 6, 6), dtype=torch.uint8)
    statistics = Statistics((0.5,) * channels, (0.5,) * channels)
    return ImageDataset(images, torch.arange(count) % 3, ("a", "b", "c"), statistics, "coloured", "test")


def test_shuffled_pixels_keep_the_colours_of_each_image() -> None:
    data = coloured()
    made = stand_in(data, 0, shuffled).images
    for before, after in zip(data.images, made, strict=True):
        assert not torch.equal(before, after)
        assert sorted(before.flatten(1).T.tolist()) == sorted(after.flatten(1).T.tolist())
    assert torch.equal(made, stand_in(data, 0, shuffled).images)
    assert not torch.equal(made, stand_in(data, 1, shuffled).images)


def test_noise_covers_all_bytes() -> None:
    made = stand_in(coloured(400), 0, noise).images
    counts = torch.bincount(made.flatten().long(), minlength=256)
    assert counts.shape == (256,)
    assert counts.float().std() < 2 * counts.float().mean().sqrt()


def test_limited_keeps_class_shares() -> None:
    assert torch.bincount(limited(coloured(30), 6).labels).tolist() == [2, 2, 2]
    assert limited(coloured(), None) is not None
    assert len(limited(coloured(12), 100)) == 12


def test_reshaped_images() -> None:
    everything = torch.arange(12)
    up = Reshaped(coloured(channels=1), (3, 8, 8))
    assert shape_of(up) == (3, 8, 8)
    images, labels = up.batch(everything)
    assert torch.equal(images[:, 0], images[:, 2])
    assert torch.equal(labels, coloured().labels)
    flat = coloured(channels=3)
    flat.images[:] = torch.tensor([200, 100, 50], dtype=torch.uint8).view(3, 1, 1)
    grey, _ = Reshaped(flat, (1, 4, 4)).batch(everything)
    assert grey.unique().tolist() == [round(0.299 * 200 + 0.587 * 100 + 0.114 * 50)]
    with pytest.raises(InputError, match="2 channels and the network 3"):
        Reshaped(coloured(channels=2), (3, 6, 6)).batch(everything)
