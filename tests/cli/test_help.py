"""Help that teaches: -h everywhere, verbs by what one wants, options in panels, examples that work as printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from goldless.cli.main import QUESTIONS, app

ROOT = typer.main.get_command(app)


def commands(group: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every verb with its words, those under another verb too."""
    for name in group.list_commands(None):
        found = group.get_command(None, name)
        if hasattr(found, "commands"):
            yield from commands(found, (*path, name))
        else:
            yield " ".join((*path, name)), found


COMMANDS = dict(commands()) | {question: ROOT.get_command(None, question) for question in QUESTIONS}
EXAMPLES = [
    (path, line.removeprefix("[dim]$[/] ").replace("\\[", "["))
    for path, command in COMMANDS.items()
    for line in command.help.splitlines()
    if line.startswith("[dim]$[/] ")
]


@pytest.mark.parametrize("path", ["", "study", "score", "gre collect"])
def test_h_is_short_for_help_and_nothing_offers_to_install_completion(goldless, path):
    short, long = (goldless(*path.split(), flag) for flag in ("-h", "--help"))
    assert (short.code, short.err) == (0, "")
    assert short.out == long.out
    assert "install-completion" not in short.out
    assert "<" not in short.out.split("Options")[0]


@pytest.mark.parametrize("path", COMMANDS)
def test_every_verb_has_one_to_three_examples(path):
    assert 1 <= sum(of == path for of, _ in EXAMPLES) <= 3


@pytest.mark.parametrize(("path", "example"), EXAMPLES)
def test_an_example_is_understood_as_it_is_printed(path, example):
    words = shlex.split(example)
    name, *second = path.split()
    assert words[:2] == ["goldless", name]
    assert {*second} <= {*words}
    rest = words[2:]
    for word in second:
        if word != "--write":
            rest.remove(word)
    assert len(example) <= 100
    COMMANDS[path].make_context(path, rest, typer.Context(ROOT, **ROOT.context_settings))


@pytest.mark.parametrize("path", COMMANDS)
def test_the_help_of_a_verb_shows_at_most_11_options_cuts_none_off_and_says_how_to_see_the_rest(goldless, path):
    shown = goldless(*path.split(), "-h").out
    assert not re.search("[a-z]…", shown)
    assert sum(line.startswith(("│ --", "│ *  --")) for line in shown.splitlines()) <= 11
    options = [p for p in COMMANDS[path].params if p.param_type_name == "option" and not p.hidden]
    assert ("--help-all shows all" in " ".join(shown.split())) == (len(options) > 10)


def test_the_help_of_score_is_a_screen_and_a_half_and_all_its_options_are_at_most_36(goldless, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert len(goldless("score", "-h").out.splitlines()) <= 46
    monkeypatch.setenv("COLUMNS", "120")
    assert len(goldless("score", "-h").out.splitlines()) <= 36
    assert sum(p.param_type_name == "option" and not p.hidden for p in COMMANDS["score"].params) <= 36


@pytest.mark.parametrize("path", COMMANDS)
def test_help_texts_are_sentences(path):
    options = [p for p in COMMANDS[path].params if p.param_type_name == "option" and not p.hidden]
    said = [p.help.split("  [dim]")[0] for p in options]
    assert [text for text in said if not text[0].isupper() and not text.startswith(("paper:",))] == []
    assert [text for text in said if not text.endswith((".", "?"))] == []
