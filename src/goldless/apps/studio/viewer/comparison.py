"""Comparisons: two runs under one metric, two agents task by task, and two responses sentence by sentence."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from markupsafe import Markup

from goldless.apps.studio.viewer.information_map import PairMap, stored_map
from goldless.apps.studio.viewer.library import Library, PageNotFoundError, RunSummary, RunTask, ranked_agents
from goldless.apps.studio.viewer.links import Links
from goldless.apps.studio.viewer.rendering import PLOT, bar, linked, page_number, render
from goldless.apps.studio.viewer.task_index import Page, TaskIndex, scanned
from goldless.errors import GoldlessError, UserError
from goldless.grouped import mean_in_order
from goldless.reports.html.blocks import counts, table_html, texts
from goldless.reports.html.labels import decimals_for
from goldless.reports.report_table import Column
from goldless.reports.run_folder import RunFolder
from goldless.signature import Signature
from goldless.statistics.bootstrap import task_intervals

RESAMPLES = 2_000
LEVEL = 0.95
TASKS_SHOWN = 100

# --- two runs --------------------------------------------------------------------------------------------------------


def compare_page(library: Library, links: Links, given: Mapping[str, str]) -> str:
    """Two runs compared, or the form to choose them."""
    names = given.get("first") or "", given.get("second") or ""
    metrics: list[str] = []
    values: dict[str, Any] = {}
    if all(names):
        runs = [library.run(name) for name in names]
        first, second = map(library.index, runs)
        metrics = [metric for metric in first.metrics if metric in second.metrics]
        if metrics:
            asked = given.get("metric")
            metric = asked if asked in metrics else metrics[0]
            prints = [run.fingerprint for run in runs]
            values = _run_comparison(links, names, (first, second), metric) | {
                "chosen": metric,
                "same_study": None if "" in prints else prints[0] == prints[1],
                **_settings(names, [_signature(run, metric) for run in runs]),
            }
    summaries = library.summaries()
    shown = {"runs": summaries, "first": names[0], "second": names[1], "metrics": metrics}
    return render("compare.html", links, **shown, found=bool(values), level=LEVEL, resamples=RESAMPLES, **values)


def _run_comparison(
    links: Links, names: tuple[str, str], indexes: tuple[TaskIndex, TaskIndex], metric: str
) -> dict[str, Any]:
    """Paired differences, second minus first, over the responses that both runs scored: by agent and by task."""
    one, two = (index.scores.filter(pl.col("metric") == metric) for index in indexes)
    both = one.join(two, on=("task", "agent"), suffix="_second", maintain_order="left")
    both = both.filter(pl.col("score").is_not_null() & pl.col("score_second").is_not_null())
    agents = agent_differences(both, [name for name in indexes[0].agent_numbers if name in set(both["agent"])])
    tasks = task_differences(both)
    decimals = decimals_for(row[side] for row in agents for side in ("first", "second"))
    sides = [Column(key, name, "number", "-", decimals) for key, name in zip(("first", "second"), names, strict=True)]
    difference = Column("difference", "difference", "signed", decimals=decimals)
    interval = Column("low high", "interval", "signed interval", "", decimals, reason="note")
    ends = [0.0, *(end for row in agents for end in (row["low"], row["high"]) if end is not None)]
    plots = [bar(row["difference"], row["low"], row["high"], min(ends), max(ends)) for row in agents]
    by_agent = (Column("agent", "agent", "name"), *sides, difference, interval, PLOT, *counts(n="tasks"))
    by_task = (Column("task", "task", "name"), *sides, difference, *counts(agents="agents"))
    rows = []
    for row in tasks[:TASKS_SHOWN].to_dicts():
        here, there = (
            None if (number := index.numbers.get(row["task"])) is None else links.to("task", name, number)
            for name, index in zip(names, indexes, strict=True)
        )
        rows.append({**row, "task": linked(row["task"], here), "other": linked("open", there)})
    only = [len(set(mine["task"]) - set(theirs["task"])) for mine, theirs in ((one, two), (two, one))]
    return {
        "by_agent": table_html(
            (*by_agent, Column("reading", "reading")),
            [{**row, "plot": plot} for row, plot in zip(agents, plots, strict=True)],
            "By agent",
            class_="hidden",
        ),
        "by_task": table_html((*by_task, Column("other", f"in {names[1]}")), rows, "By task", class_="hidden"),
        "agents": len(agents),
        "tasks": len(tasks),
        "only": only,
    }


def agent_differences(both: pl.DataFrame, agents: Sequence[str]) -> list[dict[str, Any]]:
    """By agent, the mean over agents first: both means, the paired difference and its interval over tasks."""
    if not agents:
        return []
    sides = []
    for column in ("score", "score_second"):
        table = both.pivot("agent", index="task", values=column, maintain_order=True).select(agents)
        values = table.cast(pl.Float64).fill_null(np.nan).to_numpy()
        sides.append(np.column_stack([np.nanmean(values, axis=1), values]))
    intervals = task_intervals(sides[1] - sides[0], tails=True, resamples=RESAMPLES, level=LEVEL)
    found = []
    for place, (name, one) in enumerate(zip(["mean over agents", *agents], intervals, strict=True)):
        first, second = (float(np.nanmean(side[:, place])) for side in sides)
        decided = one.low is not None and one.high is not None and (one.low > 0 or one.high < 0)
        reading = f"{'higher' if (one.value or 0.0) > 0 else 'lower'} in the second" if decided else "undecided"
        row = {"difference": one.value, "low": one.low, "high": one.high, "note": one.note, "n": one.n}
        found.append({"agent": name, "first": first, "second": second, **row, "reading": reading})
    return found


def task_differences(both: pl.DataFrame) -> pl.DataFrame:
    """By task, the mean over the agents that both runs scored, the largest difference first."""
    first, second = pl.col("score").mean(), pl.col("score_second").mean()
    found = both.group_by("task", maintain_order=True).agg(
        first.alias("first"), second.alias("second"), (second - first).alias("difference"), pl.len().alias("agents")
    )
    return found.sort(pl.col("difference").abs(), descending=True, maintain_order=True)


def _signature(run: RunFolder, metric: str) -> dict[str, str]:
    board = None if run.leaderboard is None else run.leaderboard.metrics.get(metric)
    found = run.review if metric.startswith("review: ") else board
    return Signature.parse("" if found is None else found.signature).parts


def _settings(names: Sequence[str], signatures: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The settings that differ between two signatures, as a table."""
    one, two = signatures
    rows = [
        {"name": name, "first": one.get(name), "second": two.get(name)}
        for name in dict.fromkeys([*one, *two])
        if one.get(name) != two.get(name)
    ]
    columns = (Column("name", "setting"), *texts("-", first=names[0], second=names[1]))
    table = table_html(columns, rows, "Differences in settings", class_="hidden") if rows else Markup("")
    return {"settings": table, "signed": any(signatures)}


# --- two agents ------------------------------------------------------------------------------------------------------

TASKS_A_PAGE = 10
MOST_WORDS = 800
"""Of a text whose differing words are marked: the time to find them grows with the square."""
LEAST_COMMON = 0.25
"""Share of the shorter text's words that the other must have, in order: else nearly all would be marked."""
Better = Literal["one", "other", "equal", "unknown"]
BETTER: tuple[Better, ...] = get_args(Better)
Outcome = Literal["won", "lost", "tied", "depends on the order", "no verdict"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
JUDGED = ("task", "first", "second", "reviewer", "format", "value", "rater", "criterion", "preference")
"""Columns that say who preferred which."""
Piece = tuple[bool, str]
"""Whether the words are only in this text, and the words."""


def side_by_side_page(library: Library, links: Links, given: Mapping[str, str], name: str) -> str:
    """Two agents, task by task, the largest difference first."""
    run = library.run(name)
    index = library.index(run)
    one, other = _two_agents(given, index, ranked_agents(run))
    metric, better = given.get("metric") or next(iter(index.metrics), None), given.get("better") or None
    if metric is not None and metric not in index.metrics:
        raise UserError(f"no scores of {metric!r} in this run. It has: {', '.join(index.metrics) or 'none'}")
    if better is not None and better not in BETTER:
        raise UserError(f"better must be one of {', '.join(BETTER)}, got {better!r}")
    found = differences(index, metric, one, other)
    totals = Counter(found["better"].to_list())
    if given.get("q"):
        found = found.join(index.matching(given["q"][:200]), on="task", how="semi", maintain_order="left")
    page = Page.of(
        found.filter(better is None or pl.col("better") == better), page_number(given.get("page")), TASKS_A_PAGE
    )
    return render(
        "side_by_side.html",
        links,
        run=RunSummary.of(run),
        index=index,
        one=one,
        other=other,
        metric=metric,
        better=better,
        query={"one": one, "other": other, "metric": metric, "better": better, "q": given.get("q")},
        counts=totals,
        found=page,
        rows=two_texts(index, [row["task"] for row in page.rows], one, other),
        numbers=[index.agent_numbers[agent] for agent in (one, other)],
    )


def _two_agents(given: Mapping[str, str], index: TaskIndex, ranked: Sequence[str]) -> tuple[str, str]:
    """The agents in the address; where one is not named, the best ranked of the others."""
    names = index.agent_numbers
    if len(names) < 2:
        raise UserError(f"two agents are needed to compare them, and the run {index.run.name} has {len(names)}")
    for agent in (given.get("one"), given.get("other")):
        if agent and agent not in names:
            raise UserError(f"no agent {agent!r} in this run")
    order = [agent for agent in dict.fromkeys([*ranked, *names]) if agent in names]
    one = given.get("one") or next(agent for agent in order if agent != given.get("other"))
    other = given.get("other") or next(agent for agent in order if agent != one)
    if one == other:
        raise UserError(f"choose two different agents, got {one!r} twice")
    return one, other


def differences(index: TaskIndex, metric: str | None, one: str, other: str) -> pl.DataFrame:
    """All tasks, largest difference first: task, number, difference (one minus other; null: unknown), better.

    Under a pairwise review it is the share of the comparisons between the two that the one won less the share it lost.
    """
    if index.pairwise(metric):
        found = _between(index, str(metric), one, other)
    else:
        scores = index.scores.filter(pl.col("metric") == (metric or ""))
        first, second = (scores.filter(pl.col("agent") == agent).select("task", "score") for agent in (one, other))
        both = first.join(second, on="task", suffix="_other")
        found = both.select("task", (pl.col("score") - pl.col("score_other")).alias("difference"))
    difference = pl.col("difference")
    side = pl.when(difference > 0).then(pl.lit("one")).otherwise(pl.lit("other"))
    known = pl.when(difference == 0).then(pl.lit("equal")).otherwise(side)
    better = pl.when(difference.is_null()).then(pl.lit("unknown")).otherwise(known)
    return (
        index.prompts.select("task", "number")
        .join(found, on="task", how="left", maintain_order="left")
        .with_columns(better.alias("better"))
        .sort(difference.abs(), "number", descending=[True, False], nulls_last=True)
    )


def _between(index: TaskIndex, metric: str, one: str, other: str) -> pl.DataFrame:
    frame = scanned(index.run, "judgements")
    assert frame is not None
    first, second, value = pl.col("first"), pl.col("second"), pl.col("value").cast(pl.Float64)
    of_these = ((first == one) & (second == other)) | ((first == other) & (second == one))
    rows = frame.filter((pl.col("format") == metric.removeprefix("review: ")) & of_these)
    worth = pl.when(first == one).then(value).otherwise(1 - value).alias("worth")
    won = rows.select(pl.col("task").cast(pl.String), worth).group_by("task").agg(mean_in_order(pl.col("worth")))
    return won.select("task", (2 * pl.col("worth") - 1).alias("difference")).collect()


def two_texts(index: TaskIndex, tasks: Sequence[str], one: str, other: str) -> list[dict[str, Any]]:
    """The two texts on each task, and who did better under each metric and for each judge."""
    answers = {(row["task"], row["agent"]): row["text"] for row in index.rows("responses", *tasks).to_dicts()}
    prompts = {row["task"]: row.get("prompt") for row in index.rows("tasks", *tasks).to_dicts()}
    judged = _judged(index, tasks, (one, other))
    found = []
    for task in tasks:
        first, second, marked = marked_words(answers.get((task, one)), answers.get((task, other)))
        by_metric, scores = index.scores_of(task), []
        for metric in index.metrics:
            values = [by_metric.get((metric, agent), {}).get("score") for agent in (one, other)]
            if values != [None, None]:
                scores.append({"metric": metric, "values": values, "decimals": decimals_for(values)})
        found.append(
            {
                "number": index.numbers[task],
                "task": task,
                "prompt": prompts.get(task),
                "texts": (first, second),
                "marked": marked,
                "scores": scores,
                "judges": {pair.reviewer: pair.outcome for pair in judged_pairs(judged.get(task, ()), one)},
            }
        )
    return found


def _judged(index: TaskIndex, tasks: Sequence[str], agents: tuple[str, str]) -> dict[str, list[dict[str, Any]]]:
    """Comparisons of two agents by reviewers and by people, by task."""
    both = pl.col("first").is_in(agents) & pl.col("second").is_in(agents) & pl.col("task").is_in(list(tasks))
    found: dict[str, list[dict[str, Any]]] = {}
    for table in ("judgements", "labels"):
        frame = scanned(index.run, table)
        there = [] if frame is None else [name for name in frame.collect_schema().names() if name in JUDGED]
        if frame is None or not {"task", "first", "second"} <= set(there):
            continue
        for row in frame.select(there).filter(both).collect().to_dicts():
            if table == "labels":
                person = f"{row['rater']} (person{', ' + row['criterion'] if row.get('criterion') else ''})"
                row |= {
                    "reviewer": person,
                    "format": "",
                    "value": (1 + (row["preference"] > 0) - (row["preference"] < 0)) / 2,
                }
            found.setdefault(row["task"], []).append(row)
    return found


def marked_words(one: str | None, other: str | None) -> tuple[Sequence[Piece] | None, Sequence[Piece] | None, bool]:
    """Both texts in pieces, words that only one has being marked; and whether they are.

    They are not in long texts, nor in those that have little in common.
    """
    if one is None or other is None:
        alone = [None if text is None else [(False, text)] for text in (one, other)]
        return alone[0], alone[1], True
    words = [re.findall(r"\S+\s*|\s+", text) for text in (one, other)]
    if max(map(len, words)) > MOST_WORDS:
        return [(False, one)], [(False, other)], False
    plain = [[word.strip().casefold() for word in side] for side in words]
    matched = difflib.SequenceMatcher(None, plain[0], plain[1], autojunk=False)
    if sum(same.size for same in matched.get_matching_blocks()) < LEAST_COMMON * min(map(len, words)):
        return [(False, one)], [(False, other)], False
    pieces: tuple[list[Piece], list[Piece]] = ([], [])
    for kind, *ends in matched.get_opcodes():
        for side, (begin, end) in enumerate((ends[:2], ends[2:])):
            text = "".join(words[side][begin:end])
            # the space after the last word is not a word
            bare = text.rstrip()
            pieces[side].extend([(kind != "equal", bare)] * bool(bare) + [(False, text[len(bare) :])])
    return *pieces, True


@dataclass(frozen=True, slots=True)
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
        """How the response did in all of them."""
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
    """How a response did, from the value of a comparison (1: the first is better) and its place in it."""
    if value is None:
        return "no verdict"
    worth = value if first else 1 - value
    return "tied" if worth == 0.5 else "won" if worth > 0.5 else "lost"


# --- two responses ---------------------------------------------------------------------------------------------------

WAY = ("scorer", "template", "rewriter", "synopsis")
"""Columns that tell ways of scoring apart."""


def pair_page(library: Library, links: Links, given: Mapping[str, str], run: str, *numbers: int) -> str:
    """The information map, by numbers of task, candidate and peer: what one response reveals about the other."""
    number, candidate, peer = numbers
    place = library.task(run, number)
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
            found = find_map(place, way, texts, whole=bool(given.get("whole")))
        except GoldlessError as error:
            problem = str(error)
    return render(
        "pair.html",
        links,
        run=RunSummary.of(place.run),
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
        offers=way is not None and links.live and library.maps.offers(way["given"]),
    )


def scored_ways(place: RunTask, candidate: str, peer: str) -> list[dict[str, Any]]:
    """The ways in which the peer's response was scored given the candidate's, each with the one of it alone."""
    frame = place.index.rows("logprobs", place.name)
    rows = frame.filter(pl.col("target") == peer).to_dicts() if len(frame) else []
    alone = {_way(row): row for row in rows if row["given"] is None}
    return [
        {"given": row, "alone": alone.get(_way(row)), "name": ", ".join(str(part) for part in _way(row) if part)}
        for row in rows
        if row["given"] == candidate
    ]


def _way(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in WAY)


def find_map(place: RunTask, way: Mapping[str, Any], texts: Mapping[str, str], *, whole: bool) -> PairMap | None:
    """The map of one way of scoring, from its stored values, or computed as a whole."""
    row, alone = way["given"], way["alone"]
    if whole:
        return place.library.maps.make(place.run.path, row)
    if alone is None:
        raise UserError(
            "log p of the peer's response alone is not in this run, so the candidate's contribution is unknown"
        )
    values = place.index.token_values([row["row"], alone["row"]])
    candidate, peer = texts.get(row["given"]), texts.get(row["target"])
    if len(values) < 2 or candidate is None or peer is None:
        raise UserError("the per-token log-probabilities or the texts are not in this run")
    pieces = place.library.tokenizers.pieces(str(row["scorer"]), peer)
    return stored_map(candidate, peer, values[row["row"]], values[alone["row"]], pieces)


def pair_control(place: RunTask, way: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the candidate's response says about the peer's on its own task and on others; None: it was not asked.

    ``terms``: task, log p given the candidate's response and alone, gain, and why one is missing, this task first.
    ``difference_nats``: the controlled score of the pair under GEM; missing terms are left out of the mean.
    """
    row = way["given"]
    frame = place.index.rows("control_logprobs", place.name)
    if not len(frame):
        return None
    rows = [one for one in frame.filter(pl.col("target") == row["target"]).to_dicts() if _way(one) == _way(row)]
    # without a synopsis a response alone is the same whatever the task, so it is not asked again
    alone = {one["target_task"]: one for one in rows if one["given"] is None}
    terms = [_term(place.name, row, way["alone"])]
    for one in (one for one in rows if one["given"] == row["given"]):
        task = one["target_task"]
        marginal = alone.get(task) if row.get("synopsis") is not None else _alone(place, task, row)
        terms.append(_term(task, one, marginal))
    known = [gain for term in terms[1:] if (gain := term["gain_nats"]) is not None]
    mean, matched = sum(known) / len(known) if known else None, terms[0]["gain_nats"]
    difference = None if matched is None or mean is None else matched - mean
    return {"terms": terms, "mean_nats": mean, "difference_nats": difference} if terms[1:] else None


def _alone(place: RunTask, task: str, like: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The peer's response to another task alone, scored in the same way."""
    frame = place.index.rows("logprobs", task)
    mine = frame.filter((pl.col("target") == like["target"]) & pl.col("given").is_null()) if len(frame) else frame
    return next((row for row in mine.to_dicts() if _way(row) == _way(like)), None)


def _term(task: str, given: Mapping[str, Any], alone: Mapping[str, Any] | None) -> dict[str, Any]:
    alone = alone or {}
    one, two = given.get("sum_logprob_nats"), alone.get("sum_logprob_nats")
    gain = None if one is None or two is None else one - two
    failure = given.get("failure") or alone.get("failure")
    return {"task": task, "given_nats": one, "alone_nats": two, "gain_nats": gain, "failure": failure}
