"""An edition, from papers to leaderboards. Scores are those of a toy scorer: a word two reviews share is ln 4 nats."""

from __future__ import annotations

import math
import re

import pytest
from edition_folders import QUICK, TAGS, papers_folder, reviewer, write_rows
from loopback import Behaviour, LoopbackServer, chat_reply

from goldless.apps.gre.boards import read_board
from goldless.apps.gre.collecting import collect_edition
from goldless.apps.gre.demonstration import (
    EMBEDDED,
    INVENTED,
    add_invented_rewrites,
    begin_demonstration,
    write_scripts,
)
from goldless.apps.gre.edition import open_or_begin
from goldless.apps.gre.results import edition_section
from goldless.apps.gre.reviewing import review_edition
from goldless.apps.gre.scoring import score_edition
from goldless.apps.gre.size_figure import size_figure
from goldless.errors import UserError
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from goldless.reports.run_folder import RunFolder

pytestmark = pytest.mark.anyio
KNOWN = math.log(4)


def text_of(study, paper, agent):
    return study.response(paper, agent).text


async def test_a_review_scores_the_words_it_shares_with_the_references(edition, toy_scorer, asking):
    study = edition.study()
    shared = {p: " ".join(text_of(study, p, a) for a in ("reference1", "reference2")) for p in study.tasks}
    models = {"copies": {"model": "embedded"}, "silent": {"model": "embedded", "family": "other"}}
    stand_ins = {"copies": reviewer(shared, "a"), "silent": reviewer(dict.fromkeys(study.tasks, "nothing"), "b")}
    edition, generated = await review_edition(edition, {}, models=models, stand_ins=stand_ins, options=asking)
    assert generated.open == 0
    settings = QUICK
    edition, _scores, evaluation = await score_edition(
        edition, settings, stand_ins={"scorer": toy_scorer()}, options=asking
    )
    rows = {row.agent: row for row in evaluation.leaderboard("gem-raw").rows}
    references = {p: [text_of(study, p, a).split() for a in ("reference1", "reference2")] for p in study.tasks}
    # every word of a reference stands in "copies": so many words, ln 4 each, mean over two references and two papers
    expected = sum(sum(map(len, texts)) / 2 for texts in references.values()) / 2 * KNOWN
    assert rows["copies"].score == pytest.approx(expected)
    assert rows["silent"].score == pytest.approx(0.0)
    human = [
        sum(len(set(text_of(study, p, "human").split()) & set(words)) for words in references[p]) / 2
        for p in study.tasks
    ]
    assert rows["human"].score == pytest.approx(sum(human) / 2 * KNOWN)
    assert set(rows) == {"human", "copies", "silent"}
    assert "peers:reference1+reference2" in evaluation.leaderboard().signature


def test_an_edition_is_not_begun_in_a_folder_with_something_else(tmp_path):
    folder, papers = tmp_path / "letters", papers_folder(tmp_path / "papers")
    folder.mkdir()
    (folder / "aunt.txt").write_text("dear")
    with pytest.raises(UserError, match=r"not an edition, and not empty\. Choose a new or empty folder"):
        collect_edition(open_or_begin(folder), {"from_folder": str(papers)})
    assert not (folder / "edition.toml").exists()


# --- the offline edition -------------------------------------------------------------------------------------------


async def test_the_offline_edition_runs_from_papers_to_the_report(tmp_path, toy_scorer, asking):
    edition = collect_edition(begin_demonstration(tmp_path / "demo"), {})
    study = edition.study()
    assert len(study.tasks) == 12
    assert {agent.agent for agent in study.agents} == {"human", "reference1", "reference2"}
    write_scripts(edition)
    embedded = {EMBEDDED: ScriptedModel(answers=lambda r: f"No tags: {r.messages[1].content[:20]}", name="small")}
    edition, generated = await review_edition(edition, {}, stand_ins=embedded, options=asking)
    assert len(generated.reviews) == 12 * 4
    assert not any(review.failure for review in generated.reviews)
    add_invented_rewrites(edition)
    rewriter = ScriptedModel(answers=lambda _: "The reviewer appreciates the paper.", name="plain")
    stand_ins = {"scorer": toy_scorer(), "rewriters": (rewriter,)}
    edition, _scores, evaluation = await score_edition(edition, {"resamples": 200}, stand_ins=stand_ins, options=asking)
    assert list(evaluation.outcomes) == ["gem", "gem-s[abstract]", "gem-s[assw]"]
    assert evaluation.complete
    # the invented rewrites are used as they are; only the fourth model's reviews are rewritten
    assert len(rewriter.calls) == 12
    for board in evaluation.outcomes.values():
        assert {row.agent: row.estimate.n for row in board.rows} == dict.fromkeys(("human", EMBEDDED, *INVENTED), 12)
        assert board.level == 0.9
    report = (edition.folder / "run" / "report.html").read_text()
    assert "DEMONSTRATION, NOT A RESULT" in report
    for name in ("leaderboard.md", "leaderboard.csv", "leaderboard.json", "gre.md", "response_scores.csv"):
        assert "demonstration:invented" in (edition.folder / "run" / name).read_text(), name
    board = read_board(edition.folder)
    assert "DEMONSTRATION, NOT A RESULT" in board.table().to_markdown()
    figure = " ".join(re.sub("<[^>]*>", " ", size_figure(board)).split())
    assert "DEMONSTRATION, NOT A RESULT" in figure


# --- what is kept and refused --------------------------------------------------------------------------------------


async def test_a_name_is_not_given_to_another_model(edition, asking):
    models = {"m": {"model": "embedded", "cutoff_date": "2024-05"}}
    stand_ins = {"m": reviewer(dict.fromkeys(("p1", "p2"), "zarn"))}
    edition, _ = await review_edition(edition, {}, models=models, stand_ins=stand_ins, options=asking)
    with pytest.raises(UserError, match="m is embedded, not openai:other"):
        await review_edition(edition, {}, models={"m": {"model": "openai:other"}}, options=asking)
    assert edition.study().response("p1", "m") is not None


@pytest.fixture
def server():
    """Reviews any paper."""
    with LoopbackServer(Behaviour(chat=lambda _: chat_reply(TAGS.format("zarn")))) as running:
        yield running


def asked_for(server) -> int:
    return len(server.bodies("/v1/chat/completions"))


async def test_what_the_study_could_not_take_is_refused_before_anything_is_asked_or_stored(edition, asking, server):
    (edition.study_folder / "notes.txt").write_text("mine")
    before = (edition.folder / "edition.toml").read_text()
    with pytest.raises(UserError, match=r"notes\.txt"):
        await review_edition(edition, {}, models={"m": {"model": f"{server.url}#toy"}}, options=asking)
    assert (asked_for(server), (edition.folder / "edition.toml").read_text()) == (0, before)


async def test_reviews_with_labels_are_not_asked_for_in_another_way(edition, asking, server):
    models = {"m": {"model": f"{server.url}#toy"}}
    edition, _ = await review_edition(edition, {}, models=models, options=asking)
    write_rows(edition.study_folder / "labels.jsonl", [{"task": "p1", "agent": "m", "rater": "ann", "score": 1}])
    before, config = asked_for(server), (edition.folder / "edition.toml").read_text()
    with pytest.raises(UserError, match="1 rows of the table labels are about reviews of m that would be replaced"):
        await review_edition(edition, {"max_tokens": 50}, options=asking)
    assert (asked_for(server), (edition.folder / "edition.toml").read_text()) == (before, config)
    # another model goes on
    await review_edition(edition, {}, models={"n": {"model": f"{server.url}/#toy"}}, options=asking)
    assert edition.study().response("p1", "n") is not None


async def test_a_model_on_this_machine_is_asked_again_since_its_files_may_be_others(edition, asking, tmp_path):
    study, script = edition.study(), tmp_path / "script.jsonl"
    for word in ("zarn", "vors"):
        write_rows(script, [{"prompt": study.task(t).prompt, "answer": TAGS.format(word)} for t in study.tasks])
        models = {"m": {"model": f"scripted:{script}"}}
        edition, generated = await review_edition(edition, {}, models=models, options=asking)
        assert [word in review.text for review in generated.reviews] == [True, True]


async def test_a_model_without_any_review_stands_last_and_the_report_says_so(edition, toy_scorer, asking):
    def refuse(_):
        return CallFailure("rejected", "no")

    models = {"alpha": {"model": "embedded"}, "beta": {"model": "embedded", "parameters": 8e9}}
    stand_ins = {
        "alpha": reviewer(dict.fromkeys(("p1", "p2"), "zarn vors"), "a"),
        "beta": ScriptedModel(answers=refuse, name="b"),
    }
    edition, _ = await review_edition(edition, {}, models=models, stand_ins=stand_ins, options=asking)
    edition, scores, _evaluation = await score_edition(
        edition, QUICK, stand_ins={"scorer": toy_scorer()}, options=asking
    )
    table = scores.table()
    assert table.rows[-1] == {"agent": "beta", "written": 0, "papers": 2, "parameters": 8e9}
    shown = {column.heading: column.text(table.rows[-1]) for column in table.columns}
    assert (shown["reviews"], shown["gem-raw"]) == ("0/2", "missing")
    lines = (edition.run_folder() / "gre.md").read_text().splitlines()
    assert any("beta" in line and "0/2" in line for line in lines)
    found = RunFolder(edition.run_folder())
    assert found.leaderboard.findings[0].message == ("beta has no score because it has no review.")
    assert "beta has no score because it has no review." in (edition.run_folder() / "report.html").read_text()
    (side_by_side, *_) = [block for block in edition_section(found).blocks if "<table" in block]
    assert "beta" in side_by_side.rpartition("<tr>")[2]


async def test_a_finished_model_on_a_server_needs_no_key(edition, asking, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    edition, _ = await review_edition(edition, {}, models={"m": {"model": "openai:toy"}}, options=asking)
    monkeypatch.delenv("OPENAI_API_KEY")
    before = len(server.asked)
    _, generated = await review_edition(edition, {}, options=asking)
    assert [review.failure for review in generated.reviews] == [None, None]
    assert len(server.asked) == before
