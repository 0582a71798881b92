"""The sections of a review written by a model, parsed leniently, with flags for deviations from the requested format.

A section X begins at ``<X>`` and ends at its ``</X>``: whatever tags a model quotes inside it belong to its text. So
that a quoted tag does not end or begin a section by accident:

- a section that is never closed ends at the next opening tag that begins a line, or where none does at the next one of
  another section, or at the end of the reply;
- of several closing tags of one section in a row the last counts;
- an opening tag within a sentence is none where the section begins a later line;
- a section that stands there twice is both texts together, none of it is lost.

Where there are no tags, headings such as ``## Strengths`` or ``**Weaknesses:**`` take their place. Words outside of all
sections are a section of their own, as nothing of a person's review is left out either; a courtesy alone, such as "Here
is my review:", is, and so are ratings between tags, such as ``<rating>6</rating>``.
A courtesy is a line that says no more than that a review follows or has ended. Whatever is not surely one is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from goldless.gre_bench.papers import HumanReview
from goldless.gre_bench.review_forms import FEW_WORDS, SECTIONS

WHOLE = "Review"
"""Title of a reply without sections."""
OTHER = "Other"
"""Title of text outside all sections."""

Flag = str
"""What was not as it was asked for, as one word, where need be with the section it is about after a colon.

``no_tags``: no section was found. ``headings``: headings stood in the place of tags. ``missing_section:X``: there is
no X, or nothing in it. ``unclosed:X``: X has no end. ``duplicate:X``: X stood there more than once. ``text_outside``:
text stood outside of all sections, and is one of its own. ``courtesy``: a line such as "Here is my review:" was left
out. ``fenced``: all of it stood in a code block. ``thinking``: thoughts before it were left out. ``unclosed:think``:
they have no end.
"""

CUT_REPLY = "cut_reply"
"""Flag of a review that was cut off at the length limit and kept."""
FLAG_WORDS = {
    "no_tags": "without any section",
    "headings": "with headings in place of tags",
    "missing_section": "without {}",
    "unclosed": "with unclosed {}",
    "duplicate": "with {} more than once",
    "text_outside": "with text outside the sections",
    "courtesy": "with a courtesy phrase, which was removed",
    "fenced": "inside a code block",
    "thinking": "with reasoning before it, which was removed",
    CUT_REPLY: "cut off at the length limit",
}


def noticed(flags: Mapping[Flag, int]) -> list[str]:
    """Flags with counts in plain words, such as ``4 without questions``."""
    told = []
    for flag, count in flags.items():
        name, _, section = flag.partition(":")
        about = "reasoning" if section == "think" else section
        words = FLAG_WORDS.get(name)
        told.append(f"{count} {words.format(about) if words else flag}")
    return told


_BLANK = r"[ \t]{0,4}"
_VALUE = r"""(?:"[^"<>\n]{0,200}"|'[^'<>\n]{0,200}'|[^\s"'<>=/]{1,100})"""
_ATTRIBUTES = rf"(?:[ \t]{{1,4}}[\w:.-]{{1,40}}[ \t]?=[ \t]?{_VALUE}){{0,8}}"
_NAMED = rf"(summary|strengths?|weakness(?:es)?|questions?){_ATTRIBUTES}{_BLANK}"
_TAG = re.compile(rf"<{_BLANK}(/?){_BLANK}{_NAMED}>", re.IGNORECASE)
_STRAY = re.compile(rf"<{_BLANK}/{_BLANK}{_NAMED}>|<{_BLANK}{_NAMED}/{_BLANK}>", re.IGNORECASE)
"""A tag that marks nothing: one that closes what was never opened, or that opens and closes at once."""
_THINK = re.compile(rf"<{_BLANK}(/?){_BLANK}think(?:ing)?{_BLANK}>", re.IGNORECASE)
_MOST_ENDS = 20
"""Among so many closing tags of thoughts their end is looked for; a reply of nothing else must not take minutes."""
_NUMBER = r"(?:\d[.)][ \t]?)?"
_LINE_START = re.compile(rf"[ \t*_#`]{{0,12}}{_NUMBER}[*_`]{{0,3}}")
_LONGEST_START = 24
_FENCE = re.compile(r"```[\w-]{0,20}[ \t]*\n(.*?)(\n[ \t]*```)?", re.DOTALL)
_TITLES = {
    "summary": r"(?:paper )?summary(?: of the (?:paper|submission))?",
    "strengths": r"(?:(?:key|main) )?strengths?|reasons to accept",
    "weaknesses": r"(?:(?:key|main) )?weakness(?:es)?|reasons to reject",
    "questions": r"(?:open )?questions?(?: (?:for|to) (?:the )?authors)?",
}
_TITLE = "|".join(f"(?P<{name}>{title})" for name, title in _TITLES.items())
_HEADING = re.compile(
    rf"^[ \t]{{0,3}}(?P<mark>#{{1,6}}[ \t]{{0,3}})?{_NUMBER}(?P<bold>\*\*|__)?{_NUMBER}(?:{_TITLE})"
    r"(?P<colon>:)?(?(bold)(?:\*\*|__))(?P<late>:)?[ \t]*(?P<rest>[^\n]*)$",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSING = re.compile(rf"(?:{_TAG.pattern}\s*)\Z", re.IGNORECASE)
"""A tag at the end of a section that is not closed: it was meant to close it."""
_BROKEN_TAG = re.compile(r"</?[a-z]{0,12}\s*\Z", re.IGNORECASE)
"""A tag in which a reply was cut."""
_EMPHASIS = "*_`"


@dataclass(frozen=True, slots=True)
class ParsedReview:
    """A review by its sections."""

    sections: Mapping[str, str]
    """Texts by title, in the order asked for, then what stood outside; empty where there is nothing but thoughts."""
    flags: tuple[Flag, ...]

    @property
    def text(self) -> str:
        """The whole review, in the form of a person's."""
        return HumanReview("", self.sections).text


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    begin: int
    """Where its tag or heading begins."""
    body: str
    end: int
    closed: bool = True


def parse_review(text: str) -> ParsedReview:
    """The sections of a reply to the review prompt. Never fails: what is not found is flagged."""
    body, flags = _without_thoughts(text)
    body = _BROKEN_TAG.sub("", body)
    if "unclosed:think" in flags and not _TAG.search(body):
        return ParsedReview({}, tuple(flags))
    fenced = _FENCE.fullmatch(body.strip())
    if fenced is not None and (fenced[2] or _TAG.search(body)):
        body = fenced[1]
        flags.append("fenced")
    found = list(_tagged(body))
    outside = _outside(body, found)
    if len({section.name for section in found}) < len(SECTIONS):
        known = {section.name for section in found}
        headed = [section for section in _headed(outside) if section.name not in known and section.body]
        if headed:
            found += headed
            flags.append("headings")
            outside = _outside(outside, headed)
    texts = _texts(found)
    if not texts:
        # tags around nothing are nothing
        whole = _STRAY.sub("", _outside(body, found)).strip()
        return ParsedReview({WHOLE: whole} if whole else {}, (*flags, "no_tags"))
    flags += _flags(found, texts)
    other = outside_text(_STRAY.sub("", _HEADING.sub(_without_heading, outside)))
    flags += ["courtesy"] * other.courtesy + ["text_outside"] * bool(other.kept)
    sections = {name.capitalize(): texts[name] for name in SECTIONS if name in texts}
    if other.kept:
        sections[OTHER] = other.kept
    return ParsedReview(sections, tuple(dict.fromkeys(flags)))


def _texts(found: list[_Section]) -> dict[str, str]:
    """What the sections hold, those of one name together, each text once."""
    texts: dict[str, list[str]] = {}
    for section in found:
        if section.body and section.body not in texts.setdefault(section.name, []):
            texts[section.name].append(section.body)
    return {name: "\n\n".join(parts) for name, parts in texts.items() if parts}


def _flags(found: list[_Section], texts: Mapping[str, str]) -> Iterator[Flag]:
    names = [section.name for section in found]
    yield from (f"unclosed:{section.name}" for section in found if not section.closed)
    yield from (f"duplicate:{name}" for name in SECTIONS if names.count(name) > 1)
    yield from (f"missing_section:{name}" for name in SECTIONS if name not in texts)


# --- thoughts ------------------------------------------------------------------------------------------------------


def _without_thoughts(text: str) -> tuple[str, list[Flag]]:
    """The text after what the model thought first.

    Some servers give the thoughts without their opening tag: then they end at the first closing one that is no
    quotation in the review itself.
    """
    marks = list(_THINK.finditer(text))
    begins = bool(marks) and not marks[0][1] and not text[: marks[0].start()].strip()
    ends = [mark for mark in marks if mark[1]]
    if begins and not ends:
        return text[marks[0].end() :], ["unclosed:think"]
    end = ends[0] if begins else next((one for one in ends[:_MOST_ENDS] if not _is_quoted(text, one)), None)
    return (text, []) if end is None else (text[end.end() :], ["thinking"])


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    """Whether a mark of thoughts is a word of the review, not their end.

    It is where it stands in a section that is closed later, or where a section before it does not come again after it:
    a review that was drafted in thoughts stands there whole once more. Words such as "Questions:" begin many a line of
    thought, so headings count where no tags follow and words stand before the mark on its line. A mark with its partner
    at the beginning of a line before it is one of a pair that is quoted.
    """
    marks = list(_THINK.finditer(text, 0, mark.start()))
    if marks and not marks[-1][1] and not text[: marks[-1].start()].rpartition("\n")[2].strip():
        return True
    for section in _tagged(text):
        if section.closed and section.begin < mark.start() < section.end:
            reopened = any(
                tag.name == section.name and not tag.closing for tag in _tags(text[mark.end() : section.end])
            )
            if not reopened:
                return True
    before, after = text[: mark.start()], text[mark.end() :]
    later = {section.name for section in _tagged(after)}
    earlier = {tag.name for tag in _tags(before) if not tag.closing and not tag.in_sentence}
    if not later and before.rpartition("\n")[2].strip():
        earlier |= {section.name for section in _headed(before)}
    return not earlier <= later | {section.name for section in _headed(after)}


# --- tags ----------------------------------------------------------------------------------------------------------


class _Tag(NamedTuple):
    name: str
    closing: bool
    begins_line: bool
    in_sentence: bool
    """Words stand before it on its line, after any other tag."""
    start: int
    end: int


def _name(written: str) -> str:
    """The section that a tag means, in whatever case and number it is written."""
    return next(name for name in SECTIONS if written.lower()[:6] == name[:6])


def _tags(text: str) -> list[_Tag]:
    found: list[_Tag] = []
    for tag in _TAG.finditer(text):
        line = text.rfind("\n", 0, tag.start()) + 1
        begins = tag.start() - line <= _LONGEST_START and _LINE_START.fullmatch(text, line, tag.start()) is not None
        in_sentence = not begins and bool(text[found[-1].end if found else 0 : tag.start()].strip())
        found.append(_Tag(_name(tag[2]), bool(tag[1]), begins, in_sentence, tag.start(), tag.end()))
    return found


def _tagged(text: str) -> Iterator[_Section]:
    """The sections between tags, in order."""
    tags = _tags(text)
    last = {tag.name: place for place, tag in enumerate(tags) if tag.begins_line and not tag.closing}
    place = 0
    while place < len(tags):
        tag = tags[place]
        if tag.closing or (tag.in_sentence and last.get(tag.name, -1) > place):
            place += 1  # it closes nothing, or is a word about tags
            continue
        end = _end(tags, place)
        stop = len(text) if end is None else tags[end].start
        closed = end is not None and tags[end].closing
        body = text[tag.end : stop]
        body = _stripped(body if closed else _CLOSING.sub("", body))
        yield _Section(tag.name, tag.start, body, tags[end].end if end is not None and closed else stop, closed)
        place = len(tags) if end is None else end + closed


def _end(tags: list[_Tag], place: int) -> int | None:
    """The number of the tag that ends the section opened by another; None: it goes on to the end of the text."""
    name = tags[place].name
    line = other = closing = None
    for i in range(place + 1, len(tags)):
        tag = tags[i]
        if tag.closing and tag.name == name:
            closing = i
        elif not tag.closing:
            if closing is not None:
                break
            line = i if line is None and tag.begins_line else line
            other = i if other is None and tag.name != name else other
            if tag.begins_line and tag.name == name:
                break
    return next((i for i in (closing, line, other) if i is not None), None)


def _stripped(body: str) -> str:
    """The text without white space and without the other half of emphasis that stood around a tag."""
    return re.sub(rf"\A[{_EMPHASIS}]{{1,3}}(?=\s)|(?<=\s)[{_EMPHASIS}#]{{1,3}}\Z", "", body).strip()


def _outside(text: str, found: list[_Section]) -> str:
    """What stands in no section."""
    parts, place = [], 0
    for section in found:
        parts.append(text[place : section.begin])
        place = section.end
    return "\n\n".join([*parts, text[place:]])


# --- headings ------------------------------------------------------------------------------------------------------


def _headed(text: str) -> list[_Section]:
    """The sections under headings, in order; each goes on to the next heading of a section."""
    heads = [head for head in _HEADING.finditer(text) if _is_heading(head)]
    if not heads:
        return []
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return [
        _Section(
            next(name for name in SECTIONS if head[name] is not None),
            head.start(),
            _stripped(text[head.start("rest") : end]),
            end,
        )
        for head, end in zip(heads, ends, strict=True)
    ]


def _is_heading(head: re.Match[str]) -> bool:
    """Whether the line is more than one that begins with such a word."""
    colon = bool(head["colon"] or head["late"])
    alone = not head["rest"].strip(" \t*_#")
    return colon or (alone and bool(head["mark"] or head["bold"]))


def _without_heading(head: re.Match[str]) -> str:
    """What stands beside the heading of a section; the line as it is where it is none."""
    return head["rest"] if _is_heading(head) else head[0]


# --- outside of all sections ---------------------------------------------------------------------------------------


_COMMENT = re.compile(r"^[ \t]*<!--.{0,2000}?-->[ \t]*$", re.DOTALL | re.MULTILINE)
_TAG_NAME = r"[a-z][\w.-]{0,40}"
_ANY_ATTRIBUTES = r"(?:[ \t][^<>\n]{0,200})?"
_TAGS_ALONE = re.compile(rf"\s*(?:</?{_TAG_NAME}{_ANY_ATTRIBUTES}/?>\s*)+", re.IGNORECASE)
_ELEMENT = re.compile(
    rf"(?:^|(?<=>))[ \t]*<({_TAG_NAME}){_ANY_ATTRIBUTES}>([^<\n]*)</\1>(?=[ \t]*(?:<|$))", re.IGNORECASE | re.MULTILINE
)
"""A section of a model's own making, in one line."""
_RATED = (
    r"rating|score|confidence|soundness|presentation|contribution|decision|recommendation|quality|clarity|novelty|"
    r"originality|significance|verdict"
)
_RATING = re.compile(
    rf"(?:^|(?<=>))[ \t]*<((?:[a-z]{{1,20}}[_-]){{0,3}}(?:{_RATED})){_ANY_ATTRIBUTES}>"
    rf"\s*(?:[^<\s]+(?:\s+|(?=<))){{0,{FEW_WORDS}}}</\1>(?=[ \t]*(?:<|$))",
    re.IGNORECASE | re.MULTILINE,
)
"""A rating or a choice, such as ``<rating>6</rating>``."""
_OPENS = re.compile(rf"\s*<({_TAG_NAME}){_ANY_ATTRIBUTES}>", re.IGNORECASE)
_CLOSES = re.compile(rf"</({_TAG_NAME})>\s*\Z", re.IGNORECASE)
_FENCE_LINE = re.compile(r"\s*```[\w-]{0,20}\s*")
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
        if _FENCE_LINE.fullmatch(line) or _TAGS_ALONE.fullmatch(line):
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
