"""Whole networks, threads and start-up."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import torch
import torch.nn.functional as F

from geq.model.model_registry import create_model, list_models
from geq.model.network import Network
from geq_papers.bench.case import BenchSetting, CaseResult
from geq_papers.bench.cifar_branches import BRANCHES
from geq_papers.bench.timing import Work, in_turns, ratio
from geq_papers.bench.training_step import training_step

REFERENCE = "resnet18_cifar"
NETWORKS = ("geq_cifar_5m", "mopteq_cifar_8m", "mdeq_cifar_10m")


def optimiser_step(model: Network, images: torch.Tensor) -> Work:
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    labels = torch.arange(len(images)) % 10

    def step() -> None:
        model.train()
        optimiser.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimiser.step()

    return step


def prediction(model: Network, images: torch.Tensor) -> Work:
    def predict() -> None:
        model.eval()
        with torch.no_grad():
            model(images)

    return predict


def networks(setting: BenchSetting) -> Iterator[CaseResult]:
    """Images per second of the papers' CIFAR networks, relative to a ResNet-18."""
    images = torch.randn(2 if setting.quick else 8, 3, 32, 32)
    torch.manual_seed(0)
    repeats = max(2, setting.repeats // 2)
    peer = create_model(REFERENCE)
    for name in (name for name in NETWORKS if name in list_models()):
        model = create_model(name)
        for kind, work in (("training", optimiser_step), ("inference", prediction)):
            seconds = in_turns({"ours": work(model, images), "peer": work(peer, images)}, repeats)
            speed = ratio(seconds["peer"], seconds["ours"])
            yield CaseResult(f"{name}, {kind}", speed, f"× images/s of {REFERENCE}")


def small_network(setting: BenchSetting) -> Iterator[CaseResult]:
    """A small GEQ against a ResNet of its size: the cost of an epoch."""
    torch.manual_seed(0)
    images = torch.randn(64, 3, 32, 32)
    works = {name: optimiser_step(create_model(name), images) for name in ("geq_small", "resnet_small")}
    seconds = in_turns(works, 2 * setting.repeats, warm_up=2)
    cost = ratio(seconds["geq_small"], seconds["resnet_small"])
    yield CaseResult("geq_small, training step", cost, "× the time of resnet_small", at_most=3.0)


def threads(setting: BenchSetting) -> Iterator[CaseResult]:
    """One thread against two, by the clock on the wall."""
    for branch in (BRANCHES[0], BRANCHES[-1]):
        work = training_step(branch.layer(), branch)
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for turn in range(setting.repeats + 1):
            for count in seconds:
                torch.set_num_threads(count)
                start = time.perf_counter()
                work()
                if turn:  # the first one warms up
                    seconds[count].append(time.perf_counter() - start)
        torch.set_num_threads(setting.threads)
        yield CaseResult(
            f"{branch.name} step, 2 threads", ratio(seconds[1], seconds[2]), "× speed of 1 thread"
        )


def start_up(setting: BenchSetting) -> Iterator[CaseResult]:
    """``import geq`` and ``geq --help`` against the interpreter and ``import torch``."""

    def run(code: str) -> Work:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    works = {
        "python": run("pass"),
        "torch": run("import torch"),
        "geq": run("import geq"),
        "layer": run("import geq; geq.GEQ2d"),
        "help": run("from geq.cli import main; main(['--help'])"),
    }
    for work in works.values():
        work()
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(setting.repeats):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - start)
    for name, what, peer in (
        ("geq", "import geq", "python"),
        ("help", "geq --help", "python"),
        ("layer", "import geq and its layers", "torch"),
    ):
        unit = "× starting Python" if peer == "python" else "× importing torch"
        yield CaseResult(what, ratio(seconds[name], seconds[peer]), unit)
