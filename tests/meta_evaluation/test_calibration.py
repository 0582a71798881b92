"""Agents on the people's scale, from few labels."""

from __future__ import annotations

import numpy as np
import pytest

import goldless
from goldless.errors import GoldlessError, MetricError, UserError
from tests.support.study_files import study_folder, write_rows

TASKS, LABELLED = 30, 12


@pytest.fixture
def made(tmp_path):
    """A study of three agents, labels on the first twelve tasks, and a judge that is one point too kind to bob."""
    random = np.random.default_rng(7)
    quality = {"ann": 4.0, "bob": 3.0, "cy": 2.9}
    rows, labels, scores = [], [], ["task,agent,score"]
    for t in range(TASKS):
        for agent, level in quality.items():
            value = level + random.normal()
            rows.append({"task": f"t{t:02}", "agent": agent, "text": f"answer {t} of {agent}{' indeed' * (t % 4)}"})
            scores.append(f"t{t:02},{agent},{value + (agent == 'bob') + 0.2 * random.normal()}")
            if t < LABELLED:
                labels += [
                    {"task": f"t{t:02}", "agent": agent, "rater": r, "score": value + d}
                    for r, d in (("p", 0.1), ("q", -0.1))
                ]
    (tmp_path / "kind.csv").write_text("\n".join(scores) + "\n")
    return study_folder(tmp_path / "study", responses=rows, labels=labels), tmp_path / "kind.csv", labels


def scores_file(path, score):
    """A file with a score of each response, by a function of task and agent."""
    cells = [f"t{t:02},{agent},{score(t, agent)}\n" for t in range(TASKS) for agent in ("ann", "bob", "cy")]
    path.write_text("task,agent,score\n" + "".join(cells))
    return path


def test_a_judge_that_favours_an_agent_does_not_move_it(made):
    folder, judge, _ = made
    found = goldless.calibrate(folder, scores=judge)
    bob = next(one for one in found.agents if one.agent == "bob")
    assert bob.mean.low < 3.0 < bob.mean.high
    assert bob.labels_worth > LABELLED
    assert (found.labelled, found.tasks) == (LABELLED, TASKS)


def test_comparisons_are_decided_or_say_what_it_takes(made):
    folder, judge, _ = made
    first, _, last = goldless.calibrate(folder, scores=judge).comparisons
    assert (first.first, first.second, first.verdict) == ("ann", "bob", "ann is better")
    assert last.verdict.startswith("undecided: about ")
    assert not last.decided


def test_the_next_tasks_are_unlabelled_and_can_be_given_back_once_labelled(made, tmp_path):
    folder, judge, labels = made
    found = goldless.calibrate(folder, scores=judge, next_count=6)
    names = [one.task for one in found.next_labels]
    assert len(names) == 6
    assert not set(names) & {f"t{t:02}" for t in range(LABELLED)}
    drawn = tmp_path / "next.csv"
    drawn.write_text("task,chance\n" + "".join(f"{one.task},{one.chance}\n" for one in found.next_labels))
    with pytest.raises(UserError, match="6 of the 6 drawn tasks have no labels"):
        goldless.calibrate(folder, scores=judge, drawn=[drawn])
    more = [
        {"task": task, "agent": agent, "rater": "p", "score": score}
        for task in names
        for agent, score in (("ann", 4), ("bob", 3), ("cy", 3))
    ]
    again = goldless.calibrate(study_folder(folder, labels=labels + more), scores=judge, drawn=[drawn])
    assert again.labelled == LABELLED + 6
    assert again.agents[0].mean.n == LABELLED + 6


def test_without_any_label_the_next_tasks_are_drawn_at_random(made):
    folder, _, _ = made
    (folder / "labels.jsonl").unlink()
    found = goldless.calibrate(folder, next_count=10)
    assert [one.chance for one in found.next_labels] == pytest.approx([10 / TASKS] * 10)
    assert "at random" in found.rule


def test_metrics_of_a_run_folder_are_used_without_computing_them_again(made, tmp_path):
    folder, _, labels = made
    goldless.save_run(goldless.evaluate(folder, metrics="length,rouge-l"), tmp_path / "run")
    with pytest.raises(UserError, match=r"has no metric 'rouge-1'\. Did you mean 'rouge-l'"):
        goldless.calibrate(tmp_path / "run", metrics="rouge-1")
    write_rows(tmp_path / "labels.jsonl", labels)
    found = goldless.calibrate(tmp_path / "run", labels=tmp_path / "labels.jsonl", metrics="rouge-l")
    assert found.proxies == ("rouge-l",)
    assert found.evaluation is None


def test_the_average_of_several_proxies_is_one(made, tmp_path):
    folder, judge, _ = made
    random = np.random.default_rng(0)
    other = scores_file(tmp_path / "other.csv", lambda _task, _agent: random.normal())
    found = goldless.calibrate(folder, scores=[judge, other], average=True)
    assert found.proxies == ("mean of kind+other",)
    assert list(found.agents[0].weights) == ["mean of kind+other"]


def test_a_binary_judge_gets_corrected_shares(made, tmp_path):
    """ann: the judge passes 9 of 18 unlabelled, 5 of 6 good, 1 of 6 bad: (0.5 + 5/6 - 1) / (10/6 - 1) = 0.5."""
    folder, _, labels = made
    said = [{**row, "score": int(int(row["task"][1:]) < 6)} for row in labels[::2]]
    file = scores_file(tmp_path / "judge.csv", lambda t, _: t % 2 if t >= LABELLED else int(t in {1, 2, 3, 4, 5, 6}))
    share = goldless.calibrate(study_folder(folder, labels=said), scores=file).shares[0]
    assert (share.sensitivity, share.specificity, share.judged) == pytest.approx((5 / 6, 5 / 6, 0.5))
    assert share.share.value == pytest.approx(0.5)
    assert (share.good, share.bad) == (6, 6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows[:-2], "1 partly labelled: t11 (no label for cy)"),
        (lambda rows: rows[:12], "at least 3 labelled tasks are needed with 1 proxy, got 2"),
        (lambda rows: [{**r, "score": "good"} for r in rows], "score must be a finite number"),
        (lambda rows: [{**r, "criterion": c} for r in rows for c in ("style", "facts")], "must be of one criterion"),
        (
            lambda rows: [{"task": "t00", "first": "ann", "second": "bob", "rater": "p", "preference": 1}],
            "only preferences; calibrating needs ratings",
        ),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_used_are_refused(made, change, said):
    folder, judge, labels = made
    with pytest.raises(GoldlessError) as caught:
        goldless.calibrate(study_folder(folder, labels=change(labels)), scores=judge)
    assert said in str(caught.value)


def test_nothing_named_and_scores_that_say_nothing_are_refused(made, tmp_path):
    folder, judge, _ = made
    with pytest.raises(UserError, match="nothing to calibrate"):
        goldless.calibrate(folder)
    with pytest.raises(UserError, match="--next must be from 0 to 18"):
        goldless.calibrate(folder, scores=judge, next_count=40)
    with pytest.raises(MetricError, match="scores raters, not responses"):
        goldless.calibrate(folder, metrics="tvd-mi[labels]")
    flat = scores_file(tmp_path / "flat.csv", lambda _task, _agent: 1)
    with pytest.raises(UserError, match="flat: the same score for all responses"):
        goldless.calibrate(folder, scores=flat)


def test_the_command_writes_the_next_tasks_with_their_chances_and_says_how_to_go_on(goldless, made, tmp_path):
    folder, judge, _ = made
    ended = goldless("calibrate", folder, "--scores", judge, "--next", 5, "--out", tmp_path / "out")
    assert (ended.code, "add --drawn" in ended.err) == (0, True)
    assert (tmp_path / "out" / "next_labels.csv").read_text().startswith("task,expected_change,chance\n")


@pytest.mark.recorded
def test_twenty_labels_are_worth_twenty_to_forty_nine_on_xsum(recorded, tmp_path):
    """n / (1 - R² (1 - n/T)) with the best judge of each agent on all 100 tasks: 20 to 49 labels.

    20 labelled tasks estimate it with some noise; their intervals must hold the mean over all 100 tasks.
    """
    study = goldless.read_study(recorded / "xsum_peer_review")
    rows = [
        {"task": r.task, "agent": r.agent, "rater": r.rater, "score": r.score}
        for r in study.ratings()
        if int(r.task.rpartition("-")[2]) % 5 == 0
    ]
    labels = write_rows(tmp_path / "labels.jsonl", rows)
    found = goldless.calibrate(study, labels=labels, reviewers="gpt4", scale="100-level", recorded=True)
    assert found.labelled == 20
    whole: dict[str, list[float]] = {}
    for rating in study.ratings():
        whole.setdefault(rating.agent, []).append(rating.score)
    held = [one.mean.low <= np.mean(whole[one.agent]) <= one.mean.high for one in found.agents]
    assert sum(held) >= 6
    assert all(14 <= one.labels_worth <= 60 for one in found.agents)
