"""Exported files at work: in onnxruntime, and in torch without geq."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from geq.data.dataset import Statistics
from geq.equilibrium import ignore_failures
from geq.errors import GeqError, OptionError
from geq.export import Description, PortableNetwork, check, onnx_file, save_onnx, save_torch
from geq.export.check import random_images
from geq.model.model_registry import create_model
from geq.model.network import Network

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

SMALL = ("geq_small", "mopteq_small", "opteq_small", "deep_opteq_small", "kerdeq_small", "resnet_small")


def described(network: Network) -> Description:
    channels = network.input_shape[0]
    statistics = Statistics((0.4,) * channels, (0.3,) * channels)
    return Description("name", tuple("abcdefghij"), statistics, network.input_shape)


def operators(graph: Any) -> list[Any]:
    """Every node, those inside of loops too."""
    nodes = []
    for node in graph.node:
        nodes.append(node)
        for attribute in node.attribute:
            nodes += operators(attribute.g) if attribute.HasField("g") else []
    return nodes


def normalised(images: torch.Tensor, statistics: Statistics) -> torch.Tensor:
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (statistics.mean, statistics.std))
    return (images - mean) / std


@pytest.mark.slow
def test_a_thousand_digits_are_classified_as_the_network_does(exported: Any, digits: torch.Tensor) -> None:
    run = onnx_file.runner(exported.path.read_bytes())
    x = normalised(digits, exported.data.statistics)
    expected, settled = check.reference(check.tightened(exported.network), x)
    assert bool(settled.all())
    found = run(digits, True)[0]
    torch.testing.assert_close(found.softmax(1), expected.softmax(1), rtol=0, atol=1e-5)
    assert float((found - expected).abs().max()) <= 1e-5 * max(1.0, float(expected.abs().max()))
    with torch.no_grad():
        own = exported.network(x)
    assert torch.equal(run(digits, False)[0].argmax(1), own.argmax(1))


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3, 64])
def test_one_file_takes_any_batch(exported: Any, digits: torch.Tensor, batch: int) -> None:
    run = onnx_file.runner(exported.path.read_bytes())
    together = run(digits[:64], False)[0]
    parts = [run(part, False)[0] for part in digits[:64].split(batch)]
    torch.testing.assert_close(torch.cat(parts), together, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_the_steps_and_residuals_are_the_networks(exported: Any, digits: torch.Tensor) -> None:
    _, residual, steps, converged = onnx_file.runner(exported.path.read_bytes())(digits[:64], False)
    with torch.no_grad():
        exported.network(normalised(digits[:64], exported.data.statistics))
    for column, layer in enumerate(exported.network.equilibria().values()):
        assert (steps[:, column] == layer.last_solution.steps).float().mean() > 0.95
        near = steps[:, column] == layer.last_solution.steps
        torch.testing.assert_close(
            residual[near, column], layer.last_solution.residual[near], rtol=0.02, atol=1e-7
        )
    assert bool(converged.all())


def nested_values(graph: Any) -> list[Any]:
    """The described values of a graph and of the bodies of its loops."""
    bodies = [item.g for node in graph.node for item in node.attribute if item.HasField("g")]
    own = [*graph.input, *graph.output, *graph.value_info]
    return own + [value for body in bodies for value in nested_values(body)]


@pytest.mark.slow
def test_the_file_has_loops_standard_operators_and_says_what_it_is(exported: Any) -> None:
    model = onnx.load(exported.path)
    onnx.checker.check_model(model, full_check=True)
    nodes = operators(model.graph)
    assert sum(node.op_type == "Loop" for node in nodes) == len(exported.network.equilibria())
    assert {node.domain for node in nodes} == {""}
    assert not model.functions
    said = {item.key: item.value for item in model.metadata_props}
    assert json.loads(said["classes"]) == list("0123456789")
    assert json.loads(said["mean"]) == list(exported.data.statistics.mean)
    assert json.loads(said["std"]) == list(exported.data.statistics.std)
    assert json.loads(said["shape"]) == [1, 8, 8]
    assert json.loads(said["equilibria"]) == list(exported.network.equilibria())
    assert float(said["tolerance"]) == 1e-3
    assert said["geq_version"]
    session = onnxruntime.InferenceSession(exported.path)
    assert [item.name for item in session.get_inputs()] == ["images"]
    assert session.get_inputs()[0].shape[1:] == [1, 8, 8]
    for value in (*session.get_inputs(), *session.get_outputs()):
        assert value.shape[0] == "batch", value.name
    axes = [
        axis.dim_param for value in nested_values(model.graph) for axis in value.type.tensor_type.shape.dim
    ]
    assert not [axis for axis in axes if axis.startswith("s") and axis[1:].isdecimal()], (
        "also inside the loops"
    )
    assert "resize((8, 8), Image.Resampling.BILINEAR" in said["preprocessing"]
    assert "0.299 red" in said["preprocessing"], "it takes one channel"


@pytest.mark.slow
def test_images_that_do_not_converge_are_reported(exported: Any, digits: torch.Tensor) -> None:
    content = exported.path.read_bytes()
    hasty = onnx_file.session(onnx_file.retuned(content, 1e-3, 2))
    _, residual, steps, converged = hasty.run(None, {"images": digits[:5].numpy()})
    assert (steps == 2).all()
    assert (residual > 1e-3).any(axis=1).all()
    assert not converged.any()
    images = digits[:3].clone()
    images[1] = math.nan
    logits, residual, _, converged = onnx_file.session(content).run(None, {"images": images.numpy()})
    assert converged.tolist() == [True, False, True]
    assert math.isinf(residual[1].max())
    assert torch.from_numpy(logits[[0, 2]]).isfinite().all()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "geq_small" else pytest.mark.nightly)
        for name in SMALL
    ],
)
def test_small_networks_agree(name: str, tmp_path: Path) -> None:
    network = create_model(name)
    network.train()(torch.randn(16, *network.input_shape))
    network.eval()
    images = random_images(200, network.input_shape)
    agreement = save_onnx(network, described(network), images, tmp_path / "model.onnx")
    assert agreement.difference <= 1e-5
    assert agreement.settled == agreement.images == 200
    assert agreement.same_class > 0.99


def test_a_network_without_equilibria_gives_its_logits_alone(tmp_path: Path) -> None:
    network = create_model("resnet_tiny").eval()
    images = random_images(70, network.input_shape)
    path = tmp_path / "model.onnx"
    agreement = save_onnx(network, described(network), images, path)
    assert agreement.difference <= 1e-5
    assert (agreement.images, agreement.settled, agreement.unconverged) == (70, 70, 0)
    outputs = onnxruntime.InferenceSession(path).run(None, {"images": images.numpy()})
    assert len(outputs) == 1
    with torch.no_grad():
        expected = network(normalised(images, described(network).statistics))
    torch.testing.assert_close(torch.from_numpy(outputs[0]), expected, rtol=1e-5, atol=1e-5)


def test_a_file_that_would_be_wrong_is_not_written(tmp_path: Path) -> None:
    """Statistics of the description that are not those inside: what a careless change might do."""
    network = create_model("resnet_tiny").eval()
    description, images = described(network), random_images(8, network.input_shape)
    content = onnx_file.to_onnx(
        PortableNetwork(network, Statistics((0.3,), (0.3,)), network.input_shape[1:]), description
    )
    with pytest.raises(GeqError, match=r"must be within .* they differ by"):
        check.compare(network, description.statistics, onnx_file.runner(content), images)
    network.head.weight.data.fill_(math.nan)
    with pytest.raises(GeqError, match="they differ by inf"):
        save_onnx(network, description, images, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_no_equilibrium_within_reach_is_an_error_and_not_an_agreement() -> None:
    network = create_model("opteq_tiny", constraint="none").eval()
    description, images = described(network), random_images(4, network.input_shape)
    copied = PortableNetwork(network, description.statistics, network.input_shape[1:])
    with pytest.raises(GeqError, match="none of the 4 images"), warnings.catch_warnings():
        check.compare(network, description.statistics, lambda batch, tight: copied(batch), images)


def test_an_operation_that_no_trace_can_follow_is_explained() -> None:
    from geq.export.torch_file import trace

    class Sorted(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images if float(images.sum()) > 0 else -images

    with pytest.raises(OptionError, match=r"torch\.export cannot trace"):
        trace(Sorted(), (torch.rand(2, 1, 8, 8),))


@pytest.mark.slow
def test_the_torch_file_runs_without_geq(tmp_path: Path) -> None:
    network = create_model("geq_tiny").eval()
    images, path = random_images(12, network.input_shape), tmp_path / "model.pt2"
    agreement = save_torch(network, described(network), images, path)
    assert agreement.difference <= 1e-5
    torch.save(images, tmp_path / "images.pt")
    code = f"""
import json, sys, torch
files = {{"geq.json": ""}}
program = torch.export.load({str(path)!r}, extra_files=files).module()
images = torch.load({str(tmp_path / "images.pt")!r})
assert json.loads(json.loads(files["geq.json"])["classes"]) == list("abcdefghij")
for batch in (1, 3, 12):
    logits, residual, steps, converged = program(images[:batch])
    assert converged.all() and residual.shape == steps.shape == (batch, 2)
program.tolerance.fill_(1e-6)
finer = program(images)
assert (finer[2] > steps).all() and (finer[1] <= 1e-6).all()
program.max_steps.fill_(2)
assert not program(images)[3].any()
assert "geq" not in sys.modules
torch.save(logits, {str(tmp_path / "logits.pt")!r})
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=300)
    with torch.no_grad(), ignore_failures(network):
        expected = network(normalised(images, described(network).statistics))
    torch.testing.assert_close(torch.load(tmp_path / "logits.pt"), expected, rtol=0, atol=1e-5)


def test_the_torch_file_of_a_network_without_equilibria(tmp_path: Path) -> None:
    network = create_model("dnn_tiny").eval()
    path = tmp_path / "model.pt2"
    agreement = save_torch(network, described(network), random_images(8, network.input_shape), path)
    assert agreement.difference <= 1e-6
    assert zip_starts(path)


def zip_starts(path: Path) -> bool:
    return io.BytesIO(path.read_bytes()).read(2) == b"PK"
