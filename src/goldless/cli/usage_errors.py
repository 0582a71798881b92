"""Wrong command lines, reported in our words: what is wrong, what was given, what to do."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Raised by typer for a command line that does not fit."""
KINDS = {
    **dict.fromkeys(("int", "integer"), "a whole number"),
    **dict.fromkeys(("number", "float"), "a number"),
    "path": "a path",
    "boolean": "yes or no",
}

MOVED: Mapping[str, str] = {
    "import": "study import",
    "metrics": "list metrics",
    "models": "list models",
    "models list": "list models",
    "models pull": "doctor",
    "plugins": "list plugins",
    "batches": "journal batches",
    "cache": "journal",
    "cache show": "journal files",
    "cache clear": "journal clear",
    "completion": "config completion",
    "serve-jury": "jury",
    "quickstart": "demo --study",
    "consistency": "compare --rankings",
    "drill": "crashtest --drill",
    "perturb": "crashtest --write",
    "cost": "plan --cost",
}
"""Verbs of version 0.2.0 under their old names, which still work, and what they are called now."""


def usage_message(error: Any, verbs: Collection[str]) -> str:
    """The message for a wrong command line; empty where the help was printed instead."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return ""
    context = error.ctx
    path = "goldless" if context is None else context.command_path
    return f"error: {_said(error, verbs)}\nTry '{path} -h' for help"


def _said(error: Any, verbs: Collection[str]) -> str:
    if hasattr(error, "possibilities"):
        return f"unknown option {error.option_name!r}{_options(error)}"
    text = error.format_message().strip().removesuffix(".")
    if unknown := re.match(r"No such command '(.*?)'", text):
        return _unknown_verb(unknown[1], error, verbs)
    if missing := re.match(r"Missing (?:parameter|argument|option) '(.*?)'", text):
        return f"{missing[1].split(' / ')[0]} is missing"
    if value := re.match(r"Invalid value for '(.*?)'(?: \(.*?\))?: (.*)", text, re.DOTALL):
        name = value[1].split(" / ")[0]
        return f"{name} must be {must_be(value[2])}{_given(name)}"
    return text[0].lower() + text[1:] if text else "this command line is not understood"


def must_be(text: str) -> str:
    """What a value must be, from any of the ways in which typer says that it is not."""
    if words := re.search(r"is not one of (.*)", text):
        return f"one of {words[1]}".replace("'", "")
    if least := re.search(r"greater than or equal to (\S+)|not in the range x>=(\S+)", text):
        return f"at least {(least[1] or least[2]).rstrip('.')}"
    kind = re.search(r"valid (integer|int|number|float|path|boolean)", text)
    return KINDS[kind[1]] if kind else f"valid: {text}"


def _given(name: str) -> str:
    """The value of an option as it was typed."""
    words = sys.argv[1:]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith(f"{name}="):
            return f", got {word.partition('=')[2]!r}"
        if word == name:
            return f", got {following!r}"
    return ""


def _options(error: Any) -> str:
    """The nearest option, by spelling or by beginning, for a word that is not an option."""
    known = [name for parameter in error.ctx.command.params for name in (*parameter.opts, *parameter.secondary_opts)]
    return _near(error.option_name, [name for name in known if name.startswith("--")], beginnings=True)


def _unknown_verb(word: str, error: Any, verbs: Collection[str]) -> str:
    path = "goldless" if error.ctx is None else error.ctx.command_path
    known = verbs if path == "goldless" else list(error.ctx.command.commands)
    if path == "goldless" and Path(word).exists():
        return f"{word!r} is not a verb. Did you mean 'goldless score {word}'?"
    return f"unknown verb {word!r}{_near(word, known)}"


def _near(word: str, known: Iterable[str], *, beginnings: bool = False) -> str:
    names = list(known)
    close = [name for name in names if beginnings and (name.startswith(word) or word.startswith(name))]
    close += difflib.get_close_matches(word, names, n=2, cutoff=0.6)
    listed = " or ".join(repr(name) for name in dict.fromkeys(close[:2]))
    return f". Did you mean {listed}?" if listed else ""
