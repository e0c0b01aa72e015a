"""Base class of every model, the feature maps that it names, and its construction without memory."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from geq.equilibrium import Equilibrium
from geq.errors import GeqError, InputError, OptionError
from geq.model.config import NetworkConfig
from geq.operators.operator import Size


@dataclass(frozen=True)
class FeatureMap:
    """A feature map inside a network.

    Args:
        label: what to call it.
        module: whose output it is.
        at_input: whether it is the module's input instead.
        part: which tensor, where the module gives several (the scales of a joint equilibrium).
        equilibrium: name of the equilibrium whose state it is, if it is one.
    """

    label: str
    module: nn.Module
    at_input: bool = False
    part: int | None = None
    equilibrium: str | None = None


AnyNetwork = TypeVar("AnyNetwork", bound="Network")


@dataclass(frozen=True)
class EquilibriumReport:
    """Statistics of one equilibrium's solves over the samples of the last batch.

    Args:
        steps_mean: evaluations of the map, averaged over samples.
        steps_max: evaluations that the slowest sample needed.
        residual_max: relative residual of the worst sample.
        converged: fraction of samples that reached the tolerance.
    """

    steps_mean: float
    steps_max: int
    residual_max: float
    converged: float


class Network(nn.Module):
    """An image classifier that its :attr:`config` describes completely: ``type(model)(model.config)`` is the
    same architecture again.

    A subclass names its ``family`` (the name under which saved models find it) and its ``config_class``,
    calls ``super().__init__(config)`` and defines :meth:`forward`, from ``(B, C, H, W)`` images to ``(B,
    num_classes)`` logits; a :class:`~geq.model.segmenter.Segmenter` has such logits for each pixel.
    """

    family: ClassVar[str]
    config_class: ClassVar[type[NetworkConfig]]

    labels_pixels: ClassVar[bool] = False
    """True for logits of each pixel, false for logits of the whole image."""

    restores: ClassVar[bool] = False
    """Whether the outputs are the colours of the image without its damage, and no logits."""

    registry_name: str | None = None
    """The name that :func:`geq.model.model_registry.create_model` was called with."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the images that this network was made for."""
        return self.config.input_shape

    @property
    def num_classes(self) -> int:
        return self.config.num_classes

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch classes *mask"]: ...

    def check_input(self, x: Tensor) -> None:
        """Refuse what is not a batch of images with this network's channels."""
        if x.ndim != 4 or x.shape[1] != self.input_shape[0]:
            wanted = ", ".join(map(str, self.input_shape))
            raise InputError(
                f"{type(self).__name__} takes images of shape (batch, {wanted}); got {tuple(x.shape)}"
            )

    def parameter_count(self) -> int:
        """Number of learnable numbers."""
        return sum(parameter.numel() for parameter in self.parameters())

    def multiply_adds(self) -> int:
        """Multiply-adds of one evaluation for one image of :attr:`input_shape`.

        For a network that iterates nothing this is its forward pass. Where something is iterated (an
        equilibrium, an ODE), it is one evaluation of what is iterated, summed over branches; see
        :mod:`geq.model.cost`.
        """
        from geq.model.cost import multiply_adds

        return multiply_adds(self)

    def equilibria(self) -> dict[str, Equilibrium]:
        """Every equilibrium in this network, by the dotted name of its submodule."""
        return {name: module for name, module in self.named_modules() if isinstance(module, Equilibrium)}

    def solutions(self) -> dict[str, EquilibriumReport]:
        """Return the solution of each equilibrium in the last forward pass; empty before the first one."""
        return {
            name: EquilibriumReport(
                steps_mean=solution.steps.double().mean().item(),
                steps_max=int(solution.steps.max().item()),
                residual_max=solution.residual.double().max().item(),
                converged=solution.converged.double().mean().item(),
            )
            for name, equilibrium in self.equilibria().items()
            if (solution := equilibrium.last_solution) is not None
        }

    def energy(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, " batch"]:
        """The hidden objective G(z*; x) at the equilibrium, per image, summed over all equilibria."""
        inputs = self.inputs_of_equilibria(x)
        return torch.stack(
            [equilibrium.energy(inputs[name]) for name, equilibrium in self.equilibria().items()]
        ).sum(0)

    def well_posedness(self) -> dict[str, Any]:
        """Return the certificate of each equilibrium for images of :attr:`input_shape`."""
        sizes = self.map_sizes()
        return {name: layer.well_posedness(sizes[name]) for name, layer in self.equilibria().items()}

    @torch.no_grad()
    def map_sizes(self) -> dict[str, Size | None]:
        """Height and width of each equilibrium's maps, for images of :attr:`input_shape`."""
        layers, training = self.equilibria(), self.training
        parameter = next(self.parameters())
        image = torch.zeros(1, *self.input_shape, dtype=parameter.dtype, device=parameter.device)
        before = {layer: (layer.max_steps, layer.on_failure) for layer in layers.values()}
        for layer in before:
            layer.max_steps, layer.on_failure = 1, "ignore"
        try:
            inputs = self.eval().inputs_of_equilibria(image) if layers else {}
            return {name: layer.map_size(inputs[name]) for name, layer in layers.items()}
        finally:
            for layer, options in before.items():
                layer.max_steps, layer.on_failure = options
            self.train(training)

    def inputs_of_equilibria(self, x: Tensor) -> dict[str, Tensor]:
        """Return the input of each equilibrium for the input ``x`` of the network."""
        inputs: dict[str, Tensor] = {}
        equilibria = self.equilibria()
        if not equilibria:
            raise GeqError(f"{type(self).__name__} has no equilibrium, so nothing that it minimises")

        def remember(name: str) -> Any:
            return lambda module, arguments: inputs.__setitem__(name, arguments[0])

        handles = [module.register_forward_pre_hook(remember(name)) for name, module in equilibria.items()]
        try:
            self(x)
        finally:
            for handle in handles:
                handle.remove()
        return inputs

    def last_feature_map(self) -> FeatureMap:
        """Return the feature map that the head reads, at which Grad-CAM looks.

        Raises:
            OptionError: It is no layer's output or input, so that no hook can see it.
        """
        raise OptionError(
            f"what the head of {type(self).__name__} reads is not the output of any of its layers, so no "
            "hook can see it; name a layer with --layer, such as "
            + ", ".join([name for name, _ in self.named_children()][:3])
        )

    def branch_feature_maps(self) -> list[FeatureMap]:
        """Return the state of every equilibrium; a joint equilibrium has one map for each scale."""
        equilibria = self.equilibria()
        several = len(equilibria) > 1
        return [
            FeatureMap(f"branch {number}" if several else name, module, equilibrium=name)
            for number, (name, module) in enumerate(equilibria.items())
        ]

    def exportable(self) -> str:
        """Return why no exported file can hold this kind of network; "" where one can."""
        return ""

    def save_pretrained(self, directory: str | Path) -> Path:
        """Write ``config.json`` and ``model.safetensors``; see :mod:`geq.model.pretrained`."""
        from geq.model.pretrained import save_pretrained

        return save_pretrained(self, directory)

    @classmethod
    def from_pretrained(
        cls: type[AnyNetwork], source: str | Path, *, revision: str | None = None
    ) -> AnyNetwork:
        """Rebuild a saved network from a directory, a name of 'geq weights' or a Hugging Face Hub id, in eval
        mode.
        """
        from geq.model.pretrained import from_pretrained

        return from_pretrained(cls, source, revision=revision)

    def push_to_hub(self, repository: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload this network to the Hugging Face Hub and return the address of the commit."""
        from geq.model.pretrained import push_to_hub

        return push_to_hub(self, repository, private=private, token=token)


class WithoutDrawing(TorchFunctionMode):
    """Draws no numbers for tensors without memory: for these torch would import its compiler, two seconds."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is Tensor.normal_ or getattr(func, "__module__", None) == torch.nn.init.__name__:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))
