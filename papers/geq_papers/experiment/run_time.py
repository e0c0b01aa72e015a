"""Rough duration of runs, for a progress bar and for a warning before months of work."""

from __future__ import annotations

from geq.model.catalogue import catalogue
from geq.training.train_options import TrainOptions
from geq_papers.experiment.plan import Work

TRAINED: dict[str, float] = {
    "geq_small": 2.2,
    "geq_small_control": 2.2,
    "kerdeq_small": 2.1,
    "resnet_small": 2.2,
    "geq_cascade_small": 2.9,
    "geq_strong_small": 3.6,
    "opteq_cascade_small": 3.4,
    "mopteq_small": 2.6,
    "mopteq_small_polynomial": 2.4,
    "mopteq_small_sigmoid": 3.1,
    "opteq_small": 2.2,
    "restorer_small": 9.5,
    "dncnn_small": 6.0,
    "dnn_small": 1.9,
    "deep_opteq_small": 2.1,
    "mdeq_small": 2.9,
    "mon_small": 58.0,
    "node_small": 36.0,
    "fcn_camvid_small": 13.0,
    "opteq_camvid_small": 81.0,
}
"""CPU-seconds of one core for 1,000 training images, measured with the network's own settings."""

UNROLLED_STEP = 0.165
"""Time of a step that deep_opteq_small unrolls, in that of its implicit gradient."""

REGULARISED = {"decorrelation": 1.4, "hsic": 1.75, "hsic_fourier": 2.4}
"""Factor of a regulariser on that; the others cost next to nothing."""

EVALUATED = 0.45
"""Time of an image that is only classified, in that of one that is trained on."""

PER_MULTIPLY_ADD = 2.0e-3 / 2.6e6
"""Seconds of a core, for networks that were not measured: what geq_small needs for its own."""

GPU_SPEEDUP = 150.0
"""A GPU of today against one core, for networks of the papers' size: an order of magnitude, no more."""

TRAIN_IMAGES = {
    "digits": 1_437,
    "cifar10": 50_000,
    "cifar100": 50_000,
    "fashion_mnist": 60_000,
    "mnist": 60_000,
    "imagenette": 9_469,
    "imagenet100": 126_689,
    "imagenet": 1_281_167,
    "camvid": 367,
    "cityscapes": 2_975,
}
TEST_IMAGES = {"digits": 360, "camvid": 233, "cityscapes": 500, "imagenette": 3_925, "imagenet": 50_000}
START = 6.0
"""Seconds until a process has loaded everything."""


def seconds_per_image(model: str) -> float:
    """Training, on one core, with the network's own settings."""
    if model in TRAINED:
        return TRAINED[model] / 1000
    return catalogue()[model].multiply_adds * PER_MULTIPLY_ADD


def factor(options: TrainOptions) -> float:
    """Return the factor of the run's settings on the time of its model."""
    result = REGULARISED.get(options.regulariser or "", 1.0)
    if options.gradient in ("unrolled", "averaging"):
        result *= UNROLLED_STEP * (options.steps or 20)
    if options.model.startswith("node_") and options.override.get("steps") == 1:
        result /= 4
    if options.model.startswith("mon_") and options.override.get("tol") == 0.01:
        result *= 0.77
    if options.model.startswith("mon_") and options.override.get("stride") == 2:
        result *= 0.25
    if options.data_override.get("image_size") == 64:
        result *= 4
    return result


def expected_seconds(options: TrainOptions) -> float:
    """Of one core, for the training and its evaluations."""
    whole = TRAIN_IMAGES.get(options.data, 50_000)
    if options.data_override.get("classes") == "known":
        whole = whole * 4 // 5 if options.data == "cifar100" else whole // 2
    trained = min(options.train_size or whole, whole) * options.epochs
    evaluations = options.epochs // options.evaluate_every + 1
    seen = TEST_IMAGES.get(options.data, 10_000) * evaluations
    return START + (trained + EVALUATED * seen) * seconds_per_image(options.model) * factor(options)


def expected_work(work: Work) -> float:
    return expected_seconds(work.options)
