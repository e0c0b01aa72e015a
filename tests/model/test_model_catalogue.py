"""The generated table of the models against the models themselves."""

from __future__ import annotations

import pytest

from geq.model.catalogue import catalogue, generated, tables
from geq.model.model_registry import model_spec, registered_names

ADVICE = "the table of the models is out of date: run 'python -m geq.model.catalogue'"


def test_the_table_names_the_registered_models() -> None:
    assert list(catalogue()) == registered_names(), ADVICE
    for name, row in catalogue().items():
        spec = model_spec(name)
        assert (row.input_shape, row.source, row.reported) == (
            spec.input_shape,
            spec.source,
            spec.reported,
        ), ADVICE


@pytest.mark.slow
def test_the_table_counts_what_the_models_have() -> None:
    assert set(generated()) == set(tables().values())
    for path, text in generated().items():
        assert path.read_text(encoding="utf-8") == text, ADVICE
