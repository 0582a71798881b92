"""What ``import goldless`` gives."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import goldless
from goldless import errors


def test_all_is_sorted_without_repetition_and_every_name_is_there():
    assert goldless.__all__ == sorted(set(goldless.__all__))
    assert [name for name in goldless.__all__ if not hasattr(goldless, name)] == []


def test_dir_shows_only_public_names():
    assert dir(goldless) == goldless.__all__


def test_every_public_name_is_the_one_of_its_home():
    for name in set(goldless.__all__) - {"__version__"}:
        home = importlib.import_module(goldless._HOME_OF[name])
        assert getattr(goldless, name) is getattr(home, name)


def test_a_name_that_is_not_there_is_an_error_that_names_it():
    with pytest.raises(AttributeError, match="has no attribute 'evalute'"):
        goldless.evalute  # noqa: B018


def test_every_error_is_public():
    kinds = {n for n, e in vars(errors).items() if isinstance(e, type) and issubclass(e, Exception)}
    assert kinds <= set(goldless.__all__)


def test_every_public_name_is_documented():
    assert [n for n in goldless.__all__ if n != "__version__" and not inspect.getdoc(getattr(goldless, n))] == []


USES = Path(__file__).parent / "typing" / "public_api.py"


def test_every_public_name_is_used_in_the_typed_file():
    found = {
        node.attr
        for node in ast.walk(ast.parse(USES.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "goldless"
    }
    assert found == set(goldless.__all__)
