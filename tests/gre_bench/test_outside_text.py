"""Courtesies around a review are left out; whatever may belong to it is kept."""

from __future__ import annotations

import pytest

from goldless.gre_bench.review_sections import outside_text


@pytest.mark.parametrize(
    "line",
    [
        "Here is my review:",
        "Here's a detailed peer review of the paper.",
        "**Below is my review of the submission, in the tags as requested:**",
        "Sure! Here is the review:",
        "Here it is, with <summary> and <questions> tags as you asked:",
        "Certainly!",
        "# Review",
        "## Review of “Plants in the Dark”",
        "Best wishes",
        "I hope this review helps!",
        "Please let me know if you would like me to expand on any point.",
        "--- End of review ---",
    ],
)
def test_a_courtesy_is_left_out_and_said_to_be(line):
    found = outside_text(f"\n{line}\n")
    assert (found.kept, found.courtesy) == ("", True)


@pytest.mark.parametrize(
    "line",
    [
        "Here is the flaw of the paper under review: the proof.",
        "Here is a review paper without a new result.",
        "Here is what I asked the authors.",
        "Below are reviews that contradict it.",
        "Please let me know how the rate was chosen.",
        "Let me know if there is a proof of it.",
        "Thank you for Theorem 2, which is wrong.",
        "Overall: reject.",
        "Sure, but the proof is wrong.",
    ],
)
def test_a_line_that_says_something_of_the_paper_is_kept(line):
    found = outside_text(f"Here is my review:\n\n{line}")
    assert (found.kept, found.courtesy) == (line, True)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<review>\n\n</review>", ""),
        ('<output lang="en">\n<br/>\n</output>', ""),
        ("<!-- review -->\nIt is weak.\n<!-- end\nof it -->", "It is weak."),
        ("<rating>6</rating><confidence> 4 </confidence>", ""),
        ("<rating>\n6: weak accept\n</rating>\nIt is weak.", "It is weak."),
        ("<limits>They do not say how old they were.</limits></review>", "They do not say how old they were."),
        ("<limits>\nThey do not say how old they were.\n</limits>", "They do not say how old they were."),
        ("<review>\n\nI recommend rejection.\n</review>", "I recommend rejection."),
        ("<output>\nOverall: borderline reject.</output>", "Overall: borderline reject."),
        ("<output>Overall: borderline reject.\n</output>", "Overall: borderline reject."),
        ("<limitations>Not discussed at all.</limitations>", "Not discussed at all."),
        ("<pros>Clear writing, novel idea.</pros>", "Clear writing, novel idea."),
        ("<ul>\n<li>No code.</li>\n<li>Weak.</li>\n</ul>", "No code.\n\nWeak."),
        ("<b>Theorem 2 is false.</b>", "Theorem 2 is false."),
        ("<overall_score>6</overall_score>\n<decision>weak accept</decision>", ""),
        (
            "<decision>Reject, since the proof of Theorem 2 is wrong.</decision>",
            "Reject, since the proof of Theorem 2 is wrong.",
        ),
        ("Use <!-- in the code; it should be A --> B.", "Use <!-- in the code; it should be A --> B."),
        ("The <b>main</b> claim is wrong.", "The <b>main</b> claim is wrong."),
        ("It holds for a<b and c>d only.", "It holds for a<b and c>d only."),
    ],
)
def test_tags_around_a_review_and_ratings_between_tags_are_no_words_of_it(text, kept):
    assert outside_text(text).kept == kept


def test_lines_without_words_and_marks_of_code_blocks_go_and_paragraphs_stay():
    found = outside_text("---\n```xml\n\nOne.\n\n\n\nTwo.\n```\n***\n")
    assert (found.kept, found.courtesy) == ("One.\n\nTwo.", False)
