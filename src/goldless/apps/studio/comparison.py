"""Comparisons: two agents of one run or two, two agents task by task, and two responses as judges see them."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import polars as pl

import goldless
from goldless.apps.studio.rendering import page_number
from goldless.apps.studio.site import Site, best_ranked
from goldless.apps.studio.task_index import Page, TaskIndex, scanned
from goldless.errors import UserError
from goldless.grouped import mean_in_order
from goldless.reports.html.blocks import table_html

Given = Mapping[str, str]

# --- two runs --------------------------------------------------------------------------------------------------------


def compare_page(site: Site, given: Given) -> str:
    """The tables of ``goldless compare`` for two agents of one run or of two, or the form to choose them."""
    names = given.get("first") or "", given.get("second") or ""
    shown: dict[str, Any] = {"runs": site.summaries(), "first": names[0], "second": names[1]}
    if all(names):
        indexes = [site.indexed(name) for name in names]
        agents = _agents_of_runs(given, indexes)
        shown |= {"choices": [("one", indexes[0], agents[0]), ("other", indexes[1], agents[1])]}
        folders = dict.fromkeys(index.run.path for index in indexes)
        try:
            comparison = goldless.compare(*folders, agents=agents)
        except UserError as error:
            shown |= {"problem": str(error)}
        else:
            tables = comparison.tables()
            shown |= {
                "notes": [*comparison.warnings, *(note for table in tables for note in table.notes)],
                "tables": [(table.title, table_html(table.columns, table.rows, table.title)) for table in tables],
                "signature": tables[0].signature,
            }
    return site.page("compare.html", **shown)


def _agents_of_runs(given: Given, indexes: Sequence[TaskIndex]) -> tuple[str, str]:
    """The agent of each run: as named, or the best ranked one, in two runs the same where both have it."""
    of_first, of_second = ([*(row.agent for row in best_ranked(one.run)[1]), *one.agents] for one in indexes)
    same_run = indexes[0].run.path == indexes[1].run.path
    one = indexes[0].agent(given.get("one")) or next((name for name in of_first if name in of_second), of_first[0])
    others = [name for name in of_second if (name != one) == same_run]
    other = indexes[1].agent(given.get("other")) or (others or of_second)[0]
    return one, other


# --- two agents ------------------------------------------------------------------------------------------------------

TASKS_A_PAGE = 10
MOST_WORDS = 800
"""Of a text whose differing words are marked: the time to find them grows with the square."""
LEAST_COMMON = 0.5
"""Share of the shorter text's words that the other must have, in order: else nearly all would be marked."""
BETTER = ("one", "other", "equal", "unknown")
Piece = tuple[bool, str]
"""True if the words are only in this text; the words."""


def side_by_side_page(site: Site, given: Given, name: str) -> str:
    """Two agents, task by task, the largest difference first."""
    index = site.indexed(name)
    one, other = _two_agents(given, index)
    metric, better = index.metric(given.get("metric")), given.get("better") or None
    if better is not None and better not in BETTER:
        raise UserError(f"better must be one of {', '.join(BETTER)}, got {better!r}")
    query = {"one": one, "other": other, "metric": metric, "better": better}
    found = differences(index, metric, one, other)
    totals = Counter(found["better"].to_list())
    if given.get("q"):
        found = found.join(index.matching(given["q"][:200]), on="task", how="semi", maintain_order="left")
    page = Page.of(
        found.filter(better is None or pl.col("better") == better), page_number(given.get("page")), TASKS_A_PAGE
    )
    rows = two_texts(index, [row["task"] for row in page.rows], one, other)
    shown = {"query": query | {"q": given.get("q")}, "counts": totals, "found": page, "rows": rows}
    return site.page("side_by_side.html", index, **query, **shown)


def _two_agents(given: Given, index: TaskIndex) -> tuple[str, str]:
    """The agents in the address; where one is not named, the best ranked of the others."""
    if len(index.agents) < 2:
        raise UserError(f"two agents are needed to compare them, and the run {index.run.name} has {len(index.agents)}")
    one, other = index.agent(given.get("one")), index.agent(given.get("other"))
    ranked = [row.agent for row in best_ranked(index.run)[1] if row.agent in index.agents]
    order = [*ranked, *index.agents]
    one = one or next(agent for agent in order if agent != other)
    other = other or next(agent for agent in order if agent != one)
    if one == other:
        raise UserError(f"choose two different agents, got {one!r} twice")
    return one, other


def differences(index: TaskIndex, metric: str | None, one: str, other: str) -> pl.DataFrame:
    """All tasks, largest difference first: task, number, difference (one minus other; null: unknown), better.

    Under a pairwise review it is the share of the comparisons between the two that the one won less the share it lost.
    """
    if index.pairwise(metric):
        on_scale = pl.col("format") == str(metric).removeprefix("review: ")
        rows = index.rows("judgements", about=on_scale & _both(one, other))
        first, value = pl.col("first"), pl.col("value")
        worth = pl.when(first == one).then(2 * value - 1).otherwise(1 - 2 * value)
        found = rows.group_by("task").agg(mean_in_order(worth).alias("difference"))
    else:
        scores = index.scores.filter(pl.col("metric") == (metric or ""))
        mine, theirs = (scores.filter(pl.col("agent") == agent).select("task", "score") for agent in (one, other))
        both = mine.join(theirs, on="task", suffix="_other")
        found = both.select("task", (pl.col("score") - pl.col("score_other")).alias("difference"))
    sign = pl.col("difference").sign().cast(pl.Int8)
    better = sign.replace_strict({1: "one", -1: "other", 0: "equal"}, default="unknown", return_dtype=pl.String)
    return (
        index.prompts.select("task", "number")
        .join(found, on="task", how="left", maintain_order="left")
        .with_columns(better.alias("better"))
        .sort(pl.col("difference").abs(), "number", descending=[True, False], nulls_last=True)
    )


def two_texts(index: TaskIndex, tasks: Sequence[str], one: str, other: str) -> list[dict[str, Any]]:
    """The two texts on each task, and who did better under each metric and for each judge."""
    if not tasks:
        return []
    answers = {(row["task"], row["agent"]): row["text"] for row in index.rows("responses", *tasks).to_dicts()}
    prompts = {row["task"]: row.get("prompt") for row in index.rows("tasks", *tasks).to_dicts()}
    judged: dict[str, list[dict[str, Any]]] = {}
    for table in ("judgements", "labels"):  # of reviewers and of people
        compares = scanned(index.run, table, "first", "second") is not None
        for row in index.rows(table, *tasks, about=_both(one, other)).to_dicts() if compares else ():
            if table == "labels":
                person = f"{row['rater']} (person{', ' + row['criterion'] if row.get('criterion') else ''})"
                value = (1 + (row["preference"] > 0) - (row["preference"] < 0)) / 2
                row |= {"reviewer": person, "format": "", "value": value}
            judged.setdefault(row["task"], []).append(row)
    found = []
    for task in tasks:
        scores = index.scores_of(task)
        values = {m: [scores.get((m, agent), {}).get("score") for agent in (one, other)] for m in index.metrics}
        found.append(
            {
                "number": index.numbers[task],
                "task": task,
                "prompt": prompts.get(task),
                "texts": marked_words(answers.get((task, one)), answers.get((task, other))),
                "scores": {metric: both for metric, both in values.items() if both != [None, None]},
                "judges": {pair.reviewer: pair.outcome for pair in judged_pairs(judged.get(task, ()), one)},
            }
        )
    return found


def _both(one: str, other: str) -> pl.Expr:
    """The comparisons of two agents, in either order."""
    first, second = pl.col("first"), pl.col("second")
    return ((first == one) & (second == other)) | ((first == other) & (second == one))


def marked_words(one: str | None, other: str | None) -> Sequence[Sequence[Piece] | None]:
    """Both texts in pieces, those words marked that only one has: not in long texts, nor in those of other words."""
    plain = [None if text is None else [(False, text)] for text in (one, other)]
    if one is None or other is None:
        return plain
    words = [re.findall(r"\S+\s*|\s+", text) for text in (one, other)]
    if max(map(len, words)) > MOST_WORDS:
        return plain
    left, right = ([word.strip().casefold() for word in side] for side in words)
    matched = difflib.SequenceMatcher(None, left, right, autojunk=False)
    if sum(same.size for same in matched.get_matching_blocks()) < LEAST_COMMON * min(map(len, words)):
        return plain
    pieces: tuple[list[Piece], list[Piece]] = ([], [])
    for kind, *ends in matched.get_opcodes():
        for side, (begin, end) in enumerate((ends[:2], ends[2:])):
            text = "".join(words[side][begin:end])
            # the space after the last word is not a word
            bare = text.rstrip()
            pieces[side].extend([(kind != "equal", bare)] * bool(bare) + [(False, text[len(bare) :])])
    return pieces


# --- two responses, by their judges ----------------------------------------------------------------------------------

Outcome = Literal["won", "lost", "tied", "depends on the order", "no verdict"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True)
class JudgedPair:
    """One reviewer's comparisons of a response with another one."""

    reviewer: str
    format: str
    other: str
    """The agent of the other response."""
    rows: tuple[Mapping[str, Any], ...]
    """As stored, those with the response shown first before those with it shown second."""
    verdicts: tuple[tuple[bool, Outcome], ...]
    """For each row: whether the response was shown first, and how it did."""

    @property
    def outcome(self) -> Outcome:
        found = {outcome for _, outcome in self.verdicts} - {"no verdict"}
        if len(found) == 1:
            return found.pop()
        return "depends on the order" if found else "no verdict"


def judged_pairs(rows: Iterable[Mapping[str, Any]], agent: str) -> list[JudgedPair]:
    """The comparisons of an agent's response, by reviewer and other agent, both orders of a pair together."""
    found: dict[tuple[str, str, str], list[tuple[bool, Mapping[str, Any]]]] = {}
    for row in rows:
        first, second = row.get("first"), row.get("second")
        if second is not None and agent in (first, second):
            key = str(row["reviewer"]), str(row["format"]), str(second if first == agent else first)
            found.setdefault(key, []).append((first == agent, row))
    pairs = []
    for key, some in found.items():
        ordered = sorted(some, key=lambda one: not one[0])
        verdicts = tuple((first, _verdict(row.get("value"), first=first)) for first, row in ordered)
        pairs.append(JudgedPair(*key, tuple(row for _, row in ordered), verdicts))
    return pairs


def _verdict(value: float | None, *, first: bool) -> Outcome:
    """The outcome for a response, from the value of a comparison (1: the first is better) and its place in it."""
    if value is None:
        return "no verdict"
    worth = value if first else 1 - value
    return "tied" if worth == 0.5 else "won" if worth > 0.5 else "lost"
