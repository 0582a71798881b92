"""Evidence that a study carries gives the same leaderboard as asking did, and the values stated for recorded data."""

from __future__ import annotations

import functools
import json
import math

import polars as pl
import pytest

import goldless
from goldless.errors import MetricError, StudyError, UserError
from goldless.evidence import LOGPROBS
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from tests.support.study_files import response_rows, study_folder, write_rows

GROUPS = ("good faith", "problematic")


# --- a run folder is a study -------------------------------------------------------------------------------------


@pytest.fixture
def run(study_file, toy_scorer, tmp_path):
    """The folder of a run of two metrics, and its results."""
    critic = ScriptedModel(answers=lambda r: "Yes" if len(r.messages[1].content) % 2 else "No", name="coin")
    result = goldless.evaluate(
        study_file(), metrics=["gem-raw", "tvd-mi"], scorer=toy_scorer(), critic=critic, resamples=200
    )
    return goldless.save_run(result, tmp_path / "run"), result


def numbers(board):
    return {(r.agent, r.rank, r.estimate, r.asked, r.used, r.better_than) for r in board.rows}


def test_a_run_folder_can_be_scored_again_by_its_and_other_metrics_without_a_model(run, study_file, toy_scorer):
    folder, result = run
    others = goldless.evaluate(study_file(), metrics=["mi", "bartscore"], scorer=toy_scorer(), resamples=200)
    again = goldless.evaluate(folder, metrics=["gem-raw", "tvd-mi", "mi", "bartscore"], recorded=True, resamples=200)
    for live in (result, others):
        for metric in live.outcomes:
            assert numbers(again.leaderboard(metric)) == numbers(live.leaderboard(metric))
            assert "|evidence:recorded-" in again.leaderboard(metric).signature
    assert again.spending == ()
    assert again.models == {}


def test_what_failed_stays_missing_with_its_cause(study_file, toy_scorer, tmp_path):
    refused = CallFailure("refused", "no")
    scorer = toy_scorer(lambda _c, t: refused if t == "lirp" else None)
    folder = goldless.save_run(
        goldless.evaluate(study_file(), metrics="gem-raw", scorer=scorer, resamples=200), tmp_path / "run"
    )
    again = goldless.evaluate(folder, metrics="gem-raw", recorded=True, resamples=200)
    assert dict(again.failures) == {"refused": 3}


def test_asking_goes_on_from_what_the_study_carries_of_the_same_scorer(run, study_file, toy_scorer, tmp_path):
    """A study with the run's log-probabilities but for those of t1 asks for those only."""
    folder, result = run
    study = tmp_path / "half"
    goldless.write_study(goldless.read_study(study_file()), study)
    pl.read_parquet(folder / "logprobs").filter(pl.col("task") != "t1").write_parquet(study / "logprobs.parquet")
    scorer, said, how = toy_scorer(), [], {"metrics": "gem-raw", "journal": tmp_path / "new.sqlite", "resamples": 200}
    again = goldless.evaluate(study, scorer=scorer, say=said.append, **how)
    assert numbers(again.leaderboard()) == numbers(result.leaderboard("gem-raw"))
    assert len([call for call in scorer.calls if "second reader" not in call.context]) == 9
    assert "18 of 27 log-probabilities were reused from the study" in said
    after = pl.read_parquet(goldless.save_run(again, tmp_path / "again") / "logprobs")
    assert after.equals(pl.read_parquet(folder / "logprobs")), "with the tokens that the study carries"
    other = toy_scorer(name="another")
    goldless.evaluate(study, scorer=other, **how)
    assert len([call for call in other.calls if "second reader" not in call.context]) == 27 - 1


# --- what a study does not carry ---------------------------------------------------------------------------------


def recorded_study(path, texts, **columns):
    """A study of responses, and the rows of its log-probabilities: -1 given another response, -2 alone."""
    study_folder(path, responses=response_rows(texts))
    return [
        {"task": t, "target": y, "given": x, "nats": -1.0 - (x is None), **columns}
        for t in texts
        for y in texts[t]
        for x in [*texts[t], None]
        if x != y
    ]


@pytest.fixture
def folder(tmp_path, three_agents):
    """A study of responses with recorded log-probabilities as means over tokens."""
    rows = recorded_study(tmp_path / "study", three_agents)
    pl.DataFrame(rows).rename({"nats": "mean_token_logprob_nats"}).write_parquet(tmp_path / "study/logprobs.parquet")
    return tmp_path / "study"


def test_means_give_metrics_per_token_and_refuse_those_that_need_sums(folder):
    result = goldless.evaluate(folder, metrics="mi", recorded=True, resamples=200)
    assert {row.score for row in result.leaderboard().rows} == {1.0}
    with pytest.raises(MetricError, match=r"only as means over tokens, but gem-raw needs sums.*mi, gppm and gptscore"):
        goldless.evaluate(folder, metrics="gem-raw", recorded=True)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("tvd-mi", "has no recorded critic verdicts"),
        ("judge[with_context]", "has no table judge_with_context"),
        ("gem-s[abstract]", "only as means over tokens"),
        ("tvd-mi[labels]", "has no labels table"),
    ],
)
def test_a_metric_without_its_evidence_is_an_error_that_says_what_is_missing(folder, metric, message):
    with pytest.raises(MetricError, match=message):
        goldless.evaluate(folder, metrics=metric, recorded=True)


def test_log_probabilities_of_other_texts_or_given_nothing_do_not_serve(run):
    folder, _ = run
    with pytest.raises(
        MetricError, match=r"no recorded log-probabilities given a synopsis 'abstract'.*Recorded synopses: none"
    ):
        goldless.evaluate(folder, metrics="gem-s[abstract]", recorded=True)
    with pytest.raises(MetricError, match="no recorded log-probabilities of rewrites, which gem needs"):
        goldless.evaluate(folder, metrics="gem", recorded=True)


def test_log_probabilities_of_several_scorers_are_not_mixed(folder):
    frame = pl.read_parquet(folder / "logprobs.parquet")
    both = pl.concat([frame.with_columns(scorer=pl.lit(name)) for name in ("small", "large")])
    both.write_parquet(folder / "logprobs.parquet")
    with pytest.raises(MetricError, match=r"several scorers: large, small\. Choose one"):
        goldless.evaluate(folder, metrics="mi", recorded=True)
    chosen = goldless.evaluate(folder, metrics="mi", recorded=True, scorer="small", resamples=200)
    assert set(chosen.logprobs["scorer"]) == {"small"}


def test_two_tables_of_evidence_never_share_a_signature(folder):
    first = goldless.evaluate(folder, metrics="mi", recorded=True, resamples=200).leaderboard().signature
    frame = pl.read_parquet(folder / "logprobs.parquet")
    frame.with_columns(pl.col("mean_token_logprob_nats") * 2).write_parquet(folder / "logprobs.parquet")
    second = goldless.evaluate(folder, metrics="mi", recorded=True, resamples=200).leaderboard().signature
    assert first != second


def test_what_is_not_a_number_is_missing_and_counted(folder):
    frame = pl.read_parquet(folder / "logprobs.parquet")
    lost = pl.when((pl.col("target") == "bob") & (pl.col("given") == "ann")).then(math.nan)
    frame.with_columns(
        lost.otherwise(pl.col("mean_token_logprob_nats")).alias("mean_token_logprob_nats")
    ).write_parquet(folder / "logprobs.parquet")
    result = goldless.evaluate(folder, metrics="gppm", recorded=True, resamples=200)
    assert {row.agent: row.missing for row in result.leaderboard().rows} == {"ann": 3, "bob": 0, "cy": 0}
    assert dict(result.failures) == {"not_recorded": 3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pl.lit("x").alias("mean_token_logprob_nats"), "must be a number, got 'x'"),
        (pl.lit([-1.0], pl.List(pl.Float64)).alias("mean_token_logprob_nats"), "must be a number, got "),
        (pl.lit(1.0).alias("mean_token_logprob_nats"), "must not be above 0"),
        (pl.lit(-5).alias("tokens"), "must be a whole number of at least 1, got -5"),
        (pl.col("target").replace("bob", "bobby"), "has agents that are not in the study: bobby"),
    ],
)
def test_log_probabilities_that_cannot_be_are_refused(folder, change, message):
    pl.read_parquet(folder / "logprobs.parquet").with_columns(change).write_parquet(folder / "logprobs.parquet")
    with pytest.raises((MetricError, StudyError), match=message):
        goldless.evaluate(folder, metrics="mi", recorded=True)


def test_a_win_beyond_one_is_refused_with_its_row(folder):
    row = {"task": "t1", "first": "ann", "second": "bob", "first_wins": 2}
    write_rows(folder / "judge_mine.jsonl", [row])
    with pytest.raises(MetricError, match="judge_mine, ann and bob on t1: first_wins must be between 0 and 1, got 2"):
        goldless.evaluate(folder, metrics="judge[mine]", recorded=True)


@pytest.fixture
def tokens(tmp_path, three_agents):
    """A study with log p of every token: two tokens each, -1 given another response and -2 alone."""

    def make(change=lambda row: row, **columns):
        path = tmp_path / "tokens"
        rows = [
            change({**row, "logprobs_nats": [row.pop("nats")] * 2})
            for row in recorded_study(path, three_agents, **columns)
        ]
        return study_folder(path, logprobs=rows)

    return make


def test_sums_and_means_are_those_of_the_tokens_where_only_tokens_are_recorded(tokens):
    """Two tokens a nat likelier each: 2 nats, 1 nat per token."""
    result = goldless.evaluate(tokens(), metrics=["gem-raw", "mi"], recorded=True, resamples=200)
    assert {row.score for row in result.leaderboard("gem-raw").rows} == {2.0}
    assert {row.score for row in result.leaderboard("mi").rows} == {1.0}
    assert set(result.logprobs["tokens"]) == {2}


def test_a_token_above_zero_is_refused_with_its_row(tokens):
    path = tokens(lambda row: {**row, "logprobs_nats": [0.5, -3.0]} if row["target"] == "bob" else row)
    with pytest.raises(MetricError, match="the table logprobs, bob on t1: a log-probability must not be above 0"):
        goldless.evaluate(path, metrics="gem-raw", recorded=True)


def test_the_folder_of_a_recorded_run_holds_the_rows_that_were_used_in_the_usual_columns(tokens, tmp_path):
    path = tokens(scorer="small")
    rows = [json.loads(line) for line in (path / "logprobs.jsonl").read_text().splitlines()]
    write_rows(path / "logprobs.jsonl", rows + [{**row, "scorer": "large", "logprobs_nats": [-9.0]} for row in rows])
    result = goldless.evaluate(path, metrics="gem-raw", recorded=True, scorer="small", resamples=200)
    found = pl.read_parquet(goldless.save_run(result, tmp_path / "run") / "logprobs")
    assert found.schema == pl.Schema(LOGPROBS)
    assert found.height == len(rows)
    assert set(found["scorer"]) == {"small"}
    assert set(found["template"]) == {"recorded"}
    assert set(found["sum_logprob_nats"]) == {-2.0, -4.0}
    assert {tuple(values) for values in found["logprobs_nats"]} == {(-1.0, -1.0), (-2.0, -2.0)}
    again = goldless.evaluate(tmp_path / "run", metrics="gem-raw", recorded=True, resamples=200)
    assert numbers(again.leaderboard()) == numbers(result.leaderboard())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: pl.concat([frame, frame.head(1)]), "more than one row for"),
        (lambda frame: frame.with_columns(sum_logprob_nats=pl.lit(3.0)), "must not be above 0"),
    ],
    ids=["twice", "above zero"],
)
def test_what_a_study_carries_is_checked_when_a_scorer_is_asked_too(run, toy_scorer, tmp_path, change, message):
    folder, _ = run
    frame = pl.read_parquet(folder / "logprobs")
    (folder / "logprobs" / "part-00000.parquet").unlink()
    change(frame).write_parquet(folder / "logprobs" / "part-00000.parquet")
    with pytest.raises(MetricError, match=message):
        goldless.evaluate(
            folder, metrics="gem-raw", scorer=toy_scorer(), journal=tmp_path / "new.sqlite", resamples=200
        )


def test_log_probabilities_of_texts_that_were_changed_are_asked_for_again(run, study_file, toy_scorer, tmp_path):
    folder, _ = run
    study = tmp_path / "edited"
    texts = {"t1": {"ann": "zarn", "bob": "zarn bluk mipo", "cy": "quex"}}
    goldless.write_study(goldless.read_study(study_file(texts, "edited.jsonl")), study)
    pl.read_parquet(folder / "logprobs").filter(task="t1").write_parquet(study / "logprobs.parquet")
    scorer = toy_scorer()
    result = goldless.evaluate(study, metrics="gem-raw", scorer=scorer, journal=tmp_path / "new.sqlite", resamples=200)
    # bob and cy kept their texts: two marginals and their two pairs are known, all about ann is not
    assert len([call for call in scorer.calls if "second reader" not in call.context]) == 5
    assert {row.agent: row.score for row in result.leaderboard().rows}["ann"] == pytest.approx(math.log(4) / 2)


def test_a_named_template_chooses_among_recorded_ones(study_file, toy_scorer, tmp_path):
    live = goldless.evaluate(
        study_file(), metrics="gem-raw", scorer=toy_scorer(), template=["general", "plain"], resamples=200
    )
    folder = goldless.save_run(live, tmp_path / "run")
    one = goldless.evaluate(folder, metrics="gem-raw", recorded=True, template="plain", resamples=200)
    assert "|template:plain|" in one.leaderboard().signature
    assert (
        "|template:general,plain|"
        in goldless.evaluate(folder, metrics="gem-raw", recorded=True, resamples=200).leaderboard().signature
    )
    with pytest.raises(MetricError, match="for the template 'peer-review'"):
        goldless.evaluate(folder, metrics="gem-raw", recorded=True, template="peer-review")


def test_contrasts_in_one_direction_are_not_taken_for_both(tmp_path):
    (tmp_path / "s").mkdir()
    rows = [{"task": t, "first": "x", "second": y, "contrast": 0.5} for t in ("t", "u") for y in ("y", "z")]
    pl.DataFrame(rows).write_parquet(tmp_path / "s" / "critic_contrasts.parquet")
    with pytest.raises(MetricError, match=r"only one direction.*tvd-mi\[given\]"):
        goldless.evaluate(tmp_path / "s", metrics="tvd-mi", recorded=True)
    assert goldless.evaluate(tmp_path / "s", metrics="tvd-mi[given]", recorded=True, resamples=200).leaderboard()


def test_results_are_not_written_into_a_study(study_file, toy_scorer, tmp_path):
    result = goldless.evaluate(study_file(), metrics="gem-raw", scorer=toy_scorer(), resamples=200)
    goldless.write_study(goldless.read_study(study_file()), tmp_path / "study")
    with pytest.raises(UserError, match="is a study"):
        goldless.save_run(result, tmp_path / "study")


# --- recorded data: values from the description of the data -------------------------------------------------------

STATED = {
    "samsum_peer_prediction": {
        "tvd-mi": 6.137,
        "mi": 2.521,
        "gppm": 3.783,
        "judge-first[with_context]": 2.698,
        "judge[with_context]": 2.921,
        "judge-first[without_context]": 0.539,
        "judge[without_context]": 0.940,
    },
    "reddit_peer_prediction": {
        "tvd-mi": 7.235,
        "mi": 2.517,
        "gppm": 4.067,
        "judge-first[with_context]": 2.703,
        "judge[with_context]": 3.122,
        "judge-first[without_context]": 0.046,
        "judge[without_context]": 0.740,
    },
}
"""Task-level d between good-faith and problematic agents."""
RESPONSES = {"samsum_peer_prediction": (None, 0.846), "reddit_peer_prediction": (1.65, 0.866)}
"""Of TVD-MI at the level of responses: d where it is stated, and AUC."""
ATTACKS = {
    "case_flip": (4.975, 1.265, 0.070),
    "format": (5.899, 0.411, 0.077),
    "padding": (6.796, 1.104, 0.029),
    "pattern": (5.335, -0.924, 0.113),
}
"""d of TVD-MI and of MI, and the rise of the mean TVD-MI score, on Reddit."""


@functools.cache
def evaluate(path, *metrics):
    """With means over each agent's own peers, as published."""
    usual = {"recorded": True, "over_peers": "own", "resamples": 200}
    return goldless.evaluate(path, metrics=metrics, compare_groups=GROUPS, **usual)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["reddit_peer_prediction", "samsum_peer_prediction"])
def test_recorded_evidence_gives_the_stated_effect_sizes_to_the_printed_decimals(recorded, name):
    result = evaluate(recorded / name, *STATED[name])
    found = {metric: round(outcome.groups.d_task, 3) for metric, outcome in result.outcomes.items()}
    assert found == STATED[name]
    groups, (d, auc) = result.outcomes["tvd-mi"].groups, RESPONSES[name]
    assert round(groups.auc, 3) == auc
    assert d is None or round(groups.d_response, 2) == d
    assert (groups.difference.n, groups.n_first, groups.n_second) == (200, 2800, 3000)


@pytest.mark.parametrize(
    "attack", ["pattern", *(pytest.param(name, marks=pytest.mark.nightly) for name in ATTACKS if name != "pattern")]
)
def test_under_attack_the_effect_sizes_and_the_mean_score_are_as_stated(recorded, attack):
    def mean(result):
        return math.fsum(row.score for row in result.leaderboard("tvd-mi").rows) / len(result.agents)

    reddit = recorded / "reddit_peer_prediction"
    before = mean(evaluate(reddit, *STATED["reddit_peer_prediction"]))
    result = evaluate(reddit / "attacks" / attack, "tvd-mi", "mi")
    by = {metric: round(outcome.groups.d_task, 3) for metric, outcome in result.outcomes.items()}
    assert (by["tvd-mi"], by["mi"], round(mean(result) - before, 3)) == ATTACKS[attack]


def test_clinicians_tell_about_each_other_as_stated(recorded):
    """Mean over the 10 pairs; the printed nulls are good to Monte-Carlo error, so half a thousandth more is allowed."""
    raters = goldless.evaluate(recorded / "chq_readers", metrics="tvd-mi[labels]").raters
    found = {criterion: information.overall for criterion, information in raters.criteria.items()}
    assert {c: round(x.value, 3) for c, x in found.items()} == {
        "completeness": 0.143,
        "correctness": 0.046,
        "conciseness": 0.053,
    }
    for criterion, null in {"completeness": 0.067, "correctness": 0.038, "conciseness": 0.038}.items():
        assert found[criterion].null == pytest.approx(null, abs=0.001)
        items = {pair.items for pair in raters.criteria[criterion].pairs}
        assert items == {98 if criterion == "completeness" else 99}
    assert found["completeness"].p < 0.004
    assert 0.09 < found["correctness"].p < 0.15
    assert found["conciseness"].p < 0.025
    assert "|items:complete|" in raters.signature


def test_evidence_of_part_of_the_pairs_does_not_claim_all_peers(study_file, toy_scorer, tmp_path):
    live = goldless.evaluate(study_file(), metrics="gem-raw", scorer=toy_scorer(), peers=["ann"], resamples=200)
    folder = goldless.save_run(live, tmp_path / "run")
    assert (
        "|peers:as-recorded|"
        in goldless.evaluate(folder, metrics="gem-raw", recorded=True, resamples=200).leaderboard().signature
    )
    named = goldless.evaluate(folder, metrics="gem-raw", recorded=True, peers=["ann"], resamples=200)
    assert numbers(named.leaderboard()) == numbers(live.leaderboard())
