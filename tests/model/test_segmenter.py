"""Networks that label pixels: sizes, parameters, what they are made of, and what they refuse."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from geq.errors import InputError, OptionError
from geq.layers.deep import DeepOptEq2d
from geq.model.deep_segmenter import DeepSegmenter
from geq.model.model_registry import create_model
from geq.model.segmenter import Segmenter
from geq.regularizers import Decorrelation
from geq_papers.model.fcn import FCN

SMALL = {
    "fcn_camvid_small": {"stem_channels": (4, 6), "channels": (6, 8, 8), "strides": (1, 2, 2)},
    "opteq_camvid_small": {"stem_channels": (4, 6), "channels": (4, 6), "head_channels": 8},
}


def parameters(name: str) -> int:
    with torch.device("meta"):
        return create_model(name).parameter_count()


def narrow(name: str) -> Segmenter:
    model = create_model(name, num_classes=5, **SMALL[name])
    assert isinstance(model, Segmenter)
    return model


@pytest.mark.parametrize("kind", ["cityscapes", "camvid_small"])
def test_both_networks_have_the_same_number_of_parameters(kind: str) -> None:
    assert parameters(f"fcn_{kind}") == pytest.approx(parameters(f"opteq_{kind}"), rel=0.02)


def test_small_ones_are_small() -> None:
    assert parameters("opteq_camvid_small") == pytest.approx(100_000, rel=0.1)


def test_the_backbone_of_the_paper() -> None:
    with torch.device("meta"):
        model = create_model("opteq_cityscapes")
    assert isinstance(model, DeepSegmenter)
    assert [layer.W.out_channels for layer in model.equilibrium.cell.units] == [256, 512, 512]
    assert model.num_classes == 19


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("size", [(24, 32), (23, 31), (17, 45), (5, 4), (1, 1)])
def test_any_size_goes_in_and_comes_out(name: str, size: tuple[int, int]) -> None:
    model = narrow(name).eval()
    with torch.no_grad():
        assert model(torch.randn(2, 3, *size)).shape == (2, 5, *size)


@pytest.mark.parametrize("name", SMALL)
def test_images_with_other_channels_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="takes images of shape"):
        narrow(name)(torch.zeros(1, 4, 8, 8))
    with pytest.raises(InputError, match="must have pixels"):
        narrow(name)(torch.zeros(1, 3, 0, 8))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("fcn_camvid_small", {"channels": (4,), "strides": (1, 2)}),
        ("fcn_camvid_small", {"strides": (1, 3, 2, 1)}),
        ("fcn_camvid_small", {"stem_channels": (0, 4)}),
        ("opteq_camvid_small", {"stem_strides": (2,)}),
        ("opteq_camvid_small", {"head_channels": 0}),
        ("opteq_camvid_small", {"alpha": 0.0}),
        ("opteq_camvid_small", {"alpha": 1.5}),
        ("opteq_camvid_small", {"channels": ()}),
        ("opteq_camvid_small", {"gradient": "unrolled", "gradient_steps": 0}),
    ],
)
def test_what_cannot_be_built(name: str, changes: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        create_model(name, **changes)


def test_fcn_sums_the_scores_of_every_resolution() -> None:
    model = narrow("fcn_camvid_small").eval()
    assert isinstance(model, FCN)
    assert len(model.stages) == len(model.classifiers) == 3
    x = torch.randn(1, 3, 40, 56)
    maps = [model.stem(x)]
    for stage in model.stages:
        maps.append(stage(maps[-1]))
    assert [tuple(m.shape[2:]) for m in maps[1:]] == [(10, 14), (5, 7), (3, 4)]

    def up(scores: Tensor, like: Tensor) -> Tensor:
        return F.interpolate(scores, like.shape[2:], mode="bilinear")

    fine, middle, coarse = (c(m) for c, m in zip(model.classifiers, maps[1:], strict=True))
    expected = up(fine + up(middle + up(coarse, middle), fine), x)
    torch.testing.assert_close(model(x), expected)


def test_a_fcn_without_halving_has_one_score() -> None:
    model = create_model("fcn_camvid_small", channels=(6,), strides=(1,))
    assert isinstance(model, FCN)
    assert len(model.classifiers) == 1


def test_deep_opteq_scores_its_equilibrium() -> None:
    """z of the output is a fixed point of the three layers, found on the stem's map."""
    model = narrow("opteq_camvid_small").double().eval()
    assert isinstance(model, DeepSegmenter)
    model.equilibrium.tol = 1e-9
    x = torch.randn(2, 3, 20, 28, dtype=torch.float64)
    with torch.no_grad():
        features = model.stem(x)
        z = model.equilibrium(features)
        cell = model.equilibrium.cell
        torch.testing.assert_close(cell(z, cell.inject(features)), z, rtol=1e-7, atol=1e-9)
        scores = model.classifier(model.head(model.norm(z)))
        torch.testing.assert_close(model(x), F.interpolate(scores, (20, 28), mode="bilinear"))
    assert z.shape == (2, 6, 5, 7)


def test_options_reach_the_layer() -> None:
    model = create_model(
        "opteq_camvid_small",
        alpha=0.5,
        learn_alpha=True,
        separable=True,
        state_channels=20,
        regulariser="decorrelation",
    )
    assert isinstance(model, DeepSegmenter)
    layer = model.equilibrium
    assert isinstance(layer, DeepOptEq2d)
    assert [round(float(unit.alpha.detach()), 6) for unit in layer.cell.units] == [0.5] * 3
    assert layer.cell.units[0].W.in_channels == 20
    assert isinstance(layer.cell.regulariser, Decorrelation)
    sam = create_model("opteq_camvid_small", gradient="averaging", regulariser="decay")
    assert isinstance(sam, DeepSegmenter)
    assert sam.equilibrium.cell.regulariser is None, "SAM follows it by itself"


@pytest.mark.parametrize("gradient", ["implicit", "unrolled", "phantom"])
def test_every_training_mode(gradient: str) -> None:
    model = create_model(
        "opteq_camvid_small", num_classes=5, gradient=gradient, **SMALL["opteq_camvid_small"]
    )
    model(torch.randn(2, 3, 12, 16)).square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name
