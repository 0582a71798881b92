"""Settings of a project: ``goldless.toml``, or ``[tool.goldless]`` of ``pyproject.toml``. The command line wins.

Keys are the long names of options. Those at the top hold for every verb that has them, those in ``[VERB]`` for that
verb; ``[models]`` gives short names to models.

A file that goldless found by itself may have come with a folder: it may choose among what goldless brings, such as
names, numbers and providers' models. What runs code, names a server or a key, or is outside the file's folder is used
only from a file that the user named, or has in the home folder.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_origin

from goldless.cli.console import say
from goldless.errors import UserError, nearest
from goldless.runs.option_forms import Option, declared, new_way
from goldless.runs.options import Options

VARIABLE = "GOLDLESS_CONFIG"
"""Environment variable: the file to use, or none."""
MODELS = "models"
NO_FILE = "no settings here: no goldless.toml, and no [tool.goldless] in a pyproject.toml, in this folder or above it"
RISKS = {
    r"(?:^|[^\w-])(?:python|command|deepeval|inspect|promptfoo):": "runs code",
    r"[?&]key=": "sends a key from the environment",
    "://": "names a server",
}
"""Risks of settings by the pattern of their values."""
PATHS = (Path, list[Path])
"""Types of options whose values are relative to the file."""
Keys = tuple[str, ...]
Set = dict[str, tuple[Any, Keys]]
"""Words by option, with their keys in the file."""


@dataclass(frozen=True)
class Settings:
    """The settings in a file, and their places."""

    path: Path | None = None
    entries: Mapping[Keys, Any] = field(default_factory=dict)
    """Values by the names of their tables and their own."""
    text: str = ""
    trusted: bool = False
    """The user named the file, by GOLDLESS_CONFIG, or has it in the home folder."""

    def place(self, keys: Keys) -> str:
        """File and line of a setting."""
        assert self.path is not None
        table: Keys = ()
        for number, line in enumerate(self.text.splitlines(), 1):
            header = re.match(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?$", line)
            key = re.match(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[\w"'-]+)*)\s*=""", line)
            table = _dotted(header[1]) if header else table
            if (header or key) and (*table, *(_dotted(key[1]) if key else ())) == (*_within(self.path), *keys):
                return f"{self.path.name}:{number}"
        return f"{self.path.name}:1"

    def problem(self, keys: Keys, message: str) -> UserError:
        """An error that names file and line."""
        return UserError(f"{self.place(keys)}: {message}")

    @property
    def models(self) -> Mapping[str, str]:
        """Models by their short names."""
        from goldless.models.catalogue import PROVIDERS  # a verb without settings needs no model

        found: dict[str, str] = {}
        for keys, model in self.entries.items():
            if keys[0] != MODELS:
                continue
            name = ".".join(keys[1:]) or MODELS
            if not isinstance(model, str) or not model or re.search(r"[\s,=:/]", name) or len(keys) != 2:
                said = 'NAME = "MODEL", with a name without spaces and , = : /'
                raise self.problem(keys, f"a model must be {said}, got {name} = {model!r}")
            if (taken := PROVIDERS.all().get(name)) is not None and taken.bare:
                raise self.problem(keys, f"{name} is a name of goldless's own. Choose another")
            found[name] = model
        return found

    def check(self, verbs: Sequence[str]) -> None:
        """Refuse what none of the verbs knows, and models that are not named as one."""
        known = {_key(flag) for option in declared(Options).values() for flag in option.flags}
        for first, *more in self.entries:
            if more and first not in (*verbs, MODELS):
                hint = nearest(first, (MODELS, *verbs))
                raise self.problem((first,), f"a table must be models or the name of a verb, got [{first}]{hint}")
            if not more and _key(first) not in {*known, "format", "verbose"}:
                hint = new_way(first, known) or ". Settings are named as options are"
                raise self.problem((first,), f"unknown setting {first!r}{hint}")
        _ = self.models

    def for_verb(self, verb: Keys, options: Mapping[str, Option]) -> Set:
        """The value of each option that the file sets for a verb, and its keys in the file."""
        flags = ((name, flag) for name, option in options.items() for flag in option.flags)
        names = {_key(flag.partition("/")[0]): name for name, flag in flags if flag.startswith("--")}
        found: Set = {}
        for keys in sorted(self.entries, key=len):  # those of the verb replace those of all
            name = names.get(_key(keys[-1]))
            if keys[:-1] == verb and name is None:
                hint = new_way(keys[-1], sorted(names))
                raise self.problem(keys, f"goldless {' '.join(verb)} has no option {keys[-1]!r}{hint}")
            if keys[:-1] in {(), verb} and name is not None:
                found[name] = self._words(options[name], keys), keys
        return {name: found[name] for name in options if name in found}

    def _words(self, option: Option, keys: Keys) -> Any:
        """The value as the words of a command line; a path is relative to the file."""
        value, typed = self.entries[keys], option.form.typed
        several, flag = get_origin(typed) in {list, tuple}, typed is bool
        given = value if isinstance(value, list) else [value]
        must_be = ""
        if any(isinstance(one, dict | list) for one in given) or (isinstance(value, list) and not several):
            must_be = "a list of values" if several else "one value"
        elif any(isinstance(one, bool) != flag for one in given):
            must_be = "true or false" if flag else "a value"
        if must_be:
            raise self.problem(keys, f"{keys[-1]} must be {must_be}, got {value!r}")
        assert self.path is not None
        folder = self.path.parent if typed in PATHS else None
        words = [one if flag else str(one if folder is None else folder / str(one)) for one in given]
        return words if several else words[0]

    def use(self, values: dict[str, Any], options: Mapping[str, Option], set_here: Set) -> None:
        """Tell which settings a verb uses, refuse risky ones of a file that was found, and expand names of models.

        ``values``: of the options, changed in place; ``set_here``: those of the file.
        """
        if self.path is None:
            return
        used = list[str]()
        for name, (value, keys) in set_here.items():
            option = options[name]
            try:
                option.parse(value)
            except UserError as error:
                raise self.problem(keys, f"{keys[-1]} must be {str(error).partition(' must be ')[2]}") from None
            metavar = option.metavar or ("PATH" if option.form.typed in PATHS else "")
            self._refuse_risk(keys, value, is_path=re.search("FOLDER|FILE|PATH", metavar) is not None)
            used.append(option.flags[0].lstrip("-"))
        for name in (name for name, option in options.items() if "MODEL" in (option.metavar or "")):
            values[name], short_names = self._full_names(values[name], keep_names=name == "reviewers")
            for short_name in short_names:
                self._refuse_risk((MODELS, short_name), self.models[short_name])
                used.append(f"{short_name} = {self.models[short_name]}")
        if used:
            say(f"settings from {self.path}: {', '.join(used)}", style="dim")

    def _full_names(self, given: Any, *, keep_names: bool) -> tuple[Any, list[str]]:
        """The value with short names of models replaced (``keep_names``: as NAME=MODEL), and these names."""
        names, parts = list[str](), list[str]()
        if isinstance(given, list | tuple):
            each = [self._full_names(one, keep_names=keep_names) for one in given]
            return [one for one, _ in each], list(dict.fromkeys(name for _, named in each for name in named))
        for part in str(given).split(","):
            name, equals, short = part.strip().rpartition("=")
            if short in self.models:
                names.append(short)
                named = name + equals or (f"{short}=" if keep_names else "")
                parts.append(f"{named}{self.models[short]}")
            else:
                parts.append(part.strip())
        return (",".join(parts) if names else given), list(dict.fromkeys(names))

    def _refuse_risk(self, keys: Keys, value: Any, *, is_path: bool = False) -> None:
        """Refuse a setting of a file that was found if it runs code, names a server or a key, or leaves the folder."""
        assert self.path is not None
        if self.trusted:
            return
        words = [str(word) for word in (value if isinstance(value, list) else [value])]
        risks = [risk for pattern, risk in RISKS.items() if any(re.search(pattern, word) for word in words)]
        folder = self.path.parent.resolve()
        if is_path and any(not Path(word).resolve().is_relative_to(folder) for word in words):
            risks.append("is outside the file's folder")
        if risks:
            advice = f"set {VARIABLE}={self.path}, or write it on the command line"
            wrong = f"{keys[-1]} = {value!r} {risks[0]}, which needs a settings file that you name"
            raise self.problem(keys, f"{wrong}. Read the file, then {advice}")


# --- the file --------------------------------------------------------------------------------------------------------


def settings() -> Settings:
    """The settings that hold here: of the file in this folder or in the nearest one above it, within its repository."""
    named = os.environ.get(VARIABLE)
    if named in {"", "none"}:
        return Settings()
    if named is not None:
        if not Path(named).is_file():
            raise UserError(f"{VARIABLE} must be a settings file, or none, got {named!r}")
        return replace(_read(Path(named)) or Settings(Path(named)), trusted=True)
    home = None
    with suppress(RuntimeError):  # a user of a container may have none
        home = Path.home()
    for folder in (here := Path.cwd(), *here.parents):
        for name in ("goldless.toml", "pyproject.toml"):
            if (folder / name).is_file() and (found := _read(folder / name)) is not None:
                status = (folder / name).stat()
                foreign = status.st_uid not in {os.getuid(), 0}
                if foreign or status.st_mode & stat.S_IWOTH:
                    wrong = "belongs to another user" if foreign else "can be written by everybody"
                    advice = f"{VARIABLE}=none to run without it, or {VARIABLE}=FILE to use it"
                    raise UserError(f"{folder / name} {wrong}, so its settings are not used. Set {advice}")
                return replace(found, trusted=folder == home)
        if (folder / ".git").exists() or folder == home:
            break
    return Settings()


def _read(path: Path) -> Settings | None:
    """The settings of a file; None: a project file that has none for goldless."""
    import tomllib

    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        if _within(path):
            return None  # other tools say so
        raise UserError(f"{path}: cannot be read as TOML: {error}") from None
    for word in _within(path):
        if word not in table:
            return None
        table = table[word]
    return Settings(path, dict(_entries(table)), text)


def _entries(table: Mapping[str, Any], at: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    for key, value in table.items():
        yield from _entries(value, (*at, key)) if isinstance(value, dict) else [((*at, key), value)]


def _within(path: Path) -> Keys:
    """The table of a file that holds our settings."""
    return ("tool", "goldless") if path.name == "pyproject.toml" else ()


def _dotted(name: str) -> Keys:
    return tuple(part.strip().strip("\"'") for part in name.split("."))


def _key(name: str) -> str:
    return name.removeprefix("--").replace("_", "-")
