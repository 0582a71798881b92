"""Errors form one tree, and say what came, where, and what is near."""

from __future__ import annotations

import pytest

from goldless import errors
from goldless.errors import GoldlessError, ModelError, Problem, StudyError, UserError, WaitingError, nearest


def test_every_error_is_a_goldless_error_and_either_the_users_or_a_models():
    kinds = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)]
    assert len(kinds) >= 12
    for kind in kinds:
        assert issubclass(kind, GoldlessError)
        # replies that are not there yet are no one's fault
        assert kind in {GoldlessError, WaitingError} or issubclass(kind, UserError) != issubclass(kind, ModelError)


def test_the_tree_in_the_docstring_is_the_tree():
    drawn = {line.split("─ ")[-1].split()[0] for line in errors.__doc__.splitlines() if "─ " in line}
    kinds = {n for n, e in vars(errors).items() if isinstance(e, type) and issubclass(e, GoldlessError)}
    assert drawn == kinds - {"GoldlessError"}


def test_a_study_error_keeps_all_problems_and_prints_a_hundred():
    error = StudyError([Problem(f"p{i}") for i in range(130)], study="s")
    assert len(error.problems) == 130
    lines = str(error).splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("s: 130 problems", "  … and 30 more", 102)
    assert str(StudyError([Problem("p")])).splitlines() == ["study: 1 problem", "  p"]


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("tsak", ["task", "agent"], "task"),
        ("Task", ["task", "agent"], "task"),
        ("gem", ["gem-raw", "length"], "gem-raw"),
        ("pair", ["pairwise", "5-level"], "pairwise"),
        ("bub", ["ann", "bob"], "bob"),
        ("oder", ["order", "other"], "order"),
        ("agent", ["model_id", "agent_name"], "agent_name"),
    ],
)
def test_a_slip_or_a_beginning_gets_a_hint(word, known, meant):
    assert nearest(word, known) == f". Did you mean {meant!r}?"


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("qqqq", ["task", "agent"]),
        ("", ["task"]),
        # columns of other tools' files: a wrong hint is worse than none
        ("agent", ["target", "doc_id", "resps"]),
        ("text", ["target", "context", "answer_id", "prompt", "winner"]),
        ("task", ["answer_id", "model_a"]),
        ("solid", ["valid"]),
    ],
)
def test_a_word_that_is_merely_similar_gets_none(word, known):
    assert nearest(word, known) == ""
