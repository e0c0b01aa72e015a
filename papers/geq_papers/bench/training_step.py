"""Training steps and inference of every CIFAR branch against algorithm 1 under torchdeq, and their limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from geq.equilibrium import Equilibrium
from geq.gradients import Phantom
from geq.solvers import Anderson, Picard, fixed_point
from geq_papers.bench.case import BenchSetting, CaseResult
from geq_papers.bench.cifar_branches import BEST_RIDGE, Branch, backward, torchdeq_solve
from geq_papers.bench.literal_algorithm import LiteralMap
from geq_papers.bench.timing import Convolutions, Ratio, Work, in_turns, ratio

NEVER = 1e-12
"""A tolerance that no solve in single precision reaches: all evaluations are made."""


def training_step(layer: Equilibrium, branch: Branch) -> Work:
    """Forward and backward; maps come in the memory order in which neighbouring layers would have them."""
    arranged = layer.problem.W.arranged
    x, cotangent = arranged(branch.input()).requires_grad_(), arranged(branch.cotangent())
    return lambda: backward(layer, layer(x), cotangent)


def literal_step(layer: Equilibrium, branch: Branch, solve: Callable[[LiteralMap], Any]) -> Work:
    x, cotangent = branch.input().requires_grad_(), branch.cotangent()
    return lambda: backward(layer, solve(LiteralMap.of(layer, x)), cotangent)


def literal_solve(layer: Equilibrium, x: Tensor, solve: Callable[[LiteralMap], Any]) -> Any:
    return solve(LiteralMap.of(layer, x))


def evaluations(branch: Branch, tol: float) -> int:
    """Return the number of evaluations that the layer needs to a tolerance."""
    layer = branch.layer(tol=tol)
    with torch.no_grad():
        return int(layer.solve(branch.input()).steps.max())


def equal_evaluations(branch: Branch, setting: BenchSetting) -> Iterator[CaseResult]:
    """Training steps that evaluate the map equally often, and the convolutions alone."""
    steps = evaluations(branch, 1e-3)
    literal = branch.layer()
    solve = torchdeq_solve(tol=NEVER, max_steps=steps, lam=None)
    phantom = training_step(branch.layer(Phantom(), NEVER, steps), branch)
    exact = training_step(branch.layer(None, NEVER, steps), branch)
    exact()  # the first step of a layer also finds the norm of its weight
    with Convolutions() as convolutions:
        exact()
    seconds = in_turns(
        {
            "literal": literal_step(literal, branch, solve),
            "phantom": phantom,
            "exact": exact,
            "convolutions": convolutions.replay,
        },
        setting.repeats,
    )
    label = f"{branch.name} step, {steps} evaluations"
    peer, limit = seconds["literal"], seconds["convolutions"]
    yield CaseResult(f"{label}, phantom", ratio(peer, seconds["phantom"]), "× torchdeq's speed")
    yield CaseResult(f"{label}, exact", ratio(peer, seconds["exact"]), "× torchdeq's speed", at_least=2.5)
    yield CaseResult(f"{label}, limit", ratio(peer, limit), "× torchdeq's speed")
    yield CaseResult(f"{label}, exact", ratio(seconds["exact"], limit), "× its convolutions", at_most=1.25)


def whole_layer(branch: Branch, setting: BenchSetting) -> Iterator[CaseResult]:
    """The same with the convolution U, which no method can save, and at a second number of evaluations."""
    branch = replace(branch, whole=True)
    for steps in (evaluations(branch, 1e-3), 10):
        solve = torchdeq_solve(tol=NEVER, max_steps=steps, lam=None)
        works = {
            "literal": literal_step(branch.layer(), branch, solve),
            "exact": training_step(branch.layer(None, NEVER, steps), branch),
        }
        seconds = in_turns(works, setting.repeats)
        what = f"{branch.name} step with U, {steps} evaluations, exact"
        yield CaseResult(what, ratio(seconds["literal"], seconds["exact"]), "× torchdeq's speed")


def to_tolerance(branch: Branch, setting: BenchSetting) -> Iterator[CaseResult]:
    """Training steps with the default gradient against torchdeq's phantom gradient, to a tolerance."""
    for tol in (1e-3, 1e-4, 1e-5):
        works = {"ours": training_step(branch.layer(tol=tol), branch)}
        for name, lam in (("default", None), ("best", BEST_RIDGE)):
            solve = torchdeq_solve(tol=tol, max_steps=50, lam=lam)
            works[name] = literal_step(branch.layer(), branch, solve)
        seconds = in_turns(works, setting.repeats)
        for name in ("default", "best"):
            target = 2.5 if tol == 1e-4 and name == "best" else None
            what = f"{branch.name} step to {tol:g}, torchdeq {name}"
            yield CaseResult(
                what, ratio(seconds[name], seconds["ours"]), "× torchdeq's speed", at_least=target
            )


def inference(branch: Branch, setting: BenchSetting) -> Iterator[CaseResult]:
    """Solves without gradient, at equal evaluations and to tolerances."""
    steps = evaluations(branch, 1e-3)
    compared: list[tuple[str, float, int, str, float | None]]
    compared = [(f"{steps} evaluations", NEVER, steps, "default", None)]
    compared += [
        (f"to {tol:g}", tol, 50, name, lam)
        for tol in (1e-3, 1e-5)
        for name, lam in (("default", None), ("best", BEST_RIDGE))
    ]
    for label, tol, most, name, lam in compared:
        layer = branch.layer(tol=tol, max_steps=most)
        x = branch.input()
        ours = layer.problem.W.arranged(x)
        layer(x)  # the running scale of γ
        layer.eval()
        solve = torchdeq_solve(tol=tol, max_steps=most, lam=lam, training=False)
        with torch.no_grad():
            layer(ours)  # the norm of the weight, found once
            with Convolutions() as convolutions:
                layer(ours)
            works = {
                "ours": partial(layer, ours),
                "peer": partial(literal_solve, layer, x, solve),
                "limit": convolutions.replay,
            }
            seconds = in_turns(works, setting.repeats)
        what = f"{branch.name} inference {label}, torchdeq {name}"
        target = 1.8 if tol == 1e-3 else None
        speed = ratio(seconds["peer"], seconds["ours"])
        yield CaseResult(what, speed, "× torchdeq's speed", at_least=target)
        if tol == 1e-3:
            limit = ratio(seconds["peer"], seconds["limit"])
            yield CaseResult(f"{what}, limit", limit, "× torchdeq's speed")


@torch.no_grad()
def solver_overhead(branch: Branch, setting: BenchSetting) -> Iterator[CaseResult]:
    """Anderson against evaluating the bare map as often."""
    layer, steps = branch.layer(), 10
    cell = layer.cell
    fn = cell.equation(branch.input()).reduced()
    start = fn.start()

    def bare() -> None:
        u = start
        for _ in range(steps):
            u = fn(u)

    def solve(solver: Any) -> Work:
        return lambda: fixed_point(fn, start, solver, tol=NEVER, max_steps=steps, on_failure="ignore")

    seconds = in_turns(
        {"bare": bare, "anderson": solve(Anderson(5)), "picard": solve(Picard())}, 2 * setting.repeats
    )
    target = 0.15 if branch.side <= 4 else 0.10
    for name, limit in (("anderson", target), ("picard", None)):
        over = ratio(seconds[name], seconds["bare"])
        extra = Ratio(over.median - 1, over.low - 1, over.high - 1, over.repeats)
        yield CaseResult(f"{branch.name} {name}, overhead", extra, "× the bare map", at_most=limit)
