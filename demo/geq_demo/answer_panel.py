"""The first part of a panel: what a network says, how it came to an end, and what is proved of that."""

from __future__ import annotations

from geq.analysis.explanation import Explanation
from geq.certificates.in_words import existence, proved_unique, speed
from geq.number_format import shown
from geq_demo.input_image import Picture
from geq_demo.markup import EMPTY, Markup, drawn, element, figure, join, rgb
from geq_demo.served_network import Answer, Exhibit

BARS = 5
"""Classes that are shown with their probability."""


def answer_part(answer: Answer, exhibit: Exhibit, picture: Picture) -> Markup:
    found, classes = answer.explanation, exhibit.explainer.data.classes
    truth = picture.truth if picture.truth in classes else None  # another dataset has other names
    beside = [
        seen(answer),
        element("div", [verdict(found, truth), bars(found, classes)], {"class": "grow"}),
    ]
    parts = [
        element("h3", f"{exhibit.name} on {picture.title}"),
        element("p", exhibit.summary(), {"class": "quiet"}),
        element("div", beside, {"class": "beside"}),
        facts(found),
        certificate(found),
    ]
    return element("div", parts, {"class": "geq answer"})


def seen(answer: Answer) -> Markup:
    _, _, height, width = answer.image.shape
    image = drawn(rgb(answer.image), "the image as the network sees it")
    return figure(image, "What the network sees", f"{height}×{width} pixels")


def verdict(found: Explanation, truth: str | None) -> Markup:
    words = [
        element("strong", found.label, {"class": "said"}),
        element("span", f" {100 * found.confidence:.1f} % sure", {"class": "sure"}),
    ]
    if truth is not None:
        right = truth == found.label
        note = "correct" if right else f"wrong: it is {truth}"
        words.append(element("span", note, {"class": "badge good" if right else "badge bad"}))
    return element("p", words, {"class": "verdict"})


def bars(found: Explanation, classes: tuple[str, ...]) -> Markup:
    """The most probable classes, with their probability as a length."""
    best = found.probabilities.topk(min(BARS, len(classes)))
    rows = []
    for value, number in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        track = element(
            "span", element("span", "", {"style": f"width:{100 * value:.2f}%"}), {"class": "track"}
        )
        name = element("span", classes[number], {"class": "name"})
        rows.append(
            element("li", [name, track, element("span", f"{100 * value:.1f} %", {"class": "percent"})])
        )
    return element("ul", rows, {"class": "bars"})


def facts(found: Explanation) -> Markup:
    """Steps, residual and convergence of the solver."""
    if not found.branches:
        words = "This network has no equilibrium: it computes its answer in one pass."
        return element("p", words, {"class": "quiet"})
    steps = ", ".join(str(branch.steps) for branch in found.branches)
    several = len(found.branches) > 1
    items = [
        ("steps of the solver", f"{steps} (one number per branch)" if several else steps),
        ("what still moved at the end (residual)", shown(found.residual)),
        ("converged", "yes" if found.converged else "no: the answer is the best state that was found"),
    ]
    cells = [element("div", [element("dt", name), element("dd", value)]) for name, value in items]
    return element("dl", cells, {"class": "facts"})


def certificate(found: Explanation) -> Markup:
    """Return the certificate of the weights in plain words."""
    if not found.branches:
        return EMPTY
    certificates = [branch.certificate for branch in found.branches]
    unique = proved_unique(certificates)
    sentences = [existence(certificates), speed(branch.rate for branch in found.branches)]
    if found.distance is not None:
        # In a cascade the later ones are given what the earlier ones computed.
        whose = "Each" if len(found.branches) > 1 else "The"
        near = f"{100 * found.distance:.2g} % of the exact equilibrium for what it was given"
        sentences.append(f"{whose} computed state is within {near}.")
    mark = element("strong", "Proved. " if unique else "Not proved. ")
    return element(
        "p", [mark, join(sentences, " ")], {"class": "certificate good" if unique else "certificate open"}
    )
