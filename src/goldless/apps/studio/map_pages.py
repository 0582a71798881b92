"""Pages with an information map: of two responses of a run, and of two texts that are pasted."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import polars as pl
from aiohttp import web

from goldless.apps.studio.access import html
from goldless.apps.studio.information_map import ShownMap, stored_map
from goldless.apps.studio.rendering import page_number
from goldless.apps.studio.site import PageNotFoundError, RunTask, Site
from goldless.apps.studio.studio import Studio
from goldless.errors import GoldlessError, UserError
from goldless.evidence import TOKENS
from goldless.files import write_text
from goldless.models.embedded import find_embedded
from goldless.sentences import split_sentences
from goldless.studies import as_study

WAY = ("scorer", "template", "rewriter", "synopsis")
"""Columns that tell ways of scoring apart."""
Given = Mapping[str, str]
Row = Mapping[str, Any]


# --- two responses of a run ------------------------------------------------------------------------------------------


def pair_page(site: Site, given: Given, run: str, *numbers: int) -> str:
    """The information map, by numbers of task, candidate and peer: what one response reveals about the other."""
    number, candidate, peer = numbers
    place = site.task(run, number)
    names = place.agent(candidate), place.agent(peer)
    if candidate == peer:
        raise PageNotFoundError("an information map needs two different agents, got the same one twice")
    ways = scored_ways(place, *names)
    chosen = min(page_number(given.get("way")), max(1, len(ways))) - 1
    way = ways[chosen] if ways else None
    found, problem = None, ""
    texts = place.index.responses(place.name)
    if way is not None:
        texts = place.scored_texts(way["given"], texts)
        try:
            found = find_map(site, place, way, texts, whole=bool(given.get("whole")))
        except GoldlessError as error:
            problem = str(error)
    return site.page(
        "pair.html",
        run=site.summary(place.run),
        place=place,
        candidate=names[0],
        candidate_number=candidate,
        peer=names[1],
        peer_number=peer,
        texts=texts,
        ways=ways,
        chosen=chosen,
        found=found,
        control=None if way is None else pair_control(place, way),
        problem=problem,
        offers=way is not None and site.links.live and site.maps.offers(way["given"]),
    )


def scored_ways(place: RunTask, candidate: str, peer: str) -> list[dict[str, Any]]:
    """The ways in which the peer's response was scored given the candidate's, each with the one of it alone."""
    rows = place.index.rows("logprobs", place.name, about=pl.col("target") == peer, tokens=True).to_dicts()
    alone = {_way(row): row for row in rows if row["given"] is None}
    return [
        {"given": row, "alone": alone.get(_way(row)), "name": ", ".join(str(part) for part in _way(row) if part)}
        for row in rows
        if row["given"] == candidate
    ]


def _way(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in WAY)


def find_map(site: Site, place: RunTask, way: Row, texts: Mapping[str, str], *, whole: bool) -> ShownMap | None:
    """The map of one way of scoring, from its stored values, or computed as a whole."""
    row, alone = way["given"], way["alone"]
    if whole:
        return site.maps.make(place.run.path, row)
    if alone is None:
        raise UserError(
            "log p of the peer's response alone is not in this run, so the candidate's contribution is unknown"
        )
    values, marginal = row.get(TOKENS), alone.get(TOKENS)
    candidate, peer = texts.get(row["given"]), texts.get(row["target"])
    if values is None or marginal is None or candidate is None or peer is None:
        raise UserError("the per-token log-probabilities or the texts are not in this run")
    return stored_map(candidate, peer, values, marginal, site.tokenizers.pieces(str(row["scorer"]), peer))


def pair_control(place: RunTask, way: Row) -> dict[str, Any] | None:
    """What the candidate's response says about the peer's on its own task and on others; None: it was not asked.

    ``terms``: task, log p given the candidate's response and alone, gain, and why one is missing, this task first.
    ``difference_nats``: the controlled score of the pair under GEM; missing terms are left out of the mean.
    """
    row, of_peer = way["given"], pl.col("target") == way["given"]["target"]
    rows = place.index.rows("control_logprobs", place.name, about=of_peer).to_dicts()
    terms = [_term(place.name, row, way["alone"])]
    for one in rows:
        if one["given"] != row["given"] or _way(one) != _way(row):
            continue
        task, others = one["target_task"], [other for other in rows if other["target_task"] == one["target_task"]]
        if row.get("synopsis") is None:  # a response alone is the same whatever the task, so it is not asked again
            others = place.index.rows("logprobs", task, about=of_peer).to_dicts()
        alone = (other for other in others if other["given"] is None and _way(other) == _way(row))
        terms.append(_term(task, one, next(alone, None)))
    known = [gain for term in terms[1:] if (gain := term["gain_nats"]) is not None]
    mean, matched = sum(known) / len(known) if known else None, terms[0]["gain_nats"]
    difference = None if matched is None or mean is None else matched - mean
    return {"terms": terms, "mean_nats": mean, "difference_nats": difference} if terms[1:] else None


def _term(task: str, given: Row, alone: Row | None) -> dict[str, Any]:
    alone = alone or {}
    one, two = given.get("sum_logprob_nats"), alone.get("sum_logprob_nats")
    gain = None if one is None or two is None else one - two
    failure = given.get("failure") or alone.get("failure")
    return {"task": task, "given_nats": one, "alone_nats": two, "gain_nats": gain, "failure": failure}


# --- two texts that are pasted ---------------------------------------------------------------------------------------

MOST_CHARACTERS = 4_000
"""Of each text: a map scores the second text once per sentence of the first, and a reader waits for it."""
MAPS_KEPT = 40
PATIENCE_SECONDS = 0.2
"""A map whose replies are in the journal is shown at once."""
_COMPUTING = ThreadPoolExecutor(1, thread_name_prefix="information-map")


@dataclass(frozen=True, slots=True)
class Pasted:
    """Two texts, and what both were asked."""

    first: str = ""
    second: str = ""
    task: str = ""

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong with them, by field."""
        found = {}
        for name, title in (("first", "The first text"), ("second", "The second text"), ("task", "The task")):
            text = getattr(self, name)
            if name != "task" and not text.strip():
                found[name] = f"{title} is empty. Paste some sentences."
            if len(text) > MOST_CHARACTERS:
                found[name] = (
                    f"{title} has {len(text):,} characters; at most {MOST_CHARACTERS:,} fit here, and nothing is cut. "
                    "Shorten it, or use goldless explain."
                )
        return found

    @property
    def id(self) -> str:
        """The same for the same texts."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]


def paste_form(site: Studio, given: Given) -> str:
    """The form, empty, with an example, or with texts that were pasted before."""
    if given.get("again"):
        return _form(site, _read(site, given["again"]))
    if not given.get("example"):
        return _form(site, Pasted())
    study = as_study("sample")
    task = study.task(study.tasks[0])
    first, second, *_ = study.responses(task.task)
    return _form(site, Pasted(first.text, second.text, task.prompt or ""))


def _form(site: Studio, pasted: Pasted, problems: Mapping[str, str] | None = None) -> str:
    missing = "The embedded model is not on this machine yet. Fetch it once with: goldless doctor embedded"
    shown = {"most": MOST_CHARACTERS, "missing": "" if find_embedded() else missing}
    return site.page("paste.html", pasted=pasted, problems=problems or {}, **shown)


def paste(site: Studio, given: Given) -> web.Response:
    """Keep two texts, and show their map."""
    # browsers send line ends as carriage return and newline
    texts = {name: given.get(name, "").replace("\r\n", "\n").strip() for name in ("first", "second", "task")}
    pasted = Pasted(**texts)
    if pasted.problems or find_embedded() is None:
        return html(_form(site, pasted, pasted.problems), 400)
    folder = site.folder / "pasted"
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / f"{pasted.id}.json", json.dumps(asdict(pasted)))
    return site.see(f"/paste/{pasted.id}")


def pasted_map(site: Studio, given: Given, name: str) -> str:
    """The map of two pasted texts, or that it is being computed."""
    pasted, reverse = _read(site, name), bool(given.get("reverse"))
    job, _ = _job(site, pasted, reverse=reverse)
    wait([job], PATIENCE_SECONDS)
    found, problem = None, ""
    if job.done():
        try:
            found = job.result()
        except GoldlessError as error:
            problem = str(error)
            _job.cache_clear()
    return site.page("pasted.html", pasted=pasted, reverse=reverse, found=found, problem=problem)


def pasted_progress(site: Studio, given: Given, name: str) -> web.Response:
    """How long a map has been computed, and for how many texts; it says when it is there."""
    pasted, reverse = _read(site, name), bool(given.get("reverse"))
    job, begun = _job(site, pasted, reverse=reverse)
    wait([job], 1.0)
    texts = 2 + len(split_sentences(pasted.second if reverse else pasted.first))
    return site.live("_computing.html", running=not job.done(), seconds=time.monotonic() - begun, texts=texts)


@lru_cache(maxsize=MAPS_KEPT)
def _job(site: Studio, pasted: Pasted, *, reverse: bool) -> tuple[Future[ShownMap], float]:
    """The computation, one at a time, and when it was asked for."""
    texts = (pasted.second, pasted.first) if reverse else (pasted.first, pasted.second)
    return _COMPUTING.submit(site.maps.of_texts, *texts, task=pasted.task or None), time.monotonic()


def _read(site: Studio, name: str) -> Pasted:
    path = site.folder / "pasted" / f"{name}.json"
    if not re.fullmatch("[0-9a-f]{16}", name) or not path.is_file():
        raise PageNotFoundError("these texts are not here (any more). Paste them again")
    return Pasted(**json.loads(path.read_text(encoding="utf-8")))
