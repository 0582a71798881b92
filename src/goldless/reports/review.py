"""The results of a review: reviewers with their exam, the panel and its worth, and the rankings of agents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from goldless.metrics.exam_traits import Trait
from goldless.metrics.judgement_table import Convention
from goldless.metrics.panel_worth import PanelWorth
from goldless.metrics.ranking import RankedAgent, Ranking
from goldless.reports.decisions import Stopped
from goldless.reports.document import Result, cells, written_property
from goldless.reports.findings import REVIEW, Said
from goldless.reports.leaderboard import Leaderboard, metric_finding
from goldless.reports.report_table import Column, ReportTable
from goldless.signature import Signature
from goldless.statistics.bootstrap import ABSENT, Estimate
from goldless.statistics.comparisons import Comparison
from goldless.statistics.standings import LeaderboardRow

EXAM = "Exam report"
MEASURED = "on recorded XSum the model claimed .97 and was right on .73"


@dataclass(frozen=True)
class PanelAgreement:
    """Agreement of a reviewer or a panel with people."""

    accuracy: Estimate = ABSENT
    """On pairs with a human preference; ``n``: of these, pairs with a judgement."""
    n_pairs: int = 0
    """Pairs with a decided label."""
    pairs_tied: int = 0
    """Judgements that found neither better, one for each order."""
    spearman: float | None = None
    """Over agents, averaged over tasks; None if there are no ratings."""
    kendall_tau_a: float | None = None
    accuracy_by_task: float | None = None
    """Mean over tasks of the accuracy on each."""
    accuracy_each_order: float | None = None
    """Of a panel's votes in each order on its own."""
    panel_difference: float | None = None
    """Of a reviewer: accuracy of the panel minus its own, on the pairs that both judged."""
    panel_p_pairs: float | None = None
    """p of that difference by a paired t-test over pairs, as the papers print it."""


@dataclass(frozen=True)
class ReviewerResult:
    """One reviewer: its exam, its vote, its agreement with people."""

    name: str
    model: str | None = None
    """Short name of the model; None: recorded."""
    traits: Mapping[str, Trait] = field(default_factory=dict)
    passed: bool = False
    why: str = ""
    weight: float | None = None
    """Weight of its vote; None: no vote."""
    asked: int = 0
    used: int = 0
    first_shown: Estimate | None = None
    """Its preference for the response shown first, one half: no preference; None: it rates single responses."""
    agreement: PanelAgreement | None = None
    """None: no labels, or no judgements."""

    @property
    def missing(self) -> int:
        return self.asked - self.used

    @property
    def accuracy(self) -> float | None:
        """Share of the pairs on which it agrees with people; None: no labels."""
        return None if self.agreement is None else self.agreement.accuracy.value


@dataclass(frozen=True)
class SweepCell:
    """The panel at one limit and with one kind of weights."""

    limit: float | str | None
    weights: str
    reviewers: tuple[str, ...] = ()
    """Those who pass."""
    agreement: PanelAgreement | None = None
    """None: no reviewer passes."""


@dataclass(frozen=True)
class ReviewPanel:
    """The reviewers that vote."""

    reviewers: tuple[str, ...] = ()
    weights: Mapping[str, float | None] = field(default_factory=dict)
    agreement: PanelAgreement | None = None
    """None: no panel, or no labels."""
    worth: PanelWorth | None = None
    """None: no panel."""


@dataclass(frozen=True)
class ReviewInstructions:
    """The way reviewers were asked, and their verdicts read."""

    task_description: str = ""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """By reviewer, where it has its own."""
    orders: str = "both"
    readings: Mapping[str, str] = field(default_factory=dict)
    """The way verdicts were read, by reviewer."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ReviewReport(Result):
    """``review.json``: the results of a review."""

    study: str = ""
    """Name of the study."""
    fingerprint: str = ""
    """SHA-256 of its tasks and responses; empty: unknown."""
    scale: str = "?"
    exams: tuple[str, ...] = ()
    convention: Convention = "default"
    settings: Mapping[str, str] = field(default_factory=dict)
    """The parts of the signature: how exactly the numbers were made."""
    reviewers: tuple[ReviewerResult, ...] = ()
    nobody: str | None = None
    """The reason why there is no panel, with the reviewers closest to passing; None if there is one."""
    panel: ReviewPanel = ReviewPanel()
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    """By name; the first one is the ranking. Empty: no panel."""
    comparisons: tuple[Comparison, ...] | None = None
    """Pairs of agents by the first ranking: decided, or about how many more tasks it would take; None: not tested."""
    stopped: Stopped | None = None
    """The stop, and what is decided; None: it was not to stop early."""
    labels: Mapping[str, int] = field(default_factory=dict)
    """Labelled pairs: all, decided, tied, tested on."""
    instructions: ReviewInstructions = ReviewInstructions()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that the results depend on besides evidence, for a replay."""
    sweep: tuple[SweepCell, ...] = ()
    """The panel at other limits and weights, if requested."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Missing judgements and exam answers by cause."""
    complete: bool = True
    """True if everything requested was collected, so that running the command again would change nothing."""
    notes: tuple[str, ...] = ()

    @written_property
    def signature(self) -> str:
        """The settings in one line."""
        return Signature.line(self.settings)

    def __repr__(self) -> str:
        return f"<Review of {self.study!r} on {self.scale}; panel: {', '.join(self.voters) or 'none'}>"

    @property
    def voters(self) -> tuple[str, ...]:
        return self.panel.reviewers

    @property
    def ranking(self) -> tuple[RankedAgent, ...]:
        """The agents of the first ranking, best first; empty: no panel."""
        return next((one.agents for one in self.rankings.values()), ())

    @property
    def level(self) -> float:
        return float(self.settings.get("level", 0.95))

    @property
    def boards(self) -> dict[str, Leaderboard]:
        """Each ranking as a leaderboard: with the agents that one is shown to beat."""
        compared, found = self.comparisons, {}
        pairs = {(one.better, one.worse) for one in compared or () if one.difference}
        for name, ranking in self.rankings.items():
            rows = []
            for one in ranking.agents:
                below = tuple(other.agent for other in ranking.agents if (one.agent, other.agent) in pairs)
                beaten = None if compared is None else below
                rows.append(LeaderboardRow(one.rank, one.agent, None, one.estimate, one.asked, one.used, beaten))
            about = (name, ranking.unit, self.level)
            found[name] = Leaderboard(*about, tuple(rows), compared or (), self.settings, ranking.notes)
        return found

    # --- in words ----------------------------------------------------------------------------------------------------

    def sentences(self) -> list[Said]:
        """The leader, the agents it beats, and who voted."""
        passed = sum(row.passed for row in self.reviewers)
        who = f"{passed} of {len(self.reviewers)} reviewer{'s' * (len(self.reviewers) != 1)} can vote"
        name, board = next(iter(self.boards.items()), ("", None))
        if board is None or all(row.score is None for row in board.rows):
            return [(f"The review has no ranking; {who}{f': {self.nobody}' if self.nobody else ''}.",)]
        lead = metric_finding(f"{REVIEW}{name}", board) if self.stopped is None else (self.stopped.sentence,)
        agreement, agrees = self.panel.agreement, ""
        if agreement is not None and agreement.accuracy.value is not None:
            used = f"{agreement.accuracy.n or agreement.n_pairs:,}"
            agrees = f", and agree with people on {agreement.accuracy.value:.3f} of {used} pairs"
        return [lead, (f"{who}{agrees}.",)]

    def panel_notes(self) -> Iterator[str]:
        """The panel's agreement with people, and what it is worth, without full stops."""
        found, worth = self.panel.agreement, self.panel.worth
        if found is not None and found.accuracy.value is not None:
            share = found.accuracy
            ends = "" if share.low is None else f" ({share.low:.4f} … {share.high:.4f})"
            yield f"panel agrees with people on {share.value:.4f} of {found.n_pairs} pairs{ends}"
            if found.accuracy_by_task is not None:
                yield f"mean over tasks of its accuracy: {found.accuracy_by_task:.4f}"
            if found.accuracy_each_order is not None:
                yield f"accuracy of its votes in each order on its own: {found.accuracy_each_order:.4f}"
            best = max(self.reviewers, key=lambda row: -1.0 if row.accuracy is None else row.accuracy)
            own = best.agreement
            if own is not None and own.panel_difference is not None and own.panel_p_pairs is not None:
                p = f"p {own.panel_p_pairs:.4f}, paired t-test over pairs"
                yield f"panel minus {best.name}, the most accurate reviewer: {own.panel_difference:+.4f} ({p})"
        if worth is not None and worth.reviewers:
            yield _worth(worth)
            yield from () if worth.peers or worth.best.votes.value is None or len(worth.reviewers) == 1 else worth.notes

    # --- in tables ---------------------------------------------------------------------------------------------------

    def tables(self) -> list[ReportTable]:
        """Every ranking, then the exam and what the votes alone show; the panel's agreement is below the last ranking.

        The table for pages alone, of the reviewers, is ``reviewers_table``.
        """
        boards = [board.table(beaten="ranks") for board in self.boards.values()]
        if boards:
            boards[-1] = replace(boards[-1], notes=(*boards[-1].notes, *self.panel_notes()))
        others = (self._confidence_table(), self._sweep_table(), self._position_table(), self._peers_table())
        return [*boards, self.exam_table(), *(table for table in others if table.rows)]

    def _table(
        self, title: str, columns: tuple[Column, ...], rows: Iterable[Mapping[str, Any]], notes: Iterable[str] = ()
    ) -> ReportTable:
        return ReportTable(title, columns, tuple(rows), self.signature, tuple(notes))

    def reviewers_table(self) -> ReportTable:
        """One row per reviewer: its vote, what it was asked, how well it agrees with people."""
        judged = any(row.accuracy is not None for row in self.reviewers)
        columns = (
            Column("name", "reviewer", "name"),
            Column("model", "model", "name", "recorded"),
            Column("vote", "can vote"),
            Column("weight", "weight", "number", "none", 3),
            Column("missing asked", "missing", "fraction"),
            *[Column("accuracy", "agrees with people", "number", "-", 3)] * judged,
            *[Column("spearman", "Spearman", "number", "-", 2)] * judged,
            Column("why", "exam"),
        )
        ordered = sorted(self.reviewers, key=lambda row: (not row.passed, -(row.weight or 0.0)))
        return self._table("Reviewers", columns, map(_reviewer_cells, ordered))

    def exam_table(self) -> ReportTable:
        """One row per reviewer and trait: value with interval and n, limit, weight of the vote, agreement."""
        columns = (
            Column("reviewer", "reviewer", "name"),
            Column("passed", "passed", wide=True),
            Column("weight", "vote", "number", "none"),
            *[Column("accuracy", "accuracy", "number", "-")] * any(row.accuracy is not None for row in self.reviewers),
            Column("trait", "trait"),
            Column("value", "value", "number", "missing", 3),
            Column("low high", "interval", "interval", "", 2),
            Column("n", "n", "figure"),
            Column("threshold", "> limit", "number", decimals=2),
        )
        rows: list[dict[str, Any]] = []
        for row in self.reviewers:
            vote = {"reviewer": row.name, "passed": "yes" if row.passed else "no", "weight": row.weight}
            vote["accuracy"] = row.accuracy
            for name, trait in row.traits.items():
                low, high = trait.interval
                rows.append({**cells(trait), **vote, "trait": name, "low": low, "high": high})
            if not row.traits:
                rows.append({**vote, "trait": "-", "value": "", "n": "", "threshold": ""})
        failed = (f"{row.name} did not pass: {row.why}" for row in self.reviewers if not row.passed)
        return self._table(EXAM, columns, rows, failed)

    def _confidence_table(self) -> ReportTable:
        """One row per reviewer: how sure it was of easy and of hard items, beside its accuracy in the human exam."""
        parts = [f"{part} {name}" for part in ("easy", "hard") for name in ("mean", "sd", "median")]
        examined = any("human exam" in row.traits for row in self.reviewers)
        columns = (
            Column("reviewer", "reviewer"),
            Column("unit", "in"),
            *(Column(part.replace(" ", "_"), part, "number") for part in parts),
            *[Column("human exam", "human exam", "number")] * examined,
        )
        rows = []
        for row in self.reviewers:
            found, exam = row.traits.get("self-confidence"), row.traits.get("human exam")
            if found is not None and found.easy is not None and found.hard is not None:
                both = {"easy": cells(found.easy), "hard": cells(found.hard)}
                spread = {f"{part}_{name}": value for part, of in both.items() for name, value in of.items()}
                known = None if exam is None else exam.value
                rows.append({"reviewer": row.name, "unit": found.hard.unit, "human exam": known, **spread})
        return self._table(
            "Self-confidence (levels: higher is surer; nats of uncertainty: lower is surer)", columns, rows
        )

    def _sweep_table(self) -> ReportTable:
        columns = (
            Column("limit", "> limit", "figure"),
            Column("weights", "weights"),
            Column("accuracy", "accuracy", "number", "no panel"),
            Column("accuracy_low accuracy_high", f"{self.level * 100:g}% interval", "interval", "", 3),
            Column("accuracy_by_task", "by task", "number", ""),
            Column("spearman", "Spearman", "number", ""),
            Column("panel", "panel"),
        )
        rows = map(_sweep_cells, self.sweep)
        return self._table("The panel's agreement with people by limit and weights", columns, rows)

    def _position_table(self) -> ReportTable:
        """Reviewers' preference for the response shown first; empty where each pair was asked about in both orders."""
        columns = (
            Column("reviewer", "reviewer", "name"),
            Column("value", "prefers the first", "number", "missing", 3),
            Column("low high", "interval", "interval", "", 3),
            Column("n", "comparisons", "figure"),
        )
        once = () if self.instructions.orders == "both" else self.reviewers
        rows = (cells(row.first_shown, reviewer=row.name) for row in once if row.first_shown is not None)
        title = "Position bias: each pair was shown once, in an order drawn by the seed (.5: none)"
        return self._table(title, columns, rows)

    def _peers_table(self) -> ReportTable:
        """The reviewers as their votes show them, without labels; empty for fewer than three."""
        worth = self.panel.worth
        known = {row.name: row.accuracy for row in self.reviewers if row.accuracy is not None}
        columns = (
            Column("reviewer", "reviewer", "name"),
            Column("accuracy", "estimate", "number", decimals=3),
            Column("low high", "interval", "interval", "", 2),
            Column("n", "n", "figure"),
            Column("discrimination", "judge-aware d", "number", decimals=2),
            *[Column("people", "accuracy", "number", "-")] * bool(known),
        )
        peers = () if worth is None else worth.peers
        rows = (cells(peer, "accuracy", people=known.get(peer.reviewer)) for peer in peers)
        title = "Reviewers in the order that their votes alone show"
        return self._table(title, columns, rows, () if worth is None else _order_notes(worth))


def _reviewer_cells(row: ReviewerResult) -> dict[str, Any]:
    vote = "yes" if row.passed else "no"
    spearman = None if row.agreement is None else row.agreement.spearman
    return {**cells(row, vote=vote), "missing": row.missing, "accuracy": row.accuracy, "spearman": spearman}


def _sweep_cells(cell: SweepCell) -> dict[str, Any]:
    agreement = {} if cell.agreement is None else cells(cell.agreement)
    by_task = agreement.get("accuracy_by_task")
    return {**cells(cell), **agreement, "accuracy_by_task": by_task, "panel": ", ".join(cell.reviewers)}


def _worth(worth: PanelWorth) -> str:
    """The number of independent votes the panel is worth, and why."""
    many, best = len(worth.reviewers), worth.best
    if many == 1:
        return "one reviewer is one vote"
    if best.votes.value is None:
        return f"how many votes the {many} reviewers are worth is not known: {best.votes.note or 'no pair in common'}"
    who = f"the {many}" if best.judges == many else f"{best.judges} of the {many}"
    ends = "" if best.votes.low is None else f" ({best.votes.low:.2f} … {best.votes.high:.2f})"
    what, labelled, why = "votes", "", ""
    if worth.source == "errors":
        what, labelled = "errors", "labelled "
    else:
        why = (
            ". Agreement on what is right counts as shared error here, so this is too low as a rule; labels would show"
        )
    if (best.correlation or 0.0) < 0:
        labelled, why = "", ". They contradict each other, and no panel is worth more votes than it has reviewers"
    shared = f"their {what} correlate at {best.correlation:.3f} on {best.votes.n} {labelled}pairs"
    return f"{who} reviewers are worth {best.votes.value:.2f}{ends} independent votes: {shared}{why}"


def _order_notes(worth: PanelWorth) -> Iterator[str]:
    """Notes on how far the order of reviewers can be trusted."""
    if worth.claimed is not None:
        far = f": far too much, because reviewers share errors; {MEASURED}"
        if worth.right is not None:
            far = f" and is right on {worth.right:.3f} of {worth.n_claimed} labelled ones: reviewers share errors"
        claims = f"the model behind this order (Dawid-Skene) claims to be right on {worth.claimed:.3f} of the pairs"
        yield f"{claims}{far}. Trust the order, not the values"
    yield from worth.notes
