"""Saved networks in the Hugging Face convention: ``config.json`` and ``model.safetensors``, never a pickle.

``config.json`` holds everything that rebuilds the network: the version of this format, the family, the name
in the registry, the configuration with every field stated, the floating type, which tensors are one and the
same, and the SHA-256 of the weights, which ties the two files together: each is written to a temporary file
and renamed, so a crash leaves either file whole, and a pair from two different saves is noticed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from geq.atomic_io import write_durably
from geq.errors import CheckpointError, GeqError, OptionError, one_line, unknown_name
from geq.model.config import NetworkConfig, from_json, to_json
from geq.model.model_registry import family_class, model_spec
from geq.model.network import AnyNetwork, Network, WithoutDrawing
from geq.model.shipped_networks import shipped_folder, shipped_names
from geq.model.size_guard import no_larger_than
from geq.model.weight_check import check_shared, check_tensors, shared_tensors, with_aliases
from geq.safe_parsing import parse_json, short

FORMAT_VERSION = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"


def save_pretrained(model: Network, directory: str | Path) -> Path:
    """Write ``model`` into ``directory`` (made if missing) and return the directory."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    tensors, aliases = _without_aliases(model.state_dict())
    if aliases:  # what the configuration does not share would not be shared after loading
        shared = shared_tensors(_built(type(model), model.config).state_dict())
        check_shared(shared, aliases, model.state_dict(), type(model).__name__)
    weights = directory / WEIGHTS
    content = save(tensors, metadata={"format": "pt"})
    write_durably(weights, content)
    description = {
        "format_version": FORMAT_VERSION,
        "geq_version": version("geq"),
        "family": model.family,
        "model": model.registry_name,
        "dtype": str(_floating_type(model)).removeprefix("torch."),
        "weights_sha256": hashlib.sha256(content).hexdigest(),
        "aliases": aliases,
        "config": to_json(model.config),
    }
    write_durably(directory / CONFIG, (json.dumps(description, indent=2) + "\n").encode())
    return directory


def from_pretrained(
    expected: type[AnyNetwork], source: str | Path, *, revision: str | None = None
) -> AnyNetwork:
    """Rebuild a network saved by :func:`save_pretrained`, in eval mode.

    Args:
        expected: the class that the file must hold; :class:`Network` takes any registered family.
        source: a directory, a network that comes with the package (``geq-digits``; 'geq weights' lists
            them), or a repository of the Hugging Face Hub (``owner/name``).
        revision: branch, tag or commit of that repository.
    """
    directory = _local_copy(source, revision)
    description = _read_description(directory / CONFIG)
    kind = _class_of(description, expected)
    _check_name(description["model"], kind.family)
    config = from_json(kind.config_class, description["config"])
    if not isinstance(config, kind.config_class):
        raise CheckpointError(f"{CONFIG}: config must be a {kind.config_class.__name__}")
    dtype = _type_named(description["dtype"])
    weights = directory / WEIGHTS
    aliases = description["aliases"]
    stored = with_aliases(_read_weights(weights), aliases, CONFIG)
    # First an outline without numbers, so that a file cannot ask for more memory than its weights have.
    with torch.device("meta"), WithoutDrawing(), no_larger_than(stored, weights):
        outline = _built(kind, config)
    check_tensors(_cast(outline, dtype).state_dict(), stored, config.input_shape, weights)
    if _sha256(weights) != description["weights_sha256"]:
        raise CheckpointError(
            f"{weights} is not the file that {CONFIG} was saved with (its SHA-256 differs): "
            "a save was interrupted, or one of the two files was replaced; save the model again"
        )
    model = _built(kind, config).to(dtype)
    model.registry_name = description["model"]
    check_shared(shared_tensors(model.state_dict()), aliases, stored, CONFIG)
    _load_weights(model, stored)
    return model.eval()


def _built(kind: type[AnyNetwork], config: NetworkConfig) -> AnyNetwork:
    try:
        with torch.random.fork_rng(devices=[]):  # loading must not disturb the caller's random numbers
            return kind(config)
    except CheckpointError:
        raise
    except Exception as problem:  # ours about an option, and torch's about sizes that do not fit together
        raise CheckpointError(
            f"{CONFIG} describes no network that can be built: {one_line(problem)}"
        ) from problem


def push_to_hub(
    model: Network, repository: str, *, private: bool | None = None, token: str | None = None
) -> str:
    """Upload ``model`` with a model card to the Hugging Face Hub; returns the address of the commit."""
    # Half a second of imports that only this function needs.
    from huggingface_hub import ModelHubMixin

    class Upload(
        ModelHubMixin,
        library_name="geq",
        pipeline_tag="image-classification",
        tags=["equilibrium-model", model.family],
    ):
        def _save_pretrained(self, save_directory: Path) -> None:
            save_pretrained(model, save_directory)

    return Upload().push_to_hub(repository, private=private, token=token, commit_message="Add a geq model")


def _without_aliases(state: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors to write, and for each name that is the same memory as an earlier one, that earlier name."""
    for name, tensor in state.items():
        if not isinstance(tensor, Tensor):
            raise CheckpointError(f"only tensors can be saved; {name} is a {type(tensor).__name__}")
    aliases = shared_tensors(state)
    # A clone is contiguous and shares no memory with a tensor that merely overlaps it.
    return {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in state.items()
        if name not in aliases
    }, aliases


def _floating_type(model: Network) -> torch.dtype:
    types = {parameter.dtype for parameter in model.parameters()}
    if len(types) != 1:
        raise CheckpointError(
            f"a saved model has parameters of one floating type; got {sorted(map(str, types))}; "
            "convert it first, for instance with model.float()"
        )
    return types.pop()


def _type_named(name: Any) -> torch.dtype:
    found = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise CheckpointError(f"{CONFIG}: dtype must name a floating type of torch; got {short(name)}")
    return found


def _cast(outline: AnyNetwork, dtype: torch.dtype) -> AnyNetwork:
    try:
        return outline.to(dtype)
    except (
        RuntimeError,
        TypeError,
        NotImplementedError,
    ) as problem:  # torch names types that hold no weights
        raise CheckpointError(f"{CONFIG}: dtype must be a type of weights; got {dtype}") from problem


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _local_copy(source: str | Path, revision: str | None) -> Path:
    if Path(source).is_dir():
        return Path(source)
    if isinstance(source, str) and source in shipped_names():
        return shipped_folder(source) / "model"
    if not isinstance(source, str) or not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", source):
        nearest = unknown_name("network that comes with geq", str(source), shipped_names())
        raise CheckpointError(
            "a saved model is a directory, a network that comes with geq, or a Hub repository 'owner/name'; "
            f"{str(source)!r} is neither: {nearest}"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(source, revision=revision, allow_patterns=[CONFIG, WEIGHTS]))
    except Exception as problem:  # the Hub's client raises its own, httpx's and the system's errors alike
        raise CheckpointError(
            f"no directory {source!r} exists, and the Hugging Face Hub gave no such repository: {problem}"
        ) from problem


def _read_description(path: Path) -> dict[str, Any]:
    try:
        description = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"a saved model has a {CONFIG}; {path.parent} has none") from None
    except (ValueError, OSError) as problem:
        raise CheckpointError(f"{path} cannot be read: {problem}") from problem
    found = description.get("format_version") if isinstance(description, dict) else None
    if type(found) is not int or found < 1:  # a bool is an int too
        raise CheckpointError(
            f"{path} was not written by geq: format_version must be a whole number from 1; got {short(found)}"
        )
    if found > FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format version {short(found)} (written by geq "
            f"{short(description.get('geq_version'))}); "
            f"this geq {version('geq')} reads up to {FORMAT_VERSION}: pip install --upgrade geq"
        )
    missing = {"family", "model", "dtype", "weights_sha256", "aliases", "config"} - description.keys()
    if missing:
        raise CheckpointError(f"{path} is incomplete: {', '.join(sorted(missing))} missing")
    return description


def _class_of(description: dict[str, Any], expected: type[AnyNetwork]) -> type[AnyNetwork]:
    family = description["family"]
    if not isinstance(family, str) or not isinstance(description["model"], str | None):
        raise CheckpointError(f"{CONFIG}: family and model must be names")
    if getattr(expected, "family", None) == family:
        return expected
    try:
        kind = family_class(family)
    except GeqError as problem:
        raise CheckpointError(f"{CONFIG}: {one_line(problem)}") from problem
    if not issubclass(kind, expected):
        raise CheckpointError(
            f"the saved model is of family {family!r} ({kind.__name__}), not {expected.__name__}"
        )
    return kind


def _check_name(name: str | None, family: str) -> None:
    """Refuse the name of another family's model; a name that is not registered here is only a label."""
    try:
        known = None if name is None else model_spec(name).network.family
    except OptionError:
        return
    if known not in (None, family):
        raise CheckpointError(f"{CONFIG}: model must be of family {short(family)}; got {name}, of {known!r}")


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
    except FileNotFoundError:
        raise CheckpointError(f"a saved model has a {WEIGHTS}; {path.parent} has none") from None
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError, KeyError) as problem:
        raise CheckpointError(f"{path} is damaged or cut off: {one_line(problem)}") from problem


def _load_weights(model: Network, stored: Mapping[str, Tensor]) -> None:
    for name, tensor in model.state_dict().items():
        if stored[name].shape != tensor.shape:
            owner, _, buffer = name.rpartition(".")
            setattr(model.get_submodule(owner), buffer, torch.empty_like(stored[name]))
    model.load_state_dict(stored)
