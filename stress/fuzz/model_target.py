"""Readers of networks: the folder of a saved model, and the ONNX file whose tolerance is changed."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from geq.export.onnx_file import retuned
from geq.model.network import Network
from geq.model.registry import create_model
from stress.fuzz.mutation import in_json, in_safetensors
from stress.fuzz.target import add, put, scratch


@lru_cache(maxsize=2)
def saved(process: str) -> tuple[dict[str, Any], bytes]:
    """The two files of a small network."""
    folder = Path(create_model("mon_tiny", channels=2, num_classes=2).save_pretrained(scratch("saved")))
    return json.loads((folder / "config.json").read_text()), (folder / "model.safetensors").read_bytes()


def _config(data: bytes) -> None:
    folder = scratch("model-config")
    put(folder / "model.safetensors", saved(str(scratch()))[1])
    put(folder / "config.json", data)
    Network.from_pretrained(folder)


def _weights(data: bytes) -> None:
    """With the right checksum: an attacker can compute one as well."""
    folder = scratch("model-weights")
    description = {**saved(str(scratch()))[0], "weights_sha256": hashlib.sha256(data).hexdigest()}
    put(folder / "config.json", json.dumps(description).encode())
    put(folder / "model.safetensors", data)
    Network.from_pretrained(folder)


def _onnx(data: bytes) -> None:
    retuned(data, 1e-6, 50)


def _onnx_files() -> list[bytes]:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    defaults = [
        numpy_helper.from_array(np.asarray(1e-3, dtype=np.float32), "tolerance"),
        numpy_helper.from_array(np.asarray(50, dtype=np.int64), "max_steps"),
    ]
    images, logits = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("images", "logits")
    )
    node = helper.make_node("Mul", ["images", "tolerance"], ["logits"])
    graph = helper.make_graph([node], "network", [images], [logits], defaults)
    model: onnx.ModelProto = helper.make_model(graph)
    return [model.SerializeToString()]


add(
    "model_config",
    "config.json of a saved network",
    _config,
    lambda: [json.dumps(saved(str(scratch()))[0]).encode()],
    in_json,
    largest=4096,
    rate=0.2,
)
add(
    "model_weights",
    "model.safetensors of a saved network, with a right checksum",
    _weights,
    lambda: [saved(str(scratch()))[1]],
    in_safetensors,
    largest=4096,
    rate=0.2,
)
add("onnx", "the content of an ONNX file whose tolerance is changed", _onnx, _onnx_files, largest=2048)
