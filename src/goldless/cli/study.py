"""``goldless study``: whether a study can be read, and what is in it."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from goldless.errors import StudyError
from goldless.studies import Study, read_study

app = typer.Typer(help="Check a study, or show what is in it.", no_args_is_help=True)

StudyPath = Annotated[
    str, typer.Argument(metavar="PATH", help="A folder of tables, or one .jsonl, .csv or .parquet file.")
]


@app.command()
def check(path: StudyPath) -> None:
    """Read every row of the study and say all that is wrong with it, with file and line."""
    try:
        study = read_study(path)
    except StudyError as error:
        errors = _console(stderr=True)
        for problem in error.problems:
            errors.print(escape(_printable(str(problem))))
        errors.print(escape(_printable(str(error).splitlines()[0])))
        raise typer.Exit(2) from error
    missing = len(study.tasks) * len(study.agents) - study.n_responses
    counts = [f"{len(study.tasks):,} tasks", f"{len(study.agents):,} agents"]
    counts += [f"{study.n_responses:,} responses ({missing:,} missing)"] * bool(study.n_responses)
    counts += [f"{study.n_ratings:,} ratings"] * bool(study.n_ratings)
    counts += [f"{study.n_preferences:,} preferences"] * bool(study.n_preferences)
    counts += [f"recorded: {', '.join(study.recorded)}"] * bool(study.recorded)
    line = f"{study.name}: OK, {', '.join(counts)}"
    _console().print(escape(_printable(line)))


@app.command()
def show(
    path: StudyPath,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show how much of everything there is in the study, what is missing, and its first task."""
    summary = _summary(read_study(path))
    if as_json:
        typer.echo(orjson.dumps(summary, option=orjson.OPT_INDENT_2).decode())
        return
    console = _console()
    console.print(_overview(summary))
    if summary["agents"]:
        console.print(_agents(summary))
    example = _example(summary)
    if example.row_count:
        console.print(example)


def _console(*, stderr: bool = False) -> Console:
    # No emoji: "responses.jsonl:100:" is line 100, not a picture.
    return Console(stderr=stderr, soft_wrap=True, highlight=False, emoji=False)


def _summary(study: Study) -> dict[str, Any]:
    """Everything that is shown, as plain JSON data."""
    answered = dict.fromkeys((agent.agent for agent in study.agents), 0)
    characters = dict(answered)
    for _, responses in study:
        for response in responses:
            answered[response.agent] += 1
            characters[response.agent] += len(response.text)
    agents = [
        {
            "agent": agent.agent,
            "group": agent.group,
            "responses": answered[agent.agent],
            "missing": len(study.tasks) - answered[agent.agent],
            "mean_characters": characters[agent.agent] / n if (n := answered[agent.agent]) else None,
        }
        for agent in study.agents
    ]
    asked = len(study.tasks) * len(study.agents)
    total = sum(characters.values())
    first = study.task(study.tasks[0])
    return {
        "name": study.name,
        "tasks": len(study.tasks),
        "responses": {"asked": asked, "answered": study.n_responses, "missing": asked - study.n_responses},
        "mean_characters": total / study.n_responses if study.n_responses else None,
        "labels": {"ratings": study.n_ratings, "preferences": study.n_preferences},
        "recorded": {name: 0 if (table := study.table(name)) is None else table.height for name in study.recorded},
        "synopses": list(study.synopses),
        "fingerprint": study.fingerprint,
        "agents": agents,
        "first_task": {
            "task": first.task,
            "prompt": first.prompt,
            "reference": first.reference,
            "synopses": dict(first.synopses),
            "responses": {response.agent: response.text for response in study.responses(first.task)},
        },
    }


def _overview(summary: dict[str, Any]) -> Table:
    table = Table(title=escape(_printable(summary["name"])), show_header=False)
    responses, labels = summary["responses"], summary["labels"]
    recorded = ", ".join(f"{name} ({rows:,} rows)" for name, rows in summary["recorded"].items())
    lines = {
        "tasks": f"{summary['tasks']:,}",
        "agents": f"{len(summary['agents']):,}",
        "responses": ", ".join(f"{count:,} {what}" for what, count in responses.items()),
        "mean characters": _number(summary["mean_characters"]),
        "labels": f"{labels['ratings']:,} ratings, {labels['preferences']:,} preferences",
        "recorded evidence": recorded or "none",
        "synopses": ", ".join(summary["synopses"]) or "none",
        "fingerprint": summary["fingerprint"],
    }
    table.add_column()
    table.add_column(overflow="fold")
    for what, value in lines.items():
        table.add_row(what, escape(_printable(value)))
    return table


def _agents(summary: dict[str, Any]) -> Table:
    table = Table("agent", "group", title="Agents")
    for column in ("answered", "missing", "mean characters"):
        table.add_column(column, justify="right")
    for agent in summary["agents"]:
        names = (escape(_printable(agent[key] or "")) for key in ("agent", "group"))
        counts = (f"{agent[key]:,}" for key in ("responses", "missing"))
        table.add_row(*names, *counts, _number(agent["mean_characters"]))
    return table


def _example(summary: dict[str, Any]) -> Table:
    first = summary["first_task"]
    table = Table(title=escape(f"First task: {_printable(first['task'])}"), show_header=False, show_lines=True)
    texts = {"prompt": first["prompt"], "reference": first["reference"]}
    texts |= {f"synopsis {name}": text for name, text in first["synopses"].items()}
    texts |= dict(list(first["responses"].items())[:2])
    for what, text in texts.items():
        if text is not None:
            table.add_row(escape(_printable(what)), escape(_printable(_shortened(text))))
    return table


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:,.0f}"


def _shortened(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]}… ({len(text):,} characters)"


def _printable(text: str) -> str:
    """The text without control characters: a response must not steer the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
