"""Who is crash-tested: which responses are perturbed, what each is held against, and the study of both.

A perturbed copy is an agent of its own, with the peers of the response it was made from, so that any metric scores it
as it scores the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from goldless.errors import MetricError, UserError, nearest
from goldless.meta_evaluation.perturbations.perturbation import Perturbation, PerturbedText
from goldless.models.interface import content_hash
from goldless.records import Response
from goldless.studies import Study, study_from_records

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
class Copy:
    """A candidate's response as a perturbation changed it."""

    task: str
    agent: str
    """Whose response it was made from."""
    perturbation: str
    name: str
    """The agent that it is in the study."""
    peers: Mapping[str, str | None]
    """What it is held against in the place of each peer of the original; None: that peer could not be perturbed."""


@dataclass(frozen=True, slots=True)
class CrashStudy:
    """The responses, their perturbed copies and their peers as one study."""

    study: Study
    copies: tuple[Copy, ...]
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
    known = [agent.agent for agent in study.agents]
    _check_choice(known, agents, references, most)
    circle = sorted(known, key=lambda name: content_hash("references", seed, name))
    found: dict[Key, tuple[str, ...]] = {}
    for task, responses in study:
        there = {response.agent for response in responses}
        for agent in [name for name in known if name in there and (agents is None or name in agents)]:
            place = circle.index(agent)
            around = [name for name in (*circle[place + 1 :], *circle[:place]) if name in there]
            peers = around[:references] if isinstance(references, int) else [n for n in around if n in references]
            if peers:
                found[task.task, agent] = tuple(peers)
    if not found:
        raise MetricError(
            f"{study.name}: no response has a peer to be held against; a crash test needs tasks that at least two "
            "agents answered"
        )
    drawn = set(sorted(found, key=lambda key: content_hash("candidate", seed, *key))[:most])
    return Candidates({key: peers for key, peers in found.items() if key in drawn}, len(found))


def _check_choice(
    known: Sequence[str], agents: Sequence[str] | None, references: int | Sequence[str], most: int
) -> None:
    if most < 1:
        raise UserError(f"at least 1 response is needed for a crash test, not {most}")
    for name in (*(agents or ()), *(() if isinstance(references, int) else references)):
        if name not in known:
            raise UserError(f"no agent {name!r} in the study{nearest(name, known)}")
    if isinstance(references, int) and references < 1:
        raise UserError(f"a response is held against at least 1 peer, not {references}")


def needed_responses(study: Study, candidates: Candidates, perturbation: Perturbation) -> list[Response]:
    """The responses that a perturbation is applied to."""
    keys = dict.fromkeys(candidates.peers)
    if perturbation.scope == "everybody":
        keys |= dict.fromkeys(candidates.references)
    return _responses(study, keys)


def crash_study(
    study: Study, candidates: Candidates, perturbed: Mapping[str, tuple[Perturbation, Sequence[PerturbedText]]]
) -> CrashStudy:
    """The responses and their peers as they are, and a copy of each under every perturbation that changed it.

    A perturbation of everybody holds a copy against copies; where a peer could not be perturbed, the pair is left out.
    """
    originals = _responses(study, dict.fromkeys((*candidates.peers, *candidates.references)))
    copies: list[Copy] = []
    copied: list[Response] = []
    for perturbation, texts in perturbed.values():
        made = {(text.task, text.agent): text for text in texts if text.text is not None}
        mine = _copies(candidates, perturbation, made)
        kept = made if perturbation.scope == "everybody" else {(copy.task, copy.agent): None for copy in mine}
        copies += mine
        copied += [Response(t.task, t.copy, t.text or "") for key, t in made.items() if key in kept]
    _check_names({response.agent for response in originals}, {response.agent for response in copied})
    pairing = dict(candidates.peers)
    pairing |= {(c.task, c.name): tuple(peer for peer in c.peers.values() if peer is not None) for c in copies}
    kept_tasks = {task for task, _ in pairing}
    tasks = [study.task(task) for task in study.tasks if task in kept_tasks]
    return CrashStudy(study_from_records(tasks, [*originals, *copied], name=study.name), tuple(copies), pairing)


def _copies(candidates: Candidates, perturbation: Perturbation, made: Mapping[Key, PerturbedText]) -> list[Copy]:
    """The candidates' responses that were changed, with what each is held against."""
    found = []
    for (task, agent), peers in candidates.peers.items():
        text = made.get((task, agent))
        if text is None or text.unchanged:
            continue
        held: dict[str, str | None] = {peer: peer for peer in peers}
        if perturbation.scope == "everybody":
            held = {peer: made[task, peer].copy if (task, peer) in made else None for peer in peers}
        found.append(Copy(task, agent, perturbation.name, text.copy, held))
    return found


def _check_names(originals: set[str], copies: set[str]) -> None:
    if clash := originals & copies:
        raise UserError(f"an agent of the study is called {min(clash)!r}, as a perturbed copy would be")


def _responses(study: Study, keys: Iterable[Key]) -> list[Response]:
    return [found for task, agent in keys if (found := study.response(task, agent)) is not None]
