"""The folder of a review: judgements and exam answers as a study's tables, the results as JSON and Markdown."""

from __future__ import annotations

import json
from pathlib import Path

from goldless.files import write_text
from goldless.reports.review_tables import review_markdown
from goldless.runs.parts import write_table
from goldless.runs.review_results import Review, review_as_json
from goldless.runs.store import as_texts, check_writable, finish_folder


def save_review(review: Review, folder: Path | str) -> Path:
    """Write results and evidence. Every file is whole or not there."""
    folder = Path(folder)
    check_writable(folder, review.source, replaces_evidence=True)
    write_table(as_texts(review.judgements), folder, "judgements")
    exams = "".join(json.dumps(answer, ensure_ascii=False) + "\n" for answer in review.answers)
    if exams:
        write_text(folder / "exams.jsonl", exams)
    data = review_as_json(review)
    write_text(folder / "review.json", json.dumps(data, ensure_ascii=False, indent=2) + "\n")
    write_text(folder / "review.md", review_markdown(data))
    return finish_folder(folder, "review", review.source, review.spending)
