"""Metrics over stored log-probabilities: GEM, GEM-S, GEM-raw and their relatives, each a short pure function.

For a response x by an agent, a response y by a peer, and a synopsis z where one is named, the evidence contains
log p(y | x), log p(y), log p(x | y) and log p(x), all given z as well. They are sums over tokens, or means per token
where a metric says so.

Task control (``NAME+control``) takes off what the same two agents share on other tasks: for the responses y' of the
peer to a few other tasks, the mean of the metric on (x, y'), under the same synopsis z. ``NAME+both`` takes the mean
of both directions: the mutual information of two responses is the same in either. ``NAME+about`` takes the direction
in which the peer's response says something about x.

Three shares of information, each a gain divided by the information of what is predicted: *covers*, of y given x;
*backed*, of x given y; *grounding*, of x given its own source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import polars as pl

from goldless.errors import MetricError, suggested
from goldless.grouped import mean_in_order
from goldless.metrics.metric import (
    ENOUGH_PEERS,
    PAIRS,
    LogprobNeed,
    MetricInput,
    Needs,
    Scores,
    Text,
    mean_over_variants,
    response_table,
    scores_over_peers,
)
from goldless.templates import EXAMPLES

TaskKind = Literal["sources", "repeated texts"]
"""Prompts hold what the responses are about; or they do not, and several agents give one text to many tasks."""
SHARE = "share of information"
"""The unit of a gain divided by the information of what is predicted: 1 where nothing is left to say."""
PROMPT = "prompt"
"""The source of responses where no other is named."""


@dataclass(frozen=True)
class Likelihood:
    """The mean over directions of log p(predicted | shown), less log p(predicted) where ``marginals``."""

    predicted: tuple[str, ...]
    """Whose response is predicted in each direction, given the other's: ``peer``, ``agent`` or both."""
    marginals: bool
    """True if it also takes responses alone."""
    per_token: bool
    """True if log-probabilities are means over tokens; else sums."""
    relative: bool = False
    """True if each gain is divided by -log p(predicted): the share of its information."""

    @property
    def unit(self) -> str:
        if self.relative:
            return SHARE
        return "nats per token" if self.per_token else "nats"


CONTROL = "+control"
"""The part of a metric's name that takes off what two agents share on other tasks."""
BOTH = "+both"
"""The end of a metric's name that makes it the mean of both directions."""
ABOUT = "+about"
"""The end of a metric's name that makes it say what the peers' responses reveal about this one."""
GEM = Likelihood(("peer",), marginals=True, per_token=False)
"""Pointwise mutual information log p(y | x) - log p(y), in nats (GEM paper, section 3; GEM-S: all given z)."""
GEM_BOTH = replace(GEM, predicted=("peer", "agent"))
"""The mean of log p(y | x) - log p(y) and log p(x | y) - log p(x), in nats: two estimates of the same number."""
GEM_ABOUT = replace(GEM, predicted=("agent",))
"""log p(x | y) - log p(x), in nats: what the peer's response reveals about this one."""
RELATIVES: Mapping[str, Likelihood] = {
    # averaged over tasks, the two directions are a difference of entropies per token, H(Y) - H(Y | X)
    "mi": replace(GEM_BOTH, per_token=True),
    # the generative peer prediction mechanism: no marginal subtracted (Lu et al. 2024)
    "gppm": Likelihood(("peer",), marginals=False, per_token=True),
    # F1 as BARTScore defines it: the arithmetic mean of recall and precision
    "bartscore": Likelihood(("peer", "agent"), marginals=False, per_token=False),
    # how well the peer's response predicts this one
    "bartscore-precision": Likelihood(("agent",), marginals=False, per_token=False),
    # how well the response predicts the peer's (as the GEM paper computes it, D.3)
    "bartscore-recall": Likelihood(("peer",), marginals=False, per_token=False),
    # the peer's response in place of the reference (Fu et al. 2023)
    "gptscore": Likelihood(("agent",), marginals=False, per_token=True),
    # how much of what the peers say this response says too
    "covers": replace(GEM, relative=True),
    # how much of what this response says the peers say too
    "backed": replace(GEM_ABOUT, relative=True),
}


@dataclass(frozen=True)
class LikelihoodMetric:
    """A metric over log-probabilities."""

    name: str
    likelihood: Likelihood
    text: Text = "responses"
    synopsis: str | None = None
    """Name of the synopsis everything is conditioned on."""
    control: bool = False
    """True if what the two agents share on other tasks is taken off."""
    but_closest: bool = False
    """True if the peer that a response shares most with is left out, if there are many."""
    draws_peers: bool = False
    """True if each response has few peers, drawn for it, where there are many agents."""
    short_for: str = ""
    """The name of the same with all peers."""
    source: str | None = None
    """Name of the synopsis whose grounding is averaged with the score of each pair; None: grounding does not count."""
    of_kind: Mapping[TaskKind, LikelihoodMetric] = field(default_factory=dict)
    """The metric that this one is on studies of these kinds; on others it is itself."""
    kind_note: str = ""
    """A sentence that says which metric this one is on the study, and why."""
    truth_note: str = ""
    """A sentence that says how it did on public sets of this kind."""

    @property
    def unit(self) -> str:
        return self.likelihood.unit

    @property
    def needs(self) -> Needs:
        return Needs(
            logprobs=LogprobNeed(
                self.text,
                self.synopsis,
                self.source,
                peers_given_agent="peer" in self.likelihood.predicted,
                both_directions="agent" in self.likelihood.predicted,
                marginals=self.likelihood.marginals,
                per_token=self.likelihood.per_token,
                control=self.control,
                draws_peers=self.draws_peers,
            )
        )

    @property
    def without_control(self) -> str:
        """The name of the same without task control."""
        return (self.short_for or self.name).replace(CONTROL, "")

    def scores(self, data: MetricInput) -> Scores:
        """The metric on every pair, averaged over all query variants, and that of each response over its peers."""
        evidence = data.evidence
        rows_by_wording = wordings(evidence.logprobs, self.text, self.synopsis)
        variants = {
            wording: rows for wording, rows in rows_by_wording.items() if rows["given"].null_count() < len(rows)
        }
        if not variants:
            raise MetricError(_no_evidence(self, data, evidence.logprobs))
        controls = {wording: _of_wording(evidence.control, wording) for wording in variants} if self.control else {}
        if self.control and not all(map(len, controls.values())):
            raise MetricError(
                f"{data.study.name} carries no log-probabilities of responses to other tasks (a table "
                f"control_logprobs), which {self.name} needs. Leave --recorded out to request them, or use "
                f"{self.without_control}"
            )
        by_wording = {
            wording.name: data.compared(pair_scores(rows, self.likelihood, controls.get(wording)))
            for wording, rows in variants.items()
        }
        shared = None
        if self.source is not None:
            shared = mean_over_variants(list(by_wording.values()))
            grounded = grounding_shares(data, self.source, self.name)
            by_wording = {name: _with_grounding(rows, grounded) for name, rows in by_wording.items()}
        pairs = mean_over_variants(list(by_wording.values()))
        agents = {data.study.samples.get(agent, agent) for agent in data.agents}
        return scores_over_peers(
            pairs,
            data.over_peers,
            but_closest=self.but_closest and len(agents) > ENOUGH_PEERS,
            shared=shared,
            by_wording=by_wording,
            settings={**self._settings(data, list(variants), pairs), **_control_settings(data, controls)},
        )

    def _settings(self, data: MetricInput, asked: list[Wording], pairs: pl.DataFrame) -> dict[str, str]:
        rewriters = list(dict.fromkeys(w.rewriter for w in asked if w.rewriter is not None))
        written = data.evidence.synopses.filter(pl.col("synopsis") == (self.synopsis or ""))
        writers = written["writer"].unique(maintain_order=True).to_list()
        described = dict(data.evidence.described.get("logprobs", {}))
        scorer = {"scorer": described.pop("scorer")} if "scorer" in described else {}
        return {
            **({"short-for": self.short_for} if self.short_for else {}),
            **scorer,
            **({"rewriter": ",".join(rewriters), **data.settings} if rewriters else {}),
            "template": ",".join(dict.fromkeys(w.template for w in asked)),
            "synopsis": self.synopsis or "none",
            **({"source": self.source} if self.source is not None else {}),
            **({"written-by": "+".join(writers)} if writers else {}),
            **described,
            "peers": data.peers_shown(pairs),
        }


@dataclass(frozen=True)
class Wording:
    """One variant of a log-probability query: which template, whose rewrites and which synopsis."""

    template: str
    rewriter: str | None
    """Whose rewrites are scored; None: the responses as they are."""
    synopsis: str | None

    @property
    def name(self) -> str:
        """One word for tables."""
        return self.template if self.rewriter is None else f"{self.template}/{self.rewriter}"

    @property
    def worked(self) -> bool | str:
        """True or False for worked examples shown first, or the column in which they have the same value."""
        _, examples, shown = str(self.template).partition(EXAMPLES)
        return shown.partition("-same-")[2] or bool(examples)


WAYS = ("template", "rewriter", "synopsis")


def wordings(
    logprobs: pl.DataFrame, text: Text, synopsis: str | None, *, worked: bool | str = False
) -> dict[Wording, pl.DataFrame]:
    """The log-probabilities a metric uses, by query variant; several are averaged.

    ``worked``: those after worked examples, or after examples with the same value in this column.
    """
    every = [Wording(*way) for way in logprobs.select(WAYS).unique(maintain_order=True).iter_rows()]
    asked = [wording for wording in every if wording.synopsis == synopsis and wording.worked == worked]
    rewritten = [wording for wording in asked if wording.rewriter is not None]
    if text == "responses" or (text == "rewrites if any" and not rewritten):
        asked = [wording for wording in asked if wording.rewriter is None]
    else:
        asked = rewritten
    return {wording: logprobs if len(every) == 1 else _of_wording(logprobs, wording) for wording in asked}


def _of_wording(rows: pl.DataFrame, wording: Wording) -> pl.DataFrame:
    return rows.filter(pl.col(way).eq_missing(getattr(wording, way)) for way in WAYS)


def _control_settings(data: MetricInput, controls: Mapping[Wording, pl.DataFrame]) -> dict[str, str]:
    """The number of other tasks for each pair, and the source of their evidence."""
    if not controls:
        return {}
    there = [
        rows.filter(pl.col("given").is_not_null()).group_by("task", "target", "given").len()
        for rows in controls.values()
    ]
    most = max(int(str(counts["len"].max() or 0)) for counts in there)
    return {"control": f"other-tasks-{most}", **data.evidence.described.get("control", {})}


def pair_scores(
    logprobs: pl.DataFrame, likelihood: Likelihood = GEM, control: pl.DataFrame | None = None
) -> pl.DataFrame:
    """The function on every ordered pair of agent and peer, higher is better. Missing where any of its terms is.

    The log-probabilities must be from one scorer, template, rewriter and synopsis. ``control``: those of responses to
    other tasks, whose mean is subtracted from each term; missing ones are left out, and if none is left the pair is
    missing. As the function is linear, this is its value less its mean over other tasks.
    """
    known = _known(logprobs, likelihood)
    given = pl.col("given").is_not_null()
    gains = known.filter(given)
    if likelihood.marginals:
        alone = known.filter(~given).select("task", "target", alone="value", failure_alone="failure")
        gains = gains.join(alone, on=["task", "target"], how="left", maintain_order="left")
    else:
        gains = gains.with_columns(alone=0.0, failure_alone=pl.lit(None, pl.String))
    causes = ["failure", "failure_alone"]
    if control is not None:
        means = _elsewhere(known, control, likelihood)
        gains = gains.join(means, on=["task", "target", "given"], how="left", maintain_order="left").with_columns(
            pl.col("value") - pl.col("value_elsewhere"),
            pl.col("alone") - pl.col("alone_elsewhere"),
            nothing=pl.when(pl.col("alone_elsewhere").is_null()).then(pl.lit("no_control")),
        )
        causes = ["failure", "lost", "nothing", "failure_alone"]
    gain = pl.col("value") - pl.col("alone")
    if likelihood.relative:
        gain = gain / information(pl.col("alone"))
    gains = gains.select("task", "target", "given", gain=gain, lost=pl.coalesce(causes))
    directions = [
        gains.rename({"target": predicted, "given": "peer" if predicted == "agent" else "agent"})
        for predicted in likelihood.predicted
    ]
    pairs, gain = directions[0], pl.col("gain")
    if len(directions) > 1:
        pairs = pairs.join(directions[1], on=["task", "agent", "peer"], how="left", maintain_order="left")
        pairs = pairs.with_columns(lost=pl.coalesce("lost", "lost_right"))
        gain = (gain + pl.col("gain_right")) / 2
    missing = pl.when(pl.col("score").is_null()).then("lost")
    return pairs.with_columns(score=gain).with_columns(missing=missing).select(*PAIRS).collect()


def information(alone: pl.Expr) -> pl.Expr:
    """-log p of a response alone; missing where it is certain, so that no share of it can be taken."""
    return pl.when(alone < 0).then(-alone)


def _known(logprobs: pl.DataFrame, likelihood: Likelihood) -> pl.LazyFrame:
    value = pl.col("mean_token_logprob_nats" if likelihood.per_token else "sum_logprob_nats")
    names = [name for name in ("task", "target_task", "target", "given") if name in logprobs.columns]
    return logprobs.lazy().select(*names, "failure", value=value)


def _elsewhere(known: pl.LazyFrame, control: pl.DataFrame, likelihood: Likelihood) -> pl.LazyFrame:
    """The means over other tasks of a target given a response, and of it alone, of those where both are there."""
    rows = _known(control, likelihood)
    found = rows.filter(pl.col("given").is_not_null()).rename({"failure": "lost"})
    if likelihood.marginals:
        if control["synopsis"].null_count() == len(control):
            # without a synopsis a response alone is the same whatever the task
            rows, key = known.rename({"task": "target_task"}), ["target_task", "target"]
        else:
            key = ["task", "target_task", "target"]
        alone = rows.filter(pl.col("given").is_null()).select(*key, alone="value", lost_alone="failure")
        found = found.join(alone, on=key, how="left", maintain_order="left").with_columns(
            lost=pl.coalesce("lost", "lost_alone")
        )
    else:
        found = found.with_columns(alone=0.0)
    whole = pl.col("value").is_not_null() & pl.col("alone").is_not_null()
    means = (mean_in_order(pl.col(part).filter(whole)).alias(f"{part}_elsewhere") for part in ("value", "alone"))
    return found.group_by("task", "target", "given").agg(*means, lost=pl.col("lost").drop_nulls().first())


def _no_evidence(metric: LikelihoodMetric, data: MetricInput, ways: pl.DataFrame) -> str:
    synopses = sorted(ways["synopsis"].drop_nulls().unique().to_list())
    if metric.synopsis is not None and metric.synopsis not in synopses:
        return (
            f"{data.study.name} has no recorded log-probabilities given a synopsis {metric.synopsis!r}"
            f"{suggested(metric.synopsis, synopses, 'Recorded synopses')}"
        )
    what = "rewrites" if metric.text == "rewrites" else "responses as they are"
    return f"{data.study.name} has no recorded log-probabilities of {what}, which {metric.name} needs"


# --- grounding -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroundingMetric:
    """The share of a response's information that its own source explains: (log p(x | source) - log p(x)) / -log p(x).

    Two log-probabilities of each response, however many agents there are. A response that repeats its source has a
    share near 1, so a low value says more than a high one.
    """

    name: str
    source: str = PROMPT
    """Name of the synopsis that is the source."""
    unit: str = SHARE

    @property
    def needs(self) -> Needs:
        return Needs(logprobs=LogprobNeed(source=self.source, pairs=False))

    def scores(self, data: MetricInput) -> Scores:
        """The share of every response; missing where one of its two log-probabilities is."""
        shares = grounding_shares(data, self.source, self.name)
        if data.pairing is not None:
            paired = pl.DataFrame(list(data.pairing), schema=["task", "agent"], orient="row")
            names = [pl.col(name).cast(pl.String) for name in ("task", "agent")]
            shares = shares.join(paired, left_on=names, right_on=["task", "agent"], how="semi", maintain_order="left")
        used = pl.col("score").is_not_null().cast(pl.Int64)
        templates = wordings(data.evidence.logprobs, "responses", self.source)
        described = dict(data.evidence.described.get("logprobs", {}))
        return Scores(
            response_table(shares.with_columns(asked=1, used=used)),
            settings={
                **({"scorer": described.pop("scorer")} if "scorer" in described else {}),
                "template": ",".join(dict.fromkeys(wording.template for wording in templates)),
                "source": self.source,
                **described,
                "peers": "none",
            },
        )


def grounding_shares(data: MetricInput, source: str, metric: str) -> pl.DataFrame:
    """Task, agent, score and why it is missing: grounding in the source, the mean over all query variants."""
    alone = wordings(data.evidence.logprobs, "responses", None)
    given_source = wordings(data.evidence.logprobs, "responses", source)
    common = [wording for wording in given_source if replace(wording, synopsis=None) in alone]
    if not common:
        raise MetricError(
            f"{data.study.name} has no recorded log-probabilities of responses given their {source} alone, which "
            f"{metric} needs. Leave --recorded out to request them"
        )
    variants = [_grounding(alone[replace(wording, synopsis=None)], given_source[wording]) for wording in common]
    if len(variants) == 1:
        return variants[0]
    whole = pl.col("score").count() == len(variants)
    return (
        pl.concat(variants)
        .group_by("task", "agent", maintain_order=True)
        .agg(pl.when(whole).then(mean_in_order(pl.col("score"))), pl.col("missing").drop_nulls().first())
    )


def _grounding(alone: pl.DataFrame, given_source: pl.DataFrame) -> pl.DataFrame:
    without_peer = pl.col("given").is_null()
    columns = {"value": pl.col("sum_logprob_nats"), "lost": pl.col("failure")}
    plain = alone.lazy().filter(without_peer).select("task", "target", **columns)
    grounded = given_source.lazy().filter(without_peer).select("task", "target", **columns)
    gain = pl.col("value_right") - pl.col("value")
    return (
        plain.join(grounded, on=["task", "target"], how="left", maintain_order="left")
        .select(
            "task", agent="target", score=gain / information(pl.col("value")), missing=pl.coalesce("lost_right", "lost")
        )
        .with_columns(missing=pl.when(pl.col("score").is_null()).then("missing"))
        .collect()
    )


def _with_grounding(pairs: pl.DataFrame, grounded: pl.DataFrame) -> pl.DataFrame:
    """The pairs with the mean of their score and the agent's grounding."""
    shares = grounded.rename({"score": "grounding", "missing": "ungrounded"})
    joined = pairs.join(shares, on=["task", "agent"], how="left", maintain_order="left")
    score = (pl.col("score") + pl.col("grounding")) / 2
    missing = pl.when(score.is_null()).then(pl.coalesce("missing", "ungrounded"))
    return joined.with_columns(score=score, missing=missing).select(*PAIRS)
