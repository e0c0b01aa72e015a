"""Table of the registered models: name, size and cost, read from a file so that listing needs no torch.

The file is generated from the registry: ``python -m geq.model.catalogue`` writes it anew after a change of
the models. A test compares it with the models themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

FILE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class ModelRow:
    """One model of the table.

    Args:
        name: Name in the registry.
        parameters: Number of parameters.
        multiply_adds: Multiply-adds of one evaluation for one image, see :mod:`geq.model.cost`.
        input_shape: Channels, height and width of one image.
        source: Paper and table that the model comes from.
        reported: What that source reports for it.
    """

    name: str
    parameters: int
    multiply_adds: int
    input_shape: tuple[int, int, int]
    source: str
    reported: str | None


@cache
def catalogue() -> Mapping[str, ModelRow]:
    """Return the rows by name, in alphabetical order.

    >>> catalogue()["resnet50"].parameters
    25557032
    """
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    return MappingProxyType(
        {row["name"]: ModelRow(**{**row, "input_shape": tuple(row["input_shape"])}) for row in rows}
    )


def count(name: str) -> ModelRow:
    """Count the parameters and multiply-adds of a model on the meta device, without memory for weights."""
    import torch

    from geq.model.outline import WithoutDrawing
    from geq.model.registry import model_spec

    spec = model_spec(name)
    with torch.device("meta"), WithoutDrawing():
        model = spec.build()
    return ModelRow(
        name=spec.name,
        parameters=model.parameter_count(),
        multiply_adds=model.multiply_adds(),
        input_shape=spec.input_shape,
        source=spec.source,
        reported=spec.reported,
    )


def generated() -> str:
    """Return the text that the file must have: one line for each model of the families."""
    from geq.model.registry import registered_names

    rows = [json.dumps(asdict(count(name)), ensure_ascii=False) for name in registered_names()]
    return "[\n" + ",\n".join(rows) + "\n]\n"


if __name__ == "__main__":
    FILE.write_text(generated(), encoding="utf-8")
