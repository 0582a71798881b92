"""``goldless config``: the settings that hold in this folder and where each comes from; completion for your shell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import typer

from goldless.cli.command import Command, verb, verbs_app
from goldless.cli.console import say
from goldless.cli.output import Output, plain_table
from goldless.cli.settings_file import NO_FILE, Keys, Set, settings
from goldless.errors import UserError, nearest
from goldless.runs.option_forms import argument


@dataclass(frozen=True, kw_only=True)
class Shell:
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
    file, headings = _text(found.path), {"setting": "setting", "value": "value", "from": "from", "verb": "for"}
    if own.of:
        title, rows = f"Options of goldless {' '.join(own.of)}", _options(tuple(own.of))
    else:
        title, rows = f"Settings in {file or 'no file'}", _in_file()
    output.print_tables(
        [plain_table(title, rows, **headings)] if rows else [], lambda: {"file": file, "settings": rows}
    )
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


def _in_file() -> list[dict[str, str]]:
    """The settings of the file, with the verb that each is for."""
    found = settings()
    for path in dict.fromkeys(keys[:-1] or ("score",) for keys in found.entries if keys[:-1] != ("models",)):
        _checked(path)
    return [
        _row(" ".join(keys[:-1]) or "every verb that has it", keys[-1], _text(value), found.place(keys))
        for keys, value in found.entries.items()
    ]


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


def _checked(path: Keys) -> tuple[Command, Set]:
    """A verb, and what the file sets for it."""
    from goldless.cli.main import app as goldless

    command = _command(path)
    if not isinstance(command, Command):
        raise UserError(f"VERB must be one verb, got {' '.join(path)!r}. Try one of {', '.join(command.commands)}")
    return command, command.settings(path, typer.main.get_command(goldless))


def _options(path: Keys) -> list[dict[str, str]]:
    """Every option of a verb, with its value."""
    command, found = _checked(path)
    rows = []
    for one in command.params:
        flag = next((name for name in one.opts if name.startswith("--")), "--help")
        if one.name in found:
            value, keys = found[one.name]
            rows.append(_row(" ".join(path), flag, _text(value), settings().place(keys)))
        elif flag != "--help" and not getattr(one, "hidden", False):
            rows.append(_row(" ".join(path), flag, _text(one.default), "default"))
    return rows


def _row(name: str, option: str, value: str, source: str) -> dict[str, str]:
    return {"verb": name, "setting": option.removeprefix("--"), "value": value, "from": source}


def _text(value: Any) -> str:
    return "" if value is None else ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
