"""Every model by name.

A family is one file. It declares its models by calling :func:`register` with one :class:`ModelSpec` each,
and its line in :data:`FAMILIES` says which names it owns, so that ``create_model("resnet18")`` loads that
one file only. The names are listed and checked without loading any: :mod:`geq.model.catalogue` holds them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from typing import TYPE_CHECKING, Any

from geq.errors import OptionError, unknown_name
from geq.model.catalogue import catalogue
from geq.model.config import NetworkConfig, override
from geq.plugin import entry_points

if TYPE_CHECKING:
    from geq.model.network import Network

FAMILIES: dict[str, tuple[str, ...]] = {
    "deep_opteq": ("deep_opteq_", "opteq_cifar"),
    "deep_segmenter": ("opteq_camvid", "opteq_cityscapes"),
    "geq": ("geq_",),
    "kerdeq": ("kerdeq_",),
    "mdeq": ("mdeq_",),
    "mondeq": ("mon_",),
    "opteq": ("opteq_", "mopteq_"),
    "opteq_imagenet": ("opteq_imagenet",),
    "restorer": ("restorer_", "dncnn_"),
}
"""File below ``geq/model/`` -> the prefixes of the names of its models."""

GROUP = "geq.models"
"""Entry points by which other packages add models: prefix of their names -> module that registers them."""

PACKAGED = {"geq-papers": ("resnet", "wide_resnet", "dnn", "node", "fcn")}
"""Package of this repository -> the prefixes of its models, to say where they are."""


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


def _load_guests(name: str) -> None:
    """Load the modules of other packages that may have the model."""
    for prefix, module in entry_points(GROUP).items():
        if name.startswith(prefix):
            import_module(module)


def _load_all() -> None:
    for family in FAMILIES:
        _load(family)
    for module in entry_points(GROUP).values():
        import_module(module)


def _unknown(kind: str, name: str, known: Iterable[str]) -> OptionError:
    for package, prefixes in PACKAGED.items():
        if name.startswith(prefixes) and not set(entry_points(GROUP)) & set(prefixes):
            return OptionError(
                f"the {kind} {name!r} comes with {package}, which is not installed: pip install {package}"
            )
    return unknown_name(kind, name, known)


def model_spec(name: str) -> ModelSpec:
    """The entry ``name`` of the registry; an unknown name is an error that names the nearest one."""
    check_model_name(name)
    for family, prefixes in FAMILIES.items():
        if name.startswith(prefixes):
            _load(family)
    _load_guests(name)
    return _SPECS[name]


def check_model_name(name: str) -> None:
    """Refuse an unknown name. No family is loaded for that, and so no torch."""
    if name in catalogue():
        return
    _load_guests(name)
    if name not in _SPECS:
        raise _unknown("model", name, list_models())


def list_models(pattern: str = "*") -> list[str]:
    """The names that match a shell pattern, in alphabetical order.

    >>> list_models("geq_*tiny")
    ['geq_cascade_tiny', 'geq_strong_tiny', 'geq_tiny']
    """
    return sorted(name for name in {*catalogue(), *_SPECS} if fnmatchcase(name, pattern))


def registered_names() -> list[str]:
    """The names of all models that the families declare, from the families themselves."""
    _load_all()
    return sorted(_SPECS)


def family_class(family: str) -> type[Network]:
    """The class whose ``family`` is this word, for rebuilding saved models."""
    registered_names()
    classes = {spec.network.family: spec.network for spec in _SPECS.values()}
    if family not in classes:
        raise _unknown("model family", family, classes)
    return classes[family]


def create_model(name: str, num_classes: int | None = None, **overrides: Any) -> Network:
    """Build the model ``name`` with fresh weights.

    Args:
        name: a name that :func:`list_models` knows.
        num_classes: number of logits; ``None`` keeps the model's own.
        overrides: fields of the model's configuration to replace, for instance ``input_shape=(3, 64, 64)``.

    >>> create_model("geq_tiny", num_classes=3).num_classes
    3
    """
    spec = model_spec(name)
    options = overrides if num_classes is None else {**overrides, "num_classes": num_classes}
    model = spec.network(override(spec.config, options))
    model.registry_name = name
    return model
