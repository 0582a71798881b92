"""The page about two responses: the information map, and what task control subtracts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from goldless.errors import GoldlessError, UserError
from goldless.viewer.library import Library, PageNotFoundError, RunSummary
from goldless.viewer.links import Links
from goldless.viewer.pair_map import GAIN_LIMITS, SENTENCE_LIMITS, PairMap, stored_map
from goldless.viewer.rendering import render
from goldless.viewer.response_pages import scored_texts
from goldless.viewer.run_pages import page_number
from goldless.viewer.task_pages import RunTask, find_place


def pair_page(library: Library, links: Links, run: str, numbers: tuple[int, int, int], given: Mapping[str, str]) -> str:
    """The information map, by numbers of task, candidate and peer: what one response reveals about the other."""
    number, candidate, peer = numbers
    place = find_place(library, run, number)
    names = place.agent(candidate), place.agent(peer)
    if candidate == peer:
        raise PageNotFoundError("an information map needs two different agents, got the same one twice")
    ways = _ways(place, *names)
    chosen = page_number(given.get("way")) - 1
    way = ways[min(chosen, len(ways) - 1)] if ways else None
    found, problem = None, ""
    texts = place.index.tables.responses(place.name)
    if way is not None:
        texts = dict(scored_texts(place, way["given"], texts))
        try:
            found = _map(place, way, texts, whole=bool(given.get("whole")))
        except GoldlessError as error:
            problem = str(error)
    return render(
        "pair.html",
        links,
        run=RunSummary.of(place.run),
        place=place,
        candidate=names[0],
        candidate_number=candidate,
        peer=names[1],
        peer_number=peer,
        texts=texts,
        ways=ways,
        way=way,
        chosen=chosen,
        found=found,
        control=None if way is None else pair_control(place, way),
        task_numbers={name: number for number, name in enumerate(place.index.tasks)},
        problem=problem,
        limits={"token": GAIN_LIMITS, "sentence": SENTENCE_LIMITS},
        offers=way is not None and links.live and library.maps.offers(way["given"]),
        whole=bool(given.get("whole")),
    )


def _ways(place: RunTask, candidate: str, peer: str) -> list[dict[str, Any]]:
    """The ways in which the peer's response was scored given the candidate's."""
    frame = place.index.tables.of_task("logprobs", place.name)
    if not len(frame):
        return []
    rows = frame.filter(pl.col("target") == peer).to_dicts()
    marginals = {_way(row): row for row in rows if row.get("given") is None}
    return [
        {"given": row, "marginal": marginals.get(_way(row)), "name": ", ".join(str(x) for x in _way(row) if x)}
        for row in rows
        if row.get("given") == candidate
    ]


def _way(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("scorer", "template", "rewriter", "synopsis"))


def _map(place: RunTask, way: Mapping[str, Any], texts: Mapping[str, str], *, whole: bool) -> PairMap | None:
    row, marginal = way["given"], way["marginal"]
    if whole:
        return place.library.maps.make(place.run.path, row)
    if marginal is None:
        raise UserError(
            "log p of the peer's response alone is not in this run, so the candidate's contribution is unknown"
        )
    values = place.index.tables.per_token([row["row"], marginal["row"]])
    candidate, peer = texts.get(row["given"]), texts.get(row["target"])
    if len(values) < 2 or candidate is None or peer is None:
        raise UserError("the per-token log-probabilities or the texts are not in this run")
    pieces = place.library.tokenizers.pieces(str(row["scorer"]), peer)
    return stored_map(candidate, peer, values[row["row"]], values[marginal["row"]], pieces)


# --- task control ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ControlTerm:
    """The peer's response to one task, given the candidate's and alone."""

    task: str
    given_nats: float | None
    alone_nats: float | None
    failure: str | None
    """Why one of them is missing."""

    @property
    def gain_nats(self) -> float | None:
        """Log p given the candidate's response, less that without it."""
        return None if self.given_nats is None or self.alone_nats is None else self.given_nats - self.alone_nats


@dataclass(frozen=True, slots=True)
class PairControl:
    """What the candidate's response says about the peer's, on its own task and on others."""

    matched: ControlTerm
    others: tuple[ControlTerm, ...]

    @property
    def mean_nats(self) -> float | None:
        """The mean over the other tasks; missing ones are left out, as in the metric."""
        known = [gain for term in self.others if (gain := term.gain_nats) is not None]
        return sum(known) / len(known) if known else None

    @property
    def difference_nats(self) -> float | None:
        """The controlled score of the pair under GEM."""
        matched, mean = self.matched.gain_nats, self.mean_nats
        return None if matched is None or mean is None else matched - mean


def pair_control(place: RunTask, way: Mapping[str, Any]) -> PairControl | None:
    """The control rows behind a pair; None if the run has none for this way of scoring."""
    row, tables = way["given"], place.index.tables
    frame = tables.of_task("control_logprobs", place.name)
    if not len(frame):
        return None
    rows = [r for r in frame.filter(pl.col("target") == row["target"]).to_dicts() if _way(r) == _way(row)]
    # without a synopsis a response alone is the same whatever the task, so it is not asked again
    alone = {r["target_task"]: r for r in rows if r["given"] is None}
    terms = []
    for one in (r for r in rows if r["given"] == row["given"]):
        task = one["target_task"]
        marginal = alone.get(task) if row.get("synopsis") is not None else _alone(place, task, row)
        terms.append(_term(task, one, marginal))
    return PairControl(_term(place.name, row, way["marginal"]), tuple(terms)) if terms else None


def _alone(place: RunTask, task: str, like: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The peer's response to another task alone, scored in the same way."""
    frame = place.index.tables.of_task("logprobs", task)
    mine = frame.filter((pl.col("target") == like["target"]) & pl.col("given").is_null()) if len(frame) else frame
    return next((row for row in mine.to_dicts() if _way(row) == _way(like)), None)


def _term(task: str, given: Mapping[str, Any], alone: Mapping[str, Any] | None) -> ControlTerm:
    none = alone or {}
    failure = given.get("failure") or none.get("failure")
    return ControlTerm(task, given.get("sum_logprob_nats"), none.get("sum_logprob_nats"), failure)
