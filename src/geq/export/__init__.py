"""Trained networks as files that run without geq: ONNX with the fixed point as a ``Loop``, and torch.export.

A network is first rewritten in plain tensor operations (:mod:`geq.export.portable`): the effective weights
are folded, the compiled kernel and everything that works in place are left out, and each fixed point becomes
one ``while_loop``. That module is traced once; both kinds of file are made from the trace and compared with
the network before they are written.
"""

from geq.export.check import Agreement
from geq.export.file_description import Description
from geq.export.onnx_file import save_onnx
from geq.export.portable import PortableNetwork
from geq.export.torch_file import save_torch

__all__ = ["Agreement", "Description", "PortableNetwork", "save_onnx", "save_torch"]
