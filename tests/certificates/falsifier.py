"""A search for what a certificate says cannot be: two equilibria, a larger rate, a larger distance."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

import geq
from geq.analysis.certificate import distance_factor
from geq.certificates.well_posedness import WellPosedness

Map = geq.cells.Equation


def flat(z: Tensor) -> Tensor:
    return z.flatten(1).norm(dim=1)


def starts(layer: geq.Equilibrium, x: Tensor, count: int, seed: int) -> Iterator[Tensor]:
    """States to begin at: far and near, of either sign, sparse and constant."""
    generator = torch.Generator().manual_seed(seed)
    zero = layer.cell.initial_state(layer.cell.inject(x))
    assert isinstance(zero, Tensor)
    for number in range(count):
        noise = torch.randn(zero.shape, generator=generator, dtype=zero.dtype)
        scale = 10.0 ** (2 * number / max(1, count - 1) - 1)
        yield zero + scale * (noise, noise.sign(), noise.abs(), noise * (noise > 1))[number % 4]


@torch.no_grad()
def equilibria(layer: geq.Equilibrium, x: Tensor, count: int = 6, seed: int = 0) -> list[Tensor]:
    """Converged solutions from different starts by different solvers."""
    solvers: list[geq.solvers.Solver] = [
        geq.solvers.Anderson(),
        geq.solvers.Picard(damping=0.5),
        geq.solvers.Anderson(mixing=0.3),
    ]
    found = []
    for number, z0 in enumerate(starts(layer, x, count, seed)):
        search = geq.Equilibrium(
            layer.cell, solvers[number % len(solvers)], tol=1e-11, max_steps=3000, on_failure="ignore"
        ).eval()
        solution = search.solve(x, z0)
        if bool(solution.converged.all()):
            found.append(solution.value)
    return found


def stretch(fn: Map, z: Tensor, steps: int = 40) -> float:
    """The largest ‖J·d‖/‖d‖ at z that power iteration on JᵀJ finds."""
    generator = torch.Generator().manual_seed(1)
    d = torch.randn(z.shape, generator=generator, dtype=z.dtype)
    rate = 0.0
    for _ in range(steps):
        d = d / d.norm()
        image = torch.autograd.functional.jvp(fn, z, d)[1]
        rate = float(image.norm())
        if rate < 1e-100:
            return rate  # the squares that the next step would take vanish
        with torch.enable_grad():
            state = z.detach().requires_grad_()
            (d,) = torch.autograd.grad(fn(state), state, image)
    return rate


def largest_stretch(layer: geq.Equilibrium, x: Tensor, count: int = 4, seed: int = 0) -> float:
    """... over states, and over pairs of states that are far apart."""
    fn = layer.cell.equation(x)
    states = [z.detach() for z in starts(layer, x, count, seed)]
    found = [stretch(fn, z) for z in states]
    with torch.no_grad():
        pairs = itertools.pairwise(states)
        found += [float((fn(a) - fn(b)).norm() / (a - b).norm()) for a, b in pairs]
    return max(found)


@torch.no_grad()
def largest_distance(layer: geq.Equilibrium, x: Tensor, z: Tensor, seed: int = 0) -> float:
    """The largest ‖z' − z*‖/‖z' − T(z')‖ among states around the equilibrium z* = ``z``."""
    fn = layer.cell.equation(x)
    generator = torch.Generator().manual_seed(seed)
    largest, size = 0.0, 1 + float(z.abs().mean())
    for scale in (1e-4, 1e-2, 1.0):
        # Repeated application leaves what the map hardly moves: the direction in which it errs most.
        d = torch.randn(z.shape, generator=generator, dtype=z.dtype)
        for _ in range(30):
            near = z + scale * size * d / d.norm()
            largest = max(largest, float((flat(near - z) / flat(near - fn(near)).clamp_min(1e-300)).max()))
            d = fn(near) - z
            if not bool(d.any()):
                break
    return largest


def check(layer: geq.Equilibrium, x: Tensor, seed: int = 0, count: int = 6) -> WellPosedness:
    """Assert that nothing contradicts the certificate of a layer in double precision."""
    certificate = layer.well_posedness(layer.map_size(x))
    found = equilibria(layer, x, count, seed)
    if certificate.unique:
        assert found, "an equilibrium that is certified to exist was not found"
        size = 1 + float(found[0].norm())
        for other in found[1:]:
            assert float((other - found[0]).norm()) <= 1e-6 * size, f"two equilibria, and {certificate}"
        factor = distance_factor(layer.cell, certificate)
        if factor is not None:
            assert largest_distance(layer, x, found[0], seed) <= factor * (1 + 1e-5)
    rate = layer.cell.contraction_rate(certificate)
    if rate is not None:
        assert largest_stretch(layer, x, seed=seed) <= rate * (1 + 1e-7)
    return certificate
