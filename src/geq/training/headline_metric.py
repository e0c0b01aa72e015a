"""Main figure of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEADLINES = {"accuracy": "accuracy", "miou": "mIoU", "psnr": "PSNR"}
"""Its name in the log, and how it is written; every run has one of them."""
UNITS = {"PSNR": "dB"}
"""Unit of a headline by its label; those that are missing are in %."""


def headline_of(record: Mapping[str, Any], part: str) -> tuple[str, float] | None:
    """Return name and value of the main figure of ``part`` ('train', 'validation' or 'test') in the log.

    >>> headline_of({"test_loss": 0.5, "test_miou": 61.5}, "test")
    ('mIoU', 61.5)
    """
    for name, label in HEADLINES.items():
        if f"{part}_{name}" in record:
            return label, float(record[f"{part}_{name}"])
    return None


def unit_of(label: str) -> str:
    """
    >>> unit_of("PSNR"), unit_of("accuracy")
    ('dB', '%')
    """
    return UNITS.get(label, "%")
