"""What a model wrote outside of the sections of its review: words to keep, and courtesies that belong to no review.

A courtesy is a line that says no more than that a review follows or has ended. Whatever is not surely one is kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from goldless.gre_bench.review_forms import FEW_WORDS

_COMMENT = re.compile(r"^[ \t]*<!--.{0,2000}?-->[ \t]*$", re.DOTALL | re.MULTILINE)
_NAME = r"[a-z][\w.-]{0,40}"
_ATTRIBUTES = r"(?:[ \t][^<>\n]{0,200})?"
_TAGS_ALONE = re.compile(rf"\s*(?:</?{_NAME}{_ATTRIBUTES}/?>\s*)+", re.IGNORECASE)
_ELEMENT = re.compile(
    rf"(?:^|(?<=>))[ \t]*<({_NAME}){_ATTRIBUTES}>([^<\n]*)</\1>(?=[ \t]*(?:<|$))", re.IGNORECASE | re.MULTILINE
)
"""A section of a model's own making, in one line."""
_RATED = (
    r"rating|score|confidence|soundness|presentation|contribution|decision|recommendation|quality|clarity|novelty|"
    r"originality|significance|verdict"
)
_RATING = re.compile(
    rf"(?:^|(?<=>))[ \t]*<((?:[a-z]{{1,20}}[_-]){{0,3}}(?:{_RATED})){_ATTRIBUTES}>"
    rf"\s*(?:[^<\s]+(?:\s+|(?=<))){{0,{FEW_WORDS}}}</\1>(?=[ \t]*(?:<|$))",
    re.IGNORECASE | re.MULTILINE,
)
"""A rating or a choice, such as ``<rating>6</rating>``."""
_OPENS = re.compile(rf"\s*<({_NAME}){_ATTRIBUTES}>", re.IGNORECASE)
_CLOSES = re.compile(rf"</({_NAME})>\s*\Z", re.IGNORECASE)
_FENCE = re.compile(r"\s*```[\w-]{0,20}\s*")
_MARKS = " \t*_#`>~-"
_WORDS = r"[^.:;!?\n]{0,120}"
_AGREED = r"(?:sure|certainly|of course|absolutely|okay|ok|yes)"
_NEXT = r"(?=[.:!,]|\Z| (?:of|for|in|with|inside|using|as|following|based)\b)"
_ASKED = r"(?:as you asked|as asked|as requested|you asked for|you requested|as instructed)"
_REVIEW = (
    r"(?:(?:a|an|my|the|peer|paper|full|detailed|complete|structured|requested|thorough|comprehensive) ){0,5}review"
)
_QUOTED = r"[\"'*_\u201c\u2018][^\n]{1,200}[\"'*_\u201d\u2019]"
_OPENINGS = (
    # Here is my review of the paper: / Sure! Below is a detailed review in the tags as requested.
    rf"(?:{_AGREED}[,.!:]? )?(?:here|below)(?: is|['\u2019]s) {_REVIEW}{_NEXT}{_WORDS}",
    # Here it is, with the tags as you asked:
    rf"(?:{_AGREED}[,.!:]? )?here it is\b{_WORDS}\b{_ASKED}",
    _AGREED,
    # a title
    rf"{_REVIEW}(?: (?:of|for)(?: the)? (?:paper|submission|{_QUOTED}))?",
)
_CLOSINGS = (
    r"(?:best wishes|(?:best|kind|warm) regards|sincerely|thank you|thanks)",
    r"(?:i )?hope (?:this|that|the|my)(?: review| feedback)? (?:helps|is helpful)",
    rf"(?:please )?(?:feel free to ask|let me know) if (?:you (?:need|want|would like|have any)|there is any){_WORDS}",
    r"(?:this is the )?end of (?:the |my )?review",
)
_COURTESY = re.compile(rf"(?:{'|'.join((*_OPENINGS, *_CLOSINGS))})[.:!,]{{0,3}}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OutsideText:
    """Text outside of all sections."""

    kept: str
    """What may be part of the review; empty: nothing is."""
    courtesy: bool
    """Whether courtesies were left out."""


def outside_text(text: str) -> OutsideText:
    """The text without courtesies, lines that hold no word at its ends, and marks of code blocks.

    Comments and tags go too, where they stand alone or around a whole line, such as ``<review>`` around it all. So do
    ratings between tags, which are no part of a person's review either.
    """
    text = _ELEMENT.sub(r"\n\2\n", _RATING.sub("\n", _COMMENT.sub("", text)))
    lines, courtesy = [], False
    for line in text.split("\n"):
        if _FENCE.fullmatch(line) or _TAGS_ALONE.fullmatch(line):
            continue
        if _COURTESY.fullmatch(line.strip(_MARKS)):
            courtesy = True
            continue
        lines.append(_without_lone_tags(line).rstrip())
    while lines and not re.search(r"\w", lines[0]):
        del lines[0]
    while lines and not re.search(r"\w", lines[-1]):
        del lines[-1]
    return OutsideText(re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip(), courtesy)


def _without_lone_tags(line: str) -> str:
    """The line without a tag at its beginning that nothing in it closes, or at its end that nothing in it opens."""
    opens, closes = _OPENS.match(line), _CLOSES.search(line)
    if opens is not None and f"</{opens[1]}" not in line:
        line = line[opens.end() :]
    if closes is not None and f"<{closes[1]}" not in line:
        line = _CLOSES.sub("", line)
    return line
