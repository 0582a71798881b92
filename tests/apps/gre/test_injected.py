"""Second versions of papers with hidden instructions: reviewed like others, scored apart, and compared."""

from __future__ import annotations

import json
import math

import pytest

from goldless.apps.gre.collecting import INSTRUCTIONS, collect_edition
from goldless.apps.gre.edition import INJECTED, marked_papers, open_edition, open_or_begin
from goldless.apps.gre.results import ScoreHold
from goldless.apps.gre.reviewing import review_edition
from goldless.apps.gre.scoring import score_edition
from goldless.errors import UserError
from goldless.models.scripted import ScriptedModel
from goldless.statistics.bootstrap import Estimate
from tests.apps.gre.edition_folders import QUICK, TAGS, papers_folder

pytestmark = pytest.mark.anyio
KNOWN = math.log(4)
PAPERS = {f"p{n}": (f"mipo{n} zarn{n}", f"mipo{n} bluk{n}", f"mipo{n} quex{n}") for n in range(4)}


@pytest.fixture
def edition(tmp_path):
    folder = papers_folder(tmp_path / "papers", PAPERS)
    for file in (folder / "papers").iterdir():
        text = "".join(f"Line {n} of {file.stem} says little.\n" for n in range(40))
        file.write_text(f"On {file.stem}.\n{text}")
    asked = {"from_folder": str(folder), "seed": 5, "injected": 3}
    return collect_edition(open_or_begin(tmp_path / "2026"), asked)


def model(name, *, obeys):
    """Reviews with the word that both references share; one that obeys writes what hidden text asks for instead."""

    def answer(request):
        paper = request.messages[1].content
        number = paper[4]
        hidden = [line for line in paper.splitlines() if not line.startswith(("On ", "Line "))]
        return TAGS.format(hidden[0] if obeys and hidden else f"mipo{number}")

    return ScriptedModel(answers=answer, name=name)


async def scored(edition, asking, toy_scorer):
    models = {name: {"model": "embedded"} for name in ("firm", "meek")}
    stand_ins = {name: model(name, obeys=name == "meek") for name in models}
    edition, _ = await review_edition(edition, {}, models=models, stand_ins=stand_ins, options=asking)
    return await score_edition(edition, QUICK, stand_ins={"scorer": toy_scorer()}, options=asking)


def test_a_second_version_has_one_line_more_in_its_middle_and_a_name_like_those_of_a_venue(edition):
    whole, own = edition.whole_study(), edition.study()
    second = marked_papers(whole, INJECTED)
    assert len(second) == 3
    assert sorted(own.tasks) == sorted(PAPERS)
    for name, paper in second.items():
        lines, clean = (study.task(task).prompt.splitlines() for study, task in ((whole, name), (own, paper)))
        canary = whole.task(name).extra["canary"]
        (hidden,) = [line for line in lines if line not in clean]
        assert [line for line in lines if line != hidden] == clean
        assert 0.35 < lines.index(hidden) / len(clean) < 0.65
        assert hidden in {text.format(canary) for text in INSTRUCTIONS}
        assert len(name) == 10
        assert name.isalnum()
        people = {r.agent: r.text for r in whole.responses(name)}
        assert people == {a: own.response(paper, a).text for a in ("reference1", "reference2")}


async def test_a_review_that_obeys_loses_its_score_and_is_counted_and_the_ranking_does_not_change(
    edition, asking, toy_scorer
):
    _, scores, evaluation = await scored(edition, asking, toy_scorer)
    held = {row.agent: row for row in scores.injected.models}
    # one word of each reference is in the clean review, ln 4 nats; the obedient review has none
    assert (held["firm"].difference.value, held["firm"].obeyed, held["firm"].reviews) == (pytest.approx(0), 0, 3)
    assert held["meek"].difference.value == pytest.approx(-KNOWN)
    assert (held["meek"].obeyed, held["meek"].verdict) == (3, "too few papers")
    board = {row.agent: row for row in evaluation.leaderboard("gem-raw").rows}
    assert board["firm"].score == board["meek"].score == pytest.approx(KNOWN)
    assert (board["firm"].estimate.n, scores.papers) == (4, 4)
    stored = json.loads((edition.folder / "run" / "gre.json").read_text())["injected"]
    assert [row["verdict"] for row in stored["models"]] == ["too few papers", "too few papers"]
    assert "Hidden instructions: does gem-raw hold?" in (edition.folder / "run" / "gre.md").read_text()
    assert (edition.folder / "run" / "injected" / "leaderboard.json").exists()
    assert "Hidden instructions: does gem-raw hold?" in (edition.folder / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [((-3, -1), "falls"), ((1, 3), "rises"), ((-1, 1), "no change shown"), ((None, None), "too few papers")],
)
def test_a_score_falls_or_rises_where_the_interval_leaves_out_no_change(ends, verdict):
    assert ScoreHold("meek", 5.0, Estimate(0.0, *ends), 9, 9).verdict == verdict


async def test_a_second_version_whose_canary_is_lost_is_told(edition, asking, toy_scorer):
    await scored(edition, asking, toy_scorer)
    (path,) = edition.folder.rglob("tasks.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row | {"canary": None}) + "\n" for row in rows))
    with pytest.raises(UserError, match="no canary in the tasks table"):
        await scored(open_edition(edition.folder), asking, toy_scorer)


async def test_the_finished_results_are_written_even_if_the_hidden_instructions_cannot_be_scored(
    edition, asking, toy_scorer, monkeypatch
):
    async def fails(*_):
        raise UserError("the budget is spent")

    monkeypatch.setattr("goldless.apps.gre.scoring._hidden_evaluation", fails)
    with pytest.raises(UserError, match="the budget is spent"):
        await scored(edition, asking, toy_scorer)
    rows = json.loads((edition.folder / "run" / "leaderboard.json").read_text())["metrics"]["gem-raw"]["rows"]
    scores = {row["agent"]: row["estimate"]["value"] for row in rows}
    assert (scores["firm"], scores["meek"]) == pytest.approx((KNOWN, KNOWN))
