"""Measurements on a finished run, besides its accuracy. Each keeps what it computes in the run's
folder where ``geq analyze`` would. Experiments are listed without torch, so it is imported when measuring.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from geq.model.config import ADDED_LATER

if TYPE_CHECKING:
    from torch import Tensor

    from geq.model.network import Network
    from geq.training.run_folder import RunFolder

Metrics = dict[str, float | int | None]


@dataclass(frozen=True)
class UnseenAccuracy:
    """Accuracy on the sub-classes (or classes) that a run on the known ones never saw, in %: only for runs
    with ``classes=known`` on data whose unseen part has the same labels (CIFAR-100's super-classes).
    """

    def measure(self, folder: RunFolder) -> Metrics:
        from geq.model.network import Network
        from geq.training.device import limited_threads
        from geq.training.evaluation import evaluate
        from geq.training.setup import evaluation_loader, open_split

        options = folder.options()
        if options.data_override.get("classes") != "known":
            return {}
        chosen = {**options.data_override, "classes": "unseen"}
        unseen = open_split(replace(options, data_override=chosen), "test")
        model = Network.from_pretrained(folder.model)
        with limited_threads(options, model):
            found = evaluate(model, evaluation_loader(unseen, statistics=folder.data().statistics))
        return {"unknown_accuracy": found.accuracy}


@dataclass(frozen=True)
class Calibration:
    """KL on known and unknown images (KerDEQ, section 4.3), ECE in % and Brier score.

    Unknown are the unseen classes of a run on the known ones; elsewhere uniform noise takes their place.

    Args:
        limit: most images; None is all.
        train_images: number of training images on which the out-of-distribution scores are fitted.
    """

    limit: int | None = None
    train_images: int = 2000

    def measure(self, folder: RunFolder) -> Metrics:
        from geq.analysis.part_runner import analysed
        from geq.analysis.settings import Settings

        values = analysed(folder, "calibration", Settings(limit=self.limit, train_images=self.train_images))
        strange = next(iter(values["ood"].values()))
        return {
            "known_kl": values["known_kl"],
            "unknown_kl": strange["unknown_kl"],
            "unknown_auroc": strange["auroc"]["confidence"],
            "ece": 100 * values["test"]["ece"],
            "brier": values["test"]["brier"],
        }


@dataclass(frozen=True)
class Corruption:
    """Accuracy in % under each corruption (mean of five severities), and the mean of those.

    Args:
        limit: most test images; None is all.
        names: of the corruptions; none is the 19 of CIFAR-10-C.
    """

    limit: int | None = None
    names: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)

    def measure(self, folder: RunFolder) -> Metrics:
        from geq.analysis.part_runner import analysed
        from geq.analysis.settings import Settings

        settings = Settings(limit=self.limit, corruptions=self.names)
        values = analysed(folder, "corruption", settings)["runs"][folder.name]
        each = {f"corruption/{name}": 100 - sum(e) / len(e) for name, e in values["errors"].items()}
        groups = {f"corruption_group/{name}": 100 - error for name, error in values["group_error"].items()}
        return {
            **each,
            **groups,
            "corruption_accuracy": 100 - values["mean_error"],
            "corruption_loss": values["lost_accuracy"],
        }


@dataclass(frozen=True)
class Saliency:
    """Measure of whether Grad-CAM finds the pixels that the network needs.

    ``cam_deletion`` is the mean fall of the class's probability, in points, when the most salient share of
    the pixels is replaced by the mean colour, less the fall for as many pixels at random; ``cam_focus`` is
    the share of the map's mass on those pixels, in %.

    Args:
        images: first ones of the test set.
        share: of the pixels.
    """

    images: int = 200
    share: float = 0.2

    def measure(self, folder: RunFolder) -> Metrics:
        import torch

        from geq.analysis.saliency import grad_cam, stretched
        from geq.equilibrium import ignore_failures
        from geq.model.network import Network
        from geq.training.device import limited_threads
        from geq.training.setup import evaluation_loader, open_split
        from geq_papers.tradeoff import first_images

        options, model = folder.options(), Network.from_pretrained(folder.model)
        test = open_split(options, "test")
        loader = evaluation_loader(test, batch_size=50, statistics=folder.data().statistics)
        random = torch.Generator().manual_seed(0)
        falls, focus = [], []
        with limited_threads(options, model), ignore_failures(model):
            model.eval()
            for images, _ in first_images(loader, self.images):
                with torch.no_grad():
                    sure, label = model(images).softmax(1).max(1)
                maps = stretched(grad_cam(model, images, label), *images.shape[-2:]).flatten(1)
                salient = self.top(maps)
                chance = self.top(torch.rand(maps.shape, generator=random))
                mass = (maps * salient).sum(1) / maps.sum(1).clamp_min(1e-12)
                focus.append(mass[maps.sum(1) > 0])  # a map of zeros has no place that it points to
                left = [self.probability(model, images, hidden, label) for hidden in (salient, chance)]
                falls.append((sure - left[0]) - (sure - left[1]))
        points = torch.cat(focus)
        return {
            "cam_deletion": 100 * float(torch.cat(falls).mean()),
            "cam_focus": 100 * float(points.mean()) if len(points) else None,
        }

    def top(self, scores: Tensor) -> Tensor:
        """1 at the highest share of each row, 0 elsewhere."""
        number = max(1, round(self.share * scores.shape[1]))
        return scores.new_zeros(scores.shape).scatter(1, scores.topk(number, 1).indices, 1.0)

    @staticmethod
    def probability(model: Network, images: Tensor, hidden: Tensor, label: Tensor) -> Tensor:
        """Of the class, with some pixels at 0, the mean of normalised images."""
        import torch

        kept = 1 - hidden.view(len(images), 1, *images.shape[-2:])
        with torch.no_grad():
            return model(images * kept).softmax(1).gather(1, label[:, None])[:, 0]


@dataclass(frozen=True)
class Speed:
    """Milliseconds for one image of a forward pass and of a backward pass after it, images a second of both
    together, and, with equilibria, mean residual and evaluations.

    Args:
        images: to take the time on, in batches as in training.
        repeats: passes, of which the fastest counts.
    """

    images: int = 500
    repeats: int = 3

    def measure(self, folder: RunFolder) -> Metrics:
        from geq.equilibrium import ignore_failures
        from geq.model.network import Network
        from geq.training.device import limited_threads
        from geq.training.setup import evaluation_loader, open_split
        from geq_papers.tradeoff import first_images, solved, timed_backward, timed_inference

        options, model = folder.options(), Network.from_pretrained(folder.model)
        loader = evaluation_loader(
            open_split(options, "test"), statistics=folder.data().statistics, batch_size=options.batch_size
        )
        with limited_threads(options, model), ignore_failures(model):
            batches = list(first_images(loader, self.images))
            number = sum(len(labels) for _, labels in batches)
            forward = min(timed_inference(model, batches) for _ in range(self.repeats))
            backward = min(timed_backward(model, batches) for _ in range(self.repeats))
            found: Metrics = {
                "inference_ms": 1000 * forward / number,
                "backward_ms": 1000 * backward / number,
                "images_per_second": number / (forward + backward),
            }
            if model.equilibria():
                found["mean_residual"], found["mean_evaluations"] = solved(model, batches)
        return found


@dataclass(frozen=True)
class FeatureSize:
    """Mean |z| and mean z² over the entries of the equilibria (OptEq, table 3).

    Args:
        images: first ones of the test set.
    """

    images: int = 500

    def measure(self, folder: RunFolder) -> Metrics:
        import torch

        from geq.model.network import Network
        from geq.training.device import limited_threads
        from geq.training.evaluation import evaluating
        from geq.training.setup import evaluation_loader, open_split
        from geq_papers.tradeoff import first_images

        options, model = folder.options(), Network.from_pretrained(folder.model)
        test = open_split(options, "test")
        states: list[Tensor] = []
        layers = model.equilibria().values()
        handles = [layer.register_forward_hook(lambda _, given, z: states.append(z)) for layer in layers]
        try:
            with limited_threads(options, model), evaluating(model, test):
                loader = evaluation_loader(test, statistics=folder.data().statistics)
                for images, _ in first_images(loader, self.images):
                    model(images)
        finally:
            for handle in handles:
                handle.remove()
        if not states:
            return {}
        z = torch.cat([state.flatten() for state in states]).double()
        return {"mean_abs": float(z.abs().mean()), "mean_square": float(z.square().mean())}
