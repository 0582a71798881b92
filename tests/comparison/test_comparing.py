"""Two agents of one run or of two: numbers as scipy gives them, and what is refused."""

from __future__ import annotations

import itertools
import re

import numpy as np
import polars as pl
import pytest
from scipy import stats

import goldless
from goldless.comparison.comparing import compare_runs
from goldless.errors import UserError
from tests.comparison.comparison_runs import judge, noisy, reviewed, worths, written_run
from tests.support.study_files import word_scorer

# --- numbers ---------------------------------------------------------------------------------------------------------


def test_with_few_tasks_without_skew_the_numbers_are_scipys_of_the_paired_tests(tmp_path):
    old = noisy(8, 0.5)["old"]
    scores = {"old": old, "new": [one + gain for one, gain in zip(old, np.linspace(-1, 2, 8), strict=True)]}
    (found,) = goldless.compare(written_run(tmp_path / "run", scores, metric="gem-raw"), agents=["old", "new"]).metrics
    test = stats.ttest_rel(scores["new"], scores["old"])
    exact = stats.permutation_test(
        (scores["new"], scores["old"]), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples"
    )
    # a flip of some tasks ties with the data at a mean that is their own: with the 6th such mean of 255 from either
    # side, 7 of 256 flips reach the data, and 2 * 7 / 256 is the first p of at least 0.05
    gaps = np.linspace(-1, 2, 8)
    means = sorted(np.mean(some) for size in range(1, 9) for some in itertools.combinations(gaps, size))
    assert (found.difference.low, found.difference.high) == pytest.approx((means[5], means[-6]), abs=1e-6)
    assert (found.first, found.second) == pytest.approx((np.mean(scores["old"]), np.mean(scores["new"])))
    assert found.difference.value == pytest.approx(found.second - found.first)
    assert found.effect == pytest.approx(test.statistic / np.sqrt(8))  # Cohen's d of paired samples is t / sqrt(n)
    assert found.p == pytest.approx(exact.pvalue)


def test_a_difference_that_skewness_may_have_made_is_not_decided(tmp_path):
    gains = [1.0, 1.1, 0.9, 1.2, 1.0, 0.8, 1.1, 1.0, 0.9, -1.0]
    run = written_run(tmp_path / "run", {"old": [0.0] * 10, "new": gains})
    (found,) = goldless.compare(run, agents=["old", "new"]).metrics
    assert stats.permutation_test((gains,), np.mean, permutation_type="samples").pvalue < 0.05 <= found.p
    assert found.difference.low < 0 < found.difference.high
    assert (found.decided, found.skewed) == (False, True)
    assert found.outlook == "undecided: 10 tasks are too few for scores this skewed"
    other_side = written_run(tmp_path / "other", {"old": [0.0] * 10, "new": [1.6 - gain for gain in gains]})
    (found,) = goldless.compare(other_side, agents=["old", "new"]).metrics
    assert (found.decided, found.skewed) == (True, False)


def test_what_it_would_take_is_the_number_of_tasks_with_a_power_of_80_percent_at_the_lower_end(tmp_path):
    gaps = 0.42 + np.linspace(-1.7, 1.7, 20)  # not skewed
    scores = {"old": [0.0] * 20, "new": gaps.tolist()}
    (found,) = goldless.compare(written_run(tmp_path / "run", scores), agents=["old", "new"]).metrics
    effect = abs(gaps.mean()) / gaps.std(ddof=1) - stats.norm.ppf(0.8) / np.sqrt(20)

    def power(n):
        return stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, effect * np.sqrt(n))

    needed = next(n for n in range(21, 201) if power(n) >= 0.8) - 20
    assert not found.decided
    assert found.more_tasks == needed
    assert found.outlook == f"undecided: about {needed} more tasks"


def test_two_agents_of_a_score_run_differ_as_on_its_leaderboard(tmp_path):
    """Over common peers, with the p of the pair alone."""
    result = goldless.evaluate(worths(6), metrics="gem-raw", scorer=word_scorer(), resamples=200)
    run = goldless.save_run(result, tmp_path / "run")
    (found,) = goldless.compare(run, agents=["old", "new"], resamples=200).metrics
    shown = next(c for c in result.leaderboard().comparisons if {c.first, c.second} == {"old", "new"})
    sign = 1 if shown.first == "new" else -1
    assert found.difference.value == pytest.approx(sign * shown.difference)
    assert (found.p, found.difference.n, found.peers) == (shown.p, shown.n, "common")
    assert found.peer_names == ("other",)


def test_tvd_mi_over_both_directions_differs_as_on_its_leaderboard(recorded, tmp_path):
    """Of the recorded critic on SamSum: 200 tasks, 30 agents."""
    study = goldless.read_study(recorded / "samsum_peer_prediction")
    some = study.subset(tasks=study.tasks[:20], agents=[a.agent for a in study.agents[:5]])
    result = goldless.evaluate(some, metrics="tvd-mi", recorded=True, resamples=200)
    run = goldless.save_run(result, tmp_path / "run")
    for shown in result.leaderboard().comparisons[:4]:
        (found,) = goldless.compare(run, agents=[shown.second, shown.first], resamples=200).metrics
        assert found.difference.value == pytest.approx(shown.difference)
        assert (found.difference.n, found.peers) == (shown.n, "common")
        assert len(found.peer_names) == 3


def test_a_review_compares_the_shares_of_comparisons_that_two_agents_won(tmp_path):
    run = reviewed(tmp_path / "run", judge(), worths(12))
    (found,) = goldless.compare(run, agents=["old", "new"]).metrics
    assert found.metric == "review[pairwise]"
    # new (4) beats old (2) and other (3); old beats neither
    assert (found.first, found.second, found.difference.value, found.difference.n) == (0.0, 1.0, 1.0, 12)


def test_an_agent_with_several_samples_is_compared_by_their_mean(tmp_path):
    once = worths(12)
    twice = pl.concat([once.with_columns(sample=pl.lit(str(i))) for i in (1, 2)])
    twice = twice.filter((pl.col("agent") == "new") | (pl.col("sample") == "1"))
    single, several = (
        goldless.save_run(
            goldless.evaluate(study, metrics="length", resamples=200, journal=tmp_path / "j"), tmp_path / name
        )
        for study, name in ((once, "single"), (twice, "several"))
    )
    (one,), (two,) = (goldless.compare(run, agents=["old", "new"]).metrics for run in (single, several))
    assert (two.first, two.second, two.difference.n) == (one.first, one.second, 12)


# --- two runs --------------------------------------------------------------------------------------------------------


def scored(tmp_path, name, study, **options):
    result = goldless.evaluate(study, metrics="gem-raw", scorer=word_scorer(), resamples=200, **options)
    return goldless.save_run(result, tmp_path / name)


def versions(first="zarn bluk", second="zarn bluk mipo", n=6, peers=("mipo zarn", "bluk mipo")):
    """Two studies of one agent, whose responses changed, and the same peers."""
    studies = []
    for text in (first, second):
        said = {"bot": text} | {f"peer{i}": words for i, words in enumerate(peers)}
        rows = [{"task": f"t{i}", "agent": a, "text": f"{x} w{i}"} for i in range(n) for a, x in said.items()]
        studies.append(pl.DataFrame(rows))
    return studies


def test_the_agent_whose_responses_changed_is_found_and_scored_over_the_same_peers(tmp_path):
    before, after = (scored(tmp_path, f"run{i}", study) for i, study in enumerate(versions()))
    found = goldless.compare(before, after)
    (one,) = found.metrics
    assert (found.first, found.second) == ("bot (run0)", "bot (run1)")
    assert one.peer_names == ("peer0", "peer1")
    # by hand: a word that the context holds gains 2 nats; "mipo" is the one word that the new responses add, and each
    # peer says it once
    assert one.difference.value == pytest.approx(2.0)
    assert found.warnings == ()


def test_peers_that_answer_otherwise_are_left_out_with_other_peers_warned_of(tmp_path):
    before, after = versions()
    after = after.with_columns(
        text=pl.when(pl.col("agent").str.starts_with("peer")).then(pl.lit("quex ") + pl.col("text")).otherwise("text")
    )
    found = goldless.compare(scored(tmp_path, "a", before), scored(tmp_path, "b", after), agents="bot")
    assert found.metrics[0].peers == "own"
    assert any("another quantity" in line for line in found.warnings)


def test_a_peer_with_another_response_on_some_tasks_is_left_out_on_those_alone(tmp_path):
    """The added word is worth 2 nats with peer0, nothing with peer1: 2 on two tasks, their mean on the other four."""
    before, after = versions(peers=("mipo zarn", "bluk"))
    elsewhere = (pl.col("agent") == "peer1") & pl.col("task").is_in(["t0", "t1"])
    after = after.with_columns(text=pl.when(elsewhere).then(pl.lit("quex")).otherwise("text"))
    found = goldless.compare(scored(tmp_path, "a", before), scored(tmp_path, "b", after), agents="bot")
    assert found.metrics[0].difference.value == pytest.approx((2 * 2 + 4 * 1) / 6)


def test_other_settings_are_refused_or_warned_of_by_name(tmp_path):
    scores = noisy(12, 0)
    one = written_run(tmp_path / "one", scores, signature="rouge-l|scorer:a|peers:all|seed:0")
    two = written_run(tmp_path / "two", scores, signature="rouge-l|scorer:b|peers:all|seed:1")
    three = written_run(tmp_path / "three", scores, signature="rouge-l|scorer:a|peers:x+y|seed:0")
    with pytest.raises(UserError, match="not comparable: scorer is a in one and b in two"):
        compare_runs([one, two], agents=["old", "new"])
    found = compare_runs([one, three], agents=["old", "new"])
    assert found.warnings == ("the runs differ: peers is all in one and x+y in three",)
    # a run from before scores said which peers they are over
    four = written_run(tmp_path / "four", scores, signature="rouge-l|scorer:a|peers:all|over:common-peers|seed:0")
    found = compare_runs([one, four], agents=["old", "new"])
    assert found.warnings == ("the runs differ: over is none in one and common-peers in four",)


# --- pulls -----------------------------------------------------------------------------------------------------------


def test_where_tokens_are_stored_a_pull_names_the_sentence_that_makes_it(tmp_path, monkeypatch):
    """Of the peer's two sentences, the new responses give away the words of the second."""
    rows = []
    for i in range(10):
        said = {"old": "zarn.", "new": "mipo." if i else "zarn.", "peer": "Zarn zarn. Then mipo."}
        rows += [{"task": f"t{i}", "agent": agent, "text": text} for agent, text in said.items()]
    run = scored(tmp_path, "run", pl.DataFrame(rows))

    def pieces(_, scorer, text):
        assert scorer == "scripted:words"
        return re.findall(r"\S+\s*", text)

    monkeypatch.setattr("goldless.comparison.comparing.TokenTexts.pieces", pieces)
    (found,) = goldless.compare(run, agents=["old", "new"]).metrics
    assert [pull.task for pull in found.pulls] == []  # one word for another: no difference at all
    rows = [row | ({"text": "zarn. mipo."} if row["agent"] == "new" and row["task"] == "t3" else {}) for row in rows]
    run = scored(tmp_path, "other", pl.DataFrame(rows))
    (found,) = goldless.compare(run, agents=["old", "new"]).metrics
    assert found.pulls[0].task == "t3"
    assert (found.pulls[0].sentence.text, found.pulls[0].sentence.gain_nats) == ("Then mipo.", pytest.approx(2.0))
    assert found.pulls[0].sentence.peer == "peer"


# --- what is refused -------------------------------------------------------------------------------------------------


def test_what_cannot_be_compared_is_refused_in_one_clear_message(tmp_path):
    run = written_run(tmp_path / "run", {"ann": [1, 2], "bob": [2, 3], "cy": [0, 1]})
    other = written_run(tmp_path / "other", {"ann": [1, 2], "bob": [2, 3]}, tasks=["x", "y"])
    third = written_run(tmp_path / "third", {"ann": [1, 2]}, prompts={"t0": "else", "t1": "else"})
    empty = tmp_path / "empty"
    empty.mkdir()
    for folders, agents, said in (
        ([empty], (), "is not a run folder with scores or a review"),
        ([tmp_path / "nowhere"], (), "does not exist"),
        ([run], (), "two agents of run must be named, run has 3"),
        ([run], ("ann",), "must be named, got 1"),
        ([run], ("ann", "ann"), "cannot be compared with itself"),
        ([run], ("ann", "bot"), "run has no agent 'bot'. Did you mean 'bob'? Agents: ann, bob, cy"),
        ([run, run], ("ann",), "must differ, got"),
        ([run, other], ("ann",), "run and other have no common task: compare runs of the same tasks"),
        ([run, third], ("ann",), "no common task with the same prompt"),
        ([run, run, run], (), "one run folder or two must be given, got 3"),
        ([], (), "one run folder or two must be given, got 0"),
    ):
        with pytest.raises(UserError, match=re.escape(said)):
            compare_runs(folders, agents=agents)
    with pytest.raises(UserError, match=re.escape("run has no metric 'rouge-1'. Did you mean 'rouge-l'?")):
        compare_runs([run], agents=("ann", "bob"), metrics=["rouge-1"])
    bleu = written_run(tmp_path / "bleu", {"ann": [1, 2]}, metric="bleu", signature="bleu|seed:0")
    with pytest.raises(UserError, match="no metric in common: run has rouge-l; bleu has bleu"):
        compare_runs([run, bleu], agents=["ann"])


@pytest.mark.parametrize(("table", "column"), [("pair_scores", "missing"), ("logprobs", "logprobs_nats")])
def test_a_damaged_table_is_refused_by_its_file_and_one_that_lacks_a_column_is_read(tmp_path, table, column):
    runs = [scored(tmp_path, name, worths(6)) for name in ("first", "second")]
    (file,) = [*runs[0].glob(f"{table}.parquet"), *runs[0].glob(f"{table}/part-*.parquet")]
    pl.read_parquet(file).drop(column).write_parquet(file)
    assert len(goldless.compare(*runs, agents=["old"], resamples=200).metrics) == 1
    whole = file.read_bytes()
    file.write_bytes(whole[:4] + bytes(len(whole) // 2) + whole[len(whole) // 2 + 4 :])
    with pytest.raises(UserError, match=f"{file.name}: cannot be read"):
        goldless.compare(*runs, agents=["old"], resamples=200)
