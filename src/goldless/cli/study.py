"""``goldless study``: whether a study can be read, what is in it, and studies of other tools' results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goldless.cli.command import Command, verb, verbs_app
from goldless.cli.console import WRONG_INPUT, echo, end, say
from goldless.cli.import_ import import_
from goldless.cli.output import Output
from goldless.errors import StudyError
from goldless.reports.report_table import Column, ReportTable

if TYPE_CHECKING:
    from goldless.studies import Study

app = verbs_app("Check a study, show what is in it, or import one from another tool's results.")
app.command("import", cls=Command)(import_)


@app.command(cls=Command)
@verb()
def check(study: Any) -> None:
    """Read every row of a study and report everything that is wrong, with file and line.

    Examples:
      goldless study check answers.csv
      goldless study check study/
    """
    from goldless.audit.texts import study_warnings
    from goldless.studies import as_study
    from goldless.studies.recorded import check_inside

    try:
        found = as_study(study)
        check_inside(found.recorded_tables, found.name)
    except StudyError as error:
        for problem in error.problems:
            say(str(problem))
        end(WRONG_INPUT, str(error).splitlines()[0], style="")
    missing = len(found.tasks) * len(found.agents) - found.n_responses
    counts = [f"{len(found.tasks):,} tasks", f"{len(found.agents):,} agents"]
    counts += [f"{found.n_responses:,} responses ({missing:,} missing)"] * bool(found.n_responses)
    counts += [f"{found.n_ratings:,} ratings"] * bool(found.n_ratings)
    counts += [f"{found.n_preferences:,} preferences"] * bool(found.n_preferences)
    counts += [f"recorded: {', '.join(found.recorded)}"] * bool(found.recorded)
    line = f"{found.name}: OK, {', '.join(counts)}"
    echo(f"{line}\n")
    for warning in study_warnings(found):
        say(f"warning: {warning}", style="yellow")


@app.command(cls=Command)
@verb()
def show(study: Any, *, output: Output) -> None:
    """Show counts of tasks, agents, responses and labels, what is missing, and the first task.

    Examples:
      goldless study show answers.csv
      goldless study show sample
    """
    from goldless.studies import as_study

    summary = _summary(as_study(study))
    tables = [_overview(summary), _agents(summary), _example(summary)]
    output.print_tables([one for one in tables if one.rows], lambda: summary)


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
            "sample_of": agent.sample_of,
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


def _agents_and_samples(agents: list[dict[str, Any]]) -> str:
    bases = {agent["sample_of"] or agent["agent"] for agent in agents}
    return f"{len(bases):,}" + (f", {len(agents):,} samples of them" if len(bases) < len(agents) else "")


def _overview(summary: dict[str, Any]) -> ReportTable:
    responses, labels = summary["responses"], summary["labels"]
    recorded = ", ".join(f"{name} ({rows:,} rows)" for name, rows in summary["recorded"].items())
    mean = summary["mean_characters"]
    lines = {
        "tasks": f"{summary['tasks']:,}",
        "agents": _agents_and_samples(summary["agents"]),
        "responses": ", ".join(f"{count:,} {what}" for what, count in responses.items()),
        "mean characters": None if mean is None else f"{mean:,.0f}",
        "labels": f"{labels['ratings']:,} ratings, {labels['preferences']:,} preferences",
        "recorded evidence": recorded or "none",
        "synopses": ", ".join(summary["synopses"]) or "none",
        "fingerprint": summary["fingerprint"],
    }
    rows = tuple({"what": what, "there": value} for what, value in lines.items())
    return ReportTable(summary["name"], (Column("what", "what"), Column("there", "in the study", absent="—")), rows)


def _agents(summary: dict[str, Any]) -> ReportTable:
    columns = (
        Column("agent", "agent"),
        Column("group", "group", absent=""),
        Column("responses", "answered", "count"),
        Column("missing", "missing", "count"),
        Column("mean_characters", "mean characters", "count", "—"),
    )
    return ReportTable("Agents", columns, tuple(summary["agents"]))


def _example(summary: dict[str, Any]) -> ReportTable:
    first = summary["first_task"]
    texts = {"prompt": first["prompt"], "reference": first["reference"]}
    texts |= {f"synopsis {name}": text for name, text in first["synopses"].items()}
    texts |= dict(list(first["responses"].items())[:2])
    columns = (Column("of", "of"), Column("text", "text"))
    rows = tuple({"of": what, "text": _shortened(text)} for what, text in texts.items() if text is not None)
    return ReportTable(f"First task: {first['task']}", columns, rows)


def _shortened(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]}… ({len(text):,} characters)"
