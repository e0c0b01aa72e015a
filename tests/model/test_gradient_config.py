"""Names of gradients and regularisers in a configuration; models of earlier versions stay readable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import geq
from geq.errors import CheckpointError, OptionError
from geq.model.gradient_config import FREQUENCIES
from geq.model.network import Network


def gradient_of(model: Network) -> geq.gradients.Gradient:
    (layer,) = model.equilibria().values()
    return layer.gradient


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, geq.gradients.Implicit(tol=1e-3)),
        ({"gradient": "implicit", "gradient_tol": 1e-5}, geq.gradients.Implicit(tol=1e-5)),
        ({"gradient": "jacobian_free"}, geq.gradients.JacobianFree()),
        ({"gradient": "phantom"}, geq.gradients.Phantom(5, 0.8)),
        ({"gradient": "phantom", "gradient_steps": 3}, geq.gradients.Phantom(3, 0.8)),
        ({"gradient": "unrolled"}, geq.gradients.Unrolled(20, 1.0)),
        (
            {"gradient": "unrolled", "gradient_steps": 7, "gradient_damping": 0.5},
            geq.gradients.Unrolled(7, 0.5),
        ),
    ],
)
def test_gradients_by_name(options: dict[str, object], expected: geq.gradients.Gradient) -> None:
    assert gradient_of(geq.create_model("opteq_tiny", **options)) == expected


def test_sam_by_name() -> None:
    options = {
        "gradient": "averaging",
        "regulariser": "hsic_fourier",
        "regulariser_weight": 2.0,
        "gradient_steps": 4,
    }
    gradient = gradient_of(geq.create_model("opteq_tiny", **options))
    assert isinstance(gradient, geq.gradients.SequentialAveraging)
    assert isinstance(gradient.regulariser, geq.regularizers.HSIC)
    assert (gradient.steps, gradient.step_size, gradient.regulariser.fourier) == (4, 2.0, FREQUENCIES)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gradient": "unrolled", "gradient_steps": 0}, "Unrolled: steps must be at least 1: got 0"),
        ({"gradient": "unroled"}, "gradient must be one of"),
        ({"gradient": "averaging"}, "gradient averaging needs a regulariser, one of decay"),
        ({"gradient": "averaging", "regulariser": "hsik"}, "regulariser must be one of"),
        (
            {"gradient": "averaging", "regulariser": "decay", "regulariser_weight": 0.0},
            "weight must be above 0",
        ),
        ({"regulariser": "decay"}, "for gradient averaging: got decay with implicit"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        geq.create_model("opteq_tiny", **options)


def test_a_saved_sam_model_is_the_same_network(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = geq.create_model(
        "opteq_tiny", gradient="averaging", regulariser="decorrelation", gradient_steps=3
    ).eval()
    again = Network.from_pretrained(model.save_pretrained(tmp_path))
    x = torch.randn(4, 1, 8, 8)
    assert again.config == model.config
    torch.testing.assert_close(again(x), model(x), rtol=0, atol=0)


def test_models_saved_before_there_were_regularisers_are_read(tmp_path: Path) -> None:
    model = geq.create_model("opteq_tiny")
    file = model.save_pretrained(tmp_path) / "config.json"
    description = json.loads(file.read_text())
    for name in ("regulariser", "regulariser_weight"):
        del description["config"][name]
    file.write_text(json.dumps(description))
    assert Network.from_pretrained(tmp_path).config == model.config
    del description["config"]["tol"]  # not a field that came later
    file.write_text(json.dumps(description))
    with pytest.raises(CheckpointError, match="missing: tol"):
        Network.from_pretrained(tmp_path)
