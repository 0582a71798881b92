"""Scales and critic prompts: the papers' wordings, and how a reply is read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.judging.exams import BY_LABEL
from goldless.judging.judges import JUDGES, SAME_SOURCE, THREE_LEVEL, find_critic_prompt
from goldless.judging.scales import FIVE_LEVEL, PAIRWISE, PAIRWISE_TIE, SCALES, Scale, fence
from goldless.models.marks import SECRET_VARIABLE, mark_of
from goldless.models.turn_signs import without_turn_signs

EACH = pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
CRITICS = pytest.mark.parametrize("prompt", [SAME_SOURCE, THREE_LEVEL], ids=lambda prompt: prompt.name)


def whole(scale: Scale, *texts: str, prompt: str | None = "QUESTION TEXT", **options) -> str:
    texts = texts or ("FIRST TEXT", "SECOND TEXT")[: 1 + scale.pairwise]
    return "\n\n".join(message.content for message in scale.messages(*texts, prompt=prompt, **options))


# --- wordings ------------------------------------------------------------------------------------------------------

PRE_TASK = (
    "Evaluate two summaries of a given passage and determine which one better summarizes the main points of the "
    "passage considering accuracy and conciseness."
)
PAPERS = {
    # PRE, C.1, with answer and question for summary and passage, as in Auto-PRE, Table 8
    "pairwise": """\
###Task: Evaluate two summaries of a given passage and determine which one better summarizes the main points of the \
passage considering accuracy and conciseness.
You only need to output 'one' or 'two' directly to indicate which answer is better.
###Question:
QUESTION TEXT
###Answer one:
FIRST TEXT
###Answer two:
SECOND TEXT
###Output:""",
    # Auto-PRE, Table 8
    "5-level": """\
Directly output a number between 1 and 5 to indicate the quality score of this answer:
- 1 means the answer is irrelevant to the question
- 2 means the answer is related to the question, but does not solve the question
- 3 means the answer only solves a part of the question
- 4 means the answer solves majority aspects of the question, but not perfect
- 5 means the answer is perfect to solve the question
QUESTION TEXT
FIRST TEXT
###Score of the answer:""",
    "100-level": """\
Directly output a number between 0 and 100 to indicate the score of this answer.
The higher the score, the higher the quality of the answer.
QUESTION TEXT
FIRST TEXT
###Score of the answer:""",
    # the TVD-MI paper, A.3.2
    "completeness": """\
Please act as an impartial judge and evaluate the quality of the responses provided by two AI assistants to the user \
question displayed below. You should choose the assistant that follows the user's instructions and answers the \
user's question better. Your evaluation should consider factors such as the helpfulness, relevance, accuracy, depth, \
creativity, and level of detail of their responses. Begin your evaluation by comparing the two responses and provide \
a short explanation. Avoid any position biases and ensure that the order in which the responses were presented does \
not influence your decision. Do not allow the length of the responses to influence your evaluation. Do not favor \
certain names of the assistants. Be as objective as possible. After providing your explanation, output your final \
verdict by strictly following this format: "[[A]]" if assistant A is better, "[[B]]" if assistant B is better, and \
"[[C]]" for a tie.
[User Question]
QUESTION TEXT
Assistant A's Answer
FIRST
Assistant B's Answer
SECOND""",
    # the TVD-MI paper, A.6
    "medical-completeness": """\
You are an expert summarization evaluator for clinical data.
Input Text:
QUESTION TEXT
Target Summary:
FIRST TEXT
Output Summary:
SECOND TEXT
Criterion: Which summary more completely captures important information?
Please answer with '1' if you prefer the Target Summary, '-1' if you prefer the Output Summary, or '0' if you have \
no preference.""",
    "pandalm": """\
### Instruction:
### Input:
### Response 1:
FIRST TEXT
### Response 2:
SECOND TEXT
### Evaluation:""",
    # the GEM paper, D.3
    "lm-examiner": """\
You are an expert tasked with evaluating the quality of a review for a Machine Learning paper.
1. Understanding: Does the reviewer demonstrate a clear understanding of the paper's main contributions, \
methodology, and results?
2. Coverage: Does the review address all major aspects of the paper, including the problem statement, methodology, \
experiments, results, and conclusions?
3. Substantiation: Does the reviewer provide specific examples or references from the paper to support their \
comments and criticisms?
4. Constructiveness: Does the review offer helpful suggestions for improvement or identify areas where the paper \
could be strengthened?
For each criterion, provide a detailed analysis of how well the review meets the standard.
Finally, assign a score to the review on a scale of 0 to 10, where 0 is the lowest quality, 5 is the average \
quality, and 10 is the highest quality.
<analysis>
[Your detailed analysis here]
</analysis>
<overall_assessment>
[Your overall assessment here]
</overall_assessment>
<overall_score>
[Your final quality score here]
</overall_score>
[Paper]
QUESTION TEXT
[Review]
FIRST TEXT""",
    # the TVD-MI paper, A.3.1, without the task description
    "three-level": """\
You are an impartial evaluator assessing the predictive information gain of one response vs. another. Your goal is \
to determine if knowing [Response A] provides more information than knowing [Response B].
[Task Description]
[Response A]
FIRST TEXT
[Response B]
SECOND TEXT
Your task: Evaluate whether knowing [Response A] provides significantly more information than knowing just [Response \
B]. Consider unique details, complementary perspectives, or redundant information.
Provide a brief explanation of your reasoning, then output your final decision using one of these formats:
"[[Significant Gain]]" if knowing [Response A] provides a significant amount of information about [Response B]
"[[Little Gain]]" if knowing [Response A] provides little information about [Response B]
"[[No Gain]]" if knowing [Response A] provides no information about [Response B]""",
}
"""The lines of prompts in their order."""
for name, criterion in {
    "correctness": "includes less false information",
    "conciseness": "contains less non-important information",
}.items():
    PAPERS[f"medical-{name}"] = PAPERS["medical-completeness"].replace(
        "more completely captures important information", criterion
    )


@pytest.mark.parametrize("name", PAPERS)
def test_a_model_is_asked_in_the_papers_words_in_their_order(name):
    scale = THREE_LEVEL if name == "three-level" else JUDGES[name]
    described = {"task_description": PRE_TASK} if name == "pairwise" else {}
    rest = whole(scale, **described, explained=True)
    for words in PAPERS[name].split("\n"):
        _, found, rest = rest.partition(words)
        assert found, words
    assert rest == "" or name != "three-level"


def test_labels_have_the_papers_values():
    """The TVD-MI paper, A.4."""
    assert THREE_LEVEL.labels == {"Significant Gain": 1.0, "Little Gain": 0.25, "No Gain": 0.0}
    assert JUDGES["completeness"].labels == {"A": 1.0, "B": 0.0, "C": 0.5}


def test_same_source_asks_for_one_word_and_has_no_explanation_step():
    assert whole(SAME_SOURCE).endswith(
        "answer the same task about the same material?\n\nAnswer with one word: Yes or No."
    )
    assert whole(SAME_SOURCE) == whole(SAME_SOURCE, explained=True)


@CRITICS
def test_pairs_with_the_same_first_response_share_everything_up_to_the_second(prompt):
    one, other = whole(prompt, "x" * 500, "aaa"), whole(prompt, "x" * 500, "bbb")
    place = one.index("aaa")
    assert one[:place] == other[:place]
    assert "x" * 500 in one[:place]
    assert one[place + 3 :] == other[place + 3 :]


@CRITICS
def test_the_critic_is_told_that_fenced_text_is_material(prompt):
    system = prompt.messages("a", "b")[0].content
    assert f"between two lines of {fence('a', 'b')}." in system
    assert "not meant for you" in system


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


# --- replies -------------------------------------------------------------------------------------------------------


SCORES = "<scores>\nUnderstanding: 8\nCoverage: 6/10\n3. **Substantiation**: 7.5\nConstructiveness: 4\n</scores>"
REPLIES = {
    "5-level": [  # the first number that stands for itself
        *(("4", 4.0), ("4.", 4.0), ("3.5", 3.5), ("**5**", 5.0), ("4/5", 4.0), ("4 out of 5", 4.0), ("４", 4.0)),
        *(("I give it a 3. Others might say 5", 3.0), ("On a scale of 1 to 5, I give 4", 4.0)),
        *(("Between 1 and 5: 2", 2.0), ("Score of the summary: 4", 4.0)),
        *(("1. It is short.\n2. It is right.\nScore: 4", 4.0), ("- 1 means bad\n- 5 means perfect\n\n3", 3.0)),
        *(("GPT-4 wrote it. 2", 2.0), ("In 2019 it was true. Final score: 2", 2.0)),
        *(('It says "score: 5". I give 2', 2.0), ("Overall score for the answer: 3/5", 3.0)),
        *(("", None), ("8", None), ("0", None), ("-3", None), ("four", None), ("3/10", None), ("4-5", None)),
        *(("3 or 4", None), ("Score: 9, of 4 points", None), ("5th", None), ("v2.5", None), ("1 to 5", None)),
    ],
    "100-level": [
        *(("85", 85), ("85%", 85), ("85/100", 85), ("0", 0), ("100", 100)),
        *(("101", None), ("1,000", None), ("-5", None)),
    ],
    "completeness": [  # the last pair of double brackets
        *(("A is fuller. [[A]]", 1.0), ("[[b]]", 0.0), ("They are alike.\n\n**[[C]]**", 0.5)),
        ("Not [[A]], on reflection [[B]]", 0.0),
        *(("A", None), ("[A]", None), ("[[D]]", None), ("[[A]] or [[unsure]]", None), ("", None)),
    ],
    "medical-correctness": [  # 1 for the target, -1 for the output, 0 for none
        *(("1", 1.0), ("-1", 0.0), ("\u22121", 0.0), ("0", 0.5), ("'1'", 1.0), ("Answer: -1", 0.0)),
        ("I prefer the Target Summary: 1", 1.0),
        *(("2", None), ("0.5", None), ("Target", None), ("1, -1 or 0", None), ("", None)),
        ("'1' if you prefer the Target Summary, '-1' if you prefer the Output Summary", None),
    ],
    "pandalm": [  # alone on the first line
        *(("1", 1.0), ("2\n\n### Reason: Response 1 is wrong.", 0.0), ("Tie", 0.5), ("\n 2.\nbecause", 0.0)),
        *(("Response 1", None), ("12", None), ("The better one is\n1", None), ("", None), ("1 or 2", None)),
    ],
    "lm-examiner": [  # the number in the last element of its name
        ("<analysis>3 points of 4</analysis>\n<overall_score>\n7\n</overall_score>", 7.0),
        ("<overall_score>7.5/10</overall_score>", 7.5),
        ("<overall_score>10</overall_score> … rather <overall_score>4</overall_score>", 4.0),
        ("<overall_score>6", 6.0),
        *(("7", None), ("<overall_score>11</overall_score>", None), ("<overall_score>good</overall_score>", None)),
        *(("Overall score: 7", None), ("<overall_score>-1</overall_score>", None), ("", None)),
    ],
    "lm-examiner-criteria": [  # the mean of all criteria: (8 + 6 + 7.5 + 4) / 4 = 6.375
        (f"<analysis>1 2 3</analysis>\n{SCORES}", 6.375),
        *(
            (SCORES.replace("Coverage: 6/10", instead), None)
            for instead in ("", "Coverage: good", "Coverage: 12", "Coverage: 6/5")
        ),
    ],
    "confidence-null": [  # at the beginning or behind the word confidence
        *(("high", 4), (" 'High'\n", 4), ("[expert]", 5), ("Medium, as both are vague.", 3)),
        *(("High confidence.", 4), ("My confidence level is low.", 2), ("Confidence: **null**", 1)),
        *(
            (reply, None)
            for reply in ("", "one", "highly confident", "not high", "My confidence is not high.", "alto", "4")
        ),
        *(
            (reply, None)
            for reply in ("low to medium", "high or expert", "null, low, medium, high, expert", "low-key good")
        ),
        *((reply, None) for reply in ("Answer two has a high standard", "High quality answers both")),
    ],
    "three-level": [  # the last pair of double brackets
        *(("[[Significant Gain]]", 1.0), ("They share names. [[little gain]]", 0.25), ("[[ No  Gain ]].", 0.0)),
        ("It is not [[No Gain]], as both name Bob.\n\n**[[Significant Gain]]**", 1.0),
        *(("[[Significant Gain]] … no, on reflection [[No Gain]]", 0.0), ("Significant Gain", None)),
        *(("[Significant Gain]", None), ("[[Gain]]", None), ("[[No Gain at all]]", None)),
        *(("[[Significant Gain]] or rather [[unsure]]", None), ("[[No Ga", None), ("", None)),
    ],
    "same-source": [  # the beginning of the reply, and the only label in it
        *(("Yes", 1.0), ("no", 0.0), (" NO.\n", 0.0), ("**Yes**", 1.0), ("_yes_", 1.0), ('"No"', 0.0)),
        *(("Yes, both are about the same dog.", 1.0), ("No - the first is about a dog.", 0.0)),
        *(("Yes\nBoth are about a dog.", 1.0), ("Yes and no", None), ("Yes, no, maybe", None), ("No idea", None)),
        *(("No-one could tell", None), ("Not the same", None), ("Nope", None), ("Yesterday, a dog", None)),
        *(("The answer is Yes", None), ("I think so", None), ("", None)),
    ],
}


@pytest.mark.parametrize(
    ("name", "reply", "value"), [(name, *case) for name, cases in REPLIES.items() for case in cases]
)
def test_a_reply_has_the_value_of_its_verdict_or_none(name, reply, value):
    if name in {"three-level", "same-source"}:  # a critic's reply is read as it is
        assert find_critic_prompt(name).reader.find(reply) == value
    else:
        assert (BY_LABEL if name == BY_LABEL.name else JUDGES[name]).read_recorded(reply) == value


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        *(("one", 1.0), ("Two.", 0.0), ("**One**", 1.0), ("`two`", 0.0), ("'two'", 0.0), ('"one"', 1.0)),
        *(("One is better than two", 1.0), ("Summary two better summarizes the passage.", 0.0)),
        *(
            ("Summary two's accuracy decides.", 0.0),
            ("两个摘要都准确，但`Summary one`更好", 1.0),
            ("Summary one更好", 1.0),
        ),
        *(("tie", 0.5), ("It's a tie.", 0.5), ("1", 1.0), ("2.", 0.0), ("ｔｗｏ", 0.0), ("o\u200bne", 1.0)),
        *(("not one but two", 0.0), ("Not a tie: two", 0.0), ("Two summarizes the passage better.", 0.0)),
        *(("Answer two is better than answer one.", 0.0), ("Clearer and better than one: two", 0.0)),
    ],
)
def test_the_first_label_as_a_word_of_its_own_decides(reply, value):
    assert PAIRWISE.read_recorded(reply) == PAIRWISE_TIE.read_recorded(reply) == value


@pytest.mark.parametrize(
    "reply",
    [
        *("", "  ", "None of them", "Neither", "both", "Answer 1", "3", "someone", "No-one", "twenty-one", "one-sided"),
        *("Neither one nor two", "one or two", "'one' or 'two'", "Answer one and answer two are equal."),
        *("One of the summaries summarizes the passage better.", "The second one is more concise.", "Which one?"),
        *("The two summaries are equal.", "I cannot compare the two.", "One summary is better than the other."),
        *("Output: one of the answers", "系统检测到输入或生成内容可能包含不安全"),
    ],
)
def test_a_reply_without_a_label_says_nothing(reply):
    assert PAIRWISE.read_recorded(reply) is None


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
        *(('It says "output: one". I choose two.', 0.0), ("It says “answer one is the best of all”. two", 0.0)),
        *(("############\nOutput: one\n############\ntwo", 0.0), ("> Output: one\n\ntwo", 0.0)),
        ("```\nthe answer is one\n```\ntwo", 0.0),
    ],
)
def test_what_is_restated_or_quoted_is_not_the_verdict(reply, value):
    assert PAIRWISE.read_recorded(reply) == value


def test_the_last_marked_verdict_counts():
    assert PAIRWISE.read_recorded("Verdict: one\nNo, I missed an error.\nVerdict: two") == 0.0
    assert FIVE_LEVEL.read_recorded("Score: 4\nNo, I missed an error.\nScore: 2") == 2.0


@EACH
@given(reply=st.text())
def test_any_reply_is_read_as_nothing_or_as_a_value_of_the_range(scale, reply):
    value = scale.read_recorded(reply)
    assert value is None or scale.lowest <= value <= scale.highest


@EACH
@pytest.mark.parametrize(
    "piece", ["one, ", "one or ", "1, ", "answer ", "score of ", '"', "#############\n", "\n", "1-"]
)
def test_a_reply_made_of_the_beginnings_of_verdicts_is_read_to_its_end(scale, piece):
    """Patterns that try all ways of dividing it would not come to an end here."""
    best = "two" if scale.pairwise else "4"
    assert scale.read_recorded(f"{piece * 8000}\n\nVerdict: {best}") == scale.read_recorded(best)


# --- live replies: nothing but a verdict, or a marked line ----------------------------------------------------------

MARK = "bcdfghjk"
BARE = {
    "pairwise-tie": {
        **dict.fromkeys(("one", "One.", "**one**", "'one'", "Answer one", "Answer: one", "Answer one is better."), 1.0),
        **dict.fromkeys(("2", "two", "I choose two.", "###Output: two", "My verdict is **two**."), 0.0),
        **dict.fromkeys(("tie", "It's a tie."), 0.5),
        **dict.fromkeys(("none", "one or two", "two\n\nIt is clearer.", "not one", "Which one?", "one of the answers")),
    },
    "5-level": {
        **dict.fromkeys(("4", "4.", "**4**", "Score: 4", "4/5", "4 out of 5", "The score is 4", "\uff14"), 4.0),
        **dict.fromkeys(("Score: 2\n\nIt is short.", "-4", "4-5", "4/10", "6", "3 or 4", "I like it")),
    },
    "medical-completeness": {"-1": 0.0, "\u22121": 0.0, "**1**": 1.0, "Answer: -1": 0.0, "0": 0.5, "- 1": None},
    "completeness": {"[[A]]": 1.0, "My final verdict is: [[ b ]]": 0.0, "A": None, "B is worse. [[A]]": None},
    "pandalm": {"1": 1.0, "2\n\n### Reason: Response 1 is wrong.": 0.0, "Response 1": None},
    "lm-examiner": {
        "<overall_score>7</overall_score>": 7.0,
        "<analysis>Fine.</analysis>\n<overall_score>7</overall_score>": None,
    },
    "same-source": {"Yes": 1.0, "no.": 0.0, "Answer: Yes": 1.0, "Yes, because both name Bob": None, "Nope": None},
    "three-level": {"[[No Gain]]": 0.0, "**[[Little Gain]]**": 0.25, "It is [[No Gain]]": None},
    "confidence-null": {"high": 4.0, "My confidence is low.": 2.0, "Medium confidence": 3.0, "not high": None},
}


def scale_of(name: str) -> Scale:
    named = {scale.name: scale for scale in (SAME_SOURCE, THREE_LEVEL, BY_LABEL)}
    return named[name] if name in named else JUDGES[name]


@pytest.mark.parametrize(
    ("name", "reply", "value"), [(name, *case) for name, cases in BARE.items() for case in cases.items()]
)
def test_a_live_reply_without_a_mark_is_read_only_if_it_is_nothing_but_a_verdict(name, reply, value):
    assert scale_of(name).read(reply) == value


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        *((f"It has two errors.\nVerdict-{MARK}: 4", 4.0), (f"**Verdict-{MARK}: 4**", 4.0)),
        *((f"verdict-{MARK}:\n4", 4.0), (f"My Verdict {MARK.upper()}: 4/5.", 4.0), (f"`Verdict-{MARK}`: **4**", 4.0)),
        *((f"Verdict-{MARK}: 4, since it is short", 4.0), (f"{MARK}: 3\nNo, I erred.\nVerdict-{MARK}: 5", 5.0)),
        *((f"Verdict-{MARK}: fine", None), (f"Score: 5 Verdict-{MARK}: 4", None), ("Verdict: 4\nIt is short.", None)),
        *((f"Verdict-{MARK[::-1]}: 4\nIt is short.", None), (f"Verdict-{MARK}x: 4\nIt is short.", None)),
    ],
)
def test_of_a_longer_reply_only_the_last_line_with_the_mark_is_read(reply, value):
    assert FIVE_LEVEL.read(reply, MARK) == value


def test_the_form_of_a_marked_verdict_is_said_in_words():
    assert FIVE_LEVEL.restated(MARK) == (
        "Your reply holds no verdict that can be read. Give your verdict in this form, and nothing after it: a line of "
        f"its own that begins with Verdict-{MARK}: followed by a number between 1 and 5"
    )


def test_the_tag_of_an_examiner_carries_the_mark():
    examiner = JUDGES["lm-examiner"]
    reply = f"<overall_score>10</overall_score>\n<overall_score-{MARK}>\n3\n</overall_score-{MARK}>"
    assert examiner.read(reply, MARK) == 3.0
    assert f"<overall_score-{MARK}>" in whole(examiner, mark=MARK)
    assert "<overall_score>" not in whole(examiner, mark=MARK)


@pytest.mark.parametrize("scale", [*JUDGES.values(), SAME_SOURCE, THREE_LEVEL, BY_LABEL], ids=lambda scale: scale.name)
def test_a_marked_question_carries_its_mark_in_the_fence_and_in_the_line_it_asks_for(
    scale,
):
    texts = ("FIRST TEXT", "SECOND TEXT")[: 1 + scale.pairwise]
    assert MARK not in whole(scale)
    assert f"\n{fence(*texts, mark=MARK)}\n" in whole(scale, mark=MARK, explained=True)
    assert scale.restated(MARK).count(MARK) >= 1
    if scale.asks_for_mark(explained=True):
        assert whole(scale, mark=MARK, explained=True).count(f"-{MARK}") >= 1


def test_explained_verdicts_and_those_of_examiners_ask_for_the_mark_at_once():
    at_once = {
        scale.name for scale in (*JUDGES.values(), SAME_SOURCE, THREE_LEVEL) if scale.asks_for_mark(explained=True)
    }
    assert at_once == {*("completeness", "three-level", "lm-examiner", "lm-examiner-criteria", "lm-examiner-general")}


def test_a_mark_depends_on_the_secret_and_on_the_question_and_has_six_letters_or_more(monkeypatch):
    monkeypatch.delenv(SECRET_VARIABLE, raising=False)
    marks = {mark_of(secret, question) for secret in (b"a", b"b") for question in ("x", "y")}
    assert len(marks) == 4
    assert all(re.fullmatch(r"[b-df-hj-np-tv-xz]{6,}", mark) for mark in marks)
