"""Reviews that models wrote: what came of each, counted by model and by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from goldless.evidence import OPEN_KINDS, GenerationEvidence
from goldless.gre_bench.review_sections import CUT_REPLY, Flag, ParsedReview, noticed, parse_review
from goldless.records import Agent, CallFailure
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.opening import Spending
from goldless.signature import Signature

NOTHING_WRITTEN = CallFailure("bad_reply", "nothing was written but thoughts")
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


@dataclass(frozen=True, slots=True)
class GeneratedReview:
    """One model's review of one paper."""

    agent: str
    evidence: GenerationEvidence
    settings: str
    """How it was made, as one line."""
    parsed: ParsedReview | None = None
    """None: nothing came that can be used."""
    asked: str | None = None
    """In which way, as it is known before a model is reached; None: a model itself was given."""

    @property
    def task(self) -> str:
        """The paper."""
        return self.evidence.task

    @property
    def failure(self) -> CallFailure | None:
        """Why it is missing."""
        empty = self.parsed is not None and not self.parsed.text
        return self.evidence.failure or (NOTHING_WRITTEN if empty else None)

    @property
    def text(self) -> str | None:
        """Its sections under plain titles; None: missing."""
        return None if self.parsed is None else self.parsed.text or None

    @property
    def flags(self) -> tuple[Flag, ...]:
        """What was not as it was asked for."""
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
class Generated:
    """What models wrote about the papers of a study."""

    tasks: tuple[str, ...]
    """The papers they were asked about."""
    agents: tuple[Agent, ...]
    """The models as agents, with what is known of each."""
    reviews: tuple[GeneratedReview, ...]
    """One for each model and paper, missing ones too."""
    settings: Mapping[str, str]
    """How all of them were asked, for signatures."""
    spending: tuple[Spending, ...] = ()

    @property
    def signature(self) -> str:
        """How all of them were asked, as one line."""
        return str(Signature("reviews", self.settings))

    @property
    def open(self) -> int:
        """Reviews that a second run would ask for again."""
        return sum(review.failure is not None and review.failure.kind in OPEN_KINDS for review in self.reviews)

    @property
    def incomplete(self) -> str | None:
        """What is still to be asked for, in words; None: nothing."""
        if not self.open:
            return None
        kinds = Counter(r.failure.kind for r in self.reviews if r.failure is not None and r.failure.kind in OPEN_KINDS)
        causes = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        return f"incomplete: {self.open} of {len(self.reviews)} reviews are open ({causes}); run the same again"

    @property
    def examples(self) -> dict[str, str]:
        """One missing review for each cause, in words."""
        lost = [(review, review.failure) for review in self.reviews if review.failure is not None]
        return {failure.kind: f"{review.agent} on {review.task}: {failure.message}" for review, failure in lost}

    def failures(self, agent: str) -> dict[str, int]:
        """An agent's missing reviews, by cause."""
        found = Counter(r.failure.kind for r in self.reviews if r.agent == agent and r.failure is not None)
        return dict(found.most_common())

    def as_json(self) -> dict[str, Any]:
        """The counts as plain data."""
        rows = [{**row, "causes": self.failures(str(row["agent"]))} for row in self._rows()]
        return {
            "signature": self.signature,
            "settings": dict(self.settings),
            "asked": len(self.reviews),
            "open": self.open,
            "agents": rows,
        }

    def table(self) -> ReportTable:
        """What people read of it."""
        return ReportTable("Reviews written", COLUMNS, tuple(self._rows()), notes=tuple(self._flags_told()))

    def _flags_told(self) -> Iterator[str]:
        """A sentence for each agent on what is meant by flagged."""
        for agent in self.agents:
            flags = Counter(flag for review in self.reviews if review.agent == agent.agent for flag in review.flags)
            if flags:
                yield f"{agent.agent}, flagged: {', '.join(noticed(flags))}."

    def _rows(self) -> list[dict[str, Cell]]:
        rows: list[dict[str, Cell]] = []
        for agent in self.agents:
            mine = [review for review in self.reviews if review.agent == agent.agent]
            failures = self.failures(agent.agent)
            rows.append(
                {
                    "agent": agent.agent,
                    "model": mine[0].evidence.writer if mine else None,
                    "asked": len(mine),
                    "used": len(mine) - sum(failures.values()),
                    "missing": sum(failures.values()),
                    "causes": ", ".join(f"{kind} {count}" for kind, count in failures.items()) or None,
                    "shortened": sum(review.evidence.characters_cut > 0 for review in mine),
                    "flagged": sum(bool(review.flags) for review in mine),
                }
            )
        return rows


def generated_review(
    agent: str, evidence: GenerationEvidence, settings: str, *, asked: str | None = None
) -> GeneratedReview:
    """The review that a reply holds."""
    parsed = None if evidence.text is None else parse_review(evidence.text)
    return GeneratedReview(agent, evidence, settings, parsed, asked)
