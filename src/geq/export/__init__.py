"""Trained networks as files that run without geq: ONNX with the fixed point as a ``Loop``, and torch.export.

A network is first rewritten in plain tensor operations (:mod:`geq.export.portable_model`): the effective
weights are folded, the compiled kernel and everything that works in place are left out, and each fixed point
becomes one ``while_loop``. Networks of geq are then traced once; both kinds of file are made from the trace
and compared with the network before they are written. :func:`portable` rewrites any other model with layers
of geq, for ``torch.export`` and ``torch.onnx.export`` themselves.
"""

from geq.export.check import Agreement
from geq.export.file_description import Description
from geq.export.onnx_file import save_onnx
from geq.export.portable_model import PortableModel, portable
from geq.export.portable_network import PortableNetwork
from geq.export.torch_file import save_torch

__all__ = [
    "Agreement",
    "Description",
    "PortableModel",
    "PortableNetwork",
    "portable",
    "save_onnx",
    "save_torch",
]
