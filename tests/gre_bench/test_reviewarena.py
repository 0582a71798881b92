"""The corpus ReviewArena as a source of papers, in the columns that its dataset card prints."""

from __future__ import annotations

import json

import polars as pl

from goldless.apps.gre.collecting import collect_edition
from goldless.apps.gre.edition import open_edition, open_or_begin, table_rows

VENUE = "ICLR.cc/2025/Conference"
SCHEMA = {
    "forum_id": pl.String,
    "conference": pl.String,
    "year": pl.Int32,
    "track": pl.String,
    "venue_id": pl.String,
    "paper_number": pl.Int32,
    "title": pl.String,
    "abstract": pl.String,
    "authors": pl.List(pl.String),
    "keywords": pl.List(pl.String),
    "tldr": pl.String,
    "primary_area": pl.String,
    "venue": pl.String,
    "decision": pl.String,
    "decision_comment": pl.String,
    "author_rebuttal": pl.String,
    "num_reviews": pl.Int32,
    "reviews_json": pl.String,
    "markdown": pl.String,
    "markdown_chars": pl.Int64,
}
"""Of the dataset card of Samarth0710/reviewbench, under ``dataset_info``."""


def review(number, **fields):
    """A review with the fields that the card lists; those a form does not have are empty."""
    empty = dict.fromkeys(("soundness", "quality", "strengths_and_weaknesses", "was_revised"), "")
    own = {"review_id": f"r{number}", "reviewer": f"Reviewer_{number}", "rating": "8", "confidence": 4}
    return {**empty, **own, "rebuttal": "We thank the reviewer for this insightful comment.", **fields}


def row(paper, *, reviews=3, **columns):
    written = [
        review(n, summary=f"It is on {paper}.", weaknesses=f"Weak point {n} of {paper}.") for n in range(reviews)
    ]
    own = {"forum_id": paper, "conference": "iclr", "year": 2025, "venue_id": VENUE, "title": f"On {paper}"}
    own |= {"abstract": f"Of {paper}.", "decision": "Accept (poster)", "decision_comment": "The chair likes it a lot."}
    own |= {"markdown": f"# On {paper}\n\nThe whole text.", "reviews_json": json.dumps(written)}
    return {**own, **columns}


def corpus(folder, rows, split="iclr", schema=SCHEMA):
    (folder / "data").mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows, schema=schema).write_parquet(folder / "data" / f"{split}-00000-of-00001.parquet")
    return folder


def collected(tmp_path, folder, **settings):
    begun = open_or_begin(tmp_path / "edition")
    return collect_edition(begun, {"from_reviewarena": str(folder), **settings})


def test_papers_come_with_text_prose_of_reviews_and_decision_but_without_replies_and_meta_review(tmp_path):
    made = collected(tmp_path, corpus(tmp_path / "arena", [row("a"), row("b")]), venue=VENUE)
    study = made.study()
    assert sorted(study.tasks) == ["a", "b"]
    paper = study.task("a")
    assert paper.prompt == "# On a\n\nThe whole text."
    assert (paper.synopses["abstract"], paper.extra["decision"]) == ("Of a.", "Accept (poster)")
    assert paper.extra["source"] == f"ReviewArena {VENUE}"
    texts = {response.text for response in study.responses("a")}
    assert texts == {f"Summary:\n\nIt is on a.\n\nWeaknesses:\n\nWeak point {n} of a." for n in range(3)}
    stored = "".join(file.read_text() for file in made.study_folder.iterdir())
    assert "insightful" not in stored
    assert "chair" not in stored


def test_unusable_papers_are_left_out_with_the_reason(tmp_path):
    rows = [row("good"), row("few", reviews=2), row("none", markdown=""), row("gone", decision="Withdrawn")]
    rows += [row("broken", reviews_json="{not json"), row("bare", abstract="")]
    made = collected(tmp_path, corpus(tmp_path / "arena", rows))
    assert made.study().tasks == ("good",)
    assert {out["paper"]: out["reason"] for out in table_rows(made.study(), "left_out")} == {
        "few": "few_reviews",
        "none": "no_paper",
        "gone": "withdrawn",
        "broken": "few_reviews",
        "bare": "no_abstract",
    }


def test_a_paper_listed_twice_is_used_once_and_reported(tmp_path, goldless):
    arena = corpus(tmp_path / "arena", [row("a"), row("a", title="Again")])
    ended = goldless("gre", "collect", tmp_path / "e", "--from-reviewarena", arena)
    assert ended.code == 0, ended.err
    assert "rows that repeat a forum_id: 1" in " ".join(ended.err.split())
    assert open_edition(tmp_path / "e").study().task("a").extra["title"] == "On a"
