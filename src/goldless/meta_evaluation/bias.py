"""Bias: what a reviewer, a panel or a metric favours besides quality, with intervals over tasks.

All judges are looked at in one form, a frame of votes: who is better of the two responses ``low`` and ``high`` to a
task, by whom (1: low, 0: high, 0.5: neither, null: missing). Rows exist where a vote was requested.

*Position*, over the pairs a reviewer was asked about in both orders. *Flips*: share of pairs whose verdict changes with
the order, 1 - Pc of Auto-PRE. *First-position rate*: of the verdicts on pairs judged in both orders that found one
better, the share for the response shown first; each response of such a pair is first once, so 0.5 is neutral whichever
is better.

*Length* and *format*: among pairs of responses that differ in the feature, the rate at which the judge prefers the one
that has more of it, a tie counting half.

- *tied by people*: over pairs to which people give the same label. Without a bias 0.5 is expected.
- *adjusted*: over pairs that people decided, the mean of the rate where they prefer the one with more and of the rate
  where they prefer the one with less, both with equal weight. A judge that errs as often in either direction has 0.5,
  however often it errs.
- *all pairs*: the raw rate, with people's own rate for comparison. Better responses may be longer, so this alone does
  not show a bias.
- for judges that rate or score, also the correlation of score and feature within groups of responses to one task with
  one human rating (both minus their means in the group), Σ x y / sqrt(Σ x² Σ y²). It is neutral at 0.

*Preference gap* (PRE, equation 2): PG(i, j) = P_i(i ≻ j) - P_j(i ≻ j), for reviewers i and j that are agents as well,
P_r(i ≻ j) the share of tasks on which r finds i's response better than j's, a tie counting half. PG(j, i) is the same
number. Both shares are over the pairs that both reviewers judged. The mean of all gaps is over the gaps, each counting
once however many tasks it rests on; tasks are resampled for all gaps together.

*Own-family wins*: over pairs of an agent of the reviewer's family with one of another, the rate at which the reviewer
prefers its own; minus the rate of the other reviewers, those of neither agent's family, and minus that of people, on
the same pairs.

*Favour rate* (Auto-PRE, equation 5): how often a judge favours one agent though people do not. Over the tasks on which
people find two agents tied or prefer the second, the share of verdicts for the first. A tied verdict does not favour
it, and ties are counted. The accuracy on the pairs of these two agents that people decided is reported too, a tied
verdict counting half. Verdicts are those of each order, or one vote on both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from goldless.arrays import FloatArray, IntArray
from goldless.errors import MetricError, UserError, nearest
from goldless.evidence import JUDGEMENTS, empty
from goldless.judging.judges import find_judge
from goldless.meta_evaluation.bias_report import (
    NO_SPREAD,
    Bias,
    BiasReport,
    BiasRow,
    Coverage,
    JudgeKind,
    Unavailable,
)
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
from goldless.metrics.exam_traits import consistency
from goldless.metrics.judgement_table import NEITHER, PairJudgements, ResponseRatings, check_convention
from goldless.models.catalogue import find_provider
from goldless.runs.evaluation import Evaluation
from goldless.runs.opening import Spending
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study, review_study
from goldless.runs.review_evidence import People, recorded_review, reviewer_family, what_people_said
from goldless.signature import Signature
from goldless.statistics.bootstrap import Draws, Estimate, task_intervals, task_shares
from goldless.studies import Study

Orders = Literal["each", "together"]
"""``each``: the two orders of a pair are separate verdicts. ``together``: one vote on both."""
Found = tuple[list[BiasRow], list[Unavailable]]
PAIR = ("task", "low", "high")
"""The number of the task, and of the two agents, the lower one first."""


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
    _check(orders, weights)
    draws = draws_of(options)
    agents = agent_names(study)
    pairs = read_favours(favours, agents)
    # what a reviewer makes of its own kind is what is looked for
    people = what_people_said(study, replace(options, own_family=True, families={}))
    reviewed = await _reviewed(study, replace(options, own_family=True, families={}))
    if not options.metrics and not len(reviewed.rows):
        raise MetricError(
            f"nothing to test for bias: {reviewed.reason}, and no metric was given. Name metrics with --metric, "
            "reviewers with --reviewers, or another --scale"
        )
    known = [*agents, *reviewed.reviewers]
    problems = [
        f"--family {name!r}: no agent or reviewer with this name{nearest(name, known)}"
        for name in options.families
        if name not in known
    ]
    if problems:
        raise UserError("\n".join(problems))
    evaluation = None
    if options.metrics:
        spent = sum(row.cost_usd or 0.0 for row in reviewed.spending)
        left = None if options.budget_usd is None else max(0.0, options.budget_usd - spent)
        evaluation = await evaluate_study(study, replace(options, budget_usd=left))
    search = _Search(
        study,
        options,
        said=people,
        reviewed=reviewed,
        evaluation=evaluation,
        weights=weights,
        orders=orders,
        favours=pairs,
        draws=draws,
    )
    return search.report()


def _check(orders: str, weights: Mapping[str, float] | None) -> None:
    if orders not in get_args(Orders):
        raise UserError(f"orders must be 'each' or 'together', got {orders!r}{nearest(orders, get_args(Orders))}")
    if weights is not None and not weights:
        raise UserError("weights must name at least one reviewer, got none. Leave out weights for an equal vote")
    if below := {name: weight for name, weight in (weights or {}).items() if not weight >= 0}:
        named = ", ".join(f"{name}={weight:g}" for name, weight in below.items())
        raise UserError(f"weights must not be negative, got {named}. Leave out reviewers that should not vote")


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


# --- the judgements ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reviewed:
    """Judgements of reviewers, and what they cost in this run."""

    rows: pl.DataFrame = field(default_factory=lambda: empty(JUDGEMENTS))
    reviewers: tuple[str, ...] = ()
    reason: str | None = None
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
        return _Reviewed(reason=f"no judgements on the scale {options.scale}{others}")
    names = [] if isinstance(given, Mapping) else [one for one in given if isinstance(one, str) and one in known]
    asked = given if isinstance(given, Mapping) else [one for one in given if one not in names]
    strange = [
        str(name)
        for name in asked
        if options.recorded
        or (known and isinstance(name, str) and find_provider(name) is None and not set(name) & set(":=/."))
    ]
    if strange:
        raise UserError(
            f"{study.name} has no recorded judgements by {', '.join(strange)} on the scale {options.scale}"
            f"{nearest(strange[0], known) or '.'} Recorded reviewers: {', '.join(known) or 'none'}. To ask a model, "
            "name it as openai:MODEL or http://HOST:PORT/v1#MODEL, without --recorded"
        )
    tables = [empty(JUDGEMENTS)]
    if names or not given:
        found = recorded_review(study, scale=options.chosen_scale, reviewers=names, convention=options.convention)
        tables.append(found.judgements)
    review = await review_study(study, replace(options, reviewers=asked)) if asked else None
    if review is not None:
        tables.append(review.judgements)
    # names are of the categories of their study, or plain text where there are none
    rows = pl.concat([table.cast(pl.Schema(JUDGEMENTS)) for table in tables])
    return _Reviewed(
        rows=rows,
        reviewers=tuple(dict.fromkeys([*names, *rows["reviewer"]])),
        reason=None if len(rows) else "there are no judgements by the reviewers",
        spending=() if review is None else review.spending,
        signature=None if review is None else review.signature,
        open=0 if review is None else review.open,
    )


# --- the frames ------------------------------------------------------------------------------------------------------


def _toward(vote: str, turned: str = "turned") -> pl.Expr:
    """The vote for high instead of low where ``turned`` is true."""
    return pl.when(turned).then(1 - pl.col(vote)).otherwise(pl.col(vote))


SIGN = pl.when(pl.col("lean").abs() <= TIED).then(0.0).otherwise(pl.col("lean").sign()).alias("lean")


def _compared_verdicts(table: PairJudgements, options: Options) -> pl.DataFrame:
    """judge, task, low, high, order (0: low is shown first) and lean (-1 to 1) of every comparison."""
    who, pair, order = np.nonzero(table.asked)
    lean = 2 * table.filled(options.convention)[who, pair, order] - 1
    return pl.DataFrame(
        {
            "judge": np.array(table.reviewers, dtype=object)[who].tolist(),
            **{name: values[pair] for name, values in zip(PAIR, (table.task, table.low, table.high), strict=True)},
            "order": order,
            "lean": lean,
        },
        schema_overrides={"judge": pl.String},
        nan_to_null=True,
    )


def _whole(verdicts: pl.DataFrame, lean: pl.Expr) -> pl.DataFrame:
    """Each judge's mean over the orders of a pair, null where one of them is missing."""
    mean = pl.when(pl.col("lean").null_count() == 0).then(lean.mean()).alias("lean")
    return verdicts.group_by("judge", *PAIR, maintain_order=True).agg(mean)


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
    return _votes(
        pairs.select(pl.lit(judge.name).alias("judge"), "task", low="agent", high="agent_high", lean=lean), judge.kind
    )


# --- the search ------------------------------------------------------------------------------------------------------


class _Search:
    """Everything that is known, and how it is counted."""

    def __init__(
        self,
        study: Study,
        options: Options,
        *,
        said: People,
        reviewed: _Reviewed,
        evaluation: Evaluation | None,
        weights: Mapping[str, float] | None,
        orders: Orders,
        favours: Sequence[tuple[str, str]],
        draws: Draws,
    ) -> None:
        self.study, self.options, self.said, self.reviewed = study, options, said, reviewed
        self.evaluation, self.weights, self.orders = evaluation, weights, orders
        self.favours, self.draws = favours, draws
        self.agents = agent_names(study)
        self.table: PairJudgements | ResponseRatings | None = None
        if len(reviewed.rows):
            pairwise = find_judge(options.scale).pairwise
            self.table = judgement_arrays(study, reviewed.rows, reviewed.reviewers, pairwise=pairwise)
        self.panel = self._panel()
        self.scored = metric_judges(evaluation, study)
        if isinstance(self.table, ResponseRatings):
            self.scored = [*reviewer_judges(self.table, weights=weights, convention=options.convention), *self.scored]
        self.votes, self.verdicts = self._frames()
        self.people: pl.DataFrame | None = None
        if said.labels is not None:
            columns = {name: getattr(said.labels, name) for name in PAIR}
            self.people = pl.DataFrame({**columns, "said": (said.labels.sign + 1) / 2})

    def _panel(self) -> dict[str, float]:
        """Weights of the panel's vote; empty: there is no panel."""
        if self.table is None:
            return {}
        if self.weights is not None:
            return voting_weights(self.table.reviewers, self.weights)
        return dict.fromkeys(self.table.reviewers, 1.0) if len(self.table.reviewers) > 1 else {}

    def _frames(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """One vote of every judge on each pair, and the verdicts that the favour rate counts."""
        scored = [_scored_votes(judge) for judge in self.scored]
        if not isinstance(self.table, PairJudgements):
            both = pl.concat(scored)
            return both, both
        alone = _compared_verdicts(self.table, self.options)
        together = _whole(alone, pl.col("lean"))
        counted = alone if self.orders == "each" else together
        votes = [_votes(_whole(alone, pl.col("lean").sign()), "reviewer")]
        verdicts = [_votes(counted.with_columns(SIGN), "reviewer")]
        if self.panel:
            by = ("order", *PAIR) if self.orders == "each" else PAIR
            votes.append(_votes(_panel_verdicts(together, self.panel, PAIR), "panel"))
            verdicts.append(_votes(_panel_verdicts(counted, self.panel, by), "panel"))
        return pl.concat([*votes, *scored]), pl.concat([*verdicts, *scored])

    def report(self) -> BiasReport:
        """The report."""
        options, reviewed, evaluation, labels = self.options, self.reviewed, self.evaluation, self.said.labels
        outcomes = {} if evaluation is None else evaluation.outcomes
        counted = (
            {} if labels is None else {"pairs": labels.n_pairs, "decided": labels.n_decided, "tied": labels.n_ties}
        )
        parts = [
            self._position(),
            *map(self._feature, text_features(self.study, self.agents)),
            self._self_preference(),
            self._family_preference(),
            *self._favours(),
        ]
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
            labels=counted,
            coverage=tuple(self._coverage()),
            rows=tuple(row for rows, _ in parts for row in rows),
            unavailable=tuple(one for _, lacking in parts for one in lacking),
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

    def _share(self, value: FloatArray, task: IntArray, lowest: float = 0.0) -> Estimate:
        """The mean of the values that are not NaN, with an interval by tasks."""
        used = ~np.isnan(value)
        (share,) = task_shares(value[None, used], task[used], lowest=lowest, **self.draws)
        if share.low is not None and share.low == share.high:
            return replace(share, low=None, high=None, method=None, note=share.note or NO_SPREAD)
        return share

    def _rows(
        self, bias: Bias, measure: str, items: pl.DataFrame, *, neutral: float | None, lowest: float = 0.0, **said: Any
    ) -> list[BiasRow]:
        """The mean of each judge's values. ``items``: judge, kind, task, vote (0.5 is a tie) and value."""
        rows = []
        for (judge, kind), own in items.group_by("judge", "kind", maintain_order=True):
            share = self._share(own["value"].cast(pl.Float64).to_numpy(), own["task"].to_numpy(), lowest)
            ties = int((own["vote"] == NEITHER).sum())
            rows.append(row_of(share, bias, measure, (judge, kind), neutral=neutral, asked=len(own), ties=ties, **said))
        return rows

    def _with_people(self, items: pl.DataFrame) -> pl.DataFrame:
        """The items on pairs that have a label, and what people said."""
        assert self.people is not None
        return items.join(self.people, on=PAIR, maintain_order="left")

    # --- which was shown first

    def _position(self) -> Found:
        table = self.table
        if table is None:
            return [], [Unavailable("position", str(self.reviewed.reason))]
        if isinstance(table, ResponseRatings):
            return [], [Unavailable("position", "ratings are of one response at a time, so there is no order")]
        heard = [name for name in table.reviewers if table.of([name]).asked.all(axis=2).any()]
        silent = tuple(name for name in table.reviewers if name not in heard)
        once = "judgements are in one order only. Ask for both orders of every pair"
        unavailable = [Unavailable("position", once, silent)] if silent else []
        if not heard:
            return [], unavailable
        flips, first = [], []
        for name, same in consistency(table.of(heard), convention=self.options.convention, **self.draws).items():
            own = table.of([name])
            (value,), (asked,), judge = own.value, own.asked, (name, "reviewer")
            present = ~np.isnan(value).any(axis=1)
            ties = int(np.sum((value == NEITHER).any(axis=1) & present))
            changed, high, low = (None if one is None else 1 - one for one in (same.value, same.low, same.high))
            share = Estimate(changed, low, high, same.n, same.level, same.note, same.method, same.n_tasks)
            swapped: dict[str, Any] = {"neutral": None, "asked": same.asked, "ties": ties}
            flips.append(row_of(share, "position", "flips when the order is swapped", judge, **swapped))
            both = asked.all(axis=1)[:, None]
            for_first = np.sign(np.stack([value[:, 0] - NEITHER, NEITHER - value[:, 1]], axis=1))
            tied = both & present[:, None] & (for_first == 0)
            decided = np.where(both & present[:, None] & ~tied, (for_first + 1) / 2, np.nan)
            share, n = self._share(decided.ravel(), np.repeat(own.task, 2)), int(tied.sum())
            counted: dict[str, Any] = {"neutral": NEITHER, "asked": int((both & ~tied).sum()), "ties": n}
            note = f"ties left out: {n}" if n else None
            first.append(row_of(share, "position", "decided for the one shown first", judge, note=note, **counted))
        return [*flips, *first], unavailable

    # --- which has more of a feature

    def _feature(self, feature: Feature) -> Found:
        """Every judge's preference for the feature."""
        long = pl.DataFrame(
            {"task": np.repeat(np.arange(len(feature.values)), len(self.agents)), "x": feature.values.ravel()}
        ).with_columns(agent=pl.int_range(pl.len()) % len(self.agents))
        long = long.filter(pl.col("x").is_not_nan())
        pairs = long.join(long, on="task", suffix="_high").filter(
            pl.col("agent") < pl.col("agent_high"), pl.col("x") != pl.col("x_high")
        )
        pairs = pairs.select("task", low="agent", high="agent_high", turned=pl.col("x") < pl.col("x_high"))
        if not len(pairs):
            return [], [Unavailable(feature.bias, f"no two responses to a task differ in {feature.scale}")]
        items = self.votes.join(pairs, on=PAIR, maintain_order="left").with_columns(value=_toward("vote"))
        rows: list[BiasRow] = []
        unavailable: list[Unavailable] = []
        wins = f"{feature.more} wins"
        if self.people is None:
            reason = "no labels, so only the raw rate is shown; better responses may have more of it"
            unavailable.append(Unavailable(feature.bias, reason))
        else:
            labelled = self._with_people(items).with_columns(said=_toward("said"))
            tied = labelled.filter(pl.col("said") == NEITHER)
            rows += self._rows(feature.bias, f"{wins}, tied by people", tied, neutral=NEITHER)
            if not rows:
                reason = f"no judged pair with different {feature.scale} is tied by people"
                unavailable.append(Unavailable(feature.bias, reason))
            for judge, own in labelled.filter(pl.col("said") != NEITHER).group_by("judge", "kind", maintain_order=True):
                share = mean_of_shares([own.filter(pl.col("said") == side) for side in (1, 0)], draws=self.draws)
                how: dict[str, Any] = {"asked": len(own), "ties": int((own["vote"] == NEITHER).sum())}
                rows.append(row_of(share, feature.bias, f"{wins}, adjusted", judge, neutral=NEITHER, **how))
        rows += [self._correlated(judge, feature) for judge in self.scored]
        if self.people is not None:
            people = self.people.join(pairs, on=PAIR, maintain_order="left").rename({"said": "vote"})
            people = people.with_columns(value=_toward("vote"), judge=pl.lit("people"), kind=pl.lit("people"))
            items = pl.concat([items, people.select(items.columns)])
        return [*rows, *self._rows(feature.bias, f"{wins}, all pairs", items, neutral=None)], unavailable

    def _correlated(self, judge: Judge, feature: Feature) -> BiasRow:
        """The correlation of a scoring judge: at equal rating if there are ratings, else within tasks."""
        ratings = None if self.said.ratings is None else self.said.ratings.value
        given, neutral = ("within tasks", None) if ratings is None else ("at equal rating", 0.0)
        share, asked = within_correlation(judge.response_scores.score, feature.values, ratings, draws=self.draws)
        measure = f"correlation with {feature.scale}, {given}"
        return row_of(share, feature.bias, measure, (judge.name, judge.kind), neutral=neutral, asked=asked)

    # --- one's own, and one's own kind

    def _self_preference(self) -> Found:
        """The preference gap of every two reviewers that are also agents, and their mean."""
        bias: Bias = "self-preference"
        if self.table is None:
            return [], [Unavailable(bias, str(self.reviewed.reason))]
        own = [name for name in self.table.reviewers if name in self.agents]
        others = tuple(name for name in self.table.reviewers if name not in self.agents)
        unavailable = [Unavailable(bias, "no agent with the same name", others)] if others else []
        found = {pair: gap for pair in itertools.combinations(own, 2) if len(gap := self._gap(*pair))}
        silent = tuple(", ".join(pair) for pair in itertools.combinations(own, 2) if pair not in found)
        if silent:
            unavailable.append(Unavailable(bias, "no pair that both reviewers judged", silent))
        if not found:
            needed = "a preference gap needs two reviewers that are also agents"
            return [], [*unavailable, *([] if silent else [Unavailable(bias, needed)])]
        rows = []
        for pair, gap in found.items():
            share = self._share(gap["value"].to_numpy(), gap["task"].to_numpy(), lowest=-1.0)
            how: dict[str, Any] = {"neutral": 0.0, "asked": len(gap), "pair": pair}
            rows.append(row_of(share, bias, "preference gap", (", ".join(pair), "reviewers"), **how))
        if len(found) > 1:
            known = [gap for gap, row in zip(found.values(), rows, strict=True) if row.value is not None]
            note = f"{sum((row.value or 0.0) > 0 for row in rows)} of {len(known)} gaps above 0"
            if len(known) < len(rows):
                note += f"; {len(rows) - len(known)} not defined"
            share = mean_of_shares(known, draws=self.draws, lowest=-1.0)
            how = {"neutral": 0.0, "asked": sum(row.asked for row in rows), "note": note}
            rows.append(row_of(share, bias, "preference gap", ("mean of all", "reviewers"), **how))
        return rows, unavailable

    def _gap(self, first: str, second: str) -> pl.DataFrame:
        """How much more than the second the first prefers its own response to the second's, by task."""
        numbers = self.agents.index(first), self.agents.index(second)
        on = (pl.col("low") == min(numbers)) & (pl.col("high") == max(numbers)) & (pl.col("kind") == "reviewer")
        one, other = (self.votes.filter(on, pl.col("judge") == name) for name in (first, second))
        gap = (pl.col("vote") - pl.col("vote_other")) * (1 if numbers[0] < numbers[1] else -1)
        return one.join(other, on=PAIR, suffix="_other", maintain_order="left").select("task", value=gap)

    def _family_preference(self) -> Found:
        """How each reviewer judges its own family's responses, compared with other reviewers and people."""
        bias: Bias = "family preference"
        if self.table is None:
            return [], [Unavailable(bias, str(self.reviewed.reason))]
        given = self.options.families
        of_agents = {one.agent: given.get(one.agent) or one.family or one.agent for one in self.study.agents}
        of_reviewers = {name: reviewer_family(name, None, given, of_agents) for name in self.table.reviewers}
        by_number = dict(enumerate(of_agents.values()))
        votes = self.votes.filter(pl.col("kind") == "reviewer").with_columns(
            family=pl.col("judge").replace_strict(of_reviewers),
            low_family=pl.col("low").replace_strict(by_number),
            high_family=pl.col("high").replace_strict(by_number),
        )
        of_low, of_high = pl.col("low_family") == pl.col("family"), pl.col("high_family") == pl.col("family")
        others = votes.filter(~of_low, ~of_high).drop_nulls("vote").group_by(PAIR).agg(said=pl.col("vote").mean())
        mine = votes.filter(of_low != of_high).with_columns(turned=of_high)
        mine = mine.with_columns(value=_toward("vote"))
        rows: list[BiasRow] = []
        alone = []
        for (name,), own in mine.group_by("judge", maintain_order=True):
            said: dict[str, Any] = {"about": of_reviewers[str(name)]}
            rows += self._rows(bias, "own family wins", own, neutral=None, **said)
            compared = {"other reviewers": own.join(others, on=PAIR, maintain_order="left")}
            if self.people is not None:
                compared["people"] = self._with_people(own)
            if not len(compared["other reviewers"]):
                alone.append(str(name))
            for whose, beside in compared.items():
                less = beside.with_columns(value=pl.col("value") - _toward("said"), vote=pl.lit(None, pl.Float64))
                rows += self._rows(bias, f"own family wins, less {whose}", less, neutral=0.0, lowest=-1.0, **said)
        lacking = [name for name in self.table.reviewers if name not in set(mine["judge"])]
        reasons = {
            "no judged pair of an agent of its family and another. Set families in the agents table or with "
            "--family": lacking,
            "no reviewer outside both families judged the same pairs": alone,
        }
        unavailable = [Unavailable(bias, reason, tuple(names)) for reason, names in reasons.items() if names]
        if self.people is None and rows:
            unavailable.append(Unavailable(bias, "no labels, so there is no comparison with people"))
        return rows, unavailable

    # --- a named agent

    def _favours(self) -> Iterator[Found]:
        """Rate and accuracy of every judge for the first agent of each given pair, compared with the second."""
        bias: Bias = "favour rate"
        if not self.favours or self.people is None:
            none = "no two agents were given (--favours FIRST:SECOND)" if not self.favours else "no labels"
            yield [], [Unavailable(bias, none)]
            return
        for first, second in self.favours:
            about = f"{first} over {second}"
            numbers = self.agents.index(first), self.agents.index(second)
            on = (pl.col("low") == min(numbers)) & (pl.col("high") == max(numbers))
            turned = pl.lit(numbers[0] > numbers[1]).alias("turned")
            human = self.people.filter(on).with_columns(turned).with_columns(said=_toward("said"))
            if not len(human.filter(pl.col("said") <= NEITHER)):
                reason = f"{about}: people always prefer {first}, or there are no labels"
                yield [], [Unavailable(bias, reason)]
                continue
            items = self.verdicts.join(human, on=PAIR, maintain_order="left").with_columns(vote=_toward("vote"))
            unfavoured = items.filter(pl.col("said") <= NEITHER)
            heard = set(unfavoured["judge"])
            decided = items.filter(pl.col("said") != NEITHER, pl.col("judge").is_in(list(heard)))
            favours = (pl.col("vote") > NEITHER).cast(pl.Float64)
            earned = (1 + (pl.col("vote") - NEITHER).sign() * (pl.col("said") - NEITHER).sign()) / 2
            rows = [
                *self._rows(bias, RATE, unfavoured.with_columns(value=favours), neutral=None, about=about),
                *self._rows(bias, ACCURACY, decided.with_columns(value=earned), neutral=None, about=about),
            ]
            silent = tuple(name for name in dict.fromkeys(self.verdicts["judge"]) if name not in heard)
            reason = f"{about}: not judged where people see a tie or prefer {second}"
            yield rows, [Unavailable(bias, reason, silent)] if silent else []


RATE = "favours the first though people do not"
ACCURACY = "accuracy on pairs people decided"


# --- from values to rows -------------------------------------------------------------------------------------------


def row_of(
    share: Estimate,
    bias: Bias,
    measure: str,
    judge: tuple[Any, ...],
    *,
    neutral: float | None,
    asked: int,
    note: str | None = None,
    **said: Any,
) -> BiasRow:
    """A share as a row; ``judge``: its name and kind."""
    return BiasRow(
        bias=bias,
        judge=judge[0],
        kind=judge[1],
        measure=measure,
        value=share.value,
        low=share.low,
        high=share.high,
        neutral=neutral,
        asked=asked,
        used=share.n,
        n_tasks=share.n_tasks,
        level=share.level,
        method=share.method,
        note="; ".join(one for one in (share.note, note) if one) or None,
        **said,
    )


def mean_of_shares(shares: Sequence[pl.DataFrame], *, draws: Draws, lowest: float = 0.0) -> Estimate:
    """The mean of shares, each the mean of its own values by task, null left out, with an interval by tasks.

    All have equal weight, however many values each has. A share's task values are share + (S_t - share N_t) T / Σ N, as
    in ``task_shares``: the same mean, and the same spread to first order. Their mean is taken task by task, so that all
    are resampled together.
    """
    used = [one.drop_nulls("value") for one in shares]
    n, level = sum(map(len, used)), draws["level"]
    if not used or not all(map(len, used)):
        return Estimate(None, None, None, n, level, "one side has no judgement")
    places = np.unique(np.concatenate([one["task"].to_numpy() for one in used]))
    linear = np.zeros(len(places))
    for one in used:
        task = np.searchsorted(places, one["task"].to_numpy())
        count = np.bincount(task, minlength=len(places))
        sums = np.bincount(task, weights=one["value"].to_numpy(), minlength=len(places))
        share = float(sums.sum() / count.sum())
        linear += (share + (sums - share * count) * len(places) / count.sum()) / len(shares)
    (found,) = task_intervals(linear[:, None], **draws)
    if found.low is None or found.high is None or found.low == found.high:
        return Estimate(found.value, None, None, n, level, found.note or NO_SPREAD, n_tasks=len(places))
    return replace(found, low=max(lowest, found.low), high=min(1.0, found.high), n=n, n_tasks=len(places))
