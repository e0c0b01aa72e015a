"""Models of one's own with layers of geq, exported by torch's own exporters and run in onnxruntime."""

from __future__ import annotations

import functools
import io
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import geq
from geq.errors import GeqError, InputError, OptionError
from geq.export import portable

BATCH = Dim("batch")


class Tanh(geq.Cell):
    """z = tanh(Az + x)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.A = nn.Linear(size, size, bias=False)
        nn.init.orthogonal_(self.A.weight, gain=0.5)

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        return torch.tanh(self.A(z) + c)


class Own(nn.Module):
    """Two convolutional equilibria, one of vectors and one of a custom cell, among ordinary layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8))
        self.geq, self.opteq = geq.GEQ2d(8, 8, patch=4, tol=1e-6), geq.OptEq2d(8, 8, tol=1e-6)
        self.vector, self.cell = geq.GEQLinear(8, 6, tol=1e-6), geq.Equilibrium(Tanh(6), tol=1e-6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        maps = self.opteq(self.geq(self.stem(x)))
        return self.head(self.cell(self.vector(maps.mean((2, 3)))))


@pytest.fixture(scope="module")
def own() -> nn.Module:
    torch.manual_seed(0)
    model = Own()
    for _ in range(3):  # statistics of the norms and of γ as after some training
        model(2 * torch.randn(8, 3, 16, 16))
    return model.eval()


@pytest.mark.filterwarnings("ignore")  # deprecated calls inside torch's exporter
def test_a_network_of_ones_own_runs_in_onnxruntime(own: nn.Module) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    made = portable(own, torch.randn(2, 3, 16, 16), report=True)
    program = torch.onnx.export(
        made,
        (torch.randn(2, 3, 16, 16),),
        dynamo=True,
        verbose=False,
        input_names=["x"],
        dynamic_shapes=({0: BATCH},),
    )
    assert program is not None
    buffer = io.BytesIO()
    program.save(buffer)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(buffer.getvalue(), options, providers=["CPUExecutionProvider"])
    x = 2 * torch.randn(5, 3, 16, 16)
    output, residual, steps, converged = session.run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(output), own(x).detach(), rtol=1e-4, atol=1e-5)
    assert residual.shape == steps.shape == (5, 4)
    assert converged.all()
    assert made.equilibria == ("geq", "opteq", "vector", "cell")
    assert steps.min() > 1, "the loops run"


def test_a_network_of_ones_own_is_a_torch_program(own: nn.Module) -> None:
    x = torch.randn(2, 3, 16, 16)
    program = torch.export.export(portable(own, x), (x,), dynamic_shapes=({0: BATCH},))
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    x = 2 * torch.randn(5, 3, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), own(x), rtol=1e-4, atol=1e-5)


class TwoSizes(nn.Module):
    """One layer on maps of two sizes: the norm of its convolution depends on the size."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = geq.OptEq2d(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).mean((2, 3)) + self.layer(x[:, :, ::2, ::2]).mean((2, 3))


class Twice(nn.Module):
    """The same layer under two names, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one = geq.GEQLinear(4, 4, tol=1e-6)
        self.other = self.one

    def forward(self, x: Tensor) -> Tensor:
        return self.other(self.one(x))


class Rational(geq.kernels.Kernel):
    """S = (1 + ‖v − u‖²)^{−1/2}, with its gradient derived."""

    def value(self, u: Tensor, v: Tensor) -> Tensor:
        return (1 + (v - u).square().flatten(1).sum(1)).rsqrt()


class ClosedRational(Rational):
    """The same with its gradient written down."""

    def grad(self, u: Tensor, v: Tensor) -> Tensor:
        d = v - u
        return (1 + d.square().flatten(1).sum(1, keepdim=True)) ** -1.5 * d


def problem(kernel: geq.kernels.Kernel) -> geq.EnergyProblem:
    return geq.EnergyProblem(kernel, W=geq.operators.Dense(8, 5), U=geq.operators.Dense(4, 5))


MODELS: dict[str, Any] = {
    "layer": lambda: geq.GEQLinear(4, 5, tol=1e-6),
    "function": lambda: geq.Equilibrium(lambda z, x: torch.tanh(0.5 * z + x), tol=1e-6),
    "picard": lambda: geq.GEQLinear(4, 5, solver=geq.solvers.Picard(), tol=1e-6, max_steps=200),
    "unrolled": lambda: geq.GEQLinear(4, 5, gradient=geq.gradients.Unrolled(20)),
    "twice": Twice,
    "kernel": lambda: geq.Equilibrium(problem(ClosedRational()), tol=1e-6),
    "no equilibrium": lambda: nn.Linear(4, 3),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_portable_model_computes_the_same(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().double().eval()
    x = torch.randn(6, 4, dtype=torch.float64)
    made = portable(model, x[:1])
    expected = model(x).detach()
    torch.testing.assert_close(made(x), expected, rtol=1e-4, atol=1e-5)
    assert expected.abs().max() > 1e-3, "nothing to compare"


def test_an_operator_outside_of_an_equilibrium_keeps_its_bound() -> None:
    strong = geq.operators.Convolution(3, 4, 3, constraint=geq.constraints.SpectralBound(0.5))
    strong.restart(3 * strong.raw_weight.detach())
    model = nn.Sequential(strong, geq.OptEq2d(4, 4, tol=1e-6)).eval()
    x = torch.randn(3, 3, 8, 8)
    torch.testing.assert_close(portable(model, x)(x), model(x).detach(), rtol=1e-4, atol=1e-5)


class WarmStart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = geq.GEQLinear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, z0=x)


REFUSED: list[tuple[Any, Tensor, type[GeqError], str]] = [
    (
        lambda: geq.Equilibrium(problem(Rational())),
        torch.randn(3, 4),
        OptionError,
        r"Rational .*`grad\(u, v\)`",
    ),
    (
        lambda: geq.GEQLinear(4, 5, solver=geq.solvers.Broyden()),
        torch.randn(3, 4),
        OptionError,
        "got Broyden",
    ),
    (lambda: geq.GEQLinear(4, 5).half(), torch.randn(3, 4).half(), OptionError, r"model\.float\(\)"),
    (TwoSizes, torch.randn(2, 3, 8, 8), OptionError, "several sizes"),
    (WarmStart, torch.randn(3, 4), OptionError, "start z0"),
    (
        lambda: geq.Equilibrium(lambda z, x: 0.5 * z + (x if float(z.sum()) < 9 else 2 * x)),
        torch.randn(3, 4),
        OptionError,
        "FunctionCell does something that torch.export cannot trace",
    ),
]


@pytest.mark.parametrize(("build", "x", "kind", "told"), REFUSED)
def test_what_no_file_can_hold_is_refused(build: Any, x: Tensor, kind: type[GeqError], told: str) -> None:
    with pytest.raises(kind, match=told):
        portable(build(), x)


def test_several_tensors_are_refused() -> None:
    layer = geq.Equilibrium(PairCell())
    x = torch.randn(3, 4)
    with pytest.raises(InputError, match=r"given a tuple.*torch\.cat"):
        portable(layer, (x, x))


class PairCell(geq.Cell):
    """z = (z + a·b)/2."""

    def initial_state(self, c: tuple[Tensor, Tensor]) -> Tensor:
        return torch.zeros_like(c[0])

    def forward(self, z: Tensor, c: tuple[Tensor, Tensor]) -> Tensor:
        return 0.5 * (z + c[0] * c[1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", ["export", "onnx", "jit", "solve"])
def test_a_bare_model_is_refused_by_name_of_what_works(how: str) -> None:
    class Solved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = geq.GEQLinear(4, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer.solve(x).value if how == "solve" else self.layer(x)

    if how == "onnx":
        pytest.importorskip("onnxscript")
    exporters: dict[str, Any] = {
        "onnx": functools.partial(torch.onnx.export, dynamo=True, verbose=False),
        "jit": torch.jit.trace,
    }
    export = exporters.get(how, functools.partial(torch.export.export, strict=False))
    with pytest.raises(Exception, match=r"geq\.export\.portable\(model, x\)"):
        export(Solved().eval(), (torch.randn(3, 4),))


WRITTEN = """
from torch import nn, rand
from geq.data.dataset import Statistics
from geq.export import Description, save_torch

description = Description("own", ("a", "b"), Statistics((0.5,), (0.5,)), (1, 8, 8))
save_torch(nn.Linear(2, 2), description, rand(2, 1, 8, 8), "none.pt2")
"""


def test_save_torch_names_the_way_for_other_models() -> None:
    """In a process of its own, because the run-time checks of the tests would refuse it first."""
    done = subprocess.run([sys.executable, "-c", WRITTEN], capture_output=True, text=True)
    assert done.returncode == 1
    told = done.stderr.splitlines()[-1]
    assert "got a Linear; export geq.export.portable(model, x) by torch.onnx.export" in told
