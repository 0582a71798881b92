"""Recorded replies of reviewers, read as the papers read them or strictly.

``paper`` meets the published numbers: of "one" and "two" the first decides wherever it stands, even inside a word
("None of them" counts as one, as does "being concise in tone"), and a number counts as it is, outside of the scale too
(8 of 5, 170 of 100). ``default`` takes a verdict only where the reply gives one: at its beginning, at its end, or
named ("Summary two is better"); ties that are said are ties; a number outside of the scale is no rating.
"""

from __future__ import annotations

import re

from goldless.errors import MetricError
from goldless.metrics.judgement_table import NEITHER, Convention, check_convention

_ANYWHERE = re.compile(r"one|two", re.IGNORECASE)
_NAMED = re.compile(
    r"""^\W*(?P<begin>one|two)\b(?!\s+(?:of|in|summary|answer|response)\b)
    |(?:summary|answer|response|reply|output|option|choice|verdict)(?:\s+is)?\W{1,3}(?P<named>one|two)\b
    |(?:[:"'`*\u201c])\s*(?P<end>one|two)\W*$""",
    re.IGNORECASE | re.VERBOSE,
)
_NEITHER = re.compile(r"^\W*(?:neither|tied?|draw|equal|same)\b", re.IGNORECASE)
_BOTH = re.compile(r"^\W*both\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w]|\.\d)")
_OUT_OF = re.compile(r"(?<=\d)\s*(?:/|out of)\s*\d+(?:\.\d+)?", re.IGNORECASE)


def read_pairwise(output: str | None, *, convention: Convention = "default") -> float | None:
    """1: the first is better, 0: the second, 0.5: neither, None: the reply holds no verdict.

    The papers score a reply without a verdict 0.5 later on; here it is None in both conventions.
    """
    check_convention(convention)
    if output is None:
        return None
    if convention == "paper":
        found = _ANYWHERE.search(output)
        return None if found is None else float(found[0].lower() == "one")
    if _NEITHER.search(output):
        return NEITHER
    labels = [match[match.lastgroup or 0].lower() for match in _NAMED.finditer(output)]
    if _BOTH.search(output) and len(set(labels)) != 1:
        return NEITHER if re.fullmatch(r"\W*both\W*", output, re.IGNORECASE) else None
    return float(labels[0] == "one") if labels else None


def read_rating(
    output: str | None, *, lowest: float, highest: float, convention: Convention = "default"
) -> float | None:
    """The rating a reply gives, None where it gives none.

    By default it must be the only number of the reply ("4", "Score: 4/5") and lie on the scale; the papers take the
    first number as it is.
    """
    check_convention(convention)
    if not lowest < highest:
        raise MetricError(f"a scale from {lowest} to {highest} came; the lowest rating is below the highest")
    if output is None:
        return None
    numbers = [float(found) for found in _NUMBER.findall(_OUT_OF.sub(" ", output))]
    if convention == "paper":
        return numbers[0] if numbers else None
    return numbers[0] if len(set(numbers)) == 1 and lowest <= numbers[0] <= highest else None
