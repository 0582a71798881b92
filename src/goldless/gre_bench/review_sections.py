"""The sections of a review written by a model, between the tags that the prompt asks for.

A section begins at ``<summary>`` and ends at its ``</summary>``; if it is never closed, at the next opening tag or at
the end of the reply. Other tags inside a closed section belong to its text. Text outside the tags is not part of the
review. A reply without any section is one piece, and is flagged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from goldless.gre_bench.papers import HumanReview
from goldless.gre_bench.review_forms import SECTIONS

WHOLE = "Review"
"""Title of a reply without sections."""

Flag = str
"""A deviation from the requested format, if it concerns a section with its name after a colon."""

CUT_REPLY = "cut_reply"
"""Flag of a review that was cut off at the length limit and kept."""
FLAG_WORDS = {
    "no_tags": "without any section",
    "missing_section": "without {}",
    "text_outside": "with text outside the sections, which was removed",
    CUT_REPLY: "cut off at the length limit",
}
_TAG = re.compile(rf"<(/?)({'|'.join(SECTIONS)})>", re.IGNORECASE)


def noticed(flags: Mapping[Flag, int]) -> list[str]:
    """Flags with counts in plain words, such as ``4 without questions``."""
    told = []
    for flag, count in flags.items():
        name, _, section = flag.partition(":")
        told.append(f"{count} {FLAG_WORDS.get(name, flag).format(section)}")
    return told


@dataclass(frozen=True, slots=True)
class ParsedReview:
    """A review by its sections."""

    sections: Mapping[str, str]
    """Texts by title, in the order asked for; empty if nothing was written but thoughts."""
    flags: tuple[Flag, ...]

    @property
    def text(self) -> str:
        """The whole review, in the form of a person's."""
        return HumanReview("", self.sections).text


def parse_review(reply: str) -> ParsedReview:
    """The sections of a reply to the review prompt. Never fails: what is missing is flagged."""
    body = _without_thoughts(reply)
    parts: dict[str, list[str]] = {name: [] for name in SECTIONS}
    outside = ""
    for name, text in _parts(body):
        if not name:
            outside += text
        elif text.strip() and text.strip() not in parts[name]:
            parts[name].append(text.strip())
    sections = {name.capitalize(): "\n\n".join(texts) for name, texts in parts.items() if texts}
    if not sections:
        whole = _TAG.sub("", body).strip()
        return ParsedReview({WHOLE: whole} if whole else {}, ("no_tags",))
    flags = [f"missing_section:{name}" for name, texts in parts.items() if not texts]
    if any(letter.isalnum() for letter in outside):
        flags.append("text_outside")
    return ParsedReview(sections, tuple(flags))


def _parts(body: str) -> Iterator[tuple[str, str]]:
    """The text of each section with its name, and that between sections with an empty one, in order."""
    tags = list(_TAG.finditer(body))
    last_closing = {tag[2].lower(): tag.start() for tag in tags if tag[1]}
    section, begin = "", 0
    for tag in tags:
        closing, name = bool(tag[1]), tag[2].lower()
        goes_on = last_closing.get(section, -1) > tag.start()
        if section and (name != section if closing else goes_on):
            continue  # quoted in the text of the section
        yield section, body[begin : tag.start()]
        section, begin = "" if closing else name, tag.end()
    yield section, body[begin:]


def _without_thoughts(reply: str) -> str:
    """The reply after its reasoning, whose opening tag some servers leave out; a quoted ``</think>`` ends nothing."""
    before, mark, after = reply.partition("</think>")
    if before.lstrip().startswith("<think>"):
        return after
    ends_line = "<think>" not in before and not before.rpartition("\n")[2].strip()
    return after if mark and ends_line else reply
