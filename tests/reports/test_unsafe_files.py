"""A run folder may come from anybody: its files are regular, inside it and not too large, or they are not opened."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import permutations, product
from pathlib import Path

import pytest

from goldless.errors import StudyError
from goldless.files import MADE_BY, MOST_DOCUMENT_BYTES, MOST_TABLE_BYTES
from goldless.reports.run_folder import DOCUMENTS, RunFolder
from tests.support.commands import goldless, home
from tests.support.study_files import response_rows, study_folder

WORDS = {"ann": "zarn bluk mipo tolu", "bob": "zarn bluk mipo", "cy": "quex"}
TASKS = ("t0", "t1", "t2")
QUICK = ("--resamples", 200)
SECRET = "a text from elsewhere"
TABLE_FILES = ("response_scores.csv", "pair_scores.parquet", "responses.parquet", "tasks.parquet", "labels.parquet")
PART_FILES = ("judgements/part-00000.parquet", "exams/part-00000.parquet", "logprobs/part-00000.parquet")
FILES = (*(f"{name}.json" for name in DOCUMENTS), "agents.jsonl", *TABLE_FILES, *PART_FILES)
"""Every file that is read of a run folder; of a table in parts, its first."""


def _link_out(path: Path) -> None:
    elsewhere = path.parents[2] / f"elsewhere{path.suffix}"
    if path.suffix == ".parquet" and path.exists():
        shutil.copyfile(path, elsewhere)
    else:
        elsewhere.write_text(SECRET)
    path.unlink(missing_ok=True)
    path.symlink_to(elsewhere)


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def _too_large(path: Path) -> None:
    with path.open("ab") as file:
        file.truncate(max(MOST_DOCUMENT_BYTES, MOST_TABLE_BYTES) + 1)  # a hole, which takes no room


HARMS: dict[str, Callable[[Path], None]] = {
    "link out": _link_out,
    "pipe": _pipe,
    "device": _device,
    "too large": _too_large,
}
READERS = {
    "replay": ("replay",),
    "score": ("score", "--metric", "length", *QUICK),
    "score review": ("score", "--metric", "review[5-level]", "--recorded", *QUICK),
    "review": ("review", "--recorded", "--scale", "5-level", *QUICK),
    "agree": ("agree", "--metric", "length", *QUICK),
    "bias": ("bias", "--recorded", "--scale", "5-level", *QUICK),
    "compare": ("compare", "ann,bob"),
    "gate": ("gate", "--baseline", "ann", "--candidate", "bob"),
    "audit": ("audit",),
    "calibrate": ("calibrate",),
    "explain": ("explain", "--task", "t0", "--agent", "ann", "--peer", "bob"),
    "export": ("export", "csv"),
    "plan": ("plan",),
    "plan --cost": ("plan", "--cost"),
    "study check": ("study", "check"),
    "study show": ("study", "show"),
}
DAILY_READERS, DAILY_HARMS = ("replay", "export"), ("link out", "pipe")


def _cases() -> Iterator[object]:
    """Two verbs with every file and two harms by day; at night the others with every file and one harm in turn."""
    yield from product(FILES, DAILY_READERS, DAILY_HARMS)
    others = [reader for reader in READERS if reader not in DAILY_READERS]
    for number, (file, reader) in enumerate(product(FILES, others)):
        harm = list(HARMS)[(number + number // len(others)) % len(HARMS)]
        yield pytest.param(file, reader, harm, marks=pytest.mark.nightly)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> Path:
    """A run folder with scores and a review."""
    place = tmp_path_factory.mktemp("unsafe")
    texts = {task: {agent: f"{words} {task}" for agent, words in WORDS.items()} for task in TASKS}
    points = {"ann": 5, "bob": 3, "cy": 1}
    judgements = [
        {"reviewer": "kind", "format": "5-level", "task": task, "agent": agent, "output": str(number)}
        for task, (agent, number) in product(TASKS, points.items())
    ]
    logprobs = [
        {"scorer": "toy", "task": task, "target": target, "given": given, "sum_logprob_nats": -5.0}
        for task in TASKS
        for target, given in [*permutations(WORDS, 2), *((name, None) for name in WORDS)]
    ]
    labels = [{"task": t, "agent": a, "rater": "p", "score": number} for t in TASKS for a, number in points.items()]
    study = study_folder(
        place / "study", responses=response_rows(texts), labels=labels, judgements=judgements, logprobs=logprobs
    )
    run = place / "run"
    with home(place / "home"):
        for command in (("score", study, "--metric", "gem-raw"), ("review", study, "--scale", "5-level")):
            ended = goldless(*command, "--recorded", *QUICK, "--out", run)
            assert ended.code == 0, ended.err
    return run


@pytest.fixture
def harmed(run_folder, tmp_path):
    """A copy of the run folder in which a file was replaced."""

    def make(file: str, harm: str) -> Path:
        folder = Path(shutil.copytree(run_folder, tmp_path / "runs" / "run"))
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        HARMS[harm](path)
        return folder

    return make


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("file", FILES)
def test_no_unsafe_file_of_a_run_folder_is_opened_and_the_folder_says_which(harmed, file, harm):
    run = RunFolder(harmed(file, harm))
    said = [*run.problems]
    if file.endswith(".parquet"):
        with pytest.raises(StudyError) as raised:
            _ = run.study
        said.append(str(raised.value))
    assert any(file in sentence and " must " in sentence for sentence in said), said


@pytest.mark.parametrize(("file", "reader", "harm"), [*_cases()])
def test_a_verb_that_reads_a_run_folder_with_an_unsafe_file_says_one_thing(harmed, tmp_path, file, reader, harm):
    folder = harmed(file, harm)
    verb, *options = READERS[reader]
    words = (verb, options[0], folder, *options[1:]) if reader in {"export", "study check", "study show"} else ()
    words = words or ((verb, *options, folder) if reader == "plan --cost" else (verb, folder, *options))
    with home(tmp_path / "home"):
        ended = goldless(*words)
    assert not ended.broke, ended.err
    assert SECRET not in ended.out + ended.err
    assert ended.err.count("error: ") <= 1
    if file == "responses.parquet" and reader not in {"compare", "gate", "calibrate", "plan --cost"}:
        assert ended.code == 2
        assert file in ended.err


@pytest.mark.parametrize("harm", HARMS)
def test_results_go_into_no_folder_whose_record_cannot_be_read(harmed, run_folder, harm):
    folder = harmed(MADE_BY, harm)
    ended = goldless("score", run_folder.parent / "study", "--metric", "length", *QUICK, "--out", folder)
    assert ended.code == 2
    assert f"{MADE_BY} must " in ended.err


def test_a_link_inside_the_folder_is_a_file_of_it(run_folder, tmp_path):
    folder = Path(shutil.copytree(run_folder, tmp_path / "run"))
    (folder / "leaderboard.json").rename(folder / "kept.json")
    (folder / "leaderboard.json").symlink_to("kept.json")
    linked = tmp_path / "latest"
    linked.symlink_to(folder)
    assert goldless("replay", linked).code == 0
