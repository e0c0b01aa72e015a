"""The card of a network: ``card.json``, and ``README.md`` for people, which says the same.

Accuracies, confidences and calibration errors are in %.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geq.errors import CheckpointError
from geq.model.config import from_fields
from geq.model.shipped_networks import CARD, shipped_folder, shipped_names
from geq.number_format import percent, shown
from geq.safe_parsing import parse_json
from geq.training.environment import short_commit
from geq.training.train_options import TrainOptions
from geq.weights.data_origin import ORIGINS

if TYPE_CHECKING:
    from huggingface_hub import ModelCard


@dataclass(frozen=True)
class Test:
    """On all test images. ``top5`` where there are more than ten classes; ``steps`` and ``unconverged`` are
    the mean evaluations of an equilibrium's map and the share of samples that missed the tolerance.
    """

    __test__ = False  # its name is no invitation to pytest

    images: int
    accuracy: float
    loss: float
    top5: float | None
    steps: float | None
    unconverged: float | None


@dataclass(frozen=True)
class CalibrationScores:
    """On all test images: ``confidence`` is the mean probability of the predicted class; ECE and the worst
    bin (MCE) have ``bins`` of equal width; NLL in nats; Brier score from 0 to 2.
    """

    images: int
    bins: int
    confidence: float
    ece: float
    mce: float
    nll: float
    brier: float


@dataclass(frozen=True)
class CorruptionScores:
    """Accuracy under the 19 corruptions at severities 1 to 5, on ``images`` test images with the class
    shares of all: the mean, that of each group, and each corruption's five. ``clean`` is on the same images
    as they are.
    """

    images: int
    seed: int
    clean: float
    accuracy: float
    groups: dict[str, float]
    each: dict[str, list[float]]


@dataclass(frozen=True)
class Certificate:
    """Certificate of one equilibrium in double precision, and measurements on ``images``
    test images. ``distance`` bounds ‖z − z*‖/‖z‖ of the computed states, in %; None where nothing is proved.
    """

    kernel: str
    feedback_norm: float
    unique: bool | None
    contraction: bool | None
    rate: float | None
    measured_rate: float | None
    images: int
    distance: float | None


@dataclass(frozen=True)
class Training:
    """Training of the network. ``settings`` are the options that matter; ``commit`` is that of the code."""

    command: str
    settings: dict[str, Any]
    train_images: int
    epochs: int
    cpu_seconds: float
    started: str | None
    commit: str | None
    machine: str | None
    packages: dict[str, str | None]


@dataclass(frozen=True)
class Card:
    """Everything that is stated of a network."""

    name: str
    model: str
    data: str
    shape: list[int]
    classes: list[str]
    parameters: int
    weights_bytes: int
    weights_sha256: str
    test: Test
    calibration: CalibrationScores
    corruption: CorruptionScores
    certificate: dict[str, Certificate]
    training: Training

    def as_mapping(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], where: str = CARD) -> Card:
        """The inverse; a field that is missing or unknown is an error."""
        card: Card = from_fields(cls, values, f"{where} is not the card of a network: it")
        if len(card.shape) != 3 or not card.classes:
            raise CheckpointError(f"{where}: a network has images of three dimensions and classes")
        return card


def read_card(folder: Path) -> Card:
    path = folder / CARD
    try:
        values = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise CheckpointError(f"{path} cannot be read: {problem}") from problem
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} is not the card of a network: it must be a JSON object")
    return Card.from_mapping(values, str(path))


def shipped_cards() -> list[Card]:
    """The cards of all networks that come with the package."""
    return [read_card(shipped_folder(name)) for name in shipped_names()]


def disk_size(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


TEMPLATE = Path(__file__).with_name("card_template.md")


def card_text(card: Card) -> str:
    """Return the whole card."""
    return str(model_card(card)) + "\n"


def model_card(card: Card) -> ModelCard:
    """Return the card as the Hugging Face Hub knows it, head and text apart."""
    from huggingface_hub import ModelCard, ModelCardData

    stated = card.training.settings
    head = ModelCardData(
        license="apache-2.0",
        library_name="geq",
        pipeline_tag="image-classification",
        tags=["equilibrium-model"],
        datasets=[card.data],
        metrics=["accuracy"],
    )
    return ModelCard.from_template(
        head,
        template_str=TEMPLATE.read_text(encoding="utf-8"),
        card=card,
        origin=ORIGINS.get(card.data),
        # Checked, and with the defaults of what a card does not state.
        settings=TrainOptions.from_mapping(stated, f"the settings of {card.name}").as_mapping(),
        number=shown,
        percent=percent,
        proved={None: "unknown", True: "yes", False: "not proved"},
        short_commit=short_commit,
    )
