"""Claims of the papers as data, and the judgement of them by paired seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from geq.errors import InputError
from geq_papers.experiment.record import Record

Verdict = Literal["holds", "fails", "undecided at this scale", "not run"]
FEWEST_SEEDS = 3
"""Fewer paired seeds give no verdict."""

CONFIDENCE = 0.95
POWER = 0.8
"""Probability with which :func:`detectable` asks for a difference to be found."""

CONTRAST = (1, -1, -1, 1)
"""Of the arms of a claim, two or four: better − worse, minus the same of a further pair."""


@dataclass(frozen=True)
class Claim:
    """One arm is better than another by more than ``at_least``.

    Args:
        text: the claim as a person says it.
        better_arm, worse_arm: by name.
        metric: key of the records' metrics.
        published_difference: better − worse as the paper has it (worse − better where lower is better, so
            that above 0 always speaks for the claim); None where the paper gives no number.
        at_least: the difference that must be exceeded. Below 0: "not worse by more than".
        lower_is_better: of the metric.
        ours: this project asks it, no paper claims it (as for the γ = 0 control).
        seeds: paired seeds that a verdict needs: where a protocol says how many, fewer decide nothing.
        beyond: two further arms. What must exceed ``at_least`` is then the difference of the first two minus
            the difference of these: does a lead grow?
    """

    text: str
    better_arm: str
    worse_arm: str
    metric: str
    published_difference: float | None = None
    at_least: float = 0.0
    lower_is_better: bool = False
    ours: bool = False
    seeds: int = FEWEST_SEEDS
    beyond: tuple[str, str] | None = None

    @property
    def arms(self) -> tuple[str, ...]:
        """Those whose records are needed: better, worse, better, worse …"""
        return (self.better_arm, self.worse_arm, *(self.beyond or ()))


@dataclass(frozen=True)
class Judgement:
    """A claim with what the records say.

    Args:
        claim: the claim.
        differences: paired seed -> difference; above 0 speaks for the claim.
        mean: of them; None without any.
        low, high: 95 % Student interval of the mean; None with fewer than two.
        seeds: the paired seeds with a number.
        verdict: what follows.
        reason: why there is no verdict, or "".
        caveat: what to keep in mind with the verdict, or "".
        detectable: smallest true difference from the threshold that so many seeds find, see
            :func:`detectable`; None with fewer than two.
    """

    claim: Claim
    differences: dict[int, float]
    mean: float | None
    low: float | None
    high: float | None
    seeds: tuple[int, ...]
    verdict: Verdict
    reason: str = ""
    caveat: str = ""
    detectable: float | None = None


def judge(claim: Claim, records: Iterable[Record]) -> Judgement:
    """The paired differences of the claim's arms, their interval and the verdict.

    Seeds that not all arms have are left out. A run whose metric is not finite leaves the claim undecided:
    without it, what remains would be a choice of the lucky runs.
    """
    chosen = [record for record in records if record.arm in claim.arms]
    for arm in claim.arms:
        kinds = {(r.experiment, r.scale, r.config_hash) for r in chosen if r.arm == arm}
        if len(kinds) > 1:
            raise InputError(
                f"the records of arm {arm!r} must be of one experiment, scale and configuration: got "
                f"{', '.join('/'.join(kind) for kind in sorted(kinds))}; "
                "see geq_papers.experiment.plan.usable"
            )
    of_arm = [
        {r.seed: r.figures[claim.metric] for r in chosen if r.arm == arm and claim.metric in r.figures}
        for arm in claim.arms
    ]
    sign = -1.0 if claim.lower_is_better else 1.0
    differences, undefined = {}, []
    for seed in sorted(set.intersection(*map(set, of_arm))):
        values = [found[seed] for found in of_arm]
        if all(map(is_number, values)):
            differences[seed] = sign * sum(w * value for w, value in zip(CONTRAST, values, strict=False))
        else:
            undefined.append(seed)
    mean, low, high = interval(list(differences.values()))
    verdict, reason = decide(claim, mean, low, high, len(differences), undefined)
    caveat = crossed(chosen, differences)
    least = detectable(list(differences.values()))
    return Judgement(claim, differences, mean, low, high, tuple(differences), verdict, reason, caveat, least)


def crossed(records: list[Record], seeds: Iterable[int]) -> str:
    """A caveat where the runs of one seed were made on different processors.

    These round differently, which moves a training about as much as another seed does, so that such a pair
    has hardly more in common than the two settings.
    """
    processors = [{str(r.machine.get("cpu")) for r in records if r.seed == seed} for seed in seeds]
    number = sum(len(kinds) > 1 for kinds in processors)
    return f"{number} of {counted(len(processors), 'pair')} ran on different processors" if number else ""


def decide(
    claim: Claim,
    mean: float | None,
    low: float | None,
    high: float | None,
    seeds: int,
    undefined: list[int],
) -> tuple[Verdict, str]:
    if undefined:
        listed = ", ".join(map(str, undefined))
        return "undecided at this scale", f"{claim.metric} is not a number with seed {listed}"
    if mean is None:
        return "not run", "no seed was run with all of its arms"
    if seeds < claim.seeds or low is None or high is None:
        return "undecided at this scale", f"{counted(seeds, 'paired seed')}; a verdict needs {claim.seeds}"
    if low > claim.at_least:
        return "holds", ""
    if high < claim.at_least:
        return "fails", ""
    return "undecided at this scale", f"the interval contains {claim.at_least:g}"


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "seed"), counted(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def interval(values: list[float]) -> tuple[float | None, float | None, float | None]:
    """Mean and Student's confidence interval of it.

    >>> interval([1.0]), interval([])
    ((1.0, None, None), (None, None, None))
    """
    from scipy.special import stdtrit  # 0.2 s, which only a verdict needs

    if not values:
        return None, None, None
    mean = math.fsum(values) / len(values)
    spread = deviation(values)
    if spread is None:
        return mean, None, None
    half = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * spread / math.sqrt(len(values))
    return mean, mean - half, mean + half


def deviation(values: list[float]) -> float | None:
    """The standard deviation of a sample (n − 1); None with fewer than two values.

    >>> deviation([1.0, 3.0])
    1.4142135623730951
    """
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def detectable(values: list[float]) -> float | None:
    """Smallest true mean whose Student interval excludes 0 with a probability of 80 %, from the spread of a
    sample and its size; None with fewer than two values, and 0 where they do not differ.

    With n values of deviation s, the statistic of a true mean μ has a noncentral t distribution of n − 1
    degrees of freedom and noncentrality μ√n/s.

    >>> round(detectable([1.0, 2.0, 3.0]), 3)
    3.264
    """
    spread = deviation(values)
    if spread is None:
        return None
    return spread * noncentrality(len(values)) / math.sqrt(len(values))


def noncentrality(number: int) -> float:
    """The noncentrality at which a two-sided t test of ``number`` values has a power of 80 %."""
    from scipy.special import nctdtr, stdtrit

    freedom = number - 1
    limit = float(stdtrit(freedom, (1 + CONFIDENCE) / 2))

    def power(shift: float) -> float:
        return 1 - float(nctdtr(freedom, shift, limit)) + float(nctdtr(freedom, shift, -limit))

    low, high = 0.0, 4 * limit
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle) < POWER else (low, middle)
    return high
