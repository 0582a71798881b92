"""Two agents side by side: their texts task by task, where they differ most first, and who did better."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import polars as pl

from goldless.errors import UserError
from goldless.grouped import mean_in_order
from goldless.reports.html.labels import decimals_for
from goldless.viewer.judged_pairs import Outcome, judged_pairs
from goldless.viewer.library import Library, RunSummary, ranked
from goldless.viewer.links import Links
from goldless.viewer.rendering import render
from goldless.viewer.run_pages import page_number
from goldless.viewer.task_index import TaskIndex, paged

TASKS_A_PAGE = 10
MOST_WORDS = 800
"""Of a text whose differing words are marked: the time to find them grows with the square."""
Better = Literal["one", "other", "equal", "unknown"]
BETTER: tuple[Better, ...] = get_args(Better)
Piece = tuple[bool, str]
"""Whether the words are only in this text, and the words."""


@dataclass(frozen=True, slots=True)
class TwoScores:
    """Two agents under one metric on one task."""

    metric: str
    one: float | None
    other: float | None
    decimals: int

    @property
    def better(self) -> Better:
        """Who has the higher score."""
        if self.one is None or self.other is None:
            return "unknown"
        return "equal" if self.one == self.other else "one" if self.one > self.other else "other"


@dataclass(frozen=True, slots=True)
class TwoTexts:
    """One task of the page."""

    number: int
    task: str
    prompt: str | None
    one: Sequence[Piece] | None
    """None: no response."""
    other: Sequence[Piece] | None
    marked: bool
    """Whether differing words are marked; if not, the texts are too long."""
    scores: tuple[TwoScores, ...]
    judges: Mapping[str, Outcome]
    """How the one did against the other, by reviewer or, as ``NAME (person)``, by rater."""


def side_by_side_page(library: Library, links: Links, name: str, given: Mapping[str, str]) -> str:
    """Two agents, task by task."""
    run = library.run(name)
    index = library.index(run)
    if len(index.agents) < 2:
        raise UserError(f"two agents are needed to compare them, and the run {name} has {len(index.agents)}")
    one, other = _agents(given, index, [agent for agent, _ in ranked(run)])
    metric = _metric(given.get("metric"), index)
    better = given.get("better") or None
    if better is not None and better not in BETTER:
        raise UserError(f"better must be one of {', '.join(BETTER)}, got {better!r}")
    found = differences(index, metric, one, other)
    counts = Counter(found["better"].to_list())
    if given.get("q"):
        found = found.join(index.matching(given["q"][:200]), on="task", how="semi", maintain_order="left")
    found = found.filter(better is None or pl.col("better") == better)
    page, pages, begin = paged(len(found), page_number(given.get("page")), TASKS_A_PAGE)
    shown = found.slice(begin, TASKS_A_PAGE)
    query = {"one": one, "other": other, "metric": metric, "better": better, "q": given.get("q")}
    return render(
        "side_by_side.html",
        links,
        run=RunSummary.of(run),
        index=index,
        one=one,
        other=other,
        metric=metric,
        better=better,
        query=query,
        counts=counts,
        total=len(found),
        rows=two_texts(index, shown["task"].to_list(), one, other),
        numbers=(index.agent_numbers[one], index.agent_numbers[other]),
        page=page,
        pages=pages,
    )


def _agents(given: Mapping[str, str], index: TaskIndex, ranked: Sequence[str]) -> tuple[str, str]:
    """The agents in the address; where one is not named, the best ranked of the others."""
    names = index.agent_names
    for agent in (given.get("one"), given.get("other")):
        if agent and agent not in names:
            raise UserError(f"no agent {agent!r} in this run")
    order = [agent for agent in dict.fromkeys([*ranked, *names]) if agent in names]
    one = given.get("one") or next(agent for agent in order if agent != given.get("other"))
    other = given.get("other") or next(agent for agent in order if agent != one)
    if one == other:
        raise UserError(f"choose two different agents, got {one!r} twice")
    return one, other


def _metric(asked: str | None, index: TaskIndex) -> str | None:
    if asked and asked not in index.metrics:
        raise UserError(f"no scores of {asked!r} in this run. It has: {', '.join(index.metrics) or 'none'}")
    return asked or next(iter(index.metrics), None)


# --- where they differ most ------------------------------------------------------------------------------------------


def differences(index: TaskIndex, metric: str | None, one: str, other: str) -> pl.DataFrame:
    """All tasks, largest difference first: task, number, difference (one minus other; null: unknown), better.

    Under a pairwise review it is the share of the comparisons between the two that the one won less the share it lost.
    """
    pairs = index.pairwise(metric)
    found = _between(index, str(metric), one, other) if pairs else _score_differences(index, metric, one, other)
    difference = pl.col("difference")
    better = (
        pl.when(difference.is_null())
        .then(pl.lit("unknown"))
        .when(difference == 0)
        .then(pl.lit("equal"))
        .when(difference > 0)
        .then(pl.lit("one"))
        .otherwise(pl.lit("other"))
    )
    return (
        index.prompts.select("task", "number")
        .join(found, on="task", how="left", maintain_order="left")
        .with_columns(better.alias("better"))
        .sort(difference.abs(), "number", descending=[True, False], nulls_last=True)
    )


def _score_differences(index: TaskIndex, metric: str | None, one: str, other: str) -> pl.DataFrame:
    scores = index.scores.filter(pl.col("metric") == metric) if metric is not None else index.scores.clear()
    first, second = (scores.filter(pl.col("agent") == agent).select("task", "score") for agent in (one, other))
    both = first.join(second, on="task", suffix="_other")
    return both.select("task", (pl.col("score") - pl.col("score_other")).alias("difference"))


def _between(index: TaskIndex, metric: str, one: str, other: str) -> pl.DataFrame:
    frame = index.tables.scan("judgements")
    assert frame is not None
    value = pl.col("value").cast(pl.Float64)
    first, second = pl.col("first"), pl.col("second")
    rows = frame.filter(
        (pl.col("format") == metric.removeprefix("review: "))
        & (((first == one) & (second == other)) | ((first == other) & (second == one)))
    )
    worth = pl.when(first == one).then(value).otherwise(1 - value)
    won = rows.select(pl.col("task").cast(pl.String), worth.alias("worth")).group_by("task")
    return (
        won.agg(mean_in_order(pl.col("worth"))).select("task", (2 * pl.col("worth") - 1).alias("difference")).collect()
    )


# --- the tasks of a page -------------------------------------------------------------------------------------------


def two_texts(index: TaskIndex, tasks: Sequence[str], one: str, other: str) -> list[TwoTexts]:
    """The two texts on each task, and who did better under each metric and for each judge."""
    texts: dict[tuple[str, str], str] = {}
    for row in _rows(index, "responses", tasks, pl.col("agent").is_in([one, other]), ("task", "agent", "text")):
        texts[row["task"], row["agent"]] = row["text"]
    prompts = {row["task"]: row.get("prompt") for row in _rows(index, "tasks", tasks, pl.lit(True), ("task", "prompt"))}
    judged = _judged(index, tasks, one, other)
    found = []
    for task in tasks:
        first, second, marked = marked_words(texts.get((task, one)), texts.get((task, other)))
        scores = tuple(_two_scores(index, task, one, other))
        judges = {pair.reviewer: pair.outcome for pair in judged_pairs(judged.get(task, ()), one)}
        number = index.numbers[task]
        found.append(TwoTexts(number, task, prompts.get(task), first, second, marked, scores, judges))
    return found


def _rows(
    index: TaskIndex, table: str, tasks: Sequence[str], wanted: pl.Expr, columns: Sequence[str]
) -> list[dict[str, Any]]:
    """The wanted rows of some tasks, with only these columns; none if the table has no tasks."""
    frame, there = index.tables.scan(table), index.tables.columns(table)
    if frame is None or "task" not in there:
        return []
    rows = frame.select(name for name in columns if name in there)
    return rows.filter(pl.col("task").is_in(list(tasks)) & wanted).collect().to_dicts()


def _judged(index: TaskIndex, tasks: Sequence[str], one: str, other: str) -> dict[str, list[dict[str, Any]]]:
    """Comparisons of the two by reviewers and by people, by task."""
    found: dict[str, list[dict[str, Any]]] = {}
    for table, columns in (
        ("judgements", ("task", "reviewer", "format", "first", "second", "value")),
        ("labels", ("task", "rater", "criterion", "first", "second", "preference")),
    ):
        if {"first", "second"} <= set(index.tables.columns(table)):
            both = pl.col("first").is_in([one, other]) & pl.col("second").is_in([one, other])
            for row in _rows(index, table, tasks, both, columns):
                person = {"reviewer": _person(row), "format": "", "value": _share(row)} if table == "labels" else {}
                found.setdefault(row["task"], []).append(row | person)
    return found


def _two_scores(index: TaskIndex, task: str, one: str, other: str) -> list[TwoScores]:
    scores = index.of_task(task)
    found = []
    for metric in index.metrics:
        first, second = (_score(scores.get((metric, agent))) for agent in (one, other))
        if first is not None or second is not None:
            found.append(TwoScores(metric, first, second, decimals_for([first, second])))
    return found


def _score(row: Mapping[str, Any] | None) -> float | None:
    return None if row is None else row["score"]


def _person(row: Mapping[str, Any]) -> str:
    return f"{row['rater']} (person{', ' + row['criterion'] if row.get('criterion') else ''})"


def _share(row: Mapping[str, Any]) -> float:
    """A preference as a comparison has it: 1 where the first is better."""
    return 0.5 if row["preference"] == 0 else float(row["preference"] > 0)


def marked_words(one: str | None, other: str | None) -> tuple[Sequence[Piece] | None, Sequence[Piece] | None, bool]:
    """Both texts in pieces, words that only one has being marked; and whether the texts are short enough for that."""
    if one is None or other is None:
        alone = [None if text is None else [(False, text)] for text in (one, other)]
        return alone[0], alone[1], True
    words = [re.findall(r"\S+\s*|\s+", text) for text in (one, other)]
    if max(map(len, words)) > MOST_WORDS:
        return [(False, one)], [(False, other)], False
    plain = [[word.strip().casefold() for word in side] for side in words]
    pieces: tuple[list[Piece], list[Piece]] = ([], [])
    for kind, *ends in difflib.SequenceMatcher(None, plain[0], plain[1], autojunk=False).get_opcodes():
        for side, (begin, end) in enumerate((ends[:2], ends[2:])):
            text = "".join(words[side][begin:end])
            # the space after the last word is not a word
            bare = text.rstrip()
            pieces[side].extend([(kind != "equal", bare)] * bool(bare) + [(False, text[len(bare) :])])
    return *pieces, True
