"""Several metrics in one run: GEM-S, wordings averaged over, peers chosen, and evidence asked once for all.

The toy scorer gives ln 4 nats for every word of a peer's response that the context has.
"""

from __future__ import annotations

import math

import polars as pl
import pytest

import goldless
from goldless.errors import CapabilityError, MetricError, UserError
from goldless.models.scripted import ScriptedModel
from goldless.templates import PLAIN
from tests.support.evidence_frames import scores
from tests.support.study_files import response_rows

pytestmark = pytest.mark.filterwarnings("ignore:.*there is no rewriter")

LN4 = math.log(4)
TEXTS = {
    "t1": {"ann": "zarn bluk", "bob": "zarn bluk mipo", "cy": "quex"},
    "t2": {"ann": "vond rask", "bob": "rask vond ebbo", "cy": "quex"},
    "t3": {"ann": "lirp hoft", "bob": "lirp", "cy": "quex"},
}
ABSTRACTS = {"t1": "about zarn", "t2": "about vond and rask", "t3": "about quex"}


def study(abstracts=ABSTRACTS, texts=TEXTS):
    tasks = pl.DataFrame(
        [{"task": t, "prompt": f"paper {t}", "synopsis_abstract": abstracts.get(t)} for t in texts],
        schema=dict.fromkeys(["task", "prompt", "synopsis_abstract"], pl.String),
    )
    return goldless.study_from_frame(response_rows(texts), tasks=tasks)


def evaluate(metrics, scorer, **options):
    given = options.pop("study", None) or study()
    return goldless.evaluate(given, metrics=metrics, scorer=scorer, resamples=200, **options)


def rewriter(word: str = "zarn", name: str = "w") -> ScriptedModel:
    """Takes a word out."""
    return ScriptedModel(answers=lambda r: r.messages[-1].content.replace(f"{word} ", ""), name=name)


# --- GEM-S -------------------------------------------------------------------------------------------------------


def test_given_a_synopsis_only_what_goes_beyond_it_counts(toy_scorer):
    """bob's peers: ann shares zarn and bluk in t1, but the abstract has zarn already; both words of t2; nothing new."""
    result = evaluate(["gem-s[abstract]", "gem-raw"], toy_scorer())
    # ann tells bob: t1 bluk, t2 nothing, t3 lirp; and cy nothing: 1/2, 0, 1/2 words, mean over two peers
    assert scores(result, "gem-s[abstract]")["ann"] == pytest.approx(LN4 * (0.5 + 0 + 0.5) / 3)
    assert scores(result, "gem-raw")["ann"] == pytest.approx(LN4 * (1 + 1 + 0.5) / 3)
    assert "|synopsis:abstract|" in result.leaderboard("gem-s[abstract]").signature


def test_a_task_without_the_synopsis_is_missing_and_counted(toy_scorer):
    part = study({"t1": "about zarn", "t2": "about vond"})
    result = evaluate("gem-s[abstract]", toy_scorer(), study=part)
    assert {(row.estimate.n, row.missing, row.asked) for row in result.leaderboard().rows} == {(2, 2, 6)}
    assert dict(result.failures) == {"no_synopsis": 9}
    assert result.complete


def test_a_synopsis_nobody_has_is_an_error_that_names_those_there_are(toy_scorer):
    with pytest.raises(
        MetricError, match=r"no task has a synopsis 'abstrat'.*Did you mean 'abstract'.*Known synopses: abst"
    ):
        evaluate("gem-s[abstrat]", toy_scorer())


def test_a_missing_abstract_is_written_and_kept(toy_scorer, tmp_path):
    writer = ScriptedModel(answers=lambda r: f"about {r.messages[-1].content}", name="author")
    part = study({"t1": "about zarn"})
    result = evaluate("gem-s[abstract]", toy_scorer(), study=part, synopsis_writer=writer)
    assert result.evidence.synopses.select("task", "text").rows() == [
        ("t2", "about paper t2"),
        ("t3", "about paper t3"),
    ]
    assert {row.estimate.n for row in result.leaderboard().rows} == {3}
    goldless.save_run(result, tmp_path / "run")
    assert pl.read_parquet(tmp_path / "run" / "synopses").height == 2


def test_assw_is_written_where_a_writer_is_named_and_an_error_where_none_is(toy_scorer):
    with pytest.raises(MetricError, match=r"gem-s\[assw,writer=MODEL\]"):
        evaluate("gem-s[assw]", toy_scorer())
    scorer = toy_scorer()
    writer = ScriptedModel(answers=lambda _r: "claims bluk", name="author")
    evaluate("gem-s[assw]", scorer, synopsis_writer=writer)
    assert any("about zarn\n\nclaims bluk" in str(call.context) for call in scorer.calls)


# --- what is asked -----------------------------------------------------------------------------------------------


def questions_of(scorer):
    return [call for call in scorer.calls if "second reader" not in str(call.context)]


def test_metrics_over_the_same_evidence_ask_for_it_once(toy_scorer):
    together = toy_scorer()
    evaluate(["gem-raw", "mi", "bartscore", "gppm", "gptscore"], together, journal=None)
    assert len(questions_of(together)) == 9 + 9 + 9 - 2  # cy always says the same: its marginal is one call


def test_named_peers_bound_what_is_asked(toy_scorer):
    """Against bob alone: in each task bob's marginal and bob given ann and given cy."""
    scorer = toy_scorer()
    result = evaluate("gem-raw", scorer, peers=["bob"])
    assert len(questions_of(scorer)) == 9
    assert scores(result, "gem-raw") == {
        "ann": pytest.approx(LN4 * (2 + 2 + 1) / 3),
        "cy": pytest.approx(0),
        "bob": None,
    }
    assert "|peers:bob|" in result.leaderboard().signature


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"peers": ["bop"]}, "--peers must be agents of the study, got 'bop'. Did you mean 'bob'"),
        ({"peers": []}, "must name at least one agent"),
        ({"peers": 0}, "peers must be a whole number of at least 1, or names of agents, got 0"),
        ({"baseline": "bob", "until": ["best"]}, "--baseline must be left out with --until"),
        ({"compare": "leader", "until": ["best"]}, "--compare leader must be left out with --until"),
        ({"budget_calls": 9, "peers": 1}, "selects the pairs itself"),
        ({"compare_groups": ("x", "y")}, "no agent of frame is in the group 'x'"),
        ({"verdicts": "guess"}, "verdicts must be one of auto, probabilities, labels, got 'guess'"),
        ({"critic_prompt": "same-sauce"}, "Did you mean 'same-source'"),
        ({"shuffles": 0}, "shuffles must be a whole number of at least 1, got 0"),
        ({"seed": "x"}, "seed must be a whole number of at least 0, got 'x'"),
        ({"resamples": 10}, "at least 100"),
        ({"metrics": []}, "no metric was named"),
        ({"metrics": "gem"}, "--rewriter"),
        ({"peers": 1.5}, "peers must be a whole number of at least 1, or names of agents"),
        ({"compare_groups": ("x", "x")}, "two different groups"),
        ({"critic": None}, "critic must be a model specification or a model object, got None"),
        ({"metrics": "gem-raw, judge[typo]"}, "no table judge_typo"),
        ({"metrics": "gem-raw, tvd-mi[labels]"}, "no labels table"),
    ],
)
def test_what_can_be_known_beforehand_is_refused_before_anything_is_asked(toy_scorer, options, message):
    scorer = toy_scorer()
    with pytest.raises(UserError, match=message):
        goldless.evaluate(study(), scorer=scorer, **{"metrics": "gem-raw", "resamples": 200, **options})
    assert scorer.calls == []


def test_a_backend_without_scoring_is_told_what_it_can_serve_and_who_could():
    chat = ScriptedModel(answers={}, name="talker")
    with pytest.raises(CapabilityError) as caught:
        evaluate(["gem-raw", "mi"], chat)
    for words in ("which gem-raw, mi need", "the --critic of tvd-mi", "embedded, gguf:PATH", "vLLM or SGLang"):
        assert words in str(caught.value)


def test_an_option_that_no_metric_uses_is_said_to_be_unused(toy_scorer):
    with pytest.warns(UserWarning, match="--rewriter is not used by gem-raw"):
        evaluate("gem-raw", toy_scorer(), rewriter=rewriter())


# --- several wordings --------------------------------------------------------------------------------------------


def leaning(context: str, target: str) -> list[float]:
    """A scorer to which the plain wording makes known words twice as telling."""
    known = set(context.replace(".", " ").split())
    gain = 2.0 if PLAIN.predict in context else 1.0
    return [-5.0 + gain * (word in known) for word in target.replace(".", "").split()]


def test_wordings_are_averaged_and_their_spread_is_reported():
    scorer = ScriptedModel(logprobs=leaning, name="leaning")
    result = evaluate("gem-raw", scorer, template=["general", "plain"])
    alone = {name: scores(evaluate("gem-raw", scorer, template=name), "gem-raw") for name in ("general", "plain")}
    board = result.leaderboard()
    for row in board.rows:
        one, two = alone["general"][row.agent], alone["plain"][row.agent]
        assert row.score == pytest.approx((one + two) / 2)
        # two numbers that far apart have this standard deviation
        assert row.between_prompts == pytest.approx(abs(one - two) / math.sqrt(2))
    assert result.outcomes["gem-raw"].by_wording == {name: pytest.approx(by) for name, by in alone.items()}
    assert "|template:general,plain|" in board.signature
    assert "±prompts" in board.to_markdown()


# --- identical and lonely ----------------------------------------------------------------------------------------


def test_rewriters_are_averaged_too(toy_scorer):
    one, two = rewriter("zarn", "one"), rewriter("vond", "two")
    both = evaluate("gem", toy_scorer(), rewriter=[one, two])
    alone = [scores(evaluate("gem", toy_scorer(), rewriter=model), "gem") for model in (one, two)]
    for row in both.leaderboard().rows:
        assert row.score == pytest.approx(sum(by[row.agent] for by in alone) / 2)
    assert set(both.outcomes["gem"].by_wording) == {"general/scripted:one", "general/scripted:two"}
