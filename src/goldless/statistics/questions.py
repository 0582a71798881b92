"""Questions about agents that a run may stop for: A>B, best, top=N, baseline=AGENT.

A question says which comparisons answer it, how many of them could be wrong (alpha is divided by that number, so the
answer is right with probability 1 - alpha although the data choose the agents), and which agents are still open.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from goldless.arrays import BoolArray
from goldless.errors import UserError, nearest

FORMS = "'A>B', best, top=N or baseline=AGENT"
SHOWN = 5
"""Agents named in an answer; the rest is a count."""


class Question(Protocol):
    """A question about agents, by their numbers."""

    @property
    def text(self) -> str:
        """The question as it is asked."""
        ...

    def tests(self, agents: int, decided: int = 0) -> int:
        """The number that alpha is divided by: how many comparisons could make the answer wrong.

        ``decided``: comparisons already decided, where they need no alpha any more (Holm).
        """
        ...

    def pairs(self, agents: int) -> list[tuple[int, int]]:
        """The comparisons that answer it."""
        ...

    def open(self, beats: BoolArray) -> list[int]:
        """The agents that more tasks are needed for; ``beats`` [agents, agents]: the first is decidedly better."""
        ...

    def matters(self, beats: BoolArray, first: int, second: int) -> bool:
        """Whether a comparison is part of the answer, or of what is missing to it."""
        ...

    def answer(self, beats: BoolArray, names: Sequence[str]) -> str:
        """What is known, in words."""
        ...


@dataclass(frozen=True, slots=True)
class Versus:
    """Which of two agents is better; decided either way."""

    first: int
    second: int
    text: str

    def tests(self, agents: int, decided: int = 0) -> int:
        """One comparison."""
        del agents, decided
        return 1

    def pairs(self, agents: int) -> list[tuple[int, int]]:
        """The pair."""
        del agents
        return [(self.first, self.second)]

    def open(self, beats: BoolArray) -> list[int]:
        """Both, until one beats the other."""
        decided = beats[self.first, self.second] or beats[self.second, self.first]
        return [] if decided else [self.first, self.second]

    def matters(self, beats: BoolArray, first: int, second: int) -> bool:
        """Always."""
        del beats, first, second
        return True

    def answer(self, beats: BoolArray, names: Sequence[str]) -> str:
        """Who is better."""
        one, other = names[self.first], names[self.second]
        if beats[self.first, self.second]:
            return f"{one} is better than {other}"
        return f"{other} is better than {one}" if beats[self.second, self.first] else f"{one} or {other}: undecided"


@dataclass(frozen=True, slots=True)
class Baseline:
    """Who is better and who is worse than one agent."""

    agent: int
    text: str

    def tests(self, agents: int, decided: int = 0) -> int:
        """Each other agent that is not yet decided: by Holm's argument, since each p is valid whenever one stops."""
        return max(1, agents - 1 - decided)

    def pairs(self, agents: int) -> list[tuple[int, int]]:
        """Each other agent with the baseline."""
        return [(other, self.agent) for other in range(agents) if other != self.agent]

    def open(self, beats: BoolArray) -> list[int]:
        """Those who neither beat the baseline nor lose to it, and the baseline."""
        decided = beats[self.agent] | beats[:, self.agent]
        others = [other for other in range(len(beats)) if other != self.agent and not decided[other]]
        return sorted([*others, self.agent]) if others else []

    def matters(self, beats: BoolArray, first: int, second: int) -> bool:
        """Always."""
        del beats, first, second
        return True

    def answer(self, beats: BoolArray, names: Sequence[str]) -> str:
        """How many are better, worse, undecided."""
        better, worse = int(beats[:, self.agent].sum()), int(beats[self.agent].sum())
        rest = len(beats) - 1 - better - worse
        return f"{better} better than {names[self.agent]}, {worse} worse, {rest} undecided"


@dataclass(frozen=True, slots=True)
class Top:
    """Who the best m are.

    An agent is in once it beats k - m others and out once m beat it; a wrong call needs a wrong decision on a pair
    across the true border, of which there are m (k - m). Once m are in the others are out, and the other way round.
    """

    m: int
    text: str

    def tests(self, agents: int, decided: int = 0) -> int:
        """The pairs across the border."""
        del decided
        return self.m * (agents - self.m)

    def pairs(self, agents: int) -> list[tuple[int, int]]:
        """All pairs: who is near the border is not known beforehand."""
        return list(itertools.combinations(range(agents), 2))

    def places(self, beats: BoolArray) -> tuple[BoolArray, BoolArray]:
        """Who is in and who is out."""
        others = len(beats) - self.m
        inside, outside = beats.sum(axis=1) >= others, beats.sum(axis=0) >= self.m
        if inside.sum() == self.m:
            outside = ~inside
        elif outside.sum() == others:
            inside = ~outside
        return inside, outside

    def open(self, beats: BoolArray) -> list[int]:
        """Those who are neither in nor out."""
        inside, outside = self.places(beats)
        return [int(agent) for agent in np.flatnonzero(~(inside | outside))]

    def matters(self, beats: BoolArray, first: int, second: int) -> bool:
        """Two that are open; once nothing is, one that is in with one that is out."""
        open_ = self.open(beats)
        if open_:
            return first in open_ and second in open_
        inside, _ = self.places(beats)
        return bool(inside[first] != inside[second])

    def answer(self, beats: BoolArray, names: Sequence[str]) -> str:
        """Who is in, and who may be."""
        inside, _ = self.places(beats)
        sure = [name for name, yes in zip(names, inside, strict=True) if yes]
        maybe = [names[agent] for agent in self.open(beats)]
        if self.m == 1:
            return f"{sure[0]} is the best" if sure else f"the best is one of {_some(maybe)}"
        found = f"in the top {self.m}: {_some(sure)}" if sure else f"nothing is decided about the top {self.m}"
        return f"{found}; open: {_some(maybe)}" if maybe and sure else found


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


def parse_question(text: str, agents: Sequence[str], *, option: str = "--until") -> Question:
    """The question that a text asks about these agents."""
    text = text.strip()
    if len(agents) < 2:
        raise UserError(f"{option} compares agents, so it needs at least 2, got {len(agents)}")
    if text == "best":
        return Top(1, text)
    if found := re.fullmatch(r"top\s*=\s*(\S+)", text):
        return Top(_leaders(found[1], len(agents), option), text)
    if found := re.fullmatch(r"baseline\s*=\s*(.+)", text):
        return Baseline(_number(found[1], agents, option), text)
    if ">" not in text:
        raise UserError(f"{option} must be {FORMS}, got {text!r}{nearest(text, ('best', 'top=', 'baseline='))}")
    # names may contain the sign
    splits = [(text[:place].strip(), text[place + 1 :].strip()) for place, sign in enumerate(text) if sign == ">"]
    known = [split for split in splits if split[0] in agents and split[1] in agents]
    first, second = (known or splits)[0]
    if first == second:
        raise UserError(f"{option} must compare two different agents, got {text!r}")
    return Versus(_number(first, agents, option), _number(second, agents, option), text)


def only_question(texts: Sequence[str], *, option: str = "--until") -> str:
    """The one question asked."""
    different = list(dict.fromkeys(text.strip() for text in texts))
    if len(different) != 1:
        raise UserError(
            f"{option} takes one question, got {len(different)}: {', '.join(different)}. Ask one; a second run with "
            "another question continues from the replies of the first"
        )
    return different[0]


def _number(agent: str, agents: Sequence[str], option: str) -> int:
    if agent not in agents:
        advice = nearest(agent, agents) or f". Agents: {_some(agents)}"
        raise UserError(f"{option} must name agents of the study, got {agent!r}{advice}")
    return list(agents).index(agent)


def _leaders(text: str, agents: int, option: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 0 < int(text) < agents:
        raise UserError(f"{option} top=N must be a whole number from 1 to {agents - 1} ({agents} agents), got {text}")
    return int(text)
