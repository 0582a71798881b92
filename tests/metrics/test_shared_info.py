"""shared-info: a metric for each kind of task, without each response's closest peer where there are many agents.

The toy scorer knows a word or does not: a word of the target that the context has is worth ln 4 of its ln 8 nats, so
expected values are counts of words, done by hand.
"""

from __future__ import annotations

import math

import polars as pl
import pytest

import goldless
from goldless.runs.store import save_run
from tests.support.evidence_frames import scores

WORD = math.log(4)
HONEST = tuple(f"h{number}" for number in range(6))
COLLUDING = ("a", "b")
TASKS = ("zarn", "bluk", "vond", "rask", "mipo", "tolu")
CODE = "{0}1 {0}2 {0}3 {0}4 {0}5 {0}6 {0}7 {0}8"


def study(agents=(*HONEST, *COLLUDING), samples=1):
    """Honest agents share one word on each task, colluding ones eight of their own and half a word with the others."""
    rows = [
        {
            "task": task,
            "agent": agent,
            "text": CODE.format(task) + f" {task}" * (place % 2) if agent in COLLUDING else task,
            "sample": str(sample),
        }
        for place, task in enumerate(TASKS)
        for agent in agents
        for sample in range(samples)
    ]
    frame = pl.DataFrame(rows)
    return frame if samples > 1 else frame.drop("sample")


def evaluate(frame, toy_scorer, **options):
    options = {"metrics": "shared-info", "resamples": 200, **options}
    return goldless.evaluate(frame, scorer=toy_scorer(), **options)


def test_two_agents_cannot_lift_each_other(toy_scorer):
    result = evaluate(study(), toy_scorer, metrics=["shared-info", "gem-raw+about"])
    found = scores(result, "shared-info")
    # an honest one: of five honest peers one is left out, so four of six and half a word from each colluding one
    assert found["h0"] == pytest.approx((4 + 2 * 0.5) / 6 * WORD)
    assert found["a"] == pytest.approx(6 * 0.5 / 6 * WORD)
    assert [row.agent for row in result.leaderboard("gem-raw+about").rows][:2] == ["a", "b"]
    signature = result.leaderboard("shared-info").signature
    assert "|short-for:gem-raw+about|" in signature
    assert "|over:but-closest-peers|" in signature
    assert any("closest peer is left out" in note for note in result.leaderboard("shared-info").notes)


def test_the_pair_is_named_with_the_ranks_that_it_would_have(toy_scorer):
    (finding,) = [one for one in evaluate(study(), toy_scorer).findings if one.kind == "link"]
    assert set(finding.agents) == set(COLLUDING)
    assert "It is left out of their scores" in finding.message
    assert "with it they would rank 1st and 1st instead of 7th and 8th" in finding.message


def test_with_fewer_than_eight_agents_all_peers_count(toy_scorer):
    result = evaluate(study(("h0", "h1", "h2", *COLLUDING)), toy_scorer)
    assert [row.agent for row in result.leaderboard("shared-info").rows][:2] == ["a", "b"]
    assert scores(result)["h0"] == pytest.approx((2 + 2 * 0.5) / 4 * WORD)
    assert "|over:common-peers|" in result.leaderboard("shared-info").signature
    assert any("All peers count" in note for note in result.leaderboard("shared-info").notes)


def test_samples_of_a_colluding_agent_are_left_out_together(toy_scorer):
    result = evaluate(study(samples=2), toy_scorer)
    assert scores(result) == pytest.approx(scores(evaluate(study(), toy_scorer)))


def test_differences_are_those_of_the_scores_in_one_run_and_in_two(toy_scorer, tmp_path):
    changed = study().with_columns(
        text=pl.when(pl.col("agent") == "h0").then(pl.lit("nothing")).otherwise(pl.col("text"))
    )
    found = [evaluate(frame, toy_scorer) for frame in (study(), changed)]
    for number, one in enumerate(found):
        save_run(one, tmp_path / str(number))
    told = goldless.compare(tmp_path / "0", agents=("h0", "a"), resamples=200).metric("shared-info")
    assert told.difference.value == pytest.approx(scores(found[0])["a"] - scores(found[0])["h0"])
    assert told.peers == "but-closest"
    told = goldless.compare(tmp_path / "0", tmp_path / "1", resamples=200).metric("shared-info")
    assert told.difference.value == pytest.approx(scores(found[1])["h0"] - scores(found[0])["h0"])
    assert told.peers == "but-closest"


# --- kinds of task ---------------------------------------------------------------------------------------------------

SOURCE = "{0}1 {0}2 {0}3 {0}4 {0}5 {0}6 {0}7 {0}8"
SUMMARIES = {"a": "{0}1 {0}2 {0}3 {0}4", "b": "{0}1 {0}2", "c": "{0}1 {0}9"}


def summaries(prompt=SOURCE, texts=SUMMARIES):
    rows = [
        {"task": task, "agent": agent, "prompt": prompt.format(task), "text": text.format(task)}
        for task in TASKS
        for agent, text in texts.items()
    ]
    return pl.DataFrame(rows)


def test_where_prompts_hold_sources_grounding_and_what_is_covered_count_alike(toy_scorer):
    metrics = ["shared-info", "grounding", "covers"]
    result = evaluate(summaries(), toy_scorer, metrics=metrics, over_peers="own")
    known = math.log(4) / math.log(8)  # of a word's information, once the context has it
    assert scores(result, "grounding") == pytest.approx({"a": known, "b": known, "c": known / 2})
    # of the others' words: a has both of b's and one of c's two, b two of a's four and one of c's, c one of each
    covers = {"a": (1 + 1 / 2) / 2 * known, "b": (1 / 2 + 1 / 2) / 2 * known, "c": (1 / 4 + 1 / 2) / 2 * known}
    assert scores(result, "covers") == pytest.approx(covers)
    halves = {agent: (covers[agent] + scores(result, "grounding")[agent]) / 2 for agent in covers}
    assert scores(result, "shared-info") == pytest.approx(halves)
    board = result.leaderboard("shared-info")
    assert "|short-for:grounding+covers|" in board.signature
    assert board.unit == "share of information"
    note = "shared-info is grounding+covers here: on 100% of the tasks the prompt holds what the responses are about."
    assert note in board.notes


def test_a_question_is_no_source_and_the_run_says_so(toy_scorer):
    for prompt in ("What of {0}?", ""):
        board = evaluate(summaries(prompt), toy_scorer).leaderboard("shared-info")
        assert "|short-for:gem-raw+about|" in board.signature
        note = "shared-info is gem-raw+about here: the prompts do not hold what the responses are about."
        assert note in board.notes


def test_recorded_evidence_has_the_kind_that_it_was_collected_for(toy_scorer, tmp_path):
    for number, metric in enumerate(("shared-info", "gem-raw")):
        save_run(evaluate(summaries(), toy_scorer, metrics=metric), tmp_path / str(number))
        board = goldless.evaluate(tmp_path / str(number), metrics="shared-info", recorded=True, resamples=200)
        expected = "grounding+covers" if metric == "shared-info" else "gem-raw+about"
        assert f"|short-for:{expected}|" in board.leaderboard("shared-info").signature


def test_a_text_about_nothing_has_no_grounding(toy_scorer):
    texts = {**SUMMARIES, "null": "thanks for asking this"}
    found = scores(evaluate(summaries(texts=texts), toy_scorer), "shared-info")
    assert min(found, key=found.get) == "null"


def test_a_copy_of_the_sources_beginning_is_named(toy_scorer):
    copied = "{0} one two three. {0} four five six. {0} seven eight nine."
    source = f"{copied} {{0}} ten eleven twelve. {{0}} more and more of it follows here. It ends with {{0}} at last."
    texts = {"a": "{0} is one two and ten", "b": "{0} ten eleven follows", "c": "{0} one at last", "copy": copied}
    result = evaluate(summaries(source, texts), toy_scorer)
    named = {agent for finding in result.findings for agent in finding.agents}
    assert named == {"copy"}


def test_grounding_takes_another_column_as_the_source_and_two_calls_a_response(toy_scorer):
    frame = summaries("What of {0}?").with_columns(synopsis_article=pl.concat_str("task", pl.lit("1")))
    scorer = toy_scorer()
    result = goldless.evaluate(frame, metrics="grounding[article]", scorer=scorer, resamples=200)
    known = math.log(4) / math.log(8)
    assert scores(result) == pytest.approx({"a": known / 4, "b": known / 2, "c": known / 2})
    assert len(result.logprobs) == 2 * len(frame)
    assert "|source:article|" in result.leaderboard().signature
