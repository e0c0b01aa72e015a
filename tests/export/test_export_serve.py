"""The example server, asked over the loopback as a client would."""

from __future__ import annotations

import importlib.util
import io
import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("onnxruntime")

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "serve_onnx.py"
pytestmark = pytest.mark.slow


def load() -> ModuleType:
    specification = importlib.util.spec_from_file_location("serve_onnx", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def port(exported: Any) -> Iterator[int]:
    running = load().server(str(exported.path))
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    try:
        assert running.server_address[0] == "127.0.0.1"
        yield running.server_address[1]
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


def ask(port: int, method: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, "/", body, {name.replace("_", "-"): v for name, v in headers.items()})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def png(pixels: torch.Tensor) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray((255 * pixels).round().to(torch.uint8).numpy()).save(buffer, "PNG")
    return buffer.getvalue()


def test_pictures_are_classified_as_by_the_network(port: int, exported: Any, digits: torch.Tensor) -> None:
    statistics = exported.data.statistics
    with torch.no_grad():
        logits = exported.network((digits[:8] - statistics.mean[0]) / statistics.std[0])
    for image, expected in zip(digits[:8], logits.softmax(1), strict=True):
        status, said = ask(port, "POST", png(image[0]))
        assert status == 200
        assert said["class"] == str(int(expected.argmax()))
        assert abs(said["probability"] - float(expected.max())) < 1e-4
        assert said["converged"] is True
        assert set(said["residual"]) == set(said["steps"]) == set(exported.network.equilibria())


def test_a_photograph_of_any_size_and_kind_is_taken(port: int) -> None:
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (123, 301, 3), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, "JPEG")
    status, said = ask(port, "POST", buffer.getvalue())
    assert status == 200
    assert 0 < said["probability"] <= 1


@pytest.mark.parametrize("body", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n" + bytes(50)])
def test_what_is_no_picture_gets_400_and_the_server_goes_on(
    port: int, body: bytes, digits: torch.Tensor
) -> None:
    status, said = ask(port, "POST", body)
    assert status == 400
    assert "picture" in said["error"]
    assert ask(port, "POST", png(digits[0, 0]))[0] == 200


def test_too_much_is_refused_unread(port: int) -> None:
    assert ask(port, "POST", None, Content_Length="99999999999")[0] == 400
    assert ask(port, "POST", None, Content_Length="many")[0] == 400
    huge = io.BytesIO()
    Image.new("1", (9000, 9000)).save(huge, "PNG")
    status, said = ask(port, "POST", huge.getvalue())
    assert status == 400
    assert "too many" in said["error"]


def test_it_says_what_it_is(port: int) -> None:
    status, said = ask(port, "GET")
    assert status == 200
    assert said == {"classes": list("0123456789"), "shape": [1, 8, 8]}
