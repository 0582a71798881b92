"""Text that comes out of files: mended where typesetting broke it, and told whether it can be read at all.

A font without a character map leaves garble. The bounds were set between English reviews of ICLR 2023 (900) and pages
of four papers on one side, and the same texts encoded on the other: shifted alphabets, random substitutions,
private-use characters, glyph numbers, letters set apart, words run together, random bytes, base64. All readable ones
passed, tables of numbers among them; of the encoded ones (216 of each kind) one passed, of words run together. Where
all letters are small, a random substitution passes one time in five. Not told from an unknown language: words spelt
backwards or with their letters shuffled. A page full of formulas may fail alone; that is why a paper fails by a share
of its pages.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any

LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})
CONTROLS = dict.fromkeys([*range(9), 11, *range(14, 32), *range(127, 160)])
"""C0 and C1 controls other than tab, line feed, form feed and carriage return; ``str.translate`` drops them."""

_SURROGATE = re.compile("[\ud800-\udfff]")
# Possessive, and begun at the start of a word only: a file of a million letters or hyphens must not take for ever.
_WORD = re.compile(r"[^\W\d_]++(?:[-\u2010][^\W\d_]++)*+")
_BROKEN_WORD = re.compile(
    r"(?<![^\W\d_])(?<![-\u2010])(?P<hyphened>(?:[^\W\d_]++[-\u2010])*)(?P<head>[^\W\d_]++)"
    r"(?P<hyphen>[-\u2010\u00ad])[ \t]*+\n[ \t]*+(?P<tail>[^\W\d_]++)"
)


def storable(text: str) -> str:
    """The text without NUL and lone surrogates, which a UTF-8 file cannot contain."""
    if _SURROGATE.search(text):
        # UTF-16 joins the halves that belong together; those that are alone are what it cannot read.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return text.replace("\x00", "")


def unix_lines(text: str) -> str:
    """The text with line feeds as line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def storable_value(value: Any) -> Any:
    """The value with every text in it storable, at any depth; numbers too large for a table become text."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable_value(key): storable_value(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(held) for held in value]
    if type(value) is int and not -(2**63) <= value < 2**63:
        return str(value)
    return str(value) if type(value) is float and math.isinf(value) else value


def mended(text: str) -> str:
    """The text of a typeset page as it was written: ligatures as letters, words joined that a line's end broke.

    A word broken at a hyphen is joined without it, unless the word with the hyphen stands elsewhere in the text (and
    the joined one does not), or its head has a hyphen already (``state-of-the-`` + ``art``), or its tail begins with a
    capital. Control characters go; line ends become line feeds.
    """
    text = unix_lines(storable(text)).replace("\f", "\n")
    text = text.translate(LIGATURES).translate(CONTROLS)
    words = set(_WORD.findall(text))
    text = _BROKEN_WORD.sub(lambda match: _joined(match, words), text)
    return text.replace("\u00ad", "")


def _joined(match: re.Match[str], words: set[str]) -> str:
    hyphened, head, tail = match["hyphened"], match["head"], match["tail"]
    soft = match["hyphen"] == "\u00ad"
    compound = f"{head}-{tail}"
    kept = hyphened or tail[0].isupper() or (compound in words and head + tail not in words)
    return f"{hyphened}{head}-{tail}" if kept and not soft else f"{hyphened}{head}{tail}"


MOST_UNREADABLE = 0.10
"""Share of characters that mean nothing. Readable: 0; shifted by 29 places: 0.02 to 0.42; private use: 1."""
FEWEST_LETTERS = 0.40
"""Share of letters among characters other than blanks and full stops. Readable: from 0.54 (a table) on."""
WORD_LENGTH = (1.6, 15.0)
"""Mean characters between blanks. Readable: 3.5 to 7.3; letters set apart: 1; words run together: 10 to 3,000."""
VOWELS = (0.29, 0.55)
"""Share of vowels among Latin letters. Readable: 0.33 to 0.42; shifted by one place: 0.20 to 0.28."""
MOST_WITHOUT_VOWEL = 0.10
"""Share of words of four Latin letters or more without a vowel. Readable: 0 to 0.07; shifted: 0.12 to 0.43."""
MOST_CASE_CHANGES = 0.20
"""Share of words with a capital after a small letter. Readable: 0 to 0.06; random substitution: 0.36 to 0.90."""
FEWEST_TO_JUDGE = 200
"""Minimum number of characters, without blanks, to judge a text."""

_MARK = re.compile(r"\(cid:\d+\)|GLYPH<[^>\s]{1,40}>|/(?:[CGcg]\d{1,5}|uni[0-9A-Fa-f]{4})(?=/|\s|$)")
_LATIN_WORD = re.compile("[A-Za-z\u00c0-\u024f]+")
_CASE_CHANGE = re.compile(r"[a-z][A-Z]")
_VOWELS = frozenset("aeiouy")
_LAST_LATIN = "\u024f"


def is_long_enough(text: str) -> bool:
    """Whether the text is long enough to be judged."""
    return sum(map(len, text.split())) >= FEWEST_TO_JUDGE


def garble(text: str) -> str:
    """Why the text is not readable, with what was measured; empty if it is readable or too short to judge."""
    if not is_long_enough(text):
        return ""
    characters = [character for character in text if not character.isspace()]
    unreadable = unreadable_share(text)
    if unreadable > MOST_UNREADABLE:
        return f"{unreadable:.0%} of its characters are unreadable (limit {MOST_UNREADABLE:.0%})"
    letters = [character for character in characters if character.isalpha()]
    # Full stops lead from a heading to its page, hundreds of them in a table of contents.
    share = len(letters) / max(len(characters) - characters.count("."), 1)
    if share < FEWEST_LETTERS:
        return f"only {share:.0%} of its characters are letters (minimum {FEWEST_LETTERS:.0%})"
    # What follows holds for scripts that part words by blanks and write vowels.
    if 2 * sum(letter <= _LAST_LATIN for letter in letters) < len(letters):
        return ""
    return _latin_garble(text)


def unreadable_share(text: str) -> float:
    """Share of unreadable characters, without blanks; 1 if there are none."""
    marks = sum(len(match[0]) for match in _MARK.finditer(text))
    characters = [character for character in text if not character.isspace()]
    return (sum(map(_means_nothing, characters)) + marks) / len(characters) if characters else 1.0


def _latin_garble(text: str) -> str:
    parts = [part for part in text.split() if part.strip(".")]
    length = sum(map(len, parts)) / len(parts)
    if not WORD_LENGTH[0] <= length <= WORD_LENGTH[1]:
        return f"its words have {length:.1f} characters on average (expected {WORD_LENGTH[0]:g} to {WORD_LENGTH[1]:g})"
    words = _LATIN_WORD.findall(text)
    if not words:
        return ""
    plain = [_plain(word) for word in words]
    vowels = sum(letter in _VOWELS for word in plain for letter in word) / sum(map(len, plain))
    if not VOWELS[0] <= vowels <= VOWELS[1]:
        return f"{vowels:.0%} of its letters are vowels (expected {VOWELS[0]:.0%} to {VOWELS[1]:.0%})"
    long = [word for word in plain if len(word) >= 4]
    without = sum(_VOWELS.isdisjoint(word) for word in long) / max(len(long), 1)
    if without > MOST_WITHOUT_VOWEL:
        return f"{without:.0%} of its words have no vowel (limit {MOST_WITHOUT_VOWEL:.0%})"
    changes = sum(_CASE_CHANGE.search(word) is not None for word in words) / len(words)
    if changes > MOST_CASE_CHANGES:
        return f"{changes:.0%} of its words have capitals inside (limit {MOST_CASE_CHANGES:.0%})"
    return ""


def _means_nothing(character: str) -> bool:
    return character == "\ufffd" or unicodedata.category(character) in {"Cc", "Co", "Cn", "Cs"}


def _plain(word: str) -> str:
    """The word in small letters without accents."""
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(character for character in decomposed if not unicodedata.combining(character))
