"""Meaningless elongation: more words that say nothing, where a section or paragraph begins (GEM, D.2.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from itertools import cycle

from goldless.meta_evaluation.perturbations.headings import Unit, heading_at_line_start, split_units
from goldless.meta_evaluation.perturbations.perturbation import Made, Perturbation, Writer, of_text, written
from goldless.records import CallFailure, Response
from goldless.sentences import FENCE, LINE_END, LIST_MARK

FILLERS = (
    (
        "In what follows, several points will be taken up in turn, each of them in the place where it belongs. It is "
        "worth keeping in mind that what is said here is meant to be read together with everything else that is said."
    ),
    (
        "Having come this far, it seems right to go on to the next part, which is to be understood in the same "
        "spirit. As before, the aim is to say what there is to say, in the order in which it comes."
    ),
    (
        "With this in mind, a few further remarks are made below. They are set down here because this is the place "
        "for them, and they speak for themselves."
    ),
    (
        "Continuing along these lines, there is more to add, and it is added here. The following should be taken for "
        "what it is, no more and no less."
    ),
)
"""General words that say nothing, taken in turn."""

STRENGTHS = "Strength And Weaknesses"
SECTION_TEXTS: Mapping[str, str] = {
    "Summary Of The Paper": (
        "This section provides an overview of the key contributions, methodologies, and findings presented in the "
        "paper. It summarizes the main arguments and highlights the scope and significance of the research conducted. "
        "Specifically,"
    ),
    STRENGTHS: (
        "In this section, I will discuss the strengths and weaknesses of the paper, focusing on its contributions to "
        "the field, methodological rigor, and areas where improvements could be made. The aim is to provide "
        "constructive feedback that can help enhance the quality of the work.{summaries} Specifically, I discuss the "
        "strengths and weaknesses of the paper as following."
    ),
    "Clarity, Quality, Novelty And Reproducibility": (
        "I will evaluate the clarity of the paper's presentation, the quality of the research, the novelty of the "
        "findings, and the reproducibility of the experiments. This assessment will address whether the research is "
        "presented in a clear and coherent manner, offers new insights, and can be replicated based on the provided "
        "information."
    ),
    "Summary Of The Review": (
        "This summary encapsulates the main points of the review, reflecting on the paper's contributions, strengths, "
        "and areas for improvement. It provides a balanced overview of the paper's impact and offers final "
        "recommendations for the authors."
    ),
}
"""GEM, D.2.2: what is put at the beginning of each section of a review."""
SUMMARIES = (
    " This paper has several notable strengths, including {strengths}. However, there are some areas that could be "
    "improved, such as {weaknesses}."
)
"""GEM, D.2.2: the sentences that a model's two one-line summaries are put into."""
TWO_POINTS = (
    "You are given a peer review of a scientific paper, please identify two key {points} of the scientific paper from "
    "the review in a single, concise line, using two phrases separated by 'and'."
)
"""GEM, D.2.2: system message for the one-line summary of the strengths or of the weaknesses of a review."""
LINE_TOKENS = 256
"""Room for a summary of one line."""
ANY_SECTION = heading_at_line_start(tuple(SECTION_TEXTS))


def elongate(text: str) -> str:
    """The text with words that say nothing at the beginning of every section, or of every paragraph without sections.

    A text that has neither gets them at its beginning. Within a list they stand only before its first item.
    """
    units = split_units(text)
    fillers = cycle(FILLERS)
    pieces, place = [], 0
    for unit in _beginnings(text, units):
        apart = LIST_MARK.match(text, unit.start, unit.end) or FENCE.match(text, unit.start, unit.end)
        pieces += [text[place : unit.start], next(fillers), "\n" if apart else " "]
        place = unit.start
    if not pieces:
        return f"{FILLERS[0]}\n\n{text}"
    return "".join([*pieces, text[place:]])


def _beginnings(text: str, units: tuple[Unit, ...]) -> list[Unit]:
    """The sentences that open a section, or a paragraph where the text has no sections."""
    sectioned = any(unit.heading for unit in units)
    found: list[Unit] = []
    before: Unit | None = None
    for unit in units:
        opens = before is None or before.heading or (not sectioned and _new_paragraph(text, before, unit))
        if opens and not unit.heading:
            found.append(unit)
        before = unit
    return found


def _new_paragraph(text: str, before: Unit, unit: Unit) -> bool:
    if sum(1 for _ in LINE_END.finditer(text, before.end, unit.start)) < 2:
        return False
    listed = [LIST_MARK.match(text, each.start, each.end) is not None for each in (before, unit)]
    return not all(listed)


def elongate_review(text: str, *, strengths: str | None = None, weaknesses: str | None = None) -> str:
    """A review with the paper's fixed words at the beginning of each of its four sections (D.2.2).

    Headings are found in any case, with "Strength" or "Strengths"; a section that is not there gets nothing, and in one
    that holds nothing the words have a line of their own. The two one-line summaries are left out where they are not
    given.
    """
    told = strengths is not None and weaknesses is not None
    summaries = SUMMARIES.format(strengths=strengths, weaknesses=weaknesses) if told else ""
    added = []
    for name, words in SECTION_TEXTS.items():
        heading = find_section(text, name)
        if heading is not None:
            added.append(_addition(text, heading, words.replace("{summaries}", summaries)))
    # all places are found in the original, and those at the end are used first, so that none moves
    for place, said in sorted(added, reverse=True):
        text = f"{text[:place]}{said}{text[place:]}"
    return text


def find_section(text: str, name: str) -> re.Match[str] | None:
    """The first heading of the section where a line opens with it; None where no line does."""
    return heading_at_line_start([name]).search(text)


def _addition(text: str, heading: re.Match[str], said: str) -> tuple[int, str]:
    """Where the section begins, and the words with the white space that they need there."""
    following = ANY_SECTION.search(text, heading.end())
    if following is not None and not text[heading.end() : following.start()].strip():
        return following.start(), said + text[heading.end() : following.start()].lstrip(" \t")
    rest = text[heading.end() :]
    place = len(text) - len(rest.lstrip())
    same_line = "\n" not in text[heading.end() : place]
    if same_line and ":" not in heading[0]:  # a heading without a colon is one only while its line holds nothing else
        return place, f"\n{said} "
    space = "" if text[place - 1].isspace() else " "
    return place, f"{space}{said} "


async def _with_summaries(writer: Writer, response: Response) -> Made:
    """The review with the paper's words in full; without a section to sum up, no summary is asked for."""
    if find_section(response.text, STRENGTHS) is None:
        return elongate_review(response.text)
    lines = []
    for points in ("strengths", "weaknesses"):
        ask, what = TWO_POINTS.format(points=points), f"summary of the {points}"
        made = await written(writer, ask, response.text, what=what, most_tokens=LINE_TOKENS)
        if isinstance(made, CallFailure):
            return made
        lines.append(" ".join(made.split()).rstrip("."))
    return elongate_review(response.text, strengths=lines[0], weaknesses=lines[1])


ELONGATION = (
    Perturbation(
        "elongation",
        "manipulation",
        "GEM D.2.2, our words",
        "words that say nothing before every section or paragraph",
        of_text(elongate),
    )
    .with_form(
        "peer-review",
        of_text(elongate_review),
        source="GEM D.2.2, without the summaries",
        description="the paper's fixed words before each of the four sections of a review",
    )
    .with_form(
        "peer-review-summaries",
        lambda setting: partial(_with_summaries, setting.writer),
        source="GEM D.2.2",
        description="the same with a writer's two one-line summaries",
        needs_writer=True,
    )
)
