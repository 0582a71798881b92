"""The leaderboard: agents in order, each with interval, n, missing evidence, and the agents it beats; and of raters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Literal

from goldless.reports.controls import comparative, heading
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.terminal_tables import TerminalColumn, fitted_tables
from goldless.statistics.comparisons import SIGNIFICANT, Comparison, fewest_tasks, too_few_tasks
from goldless.statistics.new_peers import FEWEST_PEERS
from goldless.statistics.standings import Missing, Standings

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """One agent."""

    rank: int | None
    """None: no score."""
    agent: str
    group: str | None
    score: float | None
    low: float | None
    high: float | None
    n: int
    """Number of tasks behind the score."""
    asked: int
    """Pairs that should have been scored."""
    used: int
    """Pairs that were scored."""
    missing: int
    """Asked minus used."""
    better_than: tuple[str, ...]
    """Agents it beats on common tasks, corrected for multiple comparisons."""
    note: str | None = None
    """Why there is no interval."""
    between_prompts: float | None = None
    """Standard deviation of the score between prompts; None if there was only one."""
    new_peers_low: float | None = None
    """The interval for peers like these; None: scores are not means over peers."""
    new_peers_high: float | None = None
    worst_low: float | None = None
    """The ends of the interval if all that is missing were lowest, and highest; None: nothing is missing."""
    worst_high: float | None = None


CSV_NAMES = (*(name for name in LeaderboardRow.__slots__ if name != "note"), "note")


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Agents by score, highest first, with the settings behind the numbers."""

    metric: str
    unit: str
    level: float
    rows: tuple[LeaderboardRow, ...]
    comparisons: tuple[Comparison, ...]
    signature: str
    notes: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The leaderboard as one JSON object."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2)

    def to_csv(self) -> str:
        """Comma-separated values; the signature is the last column of every row."""
        columns = tuple(Column(name, name) for name in ("metric", *CSV_NAMES))
        rows = tuple(
            {"metric": self.metric, **asdict(row), "better_than": "; ".join(row.better_than)} for row in self.rows
        )
        return ReportTable("", columns, rows, self.signature).to_csv()

    def to_markdown(self) -> str:
        """A Markdown table and the signature below it."""
        return replace(self.table(), title="").to_markdown()

    def to_latex(self) -> str:
        """A booktabs LaTeX table, with the signature in a comment and in the caption."""
        return self.table(beaten="ranks").to_latex()

    def to_rich(self, width: int = 80) -> list[Table]:
        """Tables for a terminal of that width, with an interval plot if there is room; beaten agents are given by rank.

        They do not contain the signature: print that below, so that it can be copied.
        """
        shown = self.table(beaten="ranks")
        columns = shown.terminal_columns()
        ends = min(self._ends, default=0.0), max(self._ends, default=1.0)
        columns.insert(4, TerminalColumn("", [_bar(row, *ends) for row in self.rows], left=True, plot=True))
        return fitted_tables(shown.title, columns, width, keys=shown.keys)

    def table(self, *, beaten: Literal["names", "ranks"] = "names") -> ReportTable:
        """The table for people; ``beaten``: whether the agents that one beats are given by name or by rank."""
        decimals, word = 3 if max(map(abs, self._ends), default=0.0) < 2 else 2, comparative(self.metric)
        columns = (
            Column("rank", "#", "count"),
            Column("agent", "agent"),
            Column("score", "score", "number", "missing", decimals),
            Column("low high", f"{self.level * 100:g}% interval", "interval", "", decimals, reason="note"),
            Column("n", "tasks", "figure"),
            Column("missing asked", "missing", "fraction"),
            *[Column("between_prompts", "±prompts", "number", decimals=decimals)] * self.several_prompts,
            Column("beaten", f"{word} than" if beaten == "names" else "beats #" if word == "better" else f"{word} #"),
        )
        ranks = {row.agent: str(row.rank) for row in self.rows}
        rows = []
        for row in self.rows:
            others = ", ".join(row.better_than) if beaten == "names" else " ".join(ranks[a] for a in row.better_than)
            rows.append({**asdict(row), "beaten": others or None})
        title = heading(self.metric, self.unit)
        return ReportTable(title, columns, tuple(rows), self.signature, notes=self.notes)

    @property
    def several_prompts(self) -> bool:
        """Whether scores are means over several prompts."""
        return any(row.between_prompts is not None for row in self.rows)

    @property
    def _ends(self) -> list[float]:
        return [end for row in self.rows for end in (row.low, row.high, row.score) if end is not None]


BAR_WIDTH = 16
MOST_LISTED = 5


def _bar(row: LeaderboardRow, least: float, most: float) -> str:
    """The interval as a line with the score as a dot."""
    span = (most - least) or 1.0

    def place(value: float) -> int:
        return round((value - least) / span * (BAR_WIDTH - 1))

    cells = [" "] * BAR_WIDTH
    if row.low is not None and row.high is not None:
        cells[place(row.low) : place(row.high) + 1] = "─" * (place(row.high) - place(row.low) + 1)
    if row.score is not None:
        cells[place(row.score)] = "●"
    return "".join(cells)


def make_leaderboard(
    found: Standings,
    *,
    metric: str,
    unit: str,
    level: float,
    signature: str,
    asked: Mapping[str, int],
    used: Mapping[str, int],
    groups: Mapping[str, str | None] | None = None,
    between_prompts: Mapping[str, float] | None = None,
    notes: Sequence[str] = (),
) -> Leaderboard:
    """The leaderboard of agents' standings."""
    rows = [
        LeaderboardRow(
            rank=row.rank,
            agent=row.agent,
            group=(groups or {}).get(row.agent),
            score=row.interval.mean,
            low=row.interval.low,
            high=row.interval.high,
            n=row.interval.n,
            asked=asked.get(row.agent, 0),
            used=used.get(row.agent, 0),
            missing=asked.get(row.agent, 0) - used.get(row.agent, 0),
            better_than=row.better_than,
            note=row.interval.note,
            between_prompts=(between_prompts or {}).get(row.agent),
            new_peers_low=None if row.new_peers is None else row.new_peers.low,
            new_peers_high=None if row.new_peers is None else row.new_peers.high,
            worst_low=None if row.worst is None else row.worst[0],
            worst_high=None if row.worst is None else row.worst[1],
        )
        for row in found.rows
    ]
    return Leaderboard(metric, unit, level, tuple(rows), found.comparisons, signature, tuple(notes))


def leaderboard_notes(found: Standings, missing: Missing | None, *, limited: bool) -> list[str]:
    """What a reader of the table must know; ``limited``: whether missing scores were bounded by the metric's limits."""
    return [*_undecidable(found.comparisons), *_missing_notes(found, missing, limited=limited), *_peer_notes(found)]


def _undecidable(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Why differences cannot be significant, where that is so by design."""
    few = [c for c in comparisons if c.n < fewest_tasks()]
    if few and len(few) == len(comparisons):
        said = too_few_tasks(max(c.n for c in few)) or ""
        yield f"{said[:1].upper()}{said[1:]}."
    elif few:
        yield (
            f"{len(few)} of {len(comparisons)} pairs of agents have fewer than {fewest_tasks()} common tasks: "
            f"their differences cannot be significant at {SIGNIFICANT:g}."
        )


def _missing_notes(found: Standings, missing: Missing | None, *, limited: bool) -> Iterator[str]:
    worst = [row for row in found.rows if row.worst is not None]
    if missing is None or not worst:
        return
    if len({row.interval.n for row in found.rows}) > 1:
        yield (
            "Agents miss other tasks: their scores are adjusted for how the others scored there, and differences are "
            "tested on the tasks that both have."
        )
    ends = f"{missing.lowest:.3g} or {missing.highest:.3g}"
    source = "the limits of the metric" if limited else "the smallest and largest score found, as it has no limits"
    listed = [f"{row.agent} {row.worst[0]:.3g} … {row.worst[1]:.3g}" for row in worst if row.worst is not None]
    more = f" and {len(listed) - MOST_LISTED} more" * (len(listed) > MOST_LISTED)
    yield (
        f"Worst case, if missing scores were {ends} ({source}): intervals of {', '.join(listed[:MOST_LISTED])}{more}."
    )


ROUNDING = 1e-9
"""Tasks that differ by less than this share of what the peers differ by differ by rounding alone."""


def _peer_notes(found: Standings) -> Iterator[str]:
    both = [row.new_peers for row in found.rows if row.new_peers is not None]
    ratios = [p.se_peers / p.se_tasks for p in both if p.se_tasks > ROUNDING * p.se_peers]
    if found.peers is not None and found.peers < FEWEST_PEERS:
        yield f"Intervals are for these peers: for peers like these, {found.peers} are too few."
    if ratios:
        times = f"{median(ratios):.1f} times that of the tasks (median over agents)"
        yield f"Intervals are for these peers; the report has those for peers like these. The peers' error is {times}."


# --- raters ----------------------------------------------------------------------------------------------------------

RATER_COLUMNS = (
    Column("criterion", "criterion"),
    Column("rater", "rater", "name", "mean over pairs"),
    Column("value", "TVD-MI", "number", "missing", 3),
    Column("null", "chance", "number", "", 3),
    Column("excess", "excess", "number", "", 3),
    Column("p", "p", "probability", ""),
    Column("partners", "partners", "figure"),
)


@dataclass(frozen=True, slots=True)
class RaterRow:
    """One rater on one criterion, or the mean over all pairs of raters."""

    criterion: str
    rater: str | None
    """None: the mean over all pairs of raters."""
    value: float | None
    """None: no other rater labelled the same items."""
    null: float | None
    """Mean of the value after shuffling each rater's labels."""
    p: float | None
    partners: int
    low: float | None = None
    """Interval of a group of raters."""
    high: float | None = None

    @property
    def excess(self) -> float | None:
        """The value minus the chance level."""
        return None if self.value is None or self.null is None else self.value - self.null


@dataclass(frozen=True, slots=True)
class RaterTable:
    """Raters by criterion, with the settings behind the numbers."""

    metric: str
    signature: str
    rows: tuple[RaterRow, ...]

    def table(self) -> ReportTable:
        """The table for people."""
        title = f"{self.metric} (total variation; chance: mean after shuffling each rater's labels)"
        rows = tuple({**asdict(row), "excess": row.excess} for row in self.rows)
        grouped = any(row.low is not None for row in self.rows)
        interval = [Column("low high", "interval", "interval", "", 3)] * grouped
        columns = (*RATER_COLUMNS[:-1], replace(RATER_COLUMNS[-1], wide=grouped), *interval)
        return ReportTable(title, columns, rows, self.signature)

    def to_markdown(self) -> str:
        """A Markdown table and the signature below it."""
        return replace(self.table(), title="").to_markdown()

    def to_latex(self) -> str:
        """A booktabs LaTeX table, with the signature in a comment and in the caption."""
        return self.table().to_latex()

    def to_csv(self) -> str:
        """Comma-separated values with the signature in every row."""
        columns = tuple(Column(name, name) for name in ("metric", *RaterRow.__slots__))
        rows = tuple({"metric": self.metric, **asdict(row)} for row in self.rows)
        return ReportTable("", columns, rows, self.signature).to_csv()

    def to_rich(self, width: int = 80) -> list[Table]:
        """Tables for a terminal of that width; print the signature below."""
        return self.table().to_rich(width)
