"""A watch: anchors asked again, and who changed."""

from __future__ import annotations

import json
import subprocess
import sys

import anyio
import pytest

import goldless
from goldless.apps.watch import watch as watch_in_python
from goldless.apps.watch.watching import watch, watched
from goldless.errors import UserError
from goldless.models.journal import Journal
from goldless.records import CallFailure
from goldless.runs.options import Options
from tests.support.paid_twice import called_after_reply, counts

TASKS = 16


class Judge:
    """A scripted judge whose ratings can be moved, and whose calls can fail."""

    def __init__(self, name="judge"):
        self.moved, self.fails_after = 0, None
        self.model = goldless.ScriptedModel(answers=self.answer, name=name)

    def answer(self, request):
        if self.fails_after is not None and len(self.model.calls) > self.fails_after:
            return CallFailure("connection", "gone")
        # a fixed rating of each answer, 2 to 4
        return str(3 + sum(map(ord, request.messages[-1].content)) % 2 + self.moved)


@pytest.fixture
def anchors(tmp_path):
    rows = [f"t{t},{agent},task {t},{agent} answers {t}" for t in range(TASKS) for agent in ("ann", "bob")]
    path = tmp_path / "anchors.csv"
    path.write_text("task,agent,prompt,text\n" + "\n".join(rows) + "\n")
    return goldless.read_study(path)


@pytest.fixture
def judge():
    return Judge()


@pytest.fixture
def ask(anchors, judge, tmp_path):
    def run(study=anchors, by=judge, **more):
        options = Options.of(metrics=(), reviewers=(by.model,), scale="5-level", journal=tmp_path / "journal.sqlite")
        return anyio.run(lambda: watch(study, options, folder=tmp_path / "watch", **more))

    return run


def scores(path, values, tasks=None):
    names = tasks or [f"s{i}" for i in range(len(values))]
    path.write_text("task,score\n" + "".join(f"{t},{v}\n" for t, v in zip(names, values, strict=True)))
    return path


def test_every_occasion_asks_all_anchors_anew(ask, judge):
    ask()
    assert len(judge.model.calls) == 4 * 2 * TASKS
    found = ask()
    assert len(judge.model.calls) == 5 * 2 * TASKS
    assert (found.who, found.occasions) == (None, 2)
    assert found.verdict == "No change is shown after 2 occasions."


def test_a_judge_that_changes_is_named(ask, judge):
    ask()
    judge.moved = -1
    found = ask()
    assert found.who == "judge"
    assert found.processes[0].state == "CHANGED on occasion 2: lower"


def test_a_system_that_changes_under_a_quiet_judge_is_named(ask, tmp_path):
    for night in range(4):
        level = 4.0 if night < 3 else 1.0
        values = [level + 0.01 * ((7 * i + 3 * night) % 11) for i in range(40)]
        found = ask(stream=scores(tmp_path / f"night{night}.csv", values))
    assert found.who == "system"
    assert "2 more occasions" in found.verdict
    ask()
    assert "more occasions" not in ask().verdict


def test_scores_that_fall_because_the_judge_changed_are_the_judges(ask, judge, tmp_path):
    for night in range(4):
        judge.moved = -1 if night == 3 else 0
        values = [4.0 + judge.moved + 0.01 * ((7 * i + 3 * night) % 11) for i in range(40)]
        found = ask(stream=scores(tmp_path / f"night{night}.csv", values))
    assert found.who == "judge"
    assert "say nothing about the system" in found.verdict


def test_an_interrupted_occasion_is_not_added_and_pays_once(ask, judge, tmp_path):
    ask()
    done = len(judge.model.calls)
    judge.fails_after = done + 5
    found = ask()
    assert found.open > 0
    assert found.occasions == 1
    judge.fails_after = None
    assert ask().occasions == 2
    journal = Journal(tmp_path / "journal.sqlite")
    assert called_after_reply(journal) == []
    assert counts(journal)["calls"] == 5 * 2 * TASKS
    journal.close()


ADDS = """
import sys
from pathlib import Path
from goldless.errors import UserError
from goldless.apps.watch.watching import Occasion, add_occasion, read_watch
folder = Path(sys.argv[1])
print("ready", flush=True)
input()
added = 0
for _ in range(40):
    _, known = read_watch(folder)
    try:
        add_occasion(folder, known, Occasion(len(known) + 1, "now", "judge", {"a": [1.0]}, 0))
        added += 1
    except UserError:
        pass
print(added)
"""


def test_of_two_processes_that_add_at_once_each_keeps_what_the_other_added(ask, tmp_path):
    ask()
    command = [sys.executable, "-c", ADDS, str(tmp_path / "watch")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    added = sum(int(process.communicate(timeout=60)[0]) for process in processes)
    lines = (tmp_path / "watch" / "occasions.jsonl").read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == list(range(1, 2 + added))


def test_other_anchors_another_judge_and_another_rate_are_refused_before_any_call(ask, judge, anchors):
    ask()
    calls = len(judge.model.calls)
    with pytest.raises(UserError, match="watches anchors"):
        ask(study=anchors.subset(tasks=["t1", "t2"]))
    other = Judge("other")
    with pytest.raises(UserError, match="watches reviewer"):
        ask(by=other)
    with pytest.raises(UserError, match=r"watches --alpha 0\.05, got 0\.1"):
        ask(alpha=0.1)
    assert len(judge.model.calls) == calls
    assert other.model.calls == []


def test_the_same_stream_twice_and_a_stream_of_other_tasks_are_refused(ask, tmp_path):
    names = ["a", "b"]
    for night in range(2):
        ask(stream=scores(tmp_path / f"n{night}.csv", [1.0 + night, 2.0], names))
    with pytest.raises(UserError, match="the same scores were given on occasion 1"):
        ask(stream=tmp_path / "n0.csv")
    with pytest.raises(UserError, match="must have the responses of the first occasion"):
        ask(stream=scores(tmp_path / "n2.csv", [1.0], ["c"]))
    assert watched(tmp_path / "watch").occasions == 2
    bad = tmp_path / "bad.csv"
    bad.write_text("task,score\na,high\n")
    with pytest.raises(goldless.StudyError, match="score must be"):
        ask(stream=bad)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metrics": ()}, "name what to watch"),
        ({"metrics": ("rouge-l",)}, "asks no model"),
        ({"metrics": ("gem-raw", "mi")}, "one metric can be watched"),
        ({"metrics": (), "reviewers": ("embedded", "openai:x")}, "one reviewer can be watched"),
    ],
)
def test_what_cannot_be_watched_is_refused_and_leaves_no_folder(anchors, tmp_path, options, said):
    with pytest.raises(goldless.GoldlessError, match=said):
        anyio.run(lambda: watch(anchors, Options.of(**options), folder=tmp_path / "watch"))
    assert not (tmp_path / "watch").exists()


def test_a_scorer_behind_the_same_name_that_changes_is_found(anchors, tmp_path):
    """Log-probabilities without noise: another model behind the same name gives other values to each anchor."""
    level = [0.0]

    def logprobs(context, target):
        near = 0.5 if target in context else 0.0
        return [-1.0 + near - level[0] * (0.1 + 0.01 * (len(target) % 3)) * (1 - near)] * len(target.split())

    options = Options.of(
        metrics=("bartscore-recall",),
        scorer=goldless.ScriptedModel(logprobs=logprobs, name="server"),
        journal=tmp_path / "journal.sqlite",
    )
    ask = lambda: anyio.run(lambda: watch(anchors, options, folder=tmp_path / "watch"))  # noqa: E731
    assert ask().who is None
    level[0] = 1.0
    found = ask()
    assert found.who == "judge"
    assert found.model == "scripted:server"


def test_a_judge_that_answers_as_before_but_fails_about_one_agent_has_not_changed(anchors, tmp_path):
    """Values that are missing are missing: the mean over the others would be another number."""
    fails = [False]

    def logprobs(context, target):
        if fails[0] and "bob answers" in target and int(target.split()[-1]) % 2:
            return CallFailure("refused", "no")
        level = -1.0 if "ann answers" in target else -3.0
        return [level + (0.5 if target in context else 0.0)] * len(target.split())

    options = Options.of(
        metrics=("bartscore-recall",),
        scorer=goldless.ScriptedModel(logprobs=logprobs, name="server"),
        journal=tmp_path / "journal.sqlite",
    )
    for occasion in range(3):
        fails[0] = occasion > 0
        report = anyio.run(lambda: watch(anchors, options, folder=tmp_path / "watch"))
    assert report.who is None
    (judge,) = report.processes
    assert judge.missing == TASKS // 2
    assert judge.last_mean == judge.first_mean


def test_scores_that_are_missing_from_a_stream_move_neither_its_mean_nor_its_evidence(ask, tmp_path):
    """The same scores every night, from the second on without those of the worst responses."""
    levels = [float(level) for level in range(20)]
    for night in range(4):
        values = [level if night == 0 or level > 9 else "" for level in levels]
        found = ask(stream=scores(tmp_path / f"night{night}.csv", [*values, night + 20]))
    _, stream = found.processes
    assert found.who is None
    assert stream.last_mean - stream.first_mean == pytest.approx(3 / 11)  # that of the one response that moves
    assert any("its own earlier scores" in note for note in found.notes)


def test_the_command_ends_with_8_where_something_changed(goldless, tmp_path):
    folder = tmp_path / "watch"
    folder.mkdir()
    known = {"anchors": "x", "fingerprint": "f", "judge": {}, "alpha": 0.05, "seed": 0, "id": "i"}
    (folder / "watch.json").write_text(json.dumps(known))
    one = {"at": "", "model": "m", "missing": 0}
    lines = [
        {**one, "number": 1, "anchors": {str(i): [3.0] * 4 for i in range(12)}},
        {**one, "number": 2, "anchors": {str(i): [2.0] for i in range(12)}},
    ]
    (folder / "occasions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ended = goldless("watch", folder, "--show")
    assert ended.code == 8
    assert "alarm: judge changed" in ended.err
    assert "CHANGED" in ended.out
    assert goldless("watch", folder).code == 2
    for wrong in ("{", "[]", "[" * 100_000, json.dumps({**lines[0], "anchors": {"0": ["high"]}})):
        (folder / "occasions.jsonl").write_text(wrong)
        ended = goldless("watch", folder, "--show")
        assert ended.code == 2
        assert "cannot be read" in ended.err
    for seed, said in (("=1+1", "seed: "), (-1, "seed must be at least 0, got -1")):
        (folder / "watch.json").write_text(json.dumps({**known, "seed": seed}))
        ended = goldless("watch", folder, "--show")
        assert (ended.code, said in ended.err) == (2, True)


def test_the_python_function_of_the_app_is_made_of_its_verb(anchors, judge, tmp_path):
    options = {"reviewers": [judge.model], "journal": tmp_path / "journal.sqlite"}
    found = watch_in_python(anchors, tmp_path / "watch", **options)
    assert (found.occasions, found.who) == (1, None)
    assert len(judge.model.calls) == 4 * 2 * TASKS
    with pytest.raises(TypeError, match="missing folder"):
        watch_in_python(anchors)
    assert "``goldless watch``" in watch_in_python.__doc__
