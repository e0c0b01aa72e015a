"""Every option of a training run, in the groups in which ``geq train --help`` shows them.

:class:`TrainOptions` joins the groups, so an option has one name everywhere: in Python
(``TrainOptions(epochs=5)``), on the command line (``--epochs 5``) and in a YAML file (``epochs: 5``).
The model and the dataset have options of their own: ``--model.patch 4``, in YAML ``model.patch: 4``, in
Python ``override={"patch": 4}``, and in the files of a run ``override: [patch=4]``.
The defaults are the quick start: a small GEQ on scikit-learn's digits.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from geq.data.dataset_options import DatasetOptions
from geq.errors import CheckedOptions, CheckpointError, OptionError, check_seed, unknown_name
from geq.model.config import (
    ADDED_LATER,
    STEPPED,
    Differentiation,
    Regulariser,
    field_types,
    from_json,
    to_json,
    typed_fields,
)
from geq.safe_parsing import parse_json, short

Augmentation = Literal["auto", "none", "shift", "crop_flip", "randaugment"]
Precision = Literal["32", "bf16-mixed", "16-mixed", "64"]

LONGEST_NAME = 255
"""Bytes that a file system allows for the name of a file."""

NESTED = {"model": "override", "data": "data_override"}
"""Option whose choice has options of its own -> the field that holds these."""

PLACES = ("name", "runs", "data_root", "picture", "checkpoint_steps", "unconverged_warning")
"""Options of where and how a run is stored, without any effect on its result."""

CIRCUMSTANCES = (*PLACES, "seed", "workers", "threads", "accelerator", "devices", "num_nodes", "strategy")
"""Options that change a result no more than another seed does, or only its last bits."""


def demand(holds: bool, rule: str, came: object) -> None:
    if not holds:
        raise OptionError(f"{rule}: got {came}")


def is_folder_name(name: str) -> bool:
    """Return whether a folder can have this name and lies below its parent.

    >>> is_folder_name("trial-1"), is_folder_name(".."), is_folder_name("a/b"), is_folder_name("x" * 300)
    (True, False, False, False)
    """
    fits = len(name.encode("utf-8", "surrogatepass")) <= LONGEST_NAME
    return fits and name not in ("", ".", "..") and not set(name) & set("/\\\0")


def is_part(size: int | float) -> bool:
    """Return whether ``size`` is a share of images or a number of them.

    >>> [is_part(size) for size in (0, 0.5, 1, 200.0)], [is_part(size) for size in (-1, 1.0, 1.5)]
    ([True, True, True, True], [False, False, False])
    """
    # 1.0 is most likely meant as the share that leaves nothing to train on, not as one image.
    return 0 <= size < 1 or (size >= 1 and float(size).is_integer() and (size != 1 or isinstance(size, int)))


def stored(chosen: Mapping[str, Any]) -> list[str]:
    """Return nested options as the files of runs hold them; :func:`restored` is the inverse.

    >>> stored({"scales": [10, 2], "gamma": "paper", "folder": "7"})
    ['scales=[10,2]', 'gamma=paper', 'folder="7"']
    """
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for name, value in chosen.items()
    }
    quoted = {name: json.dumps(text) for name, text in texts.items() if read_value(text) != chosen[name]}
    return [f"{name}={text}" for name, text in (texts | quoted).items()]


def restored(items: Iterable[str], where: str) -> dict[str, Any]:
    """Return the nested options of a list of 'field=value', with the value in JSON or as plain text."""
    for item in items:
        demand("=" in item, f"{where} must look like field=value", short(item))
    return {name: read_value(text) for name, _, text in (item.partition("=") for item in items)}


def overlaid(values: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords of :class:`TrainOptions` of which later ones replace earlier ones.

    Another model or dataset starts without the options of the former.

    >>> overlaid({"model": "a", "override": {"patch": 4}}, {"override": {"bound": 0.8}})["override"]
    {'patch': 4, 'bound': 0.8}
    >>> overlaid({"model": "a", "override": {"patch": 4}}, {"model": "b"})["override"]
    {}
    """
    nested = {}
    for group, name in NESTED.items():
        other = group in values and group in later and values[group] != later[group]
        nested[name] = {**({} if other else values.get(name, {})), **later.get(name, {})}
    return {**values, **later, **nested}


def read_value(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class ModelOptions:
    """model

    Args:
        model: name of the network; 'geq models' lists them.
        override: fields of its configuration to change.
        gradient: gradient of the equilibria: 'implicit' (exact), 'phantom' or 'jacobian_free' (approximate),
            'unrolled' (a fixed number of iterations) or 'averaging' (the same with sequential averaging
            towards the regulariser). The default is the model's own; it replaces --model.gradient.
        steps: number of iterations of 'unrolled' and 'averaging' (default 20), or of terms of 'phantom' (5).
        regulariser: regulariser of the features: 'decay', 'sparsity', 'incay', 'decorrelation', 'hsic',
            'hsic_fourier' or 'none'. It needs the gradient 'averaging' or, with any other gradient, a Deep
            OptEq, whose problem it then changes.
        regulariser_weight: γ of the regulariser.
    """

    model: str = "geq_tiny"
    override: Mapping[str, Any] = field(default_factory=dict)
    gradient: Differentiation | None = None
    steps: int | None = None
    regulariser: Regulariser | None = None
    regulariser_weight: float | None = None

    def check(self) -> None:
        demand(self.steps is None or self.steps >= 1, "steps must be at least 1", self.steps)
        demand(
            self.steps is None or self.gradient is None or self.gradient in STEPPED,
            f"steps are for the gradients {', '.join(STEPPED)}",
            f"{self.gradient} with {self.steps} steps",
        )

    def differentiation(self) -> dict[str, Any]:
        """Return the options that were given, as fields of a model's configuration."""
        said = {
            "gradient": self.gradient,
            "gradient_steps": self.steps,
            "regulariser": self.regulariser,
            "regulariser_weight": self.regulariser_weight,
        }
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True)
class DataOptions:
    """data

    Args:
        data: name of the dataset.
        data_override: options of the dataset, see :class:`~geq.data.dataset_options.DatasetOptions`.
        data_root: folder of the datasets; the default is $GEQ_DATA, or the user's cache folder.
        train_size: number of training images, a stratified subset; the default is all of them.
        validation: hold out this share (below 1) or number of training images, or take the 'official'
            validation images of a dataset that has some (camvid). Early stopping and tuning use these
            only. Without them the test set is measured during training but decides nothing.
        augment: augmentation of training images. 'auto' is 'shift' for digits, 'crop_flip' for CIFAR and for
            data with masks (there with a random scale), 'none' elsewhere.
        batch_size: number of images of one optimiser step, over all devices together.
        workers: number of processes that load data; 0 is best for datasets in memory.
    """

    data: str = "digits"
    data_override: Mapping[str, Any] = field(default_factory=dict)
    data_root: str | None = None
    train_size: int | None = None
    validation: int | float | Literal["official"] = 0
    augment: Augmentation = "auto"
    batch_size: int = 64
    workers: int = 0

    def check(self) -> None:
        typed_fields(DatasetOptions, self.data_override, "the dataset")
        demand(self.batch_size >= 1, "batch_size must be at least 1", self.batch_size)
        demand(self.workers >= 0, "workers must not be negative", self.workers)
        demand(
            self.train_size is None or self.train_size >= 1, "train_size must be at least 1", self.train_size
        )
        demand(
            self.validation == "official" or is_part(self.validation),
            "validation must be a share from 0 to below 1, a whole number of images, or 'official'",
            self.validation,
        )


@dataclass(frozen=True)
class OptimizerOptions:
    """optimiser

    Args:
        optimizer: 'sgd' with momentum, or 'adamw', which needs a learning rate of about 0.001.
        learning_rate: largest learning rate.
        momentum: momentum of sgd.
        nesterov: use Nesterov's form of the momentum.
        weight_decay: weight decay, except on norms, biases, γ, W_h and the feedback operators.
        decay_all: apply weight decay to every parameter; the paper's γ collapses under it ('geq reproduce
            study-collapse').
        label_smoothing: share of the target that is spread over all classes.
        clip: maximum norm of the gradient; 0 disables clipping.
        ema: decay of an exponential moving average of the weights, such as 0.999. The average is evaluated
            and saved; 0 disables it.
    """

    optimizer: Literal["sgd", "adamw"] = "sgd"
    learning_rate: float = 0.2
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 1e-4
    decay_all: bool = field(default=False, metadata=ADDED_LATER)
    label_smoothing: float = 0.0
    clip: float = 5.0
    ema: float = 0.0

    def check(self) -> None:
        demand(self.learning_rate > 0, "learning_rate must be above 0", self.learning_rate)
        demand(0 <= self.momentum < 1, "momentum must be in [0, 1)", self.momentum)
        demand(
            not self.nesterov or self.momentum > 0 or self.optimizer != "sgd",
            "nesterov needs a momentum above 0 (or --nesterov false)",
            self.momentum,
        )
        demand(self.weight_decay >= 0, "weight_decay must not be negative", self.weight_decay)
        demand(0 <= self.label_smoothing < 1, "label_smoothing must be in [0, 1)", self.label_smoothing)
        demand(self.clip >= 0, "clip must not be negative", self.clip)
        demand(0 <= self.ema < 1, "ema must be in [0, 1)", self.ema)


@dataclass(frozen=True)
class ScheduleOptions:
    """schedule

    Args:
        epochs: number of passes over the training set.
        schedule: schedule of the learning rate after the warm-up.
        warmup_epochs: number of epochs in which the learning rate rises from 0.
        milestones: shares of the run after which 'step' multiplies the learning rate by step_factor.
        step_factor: factor of 'step'.
        power: exponent of 'poly'.
        early_stop: number of epochs without a better validation accuracy (mIoU for masks) after which to
            stop and keep the best weights; needs --validation.
        evaluate_every: number of epochs between evaluations.
    """

    epochs: int = 20
    schedule: Literal["cosine", "step", "poly", "constant"] = "cosine"
    warmup_epochs: float = 1.0
    milestones: tuple[float, ...] = (0.5, 0.75)
    step_factor: float = 0.1
    power: float = 0.9
    early_stop: int | None = None
    evaluate_every: int = 1

    def check(self) -> None:
        demand(self.epochs >= 1, "epochs must be at least 1", self.epochs)
        demand(self.warmup_epochs >= 0, "warmup_epochs must not be negative", self.warmup_epochs)
        demand(
            all(0 < share < 1 for share in self.milestones)
            and list(self.milestones) == sorted(self.milestones),
            "milestones must be ascending shares between 0 and 1",
            self.milestones,
        )
        demand(self.step_factor > 0 and self.power > 0, "step_factor and power must be above 0", self)
        demand(
            self.early_stop is None or self.early_stop >= 1, "early_stop must be at least 1", self.early_stop
        )
        demand(self.evaluate_every >= 1, "evaluate_every must be at least 1", self.evaluate_every)
        # The weights that are kept are those of an evaluation: there must be one before the run can end.
        demand(
            self.early_stop is None or self.evaluate_every <= min(self.early_stop, self.epochs),
            "with early_stop, evaluate_every must exceed neither early_stop nor epochs",
            f"evaluate_every {self.evaluate_every}, early_stop {self.early_stop}, epochs {self.epochs}",
        )


@dataclass(frozen=True)
class SegmentationOptions:
    """segmentation

    Args:
        inference: 'full' segments an image at once, 'sliding' window by window, with the mean of the logits
            where windows overlap; for evaluation and prediction.
        window: height and width of the window.
        overlap: share by which neighbouring windows overlap.
    """

    inference: Literal["full", "sliding"] = "full"
    window: tuple[int, int] = (512, 1024)
    overlap: float = 1 / 3

    def check(self) -> None:
        demand(min(self.window) >= 1, "window must be a positive height and width", self.window)
        demand(0 <= self.overlap < 1, "overlap must be in [0, 1)", self.overlap)


@dataclass(frozen=True)
class RunOptions:
    """run

    Args:
        name: name of the run's folder; the default is model-data-1, -2 and so on.
        runs: folder of the runs.
        seed: seed of the weights, the order of the data and the augmentation.
        checkpoint_steps: number of steps between checkpoints for resuming, besides those after each epoch;
            0 disables them.
        unconverged_warning: share of samples not solved to the tolerance above which to warn.
        picture: draw the training curves and the attention when the run ends.
    """

    name: str | None = None
    runs: str = "runs"
    seed: int = 0
    checkpoint_steps: int = 0
    unconverged_warning: float = 0.05
    picture: bool = True

    def check(self) -> None:
        check_seed(self.seed)
        demand(self.checkpoint_steps >= 0, "checkpoint_steps must not be negative", self.checkpoint_steps)
        demand(
            0 <= self.unconverged_warning <= 1,
            "unconverged_warning must be in [0, 1]",
            self.unconverged_warning,
        )
        demand(
            self.name is None or is_folder_name(self.name),
            f"name must be the name of one folder, at most {LONGEST_NAME} bytes (--runs is the one above)",
            short(self.name),
        )


@dataclass(frozen=True)
class DeviceOptions:
    """devices

    Args:
        accelerator: device type; 'auto' takes a GPU if there is one.
        devices: number of devices (on the CPU, of processes) of each machine.
        num_nodes: number of machines; start the same command on each by SLURM or torchrun.
        strategy: parallelisation; 'auto' is 'ddp' for more than one device.
        precision: number format outside the equilibria, which are always solved in at least single precision.
        sync_batchnorm: share the statistics of BatchNorm over all GPUs.
        deterministic: use only bit-reproducible algorithms, which are slower on a GPU.
        threads: number of CPU threads. The default is one for small networks, which gain nothing from more
            and suffer when other programs use the cores; otherwise it is torch's choice.
    """

    accelerator: Literal["auto", "cpu", "gpu", "mps"] = "auto"
    devices: int = 1
    num_nodes: int = 1
    strategy: Literal["auto", "ddp"] = "auto"
    precision: Precision = "32"
    sync_batchnorm: bool = False
    deterministic: bool = False
    threads: int | None = None

    def check(self) -> None:
        demand(self.devices >= 1, "devices must be at least 1", self.devices)
        demand(self.num_nodes >= 1, "num_nodes must be at least 1", self.num_nodes)
        demand(self.threads is None or self.threads >= 1, "threads must be at least 1", self.threads)


GROUPS = (
    ModelOptions,
    DataOptions,
    OptimizerOptions,
    ScheduleOptions,
    SegmentationOptions,
    RunOptions,
    DeviceOptions,
)
"""In the order of ``--help``."""


@dataclass(frozen=True)
class TrainOptions(
    ModelOptions,
    DataOptions,
    OptimizerOptions,
    ScheduleOptions,
    SegmentationOptions,
    RunOptions,
    DeviceOptions,
    metaclass=CheckedOptions,
):
    """All options of a training run.

    >>> TrainOptions(epochs=5).learning_rate
    0.2
    >>> TrainOptions(epoch=5)
    Traceback (most recent call last):
    geq.errors.OptionError: unknown option of TrainOptions 'epoch'; did you mean 'epochs'? (nearest of ...
    """

    def __post_init__(self) -> None:
        for name in NESTED.values():
            chosen = getattr(self, name)
            demand(
                isinstance(chosen, Mapping),
                f"{name} must be a mapping, such as {{'patch': 4}}",
                short(chosen),
            )
            # Lists for tuples: equal options compare as equal, from a file or not.
            object.__setattr__(self, name, {key: to_json(value) for key, value in chosen.items()})
        for group in GROUPS:
            group.check(self)
        demand(
            self.early_stop is None or self.validation != 0,
            "early_stop needs validation images (such as --validation 0.1): the test set decides nothing",
            f"early_stop {self.early_stop} with validation {self.validation}",
        )

    @property
    def world_size(self) -> int:
        return self.devices * self.num_nodes

    def as_mapping(self) -> dict[str, Any]:
        """Return name -> value with lists for tuples, the content of a run's YAML file."""
        values = dataclasses.asdict(self)
        values |= {name: stored(values[name]) for name in NESTED.values()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def spelt_out(self) -> dict[str, Any]:
        """Return name -> value as on the command line and in a YAML file for ``--config``.

        >>> TrainOptions(override={"patch": 4}).spelt_out()["model.patch"]
        4
        """
        values = self.as_mapping()
        for group, name in NESTED.items():
            del values[name]
            values |= {f"{group}.{key}": value for key, value in getattr(self, name).items()}
        return values

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], where: str = "options") -> TrainOptions:
        """Invert both, with every value checked; names that are not given keep their default."""
        return cls(**cls.decoded(values, where))

    @classmethod
    def decoded(cls, values: Mapping[str, Any], where: str = "options") -> dict[str, Any]:
        """Return the keywords that a mapping of a file gives, with the type of each checked."""
        hints, found = field_types(cls), {}
        nested: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            group, _, key = name.partition(".")
            if key and group in NESTED:
                nested.setdefault(NESTED[group], {})[key] = value
                continue
            if name not in hints:
                raise unknown_name(f"option in {where}:", name, hints)
            kind = tuple[str, ...] if name in NESTED.values() else hints[name]
            try:
                found[name] = from_json(kind, value, f"{where}: {name}")
            except CheckpointError as problem:
                raise OptionError(str(problem)) from problem
            if name in NESTED.values():
                nested[name] = restored(found[name], name) | nested.get(name, {})
        return found | nested
