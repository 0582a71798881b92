"""Scores as CSV for a spreadsheet, Markdown for a model card and events of OpenTelemetry; and schemas of results."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import polars as pl

from goldless._version import __version__
from goldless.exporting.scored_run import ScoredRun
from goldless.files import write_text, write_whole
from goldless.reports.document import schema
from goldless.reports.formats import code_line, guarded_frame, markdown_cell
from goldless.reports.run_folder import DOCUMENTS
from goldless.studies import Study
from goldless.studies.writing import StudyFolder


class CsvTables:
    """A study as a folder of CSV tables; a run as one table with a row per response and a column per metric."""

    description = "a study as a folder of .csv tables; a run as one table of responses and scores"
    suffix = ""

    def exports(self, thing: Any) -> bool:
        return isinstance(thing, Study | ScoredRun)

    def is_file(self, thing: Any) -> bool:
        return isinstance(thing, ScoredRun)

    def write(self, thing: Any, path: Path, *, metric: str | None = None) -> None:
        """Write the tables, or the scores of one metric or all, each with its signature."""
        if isinstance(thing, Study):
            StudyFolder("csv").write(thing, path)
            return
        write_whole(path, guarded_frame(_wide(thing, metric)).write_csv)


def _wide(run: ScoredRun, metric: str | None) -> pl.DataFrame:
    scores = run.response_scores(metric)
    prompts = {task: run.study.task(task).prompt for task in run.study.tasks}
    prompt = pl.col("task").replace_strict(prompts, default=None, return_dtype=pl.String).alias("prompt")
    table = scores.select("task", "agent").unique(maintain_order=True).with_columns(prompt)
    texts = run.study.table("responses")
    if texts is not None:
        names = pl.col("task", "agent", "text").cast(pl.String)
        table = table.join(texts.select(names), on=["task", "agent"], how="left", maintain_order="left")
    for name in scores["metric"].unique(maintain_order=True):
        own = scores.filter(pl.col("metric") == name).select("task", "agent", pl.col("score").alias(name))
        table = table.join(own, on=["task", "agent"], how="left", maintain_order="left")
        table = table.with_columns(pl.lit(run.ranked[name].signature).alias(f"{name} signature"))
    return table


def write_markdown(run: ScoredRun, path: Path, *, metric: str | None = None) -> None:
    """Leaderboards as GitHub-flavoured Markdown, one table per metric."""
    study = f"{markdown_cell(run.study_name)}, {len(run.study.tasks):,} tasks"
    lines = []
    for name, board in run.chosen(metric).items():
        lines += [f"### {markdown_cell(name)} on {study}\n", *board.table().markdown_lines()]
        lines.append(f"\nScores in {board.unit}; {board.level * 100:g}% intervals over tasks.")
        lines += (f"\n{markdown_cell(note)}" for note in board.notes)
        computed = code_line(board.signature)
        lines.append(f"\n<details><summary>How it was computed</summary>\n\n{computed}\n\n</details>\n")
    write_text(path, "\n".join(lines))


def write_schemas(_: ScoredRun, path: Path) -> None:
    """JSON schemas of the files with results, the same for every run."""
    kinds = {name: resolve_name(kind) if isinstance(kind, str) else kind for name, kind in DOCUMENTS.items()}
    found = {f"{name}.json": schema(kind) for name, kind in kinds.items()}
    data = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": found}
    write_text(path, json.dumps(data, indent=2) + "\n")


EVENT = "gen_ai.evaluation.result"


def write_events(run: ScoredRun, path: Path, *, metric: str | None = None) -> None:
    """One OpenTelemetry event per scored response; a collector reads the file with its OTLP JSON file receiver."""
    nanoseconds = "0"
    with suppress(ValueError):  # not noted, or damaged
        nanoseconds = str(int(datetime.fromisoformat(run.made_at).timestamp()) * 10**9)
    rows = run.response_scores(metric).drop_nulls("score").select("metric", "task", "agent", "score")
    records = [
        {
            "timeUnixNano": nanoseconds,
            "eventName": EVENT,
            "attributes": [
                _attribute("gen_ai.evaluation.name", name),
                {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": score}},
                _attribute("gen_ai.request.model", agent),
                _attribute("goldless.task", task),
                _attribute("goldless.unit", run.ranked[name].unit),
                _attribute("goldless.signature", run.ranked[name].signature),
            ],
        }
        for name, task, agent, score in rows.iter_rows()
    ]
    scope = {"scope": {"name": "goldless", "version": __version__}, "logRecords": records}
    resource = {"attributes": [_attribute("service.name", "goldless")]}
    data = {"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]}
    write_text(path, json.dumps(data, ensure_ascii=False) + "\n")


def _attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}
