"""Names that lead elsewhere: in archives, runs, studies, records, presets, and by links."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial

from geq.analysis.part_runner import run_parts
from geq.analysis.settings import Settings
from geq.atomic_io import exclusively
from geq.data.archive import unpack
from geq.data.class_folders import read_image_folder
from geq.model.model_registry import create_model
from geq.model.network import Network
from geq.model.shipped_networks import shipped_folder
from geq.training.hyperparameter_search import SearchOptions
from geq.training.preset import preset_path
from geq.training.run_folder import RunFolder
from geq.training.train_options import TrainOptions
from geq.weights.pack import pack
from geq_papers.command.report import main as report
from geq_papers.tradeoff import TradeoffOptions
from stress.attack import DIGITS, Attack, Ground, HostileCase, written
from stress.fuzz.run_target import record_values

Member = tuple[str, bytes, str]
"""Name, type and target of a member of an archive."""


def archive(*members: Member) -> Attack:
    def attack(ground: Ground) -> None:
        path = ground.inside / "a.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            for name, kind, target in members:
                item = tarfile.TarInfo(name.replace("OUTSIDE", str(ground.outside)))
                item.type, item.linkname = kind, target.replace("OUTSIDE", str(ground.outside))
                item.size = 7 if kind == tarfile.REGTYPE else 0
                tar.addfile(item, io.BytesIO(b"hostile"))
        root = ground.inside / "root"
        try:
            unpack(path, root)
        finally:
            assert not root.exists() or not list(root.iterdir()), "something was left of a refused archive"

    return attack


def zip_archive(ground: Ground) -> None:
    path = ground.inside / "a.tar.gz"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("../outside/hostile.txt", "hostile")
    unpack(path, ground.inside / "root")


def link_in_the_root(ground: Ground) -> None:
    """Unpack a folder over a link in the data root."""
    root = ground.inside / "root"
    root.mkdir()
    (root / "set").symlink_to(ground.outside)
    path = ground.inside / "a.tar"
    with tarfile.open(path, "w") as tar:
        item = tarfile.TarInfo("set/precious.txt")
        item.size = 7
        tar.addfile(item, io.BytesIO(b"hostile"))
    unpack(path, root)


def linked_lock(ground: Ground) -> None:
    """Lock a run whose lock is a link to another file."""
    run = RunFolder.create(TrainOptions(runs=str(ground.inside), name="run"))
    run.describe(TrainOptions(), {}, DIGITS)
    (run.path / ".lock").symlink_to(ground.outside / "precious.txt")
    with run.locked():
        pass


def linked_record_lock(ground: Ground) -> None:
    (ground.inside / ".lock").symlink_to(ground.outside / "new.txt")
    try:
        with exclusively(ground.inside / ".lock"):
            pass
    except OSError:  # the system refuses the link
        return


def linked_files(ground: Ground) -> None:
    """Write files of a run that are links: the links are replaced, and not what they point to."""
    run = RunFolder.create(TrainOptions(runs=str(ground.inside), name="run"))
    run.model.mkdir()
    for path in (run.path / "log.jsonl", run.path / "data.json", run.model / "model.safetensors"):
        path.symlink_to(ground.outside / "precious.txt")
    run.describe(TrainOptions(), {}, DIGITS)
    run.write_log([{"kind": "final"}])
    create_model("mon_tiny", channels=2).save_pretrained(run.model)


def linked_analysis(ground: Ground) -> None:
    """Analyse a run whose folder of analyses is a link."""
    shutil.copytree(shipped_folder("geq-digits"), ground.inside / "run")
    (ground.inside / "run" / "analysis").symlink_to(ground.outside)
    run_parts(RunFolder(ground.inside / "run"), ["certificate"], Settings(), lambda *told: None)


def record_name(ground: Ground) -> None:
    """Write tables of a record whose experiment is a path."""
    record = {**record_values(), "experiment": "../../outside/precious.txt", "scale": "../x"}
    written(ground.inside / "results" / "a.jsonl", json.dumps(record).encode())
    output = ground.inside / "out"
    tables = ["--markdown", str(output / "tables"), "--csv", str(output / "tables")]
    report([str(ground.inside / "results"), "--output", str(output / "a.html"), "--quiet", *tables])


def class_list(ground: Ground) -> None:
    written(ground.inside / "images" / "train" / "cat" / "a.png", b"")
    chosen = written(ground.inside / "list.txt", b"../../../outside\n")
    read_image_folder(ground.inside / "images", "train", class_list=chosen)


def named(what: str, name: str, attack: Callable[[str, Ground], object]) -> HostileCase:
    return HostileCase(f"{what} {name!r}", partial(attack, name))


def run_named(name: str, ground: Ground) -> object:
    return RunFolder.create(TrainOptions(runs=str(ground.inside), name=name))


def find_run(name: str, ground: Ground) -> object:
    return RunFolder.find(name, ground.inside)


FILE, LINK, HARD = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
CASES = (
    HostileCase("archive that climbs", archive(("../outside/hostile.txt", FILE, ""))),
    HostileCase("archive that climbs from below", archive(("a/../../outside/hostile.txt", FILE, ""))),
    HostileCase("archive with an absolute name", archive(("OUTSIDE/hostile.txt", FILE, ""))),
    HostileCase("archive with a name of Windows", archive(("..\\outside\\hostile.txt", FILE, ""))),
    HostileCase(
        "archive that writes through its own link",
        archive(("a", LINK, "OUTSIDE"), ("a/precious.txt", FILE, "")),
    ),
    HostileCase("archive with a link to a file", archive(("a", LINK, "OUTSIDE/precious.txt"))),
    HostileCase("archive with a hard link", archive(("a", HARD, "../outside/precious.txt"))),
    HostileCase("archive with a device", archive(("a", tarfile.CHRTYPE, ""))),
    HostileCase("archive with a pipe", archive(("a", tarfile.FIFOTYPE, ""))),
    HostileCase("archive that is a zip", zip_archive),
    HostileCase("archive over a link in the data root", link_in_the_root),
    *(named("run named", name, run_named) for name in ("../x", "/tmp/x", "..", "a\\b", "", "a\x00b")),
    *(named("study named", name, lambda name, g: SearchOptions(study=name)) for name in ("../x", "/x")),
    HostileCase("trade-off named '../x'", lambda g: TradeoffOptions(study="../x")),
    HostileCase("preset named '../../x'", lambda g: preset_path("../../x")),
    HostileCase("shipped network named '../x'", lambda g: shipped_folder("../x")),
    HostileCase("saved model named '../x/y'", lambda g: Network.from_pretrained("../x/y")),
    HostileCase(
        "packed network named '../x'",
        lambda g: pack(RunFolder(shipped_folder("geq-digits")), "../x", g.inside),
    ),
    *(named("run sought as", name, find_run) for name in ("../outside", "../../etc", "/")),
    HostileCase("record named by a path", record_name, harmless=True),
    HostileCase("class list that climbs", class_list),
    HostileCase("lock of a run that is a link", linked_lock),
    HostileCase("analyses of a run that are a link", linked_analysis),
    HostileCase("lock of records that is a link", linked_record_lock, harmless=True),
    HostileCase("files of a run that are links", linked_files, harmless=True),
)
