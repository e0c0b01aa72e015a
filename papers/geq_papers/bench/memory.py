"""Peak memory of a training step, and how time and memory grow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from geq.gradients import Phantom
from geq_papers.bench.case import BenchSetting, CaseResult
from geq_papers.bench.cifar_branches import BRANCHES, Branch, backward, torchdeq_solve
from geq_papers.bench.literal_algorithm import LiteralMap
from geq_papers.bench.timing import Work, constant, in_turns, peak_bytes, ratio
from geq_papers.bench.training_step import NEVER, evaluations, literal_step, training_step


def unrolled_step(branch: Branch, steps: int) -> Work:
    """Autograd through plain iterations of algorithm 1."""
    layer, x, cotangent = branch.layer(), branch.input().requires_grad_(), branch.cotangent()

    def step() -> None:
        fn = LiteralMap.of(layer, x)
        z = fn.start()
        for _ in range(steps):
            z = fn(z)
        backward(layer, z, cotangent)

    return step


def peak(work: Work) -> int:
    """After a first run, which allocates what stays: gradients, running statistics."""
    work()
    return peak_bytes(work)


def peak_memory(branch: Branch, setting: BenchSetting) -> Iterator[CaseResult]:
    """Bytes above the static tensors, of a step with the default and with the phantom gradient."""
    steps = evaluations(branch, 1e-3)
    state = branch.cotangent().nbytes
    exact = peak(training_step(branch.layer(), branch))
    phantom = peak(training_step(branch.layer(Phantom()), branch))
    yield CaseResult(f"{branch.name} memory, exact", constant(exact / state), "× the state")
    yield CaseResult(f"{branch.name} memory, phantom", constant(phantom / state), "× the state")
    peers: dict[str, Work] = {"unrolled K = 20": unrolled_step(branch, 20)}
    for name, implicit in (("torchdeq phantom", False), ("torchdeq IFT", True)):
        solve = torchdeq_solve(tol=NEVER, max_steps=steps, lam=None, implicit=implicit)
        peers[name] = literal_step(branch.layer(), branch, solve)
    for name, work in peers.items():
        target = 0.3 if name == "torchdeq phantom" else None
        what = f"{branch.name} memory, exact"
        yield CaseResult(what, constant(exact / peak(work)), f"× {name}", at_most=target)


def growth(setting: BenchSetting) -> Iterator[CaseResult]:
    """Twice the batch, side, channels or steps: what it does to time and memory."""
    small = replace(BRANCHES[2], batch=4 if setting.quick else 16)
    variants = {
        "batch × 2": (replace(small, batch=2 * small.batch), 10),
        "side × 2": (replace(small, side=2 * small.side), 10),
        "mid channels × 2": (replace(small, mid_channels=2 * small.mid_channels), 10),
        "steps × 2": (small, 20),
    }

    def step(branch: Branch, steps: int) -> Work:
        return training_step(branch.layer(Phantom(), NEVER, steps), branch)

    base = step(small, 10)
    base_peak = peak(base)
    for name, (branch, steps) in variants.items():
        work = step(branch, steps)
        seconds = in_turns({"base": base, "grown": work}, setting.repeats)
        yield CaseResult(f"growth, {name}, time", ratio(seconds["grown"], seconds["base"]), "× the time")
        target = 1.0 if name == "steps × 2" else None
        yield CaseResult(
            f"growth, {name}, memory", constant(peak(work) / base_peak), "× the memory", at_most=target
        )
