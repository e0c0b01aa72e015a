"""Every model by name.

A family is one file. It declares its models by calling :func:`register` with one :class:`ModelSpec` each,
and its line in :data:`FAMILIES` says which names it owns, so that ``create_model("resnet18")`` loads that
one file only. The names are listed and checked without loading any: :mod:`geq.model.catalogue` holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from typing import TYPE_CHECKING, Any

from geq.errors import OptionError, unknown_name
from geq.model.catalogue import catalogue
from geq.model.config import NetworkConfig, override

if TYPE_CHECKING:
    from geq.model.network import Network

FAMILIES: dict[str, tuple[str, ...]] = {
    "deep_opteq": ("deep_opteq_", "opteq_cifar"),
    "deep_segmenter": ("opteq_camvid", "opteq_cityscapes"),
    "dnn": ("dnn_",),
    "fcn": ("fcn_",),
    "geq": ("geq_",),
    "kerdeq": ("kerdeq_",),
    "mdeq": ("mdeq_",),
    "mon": ("mon_",),
    "node": ("node_",),
    "opteq": ("opteq_", "mopteq_"),
    "opteq_imagenet": ("opteq_imagenet",),
    "resnet": ("resnet", "wide_resnet"),
}
"""File below ``geq/model/`` -> the prefixes of the names of its models."""


@dataclass(frozen=True)
class ModelSpec:
    """One named model.

    Args:
        name: the name in the registry; it begins with a prefix of its family.
        network: the family's class.
        config: what the class is built from.
        source: the paper and table that it comes from.
        reported: what that source reports for it, as it prints it.
    """

    name: str
    network: type[Network]
    config: NetworkConfig
    source: str
    reported: str | None = None

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return self.config.input_shape

    def build(self) -> Network:
        model = self.network(self.config)
        model.registry_name = self.name
        return model


_SPECS: dict[str, ModelSpec] = {}


def register(*specs: ModelSpec) -> None:
    """Add models to the registry; a name is given once, as two meanings would make results ambiguous."""
    for spec in specs:
        if spec.name in _SPECS:
            raise OptionError(f"a model name must be new; {spec.name!r} is already registered")
        if not isinstance(spec.config, spec.network.config_class):
            raise OptionError(
                f"{spec.name}: {spec.network.__name__} is built from a {spec.network.config_class.__name__}; "
                f"got a {type(spec.config).__name__}"
            )
        _SPECS[spec.name] = spec


def _load(family: str) -> None:
    import_module(f"geq.model.{family}")


def model_spec(name: str) -> ModelSpec:
    """The entry ``name`` of the registry; an unknown name is an error that names the nearest one."""
    check_model_name(name)
    for family, prefixes in FAMILIES.items():
        if name.startswith(prefixes):
            _load(family)
    return _SPECS[name]


def check_model_name(name: str) -> None:
    """Refuse an unknown name. No family is loaded for that, and so no torch."""
    if name not in catalogue() and name not in _SPECS:
        raise unknown_name("model", name, list_models())


def list_models(pattern: str = "*") -> list[str]:
    """The names that match a shell pattern, in alphabetical order.

    >>> list_models("resnet5*")
    ['resnet50', 'resnet50_cifar']
    """
    return sorted(name for name in {*catalogue(), *_SPECS} if fnmatchcase(name, pattern))


def registered_names() -> list[str]:
    """The names of all models that the families declare, from the families themselves."""
    for family in FAMILIES:
        _load(family)
    return sorted(_SPECS)


def family_class(family: str) -> type[Network]:
    """The class whose ``family`` is this word, for rebuilding saved models."""
    registered_names()
    classes = {spec.network.family: spec.network for spec in _SPECS.values()}
    if family not in classes:
        raise unknown_name("model family", family, classes)
    return classes[family]


def create_model(name: str, num_classes: int | None = None, **overrides: Any) -> Network:
    """Build the model ``name`` with fresh weights.

    Args:
        name: a name that :func:`list_models` knows.
        num_classes: number of logits; ``None`` keeps the model's own.
        overrides: fields of the model's configuration to replace, for instance ``input_shape=(3, 64, 64)``.

    >>> create_model("resnet_tiny", num_classes=3).num_classes
    3
    """
    spec = model_spec(name)
    options = overrides if num_classes is None else {**overrides, "num_classes": num_classes}
    model = spec.network(override(spec.config, options))
    model.registry_name = name
    return model
