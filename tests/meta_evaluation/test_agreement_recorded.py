"""Agreement on the recorded XSum study: the published accuracies, Spearman coefficients and labels.

Accuracies: Auto-PRE, table 3; Spearman: its table 4. Kendall's tau and Spearman of PRE's own table 3 rest on outputs
that are not recorded: of the six reviewers that both have, none of its cells comes out of these.
"""

from __future__ import annotations

import anyio
import numpy as np
import pytest

import goldless
from goldless.meta_evaluation.agreement import agree
from goldless.runs.options import Options

pytestmark = pytest.mark.recorded
FAST = Options.of(metrics=(), resamples=200, recorded=True)

PUBLISHED = {"gpt4": (0.6893, 0.4801), "chatEval": (0.5694, 0.1767), "chatglm_pro": (0.6553, None)}
"""On 5 levels; all reviewers, panels and scales are in runs/test_recorded_reviews.py, by ``review``."""


@pytest.fixture(scope="module")
def study(recorded) -> goldless.Study:
    return goldless.read_study(recorded / "xsum_peer_review")


def held(study, *, scale, **options):
    return anyio.run(lambda: agree(study, FAST.changed(**options), scale=scale)).criteria[0]


@pytest.fixture(scope="module")
def by_gpt4(study):
    return held(study, reviewers=["gpt4"], scale="5-level")


def test_reviewers_agree_with_people_as_published(study):
    found = held(study, reviewers=list(PUBLISHED), scale="5-level", convention="paper")
    for name, (accuracy, spearman) in PUBLISHED.items():
        judge = found.judge(name)
        assert round(judge.accuracy.share.value, 4) == accuracy
        assert (judge.accuracy.asked, judge.accuracy.share.n) == (1793, 1793)
        if spearman is not None:
            assert round(judge.correlation("spearman").value, 4) == spearman


def test_the_labels_are_as_published_and_the_raters_names_are_no_people(by_gpt4):
    """1793 of 2100 pairs decided; the five ratings of each summary are recorded in ascending order."""
    found = by_gpt4
    assert (found.labels.pairs, found.labels.decided, found.labels.tied) == (2100, 1793, 307)
    assert (found.labels.ratings, found.labels.preferences, found.labels.raters) == (3500, 3660, 5)
    assert not found.ceiling.named
    assert (found.ceiling.alpha.n_units, found.ceiling.alpha.n_values) == (700, 3500)


def test_alpha_within_tasks_without_the_largest_and_smallest_label_is_that_of_another_implementation(study, by_gpt4):
    """PRE, 4.5, has .4581 for ratings over XSum and a second data set that is not here: XSum alone must be near it."""
    import evalica  # noqa: PLC0415
    import pandas as pd  # noqa: PLC0415

    place = {agent.agent: i for i, agent in enumerate(study.agents)}
    ratings, preferences = {}, {}
    for label in study.ratings():
        ratings.setdefault(label.task, {}).setdefault(label.agent, []).append(label.score)
    for label in study.preferences():
        pair = tuple(sorted((label.first, label.second), key=place.get))
        sign = 1 if pair == (label.first, label.second) else -1
        preferences.setdefault(label.task, {}).setdefault(pair, []).append(sign * label.preference)
    found = by_gpt4.ceiling.within
    assert found["ratings"].value == pytest.approx(0.4581, abs=0.01)
    for name, by_task in (("ratings", ratings), ("preferences", preferences)):
        alphas = []
        for units in by_task.values():
            table = pd.DataFrame({f"{i}": sorted(values)[1:-1] for i, values in enumerate(units.values())})
            alphas.append(evalica.alpha(table, distance="ordinal").alpha)
        assert found[name].value == pytest.approx(np.nanmean(alphas))
        assert found[name].n == np.isfinite(alphas).sum()


def test_by_default_what_is_missing_is_left_out_and_counted(by_gpt4):
    """On task xsum-092 all seven medians are 4, so that no rank correlation is defined there."""
    judge = by_gpt4.judges[0]
    assert (judge.accuracy.asked, judge.accuracy.missing) == (1793, judge.accuracy.asked - judge.accuracy.share.n)
    assert judge.accuracy.missing > 0
    within = judge.correlation("spearman")
    assert (within.asked, within.n, within.undefined) == (100, 99, 1)


def test_readers_preferences_have_a_ceiling_on_every_criterion(study):
    """100 questions, five clinicians, three criteria; 1,496 preferences. Scores: the model is always better."""
    path = study.path.parent / "chq_readers"
    if not path.is_dir():
        pytest.skip("the readers' labels are not recorded here")
    readers = goldless.read_study(path)
    scores = {
        "model": {(task, agent): float(agent == "model") for task in readers.tasks for agent in ("human", "model")}
    }
    found = anyio.run(lambda: agree(readers, FAST, scores=scores))
    assert [one.criterion for one in found.criteria] == ["completeness", "correctness", "conciseness"]
    assert sum(one.labels.preferences for one in found.criteria) == 1496
    for one in found.criteria:
        assert (one.ceiling.source, one.ceiling.n_raters) == ("preferences", 5)
        assert one.judges[0].accuracy.share.n == one.labels.decided
