"""``geq doctor --gpu``: whether a GPU computes what the CPU computes, and in what time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from geq.command.doctor_checks import Finding

HINT = "please open an issue with this table"
LIMITS = {"float64": 1e-6, "float32": 1e-3}
"""Largest relative difference to the CPU in double precision."""
TIMED = 20


def compare_devices(device: str = "cuda") -> Iterator[Finding]:
    """Solve and differentiate a small network on the CPU and on a device.

    Args:
        device: The device, as torch names it.
    """
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        hint = "see 'devices' above: torch must be built for a GPU, and its driver be installed"
        yield Finding("GPU", "comparison", "problem", "torch finds no GPU", hint)
        return
    expected = answers("cpu", "float64", 1e-8)
    for dtype, limit in LIMITS.items():
        found = answers(device, dtype, 1e-8 if dtype == "float64" else 1e-5)
        for name in ("logits", "gradient"):
            gap = float((found[name] - expected[name]).norm() / expected[name].norm())
            yield judged(f"{name}, {dtype}", gap <= limit, f"differ by {gap:.1e} (at most {limit:g})")
        told = f"{found['converged']} with {found['steps']} evaluations"
        yield judged(f"solve, {dtype}", bool(found["converged"]), "converged: " + told)
    for batch in (1, 64):
        seconds = {place: duration(place, batch) for place in ("cpu", device)}
        told = ", ".join(f"{place} {1000 * value:.2f} ms" for place, value in seconds.items())
        yield Finding("GPU", f"batch of {batch}", "ok", told)


def judged(name: str, good: bool, value: str) -> Finding:
    return Finding("GPU", name, "ok" if good else "problem", value, "" if good else HINT)


def network(device: str, dtype: str, tol: float) -> Any:
    import torch

    import geq

    torch.manual_seed(0)
    model = geq.create_model("geq_tiny", tol=tol, max_steps=300)
    with torch.no_grad():
        for parameter in model.parameters():
            # A new W_h has equal singular values, at which the gradient of its norm jumps.
            parameter += 0.05 * torch.randn(parameter.shape)
    return model.to(device, getattr(torch, dtype))


def answers(device: str, dtype: str, tol: float) -> dict[str, Any]:
    """Return logits, gradient of the parameters, and how the solves went; on the CPU, in double precision."""
    import torch

    from geq.equilibrium import ignore_failures
    from geq.gradients import Implicit

    model = network(device, dtype, tol)
    for layer in model.equilibria().values():
        layer.gradient = Implicit(tol=max(tol, 1e-6))
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(16, *model.input_shape, generator=generator, dtype=torch.float64)
    with ignore_failures(model):
        logits = model(images.to(device, getattr(torch, dtype)))
    logits.square().sum().backward()
    reports = model.solutions().values()
    return {
        "logits": logits.detach().double().cpu(),
        "gradient": torch.cat([p.grad.double().cpu().flatten() for p in model.parameters()]),
        "steps": max(report.steps_max for report in reports),
        "converged": all(report.converged == 1 for report in reports),
    }


def duration(device: str, batch: int) -> float:
    """Seconds of a frozen network's pass over a batch, the least of several."""
    import torch

    import geq

    model = geq.freeze(network(device, "float32", 1e-3))
    images = torch.zeros(batch, *model.input_shape, device=device)
    wait: Callable[[], Any] = torch.cuda.synchronize if device == "cuda" else lambda: None
    found = []
    with torch.no_grad():
        for _ in range(TIMED):
            wait()
            start = time.perf_counter()
            model(images)
            wait()
            found.append(time.perf_counter() - start)
    return min(found)
