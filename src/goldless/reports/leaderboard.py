"""Leaderboards: agents in order, each with interval, n, missing evidence, and the agents it beats; and of raters."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from goldless.audit.peer_graph import PeerGraph
from goldless.errors import MetricError, listed, suggested
from goldless.metrics.label_information import Information, LabelInformation, RaterInformation
from goldless.models.canaries import CanaryReport
from goldless.models.interface import ModelIdentity
from goldless.records import Finding
from goldless.reports.decisions import Stopped
from goldless.reports.document import Result, cells, write, written_property
from goldless.reports.findings import MOST_NAMED, REVIEW, Name, Said, comparative, direction, heading, in_text, named
from goldless.reports.report_table import Column, ReportTable, decimals_for, typeset
from goldless.signature import Signature
from goldless.statistics.comparisons import SIGNIFICANT, Comparison, fewest_tasks, too_few_tasks
from goldless.statistics.effects import GroupComparison
from goldless.statistics.influence import Influence
from goldless.statistics.other_peers import FEWEST_PEERS
from goldless.statistics.standings import LeaderboardRow, Missing, Standings
from goldless.templates import FIELDS, TEMPLATES, Template

if TYPE_CHECKING:
    from rich.text import Text


BAR_WIDTH = 16
MOST_METRICS, MOST_TIED = 6, 6
RATES = frozenset({"win rate", "score", "rating"})
"""Units that are said before the number."""


@dataclass(frozen=True)
class PairMeans:
    """Mean scores of agents (rows) with peers (columns)."""

    agents: tuple[str, ...] = ()
    means: tuple[tuple[float | None, ...], ...] = ()

    def __post_init__(self) -> None:
        if any(len(line) != len(self.agents) for line in (self.means, *self.means)):
            raise ValueError("means must be a square matrix over agents")

    @property
    def values(self) -> list[float]:
        return [value for line in self.means for value in line if value is not None]


class Tabled:
    """A result with one table."""

    __slots__ = ()
    _on_paper: ClassVar[dict[str, Any]] = {}
    """Options of the table where there is little room."""

    table: Callable[..., ReportTable]

    def to_csv(self) -> str:
        """Comma-separated values; the signature is the last column of every row."""
        return self.table().to_csv()

    def to_markdown(self) -> str:
        """A Markdown table and the signature below it."""
        return replace(self.table(), title="").to_markdown()

    def to_latex(self) -> str:
        """A booktabs LaTeX table, with the signature in a comment and in the caption."""
        return self.table(**self._on_paper).to_latex()

    def to_rich(self, width: int = 80, **options: Any) -> list[Text]:
        """Tables for a terminal of that width, without the signature: print that below, so that it can be copied."""
        return self.table(**self._on_paper, **options).to_rich(width)


@dataclass(frozen=True)
class Leaderboard(Tabled):
    """Agents by score, highest first, with the settings behind the numbers."""

    metric: str
    unit: str
    level: float
    rows: tuple[LeaderboardRow, ...]
    comparisons: tuple[Comparison, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """The parts of the signature: how exactly the numbers were made."""
    notes: tuple[str, ...] = ()
    groups: GroupComparison | None = None
    """Comparison of two groups of agents, if requested."""
    group_names: str | None = None
    summary: Mapping[str, float | None] = field(default_factory=dict)
    """Numbers about the study as a whole, by name."""
    by_wording: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """Agents' scores by prompt, if there are several."""
    influence: tuple[Influence, ...] = ()
    """The tasks that move an agent's score most."""
    peer_graph: PeerGraph | None = None
    """The agents that predict each other; None: too few agents, or the metric does not score pairs."""
    matrix: PairMeans = PairMeans()
    _on_paper: ClassVar = {"beaten": "ranks"}

    @written_property
    def signature(self) -> str:
        """The settings in one line."""
        return Signature.line(self.settings)

    @property
    def scale(self) -> str:
        """The unit of its scores, and what a higher one means."""
        return f"{self.unit}, {direction(self.metric)}"

    def to_json(self) -> str:
        """The leaderboard as one JSON object."""
        return json.dumps(write(self), ensure_ascii=False, indent=2)

    def table(
        self,
        *,
        beaten: Literal["names", "ranks"] = "names",
        full: bool = False,
        others: Sequence[Leaderboard] | None = None,
    ) -> ReportTable:
        """The table for people and for programs.

        ``beaten``: whether the agents that one beats are given by name or by rank. ``full``: with everything that is
        known of an agent, for a page. ``others``: boards whose scores are further columns of a first look, which
        leaves out what is the same for all agents.
        """
        ends = self.ends
        word, decimals = comparative(self.metric), max(2, decimals_for(ends))
        better = f"{word} than" if beaten == "names" else "beats #" if word == "better" else f"{word} #"
        rows = [_cells(row) for row in self.rows]
        present = {name for row in rows for name, value in row.items() if value is not None}
        same_tasks = others is not None and len({row.estimate.n for row in self.rows}) == 1
        all_there = others is not None and not any(row.missing for row in self.rows)

        def column(name: str, *given: Any, page: bool = False, **more: Any) -> Column:
            """A column that people see where it has values, some of them only on a page."""
            hidden = (bool(rows) and name.split(maxsplit=1)[0] not in present) or (page and not full)
            return replace(Column(name, *given, **more), data=hidden)

        columns = (
            Column("metric", "metric", data=True),
            Column("rank", "#", "count", "-"),
            Column("agent", "agent", "name"),
            column("group", "group", "name", "-", page=True),
            Column("score", "score", "number", "missing", decimals),
            Column("low high", f"{self.level * 100:g}% interval", "interval", "", decimals, reason="note"),
            Column("plot", "", "plot"),
            Column("n", "tasks", "figure", data=same_tasks),
            Column("asked", "asked", "count", data=True),
            Column("used", "used", "count", data=True),
            Column("missing asked", "missing", "fraction", data=all_there),
            *(
                Column(f"of {one.metric}", one.metric, "number", decimals=max(2, decimals_for(one.ends)))
                for one in others or ()
            ),
            column("better_than", better, absent="-"),
            column("between_prompts", "±prompts", "number", decimals=decimals),
            column("new_peers_low new_peers_high", "with other peers", "interval", "-", decimals, page=True),
            column("worst_low worst_high", "worst case", "interval", "-", decimals, page=True),
            Column("note", "note", data=True),
        )
        ranks = {row.agent: row.rank for row in self.rows if row.rank is not None}
        elsewhere = {f"of {one.metric}": {row.agent: row.score for row in one.rows} for one in others or ()}
        least, most = min(ends, default=0.0), max(ends, default=1.0)
        for row, row_cells in zip(self.rows, rows, strict=True):
            below: tuple[str, ...] | str = row.better_than or ()
            if beaten == "ranks":
                below = _runs(ranks[agent] for agent in below if {agent, row.agent} <= ranks.keys())
            scores = {name: of_agents.get(row.agent) for name, of_agents in elsewhere.items()}
            row_cells |= {"metric": self.metric, **scores}
            row_cells |= {"plot": _bar(row, least, most), "better_than": below or None}
        title = heading(self.metric, self.unit)
        if same_tasks:
            title += f", {self.rows[0].estimate.n:,} task{'s' * (self.rows[0].estimate.n != 1)}"
        return ReportTable(title, columns, tuple(rows), self.signature, notes=self.notes)

    @property
    def ends(self) -> list[float]:
        """Scores and the ends of their intervals."""
        return [end for row in self.rows for end in row.estimate.numbers if end is not None]

    @written_property
    def order_kept(self) -> float | None:
        """The share of decided differences that would keep their sign with other peers like these; None: not known."""
        return mean_sign_kept(self.comparisons)

    @property
    def counts_pairs(self) -> bool:
        """True if asked, used and missing count pairs of responses; else they count responses.

        Settings say what single responses are compared with. Custom metrics do not say so: for them, responses are
        counted if scores were used and no pair has one.
        """
        if self.settings.get("against") in {"nothing", "reference"}:
            return False
        return bool(self.matrix.values) or not any(row.used for row in self.rows)


def _cells(row: LeaderboardRow) -> dict[str, Any]:
    return cells(row, score=row.score, missing=row.missing)


def _bar(row: LeaderboardRow, least: float, most: float) -> str:
    """The interval as a line from the least to the most of all, with the score as a dot."""
    width = (most - least) or 1.0
    score, low, high = (
        None if end is None or not math.isfinite(width) else round((end - least) / width * (BAR_WIDTH - 1))
        for end in row.estimate.numbers
    )
    cells = [" "] * BAR_WIDTH
    if low is not None and high is not None:
        cells[low : high + 1] = "─" * (high - low + 1)
    if score is not None:
        cells[score] = "●"
    return "".join(cells)


def _runs(ranks: Iterable[int]) -> str:
    """Ranks in order; more than three in a row by their ends."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if not runs or rank != runs[-1][-1] + 1:
            runs.append([])
        runs[-1].append(rank)
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 3 else " ".join(map(str, run)) for run in runs)


def leaderboard_notes(found: Standings, missing: Missing | None, *, limited: bool) -> Iterator[str]:
    """Notes a table's reader must know; ``limited``: whether missing scores were bounded by the metric's limits."""
    few = [c for c in found.comparisons if c.n < fewest_tasks()]
    if few and len(few) == len(found.comparisons):
        said = too_few_tasks(max(c.n for c in few)) or ""
        yield f"{said[:1].upper()}{said[1:]}."
    elif few:
        yield (
            f"{len(few)} of {len(found.comparisons)} pairs of agents have fewer than {fewest_tasks()} common tasks: "
            f"their differences cannot be significant at {SIGNIFICANT:g}."
        )
    worst = [f"{row.agent} {row.worst.low:.3g} … {row.worst.high:.3g}" for row in found.rows if row.worst is not None]
    if missing is not None and worst:
        if len({row.estimate.n for row in found.rows}) > 1:
            yield (
                "Agents miss other tasks: their scores are adjusted for how the others scored there, and differences "
                "are tested on the tasks that both have."
            )
        source = "the limits of the metric" if limited else "the smallest and largest score found, as it has no limits"
        ends = f"{missing.lowest:.3g} or {missing.highest:.3g} ({source})"
        yield f"Worst case, if missing scores were {ends}: intervals of {listed(worst)}."
    if found.peers is not None and found.peers < FEWEST_PEERS:
        too_few = f"{found.peers} {'is' if found.peers == 1 else 'are'} too few"
        yield f"Intervals treat the peers as fixed: {too_few} to allow for other peers."
    yield from order_notes(found.comparisons)


def order_notes(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """One sentence about how firm the order is under other peers; nothing where that is not known."""
    known = [(one.sign_kept, one) for one in comparisons if one.sign_kept is not None]
    if not known:
        return
    share = mean_sign_kept(comparisons)
    least, pair = min(known, key=lambda of_pair: of_pair[0])
    differences = f"{len(known):,} decided difference{'s' * (len(known) != 1)}"
    if share == 1:
        yield f"With other peers like these, {differences} would keep {'their' if len(known) > 1 else 'its'} sign."
        return
    sure = f"{math.floor(100 * least)}%"
    if len(known) == 1:
        yield f"With other peers like these, {pair.better} would stay better than {pair.worse} in {sure} of cases."
        return
    yield (
        f"With other peers like these, {math.floor(100 * (share or 0.0))}% of {differences} would keep their sign "
        f"(least sure: {pair.better} over {pair.worse}, {sure})."
    )


def mean_sign_kept(comparisons: Sequence[Comparison]) -> float | None:
    """The share of decided differences that would keep their sign with other peers; None: not known of any."""
    known = [one.sign_kept for one in comparisons if one.sign_kept is not None]
    return math.fsum(known) / len(known) if known else None


# --- in words --------------------------------------------------------------------------------------------------------


def run_findings(boards: Mapping[str, Leaderboard]) -> list[Said]:
    """Sentences on what is decided, by which metrics; and whether the leader writes most."""
    scored = {name: rows for name, board in boards.items() if (rows := _scored(board))}
    measures = {name: rows for name, rows in scored.items() if comparative(name) == "better"} or scored
    by_answer: dict[Said, list[str]] = {}
    for name, rows in measures.items():
        by_answer.setdefault(_answer(rows, comparative(name)), []).append(name)
    found = [
        answer if len(measures) == 1 else (*named(names, MOST_METRICS), ": ", *answer)
        for answer, names in by_answer.items()
    ]
    leaders = {rows[0].agent for rows in measures.values()}
    for name, (longest, *_) in scored.items():
        if comparative(name) == "longer" and name not in measures and leaders == {longest.agent}:
            value = f"{_numeral(longest.score, boards[name])} {boards[name].unit}"
            found.append((Name(longest.agent), f" also writes the longest responses ({value})."))
    return found


def metric_finding(metric: str, board: Leaderboard) -> Said:
    """The leader under one metric, with its interval, and whether that is decided."""
    scored = _scored(board)
    if not scored:
        return Name(metric), ": no agent could be scored."
    lead = scored[0]
    where: Said = (" in the review",) if metric.startswith(REVIEW) else (" under ", Name(metric))
    ends = "no interval"
    one = lead.estimate
    if one.low is not None and one.high is not None:
        ends = f"{board.level * 100:g}% interval {_numeral(one.low, board)} to {_numeral(one.high, board)}"
    tasks = f", {one.n:,} task{'s' * (one.n != 1)}" if one.n else ""
    score = _numeral(lead.score, board)
    score = f"a {board.unit} of {score}" if board.unit in RATES else f"{score} {board.unit}"
    first: Said = (Name(lead.agent), " is highest")
    if len(scored) > 1 and scored[-1].score == lead.score:
        first = *named([row.agent for row in scored], MOST_TIED), " are equal"
    return *first, *where, f" with {score} ({ends}{tasks}). ", *_answer(scored, comparative(metric))


def _answer(scored: Sequence[LeaderboardRow], word: str) -> Said:
    """The agent that is first, as far as the comparisons decide it."""
    lead = scored[0]
    beaten = {*(lead.better_than or ())} - {lead.agent}
    level = [row for row in scored if row.agent not in beaten]
    below = [row.agent for row in scored if row.agent in beaten]
    if len(scored) == 1:
        return Name(lead.agent), " is the only agent that was scored."
    if lead.better_than is None:
        return Name(lead.agent), " is highest; whether that is more than chance was not tested."
    if len(level) == 1:
        whom = named(below) if len(below) <= MOST_NAMED else (f"all {len(below)} others",)
        return Name(lead.agent), f" is {word} than ", *whom, "."
    others = {row.agent: row.better_than or () for row in level[1:]}
    for agent, wins in others.items():
        if among := [one for one in wins if one in others]:
            first: Said = (f" is {word} than ", *named(below)) if below else (" is highest",)
            undecided: Said = (f", but not shown to be {word} than ", *named(list(others), MOST_TIED))
            decided: Said = (", of which ", Name(agent), f" is {word} than ", *named(among), ".")
            return Name(lead.agent), *first, *undecided, *decided
    tied = *named([row.agent for row in level], MOST_TIED), " are tied"
    if not below:
        return *tied, f": none is shown to be {word} than another."
    each = all({*below} <= {*(row.better_than or ())} for row in level)
    return *tied, "; ", "each" if each else Name(lead.agent), f" is {word} than ", *named(below), "."


def _scored(board: Leaderboard) -> list[LeaderboardRow]:
    return [row for row in board.rows if row.score is not None]


def _numeral(value: float | None, board: Leaderboard) -> str:
    """With two decimals, or three if all scores are small."""
    decimals = 3 if max((abs(row.score or 0.0) for row in board.rows), default=0.0) < 2 else 2
    return typeset(f"{value or 0.0:,.{decimals}f}")


# --- raters ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RaterScores(Tabled):
    """Information shared between raters' labels, with the settings behind the numbers."""

    metric: str
    settings: Mapping[str, str]
    """The parts of the signature: how exactly the numbers were made."""
    criteria: Mapping[str, LabelInformation]
    """By criterion; "": labels without criterion."""

    @written_property
    def signature(self) -> str:
        """The settings in one line."""
        return Signature.line(self.settings)

    def table(self) -> ReportTable:
        """The raters by criterion, after the mean over their pairs and over those of each group."""
        rows: list[dict[str, Any]] = []
        for name, found in self.criteria.items():
            about = {"metric": self.metric, "criterion": name or "-", "partners": len(found.raters) - 1}
            rows.append({**about, "rater": None, **_information(found.overall)})
            for group in found.groups:
                who = "all raters" if group.group is None else f"{group.group} ({group.raters})"
                ends = {"low": group.estimate.low, "high": group.estimate.high}
                rows.append({**about, **_information(group.information), **ends, "rater": who})
            rows += ({**about, **_rater_cells(rater)} for rater in found.raters)
        grouped = any(row.get("low") is not None for row in rows)
        columns = (
            Column("metric", "metric", data=True),
            Column("criterion", "criterion"),
            Column("rater", "rater", "name", "mean over pairs"),
            Column("value", "TVD-MI", "number", "missing", 3),
            Column("null", "chance", "number", "", 3),
            Column("excess", "excess", "number", "", 3),
            Column("p", "p", "probability", ""),
            Column("partners", "partners", "figure", wide=grouped),
            Column("low high", "interval", "interval", "", 3, data=not grouped),
        )
        title = f"{self.metric} (total variation; chance: mean after shuffling each rater's labels)"
        return ReportTable(title, columns, tuple(rows), self.signature)


def _information(information: Information | None) -> dict[str, Any]:
    return {} if information is None else cells(information, excess=information.excess)


def _rater_cells(rater: RaterInformation) -> dict[str, Any]:
    return {"rater": rater.rater, "partners": rater.partners, **_information(rater.information)}


# --- all metrics of a run --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class Leaderboards(Result):
    """``leaderboard.json``: the results of an evaluation. Nothing in it depends on when or how fast it ran."""

    study: str = ""
    """Name of the study."""
    fingerprint: str = ""
    """SHA-256 of its tasks and responses; empty: unknown."""
    models: Mapping[str, ModelIdentity] = field(default_factory=dict)
    """By role; empty if only recorded evidence was used."""
    canaries: CanaryReport | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that the results depend on besides evidence, for a replay."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Text of the critic's prompts, by name."""
    templates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Texts of custom templates, by name."""
    asked: int = 0
    """Number of log-probabilities, verdicts, rewrites and synopses requested."""
    open: int = 0
    """Number missing for a temporary cause; 0 if no model was called."""
    complete: bool = True
    """True if everything requested was collected, so that running the command again would change nothing."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Missing evidence by cause."""
    tasks_without_peers: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Findings of the audit in texts and scores."""
    stopped: Stopped | None = None
    """The stop, and what is decided; None: it was not to stop early."""
    metrics: Mapping[str, RaterScores | Leaderboard] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Findings about scores; those about texts are said before a model is called."""
        return tuple(finding.message for finding in self.findings if finding.metrics)

    @property
    def notes(self) -> tuple[str, ...]:
        notes = []
        if self.tasks_without_peers:
            count = len(self.tasks_without_peers)
            tasks = f"{count} task{'s' * (count != 1)}"
            notes.append(f"{tasks} with fewer than two responses, not scored: {listed(self.tasks_without_peers, 10)}")
        if self.failures:
            causes = ", ".join(f"{count} {kind}" for kind, count in sorted(self.failures.items()))
            notes.append(f"missing: {sum(self.failures.values())} of {self.asked} ({causes})")
        return tuple(notes)

    @property
    def nothing_scored(self) -> bool:
        """True if metrics rank agents, and none of them has a score."""
        rows = [row for board in self.boards.values() for row in board.rows]
        return bool(self.boards) and all(row.score is None for row in rows)

    def sentences(self) -> Iterable[Said]:
        return run_findings(self.boards) if self.stopped is None else ((self.stopped.sentence,),)

    def tables(self) -> list[ReportTable]:
        """Every metric's table."""
        boards = [board.table(beaten="ranks") for board in self.boards.values()]
        return [*boards, *self._rater_tables()]

    def _rater_tables(self) -> list[ReportTable]:
        return [scores.table() for scores in self.metrics.values() if isinstance(scores, RaterScores)]

    def terminal_tables(self, *, details: bool) -> list[ReportTable]:
        """One table with a column per metric, or with details the whole table of every metric."""
        boards = list(self.boards.values())
        stop_table = None if self.stopped is None else self.stopped.table()
        tables = []
        for board in boards if details else boards[:1]:
            if details:
                leader = [in_text(metric_finding(board.metric, board))] if self.stopped is None else []
                summary = [f"{name.replace('_', ' ')}: {value:.4f}" for name, value in board.summary.items()]
                notes = (*leader, *board.notes, *summary)
                tables.append(replace(board.table(beaten="ranks", full=True), notes=notes))
            else:
                other_metrics = ", ".join(heading(other.metric, other.unit) for other in boards[1:])
                also = [f"Also: {other_metrics}. -v shows each with intervals."] if other_metrics else []
                table = board.table(beaten="ranks", others=boards[1:])
                tables.append(replace(table, notes=(*board.notes, *also), signature=""))
            if self.stopped is not None and stop_table is not None and self.stopped.by == board.metric:
                tables.append(stop_table)
        return [*tables, *self._rater_tables()]

    def to_csv(self) -> str:
        """One header for all metrics; the table of raters has its own columns."""
        header, text = "", ""
        for board in self.metrics.values():
            first, rest = board.to_csv().split("\n", 1)
            text += rest if first == header else f"{first}\n{rest}"
            header = first
        return text

    def to_markdown(self) -> str:
        """Every metric's table, below its name where there are several."""
        titled = len(self.metrics) > 1
        return "\n".join(
            (f"## {board.metric}\n\n" if titled else "") + board.to_markdown() for board in self.metrics.values()
        )

    @property
    def scorer(self) -> ModelIdentity | None:
        """The model that computed the log-probabilities; None if no model was called."""
        return self.models.get("scorer")

    @property
    def boards(self) -> dict[str, Leaderboard]:
        """The metrics that rank agents, by name."""
        return {name: found for name, found in self.metrics.items() if isinstance(found, Leaderboard)}

    @property
    def raters(self) -> RaterScores | None:
        """Results of ``tvd-mi[labels]``."""
        return next((found for found in self.metrics.values() if isinstance(found, RaterScores)), None)

    def leaderboard(self, metric: str | None = None) -> Leaderboard:
        """The leaderboard of a metric, which must be named if there are several besides length, a control."""
        boards = self.boards
        measures = [name for name in boards if name != "length"] or [*boards]
        if metric is None and len(measures) > 1:
            raise MetricError(f"name the metric of the leaderboard: {', '.join(boards)}")
        name = next(iter(measures), "") if metric is None else metric
        if name in boards:
            return boards[name]
        if self.raters is not None and name in {"", self.raters.metric}:
            raise MetricError(f"{self.raters.metric} does not rank agents. Use the result's raters instead")
        raise MetricError(f"{name!r} was not computed{suggested(name, boards, 'Computed')}")

    def template(self, name: str | None, source: str) -> Template | None:
        """The template of that name: a built-in one, or one stored with the run, labelled with ``source``."""
        if name in TEMPLATES:
            return TEMPLATES[name]
        stored = self.templates.get(name or "", {})
        if not all(one in stored for one in FIELDS):
            return None
        return Template(name=name or "", source=source, **{one: stored[one] for one in FIELDS})
