"""Datasets and network of a run, made from its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from geq.data.class_folders import SPLITS
from geq.data.dataset import Dataset, Statistics
from geq.data.dataset_options import IMAGE_FOLDER, Split, data_root
from geq.data.dataset_registry import AnyDataset, DatasetOptions, dataset_info, load_with_options
from geq.data.fingerprint import Fingerprint
from geq.data.loader import BatchLoader
from geq.data.photo_folder import find_folder
from geq.data.restoration import RestorationDataset
from geq.data.segmentation import SegmentationDataset
from geq.data.transform.base import Normalize, Transform
from geq.data.transform.damage import Damaging
from geq.data.transform.default_transform import Augment, default_transform
from geq.errors import CheckpointError, DataError, OptionError
from geq.model.catalogue import catalogue
from geq.model.config import STEPPED, NetworkConfig, field_types, from_json, override, typed_fields
from geq.model.gradient_config import DifferentiationConfig
from geq.model.model_registry import create_model, model_spec
from geq.model.network import Network
from geq.training.train_options import Augmentation, DataOptions, ModelOptions, TrainOptions

EVALUATION_BATCH, SCENE_PIXELS = 250, 2**19
"""Images of one batch of an evaluation, and pixels where each has a label. Results do not depend on them:
each sample is solved by itself."""

SHIFTED, CROPPED = ("digits", "mnist", "fashion_mnist"), ("cifar10", "cifar100")


@dataclass(frozen=True)
class DataDescription:
    """Description of the training data, for using a trained model without it.

    Args:
        name: of the dataset.
        classes: names of the labels, in order.
        statistics: of the normalisation.
        shape: channels, height and width of an image.
    """

    name: str
    classes: tuple[str, ...]
    statistics: Statistics
    shape: tuple[int, int, int]

    def as_mapping(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "classes": list(self.classes),
            "mean": list(self.statistics.mean),
            "std": list(self.statistics.std),
            "shape": list(self.shape),
        }

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], where: str) -> DataDescription:
        numbers, hints = tuple[float, ...], field_types(cls)
        kinds = {
            "name": str,
            "classes": hints["classes"],
            "mean": numbers,
            "std": numbers,
            "shape": hints["shape"],
        }
        if set(values) != set(kinds):
            raise CheckpointError(f"{where} must state {', '.join(kinds)}: got {', '.join(values)}")
        read = {key: from_json(kind, values[key], f"{where}: {key}") for key, kind in kinds.items()}
        return cls(read["name"], read["classes"], Statistics(read["mean"], read["std"]), read["shape"])

    def check_classes(self, dataset: Dataset) -> None:
        """Raise an error unless the labels of ``dataset`` mean the classes that the run was trained on."""
        if dataset.classes != self.classes:
            differing = sorted(set(self.classes) ^ set(dataset.classes))[:10]
            raise DataError(
                f"{dataset.name} must have the classes that the run was trained on, in the same order: "
                f"{len(self.classes)} there and {len(dataset.classes)} here, differing in "
                f"{', '.join(differing) or 'their order'}; restore the data"
            )


@dataclass(frozen=True)
class Datasets:
    """The parts of the data: ``monitored`` is measured after epochs, ``test`` at the end."""

    train: AnyDataset
    monitored: AnyDataset
    test: AnyDataset

    @property
    def monitored_name(self) -> Literal["validation", "test"]:
        return "test" if self.monitored is self.test else "validation"

    @property
    def statistics(self) -> Statistics:
        """The normalisation of all parts: that of the training images."""
        return self.train.statistics

    def describe(self) -> DataDescription:
        images, _ = self.train.batch(torch.zeros(1, dtype=torch.int64))
        channels, height, width = images.shape[1:]
        return DataDescription(
            self.train.name,
            self.train.classes,
            self.statistics,
            (int(channels), int(height), int(width)),
        )

    def fingerprints(self) -> dict[str, Any]:
        """Return the identity of each part, by which a resumed run knows its data."""
        return {name: Fingerprint.of(part).as_mapping() for name, part in self._parts().items()}

    def check_unchanged(self, then: Mapping[str, Any]) -> None:
        """Raise an error unless the data are those of which :meth:`fingerprints` made ``then``."""
        for name, part in self._parts().items():
            before = then.get(name)
            found = Fingerprint.of(part).difference(before if isinstance(before, dict) else {})
            if found is not None:
                raise DataError(
                    f"a run must be resumed with the data that it was started with; in the {name} images "
                    f"{found}: restore the data, or start a new run"
                )

    def _parts(self) -> dict[str, AnyDataset]:
        parts = {"training": self.train, "test": self.test}
        return parts if self.monitored is self.test else {**parts, "validation": self.monitored}


def has_own_validation(options: DataOptions) -> bool:
    """Return whether a folder of images has both val/ and test/."""
    name = options.data_override.get("folder")
    if options.data != IMAGE_FOLDER or name is None:
        return False
    folder = find_folder(name, data_root(options.data_root))
    return all((folder / part).is_dir() for part in SPLITS)


def _validation(options: DataOptions) -> int | float | None:
    """Return the share or number to hold out of the training images; None keeps the dataset's own splits."""
    info = dataset_info(options.data)
    if options.validation == "official":
        if not (info.own_val and info.public_test) and not has_own_validation(options):
            raise OptionError(
                f"{options.data} has no official validation images besides those it is evaluated on: give "
                "--validation a share or a number, or 0"
            )
        return None
    if info.crop is not None and options.validation:
        raise OptionError(
            f"{options.data} holds frames of videos, so a random share has near duplicates in the rest: "
            "use --validation official if the dataset has it, or 0"
        )
    return None if info.crop is not None else options.validation


def own_side(options: ModelOptions) -> int:
    """Return the side of the images that the network is made for."""
    spec = model_spec(options.model)
    side: int = options.override.get("input_shape", spec.input_shape)[1]
    return side


def open_split(options: TrainOptions, split: Split) -> AnyDataset:
    """One split of the dataset that the options name."""
    held_out: dict[str, Any] = {"validation": _validation(options)}
    if options.data == IMAGE_FOLDER:
        held_out["image_size"] = own_side(options)
    if split == "train" and options.train_size is not None:
        held_out["subset"] = options.train_size
    info = dataset_info(options.data)
    if split == "val" and not options.validation and info.own_val:
        held_out["validation"] = None  # nothing is held out of the training images: the dataset's own
    if split == "test" and info.crop is not None and not info.public_test:
        split = "val"
    return load_with_options(
        options.data,
        split,
        data_root(options.data_root),
        DatasetOptions(**{**held_out, **options.data_override}),
    )


def open_datasets(options: TrainOptions) -> Datasets:
    test = open_split(options, "test")
    monitored = open_split(options, "val") if options.validation else test
    return Datasets(open_split(options, "train"), monitored, test)


def augmentation(data: str, chosen: Augmentation) -> Augment:
    """Return the augmentation that 'auto' chooses for a dataset."""
    if chosen != "auto":
        return chosen
    if dataset_info(data).crop is not None:
        return "crop_flip"
    return "shift" if data in SHIFTED else "crop_flip" if data in CROPPED else "none"


def training_loader(
    options: DataOptions, dataset: Dataset, seed: int, rank: int, world_size: int
) -> BatchLoader:
    """Batches of this process: its share of ``batch_size``."""
    if options.batch_size % world_size:
        raise OptionError(
            f"batch_size must be divisible by the {world_size} devices: got {options.batch_size}"
        )
    transform: Transform
    if isinstance(dataset, RestorationDataset):
        if options.augment not in ("auto", "none"):
            raise OptionError(
                "damaged images are not varied besides, as their damage is another one in each epoch: got "
                f"augment {options.augment}; leave it out"
            )
        transform = Damaging(dataset.damage)
    else:
        transform = default_transform(
            options.data, True, augmentation(options.data, options.augment), statistics=dataset.statistics
        )
    return BatchLoader(
        dataset,
        options.batch_size // world_size,
        transform=transform,
        shuffle=True,
        seed=seed,
        num_workers=options.workers,
        rank=rank,
        world_size=world_size,
    )


def evaluation_batch(dataset: Dataset) -> int:
    """Images of a batch: fewer for segmentation."""
    if not isinstance(dataset, SegmentationDataset):
        return EVALUATION_BATCH
    return max(1, SCENE_PIXELS // dataset.read(0)[1].numel())


def evaluation_loader(
    dataset: Dataset,
    *,
    statistics: Statistics,
    batch_size: int | None = None,
    workers: int = 0,
    rank: int = 0,
    world_size: int = 1,
) -> BatchLoader:
    """Return every image once, in order, normalised with ``statistics``.

    These are the ones that the network was trained with, never those of the images at hand: a test set that
    is brighter than the training set must look brighter to the network.
    """
    transform: Transform = Normalize.by(statistics)
    if isinstance(dataset, RestorationDataset):
        transform = Damaging(dataset.damage)
    return BatchLoader(
        dataset,
        batch_size or evaluation_batch(dataset),
        transform=transform,
        num_workers=workers,
        rank=rank,
        world_size=world_size,
    )


def differentiation(options: ModelOptions, config: NetworkConfig, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the gradient as fields of the configuration, given the overrides."""
    said = options.differentiation()
    if not said:
        return {}
    if not isinstance(config, DifferentiationConfig):
        raise OptionError(
            "gradient, steps and regulariser are for networks that can be differentiated in several ways, "
            f"such as geq_tiny or opteq_tiny: got {', '.join(said)} for {options.model}"
        )
    gradient = said.get("gradient", chosen.get("gradient", config.gradient))
    if options.steps is not None and gradient not in STEPPED:
        raise OptionError(
            f"steps are for the gradients {', '.join(STEPPED)}: got {options.steps} for {options.model}, "
            f"whose gradient is {gradient}; add --gradient unrolled"
        )
    return said


def build_model(options: ModelOptions, data: DataDescription) -> Network:
    """The network for these images and classes, with fresh weights."""
    spec = model_spec(options.model)
    chosen = typed_fields(type(spec.config), options.override, options.model)
    chosen |= differentiation(options, spec.config, chosen)
    if "input_shape" not in chosen and data.shape != spec.input_shape:
        chosen["input_shape"] = data.shape
    chosen.setdefault("num_classes", len(data.classes))
    try:
        return create_model(options.model, **chosen)
    except OptionError as problem:
        small = too_small(options.model, data.shape)
        came = "×".join(map(str, data.shape))
        raise OptionError(
            small or f"{options.model} cannot be built for images of {came}: {problem}"
        ) from problem


def too_small(model: str, shape: tuple[int, int, int]) -> str | None:
    """Say so where images are too small for a network, and which one of its family fits them."""
    config, side = model_spec(model).config, shape[1]

    def fits(side: int) -> bool:
        try:
            override(config, {"input_shape": (shape[0], side, side)})
        except OptionError:
            return False
        return True

    least = next((larger for larger in range(side, config.input_shape[1] + 1) if fits(larger)), side)
    if least == side:
        return None
    sizes = {name: entry.input_shape[1] for name, entry in catalogue().items()}
    family = model.partition("_")[0]
    fitting = [name for name in sizes if sizes[name] <= side and name.partition("_")[0] == family]
    kind = model.rpartition("_")[0]
    fitting.sort(key=lambda name: (-sizes[name], name.rpartition("_")[0] != kind, len(name)))
    fix = f"take {fitting[0]}" if fitting else "take larger images"
    return f"{model} needs images of at least {least}×{least}: got {side}×{shape[2]}; {fix}"
