"""The ways to train (OptEq, algorithm 1): the same gradient in the limit, and each from the command line."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import geq
from geq.cli import main
from geq.errors import OptionError
from geq.model.network import Network
from geq.training.fit import train
from geq.training.run_folder import RunFolder
from geq.training.setup import build_model, open_datasets
from geq.training.train_options import TrainOptions

Small = Callable[..., TrainOptions]
SAM = {"gradient": "averaging", "regulariser": "hsic", "regulariser_weight": 1.0, "steps": 4}


def gradients(name: str = "opteq_tiny", **options: object) -> list[Tensor]:
    """Of a loss in all parameters, of the same small network in double precision."""
    torch.manual_seed(0)
    model = geq.create_model(name, bound=0.5, tol=1e-12, max_steps=200, **options).double().eval()
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 1, 8, 8, generator=generator, dtype=torch.float64)
    loss = torch.nn.functional.cross_entropy(model(x), torch.tensor([1, 2, 3]))
    return list(torch.autograd.grad(loss, list(model.parameters())))


def distance(first: list[Tensor], second: list[Tensor]) -> float:
    total = torch.stack([(a - b).square().sum() for a, b in zip(first, second, strict=True)]).sum().sqrt()
    return float(total / torch.stack([b.square().sum() for b in second]).sum().sqrt())


def test_the_three_modes_have_the_same_gradient_in_the_limit() -> None:
    """With a unique fixed point SAM's regulariser must lose its influence, like β_K ~ K^{−ρ}."""
    implicit = gradients(gradient="implicit", gradient_tol=1e-12)
    unrolled = {k: gradients(gradient="unrolled", gradient_steps=k) for k in (3, 60)}
    assert distance(unrolled[60], implicit) < 1e-9
    assert distance(unrolled[3], implicit) > 1e-3  # so the test can fail
    sam = {
        k: gradients(gradient="averaging", regulariser="decay", regulariser_weight=0.5, gradient_steps=k)
        for k in (10, 160)
    }
    assert distance(sam[160], implicit) < 0.5 * distance(sam[10], implicit)  # 16^−0.4 = 0.33
    assert distance(sam[160], implicit) < 0.1


@pytest.mark.parametrize("regulariser", ["decay", "decorrelation", "hsic"])
def test_a_regulariser_in_the_problem_has_one_gradient_too(regulariser: str) -> None:
    """Strategy (*): z = T(T_R(z)), by the implicit function theorem and through the iterations."""
    options = {"regulariser": regulariser, "regulariser_weight": 0.05}
    implicit = gradients("deep_opteq_tiny", gradient="implicit", gradient_tol=1e-12, **options)
    unrolled = gradients("deep_opteq_tiny", gradient="unrolled", gradient_steps=60, **options)
    without = gradients("deep_opteq_tiny", gradient="implicit", gradient_tol=1e-12)
    assert distance(unrolled, implicit) < 1e-8
    assert distance(without, implicit) > 1e-7  # the regulariser does something


@pytest.mark.parametrize(
    "options",
    [
        {"gradient": "implicit"},
        {"gradient": "phantom"},
        {"gradient": "jacobian_free"},
        {"gradient": "unrolled", "steps": 4},
        SAM,
        {"model": "deep_opteq_tiny", "gradient": "implicit", "regulariser": "decorrelation"},
        {"model": "deep_opteq_tiny", **SAM},
    ],
    ids=lambda options: f"{options.get('model', 'opteq_tiny')}-{options['gradient']}",
)
def test_every_mode_trains_and_is_evaluated_as_it_was_trained(
    options: dict[str, object], small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = train(small(**{"model": "opteq_tiny", "name": "run", "epochs": 1, **options}))
    assert outcome is not None
    saved = Network.from_pretrained(outcome.folder.model)
    assert saved.config.gradient == options["gradient"]  # type: ignore[attr-defined]
    assert main(["evaluate", str(outcome.folder.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == outcome.final["test_accuracy"]


def test_command_line(tmp_path: Path) -> None:
    arguments = "--model opteq_tiny --train_size 64 --epochs 1 --picture false --threads 1 --name first"
    chosen = "--gradient unrolled --steps 3"
    assert main(["train", *arguments.split(), *chosen.split(), "--runs", str(tmp_path)]) == 0
    folder = RunFolder.find("first", str(tmp_path))
    assert (folder.options().gradient, folder.options().steps) == ("unrolled", 3)
    (layer,) = Network.from_pretrained(folder.model).equilibria().values()
    assert layer.gradient == geq.gradients.Unrolled(3)


def test_option_replaces_the_override_of_a_preset() -> None:
    options = TrainOptions(override={"gradient": "phantom", "gamma": "paper"}, gradient="unrolled", steps=2)
    model = build_model(options, open_datasets(options).describe())
    assert model.config.gradient == "unrolled"  # type: ignore[attr-defined]
    options = TrainOptions(override={"gradient": "phantom"}, steps=2)
    model = build_model(options, open_datasets(options).describe())
    assert next(iter(model.equilibria().values())).gradient == geq.gradients.Phantom(2)


def test_missing_the_tolerance_is_no_failure_of_unrolled_iterations(
    small: Small, caplog: pytest.LogCaptureFixture
) -> None:
    options = small(model="opteq_tiny", gradient="unrolled", steps=1, epochs=1)
    with caplog.at_level(logging.WARNING, "geq.training"):
        outcome = train(options)
    assert outcome is not None
    assert outcome.final["test_unconverged"] == 1
    assert "missed the tolerance" not in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be at least 1: got 0"),
        (
            {"gradient": "implicit", "steps": 3},
            "steps are for the gradients phantom, unrolled, reversible, averaging",
        ),
        ({"steps": 3}, "whose gradient is implicit; add --gradient unrolled"),
        ({"gradient": "averaging"}, "gradient averaging needs a regulariser"),
        ({"model": "mon_tiny", "gradient": "unrolled"}, "got gradient for mon_tiny"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    description = open_datasets(TrainOptions()).describe()
    with pytest.raises(OptionError, match=message):
        build_model(TrainOptions(**{"model": "opteq_tiny", **options}), description)
