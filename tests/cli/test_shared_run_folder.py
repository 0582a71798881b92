"""A run folder belongs to all its verbs: none of them deletes what another has written."""

from __future__ import annotations

import json
import shutil
from itertools import permutations, product
from pathlib import Path

import polars as pl
import pytest

import goldless as package
from goldless.cli.main import VERBS
from goldless.evidence import TABLES
from goldless.reports.run_folder import RESULTS, RunFolder
from tests.support.commands import goldless, home
from tests.support.study_files import response_rows, study_folder

WORDS = {"ann": "zarn bluk mipo tolu", "bob": "zarn bluk mipo", "cy": "quex"}
TASKS = [f"t{number}" for number in range(4)]
POINTS = {"ann": 5, "bob": 3, "cy": 1}
QUICK = ("--resamples", 200)
REVIEWED = ("--recorded", *QUICK, "--reviewers")
WRITERS = {
    "score, texts": ("score", "--metric", "length,rouge-l", *QUICK),
    "score, log-probabilities": ("score", "--metric", "gem-raw", "--recorded", *QUICK),
    "score, critic": ("score", "--metric", "tvd-mi", "--recorded", *QUICK),
    "score, 5-level": ("score", "--metric", "review[5-level]", *REVIEWED, "kind,strict"),
    "score, 100-level": ("score", "--metric", "review[100-level]", *REVIEWED, "kind"),
    "review, pairwise": ("review", "--scale", "pairwise", *REVIEWED, "kind,strict"),
    "review, 5-level": ("review", "--scale", "5-level", *REVIEWED, "strict,odd"),
    "review, 100-level": ("review", "--scale", "100-level", *REVIEWED, "odd"),
    "crashtest": ("crashtest", "--metric", "length", "--perturbation", "null,praise", *QUICK),
    "agree": ("agree", "--scale", "pairwise", *REVIEWED, "kind,strict"),
    "bias": ("bias", "--scale", "pairwise", *REVIEWED, "kind,strict"),
}
REPLAYED = ("score", "review")
PAIRS = [pair for pair in product(WRITERS, repeat=2) if pair[0] != pair[1]]
SMALL = {
    *permutations(("score, 5-level", "review, 5-level", "review, pairwise"), 2),
    ("score, 5-level", "crashtest"),
    ("review, pairwise", "score, texts"),
    ("agree", "score, 5-level"),
    ("bias", "review, 5-level"),
}
"""The pairs that every run of the tests tries; the others are tried at night."""


def _judgements() -> list[dict[str, object]]:
    rows = []
    for task, reviewer in product(TASKS, ("kind", "strict", "odd")):
        bonus = -1 if (reviewer, task) == ("strict", "t0") else 0
        for agent, points in POINTS.items():
            low = points + bonus if 1 <= points + bonus <= 5 else points
            about = {"reviewer": reviewer, "task": task, "agent": agent}
            rows.append({**about, "format": "5-level", "output": str(low)})
            rows.append({**about, "format": "100-level", "output": str(10 * low)})
        for first, second in permutations(POINTS, 2):
            output = "one" if POINTS[first] > POINTS[second] else "two"
            shown = {"reviewer": reviewer, "format": "pairwise", "task": task, "first": first, "second": second}
            rows.append({**shown, "output": output})
    return rows


def _logprobs() -> list[dict[str, object]]:
    pairs = product(TASKS, WORDS, (None, *WORDS))
    return [
        {"scorer": "toy", "task": task, "target": target, "given": given, "sum_logprob_nats": -5.0 + len(given or "")}
        for task, target, given in pairs
        if target != given
    ]


def _verdicts() -> list[dict[str, object]]:
    def value(first: str, second: str, *, matched: bool) -> float:
        return 1.0 if matched and "cy" not in {first, second} else 0.0

    return [
        {
            "critic": "toy",
            "task": task,
            "first": first,
            "second": second,
            "second_task": other,
            "value": value(first, second, matched=task == other),
        }
        for task, other in product(TASKS, repeat=2)
        for first, second in permutations(WORDS, 2)
    ]


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    """A study with evidence for every writer."""
    texts = {task: {agent: f"{words} {task}" for agent, words in WORDS.items()} for task in TASKS}
    labels = [{"task": t, "agent": a, "rater": "p", "score": points} for t in TASKS for a, points in POINTS.items()]
    tables = {"judgements": _judgements(), "logprobs": _logprobs(), "verdicts": _verdicts()}
    return study_folder(
        tmp_path_factory.mktemp("shared") / "study", responses=response_rows(texts), labels=labels, **tables
    )


@pytest.fixture(scope="module")
def write(study):
    """Writes into a folder with a writer, and returns the folder."""

    def run(writer: str, folder: Path) -> Path:
        verb, *options = WRITERS[writer]
        with home(study.parent / "home"):
            ended = goldless(verb, study, *options, "--out", folder)
        assert ended.code in {0, 5}, ended.err
        return folder

    return run


@pytest.fixture(scope="module")
def written(write, study):
    """A folder with what one writer wrote, made once."""
    folders: dict[str, Path] = {}

    def folder(writer: str) -> Path:
        if writer not in folders:
            folders[writer] = write(writer, study.parent / f"only-{len(folders)}")
        return folders[writer]

    return folder


def _results(folder: Path) -> dict[str, bytes]:
    return {name: file.read_bytes() for name in RESULTS if (file := folder / f"{name}.json").exists()}


def _evidence(folder: Path) -> dict[tuple[str, str], pl.DataFrame]:
    """The tables in a folder, each for every verb whose rows it has."""
    found = {}
    for table in TABLES:
        rows = RunFolder(folder).scan(table)
        if rows is not None:
            frame = rows.collect()
            verbs = frame["verb"].unique().to_list() if "verb" in frame.columns else [""]
            found |= {(table, verb): frame.filter(pl.col("verb") == verb) if verb else frame for verb in verbs}
    return found


@pytest.mark.parametrize(
    ("first", "second"), [pytest.param(*pair, marks=() if pair in SMALL else pytest.mark.nightly) for pair in PAIRS]
)
def test_what_a_verb_wrote_into_a_folder_is_there_after_another_verb(written, write, tmp_path, first, second):
    folder = Path(shutil.copytree(written(first), tmp_path / "run"))
    results, evidence = _results(folder), _evidence(folder)
    write(second, folder)
    if WRITERS[first][0] != WRITERS[second][0]:
        assert _results(folder).items() >= results.items()
        after = _evidence(folder)
        for key, rows in evidence.items():
            assert after[key].equals(rows), key
    assert RunFolder(folder).problems == ()
    replayed = [verb for verb in REPLAYED if verb in {WRITERS[first][0], WRITERS[second][0]}]
    if replayed:
        ended = goldless("replay", folder, "--format", "json")
        assert ended.code == 0, ended.err
        outcomes = {part["name"]: part["outcome"] for part in json.loads(ended.out)["parts"]}
        assert set(outcomes.values()) == {"equal"}, outcomes


def test_every_verb_that_writes_into_a_run_folder_is_tried():
    others = {"calibrate", "compare", "demo", "export", "finetune"}
    """They write beside what they read, as score does, or into a folder of their own."""
    helps = {verb: goldless(verb, "--help").out for verb in VERBS}
    writing = {verb for verb, text in helps.items() if "Write" in text and "--out" in text}
    assert writing <= {command[0] for command in WRITERS.values()} | others


def test_a_metric_that_rates_reads_its_own_judgements_and_a_review_those_of_the_review(written, write, tmp_path):
    folder = Path(shutil.copytree(written("score, 5-level"), tmp_path / "run"))
    write("review, 5-level", folder)
    assert RunFolder(folder).review.panel.reviewers == ("strict", "odd")
    metric = ("--metric", "review[5-level]", "--recorded", *QUICK, "--format", "json")
    again = json.loads(goldless("score", folder, *metric).out)["metrics"]["review[5-level]"]["rows"]
    assert again == RunFolder(written("score, 5-level")).data("leaderboard")["metrics"]["review[5-level]"]["rows"]


def test_judgements_that_only_a_metric_asked_for_serve_a_review_too(written):
    folder = written("score, 5-level")
    found = package.review(folder, scale="5-level", recorded=True, resamples=200)
    assert found.panel.reviewers == ("kind", "strict")
