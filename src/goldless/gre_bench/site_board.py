"""The board of an edition as sections of a page: ranks, how firm they are, contamination, and how it was made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from markupsafe import Markup

from goldless.gre_bench.contamination import CleanScore, Clock
from goldless.gre_bench.edition_scores import DEMONSTRATION
from goldless.gre_bench.papers import HUMAN, is_person
from goldless.gre_bench.recomputing import Recomputed
from goldless.gre_bench.standing import FLIPS, model_means, model_rank
from goldless.reports.controls import direction
from goldless.reports.html.blocks import (
    Block,
    Code,
    Figure,
    Fold,
    Name,
    PageLink,
    Paragraph,
    Section,
    Table,
    counts,
    ends,
    names,
    note,
    number,
    remarks,
    sentence,
    signed,
    texts,
    warning,
    words,
)
from goldless.reports.html.charts.row_plots import Band, IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.labels import label, numeral, percent, plural
from goldless.reports.report_table import Column, ReportTable

DECIMALS = 4
"""Of every number on a page: processors differ in the last digits of a sum."""


def rounded(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose numbers are the same on every machine."""
    return [{key: _rounded(value) for key, value in row.items()} for row in rows]


def _rounded(value: Any) -> Any:
    # adding zero makes of a negative zero a plain one
    return round(value, DECIMALS) + 0.0 if isinstance(value, float) else value


def agent_cell(name: str | None, files: Mapping[str, str]) -> Markup | str | None:
    """A name that links to its page, if it has one."""
    if name is None or name not in files:
        return name
    return Markup('<a href="{}"><bdi>{}</bdi></a>').format(files[name], label(name))


def board_sections(one: Recomputed, models: Mapping[str, str], papers: str) -> Iterator[Section]:
    """The sections of an edition's page; ``models``: pages by name, ``papers``: the page of its papers."""
    clock = one.scores.clock
    assert clock is not None
    yield Section("board", "", tuple(_board(one, clock, models, papers)))
    yield Section("firm", "How firm the ranking is", tuple(_firm(one, models)))
    yield from _public(one, models)
    yield Section("clock", "Contamination", tuple(_contamination(one, clock, models)))
    yield Section("metrics", "All metrics", (_all_metrics(one, models),))


# --- ranks ---------------------------------------------------------------------------------------------------------


def _board(one: Recomputed, clock: Clock, models: Mapping[str, str], papers: str) -> Iterator[Block]:
    if one.scores.demonstration:
        yield warning(DEMONSTRATION)
    rows = [row for row in clock.scores if (row.metric, row.scope) == (one.metric, "all")]
    means = model_means(one.review_scores())
    rows.sort(key=lambda row: (row.score is None, -(row.score or 0.0), row.agent))
    yield Paragraph(tuple(_lead(one, rows)), style="lead")
    yield words(
        f"{plural(len(means), 'model')} reviewed ",
        PageLink(papers, plural(one.scores.papers, "paper")),
        f" from {one.scores.source}. The score is {one.metric} ({_unit(one)}). ",
        PageLink("method.html", "Method"),
    )
    others, public = list(one.standing.scorers)[1:], one.scores.public
    held = {} if public.injected is None else {row.agent: row for row in public.injected.agents}
    teams = _teams(one)
    ranks = {row.agent: row.ranks for row in one.standing.ranks if row.metric == one.metric}
    level = percent(clock.level)
    shares = {row.agent: row for row in clock.agents}
    columns = (
        *counts("-", rank="#"),
        *names(agent="model"),
        number("score", "score", 2),
        ends(level, 2),
        signed("difference", "minus human", 2, absent="-"),
        Column("difference_low difference_high", level, "signed interval", "-", 2),
        *(Column(f"rank_{run}", f"# {run}", "count", "-") for run in others),
        *counts(n="papers"),
        *texts("-", clean="after its cutoff"),
        *[signed("held", "hidden text", 2, absent="-")] * bool(held),
        *[*counts("-", tries="submissions"), number("corrected", "corrected", 2, absent="-")] * bool(teams),
    )
    yield Table(
        f"The board, by {one.metric}. The human baseline is one human review of each paper, scored like the models'.",
        columns,
        rounded(
            {
                "rank": model_rank(means, row.agent),
                "agent": agent_cell(row.agent, models) if row.agent != HUMAN else "human baseline",
                **{f"rank_{run}": ranks.get(row.agent, {}).get(run) for run in others},
                **{key: getattr(row, key) for key in SHOWN},
                "clean": _clean(shares.get(row.agent)),
                "held": held[row.agent].difference if row.agent in held else None,
                **teams.get(row.agent, {}),
            }
            for row in rows
        ),
    )
    yield _figure(one, rows, level)
    yield from (note(text) for text in one.scores.table().notes if text != DEMONSTRATION)


def _teams(one: Recomputed) -> dict[str, dict[str, Any]]:
    """How often the team of each submission submitted, and the corrected score of its best."""
    found = one.scores.public.submissions
    if found is None:
        return {}
    best = {row.team: row for row in found.teams if row.metric == one.metric}
    return {
        sent.name: {
            "tries": best[sent.team].submissions,
            "corrected": best[sent.team].corrected if best[sent.team].best == sent.name else None,
        }
        for sent in found.log
        if sent.team in best
    }


def _unit(one: Recomputed) -> str:
    return f"{one.scores.evaluation.leaderboard(one.metric).unit}, {direction(one.metric)}"


SHOWN = ("score", "low", "high", "difference", "difference_low", "difference_high", "n")


def _clean(clock: Any) -> str | None:
    if clock is None:
        return None
    return "unknown" if clock.clean is None else f"{clock.clean} of {clock.dated}"


def _lead(one: Recomputed, rows: Sequence[CleanScore]) -> Iterator[Any]:
    ranked = [row for row in rows if not is_person(row.agent) and row.score is not None]
    if not ranked:
        yield "No model has a score."
        return
    first = ranked[0]
    yield Name(first.agent)
    yield f" is first with {numeral(first.score, 2)}"
    if first.difference is not None and first.difference_low is not None and first.difference_high is not None:
        against = "above" if first.difference_low > 0 else "below" if first.difference_high < 0 else "not apart from"
        yield f", {against} the human baseline ({numeral(first.difference, 2, signed=True)})"
    beaten = next(
        (row.better_than for row in one.scores.evaluation.leaderboard(one.metric).rows if row.agent == first.agent), ()
    )
    decided = sum(row.agent in (beaten or ()) for row in ranked[1:])
    yield (f"; this is decided against {decided} of {plural(len(ranked) - 1, 'other model')}." if ranked[1:] else ".")


def _figure(one: Recomputed, rows: Sequence[CleanScore], level: str) -> Figure:
    human = next((row for row in rows if row.agent == HUMAN), None)
    drawn = [
        IntervalRow(
            row.agent,
            _rounded(row.score),
            _rounded(row.low),
            _rounded(row.high),
            aside=numeral(row.score, 2, absent=""),
        )
        for row in rows
        if row.agent != HUMAN
    ]
    band = None
    if human is not None and human.score is not None:
        band = Band(_rounded(human.low), _rounded(human.high), "human baseline", middle=_rounded(human.score))
    title = f"{one.metric}: score of each model with its {level} interval"
    drawn_both = pictures(interval_plot, drawn, title=title, axis=_unit(one), band=band)
    caption = f"Mean over papers. Lines are {level} intervals, the grey band is that of the human baseline."
    return Figure("board", "Scores", caption, drawn_both, ())


# --- how firm it is ------------------------------------------------------------------------------------------------


def _firm(one: Recomputed, models: Mapping[str, str]) -> Iterator[Block]:
    for flip in one.standing.flips:
        if flip.metric == one.metric:
            yield words(f"How few papers flip rank 1? {flip.sentence}")
    yield note(FLIPS)
    scorers = one.standing.scorers
    if len(scorers) < 2:
        yield words(
            "There is one scorer. A second one, scored with --run, shows here whether the ranks depend on the scorer."
        )
    else:
        columns = (
            *names(agent="model"),
            *(Column(f"rank_{run}", f"# {run} ({scorer})", "count", "-") for run, scorer in scorers.items()),
        )
        ranks = [row for row in one.standing.ranks if row.metric == one.metric]
        rows = [
            {"agent": agent_cell(row.agent, models), **{f"rank_{run}": rank for run, rank in row.ranks.items()}}
            for row in ranks
        ]
        yield Table(f"Ranks by {one.metric} under each scorer", columns, rows)
        level = percent(one.standing.consistency[0].level) if one.standing.consistency else ""
        agreement = (
            *names(metric="metric"),
            *texts(None, scorers="scorers", coefficient="coefficient"),
            number("value", "agreement", 2, absent="not defined"),
            ends(level, 2),
            *counts(n_agents="agents", n_tasks="papers"),
        )
        if one.standing.consistency:
            consistent = rounded({**asdict(row), "scorers": row.scorers} for row in one.standing.consistency)
            yield Table("Consistency of the scorers, over agents", agreement, consistent)
    yield from remarks(one.standing.notes)


# --- a public board ------------------------------------------------------------------------------------------------


def _public(one: Recomputed, models: Mapping[str, str]) -> Iterator[Section]:
    public = one.scores.public
    if public.submissions is not None:
        blocks = [block for table in public.submissions.tables() for block in report_blocks(table, models)]
        log = [
            {**asdict(sent), "agent": agent_cell(sent.name, models), "date": sent.date[:10]}
            for sent in public.submissions.log
        ]
        columns = (
            *counts(number="number"),
            *names(agent="submission"),
            *texts(None, team="team", date="date"),
            *counts(reviews="reviews", missing="papers without one"),
            *texts(None, sha256="SHA-256 of the file"),
        )
        yield Section("submissions", "Submissions", (*blocks, Fold("All submissions", (Table("Log", columns, log),))))
    if public.injected is not None:
        yield Section("hidden", "Hidden instructions", tuple(report_blocks(public.injected.table(), models)))
    if public.preregistered is None:
        yield Section("registered", "Pre-registration", (words("This edition was not preregistered."),))
    else:
        said = public.preregistered
        told = words if said.matches else warning
        yield Section("registered", "Pre-registration", (told(sentence(said.sentence)), Code(said.hash)))


def report_blocks(table: ReportTable, models: Mapping[str, str]) -> Iterator[Block]:
    """A table as the terminal shows it, with links to the models, its notes and its signature."""
    linked = [{**row, "agent": agent_cell(row.get("agent"), models)} for row in table.rows]
    columns = [replace(column, kind="name") if column.name == "agent" else column for column in table.columns]
    yield Table(table.title, columns, rounded(linked))
    yield from (note(text) for text in table.notes)
    if table.signature:
        yield Fold("Signature", (Code(table.signature),))


# --- contamination and metrics -------------------------------------------------------------------------------------


def _contamination(one: Recomputed, clock: Clock, models: Mapping[str, str]) -> Iterator[Block]:
    columns = (
        *names(agent="model"),
        *texts("unknown", cutoff_date="knowledge cutoff"),
        *counts("unknown", clean="papers after it"),
        *counts(dated="dated papers"),
    )
    rows = [
        {"agent": agent_cell(a.agent, models), "cutoff_date": a.cutoff_date, "clean": a.clean, "dated": a.dated}
        for a in clock.agents
    ]
    yield Table("Papers that became public after each model's cutoff", columns, rows)
    common = [row for row in clock.scores if (row.metric, row.scope) == (one.metric, "common")]
    if common:
        shown = (
            *counts("-", rank="#"),
            *names(agent="model"),
            number("score", "score", 2),
            ends(percent(clock.level), 2),
            signed("difference", "minus human", 2, absent="-"),
            *counts(n="papers"),
        )
        papers = plural(len(clock.common), "paper")
        keys = ("rank", "score", "low", "high", "difference", "n")
        clean = [{"agent": agent_cell(row.agent, models), **{k: getattr(row, k) for k in keys}} for row in common]
        yield Fold(f"The board on the {papers} after every cutoff", (Table(f"On {papers}", shown, rounded(clean)),))
    yield from remarks(clock.notes)


def _all_metrics(one: Recomputed, models: Mapping[str, str]) -> Table:
    columns = [*names(agent="agent")]
    rows: dict[str, dict[str, Any]] = {}
    for place, (metric, outcome) in enumerate(one.scores.evaluation.outcomes.items()):
        board = outcome.leaderboard
        columns.append(number(f"score{place}", metric, 2))
        columns.append(ends(percent(board.level), 2, name=f"low{place} high{place}"))
        for row in board.rows:
            mine = rows.setdefault(row.agent, {"agent": agent_cell(row.agent, models)})
            mine |= {f"score{place}": row.score, f"low{place}": row.low, f"high{place}": row.high}
    return Table("The metrics side by side", columns, rounded(rows.values()))
