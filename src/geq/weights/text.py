"""A card for people: ``README.md``, in Markdown, with the head that the Hugging Face Hub reads.

Everything in it comes from ``card.json``, so that the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from geq.training.option import TrainOptions
from geq.weights.card import Card
from geq.weights.origin import ORIGINS

MADE_FOR = 32
"""Side of the images that the corruptions were designed on."""

SECTIONS = (
    "Use",
    "Data",
    "Training",
    "Accuracy",
    "Calibration",
    "Corruption",
    "Certificate",
    "Intended use",
    "Limits",
    "Licence",
)


def card_text(card: Card) -> str:
    """The whole card."""
    writers = (use, data, training, accuracy, calibration, corruption, certificate, intended, limits, licence)
    sections = [f"## {title}\n\n{write(card)}" for title, write in zip(SECTIONS, writers, strict=True)]
    return "\n\n".join([head(card), f"# {card.name}\n\n{summary(card)}", *sections]) + "\n"


def without_head(text: str) -> str:
    """A card without the lines for the Hub.

    >>> without_head("---\\nlicense: mit\\n---\\n\\n# a\\n")
    '# a\\n'
    """
    return text.split("---\n", 2)[-1].lstrip("\n") if text.startswith("---\n") else text


def head(card: Card) -> str:
    lines = ["license: apache-2.0", "library_name: geq", "pipeline_tag: image-classification"]
    lines += ["tags: [equilibrium-model]", f"datasets: [{card.data}]", "metrics: [accuracy]"]
    return "\n".join(["---", *lines, "---"])


def summary(card: Card) -> str:
    colour = "grey" if card.shape[0] == 1 else "colour"
    return (
        f"A small equilibrium network (`{card.model}`, {card.parameters:,} parameters, {kilobytes(card)} "
        f"of weights) that sorts {colour} images of {card.shape[1]}×{card.shape[2]} into "
        f"{len(card.classes)} classes. It was trained on {title(card)} and is right on "
        f"{percent(card.test.accuracy)} of the test images."
    )


def title(card: Card) -> str:
    origin = ORIGINS.get(card.data)
    return card.data if origin is None else origin.title


def kilobytes(card: Card) -> str:
    return f"{card.weights_bytes / 1000:.0f} kB"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} %"


def table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """
    >>> print(table(("a", "b"), [("1", "2")]))
    | a | b |
    |---|--:|
    | 1 | 2 |
    """
    rule = "|".join(["---", *["--:"] * (len(columns) - 1)])
    return "\n".join([line(columns), f"|{rule}|", *map(line, rows)])


def line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def use(card: Card) -> str:
    return f"""```bash
geq predict {card.name} picture.png
geq evaluate {card.name}
geq explain {card.name} picture.png
```

```python
import geq

network = geq.Network.from_pretrained("{card.name}")
```

The network takes images with values from 0 to 1, less the mean and divided by the standard deviation of each
channel, which `data.json` states; `geq predict` does this."""


def data(card: Card) -> str:
    origin = ORIGINS.get(card.data)
    known = (
        f"The dataset is `{card.data}`; nothing is recorded here of where it comes from."
        if origin is None
        else f"{origin.title}. {origin.source}. Licence of the data: {origin.licence}."
    )
    return (
        f"{known}\n\nTrained on {card.training.train_images:,} images, measured on {card.test.images:,} "
        f"others. Classes: {', '.join(card.classes)}."
    )


def training(card: Card) -> str:
    found = card.training
    # Checked, and with the defaults of what a card does not state.
    chosen = TrainOptions.from_mapping(found.settings, f"the settings of {card.name}").as_mapping()
    if chosen["optimizer"] == "sgd":
        method = f"SGD with {'Nesterov ' if chosen['nesterov'] else ''}momentum {chosen['momentum']:g}"
    else:
        method = "AdamW"
    rows: list[tuple[str, str]] = [
        (
            "optimiser",
            f"{method}, learning rate {chosen['learning_rate']:g}, batches of {chosen['batch_size']}",
        ),
        (
            "schedule",
            f"{chosen['schedule']}, {found.epochs} epochs, of which {chosen['warmup_epochs']:g} warm-up",
        ),
        ("weight decay", f"{chosen['weight_decay']:g}"),
        ("gradient clipped to norm", f"{chosen['clip']:g}" if chosen["clip"] else "–"),
        ("augmentation", str(chosen["augment"])),
        *((option, shown(chosen[option])) for option in ("override", "gradient") if chosen[option]),
        ("seed", str(chosen["seed"])),
        ("time of the CPU", f"{found.cpu_seconds / 60:.1f} minutes"),
        ("begun", (found.started or "–")[:10]),
        ("commit of the code", commit(found.commit)),
        ("versions", ", ".join(f"{name} {version or '–'}" for name, version in found.packages.items())),
    ]
    looked = (
        "Nothing was chosen by the test images: the weights are those of the last epoch."
        if chosen["early_stop"] is None
        else "Validation images, held out of the training images, decided when to stop."
    )
    again = "On the same kind of machine with the same versions it gives the same weights."
    return f"```bash\n{found.command}\n```\n\n{table(('setting', 'value'), rows)}\n\n{again} {looked}"


def commit(found: str | None) -> str:
    """
    >>> commit("0123456789abcdef+changes"), commit(None)
    ('0123456789ab with changes', '–')
    """
    changed = " with changes" if found is not None and found.endswith("+changes") else ""
    return "–" if found is None else found[:12] + changed


def shown(value: Any) -> str:
    return ", ".join(f"`{item}`" for item in value) if isinstance(value, list) else str(value)


def accuracy(card: Card) -> str:
    found = card.test
    rows = [("accuracy", percent(found.accuracy))]
    rows += [("accuracy, top 5", percent(found.top5))] if found.top5 is not None else []
    rows += [("loss (cross-entropy)", f"{found.loss:.4f}")]
    if found.steps is not None and found.unconverged is not None:
        rows += [
            ("evaluations of an equilibrium's map, mean", f"{found.steps:.1f}"),
            ("samples that missed the solver's tolerance", percent(100 * found.unconverged)),
        ]
    return f"On all {found.images:,} test images; one training run.\n\n{table(('measure', 'value'), rows)}"


def calibration(card: Card) -> str:
    found = card.calibration
    rows = [
        ("mean confidence", percent(found.confidence)),
        (f"expected calibration error (ECE, {found.bins} bins)", percent(found.ece)),
        ("worst bin, which may hold few images", percent(found.mce)),
        ("negative log-likelihood", f"{found.nll:.4f}"),
        ("Brier score (0–2)", f"{found.brier:.4f}"),
    ]
    said = "surer than it is right" if found.confidence > card.test.accuracy else "less sure than it is right"
    text = f"On all {found.images:,} test images, without any correction afterwards; on average it is {said}."
    return f"{text}\n\n{table(('measure', 'value'), rows)}"


def corruption(card: Card) -> str:
    found = card.corruption
    groups = [("none", percent(found.clean)), *((name, percent(mean)) for name, mean in found.groups.items())]
    groups.append((f"all {len(found.each)}", percent(found.accuracy)))
    each = [(name, *(f"{value:.1f}" for value in values)) for name, values in found.each.items()]
    severities = tuple(f"severity {number}" for number in range(1, 6))
    harder = (
        ""
        if card.shape[1] >= MADE_FOR
        else f" Their lengths in pixels are meant for {MADE_FOR}×{MADE_FOR} and hit smaller images harder."
    )
    return (
        f"Accuracy on {found.images:,} test images that were corrupted as in CIFAR-10-C, at five "
        f"severities (seed {found.seed}).{harder}\n\n{table(('corruptions', 'accuracy'), groups)}\n\n"
        f"{table(('accuracy in %', *severities), each)}"
    )


def certificate(card: Card) -> str:
    if not card.certificate:
        return "The network has no equilibrium, so there is nothing to certify."
    rows = [
        (
            name,
            f"{found.feedback_norm:.4f}",
            verdict(found.unique),
            verdict(found.contraction),
            "–" if found.rate is None else f"{found.rate:.3f}",
            "–" if found.measured_rate is None else f"{found.measured_rate:.3f}",
            "–" if found.distance is None else f"{found.distance:.2g} %",
        )
        for name, found in card.certificate.items()
    ]
    columns = (
        *("equilibrium", "feedback norm ≤", "exactly one", "plain iteration contracts"),
        *("rate ≤", "measured rate", "‖z − z*‖/‖z‖ ≤"),
    )
    images = max(found.images for found in card.certificate.values())
    return (
        "Proved from the weights alone, for every input: whether each equilibrium is the only one, and "
        "how fast plain iteration finds it. The last column bounds how far the computed states are from "
        f"the equilibria for the inputs that they were given, on {images} test images. "
        f"Nothing of this says that a prediction is right.\n\n{table(columns, rows)}"
    )


def verdict(proved: bool | None) -> str:
    return "unknown" if proved is None else "yes" if proved else "not proved"


def intended(card: Card) -> str:
    return (
        "To try geq without training first: predictions, explanations, the demo, examples and lessons. "
        "As a fixed, small network against which a change of the code or a larger network can be compared."
    )


def limits(card: Card) -> str:
    origin = ORIGINS.get(card.data)
    said = [
        f"- It has {card.parameters:,} parameters and was trained for {card.training.epochs} epochs so "
        "that it fits into the package; larger networks are more accurate. It is no measure of what its "
        "kind of network can reach.",
        f"- It answers with one of its {len(card.classes)} classes whatever the image shows, and can be "
        "sure and wrong.",
        *([] if origin is None else [f"- {origin.limits}"]),
        f"- Corruptions take it from {percent(card.corruption.clean)} to "
        f"{percent(card.corruption.accuracy)} on average; it is not hardened against images made to "
        "mislead it.",
        "- All numbers are of one training run: with another seed they differ.",
        "- Nothing that matters to anyone should be decided by it.",
    ]
    return "\n".join(said)


def licence(card: Card) -> str:
    origin = ORIGINS.get(card.data)
    terms = "the terms of the data are not recorded here" if origin is None else f"the data: {origin.licence}"
    return f"The weights are under the Apache License 2.0, like geq; {terms}."
