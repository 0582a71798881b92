"""The information map of two responses: from stored log-probabilities, or computed by the embedded model."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goldless.concurrency import in_own_thread
from goldless.errors import UserError
from goldless.metrics.information_map import InformationMap, make_information_map
from goldless.models.embedded import find_embedded
from goldless.records import Response, Task
from goldless.runs.explaining import ExplainOptions, explain_pair
from goldless.sentences import split_sentences
from goldless.studies import Study, read_study, study_from_records
from goldless.templates import TEMPLATES

Token = tuple[str | None, float]
"""Its text, None where the tokenizer is not on this machine, and its nats."""
Shown = tuple[str, float | None, tuple[float, ...], int | None]
"""A sentence: its text, its nats, what each peer sentence loses without it, and which of them loses most."""


@dataclass(frozen=True, slots=True)
class ShownMap:
    """What a candidate's response reveals about a peer's, and which part of it is known."""

    map: InformationMap
    contributions: bool = True
    """Whether the candidate's sentences were left out one by one."""
    placed: bool = True
    """Whether tokens have a position in the peer's text."""

    @property
    def peer(self) -> list[Shown]:
        return [(s.text, s.gain_nats if self.placed else None, (), None) for s in self.map.peer_sentences]

    @property
    def candidate(self) -> list[Shown]:
        known = enumerate(self.map.candidate_sentences)
        if not self.contributions:
            return [(s.text, None, (), None) for _, s in known]
        return [(s.text, s.contribution_nats, self.map.matrix_nats[i], self.map.helps_most(i)) for i, s in known]

    @property
    def tokens(self) -> list[Token]:
        return [(token.text if self.placed else None, token.gain_nats) for token in self.map.tokens]


def stored_map(
    candidate: str, peer: str, given: Sequence[float], marginal: Sequence[float], pieces: Sequence[str] | None
) -> ShownMap | None:
    """The map from the stored log p(y|x) and log p(y) of each token; None if these are not the same tokens."""
    sentences, known = split_sentences(peer), split_sentences(candidate)
    if len(given) != len(marginal) or not given or not sentences or not known:
        return None
    placed = pieces is not None and len(pieces) == len(given) and "".join(pieces) == peer
    made = make_information_map(
        task="",
        agent="",
        peer="",
        agent_text=candidate,
        agent_sentences=known,
        peer_sentences=sentences,
        pieces=pieces if placed and pieces is not None else [""] * len(given),
        conditional_nats=given,
        marginal_nats=marginal,
        without_nats=[given] * len(known),  # no sentence was left out: contributions are not known
    )
    return ShownMap(made, contributions=False, placed=placed)


class MapMaker:
    """Computes complete maps with the embedded model, one at a time; replies are kept in the journal."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._lock = threading.Lock()

    def offers(self, row: Mapping[str, Any]) -> bool:
        """Whether a row was scored by the embedded model with a built-in template, and the model is on this machine.

        A template that a run names is never looked up on disk.
        """
        own = row.get("template") in TEMPLATES
        return own and str(row.get("scorer", "")).startswith("embedded:") and find_embedded() is not None

    def make(self, folder: Path, row: Mapping[str, Any]) -> ShownMap:
        """The complete map of the pair in a logprobs row: the target is the peer, the given the candidate."""
        if not self.offers(row) or row.get("given") is None:
            raise UserError(
                "a complete map needs the embedded model on this machine as scorer and a built-in template "
                f"({', '.join(TEMPLATES)})"
            )
        shown: dict[str, Any] = {"template": row["template"], "synopsis": row.get("synopsis")}
        shown["text"] = "responses" if row.get("rewriter") is None else "rewrites"
        return self._computed(read_study(folder), row["task"], row["given"], row["target"], **shown)

    def of_texts(self, candidate: str, peer: str, *, task: str | None = None) -> ShownMap:
        """The complete map of two texts that are in no run; what the task already says does not count."""
        texts = {"candidate": candidate, "peer": peer}
        responses = [Response("pasted", agent, text) for agent, text in texts.items()]
        study = study_from_records([Task("pasted", prompt=task)], responses)
        return self._computed(study, "pasted", *texts, synopsis=None if task is None else "prompt")

    def _computed(self, study: Study, task: str, agent: str, peer: str, **more: Any) -> ShownMap:
        options = ExplainOptions(task=task, agent=agent, peer=peer, journal=self._journal, **more)
        with self._lock:
            return ShownMap(in_own_thread(explain_pair, study, options))
