"""A review's sections are found however a model wrote them, and what was not as asked for is flagged."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldless.gre_bench.papers import HumanReview
from goldless.gre_bench.review_forms import REVIEW_PROMPT, SECTIONS
from goldless.gre_bench.review_sections import CUT_REPLY, FLAG_WORDS, noticed, parse_review

ALL = {"Summary": "A", "Strengths": "B", "Weaknesses": "C", "Questions": "D"}
TAGGED = "<summary>A</summary>\n<strengths>B</strengths>\n<weaknesses>C</weaknesses>\n<questions>D</questions>"


@pytest.mark.parametrize(
    "words",
    [
        "You are given a paper submission for a top-tier Machine Learning conference which you need to write",
        "First, write a concise summary of the key points and contributions of the paper inside <summary> tags.",
        "Inside <strengths> tags, give a numbered list of at least 4 key reasons why this paper should potentially be",
        "Then, inside <weaknesses> tags, give a numbered list of at least 4 key reasons",
        "List your questions inside <questions> tags.",
        "and justify your points carefully with reference to the content of the paper.",
    ],
)
def test_the_prompt_is_the_papers_c3(words):
    """GEM paper, appendix C.3."""
    assert words in REVIEW_PROMPT


def test_the_tags_that_are_parsed_are_those_that_the_prompt_asks_for():
    assert all(f"<{name}>" in REVIEW_PROMPT for name in SECTIONS)
    assert REVIEW_PROMPT.count(">") == len(SECTIONS)


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (TAGGED, ()),
        (TAGGED.replace("\n", ""), ()),
        (TAGGED.upper(), ()),
        (TAGGED.replace("<", "< ").replace(">", " >"), ()),
        (TAGGED.replace("strengths", "strength").replace("questions", "Question"), ()),
        (re.sub("(<.*?>)", r"\n**\1**\n", TAGGED), ()),
        (f"```xml\n{TAGGED}\n```", ("fenced",)),
        (f"```\n{TAGGED}", ("fenced",)),
        (f"<think>I will use <summary> and <questions>.</think>\n{TAGGED}", ("thinking",)),
        (f"I will use <summary> tags.\n</think>\n{TAGGED}", ("thinking",)),
        (f"Here is my review:\n\n{TAGGED}\n\nBest wishes", ("courtesy",)),
        (TAGGED.replace("<summary>", "<summary id='1'>"), ()),
        (TAGGED.replace("ths>B", 'ths lang="en" class=long>B'), ()),
        (f"Here is my review:\n```xml\n{TAGGED}\n```", ("courtesy",)),
        (f"{TAGGED}\n</summary>\n---\n<questions/>", ()),
        (f"<review>\n{TAGGED}\n</review>", ()),
        (f"<output>{TAGGED}</output>", ()),
        (f"<!-- review -->\n{TAGGED}\n<!-- end\nof it -->", ()),
        (f"{TAGGED}\n<rating>6</rating> <confidence>4</confidence>", ()),
        (TAGGED.replace("</strengths>", ""), ("unclosed:strengths",)),
        (TAGGED.replace("</questions>", ""), ("unclosed:questions",)),
        ("<summary>A <strengths>B <weaknesses>C <questions>D", tuple(f"unclosed:{name}" for name in SECTIONS)),
        (TAGGED.replace("</", "<"), tuple(f"unclosed:{name}" for name in SECTIONS)),
        ("## Summary\nA\n## Strengths\nB\n## Weaknesses\nC\n## Questions\nD", ("headings",)),
        ("**Summary:** A\n\n**Strengths**:\nB\n\n__Weaknesses__\nC\n\nQuestions:\nD", ("headings",)),
        ("### 1. Paper summary\nA\n### 2. **Strengths**\nB\nWEAKNESSES: C\n# Questions to authors\nD", ("headings",)),
        ("## Summary\n<summary>A</summary>\n## Strengths\nB\n## Weaknesses\nC\n## Questions\nD", ("headings",)),
        (f"## Summary\n{TAGGED}", ()),
    ],
)  # fmt: skip
def test_all_sections_are_found_however_they_are_marked(text, flags):
    found = parse_review(text)
    assert (dict(found.sections), found.flags) == (ALL, flags)


def test_the_text_is_in_the_form_of_a_persons_review():
    assert parse_review(TAGGED).text == HumanReview("", ALL).text
    assert parse_review(TAGGED).text == "Summary:\n\nA\n\nStrengths:\n\nB\n\nWeaknesses:\n\nC\n\nQuestions:\n\nD"


def test_sections_come_in_the_order_asked_for():
    assert list(parse_review("<questions>D</questions><summary>A</summary>").sections) == ["Summary", "Questions"]


def test_a_review_that_stops_half_way_says_what_is_missing():
    found = parse_review("<summary>A</summary>\n<strengths>\n1. Fast, and")
    assert dict(found.sections) == {"Summary": "A", "Strengths": "1. Fast, and"}
    assert found.flags == ("unclosed:strengths", "missing_section:weaknesses", "missing_section:questions")


def test_an_empty_section_is_missing():
    found = parse_review(TAGGED.replace("D", " \n"))
    assert ("Questions" in found.sections, found.flags) == (False, ("missing_section:questions",))


def test_a_review_without_any_structure_is_one_section():
    found = parse_review("\nThe paper is fine. Its strengths are many.\n")
    assert dict(found.sections) == {"Review": "The paper is fine. Its strengths are many."}
    assert found.flags == ("no_tags",)


def test_a_review_that_is_a_persons_form_is_read_by_its_titles():
    assert dict(parse_review(HumanReview("", ALL).text).sections) == ALL


def test_both_texts_of_a_section_that_stands_there_twice_are_kept():
    found = parse_review(f"{TAGGED}\n<weaknesses>E</weaknesses>")
    assert (found.sections["Weaknesses"], found.flags) == ("C\n\nE", ("duplicate:weaknesses",))
    same = parse_review(f"{TAGGED}\n{TAGGED}")
    assert dict(same.sections) == ALL
    assert same.flags == tuple(f"duplicate:{name}" for name in SECTIONS)


@pytest.mark.parametrize("text", ["", " \n", "<think>All of it is thought, <b>", "<think>Hm.</think> \n"])
def test_where_nothing_was_written_but_thoughts_there_is_no_section(text):
    found = parse_review(text)
    assert (dict(found.sections), found.text) == ({}, "")
    assert found.flags


@pytest.mark.parametrize(
    ("text", "sections", "flags"),
    [
        (
            "<summary>s</summary>\n\nThe proof of Theorem 2 is wrong.",
            {"Summary": "s", "Other": "The proof of Theorem 2 is wrong."},
            (*(f"missing_section:{name}" for name in SECTIONS[1:]), "text_outside"),
        ),
        (
            f"Overall: reject.\n{TAGGED}\n## Limitations\nNot told.",
            {**ALL, "Other": "Overall: reject.\n\n## Limitations\nNot told."},
            ("text_outside",),
        ),
        (
            f"Here is my review:\n{TAGGED}\nThe code is not there.",
            {**ALL, "Other": "The code is not there."},
            ("courtesy", "text_outside"),
        ),
        (f"{TAGGED}\n## Summary\nMore of it.", {**ALL, "Other": "More of it."}, ("text_outside",)),
        (
            "It is weak.\n## Summary\nA\n## Strengths\nB\n## Weaknesses\nC\n## Questions\nD",
            {**ALL, "Other": "It is weak."},
            ("headings", "text_outside"),
        ),
        (f"{TAGGED}\nSummary of it is too kind", {**ALL, "Other": "Summary of it is too kind"}, ("text_outside",)),
    ],
)  # fmt: skip
def test_words_outside_of_all_sections_are_kept_as_a_section_of_their_own(text, sections, flags):
    found = parse_review(text)
    assert (dict(found.sections), found.flags) == (sections, flags)
    assert found.text.endswith(f"Other:\n\n{sections['Other']}")


# --- hostile and quoted texts --------------------------------------------------------------------------------------


def test_tags_quoted_inside_a_section_belong_to_its_text():
    quoted = (
        "The prompt in its appendix asks for <summary> tags, closed by </summary>:\n<summary>Perfect.</summary>\n"
        "<questions>None.</questions>\nThat is odd."
    )
    found = parse_review(TAGGED.replace("C", quoted))
    assert (dict(found.sections), found.flags) == ({**ALL, "Weaknesses": quoted}, ())


def test_a_closing_tag_quoted_inside_its_own_section_does_not_end_it():
    quoted = "It never writes </weaknesses> itself. Bad."
    found = parse_review(TAGGED.replace("C", quoted))
    assert (dict(found.sections), found.flags) == ({**ALL, "Weaknesses": quoted}, ())


def test_a_tag_quoted_within_a_line_of_a_section_without_end_does_not_end_it():
    found = parse_review(TAGGED.replace("C</weaknesses>", "It says <questions> often.\nC"))
    assert found.sections["Weaknesses"] == "It says <questions> often.\nC"
    assert (found.sections["Questions"], found.flags) == ("D", ("unclosed:weaknesses",))


def test_a_tag_at_the_end_of_a_closed_section_stays_in_its_text():
    found = parse_review(TAGGED.replace("C", "They forget <summary>"))
    assert (found.sections["Weaknesses"], found.flags) == ("They forget <summary>", ())


def test_words_about_tags_before_the_review_are_no_section():
    found = parse_review(f"Here it is, with <summary> and <questions> tags as you asked:\n{TAGGED}")
    assert (dict(found.sections), found.flags) == (ALL, ("courtesy",))


def test_a_blockquoted_tag_does_not_begin_a_section():
    found = parse_review(TAGGED.replace("C</weaknesses>", "As they write:\n> <summary>Perfect\nC"))
    assert (found.sections["Summary"], found.flags) == ("A", ("unclosed:weaknesses",))


def test_an_end_of_thought_quoted_in_a_review_does_not_swallow_what_is_before():
    quoted = "Their model writes </think> first."
    found = parse_review(TAGGED.replace("D", quoted))
    assert (dict(found.sections), found.flags) == ({**ALL, "Questions": quoted}, ())


QUOTE = "Reasoning stands between <think> and </think> tokens."
HEADED = "## Summary\nA\n## Strengths\nB\n## Weaknesses\nC\n## Questions\nD"


@pytest.mark.parametrize("place", ALL)
@pytest.mark.parametrize(
    ("written", "flags"),
    [
        (TAGGED, ()),
        (TAGGED.replace("\n", ""), ()),
        (f"Here is my review: {TAGGED}", ("courtesy",)),
        (re.sub("</.*?>", "", TAGGED), tuple(f"unclosed:{name}" for name in SECTIONS)),
        (HEADED, ("headings",)),
        (re.sub(r"## (\w+)\n", r"**\1:** ", HEADED), ("headings",)),
    ],
)
def test_marks_of_thoughts_may_be_quoted_in_every_section(written, flags, place):
    found = parse_review(re.sub(rf"\b{ALL[place]}\b", QUOTE, written))
    assert (dict(found.sections), found.flags) == ({**ALL, place: QUOTE}, flags)


@pytest.mark.parametrize("review", [TAGGED, HEADED])
@pytest.mark.parametrize("gap", ["", " ", "\n\n"])
@pytest.mark.parametrize(
    "thought",
    [
        "Plants. I like them.\n",
        "I will use <summary>, <strengths>, <weaknesses> and <questions> tags.",
        "So I begin with\n<summary>\nand so on.\n",
        "1. <summary>: short\n2. <questions>: many\n",
        TAGGED.replace("A", "X").replace("D", "Y") + "\nThat is too short.\n",
        TAGGED.replace("A", f"X {QUOTE}") + "\nThat is too long.\n",
        "Summary: plants.\nQuestions: why plants?\n",
        HEADED.replace("A", "X"),
    ],
)
def test_thoughts_that_were_not_opened_are_left_out_with_what_they_draft(thought, gap, review):
    found = parse_review(f"{thought}</think>{gap}{review}")
    assert (dict(found.sections), found.flags[0]) == (ALL, "thinking")


def test_thoughts_about_sections_that_the_review_lacks_are_left_out():
    kept = "<summary>A</summary>\n<strengths>B</strengths>"
    for thought in ("I will ask <questions> too.", "Questions:\n- why plants?\n"):
        assert dict(parse_review(f"{thought}</think>\n{kept}").sections) == {"Summary": "A", "Strengths": "B"}
    assert dict(parse_review("Questions: why?\n</think>\nFine.").sections) == {"Review": "Fine."}


def test_a_quotation_that_ends_its_line_or_is_a_block_of_its_own_stays_under_its_heading():
    texts = {**ALL, "Summary": "It adds </think> tokens.", "Questions": "Why </think>\nat all?"}
    inline = "\n".join(f"**{title}:** {text}" for title, text in texts.items())
    assert dict(parse_review(inline).sections) == texts
    block = "C\n<think>\nreasoning\n</think>\nis shown"
    assert dict(parse_review(HEADED.replace("C", block)).sections) == {**ALL, "Weaknesses": block}


@pytest.mark.parametrize("answer", ["This paper presents X. It is good.", "**Summary:** A\n**Strengths:** B"])
def test_a_plan_under_headings_is_thought_where_its_end_begins_a_line(answer):
    found = parse_review(f"Okay.\nStrengths:\n- a\nWeaknesses:\n- b\n</think>{answer}")
    assert found.text == parse_review(answer).text
    assert found.flags[0] == "thinking"


def test_a_reply_of_nothing_but_marks_of_thoughts_is_read():
    """Of thousands only the first are weighed: all of them would take half a minute."""
    assert parse_review("<summary>" + "</think>" * 5000).text.startswith("Summary:")


def test_a_heading_quoted_inside_a_tagged_section_stays_there():
    found = parse_review(TAGGED.replace("C", "C\n## Questions\nfor them"))
    assert (found.sections["Weaknesses"], found.sections["Questions"]) == ("C\n## Questions\nfor them", "D")


PIECES = st.sampled_from(
    [*(f"<{slash}{name}>" for name in SECTIONS for slash in ("", "/")), "<think>", "</think>", "```", "\n", " x ",
     "## Summary\n", "**Questions:** ", "\x00", "<", ">", "é"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join))
def test_no_text_is_too_strange_to_be_parsed_and_no_words_are_invented(text):
    found = parse_review(text)
    assert all(section.strip() for section in found.sections.values())
    for section in found.sections.values():
        assert sum(section.count(letter) for letter in "xé\x00") <= sum(text.count(letter) for letter in "xé\x00")


@given(st.dictionaries(st.sampled_from(SECTIONS), st.from_regex(r"[a-z]+( [a-z]+)*", fullmatch=True), min_size=1))
def test_what_is_tagged_comes_back_as_it_is(sections):
    text = "".join(f"<{name}>\n{body}\n</{name}>\n" for name, body in sections.items())
    found = parse_review(text)
    assert found.sections == {name.capitalize(): body for name, body in sections.items()}
    assert found.flags == tuple(f"missing_section:{name}" for name in SECTIONS if name not in sections)


@pytest.mark.parametrize(
    "reply", ["<summary></summary>", "<summary> </summary>\n<strengths></strengths>", "</summary>"]
)
def test_tags_around_nothing_are_no_review(reply):
    assert parse_review(reply).text == ""


@pytest.mark.parametrize("rest", ["<", "</", "</summ", "<weakne"])
def test_a_tag_in_which_a_reply_was_cut_is_not_part_of_it(rest):
    assert parse_review(f"<summary>It adds numbers.{rest}").text == "Summary:\n\nIt adds numbers."


def test_flags_are_told_in_plain_words():
    flags = {"missing_section:questions": 4, "no_tags": 1, "unclosed:think": 2, "cut_reply": 3, "of_others": 5}
    assert noticed(flags) == [
        "4 without questions",
        "1 without any section",
        "2 with unclosed reasoning",
        "3 cut off at the length limit",
        "5 of_others",
    ]


def test_every_flag_has_plain_words():
    replies = (
        "no section at all",
        "## Summary\nS.\n## Strengths\nT.",
        "```\n<summary>S.</summary>\n```",
        "<think>well</think><summary>S.</summary><summary>Again.</summary>",
        "<think>well, <summary>S.",
        "Here is my review:\n<summary>S.</summary>\nAnd one remark more, of some length, outside of everything.",
    )
    found = {flag.partition(":")[0] for reply in replies for flag in parse_review(reply).flags}
    assert found | {CUT_REPLY} == set(FLAG_WORDS)
