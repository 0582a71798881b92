"""Thoughts are never read as a reply, whoever wrote them in whatever marks, and whatever the reply is for."""

from __future__ import annotations

import math
import re
from contextlib import closing as closed

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.apps.debate.stage import C2
from goldless.evidence import JUDGEMENTS
from goldless.generation import rewrite, write_synopsis
from goldless.judging.asking import ReviewQuestion, ReviewStage
from goldless.judging.exams import changed_items
from goldless.judging.judges import CRITIC_PROMPTS, JUDGES
from goldless.meta_evaluation.perturbations.perturbation import written
from goldless.models.catalogue import SERVICES
from goldless.models.interface import ChatReply, ChatRequest, Message, usable
from goldless.models.journal import Journal
from goldless.models.journalled import JournalledModel
from goldless.models.scripted import ScriptedModel
from goldless.models.thoughts import MARKS, MOST_BLOCKS, reply_start, reply_tokens
from goldless.models.turn_signs import without_turn_signs
from goldless.models.usage import Ledger
from goldless.records import CallFailure, Response, Task
from goldless.runs.review_evidence import read_judgements
from goldless.templates import GENERAL
from tests.support.servers.loopback import Behaviour, chat_reply
from tests.support.servers.providers import KEY, ProviderServer
from tests.support.thoughtful_models import BACKENDS, FINAL, KINDS, TEMPLATE, THOUGHTS, ByteModel, Plugin

pytestmark = pytest.mark.anyio

ASK = ChatRequest((Message("user", "Which is better, one or two?"),))
FINISHED = {name: kind.reply(THOUGHTS, "{reply}") for name, kind in KINDS.items()}
UNFINISHED = {name: kind.before + THOUGHTS for name, kind in KINDS.items() if kind.unfinished}


@pytest.fixture
def server(monkeypatch):
    with ProviderServer(Behaviour()) as running:
        for name in ("openai", "bedrock", "mistral", "anthropic", "google"):
            monkeypatch.setenv(SERVICES[name].keys[0], KEY)
            at_root = name in {"anthropic", "bedrock", "google"}
            monkeypatch.setenv(SERVICES[name].url_variable, running.root if at_root else running.url)
        yield running


def journalled(model, journal) -> JournalledModel:
    return JournalledModel(model, journal, Ledger("toy", None))


# --- backends ----------------------------------------------------------------------------------------------------


async def replies_of(backend, server, path, texts):
    """The reply to the same question for each text that the model writes."""
    for kind, text in texts.items():
        model = BACKENDS[backend](server, text)
        await model.prepare()
        try:
            with closed(Journal(path, occasion=kind)) as journal:
                yield kind, await journalled(model, journal).chat(ASK)
        finally:
            await model.aclose()


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_reply_of_any_backend_is_what_stands_behind_the_thoughts(backend, server, tmp_path):
    texts = {kind: text.format(reply="Answer two.\nIt is right.") for kind, text in FINISHED.items()}
    async for kind, reply in replies_of(backend, server, tmp_path / "journal.sqlite", texts):
        assert (reply.text, reply.finish) == ("Answer two.\nIt is right.", "stop"), kind


@pytest.mark.parametrize("backend", BACKENDS)
async def test_thoughts_of_any_backend_without_an_end_are_a_failed_call(backend, server, tmp_path):
    async for kind, failure in replies_of(backend, server, tmp_path / "journal.sqlite", UNFINISHED):
        assert isinstance(failure, CallFailure), kind
        assert failure.kind == "truncated", kind
        assert "still thinking" in failure.message, kind


async def test_unfinished_thoughts_are_paid_once_and_stay_a_failure(journal):
    inner = ScriptedModel(answers=lambda _: "<think>one")
    first = await journalled(inner, journal).chat(ASK)
    assert await journalled(inner, journal).chat(ASK) == first
    assert first.kind == "truncated"
    assert len(inner.calls) == 1


@pytest.mark.parametrize("text", FINISHED.values(), ids=FINISHED)
async def test_a_reply_that_an_older_journal_kept_with_thoughts_is_read_without(text, tmp_path, monkeypatch):
    raw = text.format(reply="two")
    with monkeypatch.context() as patch:
        patch.setattr(ChatReply, "__post_init__", lambda _: None)
        with closed(Journal(tmp_path / "journal.sqlite")) as journal:
            assert (await journalled(Plugin(raw), journal).chat(ASK)).text == raw
    with closed(Journal(tmp_path / "journal.sqlite")) as journal:
        assert (await journalled(Plugin("not asked again"), journal).chat(ASK)).text == "two"


SPECIAL = {
    "Magistral": ("[THINK]", "[/THINK]"),
    "gpt-oss": ("<|channel|>", "<|message|>", "<|start|>", "<|end|>"),
    "Command": ("<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>"),
}


@pytest.mark.parametrize("kind", SPECIAL)
async def test_marks_that_are_special_tokens_are_seen_on_this_machine(kind, journal):
    model = ByteModel(FINISHED[kind].format(reply="caf\u00e9 two"), special=SPECIAL[kind])
    await model.prepare()
    reply = await journalled(model, journal).chat(ChatRequest(ASK.messages, logprobs=True))
    assert reply.text == "caf\u00e9 two"
    assert "".join(token for token, _ in reply.token_logprobs) == reply.text
    assert {value for _, value in reply.token_logprobs} == {-0.25}


@pytest.mark.parametrize(
    ("written_text", "text"), [("It may be one.\n</think>\n\ntwo", "two"), ("It may be one.", None), ("", None)]
)
async def test_thoughts_that_a_template_opens_on_this_machine_have_an_end_or_fail(written_text, text, journal):
    model = ByteModel(written_text, template=f"{TEMPLATE}<think>\n")
    await model.prepare()
    reply = await journalled(model, journal).chat(ASK)
    assert reply.kind == "truncated" if text is None else reply.text == text


@pytest.mark.parametrize("room", [True, False])
async def test_a_server_whose_template_opens_the_thoughts_is_given_room_for_them_or_fails(room, server, journal):
    """The probe's reply is cut at its limit without an answer; later ones have an end of thoughts, or were cut."""
    pieces = ("First", ",", " one", " looks", " fine", ".", "\n", "</think>", "\n\n", "two")

    def think(body):
        cut = not room or body["max_tokens"] < 100
        listed = pieces[:7] if cut else pieces
        return chat_reply("".join(listed), finish="length" if cut else "stop", logprobs=tokens(*listed))

    model = BACKENDS["openai"](server, "")
    server.said = server.behaviour.chat = think
    await model.prepare()
    stage = ReviewStage(journalled(model, journal), JUDGES["pairwise"])
    (judgement,) = await stage.review([ReviewQuestion("t", "ann", "bob")], TEXTS, {"t": "Why?"})
    await model.aclose()
    if room:
        assert (judgement.label, judgement.read_from) == ("two", "probabilities")
    else:
        assert judgement.failure.kind == "truncated"


# --- uses --------------------------------------------------------------------------------------------------------

TEXTS = {("t", "ann"): "A cat sat on the mat.", ("t", "bob"): "It rains."}
SCALES = {**JUDGES, **CRITIC_PROMPTS}
GRADES = "Understanding Coverage Substantiation Constructiveness Usefulness"
SCORES = "<scores>\n" + "\n".join(f"{name}: 4" for name in GRADES.split()) + "\n</scores>"
EXAMINERS = {
    "lm-examiner": "<overall_score>4</overall_score>",
    "lm-examiner-criteria": SCORES,
    "lm-examiner-general": SCORES,
}


def judge(scale):
    async def use(model):
        questions = [ReviewQuestion("t", "ann", "bob" if scale.pairwise else None)]
        (judgement,) = await ReviewStage(model, scale, verdicts="labels").review(questions, TEXTS, {"t": "Why?"})
        return judgement.value if judgement.failure is None else judgement.failure

    return use


async def debate(model):
    stage = C2(model, JUDGES["pairwise"])
    (judgement,) = await stage.review([ReviewQuestion("t", "ann", "bob")], TEXTS, {"t": "Why?"})
    return (judgement.value, judgement.output) if judgement.failure is None else judgement.failure


async def exam(model):
    (item,) = await changed_items(model, {"t": "Why do cats sleep?"}, TEXTS, relevant="ann")
    return item.irrelevant


async def sample(model):
    return usable(await model.chat(ASK), "sample", 10)


def verdict_on(scale):
    if scale.labels:
        return scale.spoken(next(iter(scale.labels)))
    return EXAMINERS.get(scale.name, "4")


USES = {
    **{f"verdict, {name}": (judge(scale), verdict_on(scale)) for name, scale in SCALES.items()},
    "debate": (debate, "Verdict: two"),
    "changed question of an exam": (exam, "How do dogs bark?"),
    "rewrite": (lambda model: rewrite(model, GENERAL, Response("t", "ann", "A cat.")), "- A cat."),
    "synopsis": (lambda model: write_synopsis(model, Task("t", prompt="Why?"), "abstract"), "It asks why."),
    "paraphrase": (lambda model: written(model, "Say it again.", "A cat.", what="paraphrase"), "One cat."),
    "sample": (sample, "Because."),
}


def marked(request, text):
    """The text with the mark of the question where a verdict carries it."""
    if not request.mark:
        return text
    text = text.replace("Verdict:", f"Verdict-{request.mark}:")
    return re.sub(r"(</?(?:overall_score|scores))>", rf"\1-{request.mark}>", text)


async def outcome(name, text, journal):
    use, _ = USES[name]
    model = ScriptedModel(answers=lambda request: marked(request, text), name=text)
    return await use(journalled(model, journal))


@pytest.mark.parametrize("name", USES)
async def test_every_use_of_a_reply_is_the_same_with_and_without_thoughts(name, journal):
    reply = USES[name][1]
    plain = await outcome(name, reply, journal)
    assert not isinstance(plain, CallFailure)
    for kind, text in FINISHED.items():
        assert await outcome(name, text.format(reply=reply), journal) == plain, kind


@pytest.mark.parametrize("name", USES)
async def test_every_use_fails_where_the_thoughts_have_no_end(name, journal):
    for kind, text in UNFINISHED.items():
        failure = await outcome(name, text, journal)
        assert isinstance(failure, CallFailure), kind
        assert failure.kind == "truncated"


@pytest.mark.parametrize("text", FINISHED.values(), ids=FINISHED)
def test_recorded_outputs_are_read_without_thoughts(text):
    row = {"reviewer": "r", "format": "pairwise", "task": "t", "first": "ann", "second": "bob"}
    rows = pl.DataFrame([row | {"output": text.format(reply="two")}], schema=JUDGEMENTS)
    assert read_judgements(rows, JUDGES["pairwise"], "default")["value"].to_list() == [0.0]


# --- what are thoughts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("<THINK>A</THINK> two", "two"),
        (" \n<think>a</think>\n<think>b</think>\ntwo", "two"),
        ("<think>\n\n</think>\n\ntwo", "two"),
        ("<think>It writes `</think>` twice.</think>two", "two"),
        ("It writes </think> here.\n</think>\n\ntwo", "two"),
        ('I use <think> tags, "</think>" ends them.\n</think>\ntwo', "two"),
        ("a</think><think>b</think>two", "two"),
        ("The end.\n  </think>two", "two"),
        (f"{FINAL}two", "two"),
        ("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|end|>" + FINAL + "two", "two"),
        ("<think>a</think>", ""),
        ("", ""),
    ],
)
def test_thoughts_end_at_a_mark_where_models_write_it(text, reply):
    assert ChatReply(text).text == reply


@pytest.mark.parametrize(
    "text",
    [
        "Their model writes </think> first.",
        "It reasons between\n<think>\nand\n</think>\ntokens.",
        "Use `</think>`, not '</reasoning>'.",
        "two. The response ends with (</think>)",
        '{"verdict": "two", "quotation": "</think>"}',
        "two\n\nThe response says:\n<\\/think>\none",
        "analysis of the two answers: assistant finally says two",
        "My thinking> is <thought through.",
    ],
)
def test_marks_that_are_mentioned_stay(text):
    assert ChatReply(text).text == text


PIECES = [
    "<think>",
    "</think>",
    "[/THINK]",
    "<reasoning>",
    "</reasoning>",
    "\n",
    " ",
    "`",
    "two",
    "assistantfinal",
    FINAL,
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_a_reply_read_again_is_the_same(text):
    reply = ChatReply(text)
    assert ChatReply(reply.text, reply.finish) == reply
    assert reply_start(reply.text) == 0


def test_a_text_of_countless_thoughts_has_no_end_and_is_read_quickly():
    assert ChatReply("<think> </think> a</think>" * 5_000).finish == "length"
    assert ChatReply("<think>a</think>" * (MOST_BLOCKS - 1) + "two").text == "two"


@pytest.mark.parametrize("kind", KINDS)
async def test_no_judge_copies_a_mark_from_a_response(kind, journal):
    """A reviewer that quotes what it was shown, before and behind its verdict, says the same as without."""
    response = f"{FINISHED[kind].format(reply='one')}\n{KINDS[kind].behind}\none"
    texts = {("t", "ann"): response, ("t", "bob"): "It rains."}

    def quote(request):
        shown = request.messages[-1].content
        assert reply_start(f"Well.\n{shown}") == 0
        return marked(request, f"Verdict: two\n\nThe first response says:\n{without_turn_signs(response)}")

    model = journalled(ScriptedModel(answers=quote), journal)
    (judgement,) = await ReviewStage(model, JUDGES["pairwise"], verdicts="labels").review(
        [ReviewQuestion("t", "ann", "bob")], texts, {"t": None}
    )
    assert judgement.value == 0.0


@pytest.mark.parametrize(("opening", "closing"), MARKS)
def test_every_mark_of_the_table_is_tried_and_shown_in_no_question(opening, closing):
    assert any(re.search(opening, kind.before + THOUGHTS) for kind in KINDS.values())
    behind = [kind.behind for kind in KINDS.values() if re.search(closing, kind.behind)]
    assert behind
    assert [mark for mark in behind if re.search(closing, Message("user", mark).content)] == []


# --- tokens ------------------------------------------------------------------------------------------------------


def tokens(*texts):
    listed = [{"token": "one", "logprob": -9.0}]
    return [{"token": text, "logprob": -0.5, "top_logprobs": listed} for text in texts]


THINKING = ("One", " is", " good", ".", "\n", "</think>", "\n\n")


@pytest.mark.parametrize(
    ("content", "listed", "own"),
    [
        ("two", [*THINKING, "two"], ["two"]),  # vLLM and SGLang, which return the thoughts apart
        ("two", [*THINKING, "two", "<|im_end|>"], ["two"]),
        ("two", ["<think>", *THINKING, "two", "</s>", ""], ["two"]),
        ("".join(THINKING) + "two", [*THINKING, "two"], ["two"]),
        ("two, yes", ["\u2581two", ",", "\u2581yes"], ["two", ",", " yes"]),
        ("\n\ntwo", ["two"], ["\n\ntwo"]),
        ("two", ["<reasoning>", "twotwo"], None),
        ("two", ["One", " is"], None),
    ],
)
async def test_token_probabilities_are_those_of_the_text_or_absent(content, listed, own, server, journal):
    model = BACKENDS["openai"](server, "")
    server.said = server.behaviour.chat = lambda _: chat_reply(content, logprobs=tokens(*listed))
    reply = await journalled(model, journal).chat(ChatRequest(ASK.messages, logprobs=True))
    chosen = await journalled(model, journal).chat(ChatRequest(ASK.messages, choices=("one", "two")))
    await model.aclose()
    assert reply.token_logprobs == (None if own is None else tuple((token, -0.5) for token in own))
    assert chosen.text == "two"
    assert (chosen.choice_logprobs is None) == (own is None)
    if own is not None:  # e^-0.5 against e^-9
        assert chosen.choice_logprobs["two"] == pytest.approx(-math.log1p(math.exp(-8.5)))


def test_tokens_of_another_text_are_none_of_its_own():
    assert reply_tokens(["a", "b"], "c") == reply_tokens([], "c") == reply_tokens(["a"], " ") == {}
