"""Settings and parts of ``geq analyze``; torch is not needed to list them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

from geq.errors import OptionError, check_seed, unknown_name
from geq.plugin import entry_points

Progress = Callable[[str, int, int], None]
"""Called with what is under way, how much of it is done and how much there will be."""


def silent(what: str, done: int, total: int) -> None:
    """Progress without a display."""


@dataclass(frozen=True)
class Settings:
    """Sizes and seeds of an analysis.

    Args:
        images: of the test set, for what is measured on inputs.
        train_images: of the training set, for the margin loss.
        draws: of a Monte-Carlo estimate.
        steps: of a gradient ascent.
        margin: η of the margin loss.
        confidence: δ of a bound that holds with probability 1 − δ.
        seed: of everything random.
        limit: most test images for calibration and corruptions, equally many of each class; None is all.
        bins: of equal width, of the reliability diagram.
        ood: dataset of images unlike the training data.
        ood_resize: bring images of that dataset to the network's size and channels.
        reference: folder of the run that corruption errors are divided by.
        beside: folders of more runs, shown beside.
        corruptions: names of the corruptions; none for all of them.
        corrupted: folder of files like CIFAR-10-C; without one the corruptions are computed.
        epsilons: radii of the attacks, in steps of an 8-bit pixel.
        attack_images, attack_steps, attack_restarts: most images, steps and starts of an attack.
        data_override: options of the dataset that replace those of the run.
    """

    images: int = 16
    train_images: int = 2000
    draws: int = 200
    steps: int = 60
    margin: float = 0.1
    confidence: float = 0.05
    seed: int = 0
    limit: int | None = None
    bins: int = 15
    ood: str | None = None
    ood_resize: bool = False
    reference: str | None = None
    beside: tuple[str, ...] = ()
    corruptions: tuple[str, ...] = ()
    corrupted: str | None = None
    epsilons: tuple[float | int, ...] = (1, 2, 4, 8)
    attack_images: int = 200
    attack_steps: int = 10
    attack_restarts: int = 1
    data_override: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("images", "train_images", "draws", "steps"):
            if getattr(self, name) < 2:
                raise OptionError(f"{name} must be at least 2: got {getattr(self, name)}")
        for name in ("bins", "attack_images", "attack_steps", "attack_restarts"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1: got {getattr(self, name)}")
        check_seed(self.seed)
        if self.limit is not None and self.limit < 1:
            raise OptionError(f"limit must be at least 1: got {self.limit}")
        if not self.epsilons or not all(0 < epsilon <= 255 for epsilon in self.epsilons):
            raise OptionError(
                "epsilons must be radii in steps of an 8-bit pixel, above 0 and up to 255: "
                f"got {self.epsilons}"
            )
        if not self.margin > 0 or not 0 < self.confidence < 1:
            raise OptionError(
                f"margin must be above 0 and confidence in (0, 1): got {self.margin}, {self.confidence}"
            )


@dataclass(frozen=True)
class AnalysisPart:
    """One part.

    Args:
        module: that computes it.
        summary: one line of help.
        uses: the settings that it depends on.
        on_request: computed only when asked for by name: long, or nothing about a user's images.
        piecemeal: it stores its pieces itself, and is assembled again every time.
    """

    module: str
    summary: str = ""
    uses: tuple[str, ...] = ("images", "train_images", "draws", "steps", "margin", "confidence", "seed")
    on_request: bool = False
    piecemeal: bool = False

    def depends_on(self, settings: Settings) -> dict[str, Any]:
        """Return the settings that its result depends on, as a file holds them."""
        values = asdict(settings)
        names = (*self.uses, *(["data_override"] if settings.data_override else []))
        return dict(json.loads(json.dumps({name: values[name] for name in names})))

    @property
    def title(self) -> str:
        """The summary; a part of another package has it in its module."""
        return self.summary or str(import_module(self.module).SUMMARY)


BOUNDS: dict[str, AnalysisPart] = {
    name: AnalysisPart(module, on_request=True) for name, module in entry_points("geq.bounds").items()
}
"""Bounds of other packages: entry points of the group ``geq.bounds``, name -> module with ``SUMMARY`` and
``analyse``."""

PARTS: dict[str, AnalysisPart] = {
    "certificate": AnalysisPart(
        "geq.analysis.certificate", "norms, well-posedness, distance to the equilibrium"
    ),
    "lipschitz": AnalysisPart(
        "geq.analysis.lipschitz", "proposition 3: how much outputs move with inputs", on_request=True
    ),
    **BOUNDS,
    "calibration": AnalysisPart(
        "geq.analysis.calibration",
        "reliability of the probabilities, and detection of out-of-distribution images",
        uses=("limit", "bins", "ood", "ood_resize", "train_images", "draws", "seed"),
    ),
    "corruption": AnalysisPart(
        "geq.analysis.corruption",
        "accuracy under 19 corruptions at 5 severities",
        uses=("limit", "reference", "beside", "corruptions", "corrupted", "seed"),
        on_request=True,
        piecemeal=True,
    ),
    "attack": AnalysisPart(
        "geq.analysis.attack",
        "accuracy under FGSM and PGD",
        uses=("limit", "epsilons", "attack_images", "attack_steps", "attack_restarts", "seed"),
        on_request=True,
        piecemeal=True,
    ),
}
"""Name -> part, in the order in which they are computed and shown."""

GROUPS: dict[str, tuple[str, ...]] = {
    "bounds": ("lipschitz", *BOUNDS),
    "robustness": ("corruption", "attack"),
    "all": tuple(PARTS),
}
"""Names of groups of parts."""


def chosen(names: Iterable[str] | None) -> list[str]:
    """The parts that ``names`` ask for, each once, in the table's order; None is all but those on request."""
    if names is None:
        return [name for name, part in PARTS.items() if not part.on_request]
    asked: set[str] = set()
    for name in names:
        if name not in PARTS and name not in GROUPS:
            raise unknown_name("part of an analysis", name, [*PARTS, *GROUPS])
        asked.update(GROUPS.get(name, (name,)))
    return [name for name in PARTS if name in asked]
