"""The pages about one task and about one response: the evidence, each piece with its prompt and reply."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from goldless.apps.studio.comparison import OUTCOMES, judged_pairs
from goldless.apps.studio.rendering import page_number
from goldless.apps.studio.site import RunTask, Site
from goldless.apps.studio.task_index import Page
from goldless.evidence import TOKENS
from goldless.reports.report_table import decimals_for
from goldless.runs.prompts import Prompt, Prompts

Row = Mapping[str, Any]
ROWS_A_PAGE = 20
"""Pieces of evidence of one kind per page, each with its prompt."""
MOST_RATINGS = 100


# --- one response ----------------------------------------------------------------------------------------------------


class EvidenceRow(NamedTuple):
    """A piece of evidence with the prompt behind it."""

    row: Row
    asked: Prompt
    tokens: Sequence[tuple[str | None, float]] = ()


def response_evidence(site: Site, place: RunTask, agent: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The evidence about one response, by kind: the rows of the pages that are asked for, each with its prompt."""
    index, name = place.index, place.name
    task, prompts, responses = index.task(name), Prompts(index.run, site.journal), functools.cache(index.responses)
    texts, pieces = responses(name), functools.cache(site.tokenizers.pieces)  # rows share texts

    def logprob(row: Row) -> EvidenceRow:
        scored = place.scored_texts(row, texts)
        values, target = row.get(TOKENS) or [], scored.get(row["target"])
        words: Sequence[str | None] | None = pieces(str(row.get("scorer")), target) if values and target else None
        if words is None or len(words) != len(values):  # of another tokenizer
            words = [None] * len(values)
        return EvidenceRow(row, prompts.logprob(row, task, scored), list(zip(words, values, strict=True)))

    def verdict(row: Row) -> EvidenceRow:
        second = responses(row["second_task"]).get(row["second"])
        return EvidenceRow(row, prompts.verdict(row, texts.get(row["first"]), second))

    def judgement(row: Row) -> EvidenceRow:
        return EvidenceRow(row, prompts.judgement(row, task.prompt, texts))

    def page(kind: str, found: Any, made: Callable[[Any], Any]) -> Page:
        some = Page.of(found, page_number(given.get(kind)), ROWS_A_PAGE)
        return replace(some, rows=list(map(made, some.rows)))

    first, target, condition = (pl.col(column) == agent for column in ("first", "target", "given"))
    second = (pl.col("second") == agent) & (pl.col("second_task") == name)
    logprobs = index.rows("logprobs", name, about=condition | target, tokens=True)
    if len(logprobs):  # first those of others given it, which make its score
        logprobs = logprobs.sort(condition.fill_null(value=False), descending=True, maintain_order=True)
    judgements = index.rows("judgements", name).to_dicts()
    pairs, reviewer, outcome = judged_pairs(judgements, agent), given.get("reviewer"), given.get("outcome")
    shown = [one for one in pairs if reviewer in {None, "", one.reviewer} and outcome in {None, "", one.outcome}]
    ratings = [row for row in judgements if row.get("second") is None and agent in {row.get("agent"), row.get("first")}]
    rewrites = index.rows("rewrites", name, about=pl.col("agent") == agent).to_dicts()
    return {
        "logprobs": page("logprobs", logprobs, logprob),
        "verdicts": page("verdicts", index.rows("verdicts", name, about=first | second), verdict),
        "judgements": {
            "pairs": page("judgements", shown, lambda pair: (pair, list(map(judgement, pair.rows)))),
            "of": len(pairs),
            "counts": Counter(pair.outcome for pair in pairs),
            "reviewers": sorted({pair.reviewer for pair in pairs}),
            "reviewer": reviewer,
            "outcome": outcome,
            "outcomes": OUTCOMES,
            "ratings": [judgement(row) for row in ratings[:MOST_RATINGS]],
            "all_ratings": len(ratings),
        },
        "rewrites": [EvidenceRow(row, prompts.rewrite(row, texts.get(agent))) for row in rewrites],
    }


def response_page(site: Site, given: Mapping[str, str], run: str, number: int, agent_number: int) -> str:
    """The evidence on one response, by task and agent number: each piece with prompt and reply."""
    place = site.task(run, number)
    index, agent = place.index, place.agent(agent_number)
    return site.page(
        "response.html",
        index,
        place=place,
        agent=agent,
        agent_number=agent_number,
        task=index.task(place.name),
        text=index.responses(place.name).get(agent),
        scores={metric: row for (metric, name), row in index.scores_of(place.name).items() if name == agent},
        perturbed=index.rows("perturbed", place.name, about=pl.col("agent") == agent).to_dicts(),
        whole=bool(given.get("whole")),
        **response_evidence(site, place, agent, given),
    )


# --- one task -------------------------------------------------------------------------------------------------------


def task_page(site: Site, given: Mapping[str, str], run: str, number: int) -> str:
    """One task: its prompt, the agents' responses, and their scores."""
    place = site.task(run, number)
    index, name = place.index, place.name
    responses, scores = index.responses(name), index.scores_of(name)
    failed = index.failures.filter(pl.col("task") == name).group_by("agent").agg(pl.len())
    pairs: dict[str, dict[str, Any]] = {}
    for row in index.rows("pair_scores", name).iter_rows(named=True):
        pairs.setdefault(row["metric"], {"rows": {}})["rows"][row["agent"], row["peer"]] = row
    for one in pairs.values():
        there = {agent for pair in one["rows"] for agent in pair}
        one["agents"] = [agent for agent in index.agents if agent in there]
        one["decimals"] = decimals_for(row["score"] for row in one["rows"].values())
    return site.page(
        "task.html",
        place.index,
        place=place,
        task=index.task(name),
        responses=responses,
        agents=[agent for agent in index.agents if agent in responses or any(agent == a for _, a in scores)],
        scores=scores,
        metrics=[m for m in index.metrics if any(m == metric for metric, _ in scores)],
        rewrites=index.rows("rewrites", name).to_dicts(),
        labels=index.rows("labels", name).to_dicts(),
        failures=dict(failed.iter_rows()),
        pairs=pairs,
        whole=bool(given.get("whole")),
    )
