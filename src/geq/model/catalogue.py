"""Table of the registered models: name, size, cost and configuration, read from a file: no torch is needed.

The file is generated from the registry: ``python -m geq.model.catalogue`` writes it again after a change of
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
from typing import Any, Literal, get_args, get_origin

from geq.model.config import CLASS_KEY, field_types, to_json
from geq.plugin import entry_points

FILE = Path(__file__).with_suffix(".json")

KINDS: dict[str, Any] = {
    str(kind): kind for kind in (int | None, float | None, tuple[int, ...], tuple[int, int])
}
KINDS |= {"int": int, "float": float, "bool": bool, "tuple[int, int, int]": tuple[int, int, int]}
"""Types of the fields of configurations, by their names in the file; choices are a list there."""


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
        config: Configuration, as :func:`~geq.model.config.to_json` writes it.
    """

    name: str
    parameters: int
    multiply_adds: int
    input_shape: tuple[int, int, int]
    source: str
    reported: str | None
    config: Mapping[str, Any]


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
def contents() -> tuple[dict[str, Any], ...]:
    """Return what the files hold: "fields" of each class of configurations, and "models"."""
    return tuple(json.loads(file.read_text(encoding="utf-8")) for file in tables().values())


def model_fields(name: str) -> dict[str, tuple[Any, Any]]:
    """Return the fields of a model's configuration with their types and values; none of an unlisted model.

    >>> model_fields("geq_tiny")["patch"]
    (<class 'int'>, 2)
    """
    row = catalogue().get(name)
    if row is None:
        return {}
    kinds = {name: fields for found in contents() for name, fields in found["fields"].items()}
    return {
        field: (Literal[tuple(kind)] if isinstance(kind, list) else KINDS[kind], row.config[field])
        for field, kind in kinds[row.config[CLASS_KEY]].items()
    }


def kind_name(kind: Any) -> str | list[str]:
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return next(name for name, known in KINDS.items() if known == kind)


@cache
def catalogue() -> Mapping[str, ModelRow]:
    """Return the rows by name, in alphabetical order.

    >>> catalogue()["geq_tiny"].input_shape
    (1, 8, 8)
    """
    rows = [row for found in contents() for row in found["models"]]
    rows.sort(key=lambda row: str(row["name"]))
    return MappingProxyType(
        {row["name"]: ModelRow(**{**row, "input_shape": tuple(row["input_shape"])}) for row in rows}
    )


def count(name: str) -> ModelRow:
    """Count the parameters and multiply-adds of a model on the meta device, without memory for weights."""
    import torch

    from geq.model.model_registry import model_spec
    from geq.model.network import WithoutDrawing

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
        config=to_json(spec.config),
    )


def generated() -> dict[Path, str]:
    """Return the text that each file must have: a line for each class of configurations and each model."""
    from geq.model.model_registry import model_spec, registered_names

    found = {}
    for package, path in tables().items():
        names = [n for n in registered_names() if model_spec(n).network.__module__.startswith(f"{package}.")]
        kinds = {type(model_spec(name).config) for name in names}
        fields = [
            f'"{kind.__name__}": '
            + json.dumps({name: kind_name(hint) for name, hint in field_types(kind).items()})
            for kind in sorted(kinds, key=lambda kind: kind.__name__)
        ]
        rows = [json.dumps(asdict(count(name)), ensure_ascii=False) for name in names]
        found[path] = '{{"fields": {{\n{}\n}},\n"models": [\n{}\n]}}\n'.format(
            ",\n".join(fields), ",\n".join(rows)
        )
    return found


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
