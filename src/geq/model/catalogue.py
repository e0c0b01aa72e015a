"""Table of the registered models: name, size and cost, read from a file so that listing needs no torch.

The file is generated from the registry: ``python -m geq.model.catalogue`` writes it anew after a change of
the models. A test compares it with the models themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from geq.plugin import entry_points

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


def tables() -> dict[str, Path]:
    """Return the files of this package and of the others that add models, by their package of models."""
    found = {"geq.model": FILE}
    for module in entry_points("geq.models").values():
        package = module.rpartition(".")[0]
        spec = find_spec(package) if package else None
        for folder in (spec and spec.submodule_search_locations) or ():
            if (path := Path(folder, FILE.name)).exists():
                found[package] = path
    return found


@cache
def catalogue() -> Mapping[str, ModelRow]:
    """Return the rows by name, in alphabetical order.

    >>> catalogue()["geq_tiny"].input_shape
    (1, 8, 8)
    """
    rows = [row for file in tables().values() for row in json.loads(file.read_text(encoding="utf-8"))]
    rows.sort(key=lambda row: str(row["name"]))
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


def generated() -> dict[Path, str]:
    """Return the text that each file must have: one line for each model of the families."""
    from geq.model.registry import model_spec, registered_names

    found = {}
    for package, path in tables().items():
        names = [n for n in registered_names() if model_spec(n).network.__module__.startswith(f"{package}.")]
        rows = [json.dumps(asdict(count(name)), ensure_ascii=False) for name in names]
        found[path] = "[\n" + ",\n".join(rows) + "\n]\n"
    return found


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
