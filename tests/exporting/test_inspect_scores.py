"""Scores in copies of Inspect logs, and goldless inside Inspect: the same numbers as ``goldless score`` gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import goldless as library
from goldless.studies import import_study
from tests.support.paths import OTHER_TOOLS_FILES
from tests.support.study_files import script_rows

pytestmark = pytest.mark.xdist_group("inspect")
LOGS = OTHER_TOOLS_FILES / "inspect"
ALPHA, BETA, ZETA, EPSILON = (LOGS / name for name in ("alpha.eval", "beta.json", "zeta.eval", "epsilon.eval"))
METRIC = "gem-raw+control"
installed = pytest.mark.skipif(
    "goldless" not in {entry.name for entry in entry_points(group="inspect_ai")},
    reason="goldless is installed without its entry point for Inspect",
)
TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from goldless.inspect_plugin import gem

QUESTIONS = {questions!r}
ANSWERS = {answers!r}

def answer(messages, *_):
    made = ModelOutput.from_content("mockllm/alpha", ANSWERS[messages[-1].text])
    made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return made

@task
def facts(peers: str, model: str, journal: str):
    samples = [Sample(id=key, input=text) for key, text in QUESTIONS.items()]
    return Task(
        dataset=samples,
        model=get_model("mockllm/alpha", custom_outputs=answer),
        scorer=gem(peers=peers, model=model, journal=journal),
    )
"""


@pytest.fixture(scope="module", autouse=True)
def inspect_log():
    """It takes seconds to import: only where its tests run."""
    return pytest.importorskip("inspect_ai.log", exc_type=ImportError)


@pytest.fixture
def scored(toy_scorer, tmp_path):
    """A run over three logs with the scorer of shared words."""
    study = import_study([ALPHA, BETA, ZETA])
    model = toy_scorer()
    result = library.evaluate(study, metrics=METRIC, scorer=model, journal=tmp_path / "first.sqlite")
    library.save_run(result, tmp_path / "run")
    return result, model


def values(log, score: str) -> dict[str, float]:
    return {str(s.id): s.scores[score].value for s in log.samples if score in s.scores}


def expected(result, agent: str) -> dict[str, float]:
    rows = result.to_polars().filter(agent=agent).select("task", "score").iter_rows()
    return {task.removeprefix("facts/"): score for task, score in rows if score is not None}


def test_copies_have_the_scores_with_signatures_and_the_logs_stay_as_they_were(inspect_log, scored, tmp_path):
    result, _ = scored
    before = ALPHA.read_bytes()
    logs = [str(ALPHA), str(BETA), str(ZETA)]
    made = library.export(tmp_path / "run", tmp_path / "out", exporter="inspect", logs=logs)
    assert ALPHA.read_bytes() == before
    assert sorted(path.name for path in made.iterdir()) == ["alpha.eval", "beta.json", "zeta.eval"]
    for name, agent in (("alpha.eval", "mockllm/alpha"), ("beta.json", "mockllm/beta")):
        log = inspect_log.read_eval_log(str(made / name))
        assert values(log, f"goldless/{METRIC}") == expected(result, agent)
        row = next(row for row in result.leaderboard().rows if row.agent == agent)
        (mean,) = [score for score in log.results.scores if score.name == f"goldless/{METRIC}"]
        assert mean.metrics["mean"].value == row.score
        assert (mean.metrics["low95"].value, mean.metrics["high95"].value) == (row.estimate.low, row.estimate.high)
        assert log.samples[0].scores[f"goldless/{METRIC}"].metadata["signature"] == result.leaderboard().signature
        assert {score.name for score in log.results.scores} > {"match"}


def test_our_scores_in_a_log_are_read_back_as_scores_and_not_as_a_persons_labels(scored, tmp_path):
    logs = [str(ALPHA), str(BETA), str(ZETA)]
    made = library.export(tmp_path / "run", tmp_path / "out", exporter="inspect", logs=logs)
    again = import_study([made / "alpha.eval", made / "beta.json"])
    assert {label.rater for label in again.ratings()} == {"ann"}
    assert f"goldless/{METRIC}" in set(again.table("scores")["metric"])


@pytest.mark.parametrize("repeats", ["samples", "agents", "tasks", "first"])
def test_an_epoch_has_the_score_of_its_own_text_and_a_mean_over_epochs_is_in_no_sample(inspect_log, tmp_path, repeats):
    """The length of a response is the number of its characters; the texts of both epochs differ."""
    study = import_study([ALPHA, EPSILON], repeats=repeats)
    library.save_run(library.evaluate(study, metrics="length"), tmp_path / "run")
    logs = [str(EPSILON), str(ALPHA)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        library.export(tmp_path / "run", tmp_path / "out", exporter="inspect", logs=logs)
    messages = "".join(str(warning.message) for warning in caught)
    assert ("mockllm/epsilon are means over their samples" in messages) == (repeats == "samples")
    assert ("samples have no score in the run" in messages) == (repeats in {"samples", "first"})
    log = inspect_log.read_eval_log(str(tmp_path / "out" / "epsilon.eval"))
    scored = [sample for sample in log.samples if "goldless/length" in sample.scores]
    assert len(scored) == {"samples": 0, "agents": 6, "tasks": 6, "first": 3}[repeats]
    for sample in scored:
        text = sample.output.choices[0].message.text
        assert (
            sample.scores["goldless/length"].value
            == library.evaluate([{"task": "t", "agent": agent, "text": text} for agent in "ab"], metrics="length")
            .leaderboard()
            .rows[0]
            .score
        )
    assert "goldless/length" in {score.name for score in log.results.scores}


def test_a_sample_whose_text_was_not_scored_has_no_score(inspect_log, scored, tmp_path):
    log = inspect_log.read_eval_log(str(ALPHA))
    log.samples[0].output.choices[0].message.content = "another answer"
    inspect_log.write_eval_log(log, str(tmp_path / "alpha.eval"))
    with pytest.warns(UserWarning, match="1 of 3 samples have no score in the run"):
        made = library.export(
            tmp_path / "run", tmp_path / "out", exporter="inspect", logs=[str(tmp_path / "alpha.eval")]
        )
    assert set(values(inspect_log.read_eval_log(str(made / "alpha.eval")), f"goldless/{METRIC}")) == {"q2", "q3"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "inspect needs --logs"),
        (("--logs", "nothing.eval"), "nothing.eval: no such file"),
        (("--logs", str(EPSILON)), "none of the 6 samples in these logs has a score"),
        (("--logs", str(ALPHA), "--logs", str(ALPHA)), "two files called alpha.eval"),
    ],
)
def test_logs_that_do_not_fit_are_refused_and_nothing_is_written(goldless, scored, tmp_path, words, said):
    ended = goldless("export", "inspect", tmp_path / "run", "--out", tmp_path / "out", *words)
    assert ended.code == 2
    assert said in ended.err
    assert not (tmp_path / "out").exists()


@pytest.fixture
def script(scored, script_file) -> str:
    """The same scorer as a file, for other processes."""
    _, model = scored
    return f"scripted:{script_file(script_rows(model))}"


def inspect(folder: Path, *words: str) -> str:
    """Run Inspect's own command line."""
    command = Path(sys.executable).with_name("inspect")
    log_files = {"INSPECT_LOG_DIR": str(folder / "logs"), "INSPECT_DISPLAY": "plain", "HOME": str(folder)}
    ended = subprocess.run(
        [str(command), *words], cwd=folder, env={**os.environ, **log_files}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@installed
@pytest.mark.nightly
def test_inspect_score_gives_the_numbers_of_goldless_score(inspect_log, scored, script, tmp_path):
    result, _ = scored
    out = tmp_path / "scored.eval"
    peers = ["-S", f"peers={BETA},{ZETA}", "-S", f"model={script}", "-S", f"journal={tmp_path / 'j.sqlite'}"]
    more = ("--action", "append", "--output-file", str(out))
    inspect(tmp_path, "score", str(ALPHA), "--scorer", "goldless/gem", *peers, *more)
    log = inspect_log.read_eval_log(str(out))
    assert values(log, "gem") == pytest.approx(expected(result, "mockllm/alpha"))
    row = next(row for row in result.leaderboard().rows if row.agent == "mockllm/alpha")
    (found,) = [score for score in log.results.scores if score.name == "gem"]
    got = [found.metrics[name].value for name in ("mean", "low", "high")]
    assert got == pytest.approx([row.score, row.estimate.low, row.estimate.high])
    assert log.samples[0].scores["gem"].metadata["signature"].startswith(f"{METRIC}|scorer:scripted:")


@installed
@pytest.mark.nightly
def test_inspect_eval_scores_each_response_against_the_peers_logs(inspect_log, scored, script, tmp_path):
    result, _ = scored
    study = result.source
    questions = {task.removeprefix("facts/"): study.task(task).prompt for task in study.tasks}
    answers = {study.task(task).prompt: study.response(task, "mockllm/alpha").text for task in study.tasks}
    questions["q9"] = "What is new?"
    answers["What is new?"] = "nothing"
    (tmp_path / "facts.py").write_text(TASK.format(questions=questions, answers=answers))
    given = {"peers": f"{BETA},{ZETA}", "model": script, "journal": str(tmp_path / "j.sqlite")}
    words = [word for key, value in given.items() for word in ("-T", f"{key}={json.dumps(value)}")]
    inspect(tmp_path, "eval", "facts.py", *words)
    (path,) = (tmp_path / "logs").glob("*.eval")
    log = inspect_log.read_eval_log(str(path))
    found = values(log, "gem")
    new = log.samples[-1].scores["gem"]
    assert new.explanation == "no log of another model has a response to sample q9"
    assert new.reason == "scoring_failed"
    assert {key: found[key] for key in ("q1", "q2", "q3")} == pytest.approx(expected(result, "mockllm/alpha"))
