"""Every error that geq raises on purpose, and the helpers that phrase them.

A message says what must hold, then what came, then the usual fix.
"""

from __future__ import annotations

import difflib
import inspect
from abc import ABCMeta
from collections.abc import Iterable
from typing import Any

LONGEST_LINE = 300
"""Some libraries quote the whole of a damaged file."""


class GeqError(Exception):
    """Base of all errors of this package: ``except geq.GeqError`` catches each of them."""


class OptionError(GeqError, ValueError, TypeError):
    """A constructor or command was given an option that does not exist or cannot have that value."""


class InputError(GeqError, ValueError):
    """A tensor has the wrong shape, type or content."""


class ConvergenceError(GeqError, RuntimeError):
    """
    A solver stopped without reaching its tolerance; ``solution`` is what it had by then, if it got that far.
    """

    def __init__(self, message: str, solution: Any = None) -> None:
        super().__init__(message)
        self.solution = solution


class ConvergenceWarning(UserWarning):
    """The same as a warning: by default a layer gives it once in training and once in evaluation."""


class FrozenError(GeqError, RuntimeError):
    """The weights of a frozen model were changed."""


class GradientError(GeqError, RuntimeError):
    """A derivative was asked for that cannot be given correctly."""


class DataError(GeqError, ValueError):
    """A dataset or file is missing, damaged or not what its name says."""


class MissingDataError(DataError):
    """A dataset is not there: neither damaged nor incomplete, but absent."""


class CheckpointError(GeqError, ValueError):
    """A saved model or run cannot be loaded as it is."""


class MissingExtraError(GeqError, ImportError):
    """An optional dependency is not installed."""

    @classmethod
    def naming(cls, package: str, extra: str, purpose: str, distribution: str = "geq") -> MissingExtraError:
        wanted = f"{distribution}[{extra}]" if extra else distribution
        return cls(f"{purpose} needs {package}, which is not installed: pip install {wanted!r}")


def one_line(problem: BaseException) -> str:
    """Return the message of another library's error as one short line.

    >>> one_line(ValueError("bad header\\nat byte 7")), len(one_line(ValueError("x" * 9999)))
    ('bad header at byte 7', 300)
    """
    line = " ".join(str(problem).split()) or type(problem).__name__
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"


def check_kind(name: str, value: object, kind: type, example: str) -> None:
    """Refuse an argument that is not an object of ``kind``, at construction instead of at its first use.

    >>> check_kind("penalty", "l1", float, "0.5")
    Traceback (most recent call last):
    geq.errors.OptionError: penalty must be a float, such as 0.5: got 'l1'
    """
    if isinstance(value, kind):
        return
    wanted = f"{name} must be a {kind.__name__}, such as {example}"
    if isinstance(value, type) and issubclass(value, kind):
        raise OptionError(f"{wanted}: got the class {value.__name__}; call it: {value.__name__}(...)")
    raise OptionError(f"{wanted}: got {one_line(Exception(repr(value)))}")


LARGEST_SEED = 2**32 - 1
"""What every generator takes: numpy's global one no more than this, and none a negative number."""


def check_seed(seed: int, name: str = "seed") -> None:
    """
    >>> check_seed(2**40)
    Traceback (most recent call last):
    geq.errors.OptionError: seed must be from 0 to 4294967295: got 1099511627776
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise OptionError(f"{name} must be from 0 to {LARGEST_SEED}: got {seed}")


SIMILAR = 0.6
"""Similarity from 0 to 1 from which on a known name may be what was meant."""
LISTED, NEAREST = 8, 3
"""Known names that an error lists in full; of more it lists only the nearest."""


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are similar to ``name``, at most three, the nearest first.

    >>> nearest_names("geq_tny", ["geq_tiny", "resnet18"]), nearest_names("--folder", ["--power"])
    (['geq_tiny'], [])
    """
    given = name.lstrip("-").lower()

    def similarity(option: str) -> float:
        other = option.lstrip("-").lower()
        ratio = difflib.SequenceMatcher(None, other, given).ratio()
        return max(ratio, SIMILAR) if len(given) > 2 and other.startswith(given) else ratio

    scores = {option: similarity(option) for option in known}
    close = sorted((option for option in scores if scores[option] >= SIMILAR), key=lambda o: (-scores[o], o))
    return close[:NEAREST]


def unknown_name(kind: str, name: str, known: Iterable[str]) -> OptionError:
    """Return an error for ``name`` that names the nearest of the ``known`` ones.

    >>> print(unknown_name("model", "geq_tny", ["geq_tiny", "resnet18"]))
    unknown model 'geq_tny'; did you mean 'geq_tiny'? (known: geq_tiny, resnet18)
    >>> print(unknown_name("model", "geq_tny", ["geq_tiny", "geq_tall", *"abcdefgh"]))
    unknown model 'geq_tny'; did you mean 'geq_tiny'? (nearest of 10: geq_tiny, geq_tall)
    """
    options = sorted(known)
    nearest = nearest_names(name, options)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    if len(options) <= LISTED:
        listing = f"known: {', '.join(options) or 'none'}"
    elif nearest:
        listing = f"nearest of {len(options)}: {', '.join(nearest)}"
    else:
        listing = f"none of {len(options)} known names is similar"
    return OptionError(f"unknown {kind} {name!r}{hint} ({listing})")


class CheckedOptions(ABCMeta):
    """Metaclass under which a misspelt keyword is an :class:`OptionError` that names the nearest one, and a
    class that lacks an abstract method is not instantiated.

    Python's own ``TypeError`` neither belongs to this package nor, in most versions, helps.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            known = cls._options()
            for name in kwargs:
                if known is not None and name not in known:
                    raise unknown_name(f"option of {cls.__name__}", name, known)
        return super().__call__(*args, **kwargs)

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's, which ``help`` and editors would not find behind ``__call__``."""
        whole = inspect.signature(cls.__init__)  # type: ignore[misc]
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    def _options(cls) -> list[str] | None:
        """Return the keywords that the constructor takes; None where it takes any."""
        owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
        if owner.__module__ in ("builtins", "torch.nn.modules.module"):
            return []  # these say **kwargs, and then refuse every one of them in their own words
        parameters = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return None
        return [name for name in parameters if name != "self"]
