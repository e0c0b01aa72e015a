"""Masks as pictures, and the commands evaluate and predict on a trained segmenter."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from geq.cli import main
from geq.data.class_colours import PALETTES, colours_of
from geq.data.image_reader import read_image, read_mask
from geq.data.segmentation import CAMVID_CLASSES, IGNORE
from geq.errors import DataError
from geq.training.fit import train
from geq.training.run_folder import RunFolder
from geq.training.segmentation_masks import overlay, with_legend, write_mask
from geq.training.train_options import TrainOptions
from scenes import CAR, ROAD, SKY, scene, write_camvid

COLOURS = colours_of("camvid", CAMVID_CLASSES)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("scenes")
    options = TrainOptions(
        model="fcn_camvid_small",
        override={"stem_channels": [8, 12], "channels": [12, 16], "strides": [1, 2]},
        data="camvid",
        data_root=str(write_camvid(folder)),
        augment="none",
        batch_size=4,
        epochs=8,
        learning_rate=0.1,
        picture=False,
        threads=1,
        runs=str(folder / "runs"),
        name="fcn",
    )
    outcome = train(options)
    assert outcome is not None
    return outcome.folder


def test_a_mask_file_looks_coloured_and_holds_labels(tmp_path: Path) -> None:
    mask = np.array([[SKY, ROAD], [CAR, IGNORE]], dtype=np.uint8)
    write_mask(tmp_path / "m.png", mask, COLOURS)
    assert np.array_equal(read_mask(tmp_path / "m.png"), mask)
    camvid = PALETTES["camvid"]
    expected = [[camvid["sky"], camvid["road"]], [camvid["car"], (0, 0, 0)]]
    assert read_image(tmp_path / "m.png").tolist() == np.array(expected).tolist()


def test_an_overlay_tints_labelled_pixels_only() -> None:
    image = np.full((1, 2, 3), 200, dtype=np.uint8)
    tinted = overlay(image, np.array([[CAR, IGNORE]], dtype=np.uint8), COLOURS)
    assert tinted[0, 1].tolist() == [200, 200, 200]
    assert tinted[0, 0].tolist() == [round(0.45 * 200 + 0.55 * part) for part in PALETTES["camvid"]["car"]]


def test_the_legend_shows_every_colour() -> None:
    picture = np.full((10, 20, 3), 7, dtype=np.uint8)
    sheet = with_legend(picture, CAMVID_CLASSES, COLOURS)
    assert np.array_equal(sheet[:10, :20], picture)
    assert sheet.shape[0] > 10, "taller than the picture where the names need it"
    beside = {tuple(pixel) for pixel in sheet[:, 20:].reshape(-1, 3).tolist()}
    assert set(COLOURS) <= beside


def test_labels_of_others_are_not_overwritten(tmp_path: Path) -> None:
    mask = np.zeros((2, 2), dtype=np.uint8)
    write_mask(tmp_path / "a.png", mask, COLOURS)
    write_mask(tmp_path / "a.png", mask + 1, COLOURS)
    assert read_mask(tmp_path / "a.png").max() == 1, "what we wrote we may replace"
    Image.fromarray(mask).save(tmp_path / "b.png")
    (tmp_path / "c.png").write_text("not a picture")
    for name in ("b.png", "c.png"):
        with pytest.raises(DataError, match=f"{name} exists already"):
            write_mask(tmp_path / name, mask, COLOURS)


def test_predict_writes_mask_and_overlay(
    trained: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, truth = scene(77)
    Image.fromarray(image).save(tmp_path / "street.png")
    assert main(["predict", str(trained.path), str(tmp_path / "street.png"), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["predictions"]
    assert row["mask"] == str(tmp_path / "street.mask.png")
    mask = read_mask(tmp_path / "street.mask.png")
    assert mask.shape == truth.shape
    judged = truth < len(CAMVID_CLASSES)
    assert (mask == truth)[judged].mean() > 0.8
    assert row["shares"] == {
        CAMVID_CLASSES[k]: (mask == k).mean()
        for k in np.argsort(-np.bincount(mask.ravel()))
        if (mask == k).any()
    }
    assert row["steps"] is None
    sheet = read_image(tmp_path / "street.overlay.png")
    assert np.array_equal(sheet[: image.shape[0], : image.shape[1]], overlay(image, mask, COLOURS))


def test_predict_at_another_size_and_into_a_folder(
    trained: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A photograph three times as large shows the same scene."""
    image, truth = scene(78)
    large = Image.fromarray(image).resize((90, 63), Image.Resampling.BILINEAR)
    large.save(tmp_path / "large.png")
    output = tmp_path / "new" / "folder"
    arguments = ["--output", str(output), "--inference", "sliding", "--window", "[12, 16]"]
    assert main(["predict", str(trained.path), str(tmp_path / "large.png"), *arguments]) == 0
    printed = capsys.readouterr().out
    assert "large.mask.png" in printed
    assert "road" in printed
    assert not (tmp_path / "large.mask.png").exists()
    mask = read_mask(output / "large.mask.png")
    assert mask.shape == (63, 90)
    wanted = np.asarray(Image.fromarray(truth).resize((90, 63), Image.Resampling.NEAREST))
    assert (mask == wanted)[wanted < len(CAMVID_CLASSES)].mean() > 0.75


def test_predict_names_what_is_wrong(
    trained: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        Image.fromarray(scene(1)[0]).save(tmp_path / folder / "x.png")
    both = [str(tmp_path / folder / "x.png") for folder in ("a", "b")]
    assert main(["predict", str(trained.path), *both, "--output", str(tmp_path / "c")]) == 2
    assert "overwrite each other" in capsys.readouterr().err
    assert main(["predict", str(trained.path), *both]) == 0
    assert main(["predict", str(trained.path), *both]) == 0, "a second time replaces the first"
    capsys.readouterr()
    assert main(["predict", str(trained.path), str(tmp_path / "missing.png")]) == 2
    assert "missing.png" in capsys.readouterr().err


def test_evaluate_shows_every_class(trained: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(trained.path.parent.parent)
    assert main(["evaluate", str(trained.path), "--data_root", root, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    final = trained.result()
    assert final is not None
    assert {name: values[name] for name in ("miou", "macc", "aacc", "loss", "class_iou")} == {
        name: final[f"test_{name}"] for name in ("miou", "macc", "aacc", "loss", "class_iou")
    }
    known = [share for share in values["class_iou"].values() if share is not None]
    assert values["miou"] == pytest.approx(sum(known) / len(known))
    assert main(["evaluate", str(trained.path), "--data_root", root, "--split", "val"]) == 0
    printed = capsys.readouterr().out
    for word in ("mIoU", "mAcc", "aAcc", "bicyclist", "IoU"):
        assert word in printed
    assert main(["evaluate", str(trained.path), "--data", "digits"]) == 2
    assert "is a segmenter" in capsys.readouterr().err


def test_runs_and_compare_show_the_miou(
    trained: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained.path, tmp_path / "one")
    shutil.copytree(trained.path, tmp_path / "two")
    assert main(["runs", "--runs", str(tmp_path)]) == 0
    assert "mIoU" in capsys.readouterr().out
    assert main(["compare", "one", "two", "--runs", str(tmp_path), "--json"]) == 0
    final = trained.result()
    assert final is not None
    results = json.loads(capsys.readouterr().out)["results"]
    assert results["test mIoU (%)"] == [final["test_miou"]] * 2
