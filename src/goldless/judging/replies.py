"""Replies: the verdict in a reviewer's own words, not in what it repeats from the question or a response.

A response may say "[[A]]" or "output: one", and a reviewer may quote it. So whatever is recognisably quoted or restated
is removed before the search for a verdict: fenced text, quotations, copies of the judged texts, the list of labels. A
marked verdict ("Verdict: two") takes precedence over the first mention. An ambiguous reply has no verdict.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

MOST_READ = 20_000
"""Number of characters of a reply that are read: its beginning and its end."""
LEAST_FENCE = 12
"""Minimum number of characters of a fence around material, as in prompts."""
SHORT = 4
"""Number of words in the longest bare verdict: "4 out of 5"."""

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


class Reader(Protocol):
    """A rule that reads a verdict from a text."""

    def find(self, text: str, *, marked: bool = False) -> float | None:
        """The value that the text marks as its verdict, or else mentions first; ``marked``: only a marked one."""


# --- what is the reviewer's own -------------------------------------------------------------------------------------


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


def without_copies(text: str, sources: Iterable[str]) -> str:
    """The text without copies of these sources: each as a whole, or else its lines and sentences of at least two words.

    A piece is removed at most as often as it is in its source: a further repetition is the writer's own.
    """
    if len(text.split(None, 1)) < 2:
        # one word holds no copy of more than one
        sources = [source for source in sources if len(source.split(None, 1)) < 2]
    for source in dict.fromkeys(map(plain, sources)):
        shorter, found = _without(text, source, 1)
        if not found:
            parts = Counter(" ".join(part.split()) for part in source.split("\n"))
            parts |= Counter(" ".join(part.split()) for part in re.split(r"(?<=[.!?])\s+", source))
            for part in sorted(parts, key=len, reverse=True):
                shorter, _ = _without(shorter, part, parts[part])
        text = shorter
    return text


def _without(text: str, piece: str, times: int) -> tuple[str, bool]:
    """The text without the first copies of a piece, and whether there were any; white space may differ."""
    words = piece.split()
    if len(re.findall(r"\w+", piece)) < 2 or " ".join(words) not in " ".join(text.split()):
        return text, False
    spaced = r"\s+".join(map(re.escape, words))
    gap = "\n" if piece.rstrip()[-1] in ".!?" else " "
    shorter, found = re.subn(rf"(?<!\w){spaced}(?!\w)", gap, text, count=times)
    return shorter, found > 0


# --- readers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WordReader:
    """Labels that are words, such as one and two: the first of them as a whole word that is a label there.

    Not labels: "none", "which one", "one of them", "the two answers", "not one", and a list of the labels themselves.
    A digit counts as its word only if it is the whole reply.
    """

    words: Mapping[str, float]
    digits: Mapping[str, str] = field(default_factory=dict)

    def find(self, text: str, *, marked: bool = False) -> float | None:
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
        if last or marked:
            return _value(self.words, last[0]) if last else None
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


@dataclass(frozen=True, slots=True)
class NumberReader:
    """Ratings: the first number that is a rating; a number outside the range is not one.

    "4/5", "4 out of 5" and "85%" are 4, 4 and 85. Ignored: the range in the question, lists such as "3 or 4", and the
    numbers of list items and of explained levels ("1 means").
    """

    lowest: float
    highest: float
    values: Mapping[float, float] | None = None
    """Value of each allowed number; None: every number of the range is its own value."""

    def find(self, text: str, *, marked: bool = False) -> float | None:
        """The last number behind a mark such as ``Score:`` or ``final rating is``, or else the first number."""
        text = self._without_ranges(text)
        marks = list(re.finditer(rf"(?im)(?:{NUMBER_MARK}){GAP}({NUMBER})", text))
        match = marks[-1] if marks else None if marked else re.search(f"({NUMBER})", text)
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


@dataclass(frozen=True, slots=True)
class BracketReader:
    """Labels in double brackets: the last pair of double brackets must contain one."""

    labels: Mapping[str, float]

    def find(self, text: str, *, marked: bool = False) -> float | None:
        del marked  # no mention counts
        bracketed = re.findall(r"\[\[([^\[\]]*)\]\]", text)
        return _value(self.labels, " ".join(bracketed[-1].split())) if bracketed else None


@dataclass(frozen=True, slots=True)
class FirstLineReader:
    """Labels alone on the first line, before any reason."""

    labels: Mapping[str, float]

    def find(self, text: str, *, marked: bool = False) -> float | None:
        del marked  # no mention counts
        return _value(self.labels, re.sub(r"^[\W_]+|[\W_]+$", "", text.strip().split("\n", 1)[0]))


@dataclass(frozen=True, slots=True)
class OnlyLabelReader:
    """Labels as whole words: the reply begins with one, ended by punctuation or the end of the line, and has no other.

    So "No idea", "highly" and "low to medium" are not labels.
    """

    labels: Mapping[str, float]
    confidence: bool = False
    """True if a label also counts right after words such as "my confidence is", or before "confidence"."""

    def find(self, text: str, *, marked: bool = False) -> float | None:
        either = "|".join(map(re.escape, self.labels))
        named = {found.casefold() for found in re.findall(rf"(?i)(?<![^\W_])(?:{either})(?![^\W_])", text)}
        if len(named) != 1:
            return None
        before_noun = r"|\s+confidence\b" if self.confidence else ""
        label = rf"[\W_]*({either})(?![-'\u2019]\w)(?=[\W_]*$|[^\S\n]*(?:[^\w\s]|_|\n){before_noun})"
        noun = r"\b(?:confidence|level|label|answer|output)(?:\s+(?:level|label))?(?:\s+is|\s*[:=])"
        found = re.search(rf"(?i){noun}{label}", text) if self.confidence else None
        if found is None and not marked:
            found = re.match(rf"(?i){label}", text)
        return None if found is None else _value(self.labels, found[1])


def _value(labels: Mapping[str, float], found: str) -> float | None:
    return next((value for label, value in labels.items() if label.casefold() == found.casefold()), None)


@dataclass(frozen=True, slots=True)
class TagReader:
    """Numbers in the last element with a tag, one per criterion or a single one; the value is their mean."""

    tag: str
    lowest: float
    highest: float
    criteria: tuple[str, ...] = ()
    """Names before the numbers; empty: the element contains one number."""

    def find(self, text: str, *, marked: bool = False) -> float | None:
        """The mean of all criteria, or None if one has no number within the range."""
        del marked  # no mention counts
        blocks = re.findall(rf"(?is)<{self.tag}>(.*?)(?:</{self.tag}>|\Z)", own_text(text))
        numbers = [self._number(blocks[-1], name) for name in self.criteria or ("",)] if blocks else [None]
        known = [number for number in numbers if number is not None]
        return sum(known) / len(known) if len(known) == len(numbers) else None

    def _number(self, block: str, name: str) -> float | None:
        lines = [block]
        if name:
            lines = re.findall(rf"(?im)^[\W\d_]{{0,12}}{re.escape(name)}[*_\s]{{0,4}}[:=](.*)$", block)
        return NumberReader(self.lowest, self.highest).find(lines[-1]) if lines else None
