"""A card for people: ``README.md``, in Markdown, with the head that the Hugging Face Hub reads.

Everything in it comes from ``card.json``, so that the two cannot disagree.
"""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import ModelCard, ModelCardData

from geq.training.environment import short_commit
from geq.training.train_options import TrainOptions
from geq.weights.card import Card
from geq.weights.data_origin import ORIGINS

TEMPLATE = Path(__file__).with_name("card_template.md")


def card_text(card: Card) -> str:
    """Return the whole card."""
    return str(model_card(card)) + "\n"


def model_card(card: Card) -> ModelCard:
    """Return the card as the Hugging Face Hub knows it, head and text apart."""
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
        number=number,
        percent=lambda value: number("%.2f %%", value),
        proved={None: "unknown", True: "yes", False: "not proved"},
        short_commit=short_commit,
    )


def number(form: str, value: float | None) -> str:
    """
    >>> number("%.2f %%", 3.14159), number("%.2f", None)
    ('3.14 %', '–')
    """
    return "–" if value is None else form % value
