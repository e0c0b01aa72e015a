"""``geq show NAME``: the architecture of a model as a tree, with the shapes of one image on its way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from geq.command.argument_parser import add_json, parse
from geq.command.models import short
from geq.command.terminal import console_for, print_json
from geq.model.model_registry import create_model, model_spec

if TYPE_CHECKING:
    from torch import nn

    from geq.model.network import Network


@dataclass
class Passage:
    """Shapes of a module's first call, without the batch axis."""

    inputs: list[tuple[int, ...]] = field(default_factory=list)
    outputs: list[tuple[int, ...]] = field(default_factory=list)
    calls: int = 0


def shapes_in(value: Any) -> list[tuple[int, ...]]:
    """Shapes of the tensors in a module's argument or result, without the batch axis."""
    from torch import Tensor

    if isinstance(value, Tensor):
        return [tuple(value.shape[1:])]
    if isinstance(value, (tuple, list)):
        return [shape for item in value for shape in shapes_in(item)]
    return []


def trace(model: Network) -> dict[str, Passage]:
    """Send one black image through ``model`` and note what passes each submodule."""
    import torch

    from geq.model.cost import zero_image

    passages: dict[str, Passage] = {}

    def watch(name: str) -> Any:
        def hook(module: nn.Module, arguments: tuple[Any, ...], result: Any) -> None:
            passage = passages.setdefault(name, Passage())
            passage.calls += 1
            if passage.calls == 1:
                passage.inputs, passage.outputs = shapes_in(arguments), shapes_in(result)

        return hook

    handles = [module.register_forward_hook(watch(name)) for name, module in model.named_modules()]
    try:
        with torch.no_grad():
            model.eval()(zero_image(model))
    finally:
        for handle in handles:
            handle.remove()
    return passages


def written(shapes: list[tuple[int, ...]]) -> str:
    """
    >>> written([(3, 32, 32), (10,)])
    '3×32×32, 10'
    """
    return ", ".join("×".join(map(str, shape)) if shape else "scalar" for shape in shapes)


def detail(module: nn.Module) -> str:
    """Return what the shapes do not show, such as kernel sizes.

    >>> from torch import nn
    >>> detail(nn.Conv2d(4, 4, 3, stride=2, groups=2)), detail(nn.BatchNorm2d(4))
    ('3×3, stride 2, groups 2', '')
    """
    from torch import nn

    if isinstance(module, nn.Conv2d):
        parts = ["×".join(map(str, module.kernel_size))]
        parts += [f"stride {module.stride[0]}"] if module.stride[0] != 1 else []
        parts += [f"groups {module.groups}"] if module.groups != 1 else []
        return ", ".join(parts)
    return "" if type(module).__module__.startswith("torch.") else module.extra_repr().replace("\n", " ")


def label(name: str, module: nn.Module, passage: Passage | None) -> str:
    from rich.markup import escape

    parts = [f"[bold]{escape(name)}[/bold]" if name else "", type(module).__name__]
    if text := detail(module):
        parts.append(f"[dim]({escape(text)})[/dim]")
    if passage is not None and passage.outputs:
        parts.append(f"[cyan]{written(passage.inputs)} → {written(passage.outputs)}[/cyan]")
        if passage.calls > 1:
            parts.append(f"[magenta]called {passage.calls} times[/magenta]")
    count = sum(parameter.numel() for parameter in module.parameters())
    if count:
        parts.append(f"[green]{short(count)}[/green]")
    return " ".join(part for part in parts if part)


def draw(model: Network, depth: int) -> Any:
    """The tree, down to ``depth`` levels of submodules."""
    from rich.tree import Tree

    passages = trace(model)

    def grow(tree: Any, module: nn.Module, path: str, level: int) -> None:
        for name, child in module.named_children():
            place = f"{path}.{name}" if path else name
            branch = tree.add(label(name, child, passages.get(place)))
            if level < depth:
                grow(branch, child, place, level + 1)

    root = Tree(label(model.registry_name or "", model, passages.get("")))
    grow(root, model, "", 1)
    return root


def described(model: Network, depth: int) -> dict[str, Any]:
    """The same tree for programs; shapes are those of the first call, without the batch axis."""
    passages = trace(model)

    def grow(name: str, module: nn.Module, path: str, level: int) -> dict[str, Any]:
        passage = passages.get(path, Passage())
        children = module.named_children() if level < depth else ()
        return {
            "name": name,
            "type": type(module).__name__,
            "detail": detail(module),
            "inputs": passage.inputs,
            "outputs": passage.outputs,
            "calls": passage.calls,
            "parameters": sum(parameter.numel() for parameter in module.parameters()),
            "children": [
                grow(child_name, child, f"{path}.{child_name}" if path else child_name, level + 1)
                for child_name, child in children
            ],
        }

    return grow(model.registry_name or "", model, "", 0)


def declare(parser: Any) -> None:
    parser.add_argument("name", type=str, help="a name that 'geq models' lists")
    parser.add_argument("--depth", type=int, default=6, help="number of levels of submodules to draw")
    parser.add_argument("--num_classes", type=int | None, default=None, help="number of classes")
    add_json(parser)


def main(arguments: list[str]) -> int:
    options = parse("show", "Draw the architecture of a model with its shapes.", arguments, declare)
    spec = model_spec(options.name)
    model = create_model(spec.name, options.num_classes)
    if options.json:
        tree = described(model, options.depth)
        print_json({"model": spec.name, "source": spec.source, "reported": spec.reported, "tree": tree})
        return 0
    console = console_for(width=100)
    console.print(draw(model, options.depth))
    console.print(f"source: {spec.source}; reported: {spec.reported or '–'}")
    return 0
