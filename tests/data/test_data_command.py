"""``geq data``, called as a user calls it."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from geq.cli import main
from geq.data.download_sources import SOURCES, Download, Source


def run(*arguments: str) -> int:
    return main(["data", *arguments])


def test_help_names_the_actions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == run("--help") == 0
    assert "corrupt" in capsys.readouterr().out


def test_misspelt_actions_options_and_names_are_answered(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for arguments, words in (
        (["chek"], "did you mean 'check'"),
        (["list", "--data-rot", "x"], "did you mean '--data_root'"),
        (["fetch", "cifar"], "did you mean 'cifar"),
        (["check", "cifar01", "--data-root", str(tmp_path)], "did you mean 'cifar10'"),
        (["corrupt", "--names", "frst", "--data-root", str(tmp_path)], "did you mean 'frost'"),
        (["fetch"], "names"),
    ):
        assert run(*arguments) == 2
        assert words in capsys.readouterr().err


def test_list_shows_what_is_there(cifar10_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--data-root", str(cifar10_root)) == 0
    output = capsys.readouterr().out
    rows = {line.split()[0]: line for line in output.splitlines() if line.split()}
    assert "yes" in rows["digits"]
    assert "1,437" in rows["digits"]
    assert "100" in rows["cifar10"]
    assert "no" in rows["cifar100"]
    assert "yours" in rows["imagefolder"]
    said = " ".join(output.split())
    assert "'geq data fetch NAME' downloads " in said
    assert output.count("cifar100") == 2, "in the table and in one line behind it"
    (cifar10_root / "cifar-10-batches-py" / "test_batch").unlink()
    assert run("list", "--data-root", str(cifar10_root)) == 0
    assert "cifar10: " in capsys.readouterr().out, "what is damaged is said"


def test_check_finds_what_differs(cifar10_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "cifar10", "--data-root", str(cifar10_root)) == 1
    output = capsys.readouterr().out
    assert output.count("differs  ") == 6
    assert "6 problems" in output


def test_check_reads_images_that_have_no_checksums(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split in ("train", "val", "test"):
        for folder, shape in ((split, (4, 4, 3)), (f"{split}annot", (4, 4))):
            path = tmp_path / "camvid" / folder / "0.png"
            path.parent.mkdir(parents=True)
            Image.fromarray(np.zeros(shape, dtype=np.uint8)).save(path)
    assert run("check", "camvid", "--data-root", str(tmp_path)) == 0
    assert "everything is right" in capsys.readouterr().out
    (tmp_path / "camvid" / "val" / "0.png").write_bytes(b"damaged")
    assert run("check", "camvid", "--data-root", str(tmp_path)) == 1
    assert "val/0.png is not an image" in capsys.readouterr().out
    assert run("check", "cityscapes", "--data-root", str(tmp_path)) == 2


def test_corrupt_writes_and_goes_on(cifar10_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["corrupt", "--data-root", str(cifar10_root), "--names", "fog", "contrast", "--subset", "10"]
    assert run(*arguments) == 0
    assert "2 new files" in capsys.readouterr().out
    folder = cifar10_root / "CIFAR-10-C"
    assert np.load(folder / "fog.npy").shape == (50, 32, 32, 3)
    assert json.loads((folder / "geq.json").read_text())["images"] == 10
    assert run(*arguments) == 0
    assert "0 new files" in capsys.readouterr().out
    assert run(*arguments, "--seed", "5") == 2
    assert run(*arguments, "--seed", "5", "--output", str(cifar10_root / "other")) == 0


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def test_fetch_from_a_mirror(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo("small/file.txt")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"here"))
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "small.tar").write_bytes(buffer.getvalue())
    md5 = hashlib.md5(buffer.getvalue()).hexdigest()
    monkeypatch.setitem(
        SOURCES, "small", Source((Download("http://official.invalid/small.tar", md5),), "small")
    )

    def handler(*arguments: object) -> Quiet:
        return Quiet(*arguments, directory=str(tmp_path / "served"))  # type: ignore[arg-type]

    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        mirror = f"http://127.0.0.1:{server.server_address[1]}"
        root = tmp_path / "root"
        assert run("fetch", "small", "--mirror", mirror, "--data-root", str(root)) == 0
        assert (root / "small" / "file.txt").read_text() == "here"
        assert run("fetch", "small", "--mirror", mirror, "--data-root", str(root)) == 0
        assert "already" in capsys.readouterr().out
        server.shutdown()
        thread.join()
    assert run("fetch", "camvid", "--data-root", str(root)) == 2
    assert "cannot be fetched by a program" in capsys.readouterr().err


@pytest.mark.data
def test_check_of_the_real_files(real_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "cifar10", "cifar100", "--data-root", str(real_root)) == 0
    assert capsys.readouterr().out.count("ok") == 8
