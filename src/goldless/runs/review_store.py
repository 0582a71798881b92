"""The folder of a review: judgements and exam answers as a study's tables, the results as JSON and Markdown."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import polars as pl

from goldless.reports.review_tables import review_markdown
from goldless.runs.review_results import Review, review_as_json
from goldless.runs.store import ROWS_A_GROUP, check_writable, finish_folder, write_text, write_whole

COLUMNS = ("reviewer", "format", "task", "first", "second", "agent", "output", "value", "failure", "failure_message")


def save_review(review: Review, folder: Path | str) -> Path:
    """Write results and evidence. Every file is whole or not there."""
    folder = Path(folder)
    check_writable(folder, review.source, replaces_evidence=True)
    rows = [
        (
            row.reviewer,
            row.scale,
            row.task,
            None if row.second is None else row.first,
            row.second,
            row.first if row.second is None else None,
            row.output,
            row.value,
            *((None, None) if row.failure is None else (row.failure.kind, row.failure.message)),
        )
        for row in review.judgements
    ]
    schema = [(name, pl.Float64 if name == "value" else pl.String) for name in COLUMNS]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    write_whole(folder / "judgements.parquet", partial(frame.write_parquet, row_group_size=ROWS_A_GROUP))
    exams = "".join(json.dumps(answer.as_row(), ensure_ascii=False) + "\n" for answer in review.answers)
    if exams:
        write_text(folder / "exams.jsonl", exams)
    data = review_as_json(review)
    write_text(folder / "review.json", json.dumps(data, ensure_ascii=False, indent=2) + "\n")
    write_text(folder / "review.md", review_markdown(data))
    return finish_folder(folder, "review", review.source, review.spending)
