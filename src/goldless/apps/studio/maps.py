"""Information maps: of two responses of a run, and of two texts that are pasted.

They are made from stored log-probabilities, or computed by the embedded model, whose replies the journal keeps.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import polars as pl
from aiohttp import web

import goldless
from goldless.apps.studio.access import html
from goldless.apps.studio.rendering import page_number
from goldless.apps.studio.site import PageNotFoundError, RunTask, Site, Studio
from goldless.errors import GoldlessError, UserError
from goldless.evidence import TOKENS
from goldless.files import write_text
from goldless.metrics.information_map import map_of_stored_values
from goldless.models.embedded import find_embedded
from goldless.studies import Study, as_study, read_study
from goldless.templates import TEMPLATES

Given = Mapping[str, str]
Row = Mapping[str, Any]
_COMPUTING = ThreadPoolExecutor(1, thread_name_prefix="information-map")
"""One map at a time."""


@dataclass(frozen=True)
class ShownMap:
    """The information map of a candidate's response and a peer's, and which part of it is known."""

    map: goldless.InformationMap
    contributions: bool = True
    """True if the candidate's sentences were left out one by one."""
    placed: bool = True
    """True if tokens have a position in the peer's text."""

    @property
    def tokens(self) -> list[tuple[str | None, float]]:
        return [(token.text if self.placed else None, token.gain_nats) for token in self.map.tokens]


def stored_map(
    candidate: str, peer: str, given: Sequence[float], marginal: Sequence[float], pieces: Sequence[str] | None
) -> ShownMap | None:
    """The map from the stored log p(y|x) and log p(y) of each token; None if these are not the same tokens."""
    found = map_of_stored_values(candidate, peer, given, marginal, pieces)
    return None if found is None else ShownMap(found[0], contributions=False, placed=found[1])


def offers_whole_map(row: Row) -> bool:
    """True if a row was scored by the embedded model with a built-in template, and the model is on this machine.

    A template that a run names is never looked up on disk.
    """
    own = row.get("template") in TEMPLATES
    return own and str(row.get("scorer", "")).startswith("embedded:") and find_embedded() is not None


def whole_map(site: Site, place: RunTask, row: Row) -> ShownMap:
    """The complete map of the pair in a logprobs row: the target is the peer, the given the candidate."""
    if not offers_whole_map(row) or row.get("given") is None:
        raise UserError(
            "a complete map needs the embedded model on this machine as scorer and a built-in template "
            f"({', '.join(TEMPLATES)})"
        )
    text = "responses" if row.get("rewriter") is None else "rewrites"
    shown = {"template": row["template"], "synopsis": row.get("synopsis"), "text": text}
    study = read_study(place.index.run.path)
    return _computed(site, study, task=row["task"], agent=row["given"], peer=row["target"], **shown)


def map_of_texts(site: Site, candidate: str, peer: str, task: str = "") -> ShownMap:
    """The complete map of two texts that are in no run; what the task already says does not count."""
    rows = [("pasted", agent, text) for agent, text in (("candidate", candidate), ("peer", peer))]
    responses = pl.DataFrame(rows, schema=["task", "agent", "text"], orient="row")
    tasks = pl.DataFrame({"task": ["pasted"], "prompt": [task or None]}, schema_overrides={"prompt": pl.String})
    study = goldless.study_from_frame(responses, tasks=tasks)
    synopsis = "prompt" if task else None
    return _computed(site, study, task="pasted", agent="candidate", peer="peer", synopsis=synopsis)


def _computed(site: Site, study: Study, **pair: Any) -> ShownMap:
    return ShownMap(goldless.explain(study, journal=site.journal, **pair))


# --- two responses of a run ------------------------------------------------------------------------------------------

WAY = ("scorer", "template", "rewriter", "synopsis")
"""Columns that tell ways of scoring apart."""


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
        place.index,
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
        offers=way is not None and offers_whole_map(way["given"]),
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
        return _COMPUTING.submit(whole_map, site, place, row).result()
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
    """The candidate's gain about the peer's response on its own task and on others; None: it was not asked.

    ``terms``: task, log p given the candidate's response and alone, gain, and why one is missing, this task first.
    ``difference_nats``: the controlled score of the pair under GEM; missing terms are left out of the mean.
    """
    row, of_peer = way["given"], pl.col("target") == way["given"]["target"]
    rows = place.index.rows("control_logprobs", place.name, about=of_peer).to_dicts()
    asked = [(place.name, row, way["alone"] or {})]
    for one in rows:
        if one["given"] != row["given"] or _way(one) != _way(row):
            continue
        task, others = one["target_task"], [other for other in rows if other["target_task"] == one["target_task"]]
        if row.get("synopsis") is None:  # a response alone is the same whatever the task, so it is not asked again
            others = place.index.rows("logprobs", task, about=of_peer).to_dicts()
        marginal = (other for other in others if other["given"] is None and _way(other) == _way(row))
        asked.append((task, one, next(marginal, {})))
    terms = []
    for task, given, alone in asked:
        one, two = given.get("sum_logprob_nats"), alone.get("sum_logprob_nats")
        gain = None if one is None or two is None else one - two
        failure = given.get("failure") or alone.get("failure")
        terms.append({"task": task, "given_nats": one, "alone_nats": two, "gain_nats": gain, "failure": failure})
    known = [gain for term in terms[1:] if (gain := term["gain_nats"]) is not None]
    mean, matched = sum(known) / len(known) if known else None, terms[0]["gain_nats"]
    difference = None if matched is None or mean is None else matched - mean
    return {"terms": terms, "mean_nats": mean, "difference_nats": difference} if terms[1:] else None


# --- two texts that are pasted ---------------------------------------------------------------------------------------

MOST_CHARACTERS = 4_000
"""Of each text: a map scores the second text once per sentence of the first, and a reader waits for it."""
MAPS_KEPT = 40


@dataclass(frozen=True)
class Pasted:
    """Two texts, and what both were asked."""

    first: str = ""
    second: str = ""
    task: str = ""

    @property
    def problems(self) -> dict[str, str]:
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
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]


def paste_form(site: Studio, given: Given) -> str:
    """The form, empty, with an example, or with texts that were pasted before."""
    pasted = _read(site, given["again"]) if given.get("again") else Pasted()
    if given.get("example"):
        study = as_study("sample")
        first, second, *_ = study.responses(study.tasks[0])
        pasted = Pasted(first.text, second.text, study.task(study.tasks[0]).prompt or "")
    return _form(site, pasted)


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
    """The map of two pasted texts, which is computed the first time that it is shown."""
    pasted, reverse, found, problem = _read(site, name), bool(given.get("reverse")), None, ""
    texts = (pasted.second, pasted.first) if reverse else (pasted.first, pasted.second)
    try:
        found = _kept_map(site, *texts, pasted.task)
    except GoldlessError as error:
        problem = str(error)
    return site.page("pasted.html", pasted=pasted, reverse=reverse, found=found, problem=problem)


@lru_cache(maxsize=MAPS_KEPT)
def _kept_map(site: Studio, *texts: str) -> ShownMap:
    return _COMPUTING.submit(map_of_texts, site, *texts).result()


def _read(site: Studio, name: str) -> Pasted:
    path = site.folder / "pasted" / f"{name}.json"
    if not re.fullmatch("[0-9a-f]{16}", name) or not path.is_file():
        raise PageNotFoundError("these texts are not here (any more). Paste them again")
    return Pasted(**json.loads(path.read_text(encoding="utf-8")))
