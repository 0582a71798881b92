"""Linking of two editions' scales through anchors."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest

from goldless.gre_bench.linking import FEWEST_ANCHORS, NotLinkedError, Side, linear_link, link, link_sides
from goldless.statistics.bootstrap import draw_counts

PAPERS = [f"p{number}" for number in range(14)]


def edition(name, scores, *, anchors=(), texts=None) -> Side:
    return Side(name, texts or dict.fromkeys(scores, "same"), frozenset(anchors), {"gem": scores}, {"gem": "gem|x:y"})


def scores_of(function, papers=PAPERS, agents=("human", "ann")):
    random = np.random.default_rng(3)
    return {(paper, agent): function(float(random.normal())) for paper in papers for agent in agents}


def test_the_line_gives_the_moments_of_the_other_form():
    # two forms of a test, X with mean 19.8524 and sd 8.2116, Y with 18.9798 and 8.9393. Worked by hand:
    # slope 8.9393 / 8.2116 = 1.08862, and a raw score of 0 on X is 18.9798 - 1.08862 * 19.8524 = -2.6319 on Y
    form_x, form_y = (np.array([mean - sd, mean + sd]) for mean, sd in ((19.8524, 8.2116), (18.9798, 8.9393)))
    slope, intercept = linear_link(form_x, form_y)
    assert slope == pytest.approx(1.08862, abs=5e-6)
    assert intercept == pytest.approx(-2.6319, abs=5e-5)


def test_linking_back_is_the_inverse():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(2, 30))
    (slope, intercept), (back, other) = linear_link(x, y), linear_link(y, x)
    assert back == pytest.approx(1 / slope)
    assert other == pytest.approx(-intercept / slope)


def test_a_scale_that_was_only_stretched_and_moved_is_met_again_without_any_error():
    first = edition("2024", scores_of(lambda x: x))
    second = edition("2025", scores_of(lambda x: 3 * x + 7), anchors=PAPERS)
    found = link(first, second, "gem")
    assert (found.slope, found.intercept) == (pytest.approx(1 / 3), pytest.approx(-7 / 3))
    assert (found.slope_low, found.slope_high) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    for row in found.scores:
        assert row.linked == pytest.approx(row.first)
        assert row.change == pytest.approx(0)
        assert row.change_low == pytest.approx(0)
        assert row.change_high == pytest.approx(0)
        assert row.linked_low < row.linked < row.linked_high


def test_score_and_interval_are_those_of_an_independent_computation():
    random = np.random.default_rng(1)
    first = edition("2024", scores_of(lambda x: x + float(random.normal(scale=0.3))))
    noisy = scores_of(lambda x: 2 * x + float(random.normal(scale=0.3)))
    second = edition("2025", noisy, anchors=PAPERS)
    found = link(first, second, "gem", seed=5, resamples=200, level=0.8)
    pairs = sorted(noisy)
    ours, theirs = first.scores["gem"], second.scores["gem"]

    def slope_of(chosen):
        return statistics.pstdev(ours[p] for p in chosen) / statistics.pstdev(theirs[p] for p in chosen)

    assert found.slope == pytest.approx(slope_of(pairs))
    mean = statistics.fmean(score for (_, agent), score in theirs.items() if agent == "ann")
    shift = statistics.fmean(ours.values()) - found.slope * statistics.fmean(theirs.values())
    (ann,) = [row for row in found.scores if row.agent == "ann"]
    assert ann.linked == pytest.approx(found.slope * mean + shift)
    papers = sorted(PAPERS)
    slopes = []
    for counts in itertools.chain(*draw_counts(len(papers), seed=5, resamples=200)):
        times = dict(zip(papers, counts.astype(int).tolist(), strict=True))
        drawn = [pair for pair in pairs for _ in range(times[pair[0]])]
        slopes.append(slope_of(drawn))
    assert (found.slope_low, found.slope_high) == tuple(pytest.approx(q) for q in np.quantile(slopes, [0.1, 0.9]))


def test_reviews_whose_text_changed_do_not_link():
    scores = scores_of(lambda x: x)
    first, changed = edition("2024", scores), {pair: "same" if pair[1] == "human" else "other" for pair in scores}
    second = edition("2025", {p: 2 * s for p, s in scores.items()}, anchors=PAPERS, texts=changed)
    assert link(first, second, "gem").reviews == len(PAPERS)


def test_papers_of_one_name_that_nobody_marked_as_anchors_do_not_link():
    first, second = (edition(year, scores_of(lambda x: x)) for year in ("2024", "2025"))
    assert link_sides(first, second) == ([], ["Not linked: 2024 and 2025 share no anchors."])


def test_too_few_anchors_are_refused_with_their_number():
    few = PAPERS[: FEWEST_ANCHORS - 1]
    first, second = edition("2024", scores_of(lambda x: x)), edition("2025", scores_of(lambda x: x), anchors=few)
    links, (told,) = link_sides(first, second)
    assert links == []
    assert "9 of 9 anchors" in told
    assert "at least 10 are needed" in told


def test_scores_without_spread_are_refused():
    first, second = edition("2024", scores_of(lambda _: 1.0)), edition("2025", scores_of(lambda x: x), anchors=PAPERS)
    with pytest.raises(NotLinkedError, match="all reviews of the anchors have the same score"):
        link(first, second, "gem")


def test_agents_of_the_new_edition_alone_have_a_linked_score_and_no_change():
    scores = scores_of(lambda x: x)
    more = {**{p: 2 * s for p, s in scores.items()}, ("new1", "new"): 4.0, ("new2", "new"): 6.0}
    found = link(edition("2024", scores), edition("2025", more, anchors=PAPERS), "gem")
    (new,) = [row for row in found.scores if row.agent == "new"]
    assert new.linked == pytest.approx(2.5)
    assert (new.first, new.change, new.change_low) == (None, None, None)
    assert not math.isnan(found.intercept)
