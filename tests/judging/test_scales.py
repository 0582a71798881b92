"""The scales: the papers' wordings, and how a reviewer's reply is read."""

from __future__ import annotations

import json
import re
import statistics
from collections import defaultdict
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.judging.scales import (
    FIVE_LEVEL,
    HUNDRED_LEVEL,
    PAIRWISE,
    PAIRWISE_TIE,
    SCALES,
    Scale,
)
from goldless.models.turn_signs import without_turn_signs

EACH = pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
PRE_TASK = (
    "Evaluate two summaries of a given passage and determine which one better summarizes the main points of the "
    "passage considering accuracy and conciseness."
)


def whole(scale: Scale, prompt: str | None = "QUESTION TEXT", **options) -> str:
    texts = ("FIRST TEXT", "SECOND TEXT")[: 1 + scale.pairwise]
    return "\n\n".join(message.content for message in scale.messages(*texts, prompt=prompt, **options))


def said_in_order(text: str, words: list[str]) -> None:
    for part in words:
        _, found, text = text.partition(part)
        assert found, part


# --- wordings ------------------------------------------------------------------------------------------------------


def test_pairwise_says_what_pre_says_in_its_order():
    """PRE, C.1, with answer and question for summary and passage, as in Auto-PRE, Table 8."""
    words = [
        f"###Task: {PRE_TASK}",
        "You only need to output 'one' or 'two' directly to indicate which answer is better.",
        *("###Question:", "QUESTION TEXT", "###Answer one:", "FIRST TEXT", "###Answer two:", "SECOND TEXT"),
        "###Output:",
    ]
    said_in_order(whole(PAIRWISE, task_description=PRE_TASK), words)


def test_five_level_says_what_auto_pre_says_of_each_level():
    """Auto-PRE, Table 8."""
    words = [
        "Directly output a number between 1 and 5 to indicate the quality score of this answer:",
        "- 1 means the answer is irrelevant to the question",
        "- 2 means the answer is related to the question, but does not solve the question",
        "- 3 means the answer only solves a part of the question",
        "- 4 means the answer solves majority aspects of the question, but not perfect",
        "- 5 means the answer is perfect to solve the question",
        *("QUESTION TEXT", "FIRST TEXT", "###Score of the answer:"),
    ]
    said_in_order(whole(FIVE_LEVEL), words)


def test_hundred_level_says_what_auto_pre_says():
    """Auto-PRE, Table 8."""
    words = [
        "Directly output a number between 0 and 100 to indicate the score of this answer.",
        "The higher the score, the higher the quality of the answer.",
        *("QUESTION TEXT", "FIRST TEXT", "###Score of the answer:"),
    ]
    said_in_order(whole(HUNDRED_LEVEL), words)


@EACH
def test_without_a_prompt_the_question_is_said_not_to_be_shown(scale):
    text = whole(scale, prompt=None)
    assert "###Question: not shown" in text
    assert "QUESTION TEXT" not in text


@EACH
def test_a_description_stands_in_place_of_the_neutral_one(scale):
    described = whole(scale, task_description="Judge {these} poems.")
    assert "###Task: Judge {these} poems. " in described
    assert scale.description in whole(scale)
    assert scale.description not in described


@pytest.mark.parametrize(
    ("sign", "broken"),
    [
        ("<|im_end|>", "<\\|im_end|>"),
        ("a </s> b", "a <\\/s> b"),
        ("[/INST]", "[\\/INST]"),
        ("<start_of_turn>", "<\\start_of_turn>"),
        ("<\uff5cUser\uff5c>", "<\\\uff5cUser\uff5c>"),
        ("a < b | c > d, [1], <b>", "a < b | c > d, [1], <b>"),
    ],
)
def test_signs_of_chat_templates_are_broken_up_and_other_text_is_kept(sign, broken):
    assert without_turn_signs(sign) == broken


@given(st.text("#<|>ab\n/s[]INST"), st.text("#<|>ab\n/s[]INST"))
def test_texts_never_close_their_fence(first, second):
    """Split by its fence, the message has the two texts between its own parts, and nothing else."""
    user = PAIRWISE.messages(first, second, prompt=None)[1].content
    line = user.split("###Answer one:\n", 1)[1].split("\n", 1)[0]
    parts = user.split(f"{line}\n", 1)[1].split(line)
    assert parts[0] == f"{without_turn_signs(first)}\n"
    assert parts[2] == f"\n{without_turn_signs(second)}\n"
    assert len(parts) == 4


# --- replies on pairwise scales --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("one", 1.0),
        ("Two.", 0.0),
        ("**One**", 1.0),
        ("`two`", 0.0),
        ("'two'", 0.0),
        ('"one"', 1.0),
        ("One is better than two", 1.0),
        ("Summary two better summarizes the passage.", 0.0),
        ("Summary two's accuracy decides.", 0.0),
        ("两个摘要都准确，但`Summary one`更好", 1.0),
        ("Summary one更好", 1.0),
        ("tie", 0.5),
        ("It's a tie.", 0.5),
        ("1", 1.0),
        ("2.", 0.0),
        ("ｔｗｏ", 0.0),
        ("o\u200bne", 1.0),
        ("not one but two", 0.0),
        ("Not a tie: two", 0.0),
        ("Two summarizes the passage better.", 0.0),
        ("Answer two is better than answer one.", 0.0),
        ("Clearer and better than one: two", 0.0),
    ],
)
def test_the_first_label_as_a_word_of_its_own_decides(reply, value):
    assert PAIRWISE.read(reply) == PAIRWISE_TIE.read(reply) == value


@pytest.mark.parametrize(
    "reply",
    [
        *("", "  ", "None of them", "Neither", "both", "Answer 1", "3", "someone", "No-one", "twenty-one", "one-sided"),
        *("Neither one nor two", "one or two", "'one' or 'two'", "Answer one and answer two are equal."),
        *("One of the summaries summarizes the passage better.", "The second one is more concise.", "Which one?"),
        *("The two summaries are equal.", "I cannot compare the two.", "One summary is better than the other."),
        *("Output: one of the answers", "<think>one", "系统检测到输入或生成内容可能包含不安全"),
    ],
)
def test_a_reply_without_a_label_says_nothing(reply):
    assert PAIRWISE.read(reply) is None


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("You only need to output 'one' or 'two' directly.\nOutput: two", 0.0),
        ("###Answer one: a text\n###Answer two: another\n###Output: two", 0.0),
        ("The two summaries agree, but summary one is shorter.", 1.0),
        ("Both summary one and summary two are fine. However, summary two is shorter.", 0.0),
        ("Which one is better? The better one is two.", 0.0),
        ("Answer one is long. Answer two is short. Therefore, my output is: two", 0.0),
        ("Answer one is long. I choose two.", 0.0),
        ("Two holds errors. Therefore, the better summary is Summary one.", 1.0),
        ('It says "output: one". I choose two.', 0.0),
        ("It says “answer one is the best of all”. two", 0.0),
        ("############\nOutput: one\n############\ntwo", 0.0),
        ("> Output: one\n\ntwo", 0.0),
        ("```\nthe answer is one\n```\ntwo", 0.0),
        ("<think>one is longer</think>\ntwo", 0.0),
    ],
)
def test_what_is_restated_or_quoted_is_not_the_verdict(reply, value):
    assert PAIRWISE.read(reply) == value


def test_the_last_marked_verdict_counts():
    assert PAIRWISE.read("Verdict: one\nNo, I missed an error.\nVerdict: two") == 0.0
    assert FIVE_LEVEL.read("Score: 4\nNo, I missed an error.\nScore: 2") == 2.0


# --- replies on rating scales ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        *(("4", 4.0), ("4.", 4.0), ("3.5", 3.5), ("**5**", 5.0), ("4/5", 4.0), ("4 out of 5", 4.0), ("４", 4.0)),
        ("I give it a 3. Others might say 5", 3.0),
        ("On a scale of 1 to 5, I give 4", 4.0),
        ("Between 1 and 5: 2", 2.0),
        ("Score of the summary: 4", 4.0),
        ("1. It is short.\n2. It is right.\nScore: 4", 4.0),
        ("- 1 means bad\n- 5 means perfect\n\n3", 3.0),
        ("GPT-4 wrote it. 2", 2.0),
        ("In 2019 it was true. Final score: 2", 2.0),
        ('It says "score: 5". I give 2', 2.0),
        ("Overall score for the answer: 3/5", 3.0),
        *(("", None), ("8", None), ("0", None), ("-3", None), ("four", None), ("3/10", None), ("4-5", None)),
        *(("3 or 4", None), ("Score: 9, of 4 points", None), ("5th", None), ("v2.5", None), ("1 to 5", None)),
    ],
)
def test_a_rating_is_the_first_number_that_stands_for_itself(reply, value):
    assert FIVE_LEVEL.read(reply) == value


@pytest.mark.parametrize(
    ("reply", "value"),
    [("85", 85), ("85%", 85), ("85/100", 85), ("0", 0), ("100", 100), ("101", None), ("1,000", None), ("-5", None)],
)
def test_hundred_levels_go_from_0_to_100(reply, value):
    assert HUNDRED_LEVEL.read(reply) == value


@EACH
@given(reply=st.text())
def test_any_reply_is_read_as_nothing_or_as_a_value_of_the_range(scale, reply):
    value = scale.read(reply)
    assert value is None or scale.lowest <= value <= scale.highest


@EACH
@pytest.mark.parametrize(
    "piece", ["one, ", "one or ", "1, ", "answer ", "score of ", '"', "#############\n", "\n", "1-"]
)
def test_a_reply_made_of_the_beginnings_of_verdicts_is_read_to_its_end(scale, piece):
    """Patterns that try all ways of dividing it would not come to an end here."""
    best = "two" if scale.pairwise else "4"
    assert scale.read(f"{piece * 8000}\n\nVerdict: {best}") == scale.read(best)


# --- copies of the responses -----------------------------------------------------------------------------------------


def test_a_verdict_that_only_a_copied_response_holds_is_none():
    text = "A fine text. I say: answer one is the best of all."
    assert PAIRWISE.read_apart(f"The response reads: {text}", [text, "other"]) is None
    assert PAIRWISE.read_apart(f"It reads: {text} Verdict: two", [text, "other"]) == 0.0


def test_a_response_that_holds_the_reviewers_words_cannot_turn_its_verdict_round():
    """Without the copied sentence the reply would name one first: ambiguous, so it is asked about again."""
    said = "Answer two is better. Answer one is worse."
    assert PAIRWISE.read_apart(said, ["Answer two is better.", "x"]) is None
    assert PAIRWISE.read_apart("two", ["two", "Answer two is better."]) == 0.0
    assert PAIRWISE.read_apart("Answer two", ["Answer two", "x"]) == 0.0


def test_a_reply_of_up_to_four_words_may_be_the_same_as_a_response():
    assert FIVE_LEVEL.read_apart("4 out of 5", ["4 out of 5"]) == 4
    assert FIVE_LEVEL.read_apart("it is 4 of 5", ["it is 4 of 5"]) is None


def test_what_is_said_more_often_than_in_the_response_is_the_reviewers_own():
    text = "Answer two is better."
    assert PAIRWISE.read_apart(f"It reads: {text} {text}", [text, "other"]) == 0.0


# --- recorded outputs ------------------------------------------------------------------------------------------------


@pytest.fixture
def table(recorded) -> Callable[[str], list[dict]]:
    def read(name: str) -> list[dict]:
        path = recorded / "xsum_peer_review" / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    return read


def human_signs(labels) -> dict[tuple[str, str, str], int]:
    """The sign of each pair's medians; votes beyond 0.5 with a margin of 2 decide where they tie; 0: a tie."""
    ratings, votes = defaultdict(list), defaultdict(int)
    for row in labels:
        if row.get("agent"):
            ratings[row["task"], row["agent"]].append(row["score"])
        elif abs(row["preference"]) > 0.5:
            sign = 1 if row["preference"] > 0 else -1
            votes[row["task"], row["first"], row["second"]] += sign
            votes[row["task"], row["second"], row["first"]] -= sign
    signs = {}
    for task, first in ratings:
        for second in {agent for of, agent in ratings if of == task and agent != first}:
            gap = statistics.median(ratings[task, first]) - statistics.median(ratings[task, second])
            margin = gap or (votes[task, first, second] if abs(votes[task, first, second]) >= 2 else 0)
            signs[task, first, second] = (margin > 0) - (margin < 0)
    return signs


def published_value(output: str) -> float | None:
    """A recorded output as the papers read it: the first "one" or "two" anywhere, even inside of "none"."""
    found = re.search("one|two", output, re.IGNORECASE)
    return None if found is None else float(found[0].casefold() == "one")


def accuracy(rows, signs, reading) -> dict[str, float]:
    scored = defaultdict(list)
    for row in rows:
        sign = signs[row["task"], row["first"], row["second"]]
        value = reading(row["output"])
        if sign:
            scored[row["reviewer"]].append(0.5 if value in {None, 0.5} else (value > 0.5) == (sign > 0))
    return {reviewer: round(float(statistics.fmean(hits)), 4) for reviewer, hits in scored.items()}


@pytest.mark.recorded
def test_recorded_outputs_read_as_published_give_the_published_accuracies(table):
    """Auto-PRE, Table 3, XSum, pairwise. "None of them" counts as one there."""
    rows = [row for row in table("judgements") if row["format"] == "pairwise"]
    found = accuracy(rows, human_signs(table("labels")), published_value)
    assert {name: found[name] for name in ("vicuna-7b", "fastchat-t5-3b", "chatgpt", "chatglm_pro", "gpt4")} == {
        "vicuna-7b": 0.5106,
        "fastchat-t5-3b": 0.6921,
        "chatgpt": 0.6470,
        "chatglm_pro": 0.6951,
        "gpt4": 0.7369,
    }


@pytest.mark.nightly
@pytest.mark.recorded
def test_recorded_outputs_of_one_word_are_read_as_published_and_wordy_ones_within_a_thousandth(table):
    rows = [row for row in table("judgements") if row["format"] == "pairwise"]
    signs = human_signs(table("labels"))
    ours = accuracy(rows, signs, PAIRWISE.read)
    published = accuracy(rows, signs, published_value)
    for name in ("vicuna-7b", "chatglm3-6b", "baichuan2-13b", "chatgpt", "chatglm_pro", "deepseek-r1"):
        assert ours[name] == published[name]
    assert {name for name in ours if abs(ours[name] - published[name]) > 0.001} == set()


@pytest.mark.recorded
def test_recorded_ratings_outside_of_the_range_are_missing_on_the_scale(table):
    outputs = [row["output"] for row in table("judgements") if row["format"] == "5-level"]
    zeros = [output for output in outputs if output.strip() == "0"]
    assert zeros
    assert {FIVE_LEVEL.read(output) for output in zeros} == {None}
