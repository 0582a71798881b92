"""Which tasks pull which way: the largest differences, with the sentences or the texts behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from goldless.comparison.pairing import Paired, Sides
from goldless.comparison.run_scores import Run
from goldless.errors import GoldlessError
from goldless.evidence import TOKENS
from goldless.metrics.catalogue import find_metric
from goldless.metrics.information_map import make_information_map
from goldless.sentences import split_sentences

SHOWN = 3
"""Tasks per direction."""
EXCERPT = 90
"""Characters of a text that are shown."""
Pieces = Callable[[str, str], Sequence[str] | None]
"""The texts of the tokens of a text, by a scorer's short name; None: its tokenizer is not on this machine."""


@dataclass(frozen=True, slots=True)
class PulledSentence:
    """A sentence of a peer's response that one of the two agents makes more predictable than the other does."""

    peer: str
    text: str
    gain_nats: float
    """Second agent minus first."""


@dataclass(frozen=True, slots=True)
class TaskPull:
    """One task on which the two agents differ most."""

    task: str
    difference: float
    """Second agent minus first."""
    first: float
    second: float
    sentence: PulledSentence | None
    """The sentence with the largest share in the difference; None: the evidence has no tokens, or no tokenizer."""
    first_text: str
    second_text: str
    """The beginnings of the two responses."""


def task_pulls(sides: Sides, paired: Paired, pieces: Pieces) -> tuple[TaskPull, ...]:
    """The three tasks with the largest differences for the second agent, then the three for the first."""
    differences = paired.differences
    up = [i for i in np.argsort(-differences, kind="stable")[:SHOWN] if differences[i] > 0]
    down = [i for i in np.argsort(differences, kind="stable")[:SHOWN] if differences[i] < 0]
    tokens = _Tokens(sides, paired, pieces)
    return tuple(
        TaskPull(
            task=(task := paired.tasks[i]),
            difference=float(differences[i]),
            first=float(paired.first[i]),
            second=float(paired.second[i]),
            sentence=tokens.sentence(task, up=bool(differences[i] > 0)),
            first_text=_beginning(sides.first.run, task, sides.first.agent),
            second_text=_beginning(sides.second.run, task, sides.second.agent),
        )
        for i in (*up, *down)
    )


def _beginning(run: Run, task: str, agent: str) -> str:
    text = " ".join((run.text(task, agent) or "").split())
    return text if len(text) <= EXCERPT else f"{text[: EXCERPT - 1].rstrip()}…"


class _Tokens:
    """The stored per-token log-probabilities of the two runs."""

    def __init__(self, sides: Sides, paired: Paired, pieces: Pieces) -> None:
        self._sides, self._paired, self._pieces = sides, paired, pieces
        self._needs = _plain_logprobs(paired.metric)

    def sentence(self, task: str, *, up: bool) -> PulledSentence | None:
        """The sentence of a common peer that gains most in this direction."""
        if not self._needs or not self._paired.peer_names:
            return None
        first, second = self._sides.first, self._sides.second
        before, after = self._rows(first.run, task, first.agent), self._rows(second.run, task, second.agent)
        found = [
            sentence
            for key, values in after.items()
            if key in before
            for sentence in self._gains(task, key, before[key], values)
        ]
        signed = [one for one in found if (one.gain_nats > 0) == up]
        return max(signed, key=lambda one: abs(one.gain_nats), default=None)

    def _rows(self, run: Run, task: str, agent: str) -> dict[tuple[str, str, str], list[float]]:
        """Values of each token of a peer's response given the agent's, by peer, scorer and template."""
        table = run.scan("logprobs")
        there = [] if table is None else table.collect_schema().names()
        wanted = ("target", "scorer", "template", TOKENS, "task", "given", "rewriter", "synopsis")
        if table is None or any(name not in there for name in wanted):
            return {}
        plain = pl.col("rewriter").is_null() & pl.col("synopsis").is_null() & pl.col(TOKENS).is_not_null()
        rows = table.filter((pl.col("task") == task) & (pl.col("given") == agent) & plain)
        return {tuple(key): values for *key, values in rows.select(wanted[:4]).collect().iter_rows()}

    def _gains(
        self, task: str, key: tuple[str, str, str], before: list[float], after: list[float]
    ) -> list[PulledSentence]:
        peer, scorer, _ = key
        text = self._sides.first.run.text(task, peer)
        if peer not in self._paired.peer_names or text is None or text != self._sides.second.run.text(task, peer):
            return []
        pieces = self._pieces(scorer, text)
        sentences = split_sentences(text)
        if pieces is None or not len(pieces) == len(before) == len(after) or not sentences:
            return []
        made = make_information_map(
            task=task,
            agent=self._sides.second.agent,
            peer=peer,
            agent_text=text,
            agent_sentences=sentences[:1],
            peer_sentences=sentences,
            pieces=pieces,
            conditional_nats=after,
            marginal_nats=before,  # what the other agent already makes of it
            without_nats=[after],
        )
        return [PulledSentence(peer, sentence.text, sentence.gain_nats) for sentence in made.peer_sentences]


def _plain_logprobs(metric: str) -> bool:
    """Whether a metric takes log-probabilities of the responses as they are."""
    try:
        needs = find_metric(metric).needs.logprobs
    except GoldlessError:
        return False
    return needs is not None and needs.text != "rewrites" and needs.synopsis is None
