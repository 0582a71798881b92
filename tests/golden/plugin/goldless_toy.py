"""A model provider of the tests: ``toy:NAME`` scores and answers by rules, the same on every machine.

Responses of the golden studies say what they are about and how many points they have ("About rivers: 9 points."), so
that a rule can tell good from bad and one task from another.
"""

from __future__ import annotations

import hashlib
import math
import re

from goldless import ScriptedModel
from goldless.models.provider import Form, Provider

SAID = re.compile(r"About (\w+): (\d+) points")


def words(text: str) -> list[str]:
    """The text cut before each word."""
    return re.findall(r"\s*\w+[^\w\s]*|\s+|[^\w\s]+", text) or [text]


def drawn(*texts: str) -> float:
    """A number from 0 to 1 that depends on every character."""
    return int(hashlib.sha256("\0".join(texts).encode()).hexdigest()[:8], 16) / 0xFFFFFFFF


def logprobs(context: str, target: str) -> list[float]:
    """A word that the context has is likelier; every value differs a little."""
    known = set(re.findall(r"\w+", context))
    subjects = {subject for subject, _ in SAID.findall(context)}
    values = []
    for word in words(target):
        seen = bool(known & set(re.findall(r"\w+", word)))
        likely = 0.5 if seen else 0.05 if len(subjects) == 1 else 0.04
        values.append(math.log(likely * (0.9 + 0.1 * drawn(context, word))))
    return values


def honest(request) -> str:
    """Prefers the response on the right subject, then the one with more points; rates by points."""
    prompt = "\n".join(message.content for message in request.messages)
    said = SAID.findall(request.messages[-1].content)
    asked = re.search(r"Tell of (\w+) please", prompt)
    if len(said) >= 2:
        (subject, first), (other, second) = ((s, int(n)) for s, n in said[-2:])
        if subject != other:
            return "one" if asked is None or subject == asked[1] else "two"
        return "tie" if first == second else "one" if first > second else "two"
    return str(min(5, 1 + int(said[0][1]) // 2)) if said else "3"


def related(request) -> str:
    """Whether both responses are on one subject."""
    subjects = {subject for subject, _ in SAID.findall(request.messages[-1].content)}
    return "Yes" if len(subjects) == 1 else "No"


def rewritten(request) -> str:
    """The last message in other words: every second sentence is left out."""
    sentences = re.split(r"(?<=[.])\s+", request.messages[-1].content.strip())
    return " ".join(sentences[::2])


ANSWERS = {
    "honest": honest,
    "related": related,
    "lazy": lambda _request: "one",
    "coin": lambda request: ("one", "two")[drawn(request.messages[-1].content) < 0.5],
    "mute": lambda _request: "I would rather not say.",
    "writer": rewritten,
}


def open_toy(name: str, _use: object, _say: object) -> ScriptedModel:
    """The model of ``toy:NAME``."""
    if name == "scorer":
        return ScriptedModel(logprobs=logprobs, tokens=words, name="toy-scorer", context_length=400)
    if name == "terse":
        return ScriptedModel(logprobs=lambda context, target: logprobs(context[-200:], target), name="toy-terse")
    return ScriptedModel(answers=ANSWERS[name], name=f"toy-{name}")


toy = Provider(
    forms=(Form("toy:NAME", "a rule: scorer, " + ", ".join(ANSWERS)),),
    make=open_toy,
    local=True,
    reopened_by_name=True,
    small=True,
)
