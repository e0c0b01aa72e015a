"""Every case, in the order in which ``geq bench`` runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from geq_papers.bench.case import BenchCase, BenchSetting, CaseResult
from geq_papers.bench.cifar_branches import BRANCHES, Branch
from geq_papers.bench.gradient_error import gradient_error
from geq_papers.bench.memory import growth, peak_memory
from geq_papers.bench.network import networks, small_network, start_up, threads
from geq_papers.bench.rejected_variants import choices
from geq_papers.bench.small_networks import launches, layouts, small_networks
from geq_papers.bench.training_step import (
    equal_evaluations,
    inference,
    solver_overhead,
    to_tolerance,
    whole_layer,
)

OnBranch = Callable[[Branch, BenchSetting], Iterator[CaseResult]]

PER_BRANCH: tuple[tuple[str, str, OnBranch], ...] = (
    ("step", "training step at equal evaluations, and its convolutions alone", equal_evaluations),
    ("layer", "training step of the whole layer, with the convolution U", whole_layer),
    ("tolerance", "training step to a tolerance", to_tolerance),
    ("inference", "inference at equal evaluations and to a tolerance", inference),
    ("solver", "Anderson over the bare map", solver_overhead),
    ("memory", "peak memory of a training step", peak_memory),
    ("gradient", "error of the training gradient", gradient_error),
)

CASES: dict[str, BenchCase] = {
    case.name: case
    for case in (
        *(
            BenchCase(
                f"{name}_{branch.name}",
                f"{summary}, {branch.side}×{branch.side} branch",
                partial(run, branch),
            )
            for name, summary, run in PER_BRANCH
            for branch in BRANCHES
        ),
        BenchCase("network", "images per second of whole CIFAR networks against ResNet-18", networks),
        BenchCase("small", "geq_small against resnet_small, per training step", small_network),
        BenchCase("whole", "small networks, frozen: one image and a batch, against ONNX", small_networks),
        BenchCase("layout", "memory order of the maps by their side", layouts),
        BenchCase("launch", "kernel launches and waits of a training step, counted without a GPU", launches),
        BenchCase("choice", "savings that were measured and not taken", choices),
        BenchCase("growth", "time and memory against batch, side, channels and steps", growth),
        BenchCase("thread", "one thread against two", threads),
        BenchCase("start", "import and start-up of the command", start_up),
    )
}
