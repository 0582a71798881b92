from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper_listing import LeftOut, Listing
from paper_listing import drawn as draw_papers

from goldless.apps.gre.papers import HumanReview, Paper, PaperSource
from goldless.errors import UserError


def a_paper(name: str, *, reviews: int = 3, text: str = "Its text.", abstract: str = "Its abstract.") -> Paper:
    written = tuple(HumanReview(f"r{n}", {"": f"Review {n} of {name}."}) for n in range(reviews))
    return Paper(name, f"Title of {name}", abstract, text, written)


def listing(count: int) -> Listing:
    source = Listing([a_paper(f"p{n}") for n in range(count)])
    checked: PaperSource = source
    assert checked.name == "a venue"
    return source


def drawn_names(draw) -> list[str]:
    return [drawn.paper for drawn in draw.papers]


def test_papers_come_in_the_order_in_which_numpy_shuffles_the_sorted_names():
    names = sorted(f"p{n}" for n in range(12))
    expected = [names[place] for place in np.random.default_rng(7).permutation(12)]
    assert drawn_names(draw_papers(listing(12), papers=5, seed=7)) == expected[:5]
    assert drawn_names(draw_papers(listing(12), papers=None, seed=7)) == expected


def test_the_candidate_is_the_review_with_the_smallest_hash():
    def rank(paper: str, review: str) -> str:
        parts = ["7", paper, review]
        return hashlib.sha256(b"".join(len(p).to_bytes(8, "big") + p.encode() for p in parts)).hexdigest()

    for drawn in draw_papers(listing(12), papers=None, seed=7).papers:
        expected = sorted(("r0", "r1", "r2"), key=lambda review: rank(drawn.paper, review))
        assert [review.review for review in drawn.reviews] == expected


@given(st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_the_draw_is_fixed_by_the_seed_whatever_the_order_of_the_listing(seed, shuffle):
    papers = [a_paper(f"p{n}") for n in range(15)]
    shuffled = papers.copy()
    shuffle.shuffle(shuffled)
    assert draw_papers(Listing(shuffled), papers=6, seed=seed) == draw_papers(Listing(papers), papers=6, seed=seed)


@given(st.integers(0, 2**32), st.integers(1, 14))
def test_a_larger_draw_begins_with_the_smaller_one(seed, count):
    small, large = (draw_papers(listing(15), papers=n, seed=seed).papers for n in (count, 15))
    assert large[:count] == small


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
