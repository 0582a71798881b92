"""Questions about agents that a run may stop for, A>B, best, top=N or baseline=AGENT, and what answers them.

A question says which comparisons answer it, how many of them could be wrong (alpha is divided by that number, so the
answer is right with probability 1 - alpha although the data choose the agents), and which agents are still open.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import UserError, listed, nearest, suggested
from goldless.records import Preference
from goldless.statistics.comparisons import SIGNIFICANT, Comparison, Pairs, fewest_tasks
from goldless.statistics.deciding import AT_LEAST, FIXED_SAMPLE, p_values, tasks_missing
from goldless.statistics.skewness import believed, skewness

FORMS = "'A>B', best, top=N or baseline=AGENT"
ELEMENTS_AT_ONCE = 1 << 25
"""Larger tables are read some columns at a time."""


@dataclass(frozen=True)
class Versus:
    """The question which of two agents, by their numbers, is better; decided either way."""

    first: int
    second: int
    text: str
    """The question as it is asked."""

    def tests(self, agents: int, decided: int = 0) -> int:  # noqa: ARG002 - as of every question
        """The number that alpha is divided by: how many comparisons could make the answer wrong.

        ``decided``: comparisons already decided, where they need no alpha any more (Holm).
        """
        return 1

    def pairs(self, agents: int) -> list[tuple[int, int]]:  # noqa: ARG002 - as of every question
        """The comparisons that answer it."""
        return [(self.first, self.second)]

    def open(self, beats: BoolArray) -> list[int]:
        """The agents that more tasks are needed for; ``beats`` [agents, agents]: the first is decidedly better."""
        decided = beats[self.first, self.second] or beats[self.second, self.first]
        return [] if decided else [self.first, self.second]

    def matters(self, beats: BoolArray, first: int, second: int) -> bool:  # noqa: ARG002 - as of every question
        """True if a comparison is part of the answer, or of what is missing to it."""
        return True

    def answer(self, beats: BoolArray, names: Sequence[str]) -> str:
        """The state of knowledge, in words."""
        one, other = names[self.first], names[self.second]
        if beats[self.first, self.second]:
            return f"{one} is better than {other}"
        return f"{other} is better than {one}" if beats[self.second, self.first] else f"{one} or {other}: undecided"


@dataclass(frozen=True)
class Baseline(Versus):
    """The question who is better and who is worse than one agent, which is both ``first`` and ``second``."""

    def tests(self, agents: int, decided: int = 0) -> int:
        """Each other agent that is not yet decided: by Holm's argument, since each p is valid whenever one stops."""
        return max(1, agents - 1 - decided)

    def pairs(self, agents: int) -> list[tuple[int, int]]:
        """Each other agent with the baseline."""
        return [(other, self.first) for other in range(agents) if other != self.first]

    def open(self, beats: BoolArray) -> list[int]:
        """Those who neither beat the baseline nor lose to it, and the baseline."""
        decided = beats[self.first] | beats[:, self.first]
        others = [other for other in range(len(beats)) if other != self.first and not decided[other]]
        return sorted([*others, self.first]) if others else []

    def answer(self, beats: BoolArray, names: Sequence[str]) -> str:
        better, worse = int(beats[:, self.first].sum()), int(beats[self.first].sum())
        rest = len(beats) - 1 - better - worse
        return f"{better} better than {names[self.first]}, {worse} worse, {rest} undecided"


@dataclass(frozen=True)
class Top:
    """The question who the best m are.

    An agent is in once it beats k - m others and out once m beat it; a wrong call needs a wrong decision on a pair
    across the true border, of which there are m (k - m). Once m are in the others are out, and the other way round.
    """

    m: int
    text: str

    def tests(self, agents: int, decided: int = 0) -> int:  # noqa: ARG002 - as of every question
        """The pairs across the border."""
        return self.m * (agents - self.m)

    def pairs(self, agents: int) -> list[tuple[int, int]]:
        """All pairs: who is near the border is not known beforehand."""
        return list(itertools.combinations(range(agents), 2))

    def places(self, beats: BoolArray) -> tuple[BoolArray, BoolArray]:
        """The agents that are in and those that are out."""
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
        inside, _ = self.places(beats)
        sure = [name for name, yes in zip(names, inside, strict=True) if yes]
        maybe = [names[agent] for agent in self.open(beats)]
        if self.m == 1:
            return f"{sure[0]} is the best" if sure else f"the best is one of {listed(maybe)}"
        found = f"in the top {self.m}: {listed(sure)}" if sure else f"nothing is decided about the top {self.m}"
        return f"{found}; open: {listed(maybe)}" if maybe and sure else found


Question = Versus | Top


def parse_question(text: str, agents: Sequence[str], *, option: str = "--until") -> Question:
    """The question that a text asks about these agents."""

    def number(agent: str) -> int:
        if agent not in agents:
            said = suggested(agent, agents, "Agents")
            raise UserError(f"{option} must name agents of the study, got {agent!r}{said}")
        return list(agents).index(agent)

    text, size = text.strip(), len(agents)
    if size < 2:
        raise UserError(f"{option} compares agents, so it needs at least 2, got {size}")
    if text == "best":
        return Top(1, text)
    if found := re.fullmatch(r"top\s*=\s*(\S+)", text):
        if not re.fullmatch(r"[0-9]{1,9}", found[1]) or not 0 < int(found[1]) < size:
            raise UserError(
                f"{option} top=N must be a whole number from 1 to {size - 1} ({size} agents), got {found[1]}"
            )
        return Top(int(found[1]), text)
    if found := re.fullmatch(r"baseline\s*=\s*(.+)", text):
        return Baseline(number(found[1]), number(found[1]), text)
    if ">" not in text:
        raise UserError(f"{option} must be {FORMS}, got {text!r}{nearest(text, ('best', 'top=', 'baseline='))}")
    # names may contain the sign
    splits = [(text[:place].strip(), text[place + 1 :].strip()) for place, sign in enumerate(text) if sign == ">"]
    known = [split for split in splits if split[0] in agents and split[1] in agents]
    first, second = (known or splits)[0]
    if first == second:
        raise UserError(f"{option} must compare two different agents, got {text!r}")
    return Versus(number(first), number(second), text)


def only_question(texts: Sequence[str]) -> str:
    """The one question asked."""
    different = list(dict.fromkeys(text.strip() for text in texts))
    if len(different) != 1:
        raise UserError(
            f"--until takes one question, got {len(different)}: {', '.join(different)}. Ask one; a second run with "
            "another question continues from the replies of the first"
        )
    return different[0]


# --- the comparisons -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Until:
    """A question, and how sure its answer must be."""

    question: Question
    alpha: float = SIGNIFICANT
    at_least: int = AT_LEAST
    """Tasks before anything is decided."""

    def compare(self, agents: Sequence[str], pairs: Pairs) -> list[Comparison]:
        """The comparisons of the question by a confidence sequence, corrected: valid whenever one stops."""
        asked = self.question.pairs(len(agents))
        column = {
            both: place for place, both in enumerate(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
        }
        places = np.array([column[min(pair), max(pair)] for pair in asked], np.int64)
        sign = np.array([1.0 if first < second else -1.0 for first, second in asked])
        n, mean, sd = moments(pairs.differences[:, places])
        # of its own tasks alone: what is decided stays decided while others go on
        skew = skewness(pairs.differences[:, places])
        p, adjusted = self.test(n, believed(n, mean, sd, skew), sd, len(agents))
        decided = adjusted < self.alpha
        skewed = ~decided & (self.test(n, mean, sd, len(agents))[1] < self.alpha)
        left = self.alpha / self.question.tests(len(agents), int(decided.sum()))
        more = tasks_missing(n, mean, sd, skew, alpha=left, at_least=self.at_least)
        return [
            Comparison(
                first=agents[first],
                second=agents[second],
                difference=float(sign[i] * mean[i]) if n[i] else None,
                p=float(p[i]) if n[i] > 1 else None,
                p_holm=None,
                n=int(n[i]),
                p_adjusted=float(adjusted[i]) if n[i] > 1 else None,
                alpha=self.alpha,
                more_tasks=0 if decided[i] else more[i],
                skewed=bool(skewed[i]),
            )
            for i, (first, second) in enumerate(asked)
        ]

    def test(self, n: FloatArray, mean: FloatArray, sd: FloatArray, agents: int) -> tuple[FloatArray, FloatArray]:
        """P of each comparison alone, and corrected for the question."""
        each = self.alpha / self.question.tests(agents)
        p = p_values(n, mean, sd, alpha=each, at_least=self.at_least)
        order = np.argsort(p, kind="stable")
        tests = np.array([self.question.tests(agents, rank) for rank in range(len(p))])
        adjusted = np.empty(len(p))
        adjusted[order] = np.maximum.accumulate(np.minimum(1.0, p[order] * tests))
        return p, adjusted

    def open(self, agents: Sequence[str], comparisons: Sequence[Comparison]) -> list[str]:
        return [agents[agent] for agent in self.question.open(beats(agents, comparisons))]

    def matter(self, agents: Sequence[str], comparisons: Sequence[Comparison]) -> list[Comparison]:
        known, number = beats(agents, comparisons), list(agents).index
        return [c for c in comparisons if self.question.matters(known, number(c.first), number(c.second))]

    def answer(self, agents: Sequence[str], comparisons: Sequence[Comparison]) -> str:
        return self.question.answer(beats(agents, comparisons), agents)


@dataclass(frozen=True)
class Decision:
    """The answer of preferences to a question."""

    until: Until
    agents: tuple[str, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def open(self) -> set[str]:
        return set(self.until.open(self.agents, self.comparisons))

    @property
    def answer(self) -> str:
        return self.until.answer(self.agents, self.comparisons)

    @property
    def matter(self) -> list[Comparison]:
        """The comparisons that are part of the answer, or of what is missing to it."""
        return self.until.matter(self.agents, self.comparisons)


def decide(agents: Sequence[str], preferences: Sequence[Preference], question: str, *, option: str) -> Decision:
    """The answer of all raters' preferences to a question; several of a pair and task are averaged."""
    until = Until(parse_question(question, agents, option=option))
    column = {pair: place for place, pair in enumerate(itertools.combinations(agents, 2))}
    row = {task: place for place, task in enumerate(dict.fromkeys(one.task for one in preferences))}
    votes, total = np.zeros((2, len(row), len(column)))
    for preference in preferences:
        one, other = sorted((preference.first, preference.second))
        if (one, other) in column:
            at = row[preference.task], column[one, other]
            votes[at] += 1
            total[at] += np.sign(preference.preference) * (1 if preference.first == one else -1)
    means = np.divide(total, votes, out=np.full_like(total, np.nan), where=votes > 0)
    compared = until.compare(agents, Pairs(*np.triu_indices(len(agents), 1), means))
    return Decision(until, tuple(agents), tuple(compared))


def beats(agents: Sequence[str], comparisons: Sequence[Comparison]) -> BoolArray:
    """[agents, agents]: whether the first is decidedly better."""
    number = {agent: place for place, agent in enumerate(agents)}
    found = np.zeros((len(agents), len(agents)), np.bool_)
    for one in comparisons:
        if one.better is not None and one.worse is not None:
            found[number[one.better], number[one.worse]] = True
    return found


def with_outlook(comparisons: Sequence[Comparison], pairs: Pairs) -> list[Comparison]:
    """Comparisons of these pairs on a fixed number of tasks, each with the number of how many more it would take.

    By Student's interval, corrected for those that are still undecided.
    """
    undecided = max(1, sum(not one.decided for one in comparisons))
    n, mean, sd = moments(pairs.differences)
    skew, alpha = skewness(pairs.differences), SIGNIFICANT / undecided
    more = tasks_missing(n, mean, sd, skew, alpha=alpha, bound=FIXED_SAMPLE, at_least=fewest_tasks())
    return [
        replace(one, more_tasks=0 if one.decided else number) for one, number in zip(comparisons, more, strict=True)
    ]


def moments(differences: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Number, mean and standard deviation (n - 1) of each column without NaN; NaN where there are too few."""
    if differences.size > ELEMENTS_AT_ONCE and differences.shape[1] > 1:
        columns = np.array_split(differences, -(-differences.size // ELEMENTS_AT_ONCE), axis=1)
        n, mean, sd = (np.concatenate(found) for found in zip(*map(moments, columns), strict=True))
        return n, mean, sd
    there = ~np.isnan(differences)
    n = there.sum(axis=0).astype(np.float64)
    mean, variance = np.full(n.shape, np.nan), np.full(n.shape, np.nan)
    np.divide(np.where(there, differences, 0.0).sum(axis=0), n, out=mean, where=n > 0)
    squares = np.where(there, differences - mean, 0.0) ** 2
    np.divide(squares.sum(axis=0), n - 1, out=variance, where=n > 1)
    return n, mean, np.sqrt(variance)
