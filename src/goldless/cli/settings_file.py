"""Settings of a project: ``goldless.toml``, or ``[tool.goldless]`` of ``pyproject.toml``. The command line wins.

Keys are the long names of options. Those at the top hold for every verb that has them, those in ``[VERB]`` for that
verb; ``[models]`` gives short names to models.
"""

from __future__ import annotations

import functools
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from goldless.cli.usage_errors import MOVED
from goldless.errors import UserError, nearest
from goldless.runs.option_forms import Option, declared
from goldless.runs.options import Options

VARIABLE = "GOLDLESS_CONFIG"
"""Environment variable: the file to use, or none."""
MODELS = "models"
Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a file sets, and where."""

    path: Path | None = None
    tables: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[Keys, int] = field(default_factory=dict)
    named: bool = False
    """The user named the file, by GOLDLESS_CONFIG, so it is trusted."""

    def place(self, keys: Keys) -> str:
        """File and line of a setting."""
        assert self.path is not None
        return f"{self.path.name}:{self.lines.get(keys, 1)}"

    def problem(self, keys: Keys, message: str) -> UserError:
        """An error that names file and line."""
        return UserError(f"{self.place(keys)}: {message}")

    @property
    def models(self) -> Mapping[str, str]:
        """Models by their short names."""
        from goldless.models.catalogue import PROVIDERS  # a verb without settings needs no model

        found = self.tables.get(MODELS, {})
        if not isinstance(found, dict):
            raise self.problem((MODELS,), f"models must be a table of names, got {found!r}")
        for name, model in found.items():
            if not isinstance(model, str) or not model or re.search(r"[\s,=:/]", name):
                said = 'NAME = "MODEL", with a name without spaces and , = : /'
                raise self.problem((MODELS, name), f"a model must be {said}, got {name} = {model!r}")
            if (taken := PROVIDERS.get(name)) is not None and taken.bare:
                raise self.problem((MODELS, name), f"{name} is a name of goldless's own. Choose another")
        return found

    def for_verb(self, verb: Keys, parameters: Sequence[Any]) -> Mapping[str, tuple[Any, Keys]]:
        """The value of each parameter that the file sets for a verb, and its keys in the file."""
        options = {_key(name): one for one in parameters for name in one.opts if name.startswith("--")}
        found: dict[str, tuple[Any, Keys]] = {}
        for keys, value in _plain(self.tables, ()):
            if (one := options.get(_key(keys[-1]))) is not None:
                found[one.name] = self._value(one, value, keys), keys
        table: Any = self.tables
        at: Keys = ()
        for word in verb:
            table, at = table.get(word, {}), (*at, word)
            if not isinstance(table, dict) and at == ("journal",):
                table = {}  # the option of that name
            if not isinstance(table, dict):
                raise self.problem(at, f"{word} must be a table of settings, got {table!r}. Try [{'.'.join(at)}]")
        for keys, value in _plain(table, at) if at else ():
            one = options.get(_key(keys[-1]))
            if one is None:
                known = sorted(options.keys() - {"help", "h"})
                raise self.problem(
                    keys, f"goldless {' '.join(verb)} has no option {keys[-1]!r}{nearest(keys[-1], known)}"
                )
            found[one.name] = self._value(one, value, keys), keys
        return found

    def check(self, verbs: Sequence[str]) -> None:
        """Refuse what none of the verbs knows, and models that are not named as one."""
        known = {_key(flag): one for one in declared(Options).values() for flag in one.flags if flag.startswith("--")}
        for key, value in self.tables.items():
            if isinstance(value, dict):
                if key not in (*verbs, MODELS):
                    now = f". It is [{MOVED[key].replace(' ', '.')}] now" if key in MOVED else ""
                    hint = now or nearest(key, (MODELS, *verbs))
                    said = f"a table must be models or the name of a verb, got [{key}]{hint}"
                    raise self.problem((key,), said)
            elif _key(key) not in (*known, "format", "verbose"):
                hint = nearest(key, known)
                raise self.problem((key,), f"unknown setting {key!r}{hint or '. Settings are named as options are'}")
        _ = self.models

    def _value(self, parameter: Any, value: Any, keys: Keys) -> Any:
        """The value as the words of a command line."""
        several = parameter.multiple or parameter.nargs != 1
        flag = parameter.is_flag
        given = value if isinstance(value, list) else [value]
        if any(isinstance(one, dict | list) for one in given) or (isinstance(value, list) and not several):
            raise self.problem(
                keys, f"{keys[-1]} must be {'a list of values' if several else 'one value'}, got {value!r}"
            )
        if any(isinstance(one, bool) != flag for one in given):
            raise self.problem(keys, f"{keys[-1]} must be {'true or false' if flag else 'a value'}, got {value!r}")
        option = declared(Options).get(parameter.name)
        words = [self._rooted(one, option) for one in given]
        return words if several else words[0]

    def _rooted(self, value: Any, option: Option | None) -> Any:
        """A path that is relative to the file; any other value as it is."""
        assert self.path is not None
        is_path = option is not None and option.form.typed in (Path, list[Path])
        return str(self.path.parent / str(value)) if is_path else value if isinstance(value, bool) else str(value)

    def short_names(self, given: Any) -> list[str]:
        """The short names of models in a value: one word, several after commas, or a list of these; or NAME=SHORT."""
        words = given if isinstance(given, list | tuple) else [given]
        parts = [part.strip() for one in words if isinstance(one, str) for part in one.split(",")]
        found = (part if part in self.models else part.partition("=")[2] for part in parts)
        return [name for name in dict.fromkeys(found) if name in self.models]

    def full_names(self, given: Any, *, keep_names: bool) -> Any:
        """The value with short names of models replaced; ``keep_names``: as NAME=MODEL."""
        if isinstance(given, list | tuple):
            return [self.full_names(one, keep_names=keep_names) for one in given]
        if not isinstance(given, str) or not self.short_names(given):
            return given
        return ",".join(self._full_name(part.strip(), keep_names=keep_names) for part in given.split(","))

    def _full_name(self, part: str, *, keep_names: bool) -> str:
        name, equals, model = part.partition("=")
        if equals and model in self.models:
            return f"{name}={self.models[model]}"
        if part not in self.models:
            return part
        return f"{part}={self.models[part]}" if keep_names else self.models[part]


def _plain(table: Mapping[str, Any], at: Keys) -> Iterator[tuple[Keys, Any]]:
    return (((*at, key), value) for key, value in table.items() if not isinstance(value, dict))


def _key(name: str) -> str:
    return name.removeprefix("--").replace("_", "-")


def settings() -> Settings:
    """The settings that hold here: of the file in this folder or in the nearest one above it, within its repository."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        if named in {"", "none"}:
            return Settings()
        if not Path(named).is_file():
            raise UserError(f"{VARIABLE} must be a settings file, or none, got {named!r}")
        return replace(_read(Path(named)) or Settings(Path(named)), named=True)
    home = None
    with suppress(RuntimeError):  # a user of a container may have none
        home = Path.home()
    for folder in (here := Path.cwd(), *here.parents):
        for name in ("goldless.toml", "pyproject.toml"):
            if (folder / name).is_file() and (found := _read(folder / name)) is not None:
                return _own(found)
        if (folder / ".git").exists() or folder == home:
            break
    return Settings()


def _own(found: Settings) -> Settings:
    """The settings, if the file is the user's own (or the administrator's) and nobody else can write to it."""
    assert found.path is not None
    status = found.path.stat()
    if status.st_uid not in {os.getuid(), 0}:
        wrong = "belongs to another user"
    elif status.st_mode & stat.S_IWOTH:
        wrong = "can be written by everybody"
    else:
        return found
    advice = f"{VARIABLE}=none to run without it, or {VARIABLE}=FILE to use it"
    raise UserError(f"{found.path} {wrong}, so its settings are not used. Set {advice}")


def _read(path: Path) -> Settings | None:
    """The settings of a file; None: a project file that has none for goldless."""
    try:
        text = path.read_text(encoding="utf-8")
        whole = _parsed(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        if path.name == "pyproject.toml":
            return None  # other tools say so
        raise UserError(f"{path}: cannot be read as TOML: {error}") from None
    within: Keys = ("tool", "goldless") if path.name == "pyproject.toml" else ()
    for word in within:
        if word not in whole:
            return None
        whole = whole[word]
    return Settings(
        path, whole, {keys[len(within) :]: line for keys, line in _lines(text) if keys[: len(within)] == within}
    )


@functools.lru_cache(4)  # a verb reads its settings several times
def _parsed(text: str) -> Mapping[str, Any]:
    return tomllib.loads(text)


def _lines(text: str) -> Iterator[tuple[Keys, int]]:
    """The line of each table and each key."""
    table: Keys = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?$", line):
            table = _dotted(header[1])
            yield table, number
        elif key := re.match(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[\w"'-]+)*)\s*=""", line):
            keys = (*table, *_dotted(key[1]))
            yield keys, number


def _dotted(name: str) -> Keys:
    return tuple(part.strip().strip("\"'") for part in name.split("."))
