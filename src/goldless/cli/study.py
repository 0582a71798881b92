"""``goldless study`` and ``audit``: whether a study can be read, what is in it, and what is suspicious in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from shlex import quote, split
from typing import TYPE_CHECKING, Any

from goldless.cli.command import Reading, verb, verbs_app
from goldless.cli.console import NOTHING, echo, end, say
from goldless.cli.output import OUTPUT, Output, plain_table
from goldless.plugins import added_by_apps
from goldless.runs.option_forms import REQUIRED, argument, option, values

if TYPE_CHECKING:
    from goldless.reports.report_table import ReportTable
    from goldless.studies import Study

FORMATS = ", ".join(
    (
        *("study", "table", "inspect", "lm_eval", "promptfoo", "alpaca_eval", "every_eval_ever"),
        *added_by_apps("goldless.importers"),
    )
)
"""Formats as the help lists them; plugins may add others."""
FILES = (
    "Files, folders or - for standard input. The first word may be their format, which is recognised otherwise: "
    f"{FORMATS}."
)


@dataclass(frozen=True, kw_only=True)
class ImportOptions(Reading):
    files: list[str] = argument("FILES", FILES)
    folder: Path = option(REQUIRED, "Write the study to this folder.", "--out FOLDER", group=OUTPUT)


@verb(prominent=("folder", "importer", "columns", "wide", "repeats"))
def import_(verb_options: ImportOptions, output: Output) -> None:
    """Make a study of another tool's results, or of a table with any columns.

    Every other verb reads such files directly, too; an imported study is checked once and is faster to read.

    Examples:
      goldless study import lm_eval results/ --out study
      goldless study import promptfoo results.json --out study
      goldless study import table answers.csv --columns task=id,agent=model,text=output --out study
    """
    from goldless.studies import import_study, write_study
    from goldless.studies.importers import IMPORTERS
    from goldless.studies.importers.log import import_summary
    from goldless.studies.writing import check_target

    paths, options = list(verb_options.files), values(verb_options, "files", "folder")
    if len(paths) > 1 and not Path(paths[0]).exists() and IMPORTERS.get(paths[0]) is not None:
        options["importer"] = paths.pop(0)
    check_target(verb_options.folder, overwrite=False)
    made = import_study(paths, **{name: value for name, value in options.items() if value})
    write_study(made, verb_options.folder, format="parquet")
    summary = {**import_summary(made), "folder": str(verb_options.folder)}
    lost = {f"missing: {cause}": count for cause, count in summary["missing"].items()}
    counts = {name: summary[name] for name in ("tasks", "agents", "responses")} | lost | summary["also"]
    rows = ({"what": what, "count": count} for what, count in counts.items())
    output.print_rows(f"Read as {summary['format']}", rows, summary, what="what", count=("count", "count"))
    for note in summary["notes"]:
        say(f"note: {note}", style="yellow")
    say(f"study: {verb_options.folder}")
    say(f"next: goldless score {quote(str(verb_options.folder))}")


@verb(averages_samples=True)
def check(study: Study) -> None:
    """Read every row of a study and report everything that is wrong, with file and line.

    Exit code 1 if a response is empty: it counts as missing.

    Examples:
      goldless study check answers.csv
      goldless study check study/
    """
    from goldless.audit.texts import study_warnings
    from goldless.studies.recorded import check_inside

    check_inside(study.recorded_tables, study.name)
    missing = len(study.tasks) * len(study.agents) - study.n_responses
    counts = [f"{len(study.tasks):,} tasks", f"{len(study.agents):,} agents"]
    counts += [f"{study.n_responses:,} responses ({missing:,} missing)"] * bool(study.n_responses)
    counts += [f"{study.n_ratings:,} ratings"] * bool(study.n_ratings)
    counts += [f"{study.n_preferences:,} preferences"] * bool(study.n_preferences)
    counts += [f"recorded: {', '.join(study.recorded)}"] * bool(study.recorded)
    verdict = "incomplete" if study.empty_responses_note else "OK"
    echo(f"{study.name}: {verdict}, {', '.join(counts)}\n")
    for warning in study_warnings(study):
        say(f"warning: {warning}", style="yellow")
    if study.empty_responses_note:
        end(NOTHING, "some responses are empty. Fill them in, or leave these rows out")


@verb(averages_samples=True)
def show(study: Study, *, output: Output) -> None:
    """Show counts of tasks, agents, responses and labels, what is missing, and the first task.

    Examples:
      goldless study show answers.csv
      goldless study show sample
    """
    import polars as pl

    length = pl.col("text").str.len_chars()
    by_agent = study.response_table.group_by(pl.col("agent").cast(pl.String)).agg(pl.len(), length.mean())
    answers = {agent: (count, mean) for agent, count, mean in by_agent.iter_rows()}
    agents = [
        {"agent": one.agent, "sample_of": one.sample_of, "group": one.group, "responses": count}
        | {"missing": len(study) - count, "mean_characters": mean}
        for one in study.agents
        for count, mean in [answers.get(one.agent, (0, None))]
    ]
    asked, first = len(study) * len(agents), study.task(study.tasks[0])
    summary: dict[str, Any] = {
        "name": study.name,
        "tasks": len(study),
        "responses": {"asked": asked, "answered": study.n_responses, "missing": asked - study.n_responses},
        "mean_characters": study.response_table.select(length.mean()).item(),
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
    output.print_tables(list(_tables(summary)), lambda: summary)


def _tables(summary: Mapping[str, Any]) -> Iterator[ReportTable]:
    """Counts, agents, and the first task with two responses."""
    first, agents, mean = summary["first_task"], summary["agents"], summary["mean_characters"]
    bases = {agent["sample_of"] or agent["agent"] for agent in agents}
    samples = f", {len(agents):,} samples of them" * (len(bases) < len(agents))
    recorded = [f"{name} ({rows:,} rows)" for name, rows in summary["recorded"].items()]
    counts = {
        "tasks": f"{summary['tasks']:,}",
        "agents": f"{len(bases):,}{samples}",
        "responses": ", ".join(f"{count:,} {what}" for what, count in summary["responses"].items()),
        "mean length": None if mean is None else f"{mean:,.0f} characters",
        "labels": ", ".join(f"{count:,} {what}" for what, count in summary["labels"].items()),
        "recorded": ", ".join(recorded) or "none",
        "synopses": ", ".join(summary["synopses"]) or "none",
        "fingerprint": summary["fingerprint"],
    }
    rows = ({"what": what, "there": value} for what, value in counts.items())
    yield plain_table(summary["name"], rows, what="what", there=("in the study", "text", "—"))
    numbers = {"responses": ("answered", "count"), "missing": ("missing", "count")}
    length = ("mean characters", "count", "—")
    yield plain_table("Agents", agents, agent="agent", group="group", **numbers, mean_characters=length)
    texts = {"prompt": first["prompt"], "reference": first["reference"]}
    texts |= {f"synopsis {name}": text for name, text in first["synopses"].items()}
    texts |= dict(list(first["responses"].items())[:2])
    shown = [
        {"of": what, "text": text if len(text) <= 300 else f"{text[:300]}… ({len(text):,} characters)"}
        for what, text in texts.items()
        if text is not None
    ]
    if shown:
        yield plain_table(f"First task: {first['task']}", shown, of="of", text="text")


@verb(averages_samples=True)
def audit(study: Study, *, words: str, output: Output) -> None:
    """Look for shared texts, copied prompts, colluding agents and metrics that contradict each other.

    Calls no model. In a folder written by goldless score --out, the scores are audited too, with the peer graph.

    Examples:
      goldless audit answers.csv
      goldless audit runs/first
    """
    from goldless.audit.texts import text_findings
    from goldless.reports.document import write
    from goldless.reports.run_folder import RunFolder

    run = RunFolder(study.path or "")
    run.required("leaderboard")
    of_texts = text_findings(study)
    scored = run.leaderboard is not None
    of_scores = [one for one in run.leaderboard.findings if one.metrics] if run.leaderboard is not None else []
    keys = ("kind", "agents", "metrics", "message")
    found = [{key: getattr(one, key) for key in keys} for one in (*of_texts, *of_scores)]
    boards = run.boards if scored else {}
    graphs = {metric: write(board.peer_graph) for metric, board in boards.items() if board.peer_graph}
    tables = [plain_table("Findings", found, kind="kind", message="finding")] if found else []
    for metric, graph in graphs.items():
        title = f"Agents that predict each other more than expected under {metric}"
        numbers = {"excess": ("excess", "signed", None, 2), "standard_error": ("standard error", "number", None, 2)}
        if graph["links"]:
            tables.append(plain_table(title, graph["links"], first="agent", second="agent", **numbers))
    output.print_tables(
        tables,
        lambda: {"study": split(words)[0], "findings": found, "peer_graphs": graphs},
        below=() if found else ("Nothing suspicious was found.",),
    )


ADDED_VERBS = [resolve_name(place) for place in added_by_apps("goldless.study_verbs").values()]
"""Verbs that apps add to ``goldless study``."""
app = verbs_app(
    "Check a study, show what is in it, import one from another tool's results, or fetch a public one.",
    import_,
    check,
    show,
    *ADDED_VERBS,
)
