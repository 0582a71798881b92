"""Documents of scores, reviews and GRE-bench editions, and what a run records about itself."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Discriminator, Tag, model_validator

from goldless.reports.documents.fields import EMPTY, Bounded, Count, Level, Number, Part, Result, Text, Texts
from goldless.statistics.comparisons import SIGNIFICANT
from goldless.templates import FIELDS, TEMPLATES, Template


class ModelNote(Part):
    """A model that was called."""

    provider: Text = ""
    name: Text = ""
    revision: Text = ""
    tokenizer: Text = ""
    settings: dict[Text, Any] = EMPTY


class CanaryNote(Part):
    """Results of the canaries of a scorer."""

    copied_nats: Number = None
    shuffled_nats: Number = None
    noise_nats: Number = None


class AgentScore(Bounded):
    """One agent on a leaderboard."""

    rank: int | None = None
    agent: Text
    group: Text | None = None
    score: Number = None
    n: Count = 0
    """Number of tasks behind the score."""
    asked: Count = 0
    used: Count = 0
    missing: Count = 0
    better_than: Texts | None = None
    """None: the document has no comparisons."""
    note: Text | None = None
    between_prompts: Number = None
    new_peers_low: Number = None
    new_peers_high: Number = None
    worst_low: Number = None
    worst_high: Number = None


class AgentComparison(Part):
    """Two agents on common tasks."""

    first: Text
    second: Text
    difference: Number = None
    p_holm: Number = None
    p_adjusted: Number = None
    n: Count = 0
    more_tasks: Count | None = None
    """The fewest more tasks that are likely to decide; 0: decided; None: too far to estimate, or an older document."""
    more_tasks_high: Count | None = None
    """The most; None: no end can be given."""
    skewed: bool = False
    """Whether it would be decided if the differences were not skewed."""
    alpha: Number = SIGNIFICANT

    @property
    def decided(self) -> bool:
        """Whether one of the two is better."""
        return self.p_adjusted is not None and self.p_adjusted < (self.alpha or 0.0)


class UntilNote(Part):
    """Where a run that was to stop early stopped."""

    question: Text
    summary: Text
    by: Text = ""
    usd_per_task: Number = None
    comparisons: tuple[AgentComparison, ...] = ()


class TaskInfluence(Part):
    """Effect of leaving one task out on an agent's mean."""

    agent: Text
    task: Text
    rank: int | None = None
    rank_without: int | None = None
    ranking_changes: bool = False


class PairMeans(Part):
    """Mean scores of agents (rows) with peers (columns)."""

    agents: Texts = ()
    means: tuple[tuple[Number, ...], ...] = ()

    @model_validator(mode="after")
    def _square(self) -> Self:
        if any(len(line) != len(self.agents) for line in (self.means, *self.means)):
            raise ValueError("means must be a square matrix over agents")
        return self

    @property
    def values(self) -> list[float]:
        """All means that are not missing."""
        return [value for line in self.means for value in line if value is not None]


class PeerLink(Part):
    """Two agents that predict each other more than their levels explain."""

    first: Text
    second: Text
    excess: Number = None
    standard_error: Number = None


class PeerBlock(Part):
    """Agents that share more with each other than with anyone else."""

    agents: Texts
    inside: Number = None
    outside: Number = None


class PeerGraphNote(Part):
    """Which agents predict which, beyond what each predicts in general."""

    agents: Texts = ()
    links: tuple[PeerLink, ...] = ()
    blocks: tuple[PeerBlock, ...] = ()


class FindingNote(Part):
    """What the audit found."""

    kind: Text = ""
    agents: Texts = ()
    message: Text
    metrics: Texts = ()


class RankedMetric(Bounded):
    """A metric that ranks agents. Its own interval is for the difference between two groups, if any."""

    unit: Text = "score"
    level: Level = 0.95
    rows: tuple[AgentScore, ...]
    comparisons: tuple[AgentComparison, ...] = ()
    signature: Text = ""
    difference: Number = None
    d_response: Number = None
    auc: Number = None
    n_tasks: Count = 0
    groups: Text | None = None
    notes: Texts = ()
    summary: dict[Text, Number] = EMPTY
    """Numbers about the study as a whole, by name."""
    by_wording: dict[Text, dict[Text, Number]] = EMPTY
    influence: tuple[TaskInfluence, ...] = ()
    matrix: PairMeans = PairMeans()
    peer_graph: PeerGraphNote | None = None

    @property
    def ends(self) -> list[float | None]:
        """Scores and the ends of their intervals."""
        return [end for row in self.rows for end in (row.score, row.low, row.high)]

    @property
    def counts_pairs(self) -> bool:
        """Whether asked, used and missing count pairs of responses; else they count responses.

        A signature says what single responses are compared with. Custom metrics do not say so: for them, responses are
        counted if scores were used and no pair has one.
        """
        parts = self.signature.split("|")
        if "against:nothing" in parts or "against:reference" in parts:
            return False
        return not self.matrix.agents or not any(row.used for row in self.rows) or bool(self.matrix.values)


class Information(Part):
    """Information shared between labels, and its chance level: of one rater, or over all pairs."""

    rater: Text = "mean over pairs of raters"
    value: Number = None
    null: Number = None
    raters: tuple[Information, ...] = ()


class RaterMetric(Part):
    """A metric that scores raters, by criterion."""

    signature: Text = ""
    criteria: dict[Text, Information]


def _kind(metric: Any) -> str:
    return (
        "raters" if isinstance(metric, RaterMetric) or (isinstance(metric, dict) and "criteria" in metric) else "ranked"
    )


Metric = Annotated[Annotated[RankedMetric, Tag("ranked")] | Annotated[RaterMetric, Tag("raters")], Discriminator(_kind)]


class LeaderboardDocument(Result):
    """``leaderboard.json``."""

    models: dict[Text, ModelNote] = EMPTY
    canaries: CanaryNote | None = None
    settings: dict[Text, Any] = EMPTY
    prompts: dict[Text, Text] = EMPTY
    templates: dict[Text, dict[Text, Any]] = EMPTY
    asked: Count | None = None
    open: Count = 0
    failures: dict[Text, Count] = EMPTY
    tasks_without_peers: Texts = ()
    findings: tuple[FindingNote, ...] = ()
    until: UntilNote | None = None
    metrics: dict[Text, Metric] = EMPTY

    @property
    def boards(self) -> dict[str, RankedMetric]:
        """The metrics that rank agents, by name."""
        return {name: found for name, found in self.metrics.items() if isinstance(found, RankedMetric)}

    def template(self, name: str | None, source: str) -> Template | None:
        """The template of that name: a built-in one, or one stored with the run, labelled with ``source``."""
        if name in TEMPLATES:
            return TEMPLATES[name]
        stored = self.templates.get(name or "", {})
        if not all(isinstance(stored.get(field), str) for field in FIELDS):
            return None
        return Template(name=name or "", source=source, **{field: stored[field] for field in FIELDS})


# --- review ----------------------------------------------------------------------------------------------------------


class SurenessNote(Part):
    """How sure a reviewer was of the easy or the hard items."""

    unit: Text = ""
    n: Count = 0
    mean: Number = None
    sd: Number = None
    median: Number = None


class TraitNote(Bounded):
    """A reviewer's result in one part of the exam."""

    value: Number = None
    n: Count = 0
    threshold: Number = None
    difference: Number = None
    """If given, the interval is for this difference, not for the value."""
    note: Text | None = None
    easy: SurenessNote | None = None
    hard: SurenessNote | None = None

    @property
    def ends(self) -> dict[str, float | None]:
        """The interval of the value; None if the interval is for a difference."""
        own = self.difference is None
        return {"low": self.low if own else None, "high": self.high if own else None}


class PeopleAgreement(Part):
    """How well a reviewer or a panel agrees with people; empty without labels."""

    accuracy: Number = None
    accuracy_low: Number = None
    accuracy_high: Number = None
    accuracy_by_task: Number = None
    accuracy_each_order: Number = None
    n_pairs: Count = 0
    pairs_used: Count = 0


class FirstShownNote(Bounded):
    """How far a reviewer prefers the response shown first."""

    value: Number = None
    n: Count = 0


class ReviewerNote(PeopleAgreement):
    """One reviewer."""

    name: Text
    model: Text | None = None
    traits: dict[Text, TraitNote] = EMPTY
    passed: bool = False
    why: Text = ""
    weight: Number = None
    panel_difference: Number = None
    panel_p_pairs: Number = None
    asked: Count | None = None
    missing: Count | None = None
    first_shown: FirstShownNote | None = None


class EffectiveVotesNote(Bounded):
    """How many independent votes a panel is worth."""

    judges: Count = 0
    votes: Number = None
    correlation: Number = None
    n: Count = 0
    note: Text | None = None


class PeerNote(Bounded):
    """A reviewer as its peers' votes show it."""

    reviewer: Text
    accuracy: Number = None
    n: Count = 0
    discrimination: Number = None


class WorthNote(Part):
    """What a panel is worth."""

    reviewers: Texts = ()
    by_errors: EffectiveVotesNote | None = None
    by_votes: EffectiveVotesNote | None = None
    peers: tuple[PeerNote, ...] = ()
    claimed: Number = None
    right: Number = None
    n_claimed: Count = 0
    notes: Texts = ()


class PanelNote(PeopleAgreement):
    """The reviewers that vote."""

    reviewers: Texts = ()
    worth: WorthNote | None = None
    """None: older results, or no panel."""


class RankedAgent(Bounded):
    """One agent in a ranking by votes."""

    agent: Text
    rank: int | None = None
    score: Number = None
    n_tasks: Count = 0
    asked: Count = 0
    used: Count = 0

    @property
    def missing(self) -> int:
        """Asked minus used."""
        return self.asked - self.used

    def standing(self, beaten: dict[str, set[str]] | None, agents: tuple[RankedAgent, ...]) -> AgentScore:
        """The agent on a leaderboard; ``beaten``: whom each agent beats, None: not tested."""
        own = None if beaten is None else tuple(a.agent for a in agents if a.agent in beaten.get(self.agent, ()))
        return AgentScore(
            rank=self.rank,
            agent=self.agent,
            score=self.score,
            low=self.low,
            high=self.high,
            n=self.n_tasks,
            asked=self.asked,
            used=self.used,
            missing=self.missing,
            better_than=own,
        )


class RankingNote(Part):
    """One ranking."""

    unit: Text = "score"
    agents: tuple[RankedAgent, ...] = ()
    notes: Texts = ()


class ReviewSettings(Part):
    """Settings of the reviewers."""

    task_description: Text = ""
    descriptions: dict[Text, Text] = EMPTY
    readings: dict[Text, Text] = EMPTY
    orders: Text = "both"


class SweepNote(PeopleAgreement):
    """The panel at one limit and with one kind of weights."""

    limit: float | Text | None = None
    weights: Text = ""
    reviewers: Texts = ()
    spearman: Number = None


class ReviewDocument(Result):
    """``review.json``."""

    scale: Text = "?"
    exams: Texts = ()
    reviewers: tuple[ReviewerNote, ...] = ()
    nobody_passed: Text = ""
    panel: PanelNote = PanelNote()
    ranking: tuple[RankedAgent, ...] = ()
    rankings: dict[Text, RankingNote] = EMPTY
    comparisons: tuple[AgentComparison, ...] | None = None
    """Agents by their shares of the votes, or mean ratings; None: an older document."""
    settings: ReviewSettings = ReviewSettings()
    failures: dict[Text, Count] = EMPTY
    until: UntilNote | None = None
    sweep: tuple[SweepNote, ...] = ()

    @property
    def boards(self) -> dict[str, RankedMetric]:
        """Each ranking as a leaderboard: with the agents that one is shown to beat."""
        beaten = None if self.comparisons is None else _beaten(self.comparisons)
        rankings = self.rankings or ({"ranking": RankingNote(agents=self.ranking)} if self.ranking else {})
        return {
            name: RankedMetric(
                unit=ranking.unit,
                level=self.level,
                rows=tuple(row.standing(beaten, ranking.agents) for row in ranking.agents),
                comparisons=self.comparisons or (),
                signature=self.signature,
                notes=ranking.notes,
            )
            for name, ranking in rankings.items()
        }


def _beaten(comparisons: tuple[AgentComparison, ...]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in comparisons:
        if one.decided and one.difference:
            better, worse = (one.first, one.second) if one.difference > 0 else (one.second, one.first)
            found.setdefault(better, set()).add(worse)
    return found


# --- an edition of GRE-bench -----------------------------------------------------------------------------------------


class WrittenNote(Part):
    """How many reviews an agent has written."""

    agent: Text
    written: Count = 0
    missing: dict[Text, Count] = EMPTY
    flags: dict[Text, Count] = EMPTY
    noticed: Texts | None = None
    """None: older results have only ``flags``."""


class ClockNote(Part):
    """Which agents cannot have seen which papers."""

    common: Texts = ()
    agents: tuple[Part, ...] = ()
    scores: tuple[Part, ...] = ()
    """Scores of agents on the papers of a scope."""
    level: Level = 0.9
    scope_signatures: dict[Text, dict[Text, Text]] = EMPTY
    notes: Texts = ()


class RegisteredNote(Part):
    """The pre-registration of an edition."""

    hash: Text = ""
    date: Text = ""
    changed: Texts = ()
    """Parts of the edition that are not as registered."""


class HoldingNote(Part):
    """Whether scores hold under hidden instructions."""

    metric: Text = ""
    level: Level = 0.9
    agents: tuple[Part, ...] = ()


class SubmissionsNote(Part):
    """The best submission of each team."""

    level: Level = 0.9
    teams: tuple[Part, ...] = ()


class EditionDocument(Part):
    """``gre.json``."""

    source: Text = ""
    demonstration: Text | None = None
    papers: Count = 0
    left_out: dict[Text, Count] = EMPTY
    written: tuple[WrittenNote, ...] = ()
    contamination: ClockNote | None = None
    preregistered: RegisteredNote | None = None
    injected: HoldingNote | None = None
    submissions: SubmissionsNote | None = None


# --- what a run notes of itself --------------------------------------------------------------------------------------


class SpendingNote(Part):
    """Calls, tokens and cost of one model."""

    model: Text = ""
    calls: Count | None = None
    reused: Count | None = None
    usage: dict[Text, Count] = EMPTY
    cost_usd: Number = None
    estimated: Count | None = None
    result_usd: Number = None


class MadeNote(Part):
    """When one verb wrote its results, and what they cost."""

    at: Text = ""
    spending: tuple[SpendingNote, ...] = ()


class MadeByDocument(Result):
    """``made_by.json``."""

    goldless: Text = ""
    python: Text = "unknown"
    made: dict[Text, MadeNote] = EMPTY
    spending: tuple[SpendingNote, ...] = ()


class AgentSoFarNote(Part):
    """An agent's mean while a run goes on."""

    agent: Text
    score: Number = None
    tasks: Count = 0


class BoardSoFarNote(Part):
    """Agents' means under a metric, or in a ranking, while a run goes on."""

    metric: Text
    unit: Text = ""
    rows: tuple[AgentSoFarNote, ...] = ()


class ProgressDocument(Part):
    """``progress.json``: the progress of a run."""

    state: Text = "unknown"
    stage: Text = ""
    done: Count | None = None
    total: Count | None = None
    failed: Count = 0
    tokens: Count | None = None
    cost_usd: Number = None
    workers: Count | None = None
    per_second: Number = None
    seconds_left: Number = None
    updated_at: Number = None
    so_far: tuple[BoardSoFarNote, ...] = ()
    message: Text | None = None
    error: Text | None = None

    @property
    def share(self) -> float | None:
        """Done of total, between 0 and 1; None if unknown."""
        if self.done is None or not self.total:
            return None
        return min(1.0, max(0.0, self.done / self.total))


class AgentNote(Part):
    """A row of ``agents.jsonl``."""

    agent: Text
    group: Text | None = None
    parameters: Number = None
    family: Text | None = None
