"""Models review papers side by side, nothing is asked twice, and the study takes the reviews whole or not at all."""

from __future__ import annotations

import json
from functools import partial

import pytest

import goldless
from goldless.apps.gre.reviewing import GeneratedReview, add_reviews
from goldless.errors import BudgetError, CapabilityError, PrerequisiteError, UserError
from goldless.models.interface import ChatReply
from goldless.models.scripted import ScriptedModel
from goldless.models.usage import Price
from goldless.records import Agent, CallFailure
from goldless.reports.document import write
from tests.apps.gre.reviewed_papers import PAPERS, PROMPT_WORDS, TAGGED, read_as_review, scripted, text_of
from tests.support.servers.loopback import Behaviour, LoopbackServer, chat_reply
from tests.support.study_files import write_rows
from tests.support.thoughtful_models import KINDS

pytestmark = pytest.mark.anyio


def contents(folder) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def causes(generated) -> list[tuple[str, str, str | None]]:
    return [(r.agent, r.task, r.failure) for r in generated.reviews]


# --- generating ----------------------------------------------------------------------------------------------------


async def test_a_paper_that_does_not_fit_is_missing_for_that_model_and_counted(folder, generate):
    """p1 has 3 words and p2 has 4: with the prompt and 10 for the review, p1 just fits."""
    path, small = folder(), scripted("small", context_length=PROMPT_WORDS + 3 + 10)
    generated = await generate(path, {"small": small, "large": scripted("large")}, max_tokens=10)
    assert causes(generated) == [
        ("small", "p1", None), ("small", "p2", "too_long"), ("large", "p1", None), ("large", "p2", None),
    ]  # fmt: skip
    assert (len(small.calls), generated.agents[0].missing, generated.open) == (1, {"too_long": 1}, 0)
    rows = {row["agent"]: row for row in write(generated)["agents"]}
    assert [rows["small"][count] for count in ("papers", "written", "missing")] == [2, 1, {"too_long": 1}]
    assert "too_long 1" in generated.table().to_markdown()
    add_reviews(path, generated)
    study = goldless.read_study(path)
    assert study.response("p2", "small") is None
    (row,) = [r for r in study.table("generations").to_dicts() if r["failure"] is not None]
    assert (row["agent"], row["task"], row["failure"], row["raw"]) == ("small", "p2", "too_long", None)


async def test_a_paper_is_cut_only_where_that_is_asked_for_and_every_row_says_so(folder, generate):
    path, small = folder(), scripted("small", context_length=PROMPT_WORDS + 3 + 10)
    generated = await generate(path, {"small": small}, max_tokens=10, truncate=True)
    assert small.calls[1].messages[1].content == "delta epsilon zeta "
    add_reviews(path, generated)
    rows = goldless.read_study(path).table("generations").to_dicts()
    assert [row["characters_cut"] for row in rows] == [0, len("eta")]
    assert all("|truncate:on|" in row["settings"] for row in rows)


async def test_a_paper_without_text_or_of_which_nothing_fits_is_not_asked_about(folder, generate):
    path, tiny = folder({"p1": "", "p2": "delta"}), scripted("tiny", context_length=PROMPT_WORDS + 10)
    generated = await generate(path, {"tiny": tiny}, max_tokens=10, truncate=True)
    assert causes(generated) == [("tiny", "p1", "not_recorded"), ("tiny", "p2", "too_long")]
    assert (tiny.calls, generated.reviews[0].input_tokens) == ([], None)


async def test_a_cut_review_is_missing_by_default_and_kept_with_a_flag_where_asked_for(folder, generate):
    half = ChatReply("<summary>A.</summary><strengths>1. Fast, and", "length")
    model = scripted(answers=lambda _: half)
    path = folder()
    generated = await generate(path, {"m": model})
    assert [(r.text, r.failure, r.raw) for r in generated.reviews] == [(None, "truncated", half.text)] * 2
    kept = await generate(path, {"m": model}, cut="keep")
    assert len(model.calls) == 2, "the replies were in the journal"
    assert kept.reviews[0].text == "Summary:\n\nA.\n\nStrengths:\n\n1. Fast, and"
    assert kept.agents[0].noticed == ("2 cut off at the length limit",)
    assert "|cut:kept|" in kept.signature


@pytest.mark.parametrize("kind", KINDS)
async def test_the_thoughts_of_a_model_are_no_part_of_its_review(folder, generate, kind):
    model = scripted(answers=lambda request: KINDS[kind].reply("I will use <summary> tags.", read_as_review(request)))
    path = folder()
    generated = await generate(path, {"m": model})
    assert [(review.text, review.failure) for review in generated.reviews] == [(text_of(p), None) for p in PAPERS]
    thinking = KINDS[kind].before + "We draft: <summary>A.</summary>"
    unfinished = await generate(path, {"unfinished": scripted("unfinished", answers=lambda _: thinking)})
    if KINDS[kind].unfinished:
        assert [(review.text, review.failure) for review in unfinished.reviews] == [(None, "truncated")] * 2


def test_reviews_that_were_kept_with_thoughts_are_read_without():
    review = GeneratedReview("a", "m", "p1", raw="<think><questions>A draft.</think>\n" + TAGGED.format("A"))
    assert review.text == text_of("p1").replace(PAPERS["p1"], "A")
    assert review.noticed == []


async def test_a_run_that_died_goes_on_and_asks_nothing_twice(folder, generate):
    path = folder()

    def die(request):
        if "delta" in request.messages[1].content:
            raise CapabilityError("torn")
        return read_as_review(request)

    with pytest.raises(CapabilityError, match="torn"):
        await generate(path, {"m": scripted(answers=die)})
    again = scripted()
    generated = await generate(path, {"m": again})
    assert [call.messages[1].content for call in again.calls] == [PAPERS["p2"]]
    assert causes(generated) == [("m", "p1", None), ("m", "p2", None)]
    assert [row.reused for row in generated.spending] == [1]
    # a reply out of the journal has the tokens of its call
    assert generated.reviews[0].input_tokens == 3


async def test_a_failed_call_is_left_open_and_said_to_be(folder, generate):
    path, seen = folder(), []

    def busy(request):
        return (
            CallFailure("server_error", "busy") if "delta" in request.messages[1].content else read_as_review(request)
        )

    generated = await generate(path, {"m": scripted(answers=busy)}, progress=seen.append)
    assert generated.open == 1
    assert generated.incomplete == "incomplete: 1 of 2 reviews are missing (server_error 1). Run the same command again"
    assert [(p.stage, p.done, p.failed, p.total) for p in seen] == [
        ("writing reviews", 1, 0, 2),
        ("writing reviews", 1, 1, 2),
    ]
    assert (await generate(path, {"m": scripted()})).incomplete is None


class Unreachable(ScriptedModel):
    """A model whose server does not answer."""

    async def prepare(self):
        raise PrerequisiteError("No server answers at http://127.0.0.1:9/v1.\nStart it.")


async def test_a_model_that_cannot_be_reached_is_left_open_and_the_others_go_on(folder, generate):
    path, said = folder(), []
    models = {"away": Unreachable(name="x"), "m": scripted()}
    generated = await generate(path, models, say=said.append)
    assert causes(generated) == [
        ("away", "p1", "connection"), ("away", "p2", "connection"), ("m", "p1", None), ("m", "p2", None),
    ]  # fmt: skip
    assert generated.incomplete == "incomplete: 2 of 4 reviews are missing (connection 2). Run the same command again"
    assert generated.examples["connection"] == "away on p2: No server answers at http://127.0.0.1:9/v1."
    assert any(line.startswith("away: cannot be reached now") for line in said)
    assert len(generated.spending) == 1
    add_reviews(path, generated)
    add_reviews(path, await generate(path, {**models, "away": scripted("x")}))
    # back again, then away: what it wrote stays
    add_reviews(path, await generate(path, models))
    study = goldless.read_study(path)
    assert [study.response(paper, "away").text for paper in PAPERS] == [text_of(paper) for paper in PAPERS]


# --- servers -------------------------------------------------------------------------------------------------------


def reviews_of_server(body):
    return chat_reply(TAGGED.format(body["messages"][-1]["content"]))


async def test_a_budget_that_is_spent_leaves_calls_open_which_a_second_run_makes(folder, generate):
    """At 1 USD for a million tokens a call of 1400 and 1500 tokens costs 0.0029 USD, and 0.004 is less than two.

    Each run also pays for the call that tests what the server can do, here 2 tokens.
    """

    def dear(body):
        read, written = (1400, 1500) if body["messages"][-1]["content"] in PAPERS.values() else (1, 1)
        return {**reviews_of_server(body), "usage": {"prompt_tokens": read, "completion_tokens": written}}

    price = Price(1.0, 1.0)
    with LoopbackServer(Behaviour(chat=dear)) as server:
        path, models = folder(), {"toy": f"{server.url}#toy"}
        with pytest.raises(BudgetError, match="price of http:toy is unknown"):
            await generate(path, models, budget_usd=1.0)
        first = await generate(path, models, max_tokens=1500, budget_usd=0.004, price=price)
        assert sorted(kind or "" for *_, kind in causes(first)) == ["", "budget"]
        assert first.incomplete == "incomplete: 1 of 2 reviews are missing (budget 1). Run the same command again"
        assert first.spending[0].cost_usd == pytest.approx(0.0029 + 2e-6)
        second = await generate(path, models, max_tokens=1500, budget_usd=0.004, price=price)
        assert (second.incomplete, second.spending[0].calls, second.spending[0].reused) == (None, 1 + 1, 1)


# --- what was asked before -----------------------------------------------------------------------------------------


async def test_a_model_whose_reviews_are_all_there_is_not_reached_for(folder, generate):
    path = folder()
    with LoopbackServer(Behaviour(chat=reviews_of_server)) as server:
        models = {"done": f"{server.url}#toy"}
        add_reviews(path, await generate(path, models, max_tokens=50))
        before = len(server.asked)
        again = await generate(path, models, max_tokens=50)
        assert len(server.asked) == before
    rows = contents(path)
    # its server is off now, and so is that of the other
    off = {**models, "away": Unreachable(name="x"), "m": scripted()}
    later = await generate(path, off, max_tokens=50)
    assert [r.text for r in again.reviews] == [text_of(paper) for paper in PAPERS]
    assert causes(later) == [
        ("done", "p1", None), ("done", "p2", None), ("away", "p1", "connection"), ("away", "p2", "connection"),
        ("m", "p1", None), ("m", "p2", None),
    ]  # fmt: skip
    assert (again.open, len(again.spending), later.open) == (0, 0, 2)
    add_reviews(path, again)
    assert contents(path) == rows


@pytest.mark.parametrize(
    "other",
    [
        {"max_tokens": 60},
        {"temperature": 0.5},
        {"seed": 1},
        {"truncate": True},
        {"cut": "keep"},
        {"context_length": {"m": 9000}},
    ],
)
async def test_other_settings_or_another_model_are_asked_for(folder, generate, other):
    path = folder()
    with LoopbackServer(Behaviour(chat=reviews_of_server)) as server:
        add_reviews(path, await generate(path, {"m": f"{server.url}#toy"}))
        before = len(server.asked)
        await generate(path, {"m": f"{server.url}#toy"}, **other)
        assert len(server.asked) > before
        before = len(server.asked)
        await generate(path, {"m": f"{server.url}/#toy"})
        assert len(server.asked) > before


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
    write_rows(path / f"{table}.jsonl", [row])
    add_reviews(path, await generate(path, {"a": scripted("a")}))
    before = contents(path)
    new = await generate(path, {"a": scripted("b", answers=lambda _: TAGGED.format("New"))})
    with pytest.raises(UserError, match=f"1 rows of the table {table} are about reviews of a"):
        add_reviews(path, new)
    assert contents(path) == before


@pytest.mark.parametrize("text", ["</summary><summary>\x00 null", "line\u2028feed \r\n return", '"quoted", comma\t🎉'])
async def test_hostile_replies_stand_in_the_study_as_they_are(folder, generate, text):
    path, reply = folder(), f"<weaknesses>{text}</weaknesses>"
    add_reviews(path, await generate(path, {"a": scripted(answers=partial(str.format, reply))}))
    study = goldless.read_study(path)
    assert study.response("p1", "a").text == f"Weaknesses:\n\n{text}"
    assert study.table("generations")["raw"][0] == reply


async def test_a_table_of_reviews_that_was_changed_by_hand_is_told_in_words(folder, generate):
    path = folder()
    add_reviews(path, await generate(path, {"a": scripted("a")}))
    file = path / "generations.jsonl"
    rows = [json.loads(line) | {"failure": ["x"]} for line in file.read_text().splitlines()]
    write_rows(file, rows)
    with pytest.raises(UserError, match=r"generations was changed by hand: failure.*Restore it"):
        await generate(path, {"a": scripted("a")})
