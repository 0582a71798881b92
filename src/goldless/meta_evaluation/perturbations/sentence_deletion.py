"""Sentence deletion: every second sentence goes, the headings stay, and gaps may be filled (GEM, D.1.1 and D.1.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from goldless.meta_evaluation.perturbations.headings import SECTIONS, Unit, section_names, split_units
from goldless.meta_evaluation.perturbations.perturbation import (
    MATERIAL,
    Apply,
    Made,
    Perturbation,
    Writer,
    room_for,
    written,
)
from goldless.records import CallFailure, Response
from goldless.sentences import LINE_END, LIST_MARK, Sentence, split_sentences

PLACEHOLDER = "[There is one missing sentence]"
"""Stands for a deleted sentence (GEM, D.1.2)."""


def delete_every_second(text: str, *, sections: Sequence[str] = SECTIONS) -> str:
    """The text without every second sentence; lines, list marks and headings stay, and a heading restarts the count.

    A line that loses all of its sentences goes. A Markdown code block counts as one sentence.
    """
    units = split_units(text, sections=sections)
    if not units:
        return text
    pieces, gap, mark = [text[: units[0].start]], "", ""
    for unit, kept, after in zip(units, _kept(units), _gaps(text, units), strict=True):
        if kept:
            pieces += [gap, mark, text[unit.start : unit.end]]
            gap = after
        else:
            gap = max(gap, after, key=_line_ends)
        # a list item whose first sentence went keeps its mark for what is left of it
        mark = "" if kept or _line_ends(after) else _list_mark(text, unit)
    # what follows the last sentence ends the text, whatever was deleted before it
    return "".join([*pieces, text[units[-1].end :]])


def mark_every_second(text: str, *, sections: Sequence[str] = SECTIONS) -> str:
    """The text with a placeholder for every sentence that deletion takes away (D.1.2); list marks stay."""
    units = split_units(text, sections=sections)
    pieces, place = [], 0
    for unit, kept in zip(units, _kept(units), strict=True):
        if not kept:
            pieces += [text[place : unit.start], _list_mark(text, unit), PLACEHOLDER]
            place = unit.end
    return "".join([*pieces, text[place:]])


def delete_as_published(text: str, *, sections: Sequence[str] = SECTIONS) -> str:
    """The text after sentence deletion as the paper's authors ran it.

    A sentence ends at any full stop, question mark, exclamation mark or newline; one that contains the name of a
    section, in any case, is a heading; what is kept is joined by a space, and an unterminated tail is dropped.
    """
    names = section_names(text, sections)
    kept, place = [], 0
    for sentence in split_sentences(text, mode="paper"):
        if names.search(sentence.text):
            place = 0
        else:
            place += 1
        if place % 2 or place == 0:
            kept.append(sentence)
    if kept and not _terminated(text, kept[-1]):
        kept.pop()
    return " ".join(sentence.text for sentence in kept)


def _terminated(text: str, sentence: Sentence) -> bool:
    return sentence.text[-1] in ".?!" or "\n" in text[sentence.end :]


def _kept(units: Sequence[Unit]) -> list[bool]:
    """Whether each stays: headings, and of the sentences of a section the first, third and so on."""
    kept, place = [], 0
    for unit in units:
        place = 0 if unit.heading else place + 1
        kept.append(unit.heading or place % 2 == 1)
    return kept


def _gaps(text: str, units: Sequence[Unit]) -> list[str]:
    """The white space after each unit."""
    starts = [unit.start for unit in units[1:]] + [len(text)]
    return [text[unit.end : start] for unit, start in zip(units, starts, strict=True)]


def _line_ends(gap: str) -> int:
    return sum(1 for _ in LINE_END.finditer(gap))


def _list_mark(text: str, unit: Unit) -> str:
    mark = LIST_MARK.match(text, unit.start, unit.end)
    return "" if mark is None else mark[0]


# --- as perturbations ----------------------------------------------------------------------------------------------

COMPLETE = (
    f"You are given a text from which sentences were taken away. Each gap is marked {PLACEHOLDER}. Put one "
    "sentence into every gap and keep all other sentences as they are, in their order. A sentence that you put in "
    "fits the language and style around it, adds nothing of substance, and contradicts nothing. "
    f"{MATERIAL} Output the completed text and nothing else."
)
"""System message; the user's message is the text with its gaps marked."""
COMPLETE_REVIEW = (
    "You are tasked with completing missing sentences of a peer review evaluation given by the user while keeping "
    "all its existing sentences. Your goal is to complete all missing sentences indicated by "
    f"{PLACEHOLDER} of this peer review evaluation, following these rules:\n"
    "- Insert new sentences that don't contribute significant information.\n"
    "- Place these sentences between existing sentences where they seem most natural.\n"
    "- Keep the overall language style similar.\n"
    "- Ensure these added sentences don't contradict or substantially alter the original content.\n"
    "Remember to maintain the essence and order of the original content while completing all missing sentences "
    f"indicated by {PLACEHOLDER}."
)
"""GEM, D.1.2."""


def _deleting(delete: Callable[..., str]) -> Apply:
    return lambda setting: lambda response: delete(response.text, sections=setting.sections)


def _completing(instruction: str) -> Apply:
    return lambda setting: partial(_complete, setting.writer, instruction, setting.sections)


async def _complete(writer: Writer, instruction: str, sections: Sequence[str], response: Response) -> Made:
    """The response with every second sentence replaced by an empty one; one without gaps as it is."""
    gapped = mark_every_second(response.text, sections=sections)
    if gapped == response.text:
        return gapped
    made = await written(writer, instruction, gapped, what="completion", most_tokens=room_for(gapped))
    if isinstance(made, str) and PLACEHOLDER in made:
        return CallFailure("bad_reply", f"the writer left gaps: {made.count(PLACEHOLDER)} of {PLACEHOLDER!r}")
    return made


DELETION = Perturbation(
    "deletion",
    "degradation",
    "GEM D.1.1",
    "every second sentence deleted, headings kept",
    _deleting(delete_every_second),
).with_form(
    "paper",
    _deleting(delete_as_published),
    source="GEM D.1.1, as its authors ran it",
    description="every second sentence deleted; every . ? ! and line break ends one",
)
COMPLETION = Perturbation(
    "completion",
    "degradation",
    "GEM D.1.2, our wording",
    "every second sentence deleted, the gaps filled by a writer with empty ones",
    _completing(COMPLETE),
    needs_writer=True,
).with_form(
    "peer-review", _completing(COMPLETE_REVIEW), source="GEM D.1.2", description="the same in the paper's words"
)
