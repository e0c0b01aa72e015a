"""Call the compiled patch kernel with every layout, size and γ; to be run under AddressSanitizer."""

from __future__ import annotations

import itertools

import torch

import geq
from geq import c_code
from geq.kernels import compiled_patch

LAYOUTS = (torch.contiguous_format, torch.channels_last)
PATCHES = ((1, 1), (1, 4), (2, 3), (2, 8), (3, 5), (4, 2), (4, 32))


@torch.no_grad()
def main() -> int:
    c_code.FLAGS = (*c_code.FLAGS, "-fsanitize=address", "-g")
    assert compiled_patch.load() is not None
    calls = 0
    for dtype, layout, (patch, split), batch in itertools.product(
        (torch.float32, torch.float64), LAYOUTS, PATCHES, (1, 2, 5)
    ):
        shape = (batch, 2 * split, 2 * patch, 3 * patch)
        v, u, q = (torch.randn(shape, dtype=dtype).contiguous(memory_format=layout) for _ in "vuq")
        bound = geq.kernels.PatchGaussianKernel(patch, split, 6, gamma=0.03).to(dtype).bind(v)
        assert compiled_patch.usable(v, u, len(bound.gram))
        for size in ((), (batch, 1), (1, 12), (batch, 12)):
            bound.gamma = torch.rand(size, dtype=dtype)
            bound.grad(u), bound.product(u, q), bound.pull_back(u, q)
            calls += 3
    return calls


if __name__ == "__main__":
    print(f"{main()} calls")
