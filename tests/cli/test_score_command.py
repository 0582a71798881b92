"""``goldless score``: results on standard output, everything else on standard error, and honest exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import goldless as library
from goldless.models.journal import Journal
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from goldless.reports.findings import in_text
from goldless.reports.leaderboard import Leaderboard, metric_finding
from goldless.statistics.bootstrap import Estimate
from goldless.statistics.standings import LeaderboardRow
from tests.support.paid_twice import counts
from tests.support.study_files import script_rows


@pytest.fixture
def script(toy_scorer, study_file, script_file, tmp_path) -> str:
    """A scorer as a file: all that the toy scorer is asked about the three agents, and what it says."""
    model = toy_scorer()
    library.evaluate(study_file(), scorer=model, journal=tmp_path / "writing-the-script.sqlite")
    return f"scripted:{script_file(script_rows(model))}"


@pytest.fixture
def scored(goldless, study_file, script):
    """Scores a study, by default that of the three agents, with the scripted scorer."""

    def score(*more, study=None, scorer=script):
        return goldless("score", study or study_file(), "--metric", "gem-raw", "--scorer", scorer, *more)

    return score


def test_options_reach_the_signature_which_v_prints_in_full(scored):
    out = scored("--seed", 5, "--resamples", 150, "--level", 0.8, "-v").out
    assert "|interval:tasks-bootstrap-t-or-t-0.8(skew-t-under-10)|" in out
    assert "|resamples:150|seed:5|" in out
    assert "80% interval" in out


def test_a_signature_beside_a_kept_result_is_cut_to_one_line(goldless, tmp_path):
    out = goldless("agree", "sample", "--metric", "length", "--resamples", 200, "--out", tmp_path).out
    line, *_ = (line for line in out.splitlines() if line.startswith("agreement|"))
    assert line.endswith("… (-v for all)")
    assert len(line) <= 80


def test_a_lasting_failure_is_told_and_the_exit_code_is_0(scored, script, tmp_path):
    lines = Path(script.removeprefix("scripted:")).read_text().splitlines(keepends=True)
    (tmp_path / "gap.jsonl").write_text("".join(line for line in lines if json.loads(line)["target"] != "lirp"))
    ended = scored(scorer=f"scripted:{tmp_path / 'gap.jsonl'}")
    assert ended.code == 0
    assert "missing: 3 of 27 (3 rejected)" in ended.err
    assert "incomplete" not in ended.err


def test_a_passing_failure_makes_it_incomplete_with_exit_code_3_and_the_same_command_goes_on(scored, monkeypatch):
    answer = ScriptedModel.score
    down = CallFailure("server_error", "down")

    async def partly_down(model, requests, deliver):
        def changed(replies):
            deliver({i: down if requests[i].target == "lirp" else reply for i, reply in replies.items()})

        await answer(model, requests, changed)

    with monkeypatch.context() as patch:
        patch.setattr(ScriptedModel, "score", partly_down)
        first = scored("--format", "json")
    assert (first.code, json.loads(first.out)["complete"]) == (3, False)
    assert "incomplete: 24 of 27. Run the same command again to resume" in first.err
    assert "missing: 3 of 27 (3 server_error)" in first.err
    second = scored("--format", "json")
    assert (second.code, json.loads(second.out)["complete"]) == (0, True)
    assert "3 calls now" in second.err


def test_a_scorer_that_cannot_be_trusted_ends_with_1(scored, script_file):
    short = script_file([{"context": "a", "target": "b", "logprobs": [-1]}], "short.jsonl")
    ended = scored(scorer=f"scripted:{short}")
    assert (ended.code, ended.out) == (1, "")
    assert "could not score a short test text" in ended.err
    assert "Traceback" not in ended.err


# --- interrupted ---------------------------------------------------------------------------------------------------

SLEEPS = """
    import sys
    import anyio
    from goldless.cli import console
    from goldless.cli.main import main
    from goldless.models.scripted import ScriptedModel

    answer = ScriptedModel.score

    async def score(self, requests, deliver):
        await answer(self, requests, deliver)
        if "lirp" in {request.target for request in requests}:
            print("sleeping", file=sys.stderr, flush=True)
            await anyio.sleep(60)

    ScriptedModel.score = score
    console.FIRST_LINE_SECONDS = 3600  # no line of progress, however slow the machine
    main()
"""


def _interrupted(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it still says after Ctrl-C, pressed again where the first came just before the loop went to sleep."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=5)
    process.kill()
    raise AssertionError("Ctrl-C did not end it")


def test_ctrl_c_ends_with_130_and_a_word_and_what_was_finished_is_kept(study_file, script, tmp_path):
    journal = tmp_path / "interrupted.sqlite"
    arguments = ["score", str(study_file()), "--metric", "gem-raw", "--scorer", script, "--journal", str(journal)]
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SLEEPS), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    with process:
        assert "sleeping" in process.stderr.readline()
        out, err = _interrupted(process)
    assert process.returncode == 130
    assert out == ""
    assert err.strip() == "interrupted; finished work is kept, and the same command resumes from there"
    kept = Journal(journal)
    assert counts(kept)["calls"] == 26
    kept.close()


def board(**beaten: str) -> Leaderboard:
    """Agents in their order, each with those that it is better than."""
    rows = tuple(
        LeaderboardRow(i, agent, None, Estimate(9.0 - i, None, None, 10), 10, 10, tuple(others.split()))
        for i, (agent, others) in enumerate(beaten.items(), 1)
    )
    return Leaderboard("m", "nats", 0.95, rows, (), {"metric": "m"})


@pytest.mark.parametrize(
    ("metric", "beaten", "said"),
    [
        ("gem-raw", {"ann": "bob cy", "bob": "", "cy": ""}, "ann is better than bob and cy."),
        ("gem-raw", {"ann": "cy", "bob": "cy", "cy": ""}, "ann and bob are tied; each is better than cy."),
        (
            *("gem-raw", {"ann": "dan", "bob": "cy", "cy": "", "dan": ""}),
            "ann is better than dan, but not shown to be better than bob and cy, of which bob is better than cy.",
        ),
        (
            *("gem-raw", {"ann": "", "bob": "cy", "cy": ""}),
            "ann is highest, but not shown to be better than bob and cy, of which bob is better than cy.",
        ),
        ("gem-raw", {"ann": "", "bob": ""}, "tied: none is shown to be better than another."),
        ("gem-raw", {"ann": ""}, "ann is the only agent that was scored."),
        ("length", {"ann": "bob", "bob": ""}, "ann is highest under length"),
        ("length", {"ann": "bob", "bob": ""}, "ann is longer than bob."),
    ],
)
def test_a_sentence_says_who_leads_and_whether_that_is_decided(metric, beaten, said):
    text = in_text(metric_finding(metric, board(**beaten)))
    assert said in text
    assert metric != "length" or "better" not in text


# --- the same folder again -----------------------------------------------------------------------------------------


def test_a_second_run_into_a_folder_says_what_it_replaces_and_another_study_is_refused(goldless, study_file, tmp_path):
    run = ("--out", tmp_path / "run")
    assert goldless("score", study_file(), "--metric", "length,rouge-l", *run).code == 0
    again = goldless("score", study_file(), "--metric", "length,rouge-l", *run)
    assert "replaced" not in again.err
    fewer = goldless("score", study_file(), "--metric", "length", *run)
    assert "run: replaced the earlier results of rouge-l" in " ".join(fewer.err.split())
    other = goldless("score", "sample", "--metric", "length", *run)
    assert other.code == 2
    assert "has results of another study" in other.err


def test_a_result_is_read_back_from_its_folder(goldless, study_file, tmp_path):
    run = tmp_path / "run"
    goldless("score", study_file(), "--metric", "length,rouge-l", "--out", run)
    found, made = library.load(run), library.evaluate(study_file(), metrics="length,rouge-l")
    assert found.leaderboard("rouge-l").rows == made.leaderboard("rouge-l").rows
    with pytest.raises(library.UserError, match=r"must be a run folder with review\. It has leaderboard"):
        library.load(run, "review")
    with pytest.raises(library.UserError, match="must be a run folder with one result"):
        library.load(tmp_path)


def test_the_first_screen_has_at_most_24_lines_and_v_shows_every_metric(goldless, study_file, script):
    words = ("score", study_file(), "--metric", "gem-raw,rouge-l,length", "--scorer", script)
    ended = goldless(*words)
    assert len((ended.out + ended.err).splitlines()) <= 24
    (header,) = [line for line in ended.out.splitlines() if line.startswith(" #  agent")]
    assert header.split()[-4:] == ["rouge-l", "length", "beats", "#"]
    assert sum(line.startswith(" #  agent") for line in goldless(*words, "-v").out.splitlines()) == 3
