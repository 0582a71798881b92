"""A study takes models' reviews whole or not at all, and loses nothing that rests on what it had."""

from __future__ import annotations

import json
from functools import partial

import pytest
from reviewed_papers import TAGGED, scripted, text_of

import goldless
from goldless.apps.gre.reviewing import add_reviews
from goldless.errors import UserError
from goldless.records import Agent

pytestmark = pytest.mark.anyio


def contents(folder) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


async def test_reviews_of_the_same_agent_are_replaced_and_those_of_others_stay(folder, generate):
    path = folder()
    add_reviews(path, await generate(path, {"a": scripted("a"), "b": scripted("b")}))
    other = scripted("c", answers=lambda r: TAGGED.format("New") if "alpha" in r.messages[1].content else "")
    known = {"a": Agent("a", parameters=1e9)}
    add_reviews(path, await generate(path, {"a": other}, agents=known))
    study = goldless.read_study(path)
    assert study.response("p1", "a").text.startswith("Summary:\n\nNew.")
    assert study.response("p2", "a") is None, "a missing review takes the place of the old one"
    assert study.response("p2", "b").text == text_of("p2")
    rows = [(r["agent"], r["model"], r["task"], r["failure"]) for r in study.table("generations").to_dicts()]
    assert rows == [
        ("b", "scripted:b", "p1", None), ("b", "scripted:b", "p2", None),
        ("a", "scripted:c", "p1", None), ("a", "scripted:c", "p2", "bad_reply"),
    ]  # fmt: skip
    assert [(a.agent, a.parameters) for a in study.agents][3:] == [("a", 1e9), ("b", None)]


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("rewrites", {"rewriter": "r", "task": "p1", "agent": "a", "text": "The reviewer likes it."}),
        ("labels", {"task": "p1", "agent": "a", "rater": "ann", "score": 1}),
    ],
)
async def test_a_review_that_labels_or_evidence_are_about_is_not_replaced(folder, generate, table, row):
    path = folder()
    add_reviews(path, await generate(path, {"a": scripted("a")}))
    (path / f"{table}.jsonl").write_text(json.dumps(row) + "\n")
    add_reviews(path, await generate(path, {"a": scripted("a")}))
    before = contents(path)
    new = await generate(path, {"a": scripted("b", answers=lambda _: TAGGED.format("New"))})
    with pytest.raises(UserError, match=f"1 rows of the table {table} are about reviews of a"):
        add_reviews(path, new)
    assert contents(path) == before


async def test_reviews_do_not_go_into_another_study_nor_over_a_persons(folder, generate, tmp_path):
    path = folder()
    generated = await generate(path, {"a": scripted("a")})
    other = tmp_path / "other"
    other.mkdir()
    (other / "responses.jsonl").write_text('{"task": "q", "agent": "x", "text": "y"}\n')
    (other / "agents.jsonl").write_text('{"agent": "x"}\n{"agent": "a", "group": "human"}\n')
    before = contents(other)
    with pytest.raises(UserError, match=r"(?s)'a' is reserved for human reviews.*no tasks named 'p1', 'p2'"):
        add_reviews(other, generated)
    assert contents(other) == before


@pytest.mark.parametrize("text", ["</summary><summary>\x00 null", "line\u2028feed \r\n return", '"quoted", comma\t🎉'])
async def test_hostile_replies_stand_in_the_study_as_they_are(folder, generate, text):
    path, reply = folder(), f"<weaknesses>{text}</weaknesses>"
    add_reviews(path, await generate(path, {"a": scripted(answers=partial(str.format, reply))}))
    study = goldless.read_study(path)
    assert study.response("p1", "a").text == f"Weaknesses:\n\n{text}"
    assert study.table("generations")["raw"][0] == reply
