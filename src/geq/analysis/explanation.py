"""Explanation of a prediction for one image: saliency, attention, energy, equilibrium."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from geq.analysis.attention_map import AttentionMaps, attention_maps
from geq.analysis.certificate import certify_states
from geq.analysis.landscape import Landscape, landscape, plane_of
from geq.analysis.saliency import branch_feature_map, grad_cam, layer_feature_map
from geq.analysis.solver_trace import Trace, Way, own_way, trace
from geq.cells import EnergyProblem
from geq.certificates.well_posedness import WellPosedness
from geq.data.transform.base import Normalize
from geq.equilibrium import ignore_failures
from geq.errors import InputError, OptionError, unknown_name
from geq.frozen import freeze
from geq.model.network import FeatureMap, Network
from geq.operators.operator import size_of
from geq.training.prediction import fitted
from geq.training.run_folder import RunFolder


@dataclass(frozen=True)
class BranchView:
    """One equilibrium (or one scale of a joint one) on one image.

    Args:
        label: what to call it.
        saliency: Grad-CAM on its state.
        maps: β and energy of its places.
        steps: evaluations of the map.
        residual: relative, where the solver stopped.
        converged: whether that is within the tolerance.
        distance: proved bound of ‖z − z*‖/‖z‖; None where nothing is proved.
        certificate: what the weights prove.
        rate: factor by which they prove that the iteration contracts; None where they do not.
    """

    label: str
    saliency: Float[Tensor, "rows columns"]
    maps: AttentionMaps
    steps: int
    residual: float
    converged: bool
    distance: float | None
    certificate: WellPosedness
    rate: float | None


@dataclass(frozen=True)
class Explanation:
    """One network on one image.

    Args:
        run: name of the run.
        model: name of the network.
        label, confidence: what it says.
        probabilities: of all classes, in the order of the data.
        target: the class that the saliency is for.
        place: where the saliency of the whole network was taken.
        saliency: Grad-CAM there; None where no hook can see it.
        branches: its equilibria; empty for a network without.
        notes: what is missing, and why.
    """

    run: str
    model: str
    label: str
    confidence: float
    probabilities: Float[Tensor, " classes"]
    target: str
    place: str
    saliency: Float[Tensor, "rows columns"] | None
    branches: tuple[BranchView, ...]
    notes: tuple[str, ...]

    @property
    def steps(self) -> int | None:
        """Evaluations, the most over the equilibria."""
        return max((branch.steps for branch in self.branches), default=None)

    @property
    def residual(self) -> float | None:
        return max((branch.residual for branch in self.branches), default=None)

    @property
    def converged(self) -> bool | None:
        """Return whether every equilibrium was found; None without any."""
        return all(branch.converged for branch in self.branches) if self.branches else None

    @property
    def distance(self) -> float | None:
        """The worst bound; None unless every equilibrium has one."""
        bounds = [branch.distance for branch in self.branches]
        return max((b for b in bounds if b is not None), default=None) if None not in bounds else None


@dataclass(frozen=True)
class EquilibriumView:
    """One equilibrium on one image, followed.

    Args:
        label: which one.
        trace: its ways and what is promised of them.
        others: the solver's way in the other equilibria, by label.
        landscape: the objective around it; None without a hidden problem.
    """

    label: str
    trace: Trace
    others: dict[str, Way]
    landscape: Landscape | None


class Explainer:
    """The trained network of a run, ready to be asked."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.data = folder, folder.data()
        self.model = freeze(Network.from_pretrained(folder.model))
        if self.model.labels_pixels:
            self.model.last_feature_map()  # says why not
        self.certificates: dict[str, WellPosedness] = {}

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def precise(self) -> Network:
        """The network in double precision, so that ways and landscapes are not blurred by rounding."""
        return Network.from_pretrained(self.folder.model).double().eval()

    def class_number(self, name: str) -> int:
        if name not in self.data.classes:
            raise unknown_name(f"class of {self.data.name}", name, self.data.classes)
        return self.data.classes.index(name)

    def read(self, path: Path) -> UInt8[Tensor, "1 c h w"]:
        """An image file as the network was trained to see images: its middle square, resized."""
        return fitted(path, self.data)

    def normalised(self, image: UInt8[Tensor, "1 c h w"]) -> Float[Tensor, "1 c h w"]:
        if tuple(image.shape[1:]) != self.data.shape:
            raise InputError(
                f"{self.name} takes images of shape {self.data.shape}: got {tuple(image.shape[1:])}; give "
                "image files, which are resized"
            )
        return Normalize.by(self.data.statistics)(image, torch.Generator())

    def check(self, branch: int | None, layer: str | None) -> None:
        """Refuse a branch or a layer that this network does not have."""
        if branch is not None and layer is not None:
            raise OptionError("--branch and --layer both say where the saliency is taken: give one of them")
        if branch is not None:
            branch_feature_map(self.model, branch)
        if layer is not None:
            layer_feature_map(self.model, layer)

    def explain(
        self,
        image: UInt8[Tensor, "1 c h w"],
        target: str | None = None,
        branch: int | None = None,
        layer: str | None = None,
    ) -> Explanation:
        """
        Args:
            image: one, as bytes.
            target: class that the saliency is for; default the one that the network says.
            branch: explain this equilibrium only.
            layer: take the saliency at this layer instead of the last feature map.
        """
        self.check(branch, layer)
        x = self.normalised(image).to(next(self.model.parameters()))
        with torch.no_grad(), ignore_failures(self.model):
            probabilities = self.model(x).softmax(1)[0]
        said = int(probabilities.argmax())
        number = said if target is None else self.class_number(target)
        notes: list[str] = []
        place, saliency = "", None
        try:
            where = self._place(branch, layer)
            place, saliency = where.label, grad_cam(self.model, x, number, where)[0]
        except OptionError as problem:
            if layer is not None:
                raise
            notes.append(f"no Grad-CAM: {problem}")
        views = self._branches(x, number, branch, notes)
        return Explanation(
            self.name,
            self.model.registry_name or type(self.model).__name__,
            self.data.classes[said],
            float(probabilities[said]),
            probabilities,
            self.data.classes[number],
            place,
            saliency,
            views,
            tuple(dict.fromkeys(notes)),
        )

    def _place(self, branch: int | None, layer: str | None) -> FeatureMap:
        if layer is not None:
            return layer_feature_map(self.model, layer)
        return self.model.last_feature_map() if branch is None else branch_feature_map(self.model, branch)

    def _branches(
        self, x: Tensor, target: int, branch: int | None, notes: list[str]
    ) -> tuple[BranchView, ...]:
        places = self.model.branch_feature_maps()
        if not places:
            notes.append("no equilibrium, hence neither β nor energy: only Grad-CAM is shown")
            return ()
        with torch.no_grad(), ignore_failures(self.model):
            inputs = self.model.inputs_of_equilibria(x)
        views = []
        for place in places if branch is None else [places[branch]]:
            assert place.equilibrium is not None
            layer = self.model.equilibria()[place.equilibrium]
            given = inputs[place.equilibrium]
            with ignore_failures(layer):
                maps, solution = attention_maps(layer, given), layer.solve(given)
            if maps.missing:
                notes.append(maps.missing)
            certificate = self.certificate(place.equilibrium, given)
            found = certify_states(layer, given, solution.value, certificate)
            bound = float(found.distance / found.norm.clamp_min(torch.finfo(found.norm.dtype).tiny))
            views.append(
                BranchView(
                    place.label,
                    grad_cam(self.model, x, target, place)[0],
                    maps,
                    int(solution.steps),
                    float(solution.residual),
                    bool(solution.converged),
                    bound if bound < float("inf") else None,
                    certificate,
                    layer.cell.contraction_rate(certificate),
                )
            )
        return tuple(views)

    def certificate(self, name: str, x: Any) -> WellPosedness:
        """Return the certificate of an equilibrium, computed once: images of a run have one size."""
        if name not in self.certificates:
            layer = self.model.equilibria()[name]
            self.certificates[name] = layer.well_posedness(size_of(x))
        return self.certificates[name]

    @torch.no_grad()
    def follow(self, image: UInt8[Tensor, "1 c h w"], branch: int = 0, seed: int = 0) -> EquilibriumView:
        """The solver's way to one equilibrium, and the objective around it."""
        chosen = branch_feature_map(self.precise, branch)
        assert chosen.equilibrium is not None
        equilibria = self.precise.equilibria()
        inputs = self._inputs(image)
        found = self._trace(chosen, inputs)
        given, layer = inputs[chosen.equilibrium], equilibria[chosen.equilibrium]
        with ignore_failures(self.precise):
            others = {
                place.label: own_way(equilibria[place.equilibrium], inputs[place.equilibrium])
                for place in self.precise.branch_feature_maps()
                if place.equilibrium is not None and place.equilibrium != chosen.equilibrium
            }
            around = None
            if isinstance(layer.cell, EnergyProblem):
                points = torch.cat([found.own.points, found.plain.points])
                plane = plane_of(found.equilibrium, points, seed)
                around = landscape(layer, given, plane, points)
        return EquilibriumView(chosen.label, found, others, around)

    @torch.no_grad()
    def traced(self, image: UInt8[Tensor, "1 c h w"], branch: int = 0) -> Trace:
        """The solver's way to one equilibrium alone, which is found much sooner than its surroundings."""
        return self._trace(branch_feature_map(self.precise, branch), self._inputs(image))

    def _inputs(self, image: UInt8[Tensor, "1 c h w"]) -> dict[str, Tensor]:
        with ignore_failures(self.precise):
            return self.precise.inputs_of_equilibria(self.normalised(image).double())

    def _trace(self, place: FeatureMap, inputs: dict[str, Tensor]) -> Trace:
        assert place.equilibrium is not None
        certificate = self.certificate(place.equilibrium, self._single(inputs, place))
        with ignore_failures(self.precise):
            layer = self.precise.equilibria()[place.equilibrium]
            return trace(layer, inputs[place.equilibrium], certificate)

    def _single(self, inputs: dict[str, Tensor], place: FeatureMap) -> Tensor:
        """The input of an equilibrium in the precision of the network as it was saved."""
        assert place.equilibrium is not None
        return inputs[place.equilibrium].to(next(self.model.parameters()))
