from __future__ import annotations

import inspect

import pytest

import geq
from geq import errors
from geq.errors import CheckedOptions, MissingExtraError, unknown_name


def test_every_error_is_a_geq_error() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, Exception)]
    assert len(classes) >= 9
    for kind in classes:
        assert issubclass(kind, geq.GeqError) or kind is geq.ConvergenceWarning
        assert kind.__doc__


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (geq.errors.OptionError, ValueError),
        (geq.errors.OptionError, TypeError),
        (geq.errors.InputError, ValueError),
        (geq.ConvergenceError, RuntimeError),
        (geq.errors.GradientError, RuntimeError),
        (geq.errors.DataError, ValueError),
        (geq.errors.CheckpointError, ValueError),
        (MissingExtraError, ImportError),
        (geq.ConvergenceWarning, UserWarning),
    ],
)
def test_errors_are_what_callers_expect(kind: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(kind, builtin)


def test_nearest_name() -> None:
    assert "did you mean 'memory'?" in str(unknown_name("option", "memori", ["memory", "mixing"]))
    nothing = str(unknown_name("option", "qqqq", ["memory", "mixing"]))
    assert "did you mean" not in nothing
    assert "known: memory, mixing" in nothing
    assert "(known: none)" in str(unknown_name("option", "x", []))


def test_of_many_names_only_the_nearest_three_are_listed() -> None:
    names = [f"model{i}" for i in range(60)]
    assert "'model3'? (nearest of 60: model3, model13, model23)" in str(
        unknown_name("model", "model3x", names)
    )
    assert "none of 60 known names is similar" in str(unknown_name("model", "m", names))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("nosuch", ["bench", "models"]),
        ("--folder", ["--power"]),
        ("stride", ["hidden"]),
        ("image_size", ["max_steps"]),
        ("--bogus", ["--runs"]),
    ],
)
def test_no_guess_below_a_similarity(name: str, known: list[str]) -> None:
    assert "did you mean" not in str(unknown_name("option", name, known))


def test_missing_extra_says_how_to_get_it() -> None:
    message = str(MissingExtraError.naming("kornia", "vision", "augmentation on tensors"))
    assert (
        message == "augmentation on tensors needs kornia, which is not installed: pip install 'geq[vision]'"
    )


def test_convergence_error_carries_the_solution() -> None:
    assert geq.ConvergenceError("x", 3).solution == 3
    assert geq.ConvergenceError("x").solution is None


def test_checked_options_leave_free_keywords_alone() -> None:
    class Free(metaclass=CheckedOptions):
        def __init__(self, a: int = 0, **rest: int) -> None:
            self.rest = rest

    class Strict(metaclass=CheckedOptions):
        def __init__(self, alpha: int = 0) -> None:
            self.alpha = alpha

    class Bare(metaclass=CheckedOptions):
        pass

    assert Free(b=2).rest == {"b": 2}
    with pytest.raises(geq.errors.OptionError, match="unknown option of Bare 'a'"):
        Bare(a=1)  # type: ignore[call-arg]
    with pytest.raises(geq.errors.OptionError, match="unknown option of LinearKernel 'degree'"):
        geq.kernels.LinearKernel(degree=3)
    assert Strict(alpha=1).alpha == 1
    assert Strict(2).alpha == 2
    with pytest.raises(
        geq.errors.OptionError, match="unknown option of Strict 'aplha'; did you mean 'alpha'"
    ):
        Strict(aplha=1)


def test_help_shows_the_options_of_a_constructor() -> None:
    assert list(inspect.signature(geq.solvers.Anderson).parameters) == ["memory", "mixing", "ridge"]
    assert "channels" in str(inspect.signature(geq.GEQ2d))


@pytest.mark.parametrize(
    ("base", "method"),
    [
        (geq.Cell, "forward"),
        (geq.penalties.Penalty, "prox"),
        (geq.kernels.Kernel, "value"),
        (geq.bandwidth.GammaRule, "forward"),
        (geq.solvers.Solver, "step"),
    ],
)
def test_a_class_of_ones_own_that_lacks_a_method_is_refused_when_it_is_made(base, method):
    class Unfinished(base):
        pass

    with pytest.raises(TypeError, match=f"abstract.*{method}"):
        Unfinished()
