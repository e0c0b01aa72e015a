"""Small networks as people run them, against what they are made of and what else there is."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import torch
from torch import Tensor

from geq.data.dataset import Statistics
from geq.errors import MissingExtraError
from geq.frozen import freeze
from geq.model.model_registry import create_model
from geq.model.network import Network
from geq.operators import Convolution
from geq.operators.operator import CHANNELS_LAST_SIDE
from geq_papers.bench.case import BenchSetting, CaseResult
from geq_papers.bench.cifar_branches import Branch
from geq_papers.bench.network import REFERENCE, optimiser_step, prediction
from geq_papers.bench.pretended_device import counted
from geq_papers.bench.timing import Convolutions, Work, constant, in_turns, ratio
from geq_papers.bench.training_step import training_step

NETWORKS = ("geq_tiny", "geq_small", "geq_strong_small")
PEER = "resnet_small"
TRAINED = 64
"""Images of a batch."""
LARGEST_STEP = (1300, 36)
"""Targets: launches and waits of a training step of the largest network."""


def settled(name: str) -> Network:
    """Return a network whose norms have seen data, in evaluation mode."""
    torch.manual_seed(0)
    model = create_model(name)
    with torch.no_grad():
        model(torch.randn(TRAINED, *model.input_shape))
    return model.eval()


def repeated(work: Work, times: int) -> Work:
    """Return ``work`` done several times: the clock is too coarse for one image."""

    def run() -> None:
        for _ in range(times):
            work()

    return run


def onnx_prediction(model: Network, images: Tensor) -> Work | None:
    """Return the exported file at work in onnxruntime; None where the export is not installed."""
    from geq.export import Description, PortableNetwork
    from geq.export.onnx_file import need_onnx, session, to_onnx

    try:
        need_onnx()
    except MissingExtraError:
        return None
    channels, *size = model.input_shape
    unchanged = Statistics((0.0,) * channels, (1.0,) * channels)
    classes = tuple(map(str, range(model.num_classes)))
    description = Description(model.registry_name or "", classes, unchanged, model.input_shape)
    file = session(to_onnx(PortableNetwork(model, unchanged, (size[0], size[1])), description))
    given = {"images": images.numpy()}
    return lambda: file.run(None, given)


def convolutions_of(work: Work) -> Work:
    """Return the convolutions of ``work`` alone, after a first run, which finds norms."""
    work()
    with Convolutions() as noted:
        work()
    return noted.replay


def small_networks(setting: BenchSetting) -> Iterator[CaseResult]:
    """Training steps, and predictions of one image and of a batch, frozen and not."""
    for name in NETWORKS:
        model = settled(name)
        images = torch.randn(TRAINED, *model.input_shape)
        step = optimiser_step(model, images)
        seconds = in_turns({"ours": step, "convolutions": convolutions_of(step)}, setting.repeats)
        cost = ratio(seconds["ours"], seconds["convolutions"])
        yield CaseResult(f"{name}, training, batch {TRAINED}", cost, "× its convolutions", at_most=1.5)
        for batch, times in ((1, 20), (TRAINED, 1)):
            yield from predictions(name, images[:batch], times, setting)


def predictions(name: str, images: Tensor, times: int, setting: BenchSetting) -> Iterator[CaseResult]:
    model, frozen = settled(name), freeze(settled(name))
    works: dict[str, Work | None] = {
        "plain": prediction(model, images),
        "frozen": prediction(frozen, images),
        "convolutions": convolutions_of(prediction(frozen, images)),
        "onnx": onnx_prediction(model, images),
    }
    if model.input_shape == (3, 32, 32):
        works[PEER] = prediction(settled(PEER), images)
    known = {what: repeated(work, times) for what, work in works.items() if work is not None}
    seconds = in_turns(known, setting.repeats, warm_up=2)
    label = f"{name}, inference, batch {len(images)}"
    units = {"plain": "not frozen", "convolutions": "its convolutions", "onnx": "the ONNX file"}
    targets = {"convolutions": 1.5 if len(images) > 1 else None, "onnx": 1.0 if len(images) == 1 else None}
    for what in known:
        if what != "frozen":
            cost = ratio(seconds["frozen"], seconds[what])
            unit = f"× the time of {units.get(what, what)}"
            yield CaseResult(f"{label}, frozen", cost, unit, at_most=targets.get(what))


def layouts(setting: BenchSetting) -> Iterator[CaseResult]:
    """Both memory orders of maps, around the side from which the better one changes."""
    for side, mid in ((2, 256), (4, 24), (4, 128), (4, 256), (6, 24), (6, 128), (8, 24), (8, 128), (16, 24)):
        branch = Branch(f"{side}×{side}", side, mid, 2 if setting.quick else 32)
        works = {last: in_order(last, branch) for last in (False, True)}
        seconds = in_turns({str(last): work for last, work in works.items()}, setting.repeats)
        target: dict[str, float] = {"at_least" if side < CHANNELS_LAST_SIDE else "at_most": 1.0}
        what = f"{side}×{side}, {mid} channels, training step, channels last"
        yield CaseResult(what, ratio(seconds["True"], seconds["False"]), "× the time of NCHW", **target)


def in_order(last: bool, branch: Branch) -> Work:
    """Return a training step whose maps are in one memory order."""
    memory = torch.channels_last if last else torch.contiguous_format

    def arranged(self: Convolution, maps: Tensor) -> Tensor:
        return maps.contiguous(memory_format=memory)

    with mock.patch.object(Convolution, "arranged", arranged):
        step = training_step(branch.layer(), branch)

    def work() -> None:
        with mock.patch.object(Convolution, "arranged", arranged):
            step()

    return work


def launches(setting: BenchSetting) -> Iterator[CaseResult]:
    """Count the launches and waits that a training step would cost on a GPU, without one."""
    names = ("geq_tiny",) if setting.quick else ("geq_cifar_5m", "geq_strong_small", REFERENCE)
    for name in names:
        torch.manual_seed(0)
        model = create_model(name)
        found = counted(optimiser_step(model, torch.randn(2, *model.input_shape)))
        numbers = sum(found.launches.values()), sum(found.waits.values())
        targets = LARGEST_STEP if name == "geq_cifar_5m" else (None, None)
        for what, number, target in zip(("launches", "waits"), numbers, targets, strict=True):
            yield CaseResult(f"{name}, {what} of a training step", constant(number), what, at_most=target)
