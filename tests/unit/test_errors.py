"""The exception tree and what its errors carry."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from asymspec_agents import errors
from asymspec_agents.errors import (
    AsymSpecError,
    ConfigurationError,
    ContextOverflowError,
    MessageError,
    MissingDependencyError,
    UnsupportedRequestError,
)


def test_every_error_is_an_asymspec_error_and_public() -> None:
    classes = {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
    assert sorted(classes) == sorted(errors.__all__)
    assert all(issubclass(error, AsymSpecError) for error in classes.values())
    assert all(error.__doc__ for error in classes.values())


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    """Indentation gives the parent, a name in parentheses the built-in one."""
    parents: list[str] = []
    drawn = set()
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"([│├└─ ]*)([A-Z]\w+Error)\b(?: \((\w+)\))?", line)
        if not match:
            continue
        depth = len(match[1]) // 4
        parents[depth:] = [match[2]]
        drawn.add(match[2])
        error = getattr(errors, match[2])
        assert error.__bases__[0].__name__ == (parents[depth - 1] if depth else "Exception")
        if match[3]:
            assert match[3] in [base.__name__ for base in error.__bases__]
    assert drawn == set(errors.__all__)


def test_builtin_handlers_catch_what_they_should() -> None:
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(UnsupportedRequestError, ConfigurationError)
    assert issubclass(MessageError, ValueError)
    assert issubclass(MissingDependencyError, ImportError)


def test_a_missing_dependency_says_how_to_get_it() -> None:
    error = MissingDependencyError("torch", "engine")
    assert str(error) == 'torch is not installed; run: pip install "asymspec-agents[engine]"'
    assert (error.package, error.extra, error.name) == ("torch", "engine", "torch")


@pytest.mark.parametrize("advice", ["", "raise max_verifier_tokens"])
def test_an_overflow_says_which_view_by_how_much(advice: str) -> None:
    error = ContextOverflowError("compressed", 12_345, 10_000, advice)
    assert (error.view, error.num_tokens, error.limit) == ("compressed", 12_345, 10_000)
    text = "the compressed view has 12,345 tokens, 2,345 over the limit of 10,000"
    assert str(error) == text + (f"; {advice}" if advice else "")


@pytest.mark.parametrize(
    "error", [ContextOverflowError("full", 5, 4, "shorten it"), MissingDependencyError("torch", "engine")]
)
def test_errors_survive_pickling_and_copying(error: AsymSpecError) -> None:
    """Worker processes send them back to their callers."""
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)
