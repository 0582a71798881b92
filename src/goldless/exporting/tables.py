"""Scores as CSV, Markdown for a model card; and the schemas of results."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from pkgutil import resolve_name

import polars as pl

from goldless.audit.finding import listed
from goldless.exporting.scored_run import ScoredRun
from goldless.files import write_text, write_whole
from goldless.reports.document import schemas
from goldless.reports.formats import code_line, guarded_frame, markdown_cell
from goldless.reports.run_folder import DOCUMENTS
from goldless.studies import Study, write_study


def write_csv(thing: Study | ScoredRun, path: Path, *, metric: str | None = None) -> None:
    """A study as a folder of tables; a run as one with a row per response, its scores, and last the signatures."""
    if isinstance(thing, Study):
        write_study(thing, path, format="csv")
        return
    scores, key = thing.response_scores(metric), ["task", "agent"]
    table = thing.with_texts(scores.select(key).unique(maintain_order=True)).drop("reference")
    if thing.agents_with_samples:
        warnings.warn(
            f"the scores of {listed(thing.agents_with_samples)} are means over their samples, so the column text is "
            "empty there. To score each sample, read the study with --repeats agents",
            stacklevel=2,
        )
    names = scores["metric"].unique(maintain_order=True)
    for name in names:
        own = scores.filter(pl.col("metric") == name).select(*key, pl.col("score").alias(name))
        table = table.join(own, on=key, how="left", maintain_order="left")
    table = table.with_columns(pl.lit(thing.ranked[name].signature).alias(f"{name} signature") for name in names)
    write_whole(path, guarded_frame(table).write_csv)


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
    kinds = {f"{name}.json": resolve_name(kind) for name, kind in DOCUMENTS.items()}
    data = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": schemas(kinds)}
    write_text(path, json.dumps(data, indent=2) + "\n")
