"""Easy and hard pairs for the self-confidence exam (Auto-PRE): which agents are paired, and on which tasks.

Two responses are easy to tell apart where their authors are far apart: a strong agent against a weak one is the easy
set, a strong one against another strong one the hard set. Both sets are on the same tasks, so that nothing but the
agents makes one harder than the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from goldless.errors import UserError
from goldless.judging.exams.pairs import ExamPair, check_agents, drawn_names, pair_of


@dataclass(frozen=True, slots=True)
class ConfidenceSets:
    """The two sets, and the agents they are made of."""

    easy: tuple[ExamPair, ...]
    hard: tuple[ExamPair, ...]
    easy_agents: tuple[str, str]
    hard_agents: tuple[str, str]


def chosen_sets(
    answered: Mapping[str, Iterable[str]],
    *,
    easy: tuple[str, str],
    hard: tuple[str, str],
    items: int | None = None,
    seed: int = 0,
) -> ConfidenceSets:
    """The sets of two chosen pairs of agents: ``easy`` a strong and a weak one, ``hard`` two strong ones.

    On all tasks that all of them answered, or on ``items`` of these, drawn by the seed.
    """
    for name, pair in (("easy", easy), ("hard", hard)):
        if len(pair) != 2 or pair[0] == pair[1]:
            raise UserError(f"the {name} set pairs two different agents; {', '.join(map(repr, pair)) or 'none'} came")
    if set(easy) == set(hard):
        raise UserError(
            f"the easy and the hard set are both of {easy[0]!r} and {easy[1]!r}, so neither is harder; the easy one "
            "pairs a strong and a weak agent, the hard one two strong ones"
        )
    wanted = {*easy, *hard}
    check_agents(answered, sorted(wanted))
    common = [task for task, names in answered.items() if wanted <= set(names)]
    if not common:
        raise UserError(
            f"no task was answered by all of {', '.join(sorted(wanted))}, and both sets must be on the same tasks; "
            "choose other agents"
        )
    drawn = drawn_names(common, items, exam="self-confidence", seed=seed)
    tasks = [task for task in common if task in drawn]
    return ConfidenceSets(
        easy=tuple(pair_of(task, *easy) for task in tasks),
        hard=tuple(pair_of(task, *hard) for task in tasks),
        easy_agents=easy,
        hard_agents=hard,
    )


def ranked_sets(
    answered: Mapping[str, Iterable[str]], scores: Mapping[str, float], *, items: int | None = None, seed: int = 0
) -> ConfidenceSets:
    """The sets of agents that a cheap first pass ranked: the best against the worst, and the best against the second.

    ``scores``: one an agent, higher is better. Agents of the same score stand in the order of their names.
    """
    if len(scores) < 3:
        raise UserError(f"scores of {len(scores)} agents came; a ranking into best, second and worst needs at least 3")
    broken = [agent for agent, score in scores.items() if not math.isfinite(score)]
    if broken:
        raise UserError(f"the score of {', '.join(sorted(broken))} is no number; leave agents without a score out")
    ranked = sorted(scores, key=lambda agent: (-scores[agent], agent))
    best, second, worst = ranked[0], ranked[1], ranked[-1]
    if scores[worst] == scores[second]:
        raise UserError(
            f"{second!r} and {worst!r} have the same score, {scores[worst]:g}, so no pair with {best!r} is harder than "
            "the other; name the agents of the easy and the hard set yourself"
        )
    return chosen_sets(answered, easy=(best, worst), hard=(best, second), items=items, seed=seed)
