"""What an edition keeps and refuses on its way from papers to leaderboards."""

from __future__ import annotations

import pytest

from goldless.apps.gre.collecting import collect_edition
from goldless.apps.gre.edition import open_or_begin
from goldless.apps.gre.results import edition_section
from goldless.apps.gre.reviewing import review_edition
from goldless.apps.gre.scoring import score_edition
from goldless.errors import UserError
from goldless.models.scripted import ScriptedModel
from goldless.records import CallFailure
from goldless.reports.run_folder import RunFolder
from tests.apps.gre.edition_folders import QUICK, TAGS, papers_folder, reviewer
from tests.support.servers.loopback import Behaviour, LoopbackServer, chat_reply
from tests.support.study_files import write_rows

pytestmark = pytest.mark.anyio


def test_an_edition_is_not_begun_in_a_folder_with_something_else(tmp_path):
    folder, papers = tmp_path / "letters", papers_folder(tmp_path / "papers")
    folder.mkdir()
    (folder / "aunt.txt").write_text("dear")
    with pytest.raises(UserError, match=r"not an edition, and not empty\. Choose a new or empty folder"):
        collect_edition(open_or_begin(folder), {"from_folder": str(papers)})
    assert not (folder / "edition.toml").exists()


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
    lines = (edition.run_folder / "gre.md").read_text().splitlines()
    assert any("beta" in line and "0/2" in line for line in lines)
    found = RunFolder(edition.run_folder)
    assert found.leaderboard.findings[0].message == ("beta has no score because it has no review.")
    assert "beta has no score because it has no review." in (edition.run_folder / "report.html").read_text()
    (side_by_side, *_) = [block for block in edition_section(found).blocks if "<table" in block]
    assert "beta" in side_by_side.rpartition("<tr>")[2]
