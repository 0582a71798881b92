"""Correlations of agents' scores under two scorers, against SciPy; GRE-bench has those of the GEM paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import goldless
from goldless.errors import UserError
from goldless.meta_evaluation.consistency import compare_scorers, correlations
from goldless.meta_evaluation.judges import ScoredBy, read_run_scores
from goldless.reports.findings import in_text
from goldless.statistics.bootstrap import Estimate

FAST = {"resamples": 200}
SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def rows_of(found, coefficient):
    return {row.metric: row for row in found.rows if row.coefficient == coefficient}


@pytest.mark.parametrize("coefficient", SCIPY)
def test_correlations_are_scipys_with_ties_and_missing_values(coefficient):
    random = np.random.default_rng(3)
    first, second = random.integers(0, 4, (2, 40, 7)).astype(float)
    first[random.random(first.shape) < 0.2] = np.nan
    for value, x, y in zip(correlations(first, second, coefficient), first, second, strict=True):
        kept = ~np.isnan(x)
        varied = kept.sum() >= 3 and np.ptp(x[kept]) > 0 and np.ptp(y[kept]) > 0
        expected = SCIPY[coefficient](x[kept], y[kept]).statistic if varied else np.nan
        assert value == pytest.approx(expected, nan_ok=True)


def two_scorers(tasks=12, agents=5):
    """A table of true scores seen through the noise of two scorers."""
    random = np.random.default_rng(0)
    true = np.arange(agents) + random.normal(size=(tasks, 1))
    tables = {scorer: true + random.normal(size=true.shape) for scorer in ("small", "large")}
    cells = {scorer: {(f"t{t}", f"a{a}"): x for (t, a), x in np.ndenumerate(table)} for scorer, table in tables.items()}
    return tables, [ScoredBy(scorer, "gem-raw", scores) for scorer, scores in cells.items()]


@pytest.mark.parametrize("coefficient", ["pearson", "spearman", "kendall"])
def test_the_interval_is_the_percentiles_over_tasks_drawn_for_both_scorers_alike(coefficient):
    tables, scored = two_scorers()
    row = rows_of(compare_scorers(scored, seed=2, resamples=300), coefficient)["gem-raw"]
    drawn = np.random.default_rng(2).integers(12, size=(300, 12))
    values = [
        SCIPY[coefficient](tables["small"][tasks].mean(axis=0), tables["large"][tasks].mean(axis=0)).statistic
        for tasks in drawn
    ]
    assert (row.over_agents.low, row.over_agents.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))
    whole = SCIPY[coefficient](tables["small"].mean(axis=0), tables["large"].mean(axis=0)).statistic
    assert row.over_agents.value == pytest.approx(whole)


@pytest.mark.parametrize(
    ("value", "low", "high", "words"),
    [
        (0.9, 0.8, 1.0, "one and two rank the agents alike under m: Spearman 0.900 (0.80 to 1.00)."),
        (0.5, None, None, "are not shown to rank the agents alike under m: Spearman 0.500; alike would be"),
        (0.5, 0.3, 0.7, "do not rank the agents alike"),
    ],
)
def test_scorers_are_said_to_rank_alike_only_where_the_interval_shows_it(value, low, high, words):
    _, scored = two_scorers()
    found = compare_scorers(scored, **FAST)
    row = replace(found.rows[1], metric="m", first="one", second="two", over_agents=Estimate(value, low, high, 12))
    (said,) = replace(found, rows=(row,)).sentences()
    assert words in in_text(said, str)


# --- from run folders ----------------------------------------------------------------------------------------------


def test_run_folders_of_one_study_are_compared_by_their_folders_names_and_others_refused(
    study_file, toy_scorer, tmp_path
):
    def run(name, *study):
        made = goldless.evaluate(study_file(*study), metrics="gem-raw", scorer=toy_scorer(name=name), resamples=200)
        return goldless.save_run(made, tmp_path / name)

    folders = [run("first"), run("second")]
    found = compare_scorers(read_run_scores(folders), **FAST)
    assert {(row.first, row.second) for row in found.rows} == {("first", "second")}
    assert {(row.n_agents, row.over_agents.n) for row in found.rows} == {(3, 3)}
    # the scorers see the same words
    assert [row.over_agents.value for row in found.rows] == pytest.approx([1.0, 1.0, 1.0])
    with pytest.raises(UserError, match="Did you mean 'gem-raw'"):
        read_run_scores(folders, metrics=["gem-row"])
    with pytest.raises(UserError, match="different studies"):
        read_run_scores([folders[0], run("other", {"t1": {"ann": "x", "bob": "y", "cy": "z"}}, "other.jsonl")])
    with pytest.raises(UserError, match=r"no, .*nothing: not a run folder"):
        read_run_scores([tmp_path / "no", tmp_path / "nothing"])
