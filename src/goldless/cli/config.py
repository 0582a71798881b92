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
    found, rows = settings(), []
    if own.of:
        title, name = f"Options of goldless {' '.join(own.of)}", " ".join(own.of)
        command, set_here = _checked(tuple(own.of))
        for one in command.params:
            flag = next((word.removeprefix("--") for word in one.opts if word.startswith("--")), "help")
            if one.name in set_here:
                value, keys = set_here[one.name]
                rows.append((name, flag, value, found.place(keys)))
            elif flag != "help" and not getattr(one, "hidden", False):
                rows.append((name, flag, one.default, "default"))
    else:
        title = f"Settings in {found.path or 'no file'}"
        for path in dict.fromkeys(keys[:-1] or ("score",) for keys in found.entries if keys[0] != "models"):
            _checked(path)
        for keys, value in found.entries.items():
            name = " ".join(keys[:-1]) or "every verb that has it"
            rows.append((name, keys[-1], value, found.place(keys)))
    listed = [dict(zip(("verb", "setting", "value", "from"), map(_text, row), strict=True)) for row in rows]
    headings = {"setting": "setting", "value": "value", "from": "from", "verb": "for"}
    tables = [plain_table(title, listed, **headings)] if listed else []
    output.print_tables(tables, lambda: {"file": _text(found.path), "settings": listed})
    if not listed:
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


def _checked(path: Keys) -> tuple[Command, Set]:
    """A verb, and what the file sets for it."""
    from goldless.cli.main import app as goldless

    root = found = typer.main.get_command(goldless)
    for i, word in enumerate(path):
        known: Any = getattr(found, "commands", {})
        if word not in known:
            said = f"VERB must be a verb of {' '.join(('goldless', *path[:i]))}, got {word!r}"
            raise UserError(f"{said}{nearest(word, known)}")
        found = known[word]
    if not isinstance(found, Command):
        listed = ", ".join(getattr(found, "commands", ()))
        raise UserError(f"VERB must be one verb, got {' '.join(path)!r}. Try one of {listed}")
    return found, found.settings(path, root)


def _text(value: Any) -> str:
    return "" if value is None else ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
