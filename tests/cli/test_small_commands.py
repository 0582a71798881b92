"""Verbs with few words: study, list, demo, journal, audit; and the line on what calls cost."""

from __future__ import annotations

import json
from contextlib import closing
from importlib.metadata import EntryPoint

import pytest

from goldless.models.cache import default_journal, models_folder
from goldless.models.interface import ModelIdentity, ScoreRequest, TokenLogprobs, Usage
from goldless.models.journal import Journal
from goldless.models.usage import Charge
from goldless.plugins import GROUPS
from goldless.studies import write_study
from tests.support.servers.loopback import Behaviour, LoopbackServer, chat_reply
from tests.support.tickets import EMPTY, study


def test_show_does_not_let_a_response_steer_the_terminal(goldless, study_file):
    shown = goldless("study", "show", study_file({"t1": {"[bold]a": "four", "b": "sixsix \x1b[31mred"}})).out
    assert "sixsix" in shown
    assert "\x1b" not in shown


def test_show_has_one_line_for_each_count_of_a_study_beside_its_whole_fingerprint(goldless, study_file, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = goldless("study", "show", study_file({"t1": {"a": "four", "b": "six"}})).out.splitlines()[4:12]
    counts = ["tasks", "agents", "responses", "mean", "labels", "recorded", "synopses", "fingerprint"]
    assert [line.split()[0] for line in lines] == counts


class Package:
    name, version = "goldless-novelty", "1.2"


def test_nothing_installed_is_an_empty_list_and_the_groups_are_named(goldless, installed):
    installed()
    assert goldless("list", "plugins").out == ""
    ended = goldless("list", "plugins", "--format", "json")
    assert json.loads(ended.out) == {"groups": list(GROUPS), "plugins": []}
    assert "goldless.metrics" in ended.err


def test_each_plugin_has_its_package_and_whether_it_can_be_used(goldless, installed):
    values = {"broken": "no_such_package:thing", "length": "math:sqrt", "novelty": "math:sqrt", "pi": "math:pi"}
    points = [EntryPoint(name, value, "goldless.metrics") for name, value in values.items()]
    for point in points:
        vars(point)["dist"] = Package
    installed(*points)
    ended = goldless("list", "plugins", "--format", "json")
    rows = {row["name"]: row for row in json.loads(ended.out)["plugins"]}
    novelty = {"group": "goldless.metrics", "name": "novelty", "package": "goldless-novelty", "version": "1.2"}
    assert rows["novelty"] == {**novelty, "usable": True, "failure": None}
    assert rows["broken"]["failure"] == "ModuleNotFoundError: No module named 'no_such_package'"
    assert rows["length"]["failure"] == "the name is already used by goldless itself"
    assert "a metric must have" in rows["pi"]["failure"]
    assert (ended.code, "cannot be used: 3 of 4" in ended.err) == (0, True)


def test_quickstart_writes_into_a_new_folder_and_overwrites_nothing_else(goldless, tmp_path):
    folder = tmp_path / "my trial"
    assert goldless("demo", "--study", folder).code == 0
    assert goldless("demo", "--study", folder).code == 0
    (folder / "answers.csv").write_text("mine")
    ended = goldless("demo", "--study", folder)
    assert ended.code == 2
    assert "would be overwritten" in ended.err
    assert (folder / "answers.csv").read_text() == "mine"


@pytest.fixture
def kept():
    """A journal with two replies and a model file."""
    journal = default_journal()
    with closing(Journal(journal)) as opened:
        costs = {"a": 0.5, "b": 0.75}
        replies = [(key, TokenLogprobs((-1.0,)), Charge(Usage(), usd, False)) for key, usd in costs.items()]
        request = ScoreRequest((1,), (2,))
        opened.record(ModelIdentity("toy", "toy"), [(key, request, reply, charge) for key, reply, charge in replies])
    models_folder().mkdir(parents=True)
    (models_folder() / "model.gguf").write_bytes(b"x" * 1500)
    return journal


def test_nothing_is_deleted_without_a_yes(goldless, kept):
    ended = goldless("journal", "clear", "all")
    assert ended.code == 2
    assert "--yes" in ended.err
    assert "2 replies that cost 1.25 USD" in ended.err
    assert kept.exists()
    assert (models_folder() / "model.gguf").exists()


def test_only_what_is_named_is_deleted(goldless, kept):
    assert goldless("journal", "clear", "models", "--yes").code == 0
    assert kept.exists()
    assert not models_folder().exists()
    ended = goldless("journal", "clear", "journal", "--yes")
    assert ended.code == 0
    assert f"deleted: {kept}" in ended.err
    assert not kept.exists()
    assert "nothing to clear" in goldless("journal", "clear", "all").err


@pytest.fixture
def suspicious(tmp_path):
    """Honest answers beside two agents of one empty text and one that copies the prompt."""
    tickets = study(good="good", boiler1="empty", boiler2=f"{EMPTY} today", copycat="copy")
    write_study(tickets, tmp_path / "tickets")
    return tmp_path / "tickets"


EXPECTED = (
    "boiler1 gives the same text to 6 of 6 tasks.",
    "boiler1 and boiler2 give nearly the same responses",
    "copycat repeats its prompt on 6 of 6 tasks.",
)


@pytest.mark.parametrize("verb", [("study", "check"), ("plan",), ("score",)])
def test_other_verbs_warn_before_anything_is_asked(goldless, suspicious, verb):
    more = () if verb[0] == "study" else ("--metric", "length")
    ended = goldless(*verb, suspicious, *more)
    assert ended.code == 0
    assert all(line in ended.out + ended.err.replace("\n", " ") for line in EXPECTED if verb[0] != "plan")
    assert "boiler1 gives the same text" in ended.out + ended.err


def test_a_folder_whose_scores_cannot_be_read_is_an_error(goldless, suspicious, tmp_path):
    run = tmp_path / "run"
    goldless("score", suspicious, "--metric", "length", "--out", run)
    (run / "leaderboard.json").write_text("[1]")
    ended = goldless("audit", run)
    assert ended.code == 2
    assert "leaderboard.json" in ended.err


def test_a_review_without_a_single_verdict_does_not_end_with_0(goldless, study_file):
    with LoopbackServer(Behaviour(chat=lambda _: chat_reply("Hm."))) as server:
        ended = goldless("review", study_file(), "--reviewers", f"{server.url}#toy", "--exam", "none")
    assert ended.code == 1
    assert "no verdict could be read" in ended.err
