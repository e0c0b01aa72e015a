"""Calibration of a trained classifier, and whether it notices images unlike its training data.

ECE has bins of equal width (:class:`~geq.analysis.calibration_metrics.Reliability`). KerDEQ's protocol
(section 4.3, table 3) trains on the first five classes: "known KL" is the NLL on their test images, "unknown
KL" the mean KL(prediction, uniform) on images of the other five. It is computed for any run; see
:mod:`geq.analysis.ood_datasets` for what is shown to a run that was trained on all classes.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from geq.analysis.analysed_network import Subject
from geq.analysis.calibration_metrics import Reliability, divergence_from_uniform, summary
from geq.analysis.image_outputs import Observation, observe
from geq.analysis.ood_datasets import limited, strange_sets, trained_on_known_classes
from geq.analysis.ood_scores import Gain, Scores, auroc, gain
from geq.analysis.result import Result, TextTable
from geq.analysis.result_pictures import draw_ood, draw_reliability
from geq.atomic_io import explained_write_errors
from geq.data.dataset import Dataset
from geq.errors import InputError
from geq.number_format import shown

COMBINED = "confidence + "


def analyse(subject: Subject) -> Result:
    settings = subject.settings
    test = limited(subject.labelled("test"), settings.limit)
    if len(test.classes) > subject.model.num_classes:
        raise InputError(
            f"the network has {subject.model.num_classes} classes; {test.name} has {len(test.classes)}: "
            "choose the data that it was trained on"
        )

    def seen(dataset: Dataset, what: str) -> Observation:
        return observe(subject.model, subject.loader(dataset), subject.progress, what)

    inside = seen(test, "test images")
    strange = {name: seen(found, name) for name, found in strange_sets(subject, test).items()}
    scores = Scores.fit(seen(limited(subject.labelled("train"), settings.train_images), "training images"))
    known = summary(inside.logits, inside.labels, settings.bins)
    values: dict[str, Any] = {
        "test": known,
        "bins": bins_of(Reliability.of(inside.logits, inside.labels, settings.bins)),
        "known_kl": known["nll"],
        "largest_kl": math.log(subject.model.num_classes),
        "ood": {name: compare(inside, outside, scores, settings) for name, outside in strange.items()},
        "unconverged": {
            "test": inside.unconverged,
            **{name: outside.unconverged for name, outside in strange.items()},
        },
    }
    folder = subject.folder.analysis
    with explained_write_errors(folder, "The result was not kept."):
        draw(folder, subject, inside, strange, scores, values)
    tables = [quality_table(known, settings.bins), kl_table(known, values)]
    tables += [auroc_table(name, found) for name, found in values["ood"].items()]
    return Result(values, tables, notes(subject, inside, values))


def compare(inside: Observation, outside: Observation, scores: Scores, settings: Any) -> dict[str, Any]:
    """Compare one out-of-distribution set with the test images."""
    ours, theirs = scores.all(inside), scores.all(outside)
    found = {name: auroc(ours[name], theirs[name]) for name in ours}
    base = (ours["confidence"], theirs["confidence"])
    gains = {
        name: gain((ours[name], theirs[name]), base, settings.draws, settings.seed)
        for name in ours
        if name.startswith(("energy, ", "β, ", COMBINED))
    }
    return {
        "images": len(outside.labels),
        "unknown_kl": float(divergence_from_uniform(outside.logits).mean()),
        "confidence": 100 * float(outside.logits.softmax(1).amax(1).mean()),
        "auroc": found,
        "over_confidence": {
            name: {"difference": g.difference, "low": g.low, "high": g.high, "verdict": g.verdict}
            for name, g in gains.items()
        },
    }


def bins_of(found: Reliability) -> list[dict[str, float | int]]:
    width = 1 / len(found.count)
    return [
        {
            "from": number * width,
            "to": (number + 1) * width,
            "images": int(found.count[number]),
            "confidence": float(found.confidence[number]),
            "accuracy": float(found.accuracy[number]),
        }
        for number in range(len(found.count))
    ]


def draw(
    folder: Path,
    subject: Subject,
    inside: Observation,
    strange: dict[str, Observation],
    scores: Scores,
    values: dict[str, Any],
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    title = f"{subject.options.model} on {subject.options.data} (run {subject.folder.name})"
    found = Reliability.of(inside.logits, inside.labels, subject.settings.bins)
    draw_reliability(found, values["test"], folder / "calibration.png", title)
    ours, theirs = scores.all(inside), {name: scores.all(outside) for name, outside in strange.items()}
    draw_ood(ours, theirs, {name: v["auroc"] for name, v in values["ood"].items()}, folder / "ood.png", title)


def quality_table(known: dict[str, float | int], bins: int) -> TextTable:
    row = (
        f"{known['images']:,}",
        f"{known['accuracy']:.2f} %",
        f"{known['confidence']:.2f} %",
        f"{100 * known['ece']:.2f} %",
        f"{100 * known['mce']:.2f} %",
        shown(known["nll"], 4),
        shown(known["brier"], 4),
    )
    columns = (
        "images",
        "accuracy",
        "mean confidence",
        f"ECE ({bins} bins)",
        "worst bin",
        "NLL",
        "Brier (0–2)",
    )
    return TextTable("Calibration on the test images", columns, (row,))


def kl_table(known: dict[str, float | int], values: dict[str, Any]) -> TextTable:
    rows = [
        ("test images", f"{known['images']:,}", f"{known['confidence']:.2f} %", shown(known["nll"], 3), "–")
    ]
    for name, found in values["ood"].items():
        kl = shown(found["unknown_kl"], 3)
        rows.append((name, f"{found['images']:,}", f"{found['confidence']:.2f} %", "–", kl))
    columns = (
        "set",
        "images",
        "mean confidence",
        "known KL",
        f"KL to uniform (≤ {values['largest_kl']:.3f})",
    )
    return TextTable("KerDEQ's protocol: lower is better", columns, tuple(rows))


def auroc_table(name: str, found: dict[str, Any]) -> TextTable:
    rows = []
    for score, area in found["auroc"].items():
        over = found["over_confidence"].get(score)
        difference = "" if over is None else f"{over['difference']:+.3f}"
        middle = "" if over is None else f"{over['low']:+.3f} … {over['high']:+.3f}"
        rows.append((score, f"{area:.3f}", difference, middle))
    columns = ("score", "AUROC", "over confidence", "95 % of resampled")
    return TextTable(f"Telling {name} from test images (0.5 is chance)", columns, tuple(rows))


def notes(subject: Subject, inside: Observation, values: dict[str, Any]) -> list[str]:
    said = []
    for name, found in values["ood"].items():
        said += verdicts(name, found)
    if not inside.energy:
        name = subject.model.registry_name or type(subject.model).__name__
        said.append(f"{name} minimises no hidden objective: no scores by energy and β.")
    elif not inside.attention:
        said.append("The kernel has no attention: no scores by β.")
    if not trained_on_known_classes(subject) and subject.settings.ood is None:
        said.append(
            "The out-of-distribution images are synthetic; --ood DATASET takes real ones, and a run with "
            "--data.classes known has unseen classes."
        )
    missed = {name: share for name, share in values["unconverged"].items() if share}
    said += [
        f"{100 * share:.2f} % of {name} missed the solver's tolerance." for name, share in missed.items()
    ]
    said.append("Pictures: analysis/calibration.png and analysis/ood.png in the run's folder.")
    return said


def verdicts(name: str, found: dict[str, Any]) -> list[str]:
    """Return sentences that compare scores of the hidden problem, alone and added, with the confidence."""
    base, said = found["auroc"]["confidence"], []
    for what in ("energy", "β"):
        both = {
            key: Gain(v["difference"], v["low"], v["high"]) for key, v in found["over_confidence"].items()
        }
        alone = {key: g for key, g in both.items() if key.startswith(f"{what}, ")}
        added = {key: g for key, g in both.items() if key.startswith(f"{COMBINED}{what}")}
        if not alone:
            continue
        by_itself = ", ".join(f"{base + g.difference:.3f} ({key})" for key, g in alone.items())
        with_it = ", ".join(
            f"{key.removeprefix(COMBINED)} {g.verdict} ({g.difference:+.3f})" for key, g in added.items()
        )
        said.append(
            f"{name}: confidence detects them with AUROC {base:.3f}; {what} alone: {by_itself}; "
            f"added to confidence: {with_it}."
        )
    return said
