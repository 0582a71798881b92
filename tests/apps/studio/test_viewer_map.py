"""The information map from stored log-probabilities, and the shades of strips; sums by hand."""

from __future__ import annotations

import math
from functools import partial

import anyio
import pytest

from goldless.apps.studio.maps import (
    find_map,
    offers_whole_map,
    pair_control,
    pair_page,
    scored_ways,
    stored_map,
    whole_map,
)
from goldless.apps.studio.site import Site
from goldless.errors import UserError
from goldless.records import CallFailure
from goldless.runs.explaining import explain_pair
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.store import save_run
from goldless.studies import read_study, sample_study
from tests.apps.studio.viewer_runs import scored_run
from tests.support.study_files import word_scorer

PEER = "One thing. Two things."
PIECES = ("One", " thing", ".", " Two", " things.", "")
GIVEN = (-1.0, -2.0, -0.5, -4.0, -1.0, -0.25)
ALONE = (-3.0, -2.5, -0.5, -1.0, -2.0, -0.5)


def test_gains_are_summed_by_the_sentence_of_the_peer():
    """First sentence 2 + 0.5 + 0, second -3 + 1, the end 0.25: together 0.75."""
    found = stored_map("Known. Also.", PEER, GIVEN, ALONE, PIECES)
    assert [one.gain_nats for one in found.map.peer_sentences] == [2.5, -2.0]
    assert (found.map.end_gain_nats, found.map.total_nats) == (0.25, 0.75)
    assert found.placed
    assert not found.contributions


@pytest.mark.parametrize("pieces", [None, PIECES[:-1], ("x", *PIECES[1:])])
def test_without_the_tokens_texts_sentences_have_no_nats_but_the_total_stays(pieces):
    found = stored_map("Known.", PEER, GIVEN, ALONE, pieces)
    assert not found.placed
    assert found.map.total_nats == 0.75
    assert [text for text, _ in found.tokens] == [None] * 6


def test_the_map_from_stored_values_has_the_gains_of_the_map_that_explain_computes(
    embedded, embedded_journal, tmp_path
):
    whole = read_study(sample_study())
    study = whole.subset(tasks=list(whole.tasks)[:1], agents=["careful", "solid"])
    save_run(anyio.run(evaluate_study, study, Options.of(scorer=embedded, resamples=200)), tmp_path / "run")
    explain = partial(explain_pair, task=study.tasks[0], agent="careful", peer="solid")
    expected = anyio.run(explain, study, Options.of(scorer=embedded))
    site = Site(tmp_path / "run", journal=embedded_journal)
    place = site.task("run", 0)
    (way,) = scored_ways(place, "careful", "solid")
    texts = place.index.responses(place.name)
    found = find_map(site, place, way, texts, whole=False)
    assert math.isclose(found.map.total_nats, expected.total_nats, abs_tol=1e-9)
    gains, wanted = ([one.gain_nats for one in made.peer_sentences] for made in (found.map, expected))
    assert gains == pytest.approx(wanted)
    assert find_map(site, place, way, texts, whole=True).map.matrix_nats == expected.matrix_nats


def test_a_template_that_a_run_names_is_never_opened_as_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("goldless.apps.studio.maps.find_embedded", lambda: tmp_path)
    row = {"scorer": "embedded:x", "template": str(tmp_path / "mine.toml"), "task": "t", "given": "a", "target": "b"}
    assert offers_whole_map({**row, "template": "general"})
    assert not offers_whole_map(row)
    with pytest.raises(UserError, match="a built-in template"):
        whole_map(None, None, row)


# --- task control --------------------------------------------------------------------------------------------------


def controlled_run(tmp_path, metrics, **options):
    texts = {
        f"t{i}": {"ann": f"{word} quax vort", "bob": f"quax vort {word}", "cy": "quax vort"}
        for i, word in enumerate(("zarn", "bluk", "mipo"))
    }
    scored_run(tmp_path / "run", texts, tmp_path / "j.sqlite", metrics=metrics, **options)
    return Site(tmp_path / "run", journal=tmp_path / "j.sqlite").task("run", 0)


def test_control_rows_behind_a_pair_are_shown_with_their_difference(tmp_path):
    """A known word has -1 nat, another -3: on its own task ann tells bob's three words, +6, on others two, +4."""
    place = controlled_run(tmp_path, "gem-raw+control", control_tasks=2)
    (way,) = scored_ways(place, "ann", "bob")
    found = pair_control(place, way)
    matched, *others = found["terms"]
    assert (matched["given_nats"], matched["alone_nats"], matched["gain_nats"]) == (-3.0, -9.0, 6.0)
    assert {term["task"]: term["gain_nats"] for term in others} == {"t1": 4.0, "t2": 4.0}
    assert (found["mean_nats"], found["difference_nats"]) == (4.0, 2.0)
    page = pair_page(Site(tmp_path / "run", journal=tmp_path / "j.sqlite"), {}, "run", 0, 0, 1)
    assert "this task less that mean" in page
    assert "mean over 2 other tasks" in page


@pytest.mark.parametrize("metric", ["gem-raw+control", "gem-s[prompt]+control", "gem-s[gist]+control"])
def test_the_difference_shown_is_the_controlled_score_of_the_pair(tmp_path, metric):
    place = controlled_run(tmp_path, metric)
    scores = place.index.rows("pair_scores", place.name)
    for agent, peer, score in scores.select("agent", "peer", "score").iter_rows():
        (way,) = scored_ways(place, agent, peer)
        assert pair_control(place, way)["difference_nats"] == pytest.approx(score)


def test_a_term_that_failed_is_missing_and_left_out_of_the_mean(tmp_path):
    failed = word_scorer(lambda _context, target: CallFailure("timeout", "late") if "mipo" in target else None)
    place = controlled_run(tmp_path, "gem-raw+control", scorer=failed, control_tasks=2)
    (way,) = scored_ways(place, "ann", "bob")
    found = pair_control(place, way)
    assert {term["task"]: (term["gain_nats"], term["failure"]) for term in found["terms"][1:]} == {
        "t1": (4.0, None),
        "t2": (None, "timeout"),
    }
    assert found["difference_nats"] == 2.0
