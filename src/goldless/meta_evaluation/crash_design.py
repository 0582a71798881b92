"""Who is crash-tested: which responses are perturbed, what each is held against, and the study of both.

A perturbed copy is an agent of its own, ``AGENT~PERTURBATION``, with the peers of the response it was made from, so
that any metric scores it as it scores the original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from goldless.errors import MetricError, UserError, nearest
from goldless.meta_evaluation.perturbations.applying import PerturbedText
from goldless.meta_evaluation.perturbations.catalogue import Perturbation
from goldless.models.interface import content_hash
from goldless.records import Response
from goldless.studies import Study, study_from_frame

DEFAULT_REFERENCES = 2
"""Peers that a response is held against, as in the GEM paper."""
DEFAULT_RESPONSES = 300
"""Most responses that are perturbed, as many as the paper's candidates."""

Key = tuple[str, str]
"""Task and agent."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The responses to be perturbed, with the peers each is held against."""

    peers: Mapping[Key, tuple[str, ...]]
    of: int
    """Responses that could have been taken."""

    @property
    def references(self) -> tuple[Key, ...]:
        """The responses that serve as peers, each once."""
        return tuple(dict.fromkeys((task, peer) for (task, _), peers in self.peers.items() for peer in peers))


@dataclass(frozen=True, slots=True)
class CrashStudy:
    """The responses, their perturbed copies and their peers as one study."""

    study: Study
    pairing: Mapping[Key, tuple[str, ...]]
    """The peers of each response and each copy."""


def choose_candidates(
    study: Study,
    *,
    agents: Sequence[str] | None = None,
    references: int | Sequence[str] = DEFAULT_REFERENCES,
    most: int = DEFAULT_RESPONSES,
    seed: int = 0,
) -> Candidates:
    """Responses of the agents named, or of all, that have a peer; at most so many, drawn by the seed.

    ``references``: the agents that serve as peers, or how many of the others do: the next ones around a circle that
    the seed draws, so that an agent has the same peers on every task that they answered.
    """
    if most < 1:
        raise UserError(f"at least 1 response is needed for a crash test, not {most}")
    known = [agent.agent for agent in study.agents]
    named = None if isinstance(references, int) else tuple(references)
    for name in (*(agents or ()), *(named or ())):
        if name not in known:
            raise UserError(f"no agent {name!r} in the study{nearest(name, known)}")
    if isinstance(references, int) and references < 1:
        raise UserError(f"a response is held against at least 1 peer, not {references}")
    circle = sorted(known, key=lambda name: content_hash("references", seed, name))
    found: dict[Key, tuple[str, ...]] = {}
    for task, responses in study:
        there = {response.agent for response in responses}
        for agent in [name for name in known if name in there and (agents is None or name in agents)]:
            place = circle.index(agent)
            around = [name for name in (*circle[place + 1 :], *circle[:place]) if name in there]
            peers = around[:references] if isinstance(references, int) else [n for n in around if n in (named or ())]
            if peers:
                found[task.task, agent] = tuple(peers)
    if not found:
        raise MetricError(
            f"{study.name}: no response has a peer to be held against; a crash test needs tasks that at least two "
            "agents answered"
        )
    drawn = set(sorted(found, key=lambda key: content_hash("candidate", seed, *key))[:most])
    return Candidates({key: peers for key, peers in found.items() if key in drawn}, len(found))


def copy_name(agent: str, perturbation: str) -> str:
    """The name of an agent's perturbed copy."""
    return f"{agent}~{perturbation}"


def crash_study(
    study: Study, candidates: Candidates, perturbed: Mapping[str, tuple[Perturbation, Sequence[PerturbedText]]]
) -> CrashStudy:
    """The responses and their peers as they are, and a copy of each under every perturbation that changed it.

    A perturbation of everybody holds a copy against copies; where a peer could not be perturbed, the pair is left out.
    """
    rows = [_row(study, key) for key in dict.fromkeys((*candidates.peers, *candidates.references))]
    names = {row["agent"] for row in rows}
    pairing: dict[Key, tuple[str, ...]] = dict(candidates.peers)
    for name, (perturbation, texts) in perturbed.items():
        made = {(text.task, text.agent): text.text for text in texts if text.text is not None}
        changed = {(t.task, t.agent) for t in texts if t.text is not None and not t.unchanged}
        for (task, agent), peers in candidates.peers.items():
            if (task, agent) not in changed:
                continue
            if perturbation.scope == "everybody":
                pairing[task, copy_name(agent, name)] = tuple(
                    copy_name(peer, name) for peer in peers if (task, peer) in made
                )
            else:
                pairing[task, copy_name(agent, name)] = peers
        wanted = changed if perturbation.scope == "candidate" else set(made)
        rows += [
            {"task": task, "agent": copy_name(agent, name), "text": text}
            for (task, agent), text in made.items()
            if (task, agent) in wanted
        ]
        clash = {row["agent"] for row in rows[-len(wanted) :]} & names if wanted else set()
        if clash:
            raise UserError(f"an agent of the study is called {min(clash)!r}, as a perturbed copy would be")
    kept = {task for task, _ in pairing}
    tasks = study.table("tasks")
    if tasks is not None:
        tasks = tasks.filter(pl.col("task").is_in(list(kept)))
    frame = pl.DataFrame(rows, schema={"task": pl.String, "agent": pl.String, "text": pl.String})
    return CrashStudy(study_from_frame(frame, tasks=tasks, name=study.name), pairing)


def needed_responses(study: Study, candidates: Candidates, perturbation: Perturbation) -> list[Response]:
    """The responses that a perturbation is applied to."""
    keys = dict.fromkeys(candidates.peers)
    if perturbation.scope == "everybody":
        keys |= dict.fromkeys(candidates.references)
    return [found for task, agent in keys if (found := study.response(task, agent)) is not None]


def _row(study: Study, key: Key) -> dict[str, str]:
    found = study.response(*key)
    assert found is not None
    return {"task": found.task, "agent": found.agent, "text": found.text}
