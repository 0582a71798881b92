"""Metrics over stored log-probabilities: GEM, GEM-S, GEM-raw and their relatives, each a short pure function.

For a response x by an agent, a response y by a peer, and a synopsis z where one is named, the evidence contains
log p(y | x), log p(y), log p(x | y) and log p(x), all given z as well. They are sums over tokens, or means per token
where a metric says so.

Task control (``NAME+control``) takes off what the same two agents share on other tasks: for the responses y' of the
peer to a few other tasks, the mean of the metric on (x, y'), under the same synopsis z. ``NAME+both`` takes the mean
of both directions: the mutual information of two responses is the same in either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import polars as pl

from goldless.errors import MetricError, nearest
from goldless.grouped import mean_in_order
from goldless.metrics.metric import (
    ENOUGH_PEERS,
    PAIRS,
    Given,
    LogprobNeed,
    Needs,
    Scores,
    Text,
    mean_over_variants,
    scores_over_peers,
)
from goldless.templates import EXAMPLES

Number = TypeVar("Number", float, pl.Expr)
Term = Literal["peer given agent", "peer", "agent given peer", "agent"]


def gem(peer_given_agent: Number, peer: Number) -> Number:
    """Pointwise mutual information log p(y | x) - log p(y), in nats (GEM paper, section 3; GEM-S: all given z)."""
    return peer_given_agent - peer


def gem_both(peer_given_agent: Number, peer: Number, agent_given_peer: Number, agent: Number) -> Number:
    """The mean of log p(y | x) - log p(y) and log p(x | y) - log p(x), in nats: two estimates of the same number."""
    return ((peer_given_agent - peer) + (agent_given_peer - agent)) / 2


def mean_token_mi(peer_given_agent: Number, peer: Number, agent_given_peer: Number, agent: Number) -> Number:
    """Nats per token by which each response makes the other likelier, mean of both directions.

    Averaged over tasks, the two terms are a difference of entropies per token, H(Y) - H(Y | X).
    """
    return ((peer_given_agent - peer) + (agent_given_peer - agent)) / 2


def gppm(peer_given_agent: Number) -> Number:
    """The generative peer prediction mechanism: log p(y | x) per token, no marginal subtracted (Lu et al. 2024)."""
    return peer_given_agent


def bartscore_recall(peer_given_agent: Number) -> Number:
    """The sum log p(y | x): how well the response predicts the peer's (as the GEM paper computes it, D.3)."""
    return peer_given_agent


def bartscore_precision(agent_given_peer: Number) -> Number:
    """The sum log p(x | y): how well the peer's response predicts this one."""
    return agent_given_peer


def bartscore_f1(peer_given_agent: Number, agent_given_peer: Number) -> Number:
    """F1 as BARTScore defines it: the arithmetic mean of recall and precision."""
    return (peer_given_agent + agent_given_peer) / 2


def gptscore(agent_given_peer: Number) -> Number:
    """The mean log p(x | y) per token, the peer's response in place of the reference (Fu et al. 2023)."""
    return agent_given_peer


@dataclass(frozen=True, slots=True)
class Likelihood:
    """A function of log-probabilities, and the terms it takes."""

    of: Callable[..., pl.Expr]
    """Linear in its terms, without a constant: task control rests on it."""
    terms: tuple[Term, ...]
    per_token: bool
    """True if the terms are means over tokens; else sums."""

    @property
    def unit(self) -> str:
        return "nats per token" if self.per_token else "nats"

    @property
    def both_directions(self) -> bool:
        """True if it also takes the agent's response given the peer's."""
        return "agent given peer" in self.terms

    @property
    def marginals(self) -> bool:
        """True if it takes responses alone."""
        return "peer" in self.terms or "agent" in self.terms


CONTROL = "+control"
"""The part of a metric's name that takes off what two agents share on other tasks."""
BOTH = "+both"
"""The end of a metric's name that makes it the mean of both directions."""
GEM = Likelihood(gem, ("peer given agent", "peer"), per_token=False)
GEM_BOTH = Likelihood(gem_both, ("peer given agent", "peer", "agent given peer", "agent"), per_token=False)
RELATIVES: Mapping[str, Likelihood] = {
    "mi": Likelihood(mean_token_mi, GEM_BOTH.terms, per_token=True),
    "gppm": Likelihood(gppm, ("peer given agent",), per_token=True),
    "bartscore": Likelihood(bartscore_f1, ("peer given agent", "agent given peer"), per_token=False),
    "bartscore-precision": Likelihood(bartscore_precision, ("agent given peer",), per_token=False),
    "bartscore-recall": Likelihood(bartscore_recall, ("peer given agent",), per_token=False),
    "gptscore": Likelihood(gptscore, ("agent given peer",), per_token=True),
}


@dataclass(frozen=True, slots=True)
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
    short_for: str = ""
    """The name of the same with all peers."""

    @property
    def unit(self) -> str:
        return self.likelihood.unit

    @property
    def needs(self) -> Needs:
        return Needs(
            logprobs=LogprobNeed(
                self.text,
                self.synopsis,
                both_directions=self.likelihood.both_directions,
                marginals=self.likelihood.marginals,
                per_token=self.likelihood.per_token,
                control=self.control,
            )
        )

    @property
    def without_control(self) -> str:
        """The name of the same without task control."""
        return (self.short_for or self.name).replace(CONTROL, "")

    def scores(self, given: Given) -> Scores:
        """The metric on every pair, averaged over all query variants, and that of each response over its peers."""
        evidence = given.evidence
        variants = _wordings(evidence.logprobs, self.text, self.synopsis)
        if not variants:
            raise MetricError(_no_evidence(self, given, evidence.logprobs))
        controls = {wording: _of_wording(evidence.control, wording) for wording in variants} if self.control else {}
        if self.control and not all(map(len, controls.values())):
            raise MetricError(
                f"{given.study.name} carries no log-probabilities of responses to other tasks (a table "
                f"control_logprobs), which {self.name} needs. Leave --recorded out to request them, or use "
                f"{self.without_control}"
            )
        found = self._of_rows(given, _by_wording(evidence.logprobs, variants), controls)
        settings = {**self._settings(given, variants, found.pairs), **_control_settings(given, controls)}
        return replace(found, settings=settings)

    def _of_rows(
        self, given: Given, rows: Mapping[Wording, pl.DataFrame], controls: Mapping[Wording, pl.DataFrame]
    ) -> Scores:
        scored = {
            wording: given.compared(pair_scores(mine, self.likelihood, controls.get(wording)))
            for wording, mine in rows.items()
        }
        pairs = mean_over_variants(list(scored.values()))
        by_wording = {wording.name: mine for wording, mine in scored.items()}
        agents = {given.study.samples.get(agent, agent) for agent in given.agents}
        but_closest = self.but_closest and len(agents) > ENOUGH_PEERS
        return scores_over_peers(pairs, given.over_peers, but_closest=but_closest, by_wording=by_wording)

    def _settings(self, given: Given, asked: list[Wording], pairs: pl.DataFrame) -> dict[str, str]:
        rewriters = list(dict.fromkeys(w.rewriter for w in asked if w.rewriter is not None))
        written = given.evidence.synopses.filter(pl.col("synopsis") == (self.synopsis or ""))
        writers = written["writer"].unique(maintain_order=True).to_list()
        described = dict(given.evidence.described.get("logprobs", {}))
        scorer = {"scorer": described.pop("scorer")} if "scorer" in described else {}
        return {
            **({"short-for": self.short_for} if self.short_for else {}),
            **scorer,
            **({"rewriter": ",".join(rewriters), **given.settings} if rewriters else {}),
            "template": ",".join(dict.fromkeys(w.template for w in asked)),
            "synopsis": self.synopsis or "none",
            **({"written-by": "+".join(writers)} if writers else {}),
            **described,
            "peers": given.peers_shown(pairs),
        }


@dataclass(frozen=True, slots=True)
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


def wordings(
    logprobs: pl.DataFrame, text: Text, synopsis: str | None, *, worked: bool | str = False
) -> dict[Wording, pl.DataFrame]:
    """The log-probabilities a metric uses, by query variant; several are averaged.

    ``worked``: those after worked examples, or after examples with the same value in this column.
    """
    return _by_wording(logprobs, _wordings(logprobs, text, synopsis, worked=worked))


WAYS = ("template", "rewriter", "synopsis")


def _wordings(rows: pl.DataFrame, text: Text, synopsis: str | None, *, worked: bool | str = False) -> list[Wording]:
    """The query variants among these rows that a metric uses."""
    found = rows.select(WAYS).head(1) if _one_way(rows) else rows.select(WAYS).unique(maintain_order=True)
    every = [wording for way in found.iter_rows() if (wording := Wording(*way)).synopsis == synopsis]
    asked = [wording for wording in every if wording.worked == worked]
    raw = [wording for wording in asked if wording.rewriter is None]
    rewritten = [wording for wording in asked if wording.rewriter is not None]
    return raw if text == "responses" or (text == "rewrites if any" and not rewritten) else rewritten


def _by_wording(rows: pl.DataFrame, chosen: list[Wording]) -> dict[Wording, pl.DataFrame]:
    """The rows of each variant."""
    if _one_way(rows):
        return dict.fromkeys(chosen, rows)
    return {wording: _of_wording(rows, wording) for wording in chosen}


def _one_way(rows: pl.DataFrame) -> bool:
    return all(rows[way].n_unique() <= 1 for way in WAYS)


def _of_wording(rows: pl.DataFrame, wording: Wording) -> pl.DataFrame:
    return rows.filter(pl.col(way).eq_missing(getattr(wording, way)) for way in WAYS)


def _control_settings(given: Given, controls: Mapping[Wording, pl.DataFrame]) -> dict[str, str]:
    """The number of other tasks for each pair, and the source of their evidence."""
    if not controls:
        return {}
    there = [
        rows.filter(pl.col("given").is_not_null()).group_by("task", "target", "given").len()
        for rows in controls.values()
    ]
    most = max(int(str(counts["len"].max() or 0)) for counts in there)
    return {"control": f"other-tasks-{most}", **given.evidence.described.get("control", {})}


def pair_scores(
    logprobs: pl.DataFrame, likelihood: Likelihood = GEM, control: pl.DataFrame | None = None
) -> pl.DataFrame:
    """The function on every ordered pair of agent and peer, higher is better. Missing where any of its terms is.

    The log-probabilities must be from one scorer, template, rewriter and synopsis. ``control``: those of responses to
    other tasks, whose mean is subtracted from each term; missing ones are left out, and if none is left the pair is
    missing.
    """
    known = _known(logprobs, likelihood)
    pairs = _term(known, likelihood.terms[0])
    for term in likelihood.terms[1:]:
        other = _term(known, term)
        on = [name for name in ("task", "agent", "peer") if name in other.collect_schema()]
        pairs = pairs.join(other, on=on, how="left", maintain_order="left")
    if control is not None:
        pairs = _controlled(pairs, _elsewhere(known, control, likelihood), likelihood)
    values = [pl.col(f"log p of {term}") for term in likelihood.terms]
    lost = pl.coalesce(pl.col(f"failure of {term}") for term in likelihood.terms)
    whole = pl.all_horizontal(value.is_not_null() for value in values)
    return (
        pairs.with_columns(score=pl.when(whole).then(likelihood.of(*values)), missing=pl.when(~whole).then(lost))
        .select(*PAIRS)
        .collect()
    )


def _known(logprobs: pl.DataFrame, likelihood: Likelihood) -> pl.LazyFrame:
    value = pl.col("mean_token_logprob_nats" if likelihood.per_token else "sum_logprob_nats")
    names = [name for name in ("task", "target_task", "target", "given") if name in logprobs.columns]
    return logprobs.lazy().select(*names, "failure", value=value)


def _term(known: pl.LazyFrame, term: Term) -> pl.LazyFrame:
    """The log-probabilities that are one term, under the names its pair gives target and condition."""
    predicted, _, condition = term.partition(" given ")
    there = pl.col("given").is_not_null() if condition else pl.col("given").is_null()
    names = {predicted: pl.col("target"), **({condition: pl.col("given")} if condition else {})}
    value, failure = pl.col("value").alias(f"log p of {term}"), pl.col("failure").alias(f"failure of {term}")
    return known.filter(there).select("task", value, failure, **names)


def _elsewhere(known: pl.LazyFrame, control: pl.DataFrame, likelihood: Likelihood) -> pl.LazyFrame:
    """The means over other tasks of a target given a response, and of it alone, of those where both are there."""
    rows = _known(control, likelihood)
    found = rows.filter(pl.col("given").is_not_null()).rename({"value": "given response", "failure": "lost"})
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
        found = found.with_columns(alone=pl.lit(0.0))
    parts = ("given response", "alone")
    whole = pl.all_horizontal(pl.col(part).is_not_null() for part in parts)
    return found.group_by("task", "target", "given").agg(
        *(mean_in_order(pl.col(part).filter(whole)) for part in parts), lost=pl.col("lost").drop_nulls().first()
    )


def _controlled(pairs: pl.LazyFrame, elsewhere: pl.LazyFrame, likelihood: Likelihood) -> pl.LazyFrame:
    """Each term less its mean over other tasks: as the function is linear, its value less its mean over them."""
    for predicted, condition in (("peer", "agent"), ("agent", "peer")):
        own = [term for term in likelihood.terms if term.startswith(predicted)]
        if not own:
            continue
        means = elsewhere.rename({"target": predicted, "given": condition})
        pairs = pairs.join(means, on=["task", "agent", "peer"], how="left", maintain_order="left")
        taken_off = {term: pl.col("given response" if condition in term else "alone") for term in own}
        nothing = pl.when(pl.col("alone").is_null()).then(pl.lit("no_control"))
        pairs = pairs.with_columns(
            *(pl.col(f"log p of {term}") - mean for term, mean in taken_off.items()),
            *(pl.coalesce(f"failure of {term}", "lost", nothing).alias(f"failure of {term}") for term in own),
        ).drop("given response", "alone", "lost")
    return pairs


def _no_evidence(metric: LikelihoodMetric, given: Given, ways: pl.DataFrame) -> str:
    synopses = sorted(ways["synopsis"].drop_nulls().unique().to_list())
    if metric.synopsis is not None and metric.synopsis not in synopses:
        return (
            f"{given.study.name} has no recorded log-probabilities given a synopsis {metric.synopsis!r}"
            f"{nearest(metric.synopsis, synopses) or '.'} Recorded synopses: {', '.join(synopses) or 'none'}"
        )
    what = "rewrites" if metric.text == "rewrites" else "responses as they are"
    return f"{given.study.name} has no recorded log-probabilities of {what}, which {metric.name} needs"
