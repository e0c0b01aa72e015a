"""Inputs from 1e-30 to 1e30, subnormal, constant, of one pixel, not finite, in batches of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from stress.number.layer import DTYPES, HALF, LAYERS, SOLVERS, build, fits, sample
from stress.number.verdict import Tally, Verdict, solve
from stress.part import Row


def run(short: bool, seed: int) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(seed)
    yield magnitude(range(-30, 31, 10) if short else range(-30, 31, 2), generator)
    yield unusual(generator)
    yield not_finite(generator)
    yield batches((1, 64) if short else (1, 64, 2_000, 20_000), generator)
    yield half_precision(generator)


def magnitude(decades: range, generator: torch.Generator, names: Iterable[str] = LAYERS) -> Row:
    """All sizes in one batch; without biases the state is as small or large as the input."""
    tally = Tally(f"inputs of 1e{decades[0]} to 1e{decades[-1]}, every layer and solver, two precisions")
    sizes = torch.tensor([10.0**decade for decade in decades], dtype=torch.float64)
    for name in names:
        x = sample(name, len(sizes), generator)
        x = x * sizes.view(-1, *[1] * (x.dim() - 1))
        for solver_name, solver in SOLVERS.items():
            if not fits(name, solver):
                continue
            for dtype in DTYPES:
                for biased in (True, False):
                    layer = build(name, solver).to(dtype)
                    if not biased:
                        silence_biases(layer)
                    solve(tally, f"{name}, {solver_name}, {dtype}, bias {biased}", layer, x.to(dtype))
    return tally.row()


def silence_biases(layer: torch.nn.Module) -> None:
    for module in layer.modules():
        bias = getattr(module, "bias", None)
        if isinstance(bias, Tensor):
            bias.data.zero_()


def odd_inputs(name: str, dtype: torch.dtype, generator: torch.Generator) -> dict[str, Tensor]:
    tiny = torch.finfo(dtype).tiny
    usual = sample(name, 3, generator).to(dtype)
    mixed = usual.clone()
    mixed[0] *= 1e-30
    mixed[1] *= 1e18
    spike = torch.zeros_like(usual)
    spike[:, 0] = 1e6
    found = {
        "zero": torch.zeros_like(usual),
        "negative zero": -torch.zeros_like(usual),
        "subnormal": (usual.double() * tiny * 1e-3).to(dtype),
        "smallest": torch.full_like(usual, tiny),
        "largest": torch.full_like(usual, torch.finfo(dtype).max),
        "constant": torch.full_like(usual, 0.7),
        "one of each size in a batch": mixed,
        "spike": spike,
        "alternating": usual.sign(),
    }
    if "2d" in name:
        side = 2 if "GEQ" in name else 1
        found["one pixel" if side == 1 else "one patch"] = usual[..., :side, :side].contiguous()
        found["not contiguous"] = usual.transpose(2, 3)
    return found


def unusual(generator: torch.Generator) -> Row:
    tally = Tally("zero, subnormal, largest, constant, one pixel, mixed sizes, odd strides")
    for name in LAYERS:
        for solver_name, solver in SOLVERS.items():
            if not fits(name, solver):
                continue
            for dtype in DTYPES:
                inputs = odd_inputs(name, dtype, generator)
                together = [x for x in inputs.values() if x.shape == inputs["zero"].shape]
                inputs = {what: x for what, x in inputs.items() if x.shape != together[0].shape}
                for what, x in {"all in a batch": torch.cat(together), **inputs}.items():
                    layer = build(name, solver).to(dtype)
                    solve(tally, f"{name}, {solver_name}, {dtype}, {what}", layer, x)
    return tally.row()


def not_finite(generator: torch.Generator) -> Row:
    """NaN and infinity in the input or in the start: refused, in every mode."""
    tally = Tally("NaN and infinity in the input or the start")
    for name in LAYERS:
        for bad in (float("nan"), float("inf"), -float("inf")):
            for training in (False, True):
                layer = build(name).train(training)
                x = sample(name, 3, generator).float()
                layer.on_failure = "ignore"  # the polynomial kernel has not always an equilibrium
                start = layer.solve(x).value
                assert isinstance(start, Tensor)
                poisoned = x.clone()
                poisoned.view(-1)[-1] = bad
                start = torch.where(torch.ones_like(start).cumsum(1) == 1, bad, start)
                for case, argument, z0 in (("input", poisoned, None), ("start", x, start)):
                    reached: list[Tensor] = []

                    def question(
                        layer: torch.nn.Module = layer,
                        argument: Tensor = argument,
                        z0: Tensor | None = z0,
                        reached: list[Tensor] = reached,
                    ) -> None:
                        reached.append(layer(argument, z0))

                    tally.ask(f"{name}, {bad} in the {case}", question)
                    if reached:
                        tally.add(f"{name}, {bad} in the {case}", Verdict.SILENT, "was taken")
    return tally.row()


def batches(sizes: tuple[int, ...], generator: torch.Generator) -> Row:
    """None, one and very many; what a sample gets must not depend on its batch."""
    tally = Tally(f"batches of none to {sizes[-1]:,}, each sample as if it were alone")
    for name in LAYERS:
        layer = build(name)
        empty = layer(sample(name, 0, generator).float())
        tally.must(f"{name}, nothing", len(empty) == 0)
        for size in sizes:
            side = 2 if size > 1_000 else 4
            x = sample(name, size, generator, side).float()
            if size <= 64:
                solve(tally, f"{name}, batch of {size}", layer, x)
            layer.on_failure = "ignore"
            among, alone = layer.solve(x), layer.solve(x[-1:])
            assert isinstance(among.value, Tensor)
            assert isinstance(alone.value, Tensor)
            same = bool(among.converged[-1]) == bool(alone.converged[0])
            far = float((among.value[-1:] - alone.value).norm() / alone.value.norm().clamp_min(1e-30))
            same = same and (far <= 10 * layer.tol or not bool(alone.converged[0]))
            tally.must(f"{name}, last of {size}", same, f"differs by {far:.1e}")
    return tally.row()


def half_precision(generator: torch.Generator) -> Row:
    """Layers of 16 bits, and layers of 32 under autocast: solved in 32, answered in what was asked for."""
    tally = Tally("float16 and bfloat16, as they are and under autocast")
    for name in LAYERS:
        for dtype in HALF:
            for scale in (1e-6, 1e-2, 1.0, 1e2, 3e4):
                x = scale * sample(name, 3, generator)
                solve(tally, f"{name}, {dtype}, {scale:g}", build(name).to(dtype), x.to(dtype))
                with torch.autocast("cpu", dtype=dtype):
                    solve(tally, f"{name}, autocast {dtype}, {scale:g}", build(name), x.float())
    return tally.row()
