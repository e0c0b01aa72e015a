"""The last part of a panel: where in the image the evidence is, and which patches the equilibria explain."""

from __future__ import annotations

from jaxtyping import UInt8
from torch import Tensor

from geq.analysis.explanation import BranchView, Explanation
from geq.analysis.saliency_picture import ENERGY, SALIENCY, WEIGHT, number_format
from geq_demo.markup import EMPTY, Markup, drawn, element, figure, over, scale
from geq_demo.served_network import Answer


def focus_part(answer: Answer) -> Markup:
    found, image = answer.explanation, answer.image
    notes = [element("p", note, {"class": "quiet"}) for note in found.notes]
    parts = [saliency(image, found), weights(image, found), energies(image, found), *notes]
    return element("div", [element("h3", "Explanation"), *parts], {"class": "geq focus"})


def section(title: str, words: str, figures: list[Markup], legend: Markup) -> Markup:
    return element(
        "section",
        [
            element("h4", title),
            element("p", words, {"class": "quiet"}),
            element("div", figures, {"class": "maps"}),
            legend,
        ],
    )


def saliency(image: UInt8[Tensor, "1 c h w"], found: Explanation) -> Markup:
    """Grad-CAM of the whole network, and of each equilibrium where there are several."""
    maps = [] if found.saliency is None else [("whole network", found.saliency)]
    if len(found.branches) > 1:
        maps += [(branch.label, branch.saliency) for branch in found.branches]
    if not maps:
        return EMPTY
    figures = []
    for label, values in maps:
        top = float(values.max())
        shown = drawn(
            over(image, values, SALIENCY, 0.0, top if top > 0 else 1.0, sharp=False),
            f"Grad-CAM of {label}",
            sharp=False,
        )
        figures.append(figure(shown, label, "" if top > 0 else "no evidence"))
    return section(
        f"Evidence for “{found.target}” (Grad-CAM)",
        "Bright places are the ones that speak for this answer.",
        figures,
        scale(SALIENCY, "none", "most"),
    )


def weights(image: UInt8[Tensor, "1 c h w"], found: Explanation) -> Markup:
    """β of each branch over the image."""
    maps = [(branch, branch.maps.mean[0]) for branch in found.branches if branch.maps.mean is not None]
    if not maps:
        return EMPTY
    figures = [
        figure(
            drawn(over(image, values, WEIGHT, 0.0, 1.0, sharp=True), f"β of {branch.label}", sharp=False),
            branch.label,
            f"{values.shape[0]}×{values.shape[1]} patches, mean β {float(values.mean()):.2f}",
        )
        for branch, values in maps
    ]
    return section(
        "Attention β per patch",
        "Yellow: the equilibrium listens to this patch. Dark: the patch has little say, because it is far "
        "from what the equilibrium explains, as strong contrasts are.",
        figures,
        scale(WEIGHT, "β = 0", "1"),  # the same for every network, so that two can be compared
    )


def energies(image: UInt8[Tensor, "1 c h w"], found: Explanation) -> Markup:
    """The share of each place in the energy, folded away."""
    maps = [(branch, branch.maps.energy[0]) for branch in found.branches if branch.maps.energy is not None]
    if not maps:
        return EMPTY
    figures = [
        figure(energy_map(image, branch, values), branch.label, span(values)) for branch, values in maps
    ]
    inside = section(
        "Energy per place",
        "The network minimises the sum of these. Bright places cost the most.",
        figures,
        scale(ENERGY, "least", "most"),
    )
    return element("details", [element("summary", "Where the energy comes from"), inside])


def energy_map(image: UInt8[Tensor, "1 c h w"], branch: BranchView, values: Tensor) -> Markup:
    low, high = float(values.min()), float(values.max())
    return drawn(over(image, values, ENERGY, low, high, sharp=True), f"energy of {branch.label}", sharp=False)


def span(values: Tensor) -> str:
    low, high = float(values.min()), float(values.max())
    written = number_format(high - low if high > low else max(abs(low), 1.0))
    return f"{written % low} to {written % high}".replace("-", "−")
