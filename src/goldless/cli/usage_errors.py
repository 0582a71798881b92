"""Wrong command lines, reported in our words: what is wrong, what was given, what to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import typer

from goldless.errors import nearest

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Raised by typer for a command line that does not fit."""
KINDS = {"int": "a whole number", "number": "a number", "float": "a number", "path": "a path", "bool": "yes or no"}

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

HOMES = {"list": "lists", "audit": "study", "gate": "compare", "calibrate": "agree", "bias": "agree", "review": "score"}
HOMES |= {old: now.split()[0] for old, now in MOVED.items() if " --" in now}
"""Modules that are not named as their verb is."""


def usage_message(error: Any, verbs: Collection[str]) -> str:
    """The message for a wrong command line; empty where the help was printed instead."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return ""
    path = getattr(error, "command", "goldless") if error.ctx is None else error.ctx.command_path
    return f"error: {_said(error, path, verbs)}\nTry '{path} -h' for help"


def _said(error: Any, path: str, verbs: Collection[str]) -> str:
    if hasattr(error, "possibilities"):
        known = [name for one in error.ctx.command.params for name in (*one.opts, *one.secondary_opts)]
        longer = [name for name in known if name.startswith(error.option_name)]
        hint = nearest(error.option_name, longer or [name for name in known if name.startswith("--")])
        return f"unknown option {error.option_name!r}{hint}"
    text = error.format_message().strip().removesuffix(".")
    if unknown := re.match(r"No such command '(.*?)'", text):
        word = unknown[1]
        if path == "goldless" and Path(word).exists():
            return f"{word!r} is not a verb. Did you mean 'goldless score {word}'?"
        return f"unknown verb {word!r}{nearest(word, verbs if path == 'goldless' else error.ctx.command.commands)}"
    if missing := re.match(r"Missing (?:parameter|argument|option) '(.*?)'", text):
        return f"{missing[1].split(' / ')[0]} is missing"
    if value := re.match(r"Invalid value for '(.*?)'(?: \(.*?\))?: (.*)", text, re.DOTALL):
        name = value[1].split(" / ")[0]
        typed = [word.removeprefix(f"{name}=") for word in sys.argv[1:] if word.startswith(f"{name}=")]
        typed += [after for word, after in zip(sys.argv[1:], sys.argv[2:], strict=False) if word == name]
        return f"{name} must be {must_be(value[2])}" + (f", got {typed[0]!r}" if typed else "")
    return text[0].lower() + text[1:] if text else "this command line is not understood"


def must_be(text: str) -> str:
    """What a value must be, from any of the ways in which typer says that it is not."""
    if words := re.search(r"is not one of (.*)", text):
        return f"one of {words[1]}".replace("'", "")
    if least := re.search(r"greater than or equal to (\S+)|not in the range x>=(\S+)", text):
        return f"at least {(least[1] or least[2]).rstrip('.')}"
    kind = re.search(r"valid (int|number|float|path|bool)", text)
    return KINDS[kind[1]] if kind else f"valid: {text}"
