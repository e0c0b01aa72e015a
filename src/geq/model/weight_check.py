"""Validate the tensors of an untrusted file against the network that they are for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from geq.errors import CheckpointError
from geq.safe_parsing import short

ENLARGED = 4
"""Factor by which the images of a training may exceed those of the configuration, in height and in width."""
LISTED = 5
"""Names that a message lists."""


def shared_tensors(state: Mapping[str, Tensor]) -> dict[str, str]:
    """Return for each name that is the same memory as an earlier one, that earlier name.

    >>> whole = torch.zeros(2)
    >>> shared_tensors({"a": whole, "b": whole, "c": torch.zeros(2)})
    {'b': 'a'}
    """
    first: dict[object, str] = {}
    found: dict[str, str] = {}
    for name, tensor in state.items():
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype) if tensor.numel() else name
        if first.setdefault(place, name) != name:
            found[name] = first[place]
    return found


def check_tensors(
    state: Mapping[str, Tensor], stored: Mapping[str, Tensor], image: tuple[int, int, int], path: Path
) -> None:
    """Refuse tensors whose names, shapes, types or values the network cannot have.

    Args:
        state: tensors of the fresh network, or of its outline on the meta device.
        stored: tensors of the file.
        image: channels, height and width of the network's images.
        path: of the file, for messages.
    """
    for kind, names in (("missing", state.keys() - stored.keys()), ("unknown", stored.keys() - state.keys())):
        if names:
            raise CheckpointError(f"{path}: {kind} tensors: {listed(names)}")
    widest = max((side for tensor in state.values() for side in tensor.shape), default=1)
    for name, tensor in state.items():
        found = stored[name]
        if tensor.numel() == 0:
            _check_sized_by_images(name, found, max(widest, image[0]), image, path)
        elif found.shape != tensor.shape:
            raise CheckpointError(
                f"{path}: {name} must have shape {tuple(tensor.shape)}; got {tuple(found.shape)}"
            )
        if found.dtype != tensor.dtype:
            raise CheckpointError(f"{path}: {name} must be {tensor.dtype}; got {found.dtype}")
        _check_values(name, found, path)


def _check_sized_by_images(
    name: str, found: Tensor, widest: int, image: tuple[int, int, int], path: Path
) -> None:
    """A buffer that is empty in a fresh network gets its size from the first images: it may hold the state of
    one of them, with its channels and the sides of its map.
    """
    sides = found.shape[-2:] if found.ndim > 2 else ()
    most = [ENLARGED * side for side in image[1:]]
    fits = all(side <= limit for side, limit in zip(sides, most, strict=False))
    narrow = all(size <= widest for size in found.shape[: found.ndim - len(sides)])
    if found.ndim > 4 or not (fits and narrow):
        raise CheckpointError(
            f"{path}: {name} must hold one state of at most {widest} channels on a map of at most "
            f"{most[0]}×{most[1]}; got shape {short(tuple(found.shape))}"
        )


def _check_values(name: str, found: Tensor, path: Path) -> None:
    if not bool(torch.isfinite(found).all()):
        raise CheckpointError(
            f"{path}: {name} must be finite; got NaN or infinity: "
            "the training diverged, or the file is damaged"
        )
    if name.endswith("running_var") and bool((found < 0).any()):
        raise CheckpointError(
            f"{path}: {name} must not be negative, as a variance; got {float(found.min()):.2g}"
        )


def with_aliases(stored: Mapping[str, Tensor], aliases: object, where: str) -> dict[str, Tensor]:
    """Return the tensors of a file under all of their names.

    Args:
        stored: tensors of the file.
        aliases: for each further name, the name that is stored.
        where: the file that has the aliases, for messages.
    """
    if not isinstance(aliases, dict) or not all(isinstance(name, str) for name in aliases.values()):
        raise CheckpointError(f"{where}: aliases must map names to names; got {short(aliases)}")
    for alias, name in aliases.items():
        if alias in stored:
            raise CheckpointError(f"{where}: an alias must not be a stored tensor; got {short(alias)}")
        if name not in stored:
            raise CheckpointError(f"{where}: an alias must name a stored tensor; got {short(name)}")
    return {**stored, **{alias: stored[name] for alias, name in aliases.items()}}


def check_shared(
    shared: Mapping[str, str], aliases: Mapping[str, str], stored: Mapping[str, Tensor], where: str
) -> None:
    """Refuse aliases that the network does not share, and two values for a tensor that it does.

    Args:
        shared: tensors that the network shares, from :func:`shared_tensors`.
        aliases: those of the file.
        stored: tensors of the file under all of their names.
        where: the file that has the aliases, for messages.
    """
    for alias, name in aliases.items():
        if shared.get(alias) != name:
            raise CheckpointError(
                f"{where}: an alias must be a tensor that the network shares; got {short(alias)}, which is "
                f"not {short(name)} in it"
            )
    for alias, name in shared.items():
        if not torch.equal(stored[alias], stored[name]):
            raise CheckpointError(
                f"{where}: {alias} and {name} are one tensor of the network; got two values"
            )


def listed(names: Iterable[str]) -> str:
    """Return a few names for a message.

    >>> listed("fedcba")
    "'a', 'b', 'c', 'd', 'e' and 1 more"
    """
    known = sorted(names)
    more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
    return ", ".join(short(name) for name in known[:LISTED]) + more
