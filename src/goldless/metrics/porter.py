"""Porter's stemmer (1980) with NLTK's departures from it, as ROUGE's reference package uses it: "running" is "run".

Martin Porter, "An algorithm for suffix stripping", Program 14.3, 130-137. The steps have the paper's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

WORDS_KEPT = 1 << 17
"""Words whose stems are remembered: stemming is most of the cost of ROUGE, and texts share most of their words."""


def endings_table(written: str) -> dict[str, str]:
    """Read pairs of an ending and its replacement, separated by commas."""
    pairs = (pair.partition(" ") for pair in written.split(", "))
    return {ending: replacement for ending, _, replacement in pairs}


IRREGULAR = endings_table(
    "sky sky, skies sky, inning inning, innings inning, outing outing, outings outing, canning canning, "
    "cannings canning, dying die, lying lie, tying tie, news news, howe howe, proceed proceed, exceed exceed, "
    "succeed succeed"
)
STEP_1A = endings_table("sses ss, ies i, ss ss, s")
STEP_1B = endings_table("at ate, bl ble, iz ize")
STEP_2 = endings_table(
    "ational ate, tional tion, enci ence, anci ance, izer ize, bli ble, entli ent, eli e, ousli ous, ization ize, "
    "ation ate, ator ate, alism al, iveness ive, fulness ful, ousness ous, aliti al, iviti ive, biliti ble, fulli ful"
)
STEP_3 = endings_table("icate ic, ative, alize al, iciti ic, ical ic, ful, ness")
STEP_4 = endings_table("al, ance, ence, er, ic, able, ible, ant, ement, ment, ent, ou, ism, ate, iti, ous, ive, ize")
"""Suffixes with what replaces them, if anything; where several fit, the first one counts."""


@lru_cache(maxsize=WORDS_KEPT)
def stem(word: str) -> str:
    """Return the stem of a word of at least three lower-case letters or digits."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    for step in (_step_1a, _step_1b, _step_1c, _step_2, _step_3, _step_4, _step_5):
        word = step(word)
    return word


def _shape(word: str) -> str:
    """Spell each letter as c, a consonant, or v, a vowel; y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if is_vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Count the places where a consonant follows a vowel: the paper's m."""
    return _shape(word).count("vc")


def _ends_like_hop(word: str) -> bool:
    """Return True if a short syllable ends the word: the paper's ``*o``, or a word such as "at"."""
    shape = _shape(word)
    return shape == "vc" or (shape.endswith("cvc") and word[-1] not in "wxy")


def _replace_ending(word: str, endings: Mapping[str, str], least_measure: int) -> str:
    """Replace the first ending that fits, if the word before it has at least this measure."""
    for ending, replacement in endings.items():
        if word.endswith(ending):
            start = word.removesuffix(ending)
            if _measure(start) >= least_measure:
                return start + replacement
            break
    return word


def _step_1a(word: str) -> str:
    if word.endswith("ies") and len(word) == 4:
        return word.removesuffix("s")
    return _replace_ending(word, STEP_1A, 0)


def _step_1b(word: str) -> str:
    if word.endswith("ied"):
        if len(word) == 4:
            return word.removesuffix("d")
        return word.removesuffix("ed")
    if word.endswith("eed"):
        return _replace_ending(word, {"eed": "ee"}, 1)
    for ending in ("ed", "ing"):
        start = word.removesuffix(ending)
        if start != word and "v" in _shape(start):
            return _mend(start)
    return word


def _mend(start: str) -> str:
    """Restore the end of a word that lost -ed or -ing: conflat becomes conflate, hopp hop, and fil file."""
    mended = _replace_ending(start, STEP_1B, 0)
    if mended != start:
        return mended
    if start[-1] == start[-2:-1] and _shape(start).endswith("c"):
        if start[-1] in "lsz":
            return start
        return start[:-1]
    if _measure(start) == 1 and _ends_like_hop(start):
        return f"{start}e"
    return start


def _step_1c(word: str) -> str:
    start = word.removesuffix("y")
    if start != word and len(start) > 1 and _shape(start).endswith("c"):
        return f"{start}i"
    return word


def _step_2(word: str) -> str:
    if word.endswith("alli"):
        shorter = _replace_ending(word, {"alli": "al"}, 1)
        if shorter != word:
            return _step_2(shorter)
    if word.endswith("logi") and _measure(word.removesuffix("ogi")) > 0:
        return word.removesuffix("i")
    return _replace_ending(word, STEP_2, 1)


def _step_3(word: str) -> str:
    return _replace_ending(word, STEP_3, 1)


def _step_4(word: str) -> str:
    start = word.removesuffix("ion")
    if start.endswith(("s", "t")) and start != word and _measure(start) > 1:
        return start
    return _replace_ending(word, STEP_4, 2)


def _step_5(word: str) -> str:
    start = word.removesuffix("e")
    if start != word and (_measure(start) > 1 or (_measure(start) == 1 and not _ends_like_hop(start))):
        word = start
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        return word[:-1]
    return word
