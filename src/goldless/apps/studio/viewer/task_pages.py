"""The page about one task, its responses side by side, and that about one response: the evidence, with prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from goldless.apps.studio.viewer.comparison import OUTCOMES, judged_pairs
from goldless.apps.studio.viewer.information_map import Token
from goldless.apps.studio.viewer.library import Library, RunSummary, RunTask
from goldless.apps.studio.viewer.links import Links
from goldless.apps.studio.viewer.prompts import Prompt, Prompts
from goldless.apps.studio.viewer.rendering import page_number, render
from goldless.apps.studio.viewer.task_index import Page
from goldless.records import Task
from goldless.reports.html.labels import decimals_for

ROWS_A_PAGE = 20
"""Pieces of evidence of one kind per page, each with its prompt."""
MOST_RATINGS = 100


def task_page(library: Library, links: Links, given: Mapping[str, str], run: str, number: int) -> str:
    """One task: its prompt, the agents' responses, and their scores."""
    place = library.task(run, number)
    index, name = place.index, place.name
    responses, scores = index.responses(name), index.scores_of(name)
    failed = index.failures.filter(pl.col("task") == name).group_by("agent").agg(pl.col("count").sum())
    return render(
        "task.html",
        links,
        run=RunSummary.of(place.run),
        place=place,
        task=index.task(name),
        responses=responses,
        agents=[agent for agent in index.agent_numbers if agent in responses or any(agent == a for _, a in scores)],
        scores=scores,
        metrics=[m for m in index.metrics if any(m == metric for metric, _ in scores)],
        decimals=_decimals((metric, row["score"]) for (metric, _), row in scores.items()),
        rewrites=index.rows("rewrites", name).to_dicts(),
        labels=index.rows("labels", name).to_dicts(),
        failures=dict(failed.iter_rows()),
        pairs=_pair_scores(place),
        whole=bool(given.get("whole")),
    )


def _decimals(scores: Iterable[tuple[str, Any]]) -> dict[str, int]:
    """The number of decimals for the scores of each metric."""
    found: dict[str, list[float | None]] = {}
    for metric, score in scores:
        found.setdefault(metric, []).append(score)
    return {metric: decimals_for(values) for metric, values in found.items()}


def _pair_scores(place: RunTask) -> dict[str, dict[str, Any]]:
    """By metric: the agents in the table of pairs, their rows by agent and peer, and how to format them."""
    found: dict[str, dict[str, Any]] = {}
    for row in place.index.rows("pair_scores", place.name).iter_rows(named=True):
        one = found.setdefault(row["metric"], {"rows": {}})
        one["rows"][row["agent"], row["peer"]] = row
    for one in found.values():
        there = {agent for pair in one["rows"] for agent in pair}
        one["agents"] = [name for name in place.index.agent_numbers if name in there]
        one["decimals"] = decimals_for(row["score"] for row in one["rows"].values())
    return found


# --- one response ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """A piece of evidence with the prompt behind it."""

    row: Mapping[str, Any]
    asked: Prompt
    tokens: Sequence[Token] = ()


class Evidence:
    """The evidence about one response."""

    def __init__(self, place: RunTask, agent: str) -> None:
        self.place = place
        self.agent = agent
        self.task: Task = place.index.task(place.name)
        self.texts = place.index.responses(place.name)
        self._prompts = Prompts(place.run.leaderboard, place.run.review, place.library.journal)

    def _rows(self, table: str, wanted: pl.Expr) -> pl.DataFrame:
        frame = self.place.index.rows(table, self.place.name)
        return frame.filter(wanted) if len(frame) else frame

    def logprobs(self, page: int = 1) -> Page:
        """Log-probabilities about the response: first of others given it, which make its score, then of itself."""
        given = pl.col("given").eq_missing(self.agent)
        frame = self._rows("logprobs", given | (pl.col("target") == self.agent))
        frame = frame.sort(given, "row", descending=[True, False]) if len(frame) else frame
        found = Page.of(frame, page, ROWS_A_PAGE)
        tokens = self.place.index.token_values(row["row"] for row in found.rows)
        pieces: dict[tuple[str, str], tuple[str, ...] | None] = {}

        def made(row: Mapping[str, Any]) -> EvidenceRow:
            scored = self.place.scored_texts(row, self.texts)
            values, key = tokens.get(row["row"], []), (str(row.get("scorer")), scored.get(row["target"], ""))
            if values and key[1] and key not in pieces:
                pieces[key] = self.place.library.tokenizers.pieces(*key)
            words: Sequence[str | None] | None = pieces.get(key)
            if words is None or len(words) != len(values):  # of another tokenizer
                words = [None] * len(values)
            asked = self._prompts.logprob(row, self.task, scored)
            return EvidenceRow(row, asked, list(zip(words, values, strict=True)))

        return replace(found, rows=list(map(made, found.rows)))

    def verdicts(self, page: int = 1) -> Page:
        """Verdicts of the critic on the response, first or second."""
        second = (pl.col("second") == self.agent) & (pl.col("second_task") == self.place.name)
        others = {self.place.name: self.texts}

        def made(row: Mapping[str, Any]) -> EvidenceRow:
            task = row["second_task"]
            if task not in others:
                others[task] = self.place.index.responses(task)
            return EvidenceRow(
                row, self._prompts.verdict(row, self.texts.get(row["first"]), others[task].get(row["second"]))
            )

        found = Page.of(self._rows("verdicts", (pl.col("first") == self.agent) | second), page, ROWS_A_PAGE)
        return replace(found, rows=list(map(made, found.rows)))

    def judgements(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Comparisons with other responses, both orders together, and ratings: those of a page, with their prompts."""
        rows = self.place.index.rows("judgements", self.place.name).to_dicts()
        pairs = judged_pairs(rows, self.agent)
        reviewer, outcome = given.get("reviewer") or None, given.get("outcome") or None
        shown = [
            pair
            for pair in pairs
            if (reviewer is None or pair.reviewer == reviewer) and (outcome is None or pair.outcome == outcome)
        ]

        def made(row: Mapping[str, Any]) -> EvidenceRow:
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

    def rewrites(self) -> Iterator[EvidenceRow]:
        """Its rewrites."""
        for row in self._rows("rewrites", pl.col("agent") == self.agent).to_dicts():
            yield EvidenceRow(row, self._prompts.rewrite(row, self.texts.get(self.agent)))

    def perturbed(self) -> list[dict[str, Any]]:
        """Its perturbed versions in a crash test."""
        return self._rows("perturbed", pl.col("agent") == self.agent).to_dicts()


def response_page(library: Library, links: Links, given: Mapping[str, str], run: str, *numbers: int) -> str:
    """The evidence on one response, by task and agent number: each piece with prompt and reply."""
    number, agent_number = numbers
    place = library.task(run, number)
    about = Evidence(place, place.agent(agent_number))
    scores = {metric: row for (metric, name), row in place.index.scores_of(place.name).items() if name == about.agent}
    return render(
        "response.html",
        links,
        run=RunSummary.of(place.run),
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
        rewrites=list(about.rewrites()),
        perturbed=about.perturbed(),
        whole=bool(given.get("whole")),
    )
