"""Bias: what a reviewer, a panel or a metric favours besides quality, with intervals over tasks.

All judges are looked at in one form, a frame of votes: who is better of the two responses ``low`` and ``high`` to a
task, by whom (1: low, 0: high, 0.5: neither, null: missing). Rows exist where a vote was requested. A measure is the
mean of a value over some of these rows; docs/bias.md defines each.

*Position*: share of pairs whose verdict changes with the order, 1 - Pc of Auto-PRE; share of decided verdicts for the
response shown first. *Length* and *format*: how often the one with more of it wins, over pairs that people tied, over
those that they decided (the mean of the rates where they prefer the one with more and the one with less), and over all.
*Preference gap* (PRE, equation 2): PG(i, j) = P_i(i ≻ j) - P_j(i ≻ j), for reviewers i and j that are agents as well,
over the pairs that both judged; PG(j, i) is the same number. *Own-family wins*: less those by reviewers of neither
agent's family, and by people, on the same pairs. *Favour rate* (Auto-PRE, equation 5): over the tasks on which people
find two agents tied or prefer the second, the share of verdicts for the first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import polars as pl

from goldless.errors import MetricError, UserError, nearest
from goldless.evidence import JUDGEMENTS, empty
from goldless.judging.judges import find_judge
from goldless.meta_evaluation.bias_report import NO_SPREAD, Bias, BiasReport, BiasRow, Coverage, JudgeKind, Unavailable
from goldless.meta_evaluation.judges import (
    PANEL,
    Judge,
    agent_names,
    draws_of,
    judgement_arrays,
    judgements_hash,
    metric_judges,
    recorded_scales,
    response_scores,
    reviewer_judges,
)
from goldless.meta_evaluation.text_features import Feature, text_features, within_correlation
from goldless.metrics.chair import TIED, voting_weights
from goldless.metrics.judgement_table import NEITHER, PairJudgements, ResponseRatings, check_convention
from goldless.runs.evaluation import Evaluation
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study, review_study
from goldless.runs.review_evidence import People, recorded_review, reviewer_family, what_people_said
from goldless.signature import Signature
from goldless.statistics.bootstrap import Estimate, task_intervals, task_shares
from goldless.studies import Study

Orders = Literal["each", "together"]
"""``each``: the two orders of a pair are separate verdicts. ``together``: one vote on both."""
Found = Iterator[BiasRow | Unavailable]
PAIR = ("task", "low", "high")
"""The number of the task, and of the two agents, the lower one first."""
SHOW = ("value", "low", "high", "n_tasks", "level", "method")


async def find_bias(
    study: Study,
    options: Options,
    *,
    favours: Sequence[str | tuple[str, str]] = (),
    weights: Mapping[str, float] | None = None,
    orders: Orders = "each",
) -> BiasReport:
    """Measure what reviewers, their panel and the metrics of the options favour besides quality, with intervals.

    ``options.reviewers``: names of reviewers with recorded judgements, or models to ask; empty: all recorded ones.
    ``options.metrics`` may be empty. ``favours``: pairs of agents, ``FIRST:SECOND``. ``weights``: of the panel's vote;
    only these reviewers vote. ``orders``: of the favour rate. Biases that the study has no data for are listed with
    the reason.
    """
    check_convention(options.convention)
    find_judge(options.scale)
    if weights is not None and not weights:
        raise UserError("weights must name at least one reviewer, got none. Leave out weights for an equal vote")
    if below := {name: weight for name, weight in (weights or {}).items() if not weight >= 0}:
        named = ", ".join(f"{name}={weight:g}" for name, weight in below.items())
        raise UserError(f"weights must not be negative, got {named}. Leave out reviewers that should not vote")
    draws_of(options)
    agents = agent_names(study)
    pairs = read_favours(favours, agents)
    # what a reviewer makes of its own kind is what is looked for
    reviewing = replace(options, own_family=True, families={})
    people = what_people_said(study, reviewing)
    reviewed = await _reviewed(study, reviewing)
    if not options.metrics and not len(reviewed.rows):
        raise MetricError(
            f"nothing to test for bias: {reviewed.reason}, and no metric was given. Name metrics with --metric, "
            "reviewers with --reviewers, or another --scale"
        )
    known = [*agents, *reviewed.reviewers]
    if strange := [name for name in options.families if name not in known]:
        said = (f"--family {name!r}: no agent or reviewer with this name{nearest(name, known)}" for name in strange)
        raise UserError("\n".join(said))
    evaluation = None
    if options.metrics:
        spent = sum(row.cost_usd or 0.0 for row in reviewed.spending)
        left = None if options.budget_usd is None else max(0.0, options.budget_usd - spent)
        evaluation = await evaluate_study(study, replace(options, budget_usd=left))
    return _Search(study, options, people, reviewed, evaluation, weights, orders, pairs).report()


def read_favours(given: Sequence[str | tuple[str, str]], agents: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of agents, each ``FIRST:SECOND`` or two names; names can contain colons."""
    found, problems = [], []
    for one in given:
        pair = one
        if isinstance(pair, str):
            parts = pair.split(":")
            splits = [(":".join(parts[:i]).strip(), ":".join(parts[i:]).strip()) for i in range(1, len(parts))]
            if not splits:
                problems.append(f"--favours must be two agents as FIRST:SECOND, got {one!r}")
                continue
            pair = next((pair for pair in splits if set(pair) <= set(agents)), splits[0])
        strange = next((name for name in pair if name not in agents), None)
        if strange is not None:
            listed = f"{nearest(strange, agents) or '.'} Agents: {', '.join(agents)}"
            problems.append(f"--favours {one!r}: no agent {strange!r}{listed}")
        elif pair[0] == pair[1]:
            problems.append(f"--favours must name two different agents, got {one!r}")
        else:
            found.append(pair)
    if problems:
        raise UserError("\n".join(problems))
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class _Reviewed:
    """Judgements of reviewers, and what they cost in this run."""

    rows: pl.DataFrame
    reviewers: tuple[str, ...] = ()
    reason: str = ""
    """Why there are no judgements."""
    spending: tuple[Spending, ...] = ()
    signature: str | None = None
    open: int = 0
    """Number of judgements missing for a temporary cause."""


async def _reviewed(study: Study, options: Options) -> _Reviewed:
    """The recorded judgements of the given reviewers (default: all); other names are models, which are asked."""
    recorded = recorded_scales(study)
    known = recorded.get(options.scale, [])
    given: Any = options.reviewers
    if not given and not known:
        others = f" (there are some on {', '.join(recorded)})" if recorded else ""
        return _Reviewed(empty(JUDGEMENTS), reason=f"no judgements on the scale {options.scale}{others}")
    listed = [] if isinstance(given, Mapping) else list(given)
    names = [one for one in listed if options.recorded or one in known]
    asked = given if isinstance(given, Mapping) else [one for one in listed if one not in names]
    tables = [empty(JUDGEMENTS)]
    if names or not given:
        found = recorded_review(study, scale=options.chosen_scale, reviewers=names, convention=options.convention)
        tables.append(found.judgements)
    review = await review_study(study, replace(options, reviewers=asked)) if asked else None
    if review is not None:
        tables.append(review.judgements)
    # names are of the categories of their study, or plain text where there are none
    rows = pl.concat([table.cast(pl.Schema(JUDGEMENTS)) for table in tables])
    reviewers = tuple(dict.fromkeys([*names, *rows["reviewer"]]))
    reason = "there are no judgements by the reviewers"
    if review is None:
        return _Reviewed(rows, reviewers, reason)
    return _Reviewed(rows, reviewers, reason, review.spending, review.signature, review.open)


# --- the frames ------------------------------------------------------------------------------------------------------


def _toward(vote: str) -> pl.Expr:
    """The vote for high instead of low where ``turned`` is true."""
    return pl.when("turned").then(1 - pl.col(vote)).otherwise(pl.col(vote))


def _one_vote(verdicts: pl.DataFrame, lean: pl.Expr) -> pl.DataFrame:
    """Each judge's mean over the orders of a pair, null where one of them is missing."""
    mean = pl.when(pl.col("lean").null_count() == 0).then(lean.mean()).alias("lean")
    return verdicts.group_by("judge", *PAIR, maintain_order=True).agg(mean)


SIGN = pl.when(pl.col("lean").abs() <= TIED).then(0.0).otherwise(pl.col("lean").sign()).alias("lean")


def _panel_verdicts(verdicts: pl.DataFrame, weights: Mapping[str, float], by: Sequence[str]) -> pl.DataFrame:
    """The sign of the weighted vote of the reviewers, as a value, by pair, or by pair and order."""
    weight = pl.col("judge").replace_strict(weights, return_dtype=pl.Float64)
    voted = verdicts.filter(pl.col("judge").is_in(list(weights))).with_columns(weight=weight)
    total = pl.col("weight").filter(pl.col("lean").is_not_null()).sum()
    margin = (pl.col("weight") * pl.col("lean")).sum() / total
    found = voted.group_by(*by, maintain_order=True).agg(pl.when(total > 0).then(margin).alias("lean"))
    return found.with_columns(SIGN, judge=pl.lit(PANEL)).sort(*PAIR, maintain_order=True)


def _votes(leans: pl.DataFrame, kind: JudgeKind) -> pl.DataFrame:
    """Leans, from -1 to 1, as votes, from 0 to 1."""
    return leans.select("judge", pl.lit(kind).alias("kind"), *PAIR, vote=(pl.col("lean") + 1) / 2)


def _scored_votes(judge: Judge) -> pl.DataFrame:
    """The votes of a judge that scores: the higher score is better."""
    table = judge.response_scores
    task, agent = np.nonzero(table.asked > 0)
    rows = pl.DataFrame({"task": task, "agent": agent, "score": table.score[task, agent]}, nan_to_null=True)
    pairs = rows.join(rows, on="task", suffix="_high", maintain_order="left_right")
    pairs = pairs.filter(pl.col("agent") < pl.col("agent_high"))
    lean = (pl.col("score") - pl.col("score_high")).sign()
    if judge.convention != "default":
        lean = lean.fill_null(0.0)
    name = pl.lit(judge.name).alias("judge")
    return _votes(pairs.select(name, "task", low="agent", high="agent_high", lean=lean), judge.kind)


def _without_flat_interval(share: Estimate) -> Estimate:
    """An interval without width says nothing: all tasks give the same value."""
    if share.low is not None and share.low != share.high:
        return share
    return replace(share, low=None, high=None, method=None, note=share.note or NO_SPREAD)


# --- the search ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Search:
    """Everything that is known, and how it is counted."""

    study: Study
    options: Options
    said: People
    reviewed: _Reviewed
    evaluation: Evaluation | None
    weights: Mapping[str, float] | None
    orders: Orders
    favours: Sequence[tuple[str, str]]

    @cached_property
    def agents(self) -> tuple[str, ...]:
        return agent_names(self.study)

    @cached_property
    def table(self) -> PairJudgements | ResponseRatings | None:
        reviewed = self.reviewed
        pairwise = find_judge(self.options.scale).pairwise
        known = len(reviewed.rows) > 0
        return judgement_arrays(self.study, reviewed.rows, reviewed.reviewers, pairwise=pairwise) if known else None

    @cached_property
    def panel(self) -> dict[str, float]:
        """Weights of the panel's vote; empty: there is no panel."""
        if self.table is None:
            return {}
        if self.weights is not None:
            return voting_weights(self.table.reviewers, self.weights)
        return dict.fromkeys(self.table.reviewers, 1.0) if len(self.table.reviewers) > 1 else {}

    @cached_property
    def scored(self) -> list[Judge]:
        """The judges that score single responses."""
        metrics = metric_judges(self.evaluation, self.study)
        if not isinstance(self.table, ResponseRatings):
            return metrics
        return [*reviewer_judges(self.table, weights=self.weights, convention=self.options.convention), *metrics]

    @cached_property
    def people(self) -> pl.DataFrame | None:
        """What people say of each labelled pair."""
        labels = self.said.labels
        if labels is None:
            return None
        return pl.DataFrame({**{name: getattr(labels, name) for name in PAIR}, "said": (labels.sign + 1) / 2})

    @cached_property
    def alone(self) -> pl.DataFrame:
        """Every comparison: judge, task, low, high, order (0: low is shown first), value and lean (-1 to 1)."""
        table = self.table
        assert isinstance(table, PairJudgements)
        who, pair, order = np.nonzero(table.asked)
        names = np.array(table.reviewers, dtype=object)[who].tolist()
        return pl.DataFrame(
            {
                "judge": pl.Series(names, dtype=pl.String),
                **{name: getattr(table, name)[pair] for name in PAIR},
                "order": order,
                "value": table.value[who, pair, order],
                "lean": 2 * table.filled(self.options.convention)[who, pair, order] - 1,
            },
            nan_to_null=True,
        )

    @cached_property
    def frames(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """One vote of every judge on each pair, and the verdicts that the favour rate counts."""
        votes, verdicts = [], []
        if isinstance(self.table, PairJudgements):
            together = _one_vote(self.alone, pl.col("lean"))
            counted = self.alone if self.orders == "each" else together
            votes.append(_votes(_one_vote(self.alone, pl.col("lean").sign()), "reviewer"))
            verdicts.append(_votes(counted.with_columns(SIGN), "reviewer"))
            if self.panel:
                by = ("order", *PAIR) if self.orders == "each" else PAIR
                votes.append(_votes(_panel_verdicts(together, self.panel, PAIR), "panel"))
                verdicts.append(_votes(_panel_verdicts(counted, self.panel, by), "panel"))
        scored = list(map(_scored_votes, self.scored))
        return pl.concat([*votes, *scored]), pl.concat([*verdicts, *scored])

    def report(self) -> BiasReport:
        options, reviewed, evaluation, labels = self.options, self.reviewed, self.evaluation, self.said.labels
        outcomes = {} if evaluation is None else evaluation.outcomes
        features = text_features(self.study)
        parts = [self._position(), *map(self._feature, features), self._self_preference(), self._family_preference()]
        found = [one for part in (*parts, self._favours()) for one in part]
        left = reviewed.open + (0 if evaluation is None else evaluation.open)
        return BiasReport(
            study=self.study.name,
            fingerprint=self.study.fingerprint,
            scale=options.scale,
            convention=options.convention,
            orders=self.orders,
            level=options.level,
            reviewers=reviewed.reviewers,
            weights=self.panel,
            metrics=tuple(outcomes),
            labels={}
            if labels is None
            else {"pairs": labels.n_pairs, "decided": labels.n_decided, "tied": labels.n_ties},
            coverage=tuple(self._coverage()),
            rows=tuple(one for one in found if isinstance(one, BiasRow)),
            unavailable=tuple(one for one in found if isinstance(one, Unavailable)),
            notes=tuple(self._notes()),
            complete=not left,
            signature=str(Signature("bias", self._settings())),
            review_signature=reviewed.signature,
            metric_signatures={name: outcome.signature for name, outcome in outcomes.items()},
            spending=(*reviewed.spending, *(() if evaluation is None else evaluation.spending)),
            open=left,
        )

    def _coverage(self) -> Iterator[Coverage]:
        """How many of the judgements and scores are present, whatever the convention."""
        if self.table is not None:
            for row, name in enumerate(self.table.reviewers):
                asked, used = int(self.table.asked[row].sum()), int(np.sum(~np.isnan(self.table.value[row])))
                yield Coverage(name, "reviewer", "judgements", asked, used)
        for name, outcome in ({} if self.evaluation is None else self.evaluation.outcomes).items():
            scores = response_scores(outcome).values()
            yield Coverage(name, "metric", "responses", len(scores), sum(score is not None for score in scores))

    def _notes(self) -> Iterator[str]:
        evaluation, labels = self.evaluation, self.said.labels
        if evaluation is not None and evaluation.raters is not None:
            yield f"{evaluation.raters.metric} does not score responses, so it has no bias of these kinds"
        if labels is not None and labels.n_contradicted:
            yield f"ratings and preferences contradict each other on {labels.n_contradicted} pairs; ratings decide"
        if self.weights is not None and self.table is None:
            yield f"the weights of {', '.join(self.weights)} were not used: {self.reviewed.reason}"

    def _settings(self) -> dict[str, str]:
        """What the signature says."""
        options, labels = self.options, self.said.labels
        asked: dict[str, str] = {}
        if self.table is not None:
            asked = {
                "scale": find_judge(options.scale).name,
                "reviewers": ",".join(self.reviewed.reviewers),
                "panel": ",".join(f"{name}={weight:.4g}" for name, weight in self.panel.items()) or "none",
                "orders": self.orders,
                "convention": options.convention,
                "evidence": judgements_hash(self.reviewed.rows),
            }
        families = ",".join(f"{name}={family}" for name, family in options.families.items())
        return {
            **asked,
            **({"labels": "none"} if labels is None else {"pairs": labels.rule}),
            **({} if options.criterion is None else {"criterion": options.criterion}),
            **({"families": families} if families else {}),
            "length": "log2(1+words)",
            "format": "headings+lists+bold+tables",
            "level": f"{options.level:g}",
            "resamples": str(options.resamples),
            "seed": str(options.seed),
            "study": self.study.fingerprint[:8],
        }

    # --- from values to rows

    def _share(self, items: pl.DataFrame, lowest: float = 0.0) -> Estimate:
        """The mean of the values that are not missing, with an interval by tasks."""
        used = items.drop_nulls("value")
        values = used["value"].cast(pl.Float64).to_numpy()
        (share,) = task_shares(values[None], used["task"].to_numpy(), lowest=lowest, **draws_of(self.options))
        return _without_flat_interval(share)

    def _mean_of_shares(self, shares: Sequence[pl.DataFrame], lowest: float = 0.0) -> Estimate:
        """The mean of shares, each the mean of its own values by task, null left out, with an interval by tasks.

        All have equal weight, however many values each has. A share's task values are share + (S_t - share N_t) T /
        Σ N, as in ``task_shares``: the same mean, and the same spread to first order. Their mean is taken task by task,
        so that all are resampled together.
        """
        used = [one.drop_nulls("value") for one in shares]
        n = sum(map(len, used))
        if not used or not all(map(len, used)):
            return Estimate(None, None, None, n, self.options.level, "one side has no judgement")
        places = np.unique(np.concatenate([one["task"].to_numpy() for one in used]))
        linear = np.zeros(len(places))
        for one in used:
            task = np.searchsorted(places, one["task"].to_numpy())
            count = np.bincount(task, minlength=len(places))
            sums = np.bincount(task, weights=one["value"].to_numpy(), minlength=len(places))
            share = float(sums.sum() / count.sum())
            linear += (share + (sums - share * count) * len(places) / count.sum()) / len(shares)
        (found,) = task_intervals(linear[:, None], **draws_of(self.options))
        found = _without_flat_interval(replace(found, n=n, n_tasks=len(places)))
        if found.low is None or found.high is None:
            return found
        return replace(found, low=max(lowest, found.low), high=min(1.0, found.high))

    def _rows(
        self,
        bias: Bias,
        measure: str,
        items: pl.DataFrame,
        *,
        neutral: float | None,
        lowest: float = 0.0,
        without_ties: bool = False,
        about: str | None = None,
    ) -> Iterator[BiasRow]:
        """The mean of each judge's values. ``items``: judge, kind, task, vote (0.5 is a tie) and value."""
        for judge, every in items.group_by("judge", "kind", maintain_order=True):
            ties = int((every["vote"] == NEITHER).sum())
            own = every.filter(pl.col("vote").ne_missing(NEITHER)) if without_ties else every
            note = f"ties left out: {ties}" if without_ties and ties else None
            how: dict[str, Any] = {"neutral": neutral, "asked": len(own), "ties": ties, "note": note, "about": about}
            yield row_of(self._share(own, lowest), bias, measure, judge, **how)

    # --- which was shown first

    def _position(self) -> Found:
        if self.table is None:
            yield Unavailable("position", self.reviewed.reason)
            return
        if isinstance(self.table, ResponseRatings):
            yield Unavailable("position", "ratings are of one response at a time, so there is no order")
            return
        pair = ("judge", *PAIR)
        both = self.alone.filter(pl.len().over(pair) == 2).with_columns(kind=pl.lit("reviewer"))
        heard = set(both["judge"])
        if silent := tuple(name for name in self.table.reviewers if name not in heard):
            yield Unavailable("position", "judgements are in one order only. Ask for both orders of every pair", silent)
        sign, present = pl.col("lean").sign(), pl.col("value").null_count() == 0
        tied = (pl.col("value") == NEITHER).any()
        changes = pl.when(sign.first() != sign.last()).then(1.0).otherwise(0.0)
        if self.options.convention != "default":
            changes = pl.when((sign == 0).any()).then(NEITHER).otherwise(changes)
        pairs = both.group_by("kind", *pair, maintain_order=True).agg(
            value=pl.when(pl.col("lean").null_count() == 0).then(changes), vote=pl.when(present & tied).then(NEITHER)
        )
        yield from self._rows("position", "flips when the order is swapped", pairs, neutral=None)
        for_first = pl.when(pl.col("order") == 0).then(pl.col("value")).otherwise(1 - pl.col("value"))
        shown = both.with_columns(vote=pl.when(present.over(pair)).then(((for_first - NEITHER).sign() + 1) / 2))
        shown = shown.with_columns(value="vote")
        yield from self._rows("position", "decided for the one shown first", shown, neutral=NEITHER, without_ties=True)

    # --- which has more of a feature

    def _feature(self, feature: Feature) -> Found:
        """Every judge's preference for the feature."""
        long = feature.values
        pairs = long.join(long, on="task", suffix="_high").filter(
            pl.col("agent") < pl.col("agent_high"), pl.col("x") != pl.col("x_high")
        )
        pairs = pairs.select("task", low="agent", high="agent_high", turned=pl.col("x") < pl.col("x_high"))
        if not len(pairs):
            yield Unavailable(feature.bias, f"no two responses to a task differ in {feature.scale}")
            return
        items = self.frames[0].join(pairs, on=PAIR, maintain_order="left").with_columns(value=_toward("vote"))
        wins = f"{feature.more} wins"
        if self.people is None:
            reason = "no labels, so only the raw rate is shown; better responses may have more of it"
            yield Unavailable(feature.bias, reason)
        else:
            labelled = items.join(self.people, on=PAIR, maintain_order="left").with_columns(said=_toward("said"))
            tied = labelled.filter(pl.col("said") == NEITHER)
            yield from self._rows(feature.bias, f"{wins}, tied by people", tied, neutral=NEITHER)
            if not len(tied):
                reason = f"no judged pair with different {feature.scale} is tied by people"
                yield Unavailable(feature.bias, reason)
            for judge, own in labelled.filter(pl.col("said") != NEITHER).group_by("judge", "kind", maintain_order=True):
                share = self._mean_of_shares([own.filter(pl.col("said") == side) for side in (1, 0)])
                ties = int((own["vote"] == NEITHER).sum())
                how: dict[str, Any] = {"neutral": NEITHER, "asked": len(own), "ties": ties}
                yield row_of(share, feature.bias, f"{wins}, adjusted", judge, **how)
        ratings = None if self.said.ratings is None else self.said.ratings.value
        given, neutral = ("within tasks", None) if ratings is None else ("at equal rating", 0.0)
        for one in self.scored:
            share, asked = within_correlation(one.response_scores.score, long, ratings, draws=draws_of(self.options))
            measure = f"correlation with {feature.scale}, {given}"
            yield row_of(share, feature.bias, measure, (one.name, one.kind), neutral=neutral, asked=asked)
        if self.people is not None:
            people = self.people.join(pairs, on=PAIR, maintain_order="left").rename({"said": "vote"})
            people = people.with_columns(value=_toward("vote"), judge=pl.lit("people"), kind=pl.lit("people"))
            items = pl.concat([items, people.select(items.columns)])
        yield from self._rows(feature.bias, f"{wins}, all pairs", items, neutral=None)

    # --- one's own, and one's own kind

    def _between(self, frame: pl.DataFrame, first: str, second: str) -> pl.DataFrame:
        """The rows about two agents; ``turned``: whether the first has the higher number."""
        places = self.agents.index(first), self.agents.index(second)
        return frame.filter(low=min(places), high=max(places)).with_columns(turned=pl.lit(places[0] > places[1]))

    def _self_preference(self) -> Found:
        """The preference gap of every two reviewers that are also agents, and their mean."""
        bias: Bias = "self-preference"
        if self.table is None:
            yield Unavailable(bias, self.reviewed.reason)
            return
        own = [name for name in self.table.reviewers if name in self.agents]
        if others := tuple(name for name in self.table.reviewers if name not in self.agents):
            yield Unavailable(bias, "no agent with the same name", others)
        gaps: list[tuple[BiasRow, pl.DataFrame]] = []
        silent = []
        for one, other in itertools.combinations(own, 2):
            votes = self._between(self.frames[0].filter(kind="reviewer"), one, other).with_columns(vote=_toward("vote"))
            mine, theirs = (votes.filter(judge=name) for name in (one, other))
            both = mine.join(theirs, on=PAIR, suffix="_other", maintain_order="left")
            gap = both.select("task", value=pl.col("vote") - pl.col("vote_other"))
            if not len(gap):
                silent.append(f"{one}, {other}")
                continue
            share = self._share(gap, lowest=-1.0)
            how: dict[str, Any] = {"neutral": 0.0, "asked": len(gap), "pair": (one, other)}
            gaps.append((row_of(share, bias, "preference gap", (f"{one}, {other}", "reviewers"), **how), gap))
        if silent:
            yield Unavailable(bias, "no pair that both reviewers judged", tuple(silent))
        elif not gaps:
            yield Unavailable(bias, "a preference gap needs two reviewers that are also agents")
        yield from (row for row, _ in gaps)
        if len(gaps) > 1:
            known = [(row.value, gap) for row, gap in gaps if row.value is not None]
            note = f"{sum(value > 0 for value, _ in known)} of {len(known)} gaps above 0"
            if len(known) < len(gaps):
                note += f"; {len(gaps) - len(known)} not defined"
            how = {"neutral": 0.0, "asked": sum(row.asked for row, _ in gaps), "note": note}
            share = self._mean_of_shares([gap for _, gap in known], lowest=-1.0)
            yield row_of(share, bias, "preference gap", ("mean of all", "reviewers"), **how)

    def _family_preference(self) -> Found:
        """How each reviewer judges its own family's responses, compared with other reviewers and people."""
        bias: Bias = "family preference"
        if self.table is None:
            yield Unavailable(bias, self.reviewed.reason)
            return
        given = self.options.families
        of_agents = {one.agent: given.get(one.agent) or one.family or one.agent for one in self.study.agents}
        of_reviewers = {name: reviewer_family(name, None, given, of_agents) for name in self.table.reviewers}
        by_number = dict(enumerate(of_agents.values()))
        family = pl.col("judge").replace_strict(of_reviewers)
        votes = self.frames[0].filter(kind="reviewer")
        votes = votes.with_columns(
            of_low=pl.col("low").replace_strict(by_number) == family,
            turned=pl.col("high").replace_strict(by_number) == family,
        )
        others = votes.filter(~pl.col("of_low"), ~pl.col("turned")).drop_nulls("vote")
        others = others.group_by(PAIR).agg(said=pl.col("vote").mean())
        mine = votes.filter(pl.col("of_low") != pl.col("turned")).with_columns(value=_toward("vote"))
        compared = {"other reviewers": others} | ({} if self.people is None else {"people": self.people})
        alone = []
        for (name,), own in mine.group_by("judge", maintain_order=True):
            about = of_reviewers[str(name)]
            yield from self._rows(bias, "own family wins", own, neutral=None, about=about)
            for whose, said in compared.items():
                beside = own.join(said, on=PAIR, maintain_order="left")
                alone += [str(name)] * (said is others and not len(beside))
                less = beside.with_columns(value=pl.col("value") - _toward("said"), vote=pl.lit(None, pl.Float64))
                measure = f"own family wins, less {whose}"
                yield from self._rows(bias, measure, less, neutral=0.0, lowest=-1.0, about=about)
        heard = set(mine["judge"])
        if lacking := tuple(name for name in self.table.reviewers if name not in heard):
            reason = "no judged pair of an agent of its family and another. Set families in the agents table or with "
            yield Unavailable(bias, f"{reason}--family", lacking)
        if alone:
            yield Unavailable(bias, "no reviewer outside both families judged the same pairs", tuple(alone))
        if self.people is None and len(mine):
            yield Unavailable(bias, "no labels, so there is no comparison with people")

    # --- a named agent

    def _favours(self) -> Found:
        """Rate and accuracy of every judge for the first agent of each given pair, compared with the second."""
        bias: Bias = "favour rate"
        if not self.favours or self.people is None:
            none = "no two agents were given (--favours FIRST:SECOND)" if not self.favours else "no labels"
            yield Unavailable(bias, none)
            return
        verdicts = self.frames[1]
        for first, second in self.favours:
            about = f"{first} over {second}"
            human = self._between(self.people, first, second).with_columns(said=_toward("said"))
            if not len(human.filter(pl.col("said") <= NEITHER)):
                yield Unavailable(bias, f"{about}: people always prefer {first}, or there are no labels")
                continue
            items = verdicts.join(human, on=PAIR, maintain_order="left").with_columns(vote=_toward("vote"))
            unfavoured = items.filter(pl.col("said") <= NEITHER)
            heard = set(unfavoured["judge"])
            decided = items.filter(pl.col("said") != NEITHER, pl.col("judge").is_in(list(heard)))
            favours = (pl.col("vote") > NEITHER).cast(pl.Float64)
            earned = (1 + (pl.col("vote") - NEITHER).sign() * (pl.col("said") - NEITHER).sign()) / 2
            for measure, rows in (
                ("favours the first though people do not", unfavoured.with_columns(value=favours)),
                ("accuracy on pairs people decided", decided.with_columns(value=earned)),
            ):
                yield from self._rows(bias, measure, rows, neutral=None, about=about)
            if silent := tuple(name for name in dict.fromkeys(verdicts["judge"]) if name not in heard):
                yield Unavailable(bias, f"{about}: not judged where people see a tie or prefer {second}", silent)


def row_of(
    share: Estimate,
    bias: Bias,
    measure: str,
    judge: tuple[Any, ...],
    *,
    asked: int,
    note: str | None = None,
    **said: Any,
) -> BiasRow:
    """A share as a row; ``judge``: its name and kind."""
    shown: dict[str, Any] = {name: getattr(share, name) for name in SHOW}
    notes = "; ".join(one for one in (share.note, note) if one) or None
    named = {"bias": bias, "judge": judge[0], "kind": judge[1], "measure": measure, "note": notes}
    return BiasRow(asked=asked, used=share.n, **named, **shown, **said)
