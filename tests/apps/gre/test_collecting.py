"""Papers are drawn by a seed alone."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless import read_study
from goldless.apps.gre.collecting import told_collection
from goldless.apps.gre.edition import write_rows
from goldless.apps.gre.papers import HumanReview, Paper, PaperSource
from goldless.errors import UserError
from tests.apps.gre.paper_listing import LeftOut, Listing
from tests.apps.gre.paper_listing import drawn as draw_papers


def test_sections_of_reviews_that_are_no_list_are_not_told(edition):
    notes = edition.study_folder / "reviews.jsonl"
    rows = [json.loads(line) for line in notes.read_text().splitlines()]
    notes.write_text("".join(json.dumps({**row, "sections": 3}) + "\n" for row in rows))
    told = list(told_collection(edition, edition.study()))
    assert not [line for line in told if line.startswith("sections of the human reviews")]


def a_paper(name: str, reviews: int = 3) -> Paper:
    written = tuple(HumanReview(f"r{n}", {"": f"Review {n} of {name}."}) for n in range(reviews))
    return Paper(name, "Its text.", {"title": f"Title of {name}", "synopsis_abstract": "Its abstract."}, written)


def listing(count: int) -> Listing:
    source = Listing([a_paper(f"p{n}") for n in range(count)])
    checked: PaperSource = source
    assert checked.name == "a venue"
    return source


def drawn_names(draw) -> list[str]:
    return [row["task"] for row in draw["tasks"]]


def test_papers_come_in_the_order_in_which_numpy_shuffles_the_sorted_names():
    names = sorted(f"p{n}" for n in range(12))
    expected = [names[place] for place in np.random.default_rng(7).permutation(12)]
    assert drawn_names(draw_papers(listing(12), papers=5, seed=7)) == expected[:5]
    assert drawn_names(draw_papers(listing(12), papers=None, seed=7)) == expected


def test_the_candidate_is_the_review_with_the_smallest_hash():
    def rank(paper: str, review: str) -> str:
        parts = ["7", paper, review]
        return hashlib.sha256(b"".join(len(p).to_bytes(8, "big") + p.encode() for p in parts)).hexdigest()

    draw = draw_papers(listing(12), papers=None, seed=7)
    for name in drawn_names(draw):
        mine = {row["agent"]: row["review"] for row in draw["reviews"] if row["task"] == name}
        expected = sorted(("r0", "r1", "r2"), key=lambda review: rank(name, review))
        assert mine == dict(zip(("human", "reference1", "reference2"), expected, strict=True))


@given(st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_the_draw_is_fixed_by_the_seed_whatever_the_order_of_the_listing(seed, shuffle):
    papers = [a_paper(f"p{n}") for n in range(15)]
    shuffled = papers.copy()
    shuffle.shuffle(shuffled)
    assert draw_papers(Listing(shuffled), papers=6, seed=seed) == draw_papers(Listing(papers), papers=6, seed=seed)


def test_too_few_usable_papers_are_an_error_that_counts_the_reasons():
    bad = [LeftOut("a", "withdrawn"), LeftOut("b", "few_reviews", "2 of 3"), LeftOut("c", "few_reviews")]
    with pytest.raises(UserError) as error:
        draw_papers(Listing([*bad, a_paper("good"), a_paper("fine")]), papers=3, seed=3)
    told, *lines = str(error.value).splitlines()
    assert sorted(lines) == ["  a: withdrawn", "  b: few_reviews (2 of 3)", "  c: few_reviews"]
    assert told == (
        "a venue: 2 of 5 papers are usable, but 3 were requested. Left out: few_reviews 2, withdrawn 1. "
        "Check these, or request fewer papers or fewer reviews per paper, or accept fewer with --fewer-ok:"
    )


def test_hostile_texts_are_stored_as_text_without_nul_and_lone_surrogates(tmp_path):
    hostile = "</review> \x00<script>alert(1)</script>\ud800 [[A]]"
    reviews = tuple(HumanReview(f"r{n}", {"": hostile}) for n in range(3))
    columns = {"title": hostile, "synopsis_abstract": hostile}
    draw = draw_papers(Listing([Paper("../x", hostile, columns, reviews)]), papers=None)
    for table, rows in draw.items():
        if rows:
            write_rows(tmp_path / f"{table}.jsonl", rows)
    study, clean = read_study(tmp_path), "</review> <script>alert(1)</script> [[A]]"
    assert (study.task("../x").prompt, study.task("../x").synopses) == (clean, {"abstract": clean})
    assert {response.text for response in study.responses("../x")} == {clean}
