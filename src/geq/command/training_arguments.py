"""The options of ``geq train``, which other commands that train have as well."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from geq.command.argument_parser import add_dataset_options, dashes_replaced, nested, parse
from geq.data.dataset_options import IMAGE_FOLDER, check_dataset_name
from geq.errors import OptionError, unknown_name
from geq.model.catalogue import model_fields
from geq.model.model_registry import check_model_name
from geq.safe_parsing import parse_yaml
from geq.training.photo_folder_options import MODEL, fitting_batch, is_folder, with_images
from geq.training.preset import list_presets, preset_options
from geq.training.train_options import GROUPS, NESTED, DataOptions, ModelOptions, TrainOptions, overlaid

DEFAULT_MODEL = ModelOptions.model

SWITCHES = ("--json", "--quiet", "--print_config")
"""Options without a value."""


def declare_training(parser: Any, model: str = DEFAULT_MODEL) -> None:
    """Add all options of a training, those of ``model`` among them."""
    parser.add_argument(
        "--config",
        type=str | None,
        default=None,
        metavar="FILE",
        help="a YAML file of options, such as epochs: 5",
    )
    parser.add_argument(
        "--preset",
        type=str | None,
        default=None,
        metavar="NAME",
        help=f"options that come with the package: {', '.join(list_presets())}",
    )
    parser.add_argument(
        "--print_config", action="store_true", help="print all options as YAML for --config, and exit"
    )
    for group in GROUPS:
        parser.add_class_arguments(group, fail_untyped=True, skip=set(NESTED.values()))
        if group is ModelOptions:
            add_model_options(parser, model)
        if group is DataOptions:
            add_dataset_options(parser)


def add_folder(parser: Any) -> None:
    """Add a folder of images in the place of a dataset."""
    parser.add_argument(
        "folder",
        type=str | None,
        nargs="?",
        default=None,
        help="a folder with a folder of images for each class, instead of --data; without train/ and val/ in "
        f"it a fifth of each class is held out for testing, and without --model the network is {MODEL}",
    )


def add_model_options(parser: Any, model: str) -> None:
    """``--model.patch`` and the like: the fields of a model's configuration."""
    group = parser.add_argument_group(f"options of the model {model}")
    for field, (kind, value) in model_fields(model).items():
        default = tuple(value) if isinstance(value, list) else value
        group.add_argument(
            f"--model.{field}",
            dest=f"override.{field}",
            metavar=field.upper(),
            type=kind,
            default=default,
            help=field.replace("_", " "),
        )


def parse_training(
    command: str, summary: str, arguments: list[str], declare: Any, defaults: Mapping[str, Any]
) -> tuple[Any, TrainOptions]:
    """Parse the arguments of a command that trains; later ones of these replace earlier ones:

    ``defaults`` of the command, ``--preset``, ``--config``, the options themselves.
    """
    arguments = [dashes_replaced(argument) for argument in arguments]
    values = dict(defaults)
    preset, config = last_value(arguments, "--preset"), last_value(arguments, "--config")
    folder = folder_of(arguments)
    fitted = folder is not None and preset is None and config is None
    if fitted:
        values |= {"model": MODEL}
    if preset is not None:
        values = overlaid(values, preset_options(preset))
    if config is not None:
        values = overlaid(values, file_options(config))
    model = last_value(arguments, "--model") or values.get("model", DEFAULT_MODEL)
    check_model_name(model)

    def declare_all(parser: Any) -> None:
        declare(parser, model)
        parser.set_defaults(**defaults)

    asked = parse(command, summary, arguments, declare_all)
    typed = {name: asked[name] for name in asked.given if name in TrainOptions.__dataclass_fields__}
    typed |= {name: nested(asked, name) for name in NESTED.values()}
    if folder is not None:
        typed["data"] = IMAGE_FOLDER
    options = TrainOptions(**overlaid(values, typed))
    if folder is not None:
        options = with_images(options, folder)
        if fitted and "batch_size" not in asked.given:
            options = replace(options, batch_size=fitting_batch(folder))
    check_dataset_name(options.data)
    known = model_fields(options.model)
    for name in options.override:  # of a file: those of the command line are options of the parser
        if known and name not in known:
            raise unknown_name(f"option of {options.model}", name, known)
    return asked, options


def as_yaml(options: TrainOptions) -> str:
    import yaml

    return str(yaml.safe_dump(options.spelt_out(), sort_keys=False, allow_unicode=True))


def folder_of(arguments: list[str]) -> str | None:
    """Return the folder of images that the arguments name, alone or by ``--data``.

    >>> folder_of(["--epochs", "3", "photos"]), folder_of(["--data=photos/"]), folder_of(["--data", "digits"])
    ('photos', 'photos/', None)
    """
    for before, argument in zip(["", *arguments], arguments, strict=False):
        follows_option = before.startswith("--") and "=" not in before and before not in SWITCHES
        if not follows_option and not argument.startswith("--"):
            return argument
    data = last_value(arguments, "--data")
    return data if data is not None and is_folder(data) else None


def last_value(arguments: list[str], flag: str) -> str | None:
    """
    >>> last_value(["--model", "a", "--model=b"], "--model"), last_value([], "--model")
    ('b', None)
    """
    found = None
    for argument, following in itertools.zip_longest(arguments, arguments[1:]):
        if argument == flag:
            found = following
        elif argument.startswith(f"{flag}="):
            found = argument.partition("=")[2]
    return found


def file_options(name: str) -> dict[str, Any]:
    """Read a YAML file of options."""
    try:
        values = parse_yaml(Path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise OptionError(f"--config must be a YAML file of options: {problem}") from problem
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise OptionError(
            f"--config must be a YAML file that maps names of options to values: {name} does not"
        )
    return TrainOptions.decoded(values, name)
