"""Agreement with people on small studies, against numbers worked by hand and against scipy."""

from __future__ import annotations

import anyio
import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr

import goldless
from goldless.errors import MetricError, StudyError, UserError
from goldless.meta_evaluation.agreement import agree, spearman_p
from goldless.runs.options import Options
from tests.support.study_files import response_rows, study_folder

FAST = {"metrics": (), "resamples": 200}
AGENTS = ("ann", "bob", "cy")


def study_of(path, labels, *, judgements=()):
    """Three agents on the tasks of these labels."""
    texts = {label["task"]: {agent: f"{agent} on {label['task']}" for agent in AGENTS} for label in labels}
    more = {"judgements": judgements} if judgements else {}
    return goldless.read_study(study_folder(path, responses=response_rows(texts), labels=labels, **more))


def rating(task, agent, score, rater="p", **more):
    return {"task": task, "agent": agent, "rater": rater, "score": score, **more}


def held(study, scores=None, **options):
    own = {key: options.pop(key) for key in list(options) if key in {"scale", "measurement"}}
    return anyio.run(lambda: agree(study, Options.of(**{**FAST, **options}), scores=scores, **own))


HAND = [
    *(rating("t1", a, s) for a, s in zip(AGENTS, (3, 2, 1), strict=True)),
    *(rating("t2", a, s) for a, s in zip(AGENTS, (1, 1, 2), strict=True)),
]
SCORES = {
    "mine": {
        ("t1", "ann"): 0.9,
        ("t1", "bob"): 0.1,
        ("t1", "cy"): 0.1,
        ("t2", "ann"): 0.5,
        ("t2", "bob"): None,
        ("t2", "cy"): 0.2,
    }
}


def test_pairs_are_counted_as_worked_by_hand(tmp_path):
    """t1: ann-bob and ann-cy right, bob-cy tied: 2.5. t2: ann-bob is a tie of people, ann-cy wrong, bob-cy missing."""
    found = held(study_of(tmp_path, HAND), SCORES).criteria[0]
    labels, own = found.labels, found.judges[0].accuracy
    assert (labels.pairs, labels.decided, labels.tied, labels.raters) == (6, 5, 1, 1)
    assert own.share.value == pytest.approx(2.5 / 4)
    assert (own.asked, own.share.n, own.missing, own.tied) == (5, 4, 1, 1)


def test_with_the_papers_convention_missing_is_half_and_undefined_is_zero(tmp_path):
    scores = {"flat": {(t, a): 1.0 for t in ("t1", "t2") for a in AGENTS}, **SCORES}
    found = held(study_of(tmp_path, HAND), scores, convention="paper").criteria[0]
    own = found.judge("mine").accuracy
    assert own.share.value == pytest.approx((2.5 + 0.5) / 5)
    assert (own.share.n, own.missing) == (5, 0)
    flat = found.judge("flat").correlation("spearman")
    assert (flat.value, flat.n, flat.undefined) == (0, 2, 2)
    default = held(study_of(tmp_path, HAND), scores).criteria[0].judge("flat").correlation("spearman")
    assert (default.value, default.n, default.undefined, default.note) == (None, 0, 2, "not defined on any task")


def random_study(path, *, tasks=30, raters=4, seed=5):
    random = np.random.default_rng(seed)
    quality = random.normal(size=(tasks, 3)) + np.array([0.8, 0, -0.8])
    said = np.round(2.5 + quality[:, :, None] + random.normal(size=(tasks, 3, raters)))
    labels = [
        rating(f"t{t}", a, float(said[t, j, r]), rater=f"r{r}")
        for t in range(tasks)
        for j, a in enumerate(AGENTS)
        for r in range(raters)
    ]
    score = np.round(quality + random.normal(size=quality.shape), 1)
    given = {(f"t{t}", a): float(score[t, j]) for t in range(tasks) for j, a in enumerate(AGENTS)}
    return study_of(path, labels), said, score, given


def test_p_of_spearman_over_six_agents_is_that_of_the_tvd_mi_paper():
    """Its table 2, agent means: .4286 over 6 agents, p = .3965."""
    assert spearman_p(0.4286, 6) == pytest.approx(0.3965, abs=1e-4)
    assert spearman_p(1.0, 6) == 0
    assert spearman_p(0.5, 2) is None


def test_correlations_within_tasks_over_responses_and_over_agents_are_those_of_scipy(tmp_path):
    study, said, score, given = random_study(tmp_path)
    judge = held(study, {"mine": given}).criteria[0].judges[0]
    human = np.median(said, axis=2)
    for name, other in (("spearman", spearmanr), ("kendall_tau_b", kendalltau)):
        rows = [other(x, y).statistic for x, y in zip(score, human, strict=True) if np.ptp(x) and np.ptp(y)]
        within = judge.correlation(name)
        assert within.value == pytest.approx(np.mean(rows))
        assert (within.asked, within.n, within.undefined) == (30, len(rows), 30 - len(rows))
        pooled = judge.correlation(name, "responses")
        assert pooled.value == pytest.approx(other(score.ravel(), human.ravel()).statistic)
        assert pooled.n == 90
        assert pooled.p == (pytest.approx(other(score.ravel(), human.ravel()).pvalue) if name == "spearman" else None)
        agents = judge.correlation(name, "agents")
        assert agents.value == pytest.approx(other(score.mean(axis=0), human.mean(axis=0)).statistic)
        assert (agents.n, agents.method) == (3, "percentile")
        for one in (within, pooled):
            assert one.low < one.value < one.high
    signs = [np.sign(x[:, :, None] - x[:, None, :]) for x in (score, human)]
    assert judge.correlation("kendall_tau_a").value == pytest.approx((signs[0] * signs[1]).sum() / (30 * 6))


def test_each_rater_is_held_against_the_median_of_the_others(tmp_path):
    study, said, _, given = random_study(tmp_path)
    ceiling = held(study, {"mine": given}).criteria[0].ceiling
    earned, spearman = {r: [] for r in range(4)}, []
    for t in range(30):
        rows = []
        for r in range(4):
            own, others = said[t, :, r], np.median(np.delete(said[t], r, axis=1), axis=1)
            for i, j in ((0, 1), (0, 2), (1, 2)):
                if others[i] != others[j]:
                    earned[r].append((1 + np.sign(own[i] - own[j]) * np.sign(others[i] - others[j])) / 2)
            if np.ptp(own) and np.ptp(others):
                rows.append(spearmanr(own, others).statistic)
        spearman += [np.mean(rows)] if rows else []
    assert ceiling.accuracy.value == pytest.approx(np.mean([c for own in earned.values() for c in own]))
    assert ceiling.spearman.value == pytest.approx(np.mean(spearman))
    assert [r.accuracy.value for r in ceiling.raters] == pytest.approx([np.mean(own) for own in earned.values()])
    assert ceiling.tied == 30 * 3 * 4 - sum(map(len, earned.values()))
    assert (ceiling.source, ceiling.n_raters, ceiling.named) == ("ratings", 4, True)
    assert ceiling.accuracy.low < ceiling.accuracy.value < ceiling.accuracy.high


def test_raters_whose_names_only_sort_the_ratings_are_no_people_and_the_ceiling_says_so(tmp_path):
    """Sorted ratings: with names taken at their word the lowest of five would be one rater throughout."""
    random = np.random.default_rng(0)
    said = np.sort(random.integers(1, 6, size=(20, 3, 5)), axis=2)
    labels = [
        rating(f"t{t}", a, int(said[t, j, r]), rater=f"r{r}")
        for t in range(20)
        for j, a in enumerate(AGENTS)
        for r in range(5)
    ]
    ceiling = held(study_of(tmp_path, labels), {"m": {("t0", "ann"): 1.0}}).criteria[0].ceiling
    assert not ceiling.named
    assert ceiling.raters == ()
    assert "names are not those of people" in ceiling.note
    # ratings at random: people agree as by chance once they are dealt again, not as sorted columns would
    assert ceiling.accuracy.value == pytest.approx(0.5, abs=0.1)
    assert ceiling.accuracy.n < 20 * 3 * 5


NONE = None
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NONE, NONE, NONE],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NONE, 3],
    [NONE, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NONE],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NONE],
]
"""Four observers, twelve units: K. Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011, section C."""


@pytest.mark.parametrize(("measurement", "stated"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_published_example_is_as_published(tmp_path, measurement, stated):
    labels = [
        rating(f"t{unit}", "ann", value, rater=f"r{observer}")
        for observer, row in enumerate(OBSERVERS)
        for unit, value in enumerate(row)
        if value is not None
    ]
    scores = {"mine": {("t0", "ann"): 1.0}}
    found = held(study_of(tmp_path, labels), scores, measurement=measurement).criteria[0].ceiling.alpha
    assert round(found.estimate.value, 3) == stated
    assert (found.n_units, found.n_values, found.unpaired) == (11, 40, 1)
    assert found.estimate.low < found.estimate.value < found.estimate.high


def preference(task, first, second, value, rater):
    return {"task": task, "first": first, "second": second, "rater": rater, "preference": value}


def test_preferences_alone_give_accuracy_a_majority_ceiling_and_no_correlations(tmp_path):
    """ann over bob: 2 of 3 beyond 0.5, margin 1, a tie at 2. bob over cy: all three."""
    labels = [
        *(preference("t1", "ann", "bob", v, r) for v, r in ((1, "p"), (1, "q"), (-1, "s"))),
        *(preference("t1", "cy", "bob", v, r) for v, r in ((-1, "p"), (-2, "q"), (-1, "s"))),
    ]
    scores = {"mine": {("t1", "ann"): 0.1, ("t1", "bob"): 0.5, ("t1", "cy"): 0.2}}
    found = held(study_of(tmp_path, labels), scores).criteria[0]
    assert (found.labels.pairs, found.labels.decided, found.labels.margin) == (2, 1, 2)
    assert found.judges[0].accuracy.share.value == 1
    assert found.judges[0].correlations == ()
    # ann-bob: p and q each face a split of the other two, s faces two: wrong. cy-bob: each agrees with two
    assert (found.ceiling.accuracy.value, found.ceiling.accuracy.n, found.ceiling.tied) == (3 / 4, 4, 2)
    loose = held(study_of(tmp_path, labels), scores, margin=1).criteria[0]
    assert (loose.labels.decided, loose.judges[0].accuracy.share.value) == (2, 0.5)


def test_one_rater_s_preferences_decide_by_default_and_never_in_the_papers(tmp_path):
    labels = [preference("t1", "ann", "bob", 1, "p"), preference("t2", "ann", "cy", -1, "p")]
    scores = {"mine": {(t, a): s for t in ("t1", "t2") for a, s in zip(AGENTS, (3, 2, 1), strict=True)}}
    found = held(study_of(tmp_path, labels), scores).criteria[0]
    assert (found.labels.margin, found.judges[0].accuracy.share.value) == (1, 0.5)
    paper = held(study_of(tmp_path, labels), scores, convention="paper").criteria[0]
    assert (paper.labels.decided, paper.judges[0].accuracy.share.value) == (0, None)
    assert any("no pair of responses has a decided label" in note for note in paper.notes)


def test_every_criterion_is_reported_and_one_can_be_named(tmp_path):
    turned = [{**row, "score": -row["score"], "criterion": "brevity"} for row in HAND]
    labels = [{**row, "criterion": "depth"} for row in HAND] + turned
    study = study_of(tmp_path, labels)
    both = held(study, SCORES)
    assert [one.criterion for one in both.criteria] == ["depth", "brevity"]
    values = [one.judges[0].accuracy.share.value for one in both.criteria]
    assert values == [2.5 / 4, 1 - 2.5 / 4]
    assert held(study, SCORES, criterion="brevity").criteria[0].judges[0].accuracy.share.value == values[1]
    with pytest.raises(UserError, match=r"'depht'. Did you mean 'depth'\?.*Criteria: depth, brevity"):
        held(study, SCORES, criterion="depht")


def test_judges_are_compared_on_what_both_judged(tmp_path):
    study, _, _, given = random_study(tmp_path)
    worse = {key: -value for key, value in given.items()}
    found = held(study, {"mine": given, "turned": worse}).criteria[0]
    accuracy, spearman = found.comparisons
    own, other = (judge.accuracy.share.value for judge in found.judges)
    assert accuracy.difference.value == pytest.approx(own - other)
    assert (accuracy.first, accuracy.second, accuracy.statistic) == ("mine", "turned", "accuracy")
    assert accuracy.difference.low < accuracy.difference.value < accuracy.difference.high
    assert accuracy.p_holm < 0.05
    assert spearman.difference.value == pytest.approx(2 * found.judges[0].correlation("spearman").value)


def judged(reviewer, task, scores):
    return [
        {"reviewer": reviewer, "format": "5-level", "task": task, "agent": a, "output": s}
        for a, s in zip(AGENTS, scores, strict=True)
    ]


def test_recorded_reviewers_stand_alone_and_as_a_panel(tmp_path):
    """one: 2.5 of 3 on t1; two: all wrong. Equal votes of z-scores."""
    rows = [*judged("one", "t1", "533"), *judged("two", "t1", "123"), *judged("ann", "t1", "531")]
    study = study_of(tmp_path, HAND[:3], judgements=rows)
    found = held(study, reviewers=["all"], own_family=True).criteria[0]
    assert [(j.name, j.kind) for j in found.judges][-1] == ("panel", "panel")
    assert [j.accuracy.share.value for j in found.judges[:3]] == pytest.approx([2.5 / 3, 0, 1])
    ann = held(study, reviewers=["ann"]).criteria[0].judges[0]
    # its own response is not its to judge
    assert (ann.accuracy.asked, ann.accuracy.share.value) == (1, 1)
    with pytest.raises(UserError, match="Name reviewers, or use all"):
        held(study, SCORES, scale="5-level")


def test_names_must_differ_and_something_must_be_named(tmp_path):
    rows = judged("mine", "t1", "531")
    study = study_of(tmp_path, HAND, judgements=rows)
    with pytest.raises(UserError, match="'mine' more than once"):
        held(study, SCORES, reviewers=["mine"])
    with pytest.raises(UserError, match="nothing to compare with people"):
        held(study)
    with pytest.raises(UserError, match="above 0"):
        held(study, SCORES, margin=0)
    with pytest.raises(UserError, match="resamples must be a whole number of at least 100, got 5"):
        held(study, SCORES, resamples=5)


def test_a_study_without_labels_is_refused(tmp_path):
    study_folder(tmp_path, responses=[{"task": "t", "agent": a, "text": a} for a in AGENTS])
    with pytest.raises(MetricError, match=r"has no labels. Put responses.csv and labels.csv into one folder"):
        held(goldless.read_study(tmp_path), SCORES)


def test_a_file_of_scores_is_read_with_every_problem_named_at_once(tmp_path):
    study = study_of(tmp_path, HAND)
    good = tmp_path / "good.csv"
    good.write_text("task,agent,score\nt1,ann,2\nt1,bob,\nt1,cy,1\n")
    own = held(study, good).criteria[0].judges[0]
    assert (own.name, own.accuracy.asked, own.accuracy.share.n) == ("good", 3, 1)
    bad = tmp_path / "bad.csv"
    bad.write_text(
        "metric,task,agent,score\nm,t1,ann,nan\nm,t1,annn,1\nm,t7,bob,1\nm,t1,cy,1\nm,t1,cy,2\nm,t2,annn,1\n"
    )
    with pytest.raises(StudyError) as caught:
        held(study, bad)
    messages = [str(problem) for problem in caught.value.problems]
    assert len(messages) == 4
    assert "bad.csv:2: score must be a finite number, got str 'nan'" in messages
    assert any("agent 'annn' is not in" in m and "2 rows" in m and "Did you mean 'ann'" in m for m in messages)
    assert any("task 't7' is not in" in m for m in messages)
    assert any("m already has a score for agent 'cy' on task 't1'" in m for m in messages)
    with pytest.raises(StudyError, match="no such file"):
        held(study, tmp_path / "absent.csv")
