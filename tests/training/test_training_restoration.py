"""Restoration: PSNR and SSIM against closed cases and scikit-image, and runs in the training loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from geq.cli import main
from geq.errors import OptionError
from geq.model.model_registry import create_model
from geq.model.network import Network
from geq.training.fit import resume, train
from geq.training.interrupt import TrainingInterrupted
from geq.training.restoration_task import RestorationMeasures, RestorationTask, psnr, ssim
from geq.training.run_folder import RunFolder
from geq.training.segmentation_task import task_class
from geq.training.setup import evaluation_loader, open_split, training_loader
from geq.training.train_options import TrainOptions

RUN: dict[str, Any] = {
    "model": "restorer_tiny",
    "data": "digits",
    "data_override": {"damage": "impulses", "test_subset": 60},
    "train_size": 256,
    "batch_size": 16,
    "optimizer": "adamw",
    "learning_rate": 0.005,
    "weight_decay": 0.0,
    "epochs": 4,
    "evaluate_every": 5,
    "warmup_epochs": 0.1,
    "augment": "none",
    "picture": False,
    "threads": 1,
}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., TrainOptions]:
    return lambda **changes: TrainOptions(**{**RUN, "runs": str(tmp_path / "runs"), **changes})


def noisy_pair(shape: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Four random images, and the same with noise."""
    random = np.random.default_rng(0)
    truth = random.random((4, *shape))
    return truth, (truth + 0.2 * random.standard_normal(truth.shape)).clip(0, 1)


def test_psnr_of_known_errors() -> None:
    truth = torch.full((3, 3, 4, 4), 0.5, dtype=torch.float64)
    found = truth + torch.tensor([0.1, 0.01, 0.2], dtype=torch.float64).view(3, 1, 1, 1)
    expected = torch.tensor([20.0, 40.0, -20 * np.log10(0.2)], dtype=torch.float64)
    torch.testing.assert_close(psnr(found, truth), expected)
    half = truth.clone()
    half[:, :, :2] = 0.0
    torch.testing.assert_close(psnr(half, truth)[0].item(), 10 * float(np.log10(8)))
    white = torch.ones(1, 1, 2, 2)
    assert psnr(3 * white, white).item() == psnr(white, white).item() == 100.0, "values are cut to 0 … 1"


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 11, 17)])
def test_ssim_is_that_of_scikit_image(shape: tuple[int, int, int]) -> None:
    metrics = pytest.importorskip("skimage.metrics")
    truth, found = noisy_pair(shape)
    options = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    expected = [
        metrics.structural_similarity(a, b, data_range=1.0, channel_axis=0, **options)
        for a, b in zip(found, truth, strict=True)
    ]
    result = ssim(torch.from_numpy(found), torch.from_numpy(truth))
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-9)


def test_ssim_of_small_images_is_the_mean_over_windows_written_out() -> None:
    truth, found = noisy_pair((2, 8, 9))
    places = np.arange(7) - 3
    window = np.exp(-(places[:, None] ** 2 + places**2) / (2 * 1.5**2))
    window /= window.sum()
    for a, b, result in zip(
        found, truth, ssim(torch.from_numpy(found), torch.from_numpy(truth)), strict=True
    ):
        values = []
        for channel, top, left in np.ndindex(2, 2, 3):
            x, y = (one[channel, top : top + 7, left : left + 7] for one in (a, b))
            mx, my = (window * x).sum(), (window * y).sum()
            vx, vy = (window * (x - mx) ** 2).sum(), (window * (y - my) ** 2).sum()
            cov = (window * (x - mx) * (y - my)).sum()
            values.append(
                (2 * mx * my + 1e-4) * (2 * cov + 9e-4) / ((mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4))
            )
        assert float(result) == pytest.approx(np.mean(values), rel=1e-9)


def test_ssim_of_closed_cases() -> None:
    a, b = (torch.full((1, 3, 16, 16), value, dtype=torch.float64) for value in (0.25, 0.75))
    c1 = 0.01**2
    luminance = (2 * 0.25 * 0.75 + c1) / (0.25**2 + 0.75**2 + c1)
    assert ssim(a, b).item() == pytest.approx(luminance, rel=1e-9), "flat images differ in luminance alone"
    image = torch.rand(2, 3, 16, 16, dtype=torch.float64)
    torch.testing.assert_close(ssim(image, image), torch.ones(2, dtype=torch.float64))
    assert ssim(1 - image, image).max() < 0


def test_measures_are_means_over_images_and_not_over_batches() -> None:
    labels = torch.randint(0, 256, (5, 1, 8, 8))
    outputs = labels / 255 + 0.1 * torch.randn(5, 1, 8, 8)
    truth = labels / 255
    measures = RestorationMeasures()
    for part in (slice(0, 4), slice(4, 5)):
        loss = (outputs[part] - truth[part]).abs().mean()
        measures.update(loss, outputs[part], labels[part])
    found = measures.compute()
    assert found["loss"] == pytest.approx(float((outputs - truth).abs().mean()), rel=1e-5)
    assert found["psnr"] == pytest.approx(float(psnr(outputs, truth).mean()), rel=1e-5)
    assert found["ssim"] == pytest.approx(float(ssim(outputs, truth).mean()), rel=1e-5)


@pytest.mark.parametrize("model", ["restorer_tiny", "dncnn_tiny"])
def test_a_trained_network_restores(model: str, run: Callable[..., TrainOptions]) -> None:
    data = {"damage": "noise", "test_subset": 60}
    options = run(model=model, train_size=600, data_override=data, epochs=8, evaluate_every=9)
    outcome = train(options)
    assert outcome is not None
    test = open_split(options, "test")
    images, labels = next(iter(evaluation_loader(test, statistics=test.statistics, batch_size=60)))
    before = float(psnr(images, labels / 255).mean())
    assert outcome.final["test_images"] == 60
    assert outcome.final["test_psnr"] > before + 0.3
    assert not any("test_psnr" in line for line in outcome.history), "the test images are seen once"
    saved = Network.from_pretrained(outcome.folder.model)
    with torch.no_grad():
        assert float(psnr(saved(images), labels / 255).mean()) == pytest.approx(
            outcome.final["test_psnr"], abs=1e-3
        )


def test_test_images_are_damaged_alike_and_training_images_anew(run: Callable[..., TrainOptions]) -> None:
    one, other = run(seed=0), run(seed=1, model="dncnn_tiny")
    seen = []
    for options in (one, other):
        test = open_split(options, "test")
        seen += [images for images, _ in evaluation_loader(test, statistics=test.statistics)]
    assert torch.equal(seen[0], seen[1])
    train_images = open_split(one, "train")
    loader = training_loader(one, train_images, 0, 0, 1)
    epochs = []
    for epoch in (0, 1):
        images, labels = (torch.cat(part) for part in zip(*loader.iterate(epoch), strict=True))
        order = labels.flatten(1).double() @ torch.arange(64, dtype=torch.float64).sqrt()
        epochs.append(images[order.argsort()])
    assert (epochs[0] != epochs[1]).double().mean() > 0.2


def test_a_run_is_resumed_with_the_same_bits(
    run: Callable[..., TrainOptions], interrupt_at: Callable[[set[int]], None]
) -> None:
    whole = train(run(name="whole", epochs=2))
    assert whole is not None
    interrupt_at({20})
    with pytest.raises(TrainingInterrupted):
        train(run(name="parted", epochs=2))
    parted = resume(RunFolder(whole.folder.path.parent / "parted"))
    assert parted is not None
    assert parted.final["test_psnr"] == whole.final["test_psnr"]
    assert parted.final["test_loss"] == whole.final["test_loss"]


def test_networks_and_data_must_fit(run: Callable[..., TrainOptions]) -> None:
    damaged, clean = open_split(run(), "test"), open_split(run(data_override={}), "test")
    assert task_class(create_model("restorer_tiny"), damaged) is RestorationTask
    with pytest.raises(OptionError, match="restorer_tiny restores damaged images"):
        task_class(create_model("restorer_tiny"), clean)
    with pytest.raises(OptionError, match="geq_tiny does not restore images"):
        task_class(create_model("geq_tiny"), damaged)
    with pytest.raises(OptionError, match="not varied besides"):
        train(run(augment="shift"))
    with pytest.raises(OptionError, match="channels of its input"):
        create_model("restorer_tiny", num_classes=3)


def test_the_picture_shows_images(run: Callable[..., TrainOptions]) -> None:
    outcome = train(run(epochs=1, train_size=64, picture=True))
    assert outcome is not None
    assert outcome.folder.picture.read_bytes().startswith(b"\x89PNG")


def test_commands_know_restored_images(
    run: Callable[..., TrainOptions], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outcome = train(run(epochs=1, train_size=64))
    assert outcome is not None
    folder = str(outcome.folder.path)
    assert main(["evaluate", folder]) == 0
    shown = capsys.readouterr().out
    assert f"{outcome.final['test_psnr']:.2f} dB" in shown
    assert f"{outcome.final['test_ssim']:.4f}" in shown
    Image.new("L", (8, 8)).save(tmp_path / "image.png")
    assert main(["predict", folder, str(tmp_path / "image.png")]) == 2
    assert "restores images" in " ".join(capsys.readouterr().err.split())
    arguments = ["train", "--model", "dncnn_tiny", "--data", "digits", "--data.damage", "noise"]
    rest = ["--epochs", "1", "--train_size", "64", "--runs", str(tmp_path / "runs"), "--picture", "false"]
    assert main([*arguments, *rest, "--augment", "none", "--threads", "1"]) == 0
    assert "dB" in capsys.readouterr().out
