"""The page about one task, its responses side by side, and that about one response: the evidence, with prompts."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from goldless.apps.studio.comparison import OUTCOMES, judged_pairs
from goldless.apps.studio.information_map import Token
from goldless.apps.studio.prompts import Prompt, Prompts
from goldless.apps.studio.rendering import page_number
from goldless.apps.studio.site import RunTask, Site
from goldless.apps.studio.task_index import Page
from goldless.evidence import TOKENS
from goldless.reports.html.labels import decimals_for

ROWS_A_PAGE = 20
"""Pieces of evidence of one kind per page, each with its prompt."""
MOST_RATINGS = 100
Row = Mapping[str, Any]


def task_page(site: Site, given: Mapping[str, str], run: str, number: int) -> str:
    """One task: its prompt, the agents' responses, and their scores."""
    place = site.task(run, number)
    index, name = place.index, place.name
    responses, scores = index.responses(name), index.scores_of(name)
    failed = index.failures.filter(pl.col("task") == name).group_by("agent").agg(pl.col("count").sum())
    pairs: dict[str, dict[str, Any]] = {}
    for row in index.rows("pair_scores", name).iter_rows(named=True):
        pairs.setdefault(row["metric"], {"rows": {}})["rows"][row["agent"], row["peer"]] = row
    for one in pairs.values():
        there = {agent for pair in one["rows"] for agent in pair}
        one["agents"] = [agent for agent in index.agents if agent in there]
        one["decimals"] = decimals_for(row["score"] for row in one["rows"].values())
    return site.page(
        "task.html",
        run=site.summary(place.run),
        place=place,
        task=index.task(name),
        responses=responses,
        agents=[agent for agent in index.agents if agent in responses or any(agent == a for _, a in scores)],
        scores=scores,
        metrics=[m for m in index.metrics if any(m == metric for metric, _ in scores)],
        decimals=_decimals((metric, row["score"]) for (metric, _), row in scores.items()),
        rewrites=index.rows("rewrites", name).to_dicts(),
        labels=index.rows("labels", name).to_dicts(),
        failures=dict(failed.iter_rows()),
        pairs=pairs,
        whole=bool(given.get("whole")),
    )


def _decimals(scores: Iterable[tuple[str, Any]]) -> dict[str, int]:
    """The number of decimals for the scores of each metric."""
    found: dict[str, list[float | None]] = {}
    for metric, score in scores:
        found.setdefault(metric, []).append(score)
    return {metric: decimals_for(values) for metric, values in found.items()}


# --- one response ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """A piece of evidence with the prompt behind it."""

    row: Row
    asked: Prompt
    tokens: Sequence[Token] = ()


class Evidence:
    """The evidence about one response."""

    def __init__(self, site: Site, place: RunTask, agent: str) -> None:
        self.place = place
        self.agent = agent
        self.task = place.index.task(place.name)
        self.texts = place.index.responses(place.name)
        self._site = site
        self._prompts = Prompts(place.run, site.journal)

    def _rows(self, table: str, about: pl.Expr, *, tokens: bool = False) -> pl.DataFrame:
        return self.place.index.rows(table, self.place.name, about=about, tokens=tokens)

    def logprobs(self, page: int = 1) -> Page:
        """Log-probabilities about the response: first of others given it, which make its score, then of itself."""
        given = pl.col("given").eq_missing(self.agent)
        frame = self._rows("logprobs", given | (pl.col("target") == self.agent), tokens=True)
        frame = frame.sort(given, descending=True, maintain_order=True) if len(frame) else frame
        found = Page.of(frame, page, ROWS_A_PAGE)
        pieces = functools.cache(self._site.tokenizers.pieces)  # rows share texts

        def made(row: Row) -> EvidenceRow:
            scored = self.place.scored_texts(row, self.texts)
            values, target = row.get(TOKENS) or [], scored.get(row["target"])
            words: Sequence[str | None] | None = pieces(str(row.get("scorer")), target) if values and target else None
            if words is None or len(words) != len(values):  # of another tokenizer
                words = [None] * len(values)
            asked = self._prompts.logprob(row, self.task, scored)
            return EvidenceRow(row, asked, list(zip(words, values, strict=True)))

        return replace(found, rows=list(map(made, found.rows)))

    def verdicts(self, page: int = 1) -> Page:
        """Verdicts of the critic on the response, first or second."""
        second = (pl.col("second") == self.agent) & (pl.col("second_task") == self.place.name)
        found = Page.of(self._rows("verdicts", (pl.col("first") == self.agent) | second), page, ROWS_A_PAGE)
        tasks = {row["second_task"] for row in found.rows}
        others = {task: self.place.index.responses(task) for task in tasks}
        rows = []
        for row in found.rows:
            texts = self.texts.get(row["first"]), others[row["second_task"]].get(row["second"])
            rows.append(EvidenceRow(row, self._prompts.verdict(row, *texts)))
        return replace(found, rows=rows)

    def judgements(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Comparisons with other responses, both orders together, and ratings: those of a page, with their prompts."""
        rows = self.place.index.rows("judgements", self.place.name).to_dicts()
        pairs = judged_pairs(rows, self.agent)
        reviewer, outcome = given.get("reviewer") or None, given.get("outcome") or None
        shown = [pair for pair in pairs if reviewer in {None, pair.reviewer} and outcome in {None, pair.outcome}]

        def made(row: Row) -> EvidenceRow:
            return EvidenceRow(row, self._prompts.judgement(row, self.task.prompt, self.texts))

        page = Page.of(shown, page_number(given.get("judgements")), ROWS_A_PAGE)
        ratings = [
            row for row in rows if row.get("second") is None and self.agent in {row.get("agent"), row.get("first")}
        ]
        return {
            "pairs": replace(page, rows=[(pair, list(map(made, pair.rows))) for pair in page.rows]),
            "of": len(pairs),
            "counts": Counter(pair.outcome for pair in pairs),
            "reviewers": sorted({pair.reviewer for pair in pairs}),
            "reviewer": reviewer,
            "outcome": outcome,
            "outcomes": OUTCOMES,
            "ratings": [made(row) for row in ratings[:MOST_RATINGS]],
            "all_ratings": len(ratings),
        }

    def rewrites(self) -> list[EvidenceRow]:
        rows = self._rows("rewrites", pl.col("agent") == self.agent).to_dicts()
        return [EvidenceRow(row, self._prompts.rewrite(row, self.texts.get(self.agent))) for row in rows]


def response_page(site: Site, given: Mapping[str, str], run: str, number: int, agent_number: int) -> str:
    """The evidence on one response, by task and agent number: each piece with prompt and reply."""
    place = site.task(run, number)
    about = Evidence(site, place, place.agent(agent_number))
    scores = {metric: row for (metric, name), row in place.index.scores_of(place.name).items() if name == about.agent}
    return site.page(
        "response.html",
        run=site.summary(place.run),
        place=place,
        agent=about.agent,
        agent_number=agent_number,
        task=about.task,
        text=about.texts.get(about.agent),
        scores=scores,
        decimals=_decimals((metric, row["score"]) for metric, row in scores.items()),
        logprobs=about.logprobs(page_number(given.get("logprobs"))),
        verdicts=about.verdicts(page_number(given.get("verdicts"))),
        judgements=about.judgements(given),
        rewrites=about.rewrites(),
        perturbed=place.index.rows("perturbed", place.name, about=pl.col("agent") == about.agent).to_dicts(),
        whole=bool(given.get("whole")),
    )
