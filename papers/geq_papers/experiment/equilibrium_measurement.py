"""Measurements of the study on a run's equilibria, on validation images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geq_papers.experiment.measurement import Metrics

if TYPE_CHECKING:
    from torch import Tensor

    from geq.cells.base import State
    from geq.data.dataset import Dataset
    from geq.equilibrium import Equilibrium
    from geq.model.network import Network
    from geq.training.run_folder import RunFolder


def held_out(folder: RunFolder) -> Dataset:
    """The validation images of a run; the test images of one that has none."""
    from geq.training.setup import open_split

    options = folder.options()
    return open_split(options, "val" if options.validation else "test")


def first_held_out(folder: RunFolder, number: int) -> Tensor:
    return first_seen(folder, held_out(folder), number)


def first_seen(folder: RunFolder, dataset: Dataset, number: int) -> Tensor:
    """First images of a dataset as the network of the run sees them."""
    from geq.training.setup import evaluation_loader

    loader = evaluation_loader(dataset, batch_size=number, statistics=folder.data().statistics)
    images: Tensor = next(iter(loader))[0]
    return images


@dataclass(frozen=True)
class Validated:
    """Accuracy in % on the validation images at the end of the training, as the run's log has it."""

    def measure(self, folder: RunFolder) -> Metrics:
        last = folder.epochs()[-1]
        return {"validation_accuracy": last.get("validation_accuracy", last.get("test_accuracy"))}


@dataclass(frozen=True)
class Equilibria:
    """Feedback ‖Wz‖/‖Ux + b‖, evaluations, β and γ; means over the branches.

    Args:
        images: first ones of the held-out images.
    """

    images: int = 256

    def measure(self, folder: RunFolder) -> Metrics:
        from geq.model.network import Network
        from geq.training.device import limited_threads
        from geq.training.equilibrium_probe import probe

        images, trained = first_held_out(folder, self.images), Network.from_pretrained(folder.model)
        with limited_threads(folder.options(), trained):
            branches = list(probe(trained, images).values())
        found: Metrics = {
            "feedback": mean(branch.feedback for branch in branches),
            "gamma": mean(branch.gamma for branch in branches),
            "beta_mean": mean(None if b.attention is None else float(b.attention.mean()) for b in branches),
            "evaluations": folder.epochs()[-1].get("solver_steps"),
        }
        return known(found)


@dataclass(frozen=True)
class SinceStart:
    """Changes of γ, q and the rank of W_h in training; means over the branches.

    Args:
        images: first ones of the held-out images.
    """

    images: int = 256

    def measure(self, folder: RunFolder) -> Metrics:
        from geq.model.network import Network
        from geq.training.device import limited_threads
        from geq.training.equilibrium_probe import probe, probe_with_batch_statistics
        from geq.training.fit import seed_everything
        from geq.training.setup import build_model

        options, images = folder.options(), first_held_out(folder, self.images)
        trained = Network.from_pretrained(folder.model)
        seed_everything(options.seed)
        fresh = build_model(options, folder.data())
        with limited_threads(options, trained):
            now, before = probe(trained, images), probe_with_batch_statistics(fresh, images)
        pairs = [(now[name], before[name]) for name in before]
        rank = mean(ratio(n.rank, b.rank) for n, b in pairs)
        found: Metrics = {
            "gamma_ratio": mean(ratio(n.gamma, b.gamma) for n, b in pairs),
            "distance_ratio": mean(ratio(n.distance, b.distance) for n, b in pairs),
            "rank_kept": None if rank is None else 100 * rank,
        }
        return known(found)


def ratio(now: float | None, before: float | None) -> float | None:
    return None if now is None or not before else now / before


def known(found: Metrics) -> Metrics:
    """Without what a network does not have."""
    return {name: value for name, value in found.items() if value is not None}


def mean(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


@dataclass(frozen=True)
class CutOff:
    """Accuracy in % with every equilibrium cut off after its first evaluations, and what that loses.

    Trained to the end of the iteration and tested after one step: where nothing is lost, the network is a
    feed-forward one in disguise.

    Args:
        evaluations: of the map, from z = 0.
    """

    evaluations: int = 1

    def measure(self, folder: RunFolder) -> Metrics:
        from geq.model.network import Network
        from geq.training.device import limited_threads
        from geq.training.evaluation import evaluate
        from geq.training.setup import evaluation_loader

        model, dataset = Network.from_pretrained(folder.model), held_out(folder)
        loader = evaluation_loader(dataset, statistics=folder.data().statistics)
        with limited_threads(folder.options(), model):
            whole = evaluate(model, loader).accuracy
            with cut_off(model, self.evaluations):
                cut = evaluate(model, loader).accuracy
        return {"cut_accuracy": cut, "cut_loss": whole - cut}


@contextmanager
def cut_off(model: Network, evaluations: int) -> Iterator[None]:
    """The model whose equilibria are replaced by so many plain evaluations of their maps."""
    layers = list(model.equilibria().values())
    for layer in layers:
        layer.forward = cut(layer, evaluations)  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward  # the class's own again


def cut(layer: Equilibrium, evaluations: int) -> Callable[[Tensor], State]:
    def forward(x: Tensor) -> State:
        fn = layer.cell.equation(x)
        z = fn.start()
        for _ in range(evaluations):
            z = fn(z)
        return fn.state(z)

    return forward


@dataclass(frozen=True)
class EvenWeights:
    """Accuracy in % when every patch has the mean weight β of its equilibrium, and what that loses.

    The mean pull stays and the choice between patches goes, which is all that a Gaussian has over its γ = 0
    control: where nothing is lost, the network does not use it.

    Args:
        images: first ones of the held-out images, for the mean.
    """

    images: int = 256

    def measure(self, folder: RunFolder) -> Metrics:
        from geq.model.network import Network
        from geq.training.device import limited_threads
        from geq.training.evaluation import evaluate
        from geq.training.setup import evaluation_loader

        model = Network.from_pretrained(folder.model)
        loader = evaluation_loader(held_out(folder), statistics=folder.data().statistics)
        with limited_threads(folder.options(), model):
            whole = evaluate(model, loader).accuracy
            if not even_weights(model, first_held_out(folder, self.images)):
                return {}
            even = evaluate(model, loader).accuracy
        return {"even_accuracy": even, "even_loss": whole - even}


def even_weights(model: Network, images: Tensor) -> bool:
    """Give every patch the mean weight that its equilibrium has on these images; False where none has any.

    β̄dW_hW_hᵀ is the pull of the γ = 0 control whose W_h is √β̄ times as large.
    """
    import torch

    from geq.bandwidth import ZeroGamma
    from geq.kernels import PatchGaussianKernel
    from geq.training.equilibrium_probe import probe

    with torch.no_grad():
        branches, changed = probe(model, images), False
        for name, layer in model.equilibria().items():
            weights = branches[name].attention if name in branches else None
            if weights is None or not isinstance(layer.problem.kernel, PatchGaussianKernel):
                continue
            kernel = layer.problem.kernel
            kernel.raw_projection.copy_(kernel.projection * weights.mean().sqrt())
            kernel.gamma = ZeroGamma()
            changed = True
    return changed
