"""A second implementation as witness: torchdeq's solver on our cell finds the same equilibrium."""

from __future__ import annotations

import pytest
import torch

import geq

torchdeq = pytest.importorskip("torchdeq", reason="the peer torchdeq is not installed")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kernel", ["geq", "opteq"])
def test_torchdeq_finds_the_same_equilibrium(kernel: str) -> None:
    torch.manual_seed(0)
    layer = {"geq": geq.GEQ2d, "opteq": geq.OptEq2d}[kernel](3, 16, 8, tol=1e-10, max_steps=300)
    layer = layer.double().eval()
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    peer = torchdeq.get_deq(f_solver="anderson", f_max_iter=300, f_tol=1e-10, f_stop_mode="rel").eval()
    peer.f_solver_kwargs = {"lam": 1e-12}
    with torch.no_grad():
        c = layer.cell.inject(x)
        start = layer.cell.initial_state(c).contiguous()
        theirs = peer(lambda z: layer.cell(z, c), start)[0][-1]
        ours = layer(x)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    assert ours.any()
