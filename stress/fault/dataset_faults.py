"""Datasets: killed while they are fetched or corrupted, and gone while a training reads them."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np

from stress.fault.child import done, dying, geq
from stress.fault.trial import Kills, Trials, TrialScale, await_true, options, resumed, training, whole_run
from stress.stress_parts import StressRow

IMAGES, CORRUPTIONS = 20, ("brightness", "gaussian_noise", "contrast")
NAME, FILES, SIZE = "small", 24, 40_000
BLOCK, PAUSE = 32_000, 0.004
"""The server sends so many bytes at a time, and rests between."""


def corruption(scale: TrialScale) -> Iterator[StressRow]:
    """Kill ``geq data corrupt`` again and again: its files end with the bytes of an undisturbed call."""
    folder, chance = scale.within("data"), scale.random("corruption")
    cifar10(folder, scale.seed)
    undisturbed = done(corrupt(folder, folder / "whole"), folder / "whole.txt")
    whole = arrays(folder / "whole")
    kills = Kills(scale.pick(2, 25))
    place = kills.often(
        folder,
        lambda place, at: corrupt(folder, place, at),
        lambda: chance.uniform(0.02, undisturbed.seconds),
        lambda: chance.randrange(24),
        lambda place: [f"half: {name}" for name, content in arrays(place).items() if content != whole[name]],
    )
    there = {path.name for path in place.iterdir()}
    kills.problems += [f"left over: {name}" for name in there - set(whole) - {"geq.json"}]
    kills.problems += [] if set(whole) <= there else ["not all files"]
    yield kills.row(
        "writing corrupted images, killed",
        "files under their names whole after each kill, in the end the bytes of the undisturbed call",
    )


def arrays(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.npy")}


def corrupt(root: Path, output: Path, at: int | None = None) -> Callable[[], int]:
    def before() -> None:
        from geq.data.corruption import cifar_c

        cifar_c.CHUNK = 10
        if at is not None:
            dying(at, output)()

    words = ["--data-root", str(root), "--output", str(output), "--names", *CORRUPTIONS, "--quiet"]
    return geq("data", "corrupt", *words, before=before)


def cifar10(root: Path, seed: int) -> None:
    """Write a CIFAR-10 of few images, in the binary layout."""
    chance = np.random.default_rng(seed)
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    for name in (*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"):
        records = chance.integers(0, 256, (IMAGES, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(IMAGES) % 10
        (folder / name).write_bytes(records.tobytes())


def fetching(scale: TrialScale) -> Iterator[StressRow]:
    """Kill ``geq data fetch`` from a slow server again and again."""
    folder, chance = scale.within("data"), scale.random("fetching")
    contents = {f"{NAME}/{number:02}.bin": chance.randbytes(SIZE) for number in range(FILES)}
    archive = packed(contents)
    with serving(archive) as address:
        undisturbed = done(fetch(address, archive, folder / "whole"), folder / "whole.txt")
        kills = Kills(scale.pick(2, 30))
        root = kills.often(
            folder,
            lambda root, at: fetch(address, archive, root, at),
            lambda: chance.uniform(0.01, 0.6 * undisturbed.seconds),
            lambda: chance.randrange(FILES + 12),
            lambda root: wrong_files(root, contents) if (root / NAME).exists() else [],
        )
        kills.problems += wrong_files(root, contents)
        kills.problems += [f"left over: {p.name}" for p in root.iterdir() if p.name != NAME]
    yield kills.row(
        "fetching a dataset, killed",
        "the folder is there with every byte or not at all; what had arrived was used; nothing left over",
    )


def packed(contents: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def wrong_files(root: Path, contents: dict[str, bytes]) -> list[str]:
    there = {str(path.relative_to(root)): path for path in (root / NAME).rglob("*") if path.is_file()}
    if set(there) != set(contents):
        return [f"{len(there)} of {len(contents)} files"]
    return [name for name, path in there.items() if path.read_bytes() != contents[name]]


def fetch(address: str, archive: bytes, root: Path, at: int | None = None) -> Callable[[], int]:
    def before() -> None:
        from geq.data.download_sources import SOURCES, Download, Source

        md5 = hashlib.md5(archive, usedforsecurity=False).hexdigest()
        SOURCES[NAME] = Source((Download(f"http://official.invalid/{NAME}.tar.gz", md5),), NAME)
        if at is not None:
            dying(at, root)()

    words = ["data", "fetch", NAME, "--mirror", address, "--data-root", str(root), "--quiet"]
    return geq(*words, before=before)


@contextmanager
def serving(archive: bytes) -> Iterator[str]:
    """Yield the address of a server that sends ``archive``, in a process of its own."""

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
            if begin >= len(archive):
                self.send_error(416)
                return
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(archive) - begin))
            self.send_header("Content-Range", f"bytes {begin}-{len(archive) - 1}/{len(archive)}")
            self.end_headers()
            try:
                for place in range(begin, len(archive), BLOCK):
                    self.wfile.write(archive[place : place + BLOCK])
                    time.sleep(PAUSE)
            except OSError:
                return  # who asked was killed

        def log_message(self, format: str, *arguments: object) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Slow)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        server.serve_forever()
        os._exit(0)
    server.server_close()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def vanishing(scale: TrialScale) -> Iterator[StressRow]:
    """Take the data root away in the middle of a training, as a network drive does, and bring it back."""
    folder = scale.within("run")
    root = folder / "data"
    pictures(root / "pictures", scale.seed)
    trials = Trials(
        "data root disappears while training",
        "a sentence that names the missing file, also when resumed without it; then the same bits",
    )
    for workers in (0,) if scale.short else (0, 2):
        given = [
            *options(runs=folder, model="dnn_tiny", epochs=10, workers=workers, data="imagefolder"),
            *("--train_size=48", "--batch_size=8", f"--data_root={root}", "--augment=none"),
            *("--data.folder", "pictures", "--data.image_size", "16"),
        ]
        whole, _ = whole_run(folder, given, f"whole{workers}")
        for number in range(scale.pick(1, 3)):
            run = folder / f"run{workers}{number}"
            child = training(folder, *given, f"--name={run.name}")
            await_true((run / "last.ckpt").exists)
            time.sleep(0.05 * number)
            root.rename(folder / "away")
            ended, gone = child.wait(120), training(folder, "--resume", run).wait()
            (folder / "away").rename(root)
            found = [] if ended.clear else [f"{workers} workers: {ended.code} {ended.text[-600:]}"]
            found += [] if gone.clear else [f"resumed without data: {gone.code} {gone.text[-600:]}"]
            trials.add(found + resumed(run, whole))
    yield trials.row()


def pictures(folder: Path, seed: int) -> None:
    from PIL import Image

    chance = np.random.default_rng(seed)
    for split, number in (("train", 24), ("val", 8)):
        for kind in ("one", "two"):
            (folder / split / kind).mkdir(parents=True)
            for place in range(number):
                pixels = chance.integers(0, 256, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / kind / f"{place}.png")
