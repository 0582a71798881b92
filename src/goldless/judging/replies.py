"""Replies: where a verdict is read.

A response may say "[[A]]" or "output: one", and a reviewer may quote it. So a live reply has a verdict in two places
only: it is nothing else (``read_bare``), or a line of it carries the mark of its question (``read_marked``), which no
response can know. No rule here sees the judged texts, so no response changes which verdict of a reply is read.

Outputs that were recorded without a mark are read by ``Reader.find``: what is recognisably quoted or restated is
removed (``own_text``), and a verdict behind words such as "Verdict:" takes precedence over the first mention.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

MOST_READ = 20_000
"""Number of characters of a reply that are read: its beginning and its end."""
LEAST_FENCE = 12
"""Minimum number of characters of a fence around material, as in prompts."""

NOUN = r"(?:summary|answer|response|assistant|text|output|option|candidate|number|no\.)"
NOUNS = r"(?:summaries|answers|responses|assistants|texts|outputs|options|candidates|passages|of|other|different)"
BEGUN = r"(?<![A-Za-z0-9_-])(?<![A-Za-z0-9_]['\u2019])"
ENDED = r"(?![A-Za-z0-9_]|-[A-Za-z0-9_]|['\u2019](?!s\b)[A-Za-z0-9_])"
"""Around a whole word; letters of scripts without spaces are allowed next to it."""


def _mark(nouns: str, joint: str) -> str:
    """A pattern of what marks a verdict: at the beginning of a line, or as the final one, or as mine."""
    words = "so|therefore|thus|my|the|final|overall|quality"
    lead = rf"(?:^(?:[^\w\n]|_){{0,12}}(?:(?:{words})[\s,]{{1,3}}){{0,4}}|\b(?:my|final)\s)"
    return rf"{lead}(?:{nouns}){joint}"


# repetitions are bounded: a reply may be made to be slow to read
VERDICT = "output|answer|verdict|decision|choice|judge?ment|preference|winner|conclusion"
WORD_MARK = _mark(VERDICT, r"\s{0,3}(?::|=|\bis\b)")
NUMBER_MARK = _mark(
    f"score|rating|grade|mark|{VERDICT}", r"\b(?:\s(?:of|for)[^\n\d:=]{0,60}?)?[*_\s]{0,4}(?::|=|\bis\b|\bof\b)"
)
CHOSEN = rf"\bI(?:\swould|['\u2019]d)?\s(?:choose|pick|prefer|select|vote\sfor)\b|\b(?:better|best)\s{NOUN}\sis\b"
GAP = r"[\s*_\"'`\u201c\u2018:(\[]{0,8}"
"""Between a mark and what it marks."""


MARKUP = r"[^\w\n\u2212\u2013-]{0,12}"
"""Around a bare verdict: markup, punctuation and spaces, but no minus sign."""
LEAD = (
    rf"(?:(?:so|therefore|thus|my|the|final|overall|quality)[\s,]{{1,3}}){{0,4}}(?:score|rating|grade|mark|{VERDICT})"
    r"(?:\s(?:of|for)\s(?:the|this)\s(?:answer|response))?[*_\s]{0,4}(?::|=|\bis\b)"
)
CHOOSING = r"I(?:\swould|['\u2019]d)?\s(?:choose|pick|prefer|select|vote\sfor)"
BETTER = rf"\sis\s(?:the\s)?(?:better|best)(?:\s{NOUN})?"


def bare(label: str, *, lead: str = LEAD, tail: str = "") -> re.Pattern[str]:
    """Return the pattern of a text that is nothing but this label, with a lead such as "Verdict:" and a tail or not."""
    return re.compile(rf"(?i)\s*{MARKUP}(?:{lead})?\s?{MARKUP}({label})(?:{tail})?\s*{MARKUP}\s*")


def either_of(labels: Iterable[str]) -> str:
    """Return a pattern for one of the labels; a longer one is tried before its beginning."""
    return "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))


class Reader(Protocol):
    """A rule that reads a verdict from a text."""

    def read_bare(self, text: str) -> float | None:
        """Return the verdict of a text that is nothing but a verdict, else None."""

    def find(self, text: str) -> float | None:
        """Return the value that the text calls its verdict, or else mentions first."""


# --- recorded outputs -------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """The text in compatible characters, without invisible ones."""
    if text.isascii():
        return text  # plain already
    return "".join(sign for sign in unicodedata.normalize("NFKC", text) if unicodedata.category(sign) != "Cf")


FENCED = re.compile(rf"(?ms)^(#{{{LEAST_FENCE},}})[ \t]*\n.*?^\1[ \t]*$")
QUOTED_LINES = re.compile(r"(?m)^[ \t]*>.*$")
QUOTES = (("```", "```"), ('"', '"'), ("\u201c", "\u201d"), ("\u00ab", "\u00bb"), ("\u300c", "\u300d"))


def own_text(reply: str) -> str:
    """The reply without fenced material and quoted passages, in compatible characters."""
    if len(reply) > MOST_READ:
        reply = f"{reply[: MOST_READ // 2]}\n{reply[-MOST_READ // 2 :]}"
    text = plain(reply).strip()
    text = QUOTED_LINES.sub(" ", FENCED.sub(" ", text))
    for begin, end in QUOTES:
        if begin not in text:
            continue
        if text.startswith(begin) and text.endswith(end) and text.count(begin) <= 2 and len(text) > len(begin):
            text = text.removeprefix(begin).removesuffix(end)
        text = re.sub(rf"(?s){re.escape(begin)}(.*?){re.escape(end)}", _unquoted, text)
    return text.strip()


def _unquoted(match: re.Match[str]) -> str:
    """A quotation of a single word, or of a noun and one, is a label that was named; any longer one is left out."""
    inside = match[1].strip()
    short = re.fullmatch(rf"(?i)(?:{NOUN}\s+)?[\w\[\].+/%\u2212-]{{1,8}}[.,\\]?", inside)
    return match[0] if short else " "


# --- marked verdicts -------------------------------------------------------------------------------------------------


def read_marked(reader: Reader, reply: str, mark: str) -> float | None:
    """Return the verdict on the last line that carries the mark; None if no such line holds a verdict.

    The verdict follows the mark on its line, or stands alone on the next one.
    """
    if isinstance(reader, TagReader):
        return reader.marked(mark).mean_of_last(plain(reply))
    before_mark = r"^[^\w\n]{0,12}(?:(?:my|the|final)\s){0,2}(?:[a-z]{1,12}[-_\s]{1,3})?"
    line = rf"(?im){before_mark}{mark}\b[^\S\n]*(.*)$(?=\n?(.*))"
    verdict = None
    for same_line, next_line in re.findall(line, plain(reply)):
        text = same_line if re.search(r"\w", same_line) else next_line
        without_reason = re.split(r"[.,;]\s|\s\(|\sbecause\b|\ssince\b", text, maxsplit=1)[0]
        value = reader.read_bare(without_reason)
        if value is not None:
            verdict = value
    return verdict


# --- readers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordReader:
    """Labels that are words, such as one and two: the first of them as a whole word that is a label there.

    Not labels: "none", "which one", "one of them", "the two answers", "not one", and a list of the labels themselves.
    A digit counts as its word only if it is the whole reply.
    """

    words: Mapping[str, float]
    digits: Mapping[str, str] = field(default_factory=dict)

    def read_bare(self, text: str) -> float | None:
        """Return the value of a text such as "two", "Answer: two" or "Answer two is better."."""
        label = rf"(?:{NOUN}\s)?[\"'`*\u2018\u201c]{{0,3}}(?P<label>{either_of((*self.words, *self.digits))})"
        lead = rf"{LEAD}|{CHOOSING}|it['\u2019]?s\sa"
        match = bare(label, lead=lead, tail=BETTER).fullmatch(plain(text))
        return None if match is None else _value(self.words, self.digits.get(match["label"], match["label"]))

    def find(self, text: str) -> float | None:
        """The last label behind a mark such as ``Verdict:`` or ``I choose``, or else the first label."""
        alone = re.fullmatch(r"[\W_]{0,8}(\w)[\W_]{0,8}", text)
        either = rf"(?:{'|'.join(map(re.escape, self.words))}){ENDED}"
        quote = r"[\"'`*\u2018\u2019\u201c\u201d]{0,3}"
        label = rf"{quote}(?:{NOUN}\s)?(?<![A-Za-z0-9_-]){quote}{either}{quote}"
        more = rf"(?:\s{{0,2}},\s{{0,2}}{label}){{0,6}}"
        # a list of the labels themselves, such as "one, two or tie"
        text = re.sub(rf"(?i){label}{more}\s{{0,2}},?\s{{0,2}}(?:\bor\b|\band\b|\bnor\b|/)\s{{0,2}}{label}", " ", text)
        between = rf"{GAP}(?:(?:is|for)\s)?(?:the\s|a\s)?(?:{NOUN}\s)?{GAP}"
        marks = re.finditer(rf"(?im)(?:{WORD_MARK}|{CHOSEN}){between}({either})", text)
        last = [match[1] for match in marks if _ends_a_label(match[1], text[match.end(1) :])][-1:]
        if last:
            return _value(self.words, last[0])
        if alone and alone[1] in self.digits:
            return self.words[self.digits[alone[1]]]
        for match in re.finditer(rf"(?i){BEGUN}({either})", text):
            if _begins_a_label(match[1], text[: match.start(1)]) and _ends_a_label(match[1], text[match.end(1) :]):
                return _value(self.words, match[1])
        return None


def _begins_a_label(word: str, before: str) -> bool:
    last = re.search(r"([^\s,;:.!?]{1,40})[\s\"'`*_\u2018\u201c]{1,6}$", before[-48:])
    previous = last[1].casefold().strip("\"'`*_") if last else ""
    if previous in {"not", "than", "neither", "nor", "never", "over", "isn't", "isn\u2019t"}:
        return False
    if word.casefold() == "one":
        pronouns = "no any every each either which what this that better best worse worst other another first second"
        return previous not in {*pronouns.split(), "former", "latter", "only", "last", "the", "a", "an", "if", "some"}
    if word.casefold() == "tie":
        return not re.search(
            r"(?i)\b(?:not|no|than|isn['\u2019]t)\s+(?:(?:quite|really)\s+)?(?:an?\s+)?$", before[-48:]
        )
    return previous not in {"the", "these", "those", "both", "between", "of", "all", "their", "our", "any"}


def _ends_a_label(word: str, after: str) -> bool:
    if word.casefold() == "one":
        return not re.match(rf"(?i)\s+(?:{NOUN}\b(?!\s*:)|of\b|in\b)", after)
    return not re.match(rf"(?i)\s+(?:[a-z]+\s+)?{NOUNS}\b", after)


NUMBER = r"(?<![\w.,/\u2212\u2013-])(?:(?<![\w)\]])[-\u2212])?\d{1,9}(?:\.\d{1,9})?(?![\w]|[.,]\d|\s?[-\u2013]\s?\d)"


@dataclass(frozen=True)
class NumberReader:
    """Ratings: the first number that is a rating; a number outside the range is not one.

    "4/5", "4 out of 5" and "85%" are 4, 4 and 85. Ignored: the range in the question, lists such as "3 or 4", and the
    numbers of list items and of explained levels ("1 means").
    """

    lowest: float
    highest: float
    values: Mapping[float, float] | None = None
    """Value of each allowed number; None: every number of the range is its own value."""

    def read_bare(self, text: str) -> float | None:
        """Return the value of a text such as "4", "Score: 4", "4/5" or "4 out of 5"."""
        tail = r"\s{0,2}(?:(?:/|out\sof)\s{0,2}\d+(?:\.\d+)?|%|points?|stars?)"
        match = bare(NUMBER, tail=tail).fullmatch(plain(text))
        return None if match is None else self._value(match)

    def find(self, text: str) -> float | None:
        """The last number behind a mark such as ``Score:`` or ``final rating is``, or else the first number."""
        text = self._without_ranges(text)
        marks = list(re.finditer(rf"(?im)(?:{NUMBER_MARK}){GAP}({NUMBER})", text))
        match = marks[-1] if marks else re.search(f"({NUMBER})", text)
        return None if match is None else self._value(match)

    def _value(self, match: re.Match[str]) -> float | None:
        value = float(match[1].replace("\u2212", "-"))
        of = re.match(r"(?i)\s*(?:/|\bout\s+of\b)\s*(\d+(?:\.\d+)?)", match.string[match.end(1) :][:40])
        if of and float(of[1]) != self.highest:
            return None
        if self.values is not None:
            return self.values.get(value)
        return value if self.lowest <= value <= self.highest else None

    def _without_ranges(self, text: str) -> str:
        low, high = (f"{end:g}" for end in (self.lowest, self.highest))
        text = re.sub(
            rf"(?i)(?<![\w.-]){low}\s{{0,2}}(?:-|\u2013|\bto\b|\band\b)\s{{0,2}}{high}(?![\w]|\.\d)", " ", text
        )
        item = r"(?m)^[ \t*_-]{0,8}\d{1,3}[*_]{0,3}[.)]\s{1,4}(?=\S)"
        if len(re.findall(item, text)) > 1:
            text = re.sub(item, " ", text)
        text = re.sub(rf"(?i){NUMBER}[\"'\u2019]?\s{{1,4}}(?:means|indicates|if)\b", " ", text)
        number = rf"[\"'\u2018\u2019]?{NUMBER}[\"'\u2018\u2019]?"
        more = rf"(?:\s{{0,2}},\s{{0,2}}{number}){{0,6}}"
        return re.sub(rf"{number}{more}\s{{0,2}},?\s{{0,2}}\b(?:or|and)\b\s{{0,2}}{number}", " ", text)


@dataclass(frozen=True)
class BracketReader:
    """Labels in double brackets: the last pair of double brackets must contain one."""

    labels: Mapping[str, float]

    def read_bare(self, text: str) -> float | None:
        """Return the value of a text such as "[[A]]"."""
        match = bare(rf"\[\[\s?(?P<label>{either_of(self.labels)})\s?\]\]").fullmatch(plain(text))
        return None if match is None else _value(self.labels, match["label"])

    def find(self, text: str) -> float | None:
        bracketed = re.findall(r"\[\[([^\[\]]*)\]\]", text)
        return _value(self.labels, " ".join(bracketed[-1].split())) if bracketed else None


@dataclass(frozen=True)
class FirstLineReader:
    """Labels alone on the first line, before any reason."""

    labels: Mapping[str, float]

    def read_bare(self, text: str) -> float | None:
        """Return the value of the first line; reasons below it are no part of the verdict, and a quotation is none."""
        return None if text.lstrip().startswith(">") else self.find(text)

    def find(self, text: str) -> float | None:
        return _value(self.labels, re.sub(r"^[\W_]+|[\W_]+$", "", text.strip().split("\n", 1)[0]))


@dataclass(frozen=True)
class OnlyLabelReader:
    """Labels as whole words: the reply begins with one, ended by punctuation or the end of the line, and has no other.

    So "No idea", "highly" and "low to medium" are not labels.
    """

    labels: Mapping[str, float]
    confidence: bool = False
    """True if a label also counts right after words such as "my confidence is", or before "confidence"."""

    def read_bare(self, text: str) -> float | None:
        """Return the value of a text such as "Yes." or "My confidence is high."."""
        lead, tail = LEAD, ""
        if self.confidence:
            lead = rf"{LEAD}|(?:my\s)?(?:confidence|level|label)(?:\s(?:level|label))?(?:\sis|\s?[:=])"
            tail = r"\sconfidence"
        match = bare(either_of(self.labels), lead=lead, tail=tail).fullmatch(plain(text))
        return None if match is None else _value(self.labels, match[1])

    def find(self, text: str) -> float | None:
        either = "|".join(map(re.escape, self.labels))
        named = {found.casefold() for found in re.findall(rf"(?i)(?<![^\W_])(?:{either})(?![^\W_])", text)}
        if len(named) != 1:
            return None
        before_noun = r"|\s+confidence\b" if self.confidence else ""
        label = rf"[\W_]*({either})(?![-'\u2019]\w)(?=[\W_]*$|[^\S\n]*(?:[^\w\s]|_|\n){before_noun})"
        noun = r"\b(?:confidence|level|label|answer|output)(?:\s+(?:level|label))?(?:\s+is|\s*[:=])"
        found = re.search(rf"(?i){noun}{label}", text) if self.confidence else None
        if found is None:
            found = re.match(rf"(?i){label}", text)
        return None if found is None else _value(self.labels, found[1])


def _value(labels: Mapping[str, float], found: str) -> float | None:
    return next((value for label, value in labels.items() if label.casefold() == found.casefold()), None)


@dataclass(frozen=True)
class TagReader:
    """Numbers in the last element with a tag, one per criterion or a single one; the value is their mean."""

    tag: str
    lowest: float
    highest: float
    criteria: tuple[str, ...] = ()
    """Names before the numbers; empty: the element contains one number."""

    def with_mark(self, text: str, mark: str) -> str:
        """Return a text about the tag as one about the tag with a mark."""
        return text.replace(f"{self.tag}>", f"{self.tag}-{mark}>")

    def marked(self, mark: str) -> TagReader:
        """Return the reader of the tag with a mark."""
        return replace(self, tag=f"{self.tag}-{mark}")

    def read_bare(self, text: str) -> float | None:
        """Return the value of a text that is one element with the tag and nothing else."""
        alone = re.fullmatch(rf"(?is)\s*<{self.tag}>(?:(?!<).)*(?:</{self.tag}>)?\s*", plain(text))
        return None if alone is None else self.find(text)

    def find(self, text: str) -> float | None:
        return self.mean_of_last(own_text(text))

    def mean_of_last(self, text: str) -> float | None:
        """Return the mean of all criteria in the last element, or None if one has no number within the range."""
        blocks = re.findall(rf"(?is)<{self.tag}>(.*?)(?:</{self.tag}>|\Z)", text)
        numbers = [self._number(blocks[-1], name) for name in self.criteria or ("",)] if blocks else [None]
        known = [number for number in numbers if number is not None]
        return sum(known) / len(known) if len(known) == len(numbers) else None

    def _number(self, block: str, name: str) -> float | None:
        lines = [block]
        if name:
            lines = re.findall(rf"(?im)^[\W\d_]{{0,12}}{re.escape(name)}[*_\s]{{0,4}}[:=](.*)$", block)
        return NumberReader(self.lowest, self.highest).find(lines[-1]) if lines else None
