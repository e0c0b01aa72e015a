"""Origin and terms of the training data of a network."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """
    Args:
        title: the dataset's full name.
        source: who made it, and of what.
        licence: the terms it is given under, as far as its makers state any.
        limits: what follows for a network that has seen nothing else.
    """

    title: str
    source: str
    licence: str
    limits: str


_TINY_IMAGES = (
    "Alex Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009. Photographs from the "
    "web that people labelled, shrunk to 32×32; a part of 80 Million Tiny Images, which its makers "
    "withdrew in 2020 because of offensive labels and pictures outside of this part"
)
_NO_LICENCE = (
    "none stated; the author asks for a citation of the report, and the photographs belong to others"
)

ORIGINS: dict[str, Origin] = {
    "digits": Origin(
        "Optical Recognition of Handwritten Digits",
        "E. Alpaydin and C. Kaynak, 1998, in the UCI Machine Learning Repository: digits that 43 people "
        "wrote on forms. scikit-learn brings its test part, 1,797 images of 8×8 by 13 of them; geq keeps "
        "360 for testing",
        "CC BY 4.0",
        "It has seen small, centred digits in light strokes on black, written by few people. Other "
        "handwriting, dark ink on white paper, letters or several digits at once are outside of that.",
    ),
    "fashion_mnist": Origin(
        "Fashion-MNIST",
        "H. Xiao, K. Rasul and R. Vollgraf, Zalando Research, 2017: product photographs of clothes, "
        "grey, 28×28",
        "MIT",
        "It has seen single pieces, centred, light on black, as a shop photographs them. Clothes that "
        "somebody wears, colours and backgrounds are outside of that.",
    ),
    "cifar10": Origin(
        "CIFAR-10",
        _TINY_IMAGES,
        _NO_LICENCE,
        "It has seen photographs of 32×32 in which one object of ten kinds fills the frame. A larger "
        "photograph is cut to its middle square and shrunk, which hides most of what it shows.",
    ),
    "cifar100": Origin(
        "CIFAR-100",
        _TINY_IMAGES,
        _NO_LICENCE,
        "It has seen 500 photographs of 32×32 for each of 100 classes. Among these are baby, boy, girl, "
        "man and woman: what it says of a person's age or sex is guesswork and must not be used.",
    ),
}
"""Dataset -> its origin; other datasets have none recorded here."""
