"""Recognition of a dataset: every kind, moved, changed, relabelled."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dataset_kinds import KINDS, Kind, write_hub
from geq.data import fingerprint
from geq.data.fingerprint import Fingerprint
from geq.errors import DataError
from geq.training.setup import open_split
from geq.training.train_options import TrainOptions


def opened(kind: Kind, root: Path) -> Fingerprint:
    options = TrainOptions(data=kind.data, data_override=kind.override, data_root=str(root))
    return Fingerprint.of(open_split(options, "train"))


@pytest.mark.parametrize("name", KINDS)
def test_the_digest_follows_the_content_and_not_the_place(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    kind.write(tmp_path / "here")
    before = opened(kind, tmp_path / "here")
    assert before.difference(before.as_mapping()) is None
    if not kind.changed:
        return
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    assert opened(kind, tmp_path / "there") == before
    shutil.rmtree(tmp_path / "there")
    kind.change(tmp_path / "here")
    after = opened(kind, tmp_path / "here")
    assert after.difference(before.as_mapping()) == "an image or a label is another one"


def test_what_differs_is_named(tmp_path: Path) -> None:
    kind = KINDS["imagefolder"]
    kind.write(tmp_path)
    before = opened(kind, tmp_path).as_mapping()
    train = tmp_path / "pictures" / "train"
    (train / "bee" / "001.png").rename(train / "bee" / "other.png")
    assert opened(kind, tmp_path).difference(before) == "an image or a label is another one"
    (train / "bee" / "other.png").unlink()
    assert opened(kind, tmp_path).difference(before) == "the number of images was 90 and is 89"
    (train / "bee").rename(train / "zebra")
    assert "the number of images" in str(opened(kind, tmp_path).difference(before))
    assert opened(kind, tmp_path).difference({**before, "images": 89}) == "class 1 was bee and is cat"
    assert opened(kind, tmp_path).difference({}) == "the dataset was None and is imagefolder"


def test_beyond_the_sample_names_and_sizes_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "SAMPLED", 2)
    for name in ("imagefolder", "camvid"):
        kind = KINDS[name]
        kind.write(tmp_path)
        before = opened(kind, tmp_path)
        with (tmp_path / kind.changed).open("ab") as file:
            file.write(b"more")
        assert opened(kind, tmp_path).digest != before.digest
    write_hub(tmp_path, darker=0)
    before = opened(KINDS["hub"], tmp_path)
    KINDS["hub"].change(tmp_path)
    assert opened(KINDS["hub"], tmp_path).digest != before.digest


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    kind = KINDS["imagefolder"]
    kind.write(tmp_path)
    options = TrainOptions(data=kind.data, data_override=kind.override, data_root=str(tmp_path))
    dataset = open_split(options, "train")
    (tmp_path / kind.changed).unlink()
    with pytest.raises(DataError, match=r"001\.png cannot be read"):
        Fingerprint.of(dataset)
