"""The metric interface: what evidence a metric needs, and the scores it computes from it.

A metric is a pure function of its input. Built-in metrics and those of plugins share this interface: the pipeline
collects what all metrics need, each piece once, and passes it to each of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import polars as pl

from goldless.arrays import IntArray
from goldless.errors import MetricError, PrerequisiteError
from goldless.evidence import Evidence, Schema
from goldless.grouped import mean_in_order
from goldless.records import TextItem
from goldless.statistics.additive import adjusted_for_peers
from goldless.studies import Study

Text = Literal["responses", "rewrites", "rewrites if any"]
"""The texts that are scored: responses as they are, rewrites of them, or rewrites where there are any."""
OverPeers = Literal["common", "own", "but-closest", "drawn", "drawn-but-closest"]
"""The peers a response's score is over: the same for all agents, each agent's own, as in the papers, or its own but
the one that it shares most with; or, adjusted for who was drawn, some that were drawn, or those but the closest."""
ENOUGH_PEERS = 7
"""With fewer none is left out: where half of eight agents say something, two such peers of each are left."""
Pairing = Mapping[tuple[str, str], Sequence[str]]
"""The peers of each response that is scored, by task and agent."""


def in_both_orders(pairing: Pairing) -> set[tuple[str, str, str]]:
    """Task and two agents of each response with each of its peers, and the other way round."""
    pairs = {(task, agent, peer) for (task, agent), peers in pairing.items() for peer in peers}
    return pairs | {(task, peer, agent) for task, agent, peer in pairs}


@dataclass(frozen=True)
class LogprobNeed:
    """The log-probabilities a metric takes: of a peer's response given the agent's, unless disabled below, and more."""

    text: Text = "responses"
    synopsis: str | None = None
    """Name of the synopsis everything is conditioned on."""
    source: str | None = None
    """Name of the synopsis that each response is also predicted from alone."""
    pairs: bool = True
    """False if no response is predicted from another."""
    peers_given_agent: bool = True
    """False if no peer's response is predicted from the agent's."""
    both_directions: bool = False
    """Also of the agent's response given the peer's."""
    marginals: bool = True
    """Also of a response alone."""
    per_token: bool = False
    """True if means over tokens are enough; otherwise sums are needed."""
    control: bool = False
    """Also of the peer's responses to other tasks."""
    draws_peers: bool = False
    """True if each response has few peers, drawn for it, where there are many agents."""
    worked_examples: bool = False
    """True if worked examples are shown first; then one sample of an agent informs and another is predicted."""
    same: str | None = None
    """The column of the tasks table in which worked examples have the same value; None: they are any other tasks."""


class Extra(NamedTuple):
    """An extra of goldless that installs a package for few metrics."""

    name: str
    """Its name in ``pip install 'goldless[NAME]'``."""
    package: str
    """The name by which the package is imported."""

    def check(self, user: str) -> None:
        """Raise with the command that installs the package if it is missing; ``user`` names what needs it."""
        if find_spec(self.package) is None:
            raise self._missing(user, "is not installed")

    def load(self, user: str) -> ModuleType:
        """Import the package; raise with the command that installs it if that fails."""
        try:
            return import_module(self.package)
        except ImportError as error:
            raise self._missing(user, f"cannot be imported ({error})") from error

    def _missing(self, user: str, reason: str) -> PrerequisiteError:
        package = self.package.replace("_", "-")
        return PrerequisiteError(f"{user} needs {package}, which {reason}. Run: pip install 'goldless[{self.name}]'")


@dataclass(frozen=True)
class Needs:
    """The evidence, options and packages a metric needs."""

    logprobs: LogprobNeed | None = None
    verdicts: Literal["both", "one direction"] | None = None
    """A critic's verdicts on matched and shuffled pairs, and whether both orders of a pair are needed."""
    texts: bool = False
    """The responses' texts, with the texts they are compared with."""
    peers: bool = False
    """True if responses are compared with the texts of peers' responses."""
    table: str | None = None
    """The name of a recorded table of the study."""
    judgements: str | None = None
    """The scale on which reviewers rate every response."""
    labels: bool = False
    """People's labels."""
    extra: Extra | None = None
    """The extra with its package; None if the default install has all packages."""

    @property
    def model(self) -> bool:
        """True if a model must be called if the evidence is not recorded."""
        return self.compares_by_model or self.judgements is not None

    @property
    def compares_by_model(self) -> bool:
        """True if a model is called to compare responses."""
        return self.logprobs is not None or self.verdicts is not None


PAIRS: Schema = {"task": pl.String, "agent": pl.String, "peer": pl.String, "score": pl.Float64, "missing": pl.String}
"""The score of one agent's response with one peer's; ``missing``: why there is no score, if known."""
RESPONSES: Schema = {
    "task": pl.String,
    "agent": pl.String,
    "score": pl.Float64,
    "asked": pl.Int64,
    "used": pl.Int64,
}
"""One response's score; null: missing. ``asked`` and ``used``: the number of pairs to score, and of pairs scored."""


@dataclass(frozen=True)
class Scores:
    """The result of a metric, before ranking."""

    responses: pl.DataFrame
    """Columns of ``RESPONSES``."""
    pairs: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=PAIRS))
    """Columns of ``PAIRS``; empty where responses are not compared one by one."""
    shared: pl.DataFrame | None = None
    """Columns of ``PAIRS``: what two responses share, where the scores of pairs say more; None: ``pairs``."""
    by_wording: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """The pairs of each query variant, by its name."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings for the signature: the evidence and how it was used, in order."""
    problems: Mapping[str, int] = field(default_factory=dict)
    """Problems that a custom metric reported, with the number of responses each."""
    by_peer: pl.DataFrame | None = None
    """Columns of ``PAIRS``: the scores with each peer that responses' scores are over; None: there are none."""
    averaged_over: OverPeers | None = None
    """The peers that responses' scores are means over; None: they are not over peers."""
    summary: Mapping[str, float] = field(default_factory=dict)
    """Numbers about the study as a whole, by name; for the JSON document, the report and ``-v``."""
    raters: Any = None
    """For a metric that scores raters instead of agents: the results by criterion."""


@runtime_checkable
class Metric(Protocol):
    """A metric: a pure function of evidence."""

    @property
    def name(self) -> str:
        """The full name, such as ``gem-s[abstract]``."""

    @property
    def unit(self) -> str:
        """The unit of its scores."""

    @property
    def needs(self) -> Needs:
        """Its needs."""

    def scores(self, data: MetricInput) -> Scores | Awaitable[Scores]:
        """The scores of pairs and responses, higher is better; null where missing."""


@runtime_checkable
class Bounded(Protocol):
    """A metric whose scores lie between two limits."""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The lowest and the highest score; None: unknown."""


def bounds_of(metric: object) -> tuple[float, float] | None:
    """The limits of a metric's scores; None if it has none."""
    return metric.bounds if isinstance(metric, Bounded) else None


@dataclass(frozen=True)
class MetricInput:
    """The input of metrics: the study, the evidence, and the peers of each response."""

    study: Study
    evidence: Evidence
    peers: tuple[str, ...] | None = None
    """Agents used as peers; None: all."""
    pairing: Pairing | None = None
    """The peers of each response that is scored; None: those of ``peers``."""
    over_peers: OverPeers = "common"
    drawn_peers: int | None = None
    """The number of peers drawn for each response; None: they are not drawn."""
    recorded: bool = False
    """True if the evidence is recorded in the study."""
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """Recorded tables that metrics named, checked."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings for signatures: how rewrites were requested."""
    rater_groups: Mapping[str, str] = field(default_factory=dict)
    """The group of each rater, for metrics that score raters."""
    families: Mapping[str, str] = field(default_factory=dict)
    """The model family of each juror, by its name in the evidence."""
    seed: int = 0
    resamples: int = 10_000
    level: float = 0.95

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, in their order."""
        return self.study.agent_list

    def own_family(self, juror: str) -> frozenset[str]:
        """The agents of a juror's own family; none where it is not known."""
        return self.study.family(self.families.get(juror))

    @cached_property
    def _paired(self) -> pl.DataFrame:
        rows = [(task, agent, peer) for (task, agent), peers in (self.pairing or {}).items() for peer in peers]
        return pl.DataFrame(rows, schema=self._names, orient="row")

    def compared(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """The pairs whose agent is to be compared with its peer."""
        if self.pairing is not None:
            names = ["task", "agent", "peer"]
            return self._named(pairs).join(self._paired, on=names, how="semi", maintain_order="left")
        return pairs if self.peers is None else pairs.filter(pl.col("peer").cast(pl.String).is_in(list(self.peers)))

    @cached_property
    def _names(self) -> dict[str, pl.Enum]:
        return {"task": self.study.task_names, "agent": self.study.agent_names, "peer": self.study.agent_names}

    def _named(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """The pairs with tasks and agents as the study's enums, which join fast."""
        return pairs.cast({name: kind for name, kind in self._names.items() if pairs.schema[name] != kind})

    def items(self, *, peers: bool = True) -> Iterator[TextItem]:
        """Every response that is scored, with the peers it is compared with, where those are wanted."""
        for task, responses in self.study:
            texts = {r.agent: r.text for r in responses}
            for agent, text in texts.items():
                if not peers and (self.pairing is None or (task.task, agent) in self.pairing):
                    names: Sequence[str] = ()
                elif self.pairing is None:
                    names = [n for n in texts if n != agent and (self.peers is None or n in self.peers)]
                elif (task.task, agent) in self.pairing:
                    names = [name for name in self.pairing[task.task, agent] if name in texts]
                else:
                    continue
                yield TextItem(task, agent, text, {name: texts[name] for name in names})

    def peers_shown(self, pairs: pl.DataFrame) -> str:
        """The peers used, for signatures; ``as-recorded`` for recorded evidence without every ordered pair."""
        if self.drawn_peers is not None:
            return f"ring-{self.drawn_peers}"
        if self.peers is not None:
            return "+".join(self.peers)
        if self.pairing is not None:
            always = set(map(tuple, self.pairing.values()))
            return "+".join(always.pop()) if len(always) == 1 else "as-paired"
        if not self.recorded or not pairs.height:
            return "all"
        there = np.zeros((len(self.study.tasks), len(self.agents)), dtype=np.bool_)
        numbers = self._named(pairs)
        task, agent, peer = (numbers[name].to_physical().to_numpy() for name in ("task", "agent", "peer"))
        there[task, agent] = there[task, peer] = True
        met = there.sum(axis=1)
        return "all" if pairs.height == int((met * (met - 1)).sum()) else "as-recorded"


def response_table(responses: pl.DataFrame) -> pl.DataFrame:
    """Response scores in the columns and the order of ``RESPONSES``."""
    return responses.select(pl.col(name).cast(kind) for name, kind in RESPONSES.items())


def scores_over_peers(pairs: pl.DataFrame, over: OverPeers, *, but_closest: bool = False, **more: Any) -> Scores:
    """The scores of pairs, and of responses over their peers; ``but_closest``: without the closest, if there are many.

    So a minority of two cannot lift each other by what nobody else says.
    """
    kept = without_closest(pairs) if but_closest else pairs
    if len(kept) < len(pairs):
        over = "drawn-but-closest" if over == "drawn" else "but-closest"
    return Scores(over_peers(kept, over), pairs, by_peer=kept, averaged_over=over, **more)


def without_closest(pairs: pl.DataFrame) -> pl.DataFrame:
    """The pairs without each response's highest, where it has at least ``ENOUGH_PEERS`` peers; of equals the first."""
    response = ["task", "agent"]
    highest = pl.col("score").arg_max().over(response)
    closest = (pl.int_range(pl.len()).over(response) == highest) & (pl.len().over(response) >= ENOUGH_PEERS)
    return pairs.filter(~closest.fill_null(value=False))


def over_peers(pairs: pl.DataFrame, which: OverPeers) -> pl.DataFrame:
    """The score of each response over its peers; missing where no pair is left.

    An enum ``side`` parts the scores that a peer gives in two kinds; missing where no pair of either is left.
    """
    sides = ["side"] if "side" in pairs.columns else []
    drawn = which.startswith("drawn")
    rows = _over_common_peers(pairs, sides, drawn=drawn) if drawn or which == "common" else pairs
    means = rows.group_by("task", "agent", *sides, maintain_order=True).agg(
        mean_in_order(pl.col("score")), asked=pl.len(), used=pl.col("score").count()
    )
    if sides:
        kinds = pairs.schema["side"]
        whole = pl.col("score").count() == (len(kinds.categories) if isinstance(kinds, pl.Enum) else 2)
        means = means.group_by("task", "agent", maintain_order=True).agg(
            pl.when(whole).then(mean_in_order(pl.col("score"))), pl.col("asked").sum(), pl.col("used").sum()
        )
    return response_table(means)


def _over_common_peers(pairs: pl.DataFrame, sides: list[str], *, drawn: bool) -> pl.DataFrame:
    """The pairs with the score of their agent on the task, as if all agents had had the same peers."""
    there = pairs.drop_nulls("score")
    if there.is_empty():
        return pairs
    agents = there.select("agent", "peer")
    if agents.schema["agent"] != agents.schema["peer"]:
        agents = agents.cast(pl.String)
    agent, peer = np.split(_numbered(pl.concat(agents.iter_columns())), 2)
    side = _numbered(there["side"]) if sides else np.zeros_like(agent)
    scores = np.full(len(pairs), np.nan)
    scores[pairs["score"].is_not_null().to_numpy()] = adjusted_for_peers(
        _numbered(there["task"]), agent, peer, there["score"].to_numpy(), side, drawn=drawn
    )
    return pairs.with_columns(pl.Series("score", scores, nan_to_null=True))


def _numbered(names: pl.Series) -> IntArray:
    numbers = names.to_physical() if isinstance(names.dtype, pl.Enum) else names.cast(pl.String).rank("dense")
    return numbers.to_numpy().astype(np.int64)


def mean_over_variants(variants: Sequence[pl.DataFrame], *, of_asked: bool = False) -> pl.DataFrame:
    """Mean of each pair over several query variants; missing where any of them is.

    Variants differ in level, so a mean over those that happened to work would not be comparable. ``of_asked``: a pair
    that a variant has no row of was not asked, and its mean is over the others.
    """
    if len(variants) == 1:
        return variants[0]
    score, count = pl.col("score"), pl.len() if of_asked else len(variants)
    whole = pl.col("score").count() == count
    return (
        pl.concat(variants)
        .group_by("task", "agent", "peer", maintain_order=True)
        .agg(pl.when(whole).then(mean_in_order(score)), pl.when(~whole).then(pl.col("missing").drop_nulls().first()))
        .select(*PAIRS)
    )


def pair_means(pairs: pl.DataFrame) -> pl.DataFrame:
    """Agent, peer, mean score over tasks and number of tasks of every ordered pair that has a score."""
    return (
        pairs.drop_nulls("score")
        .group_by(pl.col("agent", "peer").cast(pl.String), maintain_order=True)
        .agg(mean_in_order(pl.col("score")), n=pl.len())
    )


def checked_scores(metric: str, found: object, data: MetricInput) -> Scores:
    """Check what a metric returned; a NaN score becomes missing."""
    if not isinstance(found, Scores):
        raise MetricError(f"{metric}: scores must be a Scores, got {type(found).__name__}")
    for what, kind in (
        ("responses", pl.DataFrame),
        ("pairs", pl.DataFrame),
        ("settings", Mapping),
        ("problems", Mapping),
        ("summary", Mapping),
    ):
        value = getattr(found, what)
        if not isinstance(value, kind):
            raise MetricError(f"{metric}: {what} must be a {kind.__name__}, got {type(value).__name__}")
    for what, frame, columns in (("responses", found.responses, RESPONSES), ("pairs", found.pairs, PAIRS)):
        _check_columns(f"{metric}: the {what}", frame, columns)
        _check_names(f"{metric}: the {what}", frame, data)
    twice = found.responses.filter(pl.struct("task", "agent").is_duplicated()).head(1)
    for task, agent in twice.select("task", "agent").iter_rows():
        raise MetricError(f"{metric}: responses must have one row per task and agent, got more for {task}, {agent}")
    score = pl.col("score").cast(pl.Float64).fill_nan(None)
    return replace(found, responses=found.responses.with_columns(score), pairs=found.pairs.with_columns(score))


def _check_columns(where: str, frame: pl.DataFrame, columns: Schema) -> None:
    if any(name not in frame.columns for name in columns):
        raise MetricError(f"{where} must have the columns {', '.join(columns)}, got {', '.join(frame.columns)}")
    for name, kind in columns.items():
        there = frame.schema[name]
        text = kind == pl.String and isinstance(there, pl.String | pl.Enum | pl.Categorical)
        if not (text or (kind != pl.String and there.is_numeric()) or there == pl.Null):
            raise MetricError(f"{where}' {name} must be {kind}, got {there}")


def _check_names(where: str, frame: pl.DataFrame, data: MetricInput) -> None:
    known = {"task": data.study.task_names, "agent": data.study.agent_names}
    for column in frame.columns:
        kind = known.get("agent" if column == "peer" else column)
        if kind is None or frame.schema[column] == kind:
            continue
        strange = frame[column].filter(frame[column].cast(kind, strict=False).is_null())
        if len(strange):
            what = "task" if column == "task" else "agent"
            raise MetricError(f"{where} have the {what} {strange[0]!r}, which is not in the study")
