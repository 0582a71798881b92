"""Folders of papers and editions of words that a toy scorer understands, for the tests."""

from __future__ import annotations

import json
from pathlib import Path

REVIEWS = {"p1": ("zarn bluk", "zarn mipo", "quex bluk"), "p2": ("vors", "vors tilm", "vors tilm hask")}
"""Three reviews of each paper; words in common are what a toy scorer counts."""
DATES = {"p1": "2024-03-01", "p2": "2024-09-01"}


def write_rows(path: Path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def papers_folder(folder: Path, reviews=REVIEWS) -> Path:
    """A folder for ``--from-folder``."""
    write_rows(
        folder / "papers.jsonl",
        [
            {"paper": p, "title": f"On {p}", "abstract": f"Of {p}.", "public_date": DATES.get(p)}
            | {"synopsis_assw": f"Of {p}. It claims."}
            for p in reviews
        ],
    )
    write_rows(
        folder / "reviews.jsonl",
        [{"paper": p, "review": f"r{i}", "text": text} for p, texts in reviews.items() for i, text in enumerate(texts)],
    )
    (folder / "papers").mkdir()
    for paper in reviews:
        (folder / "papers" / f"{paper}.txt").write_text(f"The whole of paper {paper}, word for word.")
    return folder
