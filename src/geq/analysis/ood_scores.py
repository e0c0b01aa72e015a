"""Scores that detect out-of-distribution images, and their quality.

A score is meant to be larger for such images. What is expected before looking at them:

* **confidence** is lower there, so the score is −logit of the largest probability (any increasing function
  of it tells the same); entropy, and the free energy −log Σ exp(logits), are its usual rivals;
* the **energy** G(z*; x) = f(z*) + ½‖z*‖² − S is higher, because the equilibrium finds less similarity S to
  such an input: +G, for each equilibrium and summed;
* **β** is lower, because the state explains fewer patches: −(mean β).

The signs are fixed here and not chosen by the result: 1 − AUROC is what the other sign would give, but it
could only be chosen after seeing the out-of-distribution images. *Unusual* scores need no sign: the
Mahalanobis distance of the energies (or the β) of all equilibria from those of training images.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geq.analysis.image_outputs import Observation
from geq.errors import InputError

Rows = Float[Tensor, "n"]


def auroc(inside: Float[Tensor, " n"], outside: Float[Tensor, " m"]) -> float:
    """The chance that an image from outside has the larger score; ties count half.

    >>> auroc(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]))
    0.875
    """
    if not len(inside) or not len(outside):
        raise InputError(f"AUROC needs images of both kinds: got {len(inside)} and {len(outside)}")
    order = inside.sort().values
    below = torch.searchsorted(order, outside.contiguous())
    up_to = torch.searchsorted(order, outside.contiguous(), right=True)
    return float((below + up_to).double().mean()) / (2 * len(inside))


def doubt(logits: Float[Tensor, "n classes"]) -> Rows:
    """−logit of the largest probability, also where that rounds to 1."""
    best, predicted = logits.max(1)
    others = logits.scatter(1, predicted[:, None], -torch.inf).logsumexp(1)
    return others - best


def entropy(logits: Float[Tensor, "n classes"]) -> Rows:
    return torch.special.entr(logits.softmax(1)).sum(1)


@dataclass(frozen=True)
class Usual:
    """Mean and spread of numbers on usual images, to measure distances from them."""

    mean: Float[Tensor, " k"]
    inverse: Float[Tensor, "k k"]

    @classmethod
    def of(cls, values: Float[Tensor, "n k"]) -> Usual:
        centred = values - values.mean(0)
        covariance = centred.T @ centred / max(len(values) - 1, 1)
        # The pseudo-inverse: numbers that never vary (β of a control with γ = 0) say nothing.
        return cls(values.mean(0), torch.linalg.pinv(covariance, hermitian=True, rtol=1e-9))

    def distance(self, values: Float[Tensor, "n k"]) -> Rows:
        away = values - self.mean
        return ((away @ self.inverse) * away).sum(1).clamp_min(0).sqrt()


@dataclass(frozen=True)
class Scores:
    """The scores of an image, fitted to training images alone."""

    energy: Usual | None
    attention: Usual | None
    scale: dict[str, tuple[float, float]]
    """Mean and deviation over training images of what is added up in a combination."""

    @classmethod
    def fit(cls, training: Observation) -> Scores:
        energy = Usual.of(table(training.energy)) if training.energy else None
        attention = Usual.of(table(training.attention)) if training.attention else None
        plain = cls(energy, attention, {}).single(training)
        scale = {
            name: (float(values.mean()), max(float(values.std(correction=0)), 1e-12))
            for name, values in plain.items()
        }
        return cls(energy, attention, scale)

    def single(self, seen: Observation) -> dict[str, Rows]:
        """Every score that rests on one thing, by name."""
        result = {
            "confidence": doubt(seen.logits),
            "entropy": entropy(seen.logits),
            "free energy of the logits": -seen.logits.logsumexp(1),
        }
        if self.energy is not None:
            result |= {f"energy of {name}": values for name, values in seen.energy.items()}
            result["energy, summed"] = table(seen.energy).sum(1)
            result["energy, unusual"] = self.energy.distance(table(seen.energy))
        if self.attention is not None:
            result |= {f"β of {name}": -values for name, values in seen.attention.items()}
            result["β, mean"] = -table(seen.attention).mean(1)
            result["β, unusual"] = self.attention.distance(table(seen.attention))
        return result

    def all(self, seen: Observation) -> dict[str, Rows]:
        """The single scores, and sums of confidence with each summary of the hidden problem, all in
        deviations of the training images.
        """
        single = self.single(seen)
        joint = {
            f"confidence + {name}": self.standard("confidence", single) + self.standard(name, single)
            for name in ("energy, summed", "energy, unusual", "β, mean", "β, unusual")
            if name in single
        }
        return single | joint

    def standard(self, name: str, values: dict[str, Rows]) -> Rows:
        mean, deviation = self.scale[name]
        return (values[name] - mean) / deviation


def table(columns: dict[str, Rows]) -> Float[Tensor, "n k"]:
    return torch.stack(list(columns.values()), dim=1)


@dataclass(frozen=True)
class Gain:
    """Gain of one score over another, with the middle 95 % over resampled images."""

    difference: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        return "helps" if self.low > 0 else "harms" if self.high < 0 else "no difference"


def gain(
    better: tuple[Tensor, Tensor], base: tuple[Tensor, Tensor], draws: int, seed: int, what: int = 0
) -> Gain:
    """AUROC of ``better`` minus that of ``base``, each given as (inside, outside), on the same images."""
    random = np.random.default_rng([seed, what])
    differences = []
    for _ in range(draws):
        inside = torch.from_numpy(random.integers(len(base[0]), size=len(base[0])))
        outside = torch.from_numpy(random.integers(len(base[1]), size=len(base[1])))
        differences.append(
            auroc(better[0][inside], better[1][outside]) - auroc(base[0][inside], base[1][outside])
        )
    low, high = np.quantile(differences, (0.025, 0.975))
    return Gain(auroc(*better) - auroc(*base), float(low), float(high))
