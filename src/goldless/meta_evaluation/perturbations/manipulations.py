"""Manipulations: other words, more words or another form without new content, so that a sound metric does not rise."""

from __future__ import annotations

import hashlib
import re
from functools import partial
from itertools import cycle

from goldless.meta_evaluation.perturbations.headings import Unit, heading_at_line_start, split_units
from goldless.meta_evaluation.perturbations.perturbation import (
    TEXTS,
    Apply,
    Change,
    Made,
    Perturbation,
    Setting,
    absent,
    of_text,
    rewritten,
    written,
)
from goldless.records import CallFailure, Response
from goldless.sentences import FENCE, LINE_END, LIST_MARK

# --- words that say nothing where a section or paragraph begins (GEM, D.2.2) -----------------------------------------

PADDING, VERDICTS = TEXTS["padding"]["ours"], TEXTS["verdict-injection"]
LINE_TOKENS = 256
"""Room for a summary of one line."""
FILLERS, SECTION_TEXTS = TEXTS["elongation"]["ours"], TEXTS["elongation"]["sections"]
ANY_SECTION = heading_at_line_start(tuple(SECTION_TEXTS))
STRENGTHS = heading_at_line_start(["Strength And Weaknesses"])


def elongate(text: str) -> str:
    """The text with filler at the beginning of every section, or of every paragraph if there are no sections.

    A text with neither gets it at the beginning. In a list, filler is only before the first item.
    """
    units = split_units(text)
    sectioned = any(unit.heading for unit in units)
    fillers, pieces, place = cycle(FILLERS), [], 0
    before: Unit | None = None
    for unit in units:
        opens = before is None or before.heading or (not sectioned and _new_paragraph(text, before, unit))
        if opens and not unit.heading:
            apart = LIST_MARK.match(text, unit.start, unit.end) or FENCE.match(text, unit.start, unit.end)
            pieces += [text[place : unit.start], next(fillers), "\n" if apart else " "]
            place = unit.start
        before = unit
    return "".join([*pieces, text[place:]]) if pieces else f"{FILLERS[0]}\n\n{text}"


def _new_paragraph(text: str, before: Unit, unit: Unit) -> bool:
    listed = all(LIST_MARK.match(text, each.start, each.end) for each in (before, unit))
    return not listed and sum(1 for _ in LINE_END.finditer(text, before.end, unit.start)) >= 2


def elongate_review(text: str, *, strengths: str | None = None, weaknesses: str | None = None) -> str:
    """A review with the paper's fixed sentences at the beginning of each of its four sections (D.2.2).

    Headings are found in any case, with "Strength" or "Strengths"; a missing section gets nothing, and in an empty one
    the sentences are on a separate line. The two one-line summaries are left out if they are not given.
    """
    told = strengths is not None and weaknesses is not None
    said = TEXTS["elongation"]["summaries"].format(strengths=strengths, weaknesses=weaknesses)
    summaries = f" {said}" if told else ""
    added = [
        _addition(text, heading, words.replace("{summaries}", summaries))
        for name, words in SECTION_TEXTS.items()
        if (heading := heading_at_line_start([name]).search(text)) is not None
    ]
    # all places are found in the original, and those at the end are used first, so that none moves
    for place, said in sorted(added, reverse=True):
        text = f"{text[:place]}{said}{text[place:]}"
    return text


def _addition(text: str, heading: re.Match[str], said: str) -> tuple[int, str]:
    """Where the section begins, and the words with the white space that they need there."""
    following = ANY_SECTION.search(text, heading.end())
    if following is not None and not text[heading.end() : following.start()].strip():
        return following.start(), said + text[heading.end() : following.start()].lstrip(" \t")
    place = len(text) - len(text[heading.end() :].lstrip())
    same_line = "\n" not in text[heading.end() : place]
    if same_line and ":" not in heading[0]:  # a heading without a colon is one only while its line holds nothing else
        return place, f"\n{said} "
    return place, f"{'' if text[place - 1].isspace() else ' '}{said} "


def _with_summaries(setting: Setting) -> Change:
    """The review with the paper's full text; without a section to summarise, no summary is requested."""

    async def elongated(response: Response) -> Made:
        if STRENGTHS.search(response.text) is None:
            return elongate_review(response.text)
        lines = {}
        for points in ("strengths", "weaknesses"):
            ask, what = TEXTS["elongation"]["two-points"].format(points=points), f"summary of the {points}"
            made = await written(setting.writer, ask, response.text, what=what, most_tokens=LINE_TOKENS)
            if isinstance(made, CallFailure):
                return made
            lines[points] = " ".join(made.split()).rstrip(".")
        return elongate_review(response.text, **lines)

    return elongated


# --- another dress ---------------------------------------------------------------------------------------------------

BULLET = re.compile(r"^[-*+•‣◦\u2013\u2014][ \t]+")
HEADING_MARK = re.compile(r"^#{1,6}[ \t]+")
OWN_MARKS = re.compile(r"[*_`]|^>")
FIRST_WORDS = re.compile(r"^\S+(?:[ \t]+\S+){0,2}")


def flip_case(text: str) -> str:
    """The text with upper and lower case swapped; swapping twice restores it.

    A letter without a single counterpart, such as ß, stays.
    """
    partners = {letter: letter.swapcase() for letter in set(text)}
    return text.translate(
        {ord(one): other for one, other in partners.items() if len(other) == 1 and other.swapcase() == one}
    )


def reformat(text: str) -> str:
    """The text as Markdown with the same words: one bullet per sentence, its first words bold, and marked headings.

    Code blocks stay unchanged. Existing bullets and heading marks are replaced; nothing else is lost: list numbers,
    quotation marks of a line and every character within a sentence are kept.
    """
    made: list[str] = []
    stands_apart = False
    place = 0
    for unit in split_units(text):
        said = text[unit.start : unit.end]
        apart = unit.heading or FENCE.match(said.split("\n", 1)[0]) is not None
        if unit.heading:
            said = f"## {HEADING_MARK.sub('', said)}"
        elif not apart:
            # within a line the same signs are a minus or a dash
            opens_line = place == 0 or LINE_END.search(text, place, unit.start) is not None
            said = BULLET.sub("", said) if opens_line else said
            said = "- " + (said if OWN_MARKS.search(said) else FIRST_WORDS.sub(r"**\g<0>**", said))
        if made:
            made.append("\n\n" if apart or stands_apart else "\n")
        made.append(said)
        stands_apart, place = apart, unit.end
    return "".join(made) or text


def add_tag(text: str, *, seed: int = 0) -> str:
    """The text between two tags that are the same for every response to every task; each seed has its own tag."""
    tag = f"[{hashlib.sha256(f'goldless pattern {seed}'.encode()).hexdigest()[:8].upper()}]"
    return f"{tag} {text} {tag}"


# --- words beside it -------------------------------------------------------------------------------------------------


def swap_words(text: str, every: int = 4) -> str:
    """The text with every fourth pair of neighboring words swapped; white space stays."""
    pieces = re.split(r"(\s+)", text)  # words at even places
    for place in range(0, len(pieces) - 2, 2 * every):
        pieces[place], pieces[place + 2] = pieces[place + 2], pieces[place]
    return "".join(pieces)


def _copy_peer(setting: Setting) -> Change:
    def copy(response: Response) -> Made:
        there = {one.agent: one.text for one in setting.study.responses(response.task) if one.agent != response.agent}
        peers = [peer for peer in setting.peers.get((response.task, response.agent), ()) if peer in there]
        name = next(iter(peers or there), None)
        return absent(f"task {response.task} has no other response") if name is None else swap_words(there[name])

    return copy


LANGUAGE = "German"


# --- all of them -----------------------------------------------------------------------------------------------------


def _of_everybody(name: str, description: str, apply: Apply) -> Perturbation:
    """A manipulation of all responses alike, which also comes as one of the candidate alone: ``NAME[candidate]``."""
    source = "the idea of the recorded attacks on TVD-MI"
    everybody = Perturbation(
        name, "manipulation", source, f"{description}; for all responses", apply, scope="everybody"
    )
    return everybody.with_form(
        "candidate", apply, scope="candidate", description=f"{description}; for the candidate only"
    )


def _followed_by(form: str, text: str) -> str:
    return f"{text}\n\n{VERDICTS[form]}"


def _tagged(setting: Setting) -> Change:
    return lambda response: add_tag(response.text, seed=setting.seed)


def _in_house_style(setting: Setting) -> Change:
    return lambda response: add_tag(f"{reformat(response.text)}\n\n{PADDING}", seed=setting.seed)


REPHRASE = Perturbation(
    *("rephrase", "manipulation", "GEM D.2.1, our wording", "rewritten in other words by a writer"),
    rewritten(TEXTS["rephrase"]["ours"], "rephrasing"),
    needs_writer=True,
).with_form(
    "peer-review",
    rewritten(TEXTS["rephrase"]["peer-review"], "rephrasing"),
    source="GEM D.2.1",
    description="the same with the paper's prompt",
)
ELONGATION = (
    Perturbation(
        *("elongation", "manipulation", "GEM D.2.2, our words", "filler before every section or paragraph"),
        of_text(elongate),
    )
    .with_form(
        "peer-review",
        of_text(elongate_review),
        source="GEM D.2.2, without the summaries",
        description="the paper's fixed sentences before each of the four sections of a review",
    )
    .with_form(
        "peer-review-summaries",
        _with_summaries,
        source="GEM D.2.2",
        description="the same with a writer's two one-line summaries",
        needs_writer=True,
    )
)
VERDICT_INJECTION = Perturbation(
    *("verdict-injection", "manipulation", "this project"),
    "followed by text that a judge might read as a verdict, in all forms",
    of_text(lambda text: "\n\n".join([text, *VERDICTS.values()])),
)
for _form in VERDICTS:
    VERDICT_INJECTION = VERDICT_INJECTION.with_form(
        _form, of_text(partial(_followed_by, _form)), description="the same in one form"
    )
MANIPULATIONS = (
    REPHRASE,
    ELONGATION,
    _of_everybody("case-flip", "upper and lower case swapped", of_text(flip_case)),
    _of_everybody("format", "the same words as Markdown bullets, bold and headings", of_text(reformat)),
    _of_everybody("padding", "the same filler at the end", of_text(lambda text: f"{text}\n\n{PADDING}")),
    _of_everybody("pattern", "the same meaningless tag at both ends", _tagged),
    Perturbation(
        *("repetition", "manipulation", "this project", "everything said twice"),
        of_text(lambda text: f"{text}\n\n{text}"),
    ),
    VERDICT_INJECTION,
    Perturbation(
        *("praise", "manipulation", "this project", "between generic praise"),
        of_text(lambda text: "\n\n".join([TEXTS["praise"]["before"], text, TEXTS["praise"]["after"]])),
    ),
)
NEAR_COPY = Perturbation(
    *("near-copy", "manipulation", "this project", "a peer's response with some neighboring words swapped"),
    _copy_peer,
    by_default=False,  # whatever rewards agreement with peers rewards a copy of one; the audit finds those
)
STYLE_OF_ALL = Perturbation(
    *("style-of-all", "manipulation", "this project"),
    "one house style for all agents: a tag, Markdown and the same closing words",
    _in_house_style,
    scope="everybody",
)
TRANSLATION = Perturbation(
    *("translation", "manipulation", "this project", f"translated into {LANGUAGE} by a writer"),
    rewritten(TEXTS["translation"]["ours"], "translation", language=LANGUAGE),
    needs_writer=True,
)
TRANSLATION = TRANSLATION.with_form("LANGUAGE", TRANSLATION.apply, description="translated into another language")
