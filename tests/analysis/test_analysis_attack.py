"""FGSM and PGD: gradients against finite differences, the ball and the range, and that they do harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from geq.analysis.analysed_network import Subject
from geq.analysis.attack import Attack, Victim, View, analyse, attack, attacked, fgsm, pgd, projected
from geq.analysis.settings import Settings
from geq.cli import main
from geq.data.dataset import Statistics
from geq.data.dataset_registry import load_dataset
from geq.errors import OptionError
from geq.gradients import Implicit, Phantom
from geq.model.model_registry import create_model
from geq.model.network import Network
from saved_runs import saved_run

DIGITS = load_dataset("digits", "train", validation=0)
STATISTICS = DIGITS.statistics


def pixels(count: int) -> tuple[Tensor, Tensor]:
    images, labels = DIGITS.batch(torch.arange(count))
    return images.float() / 255, labels


@pytest.fixture(scope="module")
def trained() -> Network:
    """A small GEQ after some steps on digits: enough for a loss that has a shape."""
    torch.manual_seed(0)
    model = create_model("geq_tiny")
    images, labels = pixels(256)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(24):
        rows = torch.arange(64) + 64 * (step % 4)
        loss = functional.cross_entropy(
            model((images[rows] - STATISTICS.mean[0]) / STATISTICS.std[0]), labels[rows]
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 1.0
    return model.eval()


@pytest.mark.parametrize("name", ["geq_tiny", "opteq_tiny", "deep_opteq_tiny", "dnn_tiny"])
def test_gradient_agrees_with_finite_differences(name: str) -> None:
    torch.manual_seed(1)
    model = create_model(name).double().eval()
    for layer in model.equilibria().values():
        layer.tol, layer.max_steps = 1e-13, 400
    labels = torch.tensor([3, 1, 4])
    images = torch.rand(3, 1, 8, 8, dtype=torch.float64)
    victim = Victim(model, STATISTICS)
    for layer in model.equilibria().values():
        layer.gradient = Phantom() if layer.gradient.iterations is None else layer.gradient
    with attacked(model):
        for layer in model.equilibria().values():
            assert isinstance(layer.gradient, Implicit)
            layer.gradient = Implicit(tol=1e-11, max_steps=500)
        view = victim.look(images, labels)
        assert view.gradient is not None
        for _ in range(3):
            direction = torch.randn_like(images)
            step = 1e-7  # so small that hardly a ReLU changes its side
            up, down = (
                victim.look(images + sign * step * direction, labels, differentiate=False).loss
                for sign in (1, -1)
            )
            slope = (view.gradient * direction).flatten(1).sum(1)
            torch.testing.assert_close((up - down) / (2 * step), slope, rtol=1e-4, atol=1e-5)


def test_attacked_gives_everything_back() -> None:
    model = create_model("geq_tiny")
    layers = list(model.equilibria().values())
    gradients = [layer.gradient for layer in layers]
    frozen = next(model.parameters())
    frozen.requires_grad_(False)
    with attacked(model):
        assert not any(parameter.requires_grad for parameter in model.parameters())
        assert all(isinstance(layer.gradient, Implicit) for layer in layers)
    assert [layer.gradient for layer in layers] == gradients
    assert not frozen.requires_grad
    assert all(parameter.requires_grad for parameter in model.parameters() if parameter is not frozen)


@pytest.mark.parametrize("epsilon", [2, 8, 30])
def test_pgd_is_worse_than_fgsm_is_worse_than_nothing(trained: Network, epsilon: int) -> None:
    images, labels = pixels(40)
    radius = epsilon / 255
    with attacked(trained):
        found = attack(Victim(trained, STATISTICS), images, labels, radius, steps=5, restarts=2, seed=0)
    assert bool((found["fgsm"].loss >= found["clean"].loss).all())
    assert bool((found["pgd"].loss >= found["fgsm"].loss).all())
    assert float(found["pgd"].loss.mean()) > float(found["clean"].loss.mean()) + 1e-3
    robust = [int(found[name].robust.sum()) for name in ("clean", "fgsm", "pgd")]
    assert robust == sorted(robust, reverse=True)
    for outcome in found.values():
        assert float((outcome.images - images).abs().max()) <= radius + 1e-6
        assert float(outcome.images.min()) >= 0
        assert float(outcome.images.max()) <= 1


def test_a_step_of_fgsm_raises_the_mean_loss_by_itself(trained: Network) -> None:
    """Without the clean image as a fallback: the gradient points upwards."""
    images, labels = pixels(60)
    victim = Victim(trained, STATISTICS)
    with attacked(trained):
        clean = victim.look(images, labels)
        one = fgsm(victim, images, labels, 4 / 255, clean)
        assert clean.gradient is not None
        away = projected(images - 4 / 255 * clean.gradient.sign(), images, 4 / 255)
        opposite = victim.look(away, labels, differentiate=False)
    assert float(one.loss.mean()) > float(clean.loss.mean()) > float(opposite.loss.mean())


def test_the_loss_of_an_outcome_is_that_of_its_images(trained: Network) -> None:
    images, labels = pixels(20)
    victim = Victim(trained, STATISTICS)
    with attacked(trained):
        start = fgsm(victim, images, labels, 0.1, victim.look(images, labels))
        many = pgd(victim, images, labels, 0.1, start, steps=4)
        again = pgd(victim, images, labels, 0.1, start, steps=4)
        seen = victim.look(many.images, labels, differentiate=False)
    torch.testing.assert_close(seen.loss, many.loss, rtol=1e-3, atol=1e-3)
    assert not bool((many.robust & ~seen.right).any())
    assert torch.equal(many.images, again.images)


@given(st.floats(0.001, 1.5), st.integers(0, 50))
def test_projection_stays_in_the_ball_and_in_the_range(radius: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    centre = torch.rand(2, 1, 3, 3, generator=generator, dtype=torch.float64)
    point = centre + 3 * torch.randn(centre.shape, generator=generator, dtype=torch.float64)
    found = projected(point, centre, radius)
    assert float((found - centre).abs().max()) <= radius + 1e-12
    assert 0 <= float(found.min()) <= float(found.max()) <= 1
    assert torch.equal(projected(found, centre, radius), found)


def test_the_worst_image_counts() -> None:
    images = torch.zeros(2, 1, 1, 1)
    no = torch.tensor([False, False])
    one = Attack(images, torch.tensor([1.0, 2.0]), torch.tensor([True, True]), no)
    view = View(torch.tensor([3.0, 1.0]), torch.tensor([True, False]), None, no)
    joined = one.also(images + 1, view)
    assert joined.loss.tolist() == [3.0, 2.0]
    assert joined.images.flatten().tolist() == [1.0, 0.0]
    assert joined.robust.tolist() == [True, False], "a wrong image counts also where its loss is smaller"


def test_statistics_are_those_of_the_run() -> None:
    model = create_model("dnn_tiny").eval()
    images, labels = pixels(4)
    view = Victim(model, Statistics((0.3,), (0.5,))).look(images, labels, differentiate=False)
    expected = functional.cross_entropy(model((images - 0.3) / 0.5), labels, reduction="none")
    torch.testing.assert_close(view.loss, expected.detach())


def test_the_part_keeps_each_radius(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = saved_run(tmp_path, "tiny", model="geq_tiny")
    settings = Settings(attack_images=20, attack_steps=2, epsilons=(1, 4))
    result = analyse(Subject(run, settings))
    assert list(result.values["epsilons"]) == ["1", "4"]
    written = next((run.path / "analysis").glob("attack-*.json"))
    record = json.loads(written.read_text())
    record["pieces"]["1"]["pgd"]["accuracy"] = 33.0
    written.write_text(json.dumps(record))
    more = analyse(Subject(run, Settings(attack_images=20, attack_steps=2, epsilons=(1, 2))))
    assert more.values["epsilons"]["1"]["pgd"]["accuracy"] == 33.0
    call = ["analyze", str(run.path), "--only", "attack", "--attack_images", "20", "--attack_steps", "2"]
    assert main([*call, "--epsilons", "1,4", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["attack"]["epsilons"]
    assert shown["4"] == result.values["epsilons"]["4"]
    assert main([*call, "--epsilons", "1,x"]) == 2
    assert "numbers separated by commas, such as 1,2,4: got 1,x" in capsys.readouterr().err


@pytest.mark.parametrize("changes", [{"epsilons": (0,)}, {"epsilons": ()}, {"attack_steps": 0}, {"limit": 0}])
def test_settings_that_cannot_be(changes: dict[str, int]) -> None:
    with pytest.raises(OptionError):
        Settings(**changes)  # type: ignore[arg-type]
