"""``goldless config``: the settings that hold in this folder and where each comes from; completion for your shell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import typer

from goldless.cli.command import Command, verb, verbs_app
from goldless.cli.console import say
from goldless.cli.output import Output, plain_table
from goldless.cli.settings_file import NO_FILE, Keys, settings
from goldless.errors import UserError, nearest
from goldless.runs.option_forms import argument


@dataclass(frozen=True, kw_only=True)
class Shell:
    """Options of ``completion``."""

    shell: Literal["bash", "zsh", "fish"] = argument("SHELL", "bash, zsh or fish.")


@verb()
def completion(own: Shell) -> None:
    """Print a script that makes the Tab key complete verbs, options, metrics, models and run folders.

    bash: add the line eval "$(goldless config completion bash)" to ~/.bashrc. zsh: the same with zsh, in ~/.zshrc after
    compinit. fish: write it to ~/.config/fish/completions/goldless.fish.

    Examples:
      goldless config completion bash
      goldless config completion fish
    """
    from typer._completion_shared import get_completion_script

    made = get_completion_script(prog_name="goldless", complete_var="_GOLDLESS_COMPLETE", shell=own.shell)
    typer.echo(made)


@dataclass(frozen=True, kw_only=True)
class ConfigShowing:
    """Options of ``show``."""

    of: list[str] | None = argument("[VERB]", "Show every option of this verb, such as score.", None)


@verb()
def show(own: ConfigShowing, output: Output) -> None:
    """Show what goldless.toml, or [tool.goldless] in pyproject.toml, sets, with file and line; all of it is checked.

    With a verb: every option of it, its value, and whether that is a setting or the default. The command line always
    wins. GOLDLESS_CONFIG names another file, or none.

    Examples:
      goldless config show
      goldless config show score
    """
    found = settings()
    file = _text(found.path)
    if own.of:
        title, rows = f"Options of goldless {' '.join(own.of)}", list(_rows(tuple(own.of), everything=True))
    else:
        title, rows = f"Settings in {file or 'no file'}", _of_all_verbs()
    if found.path is not None and not own.of:
        rows += [_row("", name, model, found.place(("models", name))) for name, model in found.models.items()]
    headings = {"setting": "setting", "value": "value", "from": "from", "verb": "for"}
    tables = [plain_table(title, rows, **headings)] if rows else []
    output.print_tables(tables, lambda: {"file": file, "settings": rows})
    if not rows:
        say(NO_FILE)


@verb()
def trust() -> None:
    """Trust the settings file of this folder, as it is now, with settings that run code, name servers or send keys.

    Settings of that kind are not used from a file you have not trusted. They are listed; read the file first. A change
    of the settings asks again.

    Example:
      goldless config trust
    """
    found = settings()
    if found.path is None:
        raise UserError(NO_FILE)
    found.trust()
    for line in found.dangers():
        say(line)
    say(f"trusted: {found.path}")


app = verbs_app("Show or trust the project's settings; completion for your shell.", completion, show, trust)


def _of_all_verbs() -> list[dict[str, str]]:
    """One row for a setting, with the verbs that it holds for."""
    from goldless.cli.main import QUESTIONS, VERBS

    def paths(path: Keys) -> Iterator[Keys]:
        under = getattr(_command(path), "commands", None)
        yield from [path] if under is None else (one for name in under for one in paths((*path, name)))

    verbs: dict[tuple[str, ...], list[str]] = {}
    for path in (path for name in (*VERBS, *QUESTIONS.values()) for path in paths((name,))):
        for row in _rows(path, everything=False):
            verbs.setdefault((row["setting"], row["value"], row["from"]), []).append(row["verb"])
    return [_row(", ".join(names), *key) for key, names in verbs.items()]


def _command(path: Keys) -> Any:
    from goldless.cli.main import app as goldless

    found: Any = typer.main.get_command(goldless)
    for i, word in enumerate(path):
        known = getattr(found, "commands", {})
        if word not in known:
            said = f"VERB must be a verb of {' '.join(('goldless', *path[:i]))}, got {word!r}"
            raise UserError(f"{said}{nearest(word, known)}")
        found = known[word]
    return found


def _rows(path: Keys, *, everything: bool) -> Iterator[dict[str, str]]:
    from goldless.cli.main import app as goldless

    command = _command(path)
    if not isinstance(command, Command):
        raise UserError(f"VERB must be one verb, got {' '.join(path)!r}. Try one of {', '.join(command.commands)}")
    found = command.settings(path, typer.main.get_command(goldless))
    for one in command.params:
        flag = next((name for name in one.opts if name.startswith("--")), None)
        if one.name in found:
            value, keys = found[one.name]
            yield _row(" ".join(path), str(flag), _text(value), settings().place(keys))
        elif everything and flag not in {None, "--help"} and not getattr(one, "hidden", False):
            yield _row(" ".join(path), str(flag), _text(one.default), "default")


def _row(name: str, option: str, value: str, source: str) -> dict[str, str]:
    return {"verb": name, "setting": option.removeprefix("--"), "value": value, "from": source}


def _text(value: Any) -> str:
    return "" if value is None else ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
