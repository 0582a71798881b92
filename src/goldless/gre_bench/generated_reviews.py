"""Reviews written by models: outcome of each, counts by model and cause, and which need not be requested again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from goldless.evidence import OPEN_KINDS, GenerationEvidence, is_open
from goldless.gre_bench.review_sections import CUT_REPLY, Flag, ParsedReview, noticed, parse_review
from goldless.models.catalogue import is_server
from goldless.models.interface import content_hash
from goldless.records import Agent, CallFailure
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.opening import Spending
from goldless.signature import Signature
from goldless.studies import Study

GENERATIONS = "generations"
"""The study's table of how each review was made."""
NOTHING_WRITTEN = CallFailure("bad_reply", "nothing was written but thoughts")
ONLY_FITTING = ("truncate", "cut")
"""Settings that change no request whose paper fits, and no review that ends by itself."""
COLUMNS = (
    Column("agent", "agent"),
    Column("model", "model", wide=True),
    Column("asked", "asked", "count"),
    Column("used", "used", "count"),
    Column("missing", "missing", "count"),
    Column("causes", "why missing"),
    Column("shortened", "papers cut", "count"),
    Column("flagged", "flagged", "count"),
)

Pairs = frozenset[tuple[str, str]]
"""Tasks and agents."""


@dataclass(frozen=True)
class GeneratedReview:
    """One model's review of one paper."""

    agent: str
    evidence: GenerationEvidence
    settings: str
    """Its signature."""
    asked: str | None = None
    """Hashes of the request, known before a model is reached; None: a model itself was given."""

    @cached_property
    def parsed(self) -> ParsedReview | None:
        """The sections of the reply; None: no usable reply."""
        return None if self.evidence.text is None else parse_review(self.evidence.text)

    @property
    def task(self) -> str:
        """The paper."""
        return self.evidence.task

    @property
    def failure(self) -> CallFailure | None:
        """The cause if it is missing."""
        empty = self.parsed is not None and not self.parsed.text
        return self.evidence.failure or (NOTHING_WRITTEN if empty else None)

    @property
    def is_open(self) -> bool:
        """Whether another run would request it again."""
        return is_open(self.failure)

    @property
    def text(self) -> str | None:
        """Its sections under plain titles; None: missing."""
        return None if self.parsed is None else self.parsed.text or None

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Deviations from the requested format."""
        cut = (CUT_REPLY,) if self.evidence.finish == "length" and self.evidence.failure is None else ()
        return (*cut, *(() if self.parsed is None else self.parsed.flags))

    def row(self) -> dict[str, Any]:
        """Its row of the table ``generations``."""
        evidence, failure = self.evidence, self.failure
        return {
            "agent": self.agent,
            "model": evidence.writer,
            "task": evidence.task,
            "raw": evidence.reply,
            "finish": evidence.finish,
            "failure": None if failure is None else failure.kind,
            "failure_message": None if failure is None else failure.message,
            "flags": list(self.flags),
            "characters_cut": evidence.characters_cut,
            "input_tokens": evidence.input_tokens,
            "output_tokens": evidence.output_tokens,
            "settings": self.settings,
            "asked": self.asked,
        }


@dataclass(frozen=True, slots=True)
class ReviewCounts:
    """Outcome of the reviews requested from an agent."""

    asked: int
    missing: Mapping[str, int]
    """By cause, the most frequent first."""
    flags: Mapping[Flag, int]
    shortened: int
    """Papers that were cut off for it."""
    flagged: int


def count_reviews(rows: Iterable[Mapping[str, Any]]) -> ReviewCounts:
    """The counts over one agent's rows of the table ``generations``."""
    mine = list(rows)
    return ReviewCounts(
        asked=len(mine),
        missing=dict(Counter(str(row["failure"]) for row in mine if row["failure"]).most_common()),
        flags=Counter(flag for row in mine for flag in row["flags"] or ()),
        shortened=sum(bool(row.get("characters_cut")) for row in mine),
        flagged=sum(bool(row["flags"]) for row in mine),
    )


@dataclass(frozen=True, slots=True)
class Generated:
    """Reviews of the papers of a study, written by models."""

    tasks: tuple[str, ...]
    """The papers to review."""
    agents: tuple[Agent, ...]
    """The models as agents."""
    reviews: tuple[GeneratedReview, ...]
    """One per model and paper, including missing ones."""
    settings: Mapping[str, str]
    """Settings of all requests, for signatures."""
    spending: tuple[Spending, ...] = ()

    @property
    def signature(self) -> str:
        """The signature of all requests."""
        return str(Signature("reviews", self.settings))

    @property
    def open(self) -> int:
        """Number of reviews that another run would request again."""
        return sum(review.is_open for review in self.reviews)

    @property
    def incomplete(self) -> str | None:
        """A sentence about reviews still to be written; None if there are none."""
        kinds = Counter(r.failure.kind for r in self.reviews if r.failure is not None and r.is_open)
        if not kinds:
            return None
        causes = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        return (
            f"incomplete: {self.open} of {len(self.reviews)} reviews are missing ({causes}). Run the same command again"
        )

    @property
    def examples(self) -> dict[str, str]:
        """One example of a missing review per cause."""
        lost = [(review, review.failure) for review in self.reviews if review.failure is not None]
        return {failure.kind: f"{review.agent} on {review.task}: {failure.message}" for review, failure in lost}

    def counts(self, agent: str) -> ReviewCounts:
        """Counts of an agent's reviews."""
        return count_reviews(review.row() for review in self.reviews if review.agent == agent)

    def as_json(self) -> dict[str, Any]:
        """The counts as plain data."""
        return {
            "signature": self.signature,
            "settings": dict(self.settings),
            "asked": len(self.reviews),
            "open": self.open,
            "agents": [{**self._row(agent.agent), "causes": self.counts(agent.agent).missing} for agent in self.agents],
        }

    def table(self) -> ReportTable:
        """The table for people, with a note per agent that explains its flags."""
        rows = tuple(self._row(agent.agent) for agent in self.agents)
        flags = {agent.agent: noticed(self.counts(agent.agent).flags) for agent in self.agents}
        notes = tuple(f"{agent}: flagged reviews: {', '.join(told)}." for agent, told in flags.items() if told)
        return ReportTable("Reviews written", COLUMNS, rows, notes=notes)

    def _row(self, agent: str) -> dict[str, Cell]:
        counts = self.counts(agent)
        missing = sum(counts.missing.values())
        return {
            "agent": agent,
            "model": next((review.evidence.writer for review in self.reviews if review.agent == agent), None),
            "asked": counts.asked,
            "used": counts.asked - missing,
            "missing": missing,
            "causes": ", ".join(f"{kind} {count}" for kind, count in counts.missing.items()) or None,
            "shortened": counts.shortened,
            "flagged": counts.flagged,
        }


# --- what was asked before -----------------------------------------------------------------------------------------


def way_of_asking(spec: str, settings: Mapping[str, str], context_length: int | None) -> str:
    """What tells one way of asking a model from others, before it is reached: ``REQUEST-FIT``.

    Hashes, since an address is nobody else's business. With the same ``REQUEST`` a paper that fits is asked about in
    the same words.
    """
    request = {name: value for name, value in settings.items() if name not in ONLY_FITTING}
    fit = {name: settings[name] for name in ONLY_FITTING}
    return f"{content_hash(spec, request)[:16]}-{content_hash(fit, context_length)[:8]}"


def asked_about(way: str, paper: str | None) -> str:
    """In which way a model was asked about a paper: ``REQUEST-FIT-PAPER``."""
    return f"{way}-{content_hash(paper)[:8]}"


def settled_reviews(study: Study, ways: Mapping[str, str]) -> dict[str, dict[str, GeneratedReview]]:
    """What the study has of these agents, asked in these ways, by agent and paper; open calls are not settled."""
    found: dict[str, dict[str, GeneratedReview]] = {agent: {} for agent in ways}
    papers = set(study.tasks)
    for (task, agent), row in _rows(study).items():
        if agent not in ways or task not in papers or row["failure"] in OPEN_KINDS:
            continue
        if row.get("asked") == asked_about(ways[agent], study.task(task).prompt):
            found[agent][task] = _review(row)
    return found


def finished_models(
    study: Study, named: Mapping[str, Any], settled: Mapping[str, Mapping[str, GeneratedReview]]
) -> frozenset[str]:
    """Agents on servers with a review of every paper of the study.

    A model on this machine is never among them: its files may be others by now, which shows when they are read.
    """
    return frozenset(
        agent
        for agent, reviews in settled.items()
        if is_server(named[agent]) and all(task in reviews and reviews[task].text is not None for task in study.tasks)
    )


def replaced_reviews(study: Study, ways: Mapping[str, str]) -> Pairs:
    """Papers and agents whose reviews in the study came of other requests than these; where that is not noted, none."""
    rows = _rows(study)
    found = []
    for task, responses in study:
        for pair in [(task.task, response.agent) for response in responses if response.agent in ways]:
            asked = rows[pair].get("asked") if pair in rows else ""
            if asked is not None and _request(asked) != _request(asked_about(ways[pair[1]], task.prompt)):
                found.append(pair)
    return frozenset(found)


def _request(asked: str) -> tuple[str, str]:
    """What was sent where a paper fits: the request, and the paper."""
    return asked.partition("-")[0], asked.rpartition("-")[2]


def _rows(study: Study) -> dict[tuple[str, str], dict[str, Any]]:
    table = study.table(GENERATIONS)
    return {} if table is None else {(row["task"], row["agent"]): row for row in table.iter_rows(named=True)}


def _review(row: Mapping[str, Any]) -> GeneratedReview:
    """The review that a row of the table ``generations`` tells of."""
    failure = None if row["failure"] is None else CallFailure(row["failure"], row["failure_message"])
    evidence = GenerationEvidence(
        writer=row["model"],
        task=row["task"],
        reply=row["raw"],
        failure=None if failure == NOTHING_WRITTEN else failure,
        finish=row["finish"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        characters_cut=row["characters_cut"],
    )
    return GeneratedReview(row["agent"], evidence, row["settings"], row["asked"])
