"""Trust in settings files: what a file that came with a folder may set by itself, and which files the user trusts.

A file that the user has not trusted may choose among what goldless brings: names, numbers, providers' models. What runs
code, names a server or a key, or is outside the file's folder is used once the user has trusted the file. Trust is for
a path and its settings, kept with the user's data: a change of the settings asks again.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from goldless.cli.console import say
from goldless.cli.settings_file import Settings
from goldless.errors import UserError
from goldless.files import write_text
from goldless.models.cache import default_journal

CODE = re.compile(r"(?:^|[^\w-])(?:python|command|deepeval|inspect|promptfoo):")
KEY = re.compile(r"[?&]key=")


def danger(value: Any, outside_of: Path | None = None) -> str | None:
    """The reason why a value needs trust; None: it needs none. ``outside_of``: the folder that a path must be in."""
    words = [str(one) for one in (value if isinstance(value, list) else [value])]
    if any(CODE.search(word) for word in words):
        return "runs code"
    if any(KEY.search(word) for word in words):
        return "sends a key from the environment"
    if any("://" in word for word in words):
        return "names a server"
    if outside_of is not None and not all(Path(word).resolve().is_relative_to(outside_of.resolve()) for word in words):
        return "is outside the file's folder"
    return None


def require_trust(found: Settings, dangers: list[str]) -> None:
    """Go on if the file is trusted or has nothing that needs it; ask in a terminal, refuse elsewhere."""
    if not dangers or found.named or is_trusted(found):
        return
    for line in dangers:
        say(line, style="yellow")
    advice = "Read the file, then run: goldless config trust"
    if not in_terminal():
        raise UserError(f"{found.path} is not trusted, and this command uses settings of it that need trust. {advice}")
    if not typer.confirm(f"Trust {found.path}?", default=False, err=True):
        raise UserError(f"{found.path} is not trusted. Use GOLDLESS_CONFIG=none to run without it")
    trust(found)


def in_terminal() -> bool:
    """Whether somebody can read a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def is_trusted(found: Settings) -> bool:
    """Whether the user has trusted the file with the settings that it has now."""
    path, digest = _entry(found)
    return _trusted().get(path) == digest


def trust(found: Settings) -> None:
    """Remember that the user trusts the file as it is."""
    path, digest = _entry(found)
    place = _place()
    place.parent.mkdir(parents=True, exist_ok=True)
    write_text(place, json.dumps(_trusted() | {path: digest}, indent=1, sort_keys=True) + "\n")


def dangers_of(found: Settings) -> Iterator[str]:
    """Every setting of the file that runs code, names a server or sends a key, each with file and line."""
    pending: list[tuple[tuple[str, ...], Any]] = [((key,), value) for key, value in found.tables.items()]
    while pending:
        keys, value = pending.pop(0)
        if isinstance(value, dict):
            pending[:0] = [((*keys, key), one) for key, one in value.items()]
        elif reason := danger(value):
            yield said(found, keys, value, reason)


def said(found: Settings, keys: tuple[str, ...], value: Any, reason: str) -> str:
    """A setting and the reason why it needs trust, with file and line."""
    return f"{found.place(keys)}: {keys[-1]} = {value!r} {reason}"


def _place() -> Path:
    return default_journal().with_name("trusted_settings.json")


def _trusted() -> dict[str, str]:
    try:
        known = json.loads(_place().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"{_place()} cannot be read: {error}. Delete it and trust your settings files again") from None
    return known if isinstance(known, dict) else {}


def _entry(found: Settings) -> tuple[str, str]:
    """The path of the file, and a hash of its settings."""
    assert found.path is not None
    written = json.dumps(found.tables, sort_keys=True, default=str)
    return str(found.path.resolve()), hashlib.sha256(written.encode()).hexdigest()
