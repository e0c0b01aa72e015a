"""The network as an ONNX file, with every fixed point as a ``Loop`` that stops by tolerance.

The input is ``images``. The outputs are ``logits`` and, where there are equilibria, ``residual`` and
``steps`` (a column each) and ``converged``. Standard operators only; the description is in the file's
metadata. The initializers ``tolerance`` and ``max_steps`` say when loops stop; :func:`retuned` changes them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from geq.errors import DataError, MissingExtraError, OptionError, one_line
from geq.export.check import MANY_STEPS, TIGHT, Agreement, Runner, compare
from geq.export.file_description import Description
from geq.export.output_file import put, reason, without_noise
from geq.export.portable_network import PortableNetwork
from geq.export.torch_file import example, trace
from geq.model.network import Network

OPSET = 18
BATCH = "batch"
KINDS = {1: "float32", 7: "int64", 11: "float64"}
"""ONNX's numbers of the types that a tolerance and a number of steps can have."""
INPUTS = ("images", "tolerance", "max_steps")
OUTPUTS = ("logits", "residual", "steps", "converged")


class WithOptions(nn.Module):
    """The network with its tolerance and its number of steps as inputs."""

    def __init__(self, portable: PortableNetwork) -> None:
        super().__init__()
        self.portable = portable

    def forward(self, images: Tensor, tolerance: Tensor, max_steps: Tensor) -> tuple[Tensor, ...]:
        return self.portable.labelled(images, tolerance, max_steps)


def need_onnx() -> None:
    """Refuse at once, not after a long trace, where a package is missing."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        try:
            __import__(package)
        except ImportError as problem:
            raise MissingExtraError.naming(package, "export", "an ONNX file") from problem


def to_onnx(portable: PortableNetwork, description: Description) -> bytes:
    """The content of the file."""
    need_onnx()
    import onnx
    import onnx_ir
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    images = example(description.shape)
    defaults = {"tolerance": portable.tolerance, "max_steps": portable.max_steps}
    if portable.equilibria:
        program = trace(WithOptions(portable), (images, *defaults.values()))
    else:
        defaults, program = {}, trace(portable, (images,))
    try:
        with without_noise():
            exported = torch.onnx.export(
                program,
                (),
                dynamo=True,
                verbose=False,
                opset_version=OPSET,
                input_names=INPUTS[: 1 + len(defaults)],
                output_names=OUTPUTS if defaults else OUTPUTS[:1],
            )
    except Exception as problem:  # the exporter has no common class of errors
        raise OptionError(
            f"this network has an operation that torch {torch.__version__} cannot write as ONNX: "
            f"{reason(problem)}"
        ) from problem
    assert exported is not None
    model = RemoveUnusedNodesPass()(exported.model).model
    model.metadata_props.clear()
    model.metadata_props.update(description.properties(portable))
    proto = onnx_ir.to_proto(model)
    del proto.graph.input[1:]
    name_batch(proto.graph)
    for name, value in defaults.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(value.numpy(), name))
    onnx.checker.check_model(proto, full_check=True)
    return proto.SerializeToString()


def name_batch(graph: Any) -> None:
    """Call the first axis of the input ``batch`` wherever it stands; the tracer calls it "s34"."""
    traced = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    rename_axis(graph, re.compile(rf"\b{re.escape(traced)}\b"))


def rename_axis(graph: Any, symbol: re.Pattern[str]) -> None:
    """Rename a symbol of axes in a graph and in the bodies of its loops."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param:
                axis.dim_param = symbol.sub(BATCH, axis.dim_param)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                rename_axis(attribute.g, symbol)


def retuned(content: bytes, tolerance: float, max_steps: int) -> bytes:
    """The same file with loops that stop at another tolerance, or after another number of evaluations."""
    import onnx

    try:
        proto = onnx.load_model_from_string(content)
    except Exception as problem:  # protobuf's own class of errors is none of ours
        raise DataError(f"this is not the content of an ONNX file: {one_line(problem)}") from problem
    chosen = {"tolerance": tolerance, "max_steps": max_steps}
    for tensor in proto.graph.initializer:
        if tensor.name in chosen:
            kind = KINDS.get(tensor.data_type)
            if kind is None or tensor.dims:
                raise DataError(f"{tensor.name} must be one number: the file was not written by geq")
            dtype = numpy.dtype(kind)
            tensor.CopyFrom(
                onnx.numpy_helper.from_array(numpy.asarray(chosen[tensor.name], dtype), tensor.name)
            )
    return proto.SerializeToString()


def session(content: bytes) -> Any:
    """onnxruntime with the file, and with as many threads as torch."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def runner(content: bytes) -> Runner:
    """The file at work in onnxruntime."""
    sessions = {False: session(content), True: session(retuned(content, TIGHT, MANY_STEPS))}

    def run(images: Tensor, tight: bool) -> tuple[Tensor, ...]:
        return tuple(
            torch.from_numpy(value) for value in sessions[tight].run(None, {"images": images.numpy()})
        )

    return run


def save_onnx(network: Network, description: Description, images: Tensor, path: Path) -> Agreement:
    """Write ``network`` to ``path``, unless the file would not compute the same on ``images``."""
    need_onnx()
    portable = PortableNetwork(network, description.statistics, description.shape[1:])
    content = to_onnx(portable, description)
    agreement = compare(network, description.statistics, runner(content), images)
    put(path, content)
    return agreement
