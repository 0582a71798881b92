"""Selection over a study, with a sampler, from the command line and on recorded data."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from statistics import fmean

import polars as pl
import pytest
from typer.testing import CliRunner

import goldless
from goldless.cli.main import app
from goldless.errors import MetricError, UserError
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from goldless.templates import GENERAL
from tests.support.thoughtful_models import KINDS

RIGHT = {"t1": "zarn", "t2": "bluk", "t3": "mipo"}


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def shared_words(context: str, target: str) -> list[float]:
    """Words that were there before are likely."""
    known = set(words(context))
    return [-0.5 if word in known else -3.0 for word in words(target)]


def scorer() -> ScriptedModel:
    return ScriptedModel(logprobs=shared_words, name="words")


def rows() -> list[dict]:
    """On each task two right samples, a wrong one and the same empty words."""
    return [
        {"task": task, "prompt": f"Name {task}.", "agent": "m", "sample": n, "text": text}
        for task, right in RIGHT.items()
        for n, text in enumerate((f"it is {right} surely", f"{right} it must be", "quex", "as an assistant"), 1)
    ]


def test_the_informative_sample_of_each_task_is_chosen(tmp_path):
    found = goldless.select(rows(), metrics="gem-raw+control", scorer=scorer(), journal=tmp_path / "j")
    assert all(right in found.texts()[task] for task, right in RIGHT.items())
    assert found.decided == 0  # four samples are too few to decide anything
    assert found.signature.startswith("select[gem-raw+control]|scorer:scripted:words")


@pytest.mark.parametrize("kind", KINDS)
def test_samples_have_no_thoughts(tmp_path, kind):
    def answer(request):
        task = request.messages[-1].content.removeprefix("Name ").removesuffix(".")
        return KINDS[kind].reply(f"Perhaps {RIGHT['t1']}.", f"it is {RIGHT[task]}")

    tasks = [{"task": t, "prompt": f"Name {t}.", "agent": "file", "text": f"it is {RIGHT[t]}"} for t in RIGHT]
    writer = ScriptedModel(answers=answer, name="writer")
    found = goldless.select(tasks, metrics="gem-raw", scorer=scorer(), sampler=writer, most=3, journal=tmp_path / "j")
    assert found.sampled > 0
    assert found.texts() == {task: f"it is {right}" for task, right in RIGHT.items()}


def test_the_score_is_the_mean_over_all_other_samples(tmp_path):
    found = goldless.select(rows(), metrics="gem-raw", scorer=scorer(), journal=tmp_path / "j")
    given = [row["text"] for row in rows() if row["task"] == "t1"]

    def pmi(x: str, y: str) -> float:
        told, untold = (f"{GENERAL.predict} {GENERAL.question(None, shown)}" for shown in (x, None))
        return sum(shared_words(told, y)) - sum(shared_words(untold, y))

    means = [fmean(pmi(x, y) for y in given if y != x) for x in given]
    assert found.choices[0].score == pytest.approx(max(means))
    assert found.choices[0].text == given[means.index(max(means))]


def test_tasks_with_unequal_numbers_of_samples_have_task_control_for_all(tmp_path):
    more = [*rows(), {"task": "t1", "prompt": "Name t1.", "agent": "m", "sample": 5, "text": "zarn it is"}]
    found = goldless.select(more, metrics="gem-raw+control", scorer=scorer(), journal=tmp_path / "j")
    assert [choice.missing for choice in found.choices] == [0, 0, 0]
    assert [choice.samples for choice in found.choices] == [5, 4, 4]


def chatty(lucky: str) -> ScriptedModel:
    """Gives one answer again and again on a task, on others something new each time."""
    numbers = itertools.count()

    def answer(request) -> str | CallFailure:
        if lucky in request.messages[-1].content:
            return f"zarn bluk mipo tolu {'ab'[next(numbers) % 2]}"
        number = next(numbers)
        return CallFailure("refused", "no") if number % 7 == 0 else f"w{number} v{number} u{number % 3}"

    return ScriptedModel(answers=answer, name="chatty")


def test_only_undecided_tasks_get_more_samples(tmp_path):
    tasks = [{"task": t, "prompt": f"Name {t}.", "agent": "file", "text": "zarn bluk mipo tolu"} for t in RIGHT]
    writer = chatty("t1")
    found = goldless.select(
        tasks, metrics="gem-raw", scorer=scorer(), sampler=writer, most=20, tolerance=0.7, alpha=0.2,
        journal=tmp_path / "j",
    )  # fmt: skip
    by_task = {choice.task: choice for choice in found.choices}
    assert by_task["t1"].decided
    assert by_task["t1"].samples < 20
    asked = {t: sum(f"Name {t}." in call.messages[-1].content for call in writer.calls) for t in RIGHT}
    assert asked["t1"] == by_task["t1"].samples - 1
    assert not by_task["t2"].decided
    assert asked["t2"] == asked["t3"] == 19  # to the limit, with the one of the file
    assert found.sampled == len(writer.calls)
    assert found.failures["refused"] == sum(choice.missing for choice in found.choices) > 0
    again = goldless.select(
        tasks, metrics="gem-raw", scorer=scorer(), sampler=writer, most=20, tolerance=0.7, alpha=0.2,
        journal=tmp_path / "j",
    )  # fmt: skip
    assert len(writer.calls) == found.sampled + found.failures["refused"]  # what was given is in the journal
    assert again.choices[0] == found.choices[0]


def test_what_cannot_select_is_refused(tmp_path):
    for metric in ("length", "peer-prediction", "review[5-level]"):
        with pytest.raises(MetricError, match="cannot select"):
            goldless.select(rows(), metrics=metric)
    with pytest.raises(UserError, match="no task has two responses"):
        goldless.select({"Which?": ["alone"], "What?": ["also"]}, scorer=scorer())
    with pytest.raises(UserError, match="must be a list of strings"):
        goldless.select({"Which?": "a b"}, scorer=scorer())
    with pytest.raises(UserError, match="one metric"):
        goldless.select(rows(), metrics="gem-raw,mi")
    bare = [{k: v for k, v in row.items() if k != "prompt"} for row in rows()]
    with pytest.raises(UserError, match=r"t1, t2, t3 .* none"):
        goldless.select(bare, metrics="gem-raw", scorer=scorer(), sampler=scorer())
    with pytest.raises(UserError, match="--most must be at least 3"):
        goldless.select(rows(), metrics="gem-raw", scorer=scorer(), sampler=scorer(), most=2)


def test_a_file_of_samples_without_agents_from_the_command_line(tmp_path):
    path = tmp_path / "samples.jsonl"
    kept = [{"task": row["task"], "text": row["text"]} for row in rows()]
    path.write_text("".join(json.dumps(row) + "\n" for row in kept))
    options = ["--repeats", "samples", "--metric", "rouge-l", "--format", "csv"]
    done = CliRunner().invoke(app, ["select", str(path), *options])
    assert done.exit_code == 0, done.stderr
    found = {row["task"]: row for row in csv.DictReader(io.StringIO(done.stdout))}
    assert {task: right in found[task]["text"] for task, right in RIGHT.items()} == dict.fromkeys(RIGHT, True)
    assert {row["decided"] for row in found.values()} == {"no"}


# --- recorded data: is the choice better than a random one and than the longest? -----------------------------------


def good_faith(study, chosen: dict[str, str]) -> float:
    group = {agent.agent: agent.group for agent in study.agents}
    return fmean(group[agent] == "good faith" for agent in chosen.values())


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "at_least"), [("samsum", 0.9), ("reddit", 0.9)])
def test_by_tvd_mi_nine_of_ten_choices_among_29_are_in_good_faith(recorded, name, at_least):
    """Half of the agents are; on SamSum, whose texts are recorded, the longest one is in fewer than a third."""
    whole = goldless.read_study(recorded / f"{name}_peer_prediction")
    study = whole.subset(agents=[agent.agent for agent in whole.agents if agent.group != "reference"])
    found = goldless.select(study, metrics="tvd-mi", recorded=True)
    assert good_faith(study, {choice.task: choice.chosen for choice in found.choices}) >= at_least
    by_chance = fmean(agent.group == "good faith" for agent in study.agents)
    assert by_chance == pytest.approx(14 / 29)
    if study.n_responses:
        longest = {task.task: max(given, key=lambda r: len(r.text)).agent for task, given in study}
        assert good_faith(study, longest) < 1 / 3


@pytest.mark.nightly
def test_by_rouge_l_the_chosen_summary_has_a_higher_human_rating_than_a_random_one_and_the_longest(recorded):
    study = goldless.read_study(recorded / "xsum_peer_review")
    rows = [(rating.task, rating.agent, rating.score) for rating in study.ratings()]
    table = pl.DataFrame(rows, ["task", "agent", "score"], orient="row")
    rated = {(t, a): score for t, a, score in table.group_by("task", "agent").agg(pl.col("score").mean()).iter_rows()}
    found = goldless.select(study, metrics="rouge-l")
    chosen = fmean(rated[choice.task, choice.chosen] for choice in found.choices)
    longest = fmean(rated[task.task, max(given, key=lambda r: len(r.text)).agent] for task, given in study)
    assert chosen > fmean(rated.values()) + 0.4
    assert chosen > longest + 0.6
