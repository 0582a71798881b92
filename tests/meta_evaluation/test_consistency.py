"""Correlations of agents' scores under two scorers against the GEM paper's tables and SciPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import goldless
from goldless.errors import UserError
from goldless.meta_evaluation.consistency import compare_scorers, correlations, scorer_consistency
from goldless.meta_evaluation.judges import ScoredBy, read_run_scores
from goldless.reports.findings import in_text
from goldless.runs.options import Options
from goldless.statistics.bootstrap import Estimate

FAST = {"resamples": 200}
SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}

# "Benchmarking LLMs' Judgments with No Gold Standard", table 6 (Llama-3.1 70B) and table 7 (8B), the columns GEM,
# GEM-S (abstract), GEM-S (ASSW) of 18 models, in the order of the tables.
BY_70B = """
16.31 5.25 0.52   20.08 7.62 2.82   19.28 6.31 1.40   20.04 7.17 2.27   20.32 7.63 2.50   24.11 9.53 4.25
25.77 11.52 5.89  14.73 4.09 -0.26  22.76 9.61 4.47   16.68 5.81 1.07   18.35 7.23 3.37   16.86 5.22 1.23
18.94 5.82 1.64   18.74 7.60 2.40   19.95 8.00 3.47   20.40 7.44 2.72   18.08 6.70 1.28   17.21 4.11 0.15
"""
BY_8B = """
42.55 14.44 10.25 48.01 18.73 12.78 45.62 15.86 10.72 55.94 24.29 17.22 49.77 19.58 13.34 56.49 24.16 16.52
60.94 27.94 20.21 40.65 12.86 9.49  52.94 22.43 16.06 43.50 15.49 11.24 46.39 18.60 13.68 45.18 15.61 11.25
47.29 17.03 11.85 46.51 18.33 12.69 48.29 19.59 13.91 47.84 17.84 12.52 45.01 15.90 11.10 43.90 13.34 9.94
"""
METRICS = ("gem", "gem-s[abstract]", "gem-s[assw]")
PEARSON = {"gem": 0.931, "gem-s[abstract]": 0.915, "gem-s[assw]": 0.899}
SPEARMAN = {"gem": 0.942, "gem-s[abstract]": 0.905, "gem-s[assw]": 0.895}


def published(text: str, scorer: str) -> list[ScoredBy]:
    table = np.array(text.split(), dtype=float).reshape(18, 3)
    return [
        ScoredBy(scorer, metric, {("all papers", f"model {i}"): s for i, s in enumerate(column)})
        for metric, column in zip(METRICS, table.T, strict=True)
    ]


def rows_of(found, coefficient):
    return {row.metric: row for row in found.rows if row.coefficient == coefficient}


def test_tables_6_and_7_of_the_gem_paper_give_its_three_correlations_which_are_pearsons():
    """The paper calls .93, .92 and .90 Spearman; they are Pearson, with two labels swapped."""
    found = compare_scorers([*published(BY_70B, "70b"), *published(BY_8B, "8b")], **FAST)
    for metric, value in PEARSON.items():
        assert round(rows_of(found, "pearson")[metric].over_agents.value, 3) == value
    for metric, value in SPEARMAN.items():
        assert round(rows_of(found, "spearman")[metric].over_agents.value, 3) == value


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
    (said,) = replace(found, rows=(row,)).findings()
    assert words in in_text(said, str)


# --- by evaluating, and from run folders ---------------------------------------------------------------------------


@pytest.mark.anyio
async def test_two_scorers_that_see_the_same_words_put_agents_in_the_same_order(study_file, toy_scorer):
    study = goldless.read_study(study_file())
    found = await scorer_consistency(study, Options(resamples=200), [toy_scorer(name="one"), toy_scorer(name="two")])
    assert [(row.first, row.second) for row in found.rows] == [("scripted:one", "scripted:two")] * 3
    assert [row.over_agents.value for row in found.rows] == pytest.approx([1.0, 1.0, 1.0])
    assert found.complete


@pytest.mark.anyio
async def test_the_same_scorer_twice_is_refused(study_file, toy_scorer):
    study, options = goldless.read_study(study_file()), Options(metrics=("gem-raw",), resamples=200)
    with pytest.raises(UserError, match="scorers must be different, got scripted:one twice"):
        await scorer_consistency(study, options, [toy_scorer(name="one"), toy_scorer(name="one")])


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
    with pytest.raises(UserError, match="Did you mean 'gem-raw'"):
        read_run_scores(folders, metrics=["gem-row"])
    with pytest.raises(UserError, match="different studies"):
        read_run_scores([folders[0], run("other", {"t1": {"ann": "x", "bob": "y", "cy": "z"}}, "other.jsonl")])
    with pytest.raises(UserError, match=r"no, .*nothing: not a run folder"):
        read_run_scores([tmp_path / "no", tmp_path / "nothing"])
