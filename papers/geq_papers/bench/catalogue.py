"""Every case, in the order in which ``geq bench`` runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from geq_papers.bench.accuracy import gradient_error
from geq_papers.bench.branch import BRANCHES, Branch
from geq_papers.bench.case import Case, Finding, Setting
from geq_papers.bench.choice import choices
from geq_papers.bench.memory import growth, peak_memory
from geq_papers.bench.network import networks, small_network, start_up, threads
from geq_papers.bench.step import equal_evaluations, inference, solver_overhead, to_tolerance, whole_layer
from geq_papers.bench.whole import launches, layouts, small_networks

OnBranch = Callable[[Branch, Setting], Iterator[Finding]]

PER_BRANCH: tuple[tuple[str, str, OnBranch], ...] = (
    ("step", "training step at equal evaluations, and its convolutions alone", equal_evaluations),
    ("layer", "training step of the whole layer, with the convolution U", whole_layer),
    ("tolerance", "training step to a tolerance", to_tolerance),
    ("inference", "inference at equal evaluations and to a tolerance", inference),
    ("solver", "Anderson over the bare map", solver_overhead),
    ("memory", "peak memory of a training step", peak_memory),
    ("gradient", "error of the training gradient", gradient_error),
)

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        *(
            Case(
                f"{name}_{branch.name}",
                f"{summary}, {branch.side}×{branch.side} branch",
                partial(run, branch),
            )
            for name, summary, run in PER_BRANCH
            for branch in BRANCHES
        ),
        Case("network", "images per second of whole CIFAR networks against ResNet-18", networks),
        Case("small", "geq_small against resnet_small, per training step", small_network),
        Case("whole", "small networks, frozen: one image and a batch, against ONNX", small_networks),
        Case("layout", "memory order of the maps by their side", layouts),
        Case("launch", "kernel launches and waits of a training step, counted without a GPU", launches),
        Case("choice", "savings that were measured and not taken", choices),
        Case("growth", "time and memory against batch, side, channels and steps", growth),
        Case("thread", "one thread against two", threads),
        Case("start", "import and start-up of the command", start_up),
    )
}
