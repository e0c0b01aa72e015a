"""The compiled form of the patch operation, where the machine has a C compiler; nothing but a faster twin.

``load`` compiles ``patch_kernel.c`` once (about a second) into the user's cache and loads it with ctypes.
Without a compiler, on other devices and in other precisions the plain torch formula is used.
``GEQ_COMPILE=0`` turns it off.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from geq.cache_folder import user_cache
from geq.errors import InputError

SOURCE = Path(__file__).with_name("patch_kernel.c")
FLAGS = ("-O3", "-march=native", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math")
LIMIT, PAD = 512, 16
"""Most entries of a patch, and the multiple that its rows of G are padded to; as in the C file."""


class Geometry(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_ssize_t)
        for name in (
            *("batch", "channels", "height", "width"),
            *("batch_stride", "channel_stride", "row_stride", "column_stride"),
            *("patch", "split", "threads"),
            *("gamma_sample", "gamma_patch"),
        )
    ]


def cpu_features() -> str:
    """Return the CPU features that ``-march=native`` uses: a shared home may serve different machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


@functools.cache
def load() -> ctypes.CDLL | None:
    """Return the compiled library, or None where it cannot be had."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if os.environ.get("GEQ_COMPILE") == "0" or compiler is None:
        return None
    flags = (*FLAGS, "-fopenmp" if shares_openmp() else "-fopenmp-simd")
    key = "\n".join(
        [SOURCE.read_text(encoding="utf-8"), *flags, compiler, cpu_features(), platform.machine()]
    )
    name = f"patch-{hashlib.sha256(key.encode()).hexdigest()[:20]}.so"
    try:
        folder = user_cache() / "geq" / "kernel"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        library = folder / name
        if not (trusted(folder) and (library.exists() or compiled(compiler, flags, library))):
            return None
        return ctypes.CDLL(str(library))
    except (OSError, RuntimeError):
        return None  # no home, no cache to write to, or a library that does not load


def shares_openmp() -> bool:
    """Return whether torch's own OpenMP is visible; a second one would fight with it for the cores."""
    return hasattr(ctypes.CDLL(None), "GOMP_parallel") and platform.system() == "Linux"


def trusted(folder: Path) -> bool:
    """Only load code from a folder that nobody else can write to."""
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def compiled(compiler: str, flags: tuple[str, ...], library: Path) -> bool:
    """Compile beside the target and rename, so that a half-written file is never loaded."""
    handle, part = tempfile.mkstemp(suffix=".so", dir=library.parent)
    os.close(handle)
    try:
        command = [compiler, *flags, str(SOURCE), "-o", part, "-lm"]
        if "-fopenmp" in flags:
            command.insert(-1, "-Wl,--as-needed,--unresolved-symbols=ignore-all")
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        if done.returncode:
            return False
        os.replace(part, library)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        Path(part).unlink(missing_ok=True)


def usable(v: Tensor, u: Tensor, entries: int) -> bool:
    """Return whether the compiled form can take these maps; others go through the plain formula."""
    return (
        v.device.type == "cpu"
        and v.dtype in (torch.float32, torch.float64)
        and u.shape == v.shape
        and u.dtype == v.dtype
        and u.device == v.device
        and entries <= LIMIT
        and v.numel() > 0
        and not torch.is_grad_enabled()
        and load() is not None
    )


def in_layout_of(maps: Tensor, like: Tensor) -> Tensor:
    """``maps`` with the strides of ``like``, copied only if they differ."""
    return maps if maps.stride() == like.stride() else torch.empty_like(like).copy_(maps)


def check(
    v: Tensor, u: Tensor, gram: Tensor, gamma: Tensor, patch: int, split: int, direction: Tensor | None
) -> None:
    """Refuse whatever the compiled code would read beyond, or read as numbers of another type."""
    batch, channels, height, width = v.shape
    entries = split * patch**2
    fits = channels % split == height % patch == width % patch == 0
    patches = (channels // split) * (height // patch) * (width // patch)
    numbers = gamma.dim() == 0 or (
        gamma.dim() == 2 and gamma.shape[0] in (1, batch) and gamma.shape[1] in (1, patches)
    )
    others = [tensor for tensor in (u, direction) if tensor is not None]
    given = [v, gram, gamma, *others]
    if not (
        fits
        and 0 < entries <= LIMIT
        and numbers
        and tuple(gram.shape) == (entries, entries)
        and all(tensor.shape == v.shape for tensor in others)
        and v.dtype in (torch.float32, torch.float64)
        and all(tensor.dtype == v.dtype and tensor.device.type == "cpu" for tensor in given)
    ):
        shapes = ", ".join(f"{tuple(t.shape)} {t.dtype} {t.device}" for t in given)
        raise InputError(
            f"maps, Gram matrix ({entries}×{entries}) and γ of the patch kernel must fit each other, with "
            f"numbers of one type: got {shapes} for patches of {split}×{patch}×{patch}"
        )


@functools.cache
def memory_order(patch: int, split: int) -> Tensor:
    """Return the position of each entry, taken pixel by pixel, in the order (channel, row, column)."""
    return torch.arange(split * patch**2).view(split, patch**2).t().reshape(-1)


def run(
    v: Tensor,
    u: Tensor,
    gram: Tensor,
    gamma: Tensor,
    patch: int,
    split: int,
    direction: Tensor | None = None,
    gradients: bool = False,
) -> tuple[Tensor, ...]:
    """``(βr,)``; with a direction q ``(β(Gq − 2γr⟨r, q⟩),)``; with gradients also ``(βr, ∂/∂G, ∂/∂γ)`` of ⟨q,
    βr⟩.

    γ is a number, or broadcasts to ``(batch, patches)``. ∂/∂γ is ``(batch, 1)``, or ``(batch, patches)``
    where patches have a γ each. ``v`` decides the memory layout.
    """
    library = load()
    assert library is not None
    check(v, u, gram, gamma, patch, split, direction)
    if not (v.is_contiguous() or v.is_contiguous(memory_format=torch.channels_last)):
        v = v.contiguous()
    u = in_layout_of(u, v)
    gamma = gamma.reshape(1, 1) if gamma.dim() == 0 else gamma.contiguous()
    order = memory_order(patch, split) if v.stride(1) == 1 else None
    entries = gram.shape[0]
    ordered = gram if order is None else gram[order][:, order]
    ordered = F.pad(ordered, (0, -entries % PAD)).contiguous()
    results = [torch.empty_like(v)]
    if direction is not None:
        direction = in_layout_of(direction, v)
    if gradients:
        results += [
            torch.empty_like(v),
            v.new_zeros(v.shape[0], entries, entries),
            v.new_empty(v.shape[0], gamma.shape[1]),
        ]
    function: Any = library.geq_patch_float if v.dtype == torch.float32 else library.geq_patch_double
    pointers = [v, u, ordered, gamma, direction, *results, *[None] * (4 - len(results))]
    threads = min(torch.get_num_threads(), v.shape[0])
    strides = [0 if size == 1 else stride for size, stride in zip(gamma.shape, gamma.stride(), strict=True)]
    shape = Geometry(*v.shape, *v.stride(), patch, split, threads, *strides)
    function(ctypes.byref(shape), *(None if t is None else ctypes.c_void_p(t.data_ptr()) for t in pointers))
    if gradients:
        results[2] = results[2].sum(0)
        if order is not None:  # back to the order (channel, row, column)
            results[2] = torch.empty_like(results[2]).index_put_((order.unsqueeze(1), order), results[2])
    return tuple(results)
