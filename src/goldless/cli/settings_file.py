"""Settings of a project: ``goldless.toml``, or ``[tool.goldless]`` of ``pyproject.toml``. The command line wins.

Keys are the long names of options. Those at the top hold for every verb that has them, those in ``[VERB]`` for that
verb; ``[models]`` gives short names to models.

A file that came with a folder may choose among what goldless brings: names, numbers, providers' models. What runs code,
names a server or a key, or is outside the file's folder is used once the user has trusted the file. Trust is for a path
and its settings, kept with the user's data: a change of the settings, or of a file in the folder whose code they name,
asks again.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_origin

import typer

from goldless.cli.console import say
from goldless.errors import UserError, nearest
from goldless.runs.option_forms import Option, declared
from goldless.runs.options import Options

VARIABLE = "GOLDLESS_CONFIG"
"""Environment variable: the file to use, or none."""
MODELS = "models"
NO_FILE = "no settings here: no goldless.toml, and no [tool.goldless] in a pyproject.toml, in this folder or above it"
RUNS_CODE = r"(?:^|[^\w-])(?:python|command|deepeval|inspect|promptfoo):"
NEED_TRUST = {
    RUNS_CODE: "runs code",
    r"[?&]key=": "sends a key from the environment",
    "://": "names a server",
}
CODE = {".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".r", ".R", ".yaml", ".yml"}
"""Suffixes of files that run as code; others do if they are executable."""
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
    named: bool = False
    """The user named the file, by GOLDLESS_CONFIG, so it is trusted."""

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
                hint = nearest(first, known) or ". Settings are named as options are"
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
                hint = nearest(keys[-1], sorted(names))
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
        """Tell which settings a verb uses, require trust where they need it, and put models by their full names.

        ``values``: of the options, changed in place; ``set_here``: those of the file.
        """
        if self.path is None:
            return
        used, dangers = list[str](), list[str]()
        for name, (value, keys) in set_here.items():
            one = options[name]
            try:
                one.parse(value)
            except UserError as error:
                raise self.problem(keys, f"{keys[-1]} must be {str(error).partition(' must be ')[2]}") from None
            used.append(one.flags[0].lstrip("-"))
            metavar = one.metavar or ("PATH" if one.form.typed in PATHS else "")
            is_path = re.search("FOLDER|FILE|PATH", metavar) is not None
            dangers += self._dangers(keys, value, self.path.parent if is_path else None)
        for name in (name for name, one in options.items() if "MODEL" in (one.metavar or "")):
            values[name], names = self._full_names(values[name], keep_names=name == "reviewers")
            used += [f"{short} = {self.models[short]}" for short in names]
            dangers += [line for short in names for line in self._dangers((MODELS, short), self.models[short])]
        if used:
            say(f"settings from {self.path}: {', '.join(used)}", style="dim")
        self._require_trust(dangers)

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

    # --- trust -------------------------------------------------------------------------------------------------------

    def _dangers(self, keys: Keys, value: Any, outside_of: Path | None = None) -> Iterator[str]:
        """Reasons why a setting needs trust, with file and line; ``outside_of``: the folder that a path must be in."""
        words = [str(one) for one in (value if isinstance(value, list) else [value])]
        reasons = [reason for sign, reason in NEED_TRUST.items() if any(re.search(sign, word) for word in words)]
        if outside_of is not None:
            root = outside_of.resolve()
            outside = any(not Path(word).resolve().is_relative_to(root) for word in words)
            reasons += ["is outside the file's folder"] * outside
        if reasons:
            yield f"{self.place(keys)}: {keys[-1]} = {value!r} {reasons[0]}"

    def dangers(self) -> Iterator[str]:
        """Every setting of the file that runs code, names a server or sends a key, each with file and line."""
        for keys, value in self.entries.items():
            yield from self._dangers(keys, value)

    def _require_trust(self, dangers: list[str]) -> None:
        """Go on if the file is trusted or has nothing that needs it; ask in a terminal, refuse elsewhere."""
        path, digest = self._entry()
        if not dangers or self.named or _trusted().get(path) == digest:
            return
        for line in dangers:
            say(line, style="yellow")
        if not in_terminal():
            raise UserError(
                f"{self.path} is not trusted, and this command uses settings of it that need trust. Read the file, "
                "then run: goldless config trust"
            )
        if not typer.confirm(f"Trust {self.path}?", default=False, err=True):
            raise UserError(f"{self.path} is not trusted. Use {VARIABLE}=none to run without it")
        self.trust()

    def trust(self) -> None:
        """Remember that the user trusts the file as it is."""
        from goldless.files import write_text

        path, digest = self._entry()
        place = _trust_file()
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, json.dumps(_trusted() | {path: digest}, indent=1, sort_keys=True) + "\n")

    def _entry(self) -> tuple[str, str]:
        """The path of the file, and a hash of its settings and of the code in its folder that they name."""
        import hashlib

        assert self.path is not None
        written = json.dumps(sorted((keys, repr(value)) for keys, value in self.entries.items()))
        digest = hashlib.sha256(written.encode())
        for file in self._code_files():
            digest.update(f"\0{file}\0{hashlib.sha256(file.read_bytes()).hexdigest()}".encode())
        return str(self.path.resolve()), digest.hexdigest()

    def _code_files(self) -> list[Path]:
        """The files in the folder of the settings that values which run code name, as paths or as modules."""
        assert self.path is not None
        root = self.path.resolve().parent
        files = set[Path]()
        for value in self.entries.values():
            for word in map(str, value if isinstance(value, list) else [value]):
                if not re.search(RUNS_CODE, word):
                    continue
                for name in re.split(r"[\s,:;=\[\]\"']+", word):
                    names = [name, f"{name.replace('.', '/')}.py", f"{name.replace('.', '/')}/__init__.py"]
                    files |= {(folder / one).resolve() for folder in (root, Path.cwd()) for one in names if name}
        here = [file for file in files if file.is_relative_to(root) and file.is_file()]
        return sorted(file for file in here if file.suffix in CODE or os.access(file, os.X_OK))


def in_terminal() -> bool:
    """True if somebody can read a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _trust_file() -> Path:
    from goldless.models.cache import default_journal

    return default_journal().with_name("trusted_settings.json")


def _trusted() -> dict[str, str]:
    """The hash of each trusted file's settings, by path."""
    place = _trust_file()
    try:
        known = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"{place} cannot be read: {error}. Delete it and trust your settings files again") from None
    return known if isinstance(known, dict) else {}


# --- the file --------------------------------------------------------------------------------------------------------


def settings() -> Settings:
    """The settings that hold here: of the file in this folder or in the nearest one above it, within its repository."""
    named = os.environ.get(VARIABLE)
    if named in {"", "none"}:
        return Settings()
    if named is not None:
        if not Path(named).is_file():
            raise UserError(f"{VARIABLE} must be a settings file, or none, got {named!r}")
        return replace(_read(Path(named)) or Settings(Path(named)), named=True)
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
                return found
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
