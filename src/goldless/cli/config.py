"""``goldless config``: the settings that hold in this folder, and where each of them comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import typer

from goldless.cli.command import Command, verb, verbs_app
from goldless.cli.completion import completion
from goldless.cli.console import say
from goldless.cli.output import Output, plain_table
from goldless.cli.settings_file import Keys, settings
from goldless.errors import UserError, nearest
from goldless.runs.option_forms import LINES, argument

app = verbs_app("Show or trust the project's settings; completion for your shell.")
app.command(cls=Command)(completion)


@dataclass(frozen=True, kw_only=True)
class JournalShowing:
    """Options of ``show``."""

    of: list[str] | None = argument("[VERB]", "Show every option of this verb, such as score.", None, form=LINES)


@app.command(cls=Command)
@verb()
def show(own: JournalShowing, output: Output) -> None:
    """Show what goldless.toml, or [tool.goldless] in pyproject.toml, sets, with file and line; all of it is checked.

    With a verb: every option of it, its value, and whether that is a setting or the default. The command line always
    wins. GOLDLESS_CONFIG names another file, or none.

    Examples:
      goldless config show
      goldless config show score
    """
    found = settings()
    rows = [row for path in ([tuple(own.of)] if own.of else _verbs()) for row in _rows(path, everything=bool(own.of))]
    if own.of is None and found.path is not None:
        rows = _merged(rows)
        rows += [_row("", name, model, found.place(("models", name))) for name, model in found.models.items()]
    title = f"Options of goldless {' '.join(own.of)}" if own.of else f"Settings in {found.path or 'no file'}"
    if rows:
        output.print_tables(
            [plain_table(title, rows, setting="setting", value="value", **{"from": "from"}, verb="for")],
            lambda: {"file": _text(found.path), "settings": rows},
        )
    else:
        output.print_tables([], lambda: {"file": _text(found.path), "settings": []})
        say(
            "no settings here: no goldless.toml, and no [tool.goldless] in a pyproject.toml, in this folder or above it"
        )


@app.command(cls=Command)
@verb()
def trust() -> None:
    """Trust the settings file of this folder, as it is now, with settings that run code, name servers or send keys.

    Settings of that kind are not used from a file you have not trusted. They are listed; read the file first. A change
    of the settings asks again.

    Example:
      goldless config trust
    """
    from goldless.cli.trust import dangers_of
    from goldless.cli.trust import trust as remember

    found = settings()
    if found.path is None:
        raise UserError("no settings here: there is no goldless.toml, and no [tool.goldless] in a pyproject.toml")
    remember(found)
    for line in dangers_of(found):
        say(line)
    say(f"trusted: {found.path}")


def _verbs() -> list[Keys]:
    """Every verb, also those under another."""
    from goldless.cli.main import QUESTIONS, VERBS

    return [(name, *under) for name in (*VERBS, *QUESTIONS.values()) for under in _under(_command((name,)))]


def _under(command: Any) -> list[Keys]:
    subcommands = getattr(command, "commands", None)
    return (
        [()] if subcommands is None else [(name, *under) for name in subcommands for under in _under(subcommands[name])]
    )


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


def _rows(path: Keys, *, everything: bool) -> list[dict[str, str]]:
    from goldless.cli.main import QUESTIONS, VERBS

    command = _command(path)
    if not isinstance(command, Command):
        raise UserError(f"VERB must be one verb, got {' '.join(path)!r}. Try one of {', '.join(command.commands)}")
    found = command.settings(path, (*VERBS, *QUESTIONS.values()))
    rows = []
    for one in command.params:
        flag = next((name for name in one.opts if name.startswith("--")), None)
        if one.name in found:
            value, keys = found[one.name]
            rows.append(_row(" ".join(path), str(flag), _text(value), settings().place(keys)))
        elif everything and flag not in {None, "--help"} and not getattr(one, "hidden", False):
            rows.append(_row(" ".join(path), str(flag), _text(one.default), "default"))
    return rows


def _row(name: str, option: str, value: str, source: str) -> dict[str, str]:
    return {"verb": name, "setting": option.removeprefix("--"), "value": value, "from": source}


def _merged(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """One row for a setting, with the verbs that it holds for."""
    verbs: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        verbs.setdefault((row["setting"], row["value"], row["from"]), []).append(row["verb"])
    return [_row(", ".join(names), *key) for key, names in verbs.items()]


def _text(value: Any) -> str:
    return "" if value is None else ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
