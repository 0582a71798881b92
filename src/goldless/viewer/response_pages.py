"""The page about one response: the evidence on it, each piece with its prompt and reply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from goldless.records import Task
from goldless.reports.leaderboard import Leaderboards
from goldless.reports.review import ReviewReport
from goldless.viewer.evidence_tables import EvidenceTables
from goldless.viewer.judged_pairs import OUTCOMES, judged_pairs
from goldless.viewer.library import Library, RunSummary
from goldless.viewer.links import Links
from goldless.viewer.pair_map import SURPRISE_LIMITS, StripToken, strip
from goldless.viewer.prompts import (
    Prompt,
    ReviewWording,
    Turn,
    critic_reading,
    judgement_prompt,
    logprob_prompt,
    rewrite_prompt,
    verdict_prompt,
    words_note,
)
from goldless.viewer.rendering import render
from goldless.viewer.run_pages import page_number
from goldless.viewer.task_index import paged
from goldless.viewer.task_pages import RunTask, find_place, metric_decimals, rows_by_agent

Rows = Sequence[Mapping[str, Any]]
ROWS_A_PAGE = 20
"""Pieces of evidence of one kind per page, each with its prompt."""
MOST_RATINGS = 100


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """A piece of evidence with the prompt behind it."""

    row: Mapping[str, Any]
    asked: Prompt
    turns: tuple[Turn, ...] = ()
    tokens: tuple[StripToken, ...] = ()


MakeRows = Callable[[Rows], Iterable[EvidenceRow]]


@dataclass(frozen=True, slots=True)
class EvidencePage:
    """A page of evidence of one kind."""

    rows: list[Any]
    total: int
    page: int
    pages: int


@dataclass(frozen=True, slots=True)
class Subject:
    """The response that evidence is about."""

    place: RunTask
    agent: str
    task: Task
    texts: Mapping[str, str]
    """All responses to the task, by agent."""
    leaderboard: Leaderboards
    review: ReviewReport

    @property
    def tables(self) -> EvidenceTables:
        """The evidence of the run."""
        return self.place.index.tables

    @property
    def perturbed(self) -> list[dict[str, Any]]:
        """Its perturbed versions in a crash test."""
        rows = self.tables.of_task("perturbed", self.place.name)
        return rows.filter(pl.col("agent") == self.agent).to_dicts() if len(rows) else []


def response_page(library: Library, links: Links, run: str, numbers: tuple[int, int], given: Mapping[str, str]) -> str:
    """The evidence on one response, by task and agent number: each piece with prompt and reply."""
    place = find_place(library, run, numbers[0])
    agent = place.agent(numbers[1])
    about = Subject(
        place=place,
        agent=agent,
        task=place.index.tables.task(place.name),
        texts=place.index.tables.responses(place.name),
        leaderboard=place.run.leaderboard or Leaderboards(),
        review=place.run.review or ReviewReport(),
    )
    scores = {metric: row for (metric, name), row in place.index.of_task(place.name).items() if name == agent}
    return render(
        "response.html",
        links,
        run=RunSummary.of(place.run),
        place=place,
        agent=agent,
        agent_number=numbers[1],
        task=about.task,
        text=about.texts.get(agent),
        scores=scores,
        decimals=metric_decimals((metric, row["score"]) for metric, row in scores.items()),
        logprobs=_logprobs(about, page_number(given.get("logprobs"))),
        verdicts=_verdicts(about, page_number(given.get("verdicts"))),
        judgements=_judgements(about, given),
        rewrites=[*_rewrites(about)],
        perturbed=about.perturbed,
        agent_numbers=place.index.agent_numbers,
        surprise=SURPRISE_LIMITS,
        whole=bool(given.get("whole")),
    )


def _evidence(
    about: Subject, table: str, page: int, order: Callable[[pl.DataFrame], pl.DataFrame], make: MakeRows
) -> EvidencePage:
    """A page of a table's rows about the response: ``order`` selects them, ``make`` finds the prompt behind each."""
    frame = about.tables.of_task(table, about.place.name)
    if len(frame):
        frame = order(frame)
    page, pages, begin = paged(len(frame), page, ROWS_A_PAGE)
    return EvidencePage([*make(frame.slice(begin, ROWS_A_PAGE).to_dicts())], len(frame), page, pages)


def _logprobs(about: Subject, page: int) -> EvidencePage:
    """Log-probabilities about the response: first of others given it, which make its score, then of itself."""
    given, target = pl.col("given").eq_missing(about.agent), pl.col("target") == about.agent

    def order(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.filter(given | target).sort(given, "row", descending=[True, False])

    def made(rows: Rows) -> Iterator[EvidenceRow]:
        values = about.tables.per_token([row["row"] for row in rows])
        pieces: dict[tuple[str, str], tuple[str, ...] | None] = {}
        words = words_note(about.leaderboard)
        for row in rows:
            scored = scored_texts(about.place, row, about.texts)
            template = about.leaderboard.template(row.get("template"), "the run folder")
            asked = logprob_prompt(row, template, about.task, scored, words=words)
            key = str(row.get("scorer")), scored.get(row["target"], "")
            if key not in pieces and row["row"] in values:
                pieces[key] = about.place.library.tokenizers.pieces(*key) if key[1] else None
            tokens = strip(values[row["row"]], pieces.get(key)) if row["row"] in values else ()
            yield EvidenceRow(row, asked, tokens=tokens)

    return _evidence(about, "logprobs", page, order, made)


def scored_texts(place: RunTask, row: Mapping[str, Any], texts: Mapping[str, str]) -> Mapping[str, str]:
    """What was scored in a row of the logprobs table: the responses, or the rewrites of the rewriter it names."""
    rewriter = row.get("rewriter")
    if rewriter is None:
        return texts
    names = set(str(rewriter).split("+"))
    rewrites = [r for r in place.index.tables.of_task("rewrites", place.name).to_dicts() if r["rewriter"] in names]
    own = [r for r in rewrites if r.get("template") == row.get("template")] or rewrites
    return {r["agent"]: r["text"] for r in own if r.get("text")}


def _verdicts(about: Subject, page: int) -> EvidencePage:
    place, texts = about.place, about.texts
    second = (pl.col("second") == about.agent) & (pl.col("second_task") == place.name)

    def made(rows: Rows) -> Iterator[EvidenceRow]:
        reading, words = critic_reading(about.leaderboard), words_note(about.leaderboard)
        others: dict[str, Mapping[str, str]] = {place.name: texts}
        for row in rows:
            task = row["second_task"]
            if task not in others:
                others[task] = about.tables.responses(task)
            asked = verdict_prompt(row, reading, texts.get(row["first"]), others[task].get(row["second"]), words=words)
            yield _with_turns(about, row, asked, row.get("critic"))

    mine = (pl.col("first") == about.agent) | second
    return _evidence(about, "verdicts", page, lambda frame: frame.filter(mine), made)


def _judgements(about: Subject, given: Mapping[str, str]) -> dict[str, Any]:
    """Comparisons with other responses, both orders together, and ratings: those of a page, with their prompts."""
    frame = about.tables.of_task("judgements", about.place.name)
    rows = frame.to_dicts()
    pairs = judged_pairs(rows, about.agent)
    reviewer, outcome = given.get("reviewer") or None, given.get("outcome") or None
    shown = [
        pair
        for pair in pairs
        if (reviewer is None or pair.reviewer == reviewer) and (outcome is None or pair.outcome == outcome)
    ]
    page, pages, begin = paged(len(shown), page_number(given.get("judgements")), ROWS_A_PAGE)
    wording = ReviewWording(about.review)

    def made(row: Mapping[str, Any]) -> EvidenceRow:
        asked = judgement_prompt(row, wording, about.task.prompt, about.texts)
        return _with_turns(about, row, asked, wording.model(str(row["reviewer"])))

    listed = [(pair, [made(row) for row in pair.rows]) for pair in shown[begin : begin + ROWS_A_PAGE]]
    ratings = [row for row in rows if row.get("second") is None and about.agent in {row.get("agent"), row.get("first")}]
    return {
        "pairs": EvidencePage(listed, len(shown), page, pages),
        "of": len(pairs),
        "counts": Counter(pair.outcome for pair in pairs),
        "reviewers": sorted({pair.reviewer for pair in pairs}),
        "reviewer": reviewer,
        "outcome": outcome,
        "outcomes": OUTCOMES,
        "ratings": [made(row) for row in ratings[:MOST_RATINGS]],
        "all_ratings": len(ratings),
    }


def _with_turns(about: Subject, row: Mapping[str, Any], asked: Prompt, model: str | None) -> EvidenceRow:
    """The row with its calls in the journal, which are found by a hash of the whole prompt."""
    turns = about.place.library.journal.exchange(model, asked)
    return EvidenceRow(row, asked.proved() if turns else asked, turns)


def _rewrites(about: Subject) -> Iterator[EvidenceRow]:
    words = words_note(about.leaderboard)
    for row in rows_by_agent(about.tables.of_task("rewrites", about.place.name)).get(about.agent, []):
        template = about.leaderboard.template(row.get("template"), "the run folder")
        asked = rewrite_prompt(row, template, about.texts.get(about.agent), words=words)
        yield _with_turns(about, row, asked, row.get("rewriter"))
