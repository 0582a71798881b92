"""Scores as tables, CSV for a spreadsheet, Markdown for a model card; and the schemas of results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import polars as pl

from goldless.exporting.scored_run import RunExporter, ScoredRun
from goldless.files import write_text, write_whole
from goldless.reports.document import schema
from goldless.reports.formats import code_line, markdown_cell
from goldless.reports.run_folder import DOCUMENTS
from goldless.reports.spreadsheets import guarded_frame
from goldless.studies import Study
from goldless.studies.writing import StudyFolder


class CsvTables:
    """A study as a folder of CSV tables; a run as one table with a row per response and a column per metric."""

    description = "a study as a folder of .csv tables; a run as one table of responses and scores"
    suffix = ""

    def exports(self, thing: Any) -> bool:
        """Whether it is a study or a run with scores."""
        return isinstance(thing, Study | ScoredRun)

    def is_file(self, thing: Any) -> bool:
        """Whether it writes one file."""
        return isinstance(thing, ScoredRun)

    def write(self, thing: Any, path: Path, *, metric: str | None = None) -> None:
        """Write the tables, or the scores of one metric or all, each with its signature."""
        if isinstance(thing, Study):
            StudyFolder("csv").write(thing, path)
            return
        write_whole(path, guarded_frame(_wide(thing, metric)).write_csv)


def _wide(run: ScoredRun, metric: str | None) -> pl.DataFrame:
    scores = run.response_scores(metric)
    prompts = pl.DataFrame(
        [(task, run.study.task(task).prompt) for task in run.study.tasks],
        {"task": pl.String, "prompt": pl.String},
        orient="row",
    )
    texts = run.study.table("responses")
    table = (
        scores.select("task", "agent")
        .unique(maintain_order=True)
        .join(prompts, on="task", how="left", maintain_order="left")
    )
    if texts is not None:
        names = pl.col("task", "agent", "text").cast(pl.String)
        table = table.join(texts.select(names), on=["task", "agent"], how="left", maintain_order="left")
    for name in scores["metric"].unique(maintain_order=True):
        own = scores.filter(pl.col("metric") == name).select("task", "agent", pl.col("score").alias(name))
        table = table.join(own, on=["task", "agent"], how="left", maintain_order="left")
        table = table.with_columns(pl.lit(run.ranked[name].signature).alias(f"{name} signature"))
    return table


class MarkdownTable(RunExporter):
    """Leaderboards as GitHub-flavoured Markdown."""

    description = "leaderboards as GitHub-flavoured Markdown, for a model card"
    suffix = ".md"

    def write(self, thing: Any, path: Path, *, metric: str | None = None) -> None:
        """Write one table per metric."""
        write_text(path, "\n".join(_card(thing, metric)))


def _card(run: ScoredRun, metric: str | None) -> Iterator[str]:
    study = f"{markdown_cell(run.study_name)}, {len(run.study.tasks):,} tasks"
    for name, board in run.chosen(metric).items():
        yield f"### {markdown_cell(name)} on {study}\n"
        yield from board.table().markdown_lines()
        yield f"\nScores in {board.unit}; {board.level * 100:g}% intervals over tasks."
        yield from (f"\n{markdown_cell(note)}" for note in board.notes)
        yield f"\n<details><summary>How it was computed</summary>\n\n{code_line(board.signature)}\n\n</details>\n"


class ResultSchemas(RunExporter):
    """JSON schemas of the files with results, the same for every run."""

    description = "JSON schemas of all files with results"
    suffix = ".json"

    def write(self, _: Any, path: Path) -> None:
        """Write one definition per file."""
        kinds = {name: resolve_name(kind) if isinstance(kind, str) else kind for name, kind in DOCUMENTS.items()}
        found = {f"{name}.json": schema(kind) for name, kind in kinds.items()}
        data = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": found}
        write_text(path, json.dumps(data, indent=2) + "\n")
