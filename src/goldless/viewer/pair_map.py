"""Tokens shaded by log-probability, and the information map of a pair: stored, or computed by the embedded model."""

from __future__ import annotations

import math
import threading
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from goldless.concurrency import in_own_thread
from goldless.errors import UserError
from goldless.metrics.information_map import InformationMap, make_information_map
from goldless.models.embedded import find_embedded
from goldless.records import Response, Task
from goldless.runs.explaining import ExplainOptions, explain_pair
from goldless.sentences import split_sentences
from goldless.studies import Study, read_study, study_from_records
from goldless.templates import TEMPLATES

SURPRISE_LIMITS = (3.0, 5.0, 8.0)
"""Nats of surprise, -log p, at which the shade changes: 0 is no colour, for p above 5 %."""
GAIN_LIMITS = (-4.0, -2.0, -1.0, 1.0, 2.0, 4.0)
"""Nats gained at which the shade changes: 0 misleading to 6 very informative, 3 no colour."""

SENTENCE_LIMITS = (-20.0, -5.0, -1.0, 1.0, 5.0, 20.0)
"""The same for a whole sentence."""

Kind = Literal["surprise", "gain"]


@dataclass(frozen=True, slots=True)
class StripToken:
    """One shaded token."""

    text: str | None
    """None: the token texts are unknown here."""
    nats: float
    shade: str
    """A CSS class: ``s0`` to ``s3``, ``g0`` to ``g6``."""


def surprise_shade(logprob_nats: float) -> str:
    """The shade of a log-probability."""
    return f"s{bisect(SURPRISE_LIMITS, -logprob_nats)}"


def gain_shade(gain_nats: float, limits: Sequence[float] = GAIN_LIMITS) -> str:
    """The shade of a gain."""
    return f"g{bisect(limits, gain_nats)}"


def strip(values: Sequence[float], pieces: Sequence[str] | None, *, kind: Kind = "surprise") -> tuple[StripToken, ...]:
    """The strip of these values; pieces of a different count are from another tokenizer and are ignored."""
    shade = surprise_shade if kind == "surprise" else gain_shade
    texts: Sequence[str | None] = pieces if pieces is not None and len(pieces) == len(values) else [None] * len(values)
    return tuple(StripToken(text, value, shade(value)) for text, value in zip(texts, values, strict=True))


# --- the map ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MapSentence:
    """A sentence with its nats."""

    number: int
    text: str
    nats: float | None
    """None: not computed."""
    shade: str
    helps: int | None = None
    """The number of the peer sentence that loses most without it; None: none does, or unknown."""
    gives_nats: tuple[float, ...] = ()
    """What each peer sentence loses without it; empty: not computed."""


@dataclass(frozen=True, slots=True)
class PairMap:
    """What a candidate's response reveals about a peer's, by sentence."""

    total_nats: float
    end_nats: float | None
    """Nats of the end-of-turn token; None: there is none, or unknown."""
    peer_sentences: tuple[MapSentence, ...]
    candidate_sentences: tuple[MapSentence, ...]
    tokens: tuple[StripToken, ...]
    placed: bool
    """Whether tokens have a position in the peer's text; without it, sentences have no nats."""
    contributions: bool
    """Whether the candidate's sentences were left out one by one."""
    signature: str | None = None


def stored_map(
    candidate: str, peer: str, given: Sequence[float], marginal: Sequence[float], pieces: Sequence[str] | None
) -> PairMap | None:
    """The map from the stored log p(y|x) and log p(y) of each token; None if these are not the same tokens."""
    if len(given) != len(marginal) or not given:
        return None
    sentences, known = split_sentences(peer), split_sentences(candidate)
    if not sentences or not known:
        return None
    candidates = tuple(MapSentence(number, s.text, None, "") for number, s in enumerate(known, 1))
    if pieces is not None and len(pieces) == len(given) and "".join(pieces) == peer:
        made = make_information_map(
            task="",
            agent="",
            peer="",
            agent_text=candidate,
            agent_sentences=known,
            peer_sentences=sentences,
            pieces=pieces,
            conditional_nats=given,
            marginal_nats=marginal,
            without_nats=[given] * len(known),  # no sentence was left out: contributions are not known
        )
        return replace(whole_map(made), candidate_sentences=candidates, contributions=False, signature=None)
    gains = [a - b for a, b in zip(given, marginal, strict=True)]
    return PairMap(
        total_nats=math.fsum(gains),
        end_nats=None,
        peer_sentences=tuple(MapSentence(number, s.text, None, "") for number, s in enumerate(sentences, 1)),
        candidate_sentences=candidates,
        tokens=strip(gains, None, kind="gain"),
        placed=False,
        contributions=False,
    )


def _sentence(number: int, text: str, nats: float) -> MapSentence:
    return MapSentence(number, text, nats, gain_shade(nats, SENTENCE_LIMITS))


# --- with the embedded model -----------------------------------------------------------------------------------------


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

    def make(self, folder: Path, row: Mapping[str, Any]) -> PairMap:
        """The complete map of the pair in a logprobs row: the target is the peer, the given the candidate."""
        if not self.offers(row) or row.get("given") is None:
            raise UserError(
                "a complete map needs the embedded model on this machine as scorer and a built-in template "
                f"({', '.join(TEMPLATES)})"
            )
        options = ExplainOptions(
            task=row["task"],
            agent=row["given"],
            peer=row["target"],
            template=row["template"],
            synopsis=row.get("synopsis"),
            text="responses" if row.get("rewriter") is None else "rewrites",
            journal=self._journal,
        )
        return self._computed(read_study(folder), options)

    def of_texts(self, candidate: str, peer: str, *, task: str | None = None) -> PairMap:
        """The complete map of two texts that are in no run; what the task already says does not count."""
        texts = {"candidate": candidate, "peer": peer}
        study = study_from_records(
            [Task("pasted", prompt=task)], [Response("pasted", agent, text) for agent, text in texts.items()]
        )
        synopsis = None if task is None else "prompt"
        options = ExplainOptions(
            task="pasted", agent="candidate", peer="peer", synopsis=synopsis, journal=self._journal
        )
        return self._computed(study, options)

    def _computed(self, study: Study, options: ExplainOptions) -> PairMap:
        with self._lock:
            return whole_map(in_own_thread(explain_pair, study, options))


def whole_map(found: InformationMap) -> PairMap:
    """An information map as the viewer shows it."""
    candidates = []
    for number, (sentence, gives) in enumerate(zip(found.candidate_sentences, found.matrix_nats, strict=True)):
        best = found.helps_most(number)
        made = _sentence(number + 1, sentence.text, sentence.contribution_nats)
        candidates.append(replace(made, helps=None if best is None else best + 1, gives_nats=gives))
    return PairMap(
        total_nats=found.total_nats,
        end_nats=found.end_gain_nats,
        peer_sentences=tuple(
            _sentence(number, s.text, s.gain_nats) for number, s in enumerate(found.peer_sentences, 1)
        ),
        candidate_sentences=tuple(candidates),
        tokens=tuple(StripToken(t.text, t.gain_nats, gain_shade(t.gain_nats)) for t in found.tokens),
        placed=True,
        contributions=True,
        signature=found.signature,
    )
