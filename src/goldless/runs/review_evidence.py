"""The plan of a review, and its evidence: judgements and exam answers, recorded in a study or given by reviewers.

People: their labels, which of them an exam is made of, and which the panel is held against.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import polars as pl

from goldless.errors import MetricError, UserError, nearest
from goldless.evidence import EXAMS, JUDGEMENTS, empty
from goldless.judging.exams import one_order, pair_of
from goldless.judging.scales import Scale, find_scale
from goldless.metrics import judgement_table as judged
from goldless.metrics.exam_traits import ConfidenceItem, confidence_levels
from goldless.metrics.judgement_table import Convention, PairJudgements, ResponseRatings
from goldless.metrics.metric import Pairing
from goldless.metrics.pair_labels import PairLabels, RatingTable, check_margin, pair_labels, rating_table, usual_margin
from goldless.models.interface import content_hash
from goldless.runs.options import Options, check_review_options
from goldless.runs.recorded import RecordedTable, find_table
from goldless.runs.rounds import asked_until
from goldless.statistics.answering import Until
from goldless.statistics.bootstrap import Draws
from goldless.studies import Study

PAIRWISE = "pairwise"


@dataclass(frozen=True, slots=True)
class ReviewPlan:
    """What reviewers are asked of a study, decided before any model is opened."""

    study: Study
    options: Options
    people: People
    until: Until | None
    """The question that decides how many tasks are asked; None: all are."""

    @property
    def draws(self) -> Draws:
        return {"seed": self.options.seed, "resamples": self.options.resamples, "level": self.options.level}

    @property
    def names(self) -> dict[str, Sequence[str]]:
        return {"tasks": self.study.tasks, "agents": [agent.agent for agent in self.study.agents]}

    def limited(self, pairing: Pairing) -> ReviewPlan:
        """The part of this plan that judges these responses."""
        return replace(self, options=replace(self.options, pairing=pairing))


def plan_review(study: Study, options: Options) -> ReviewPlan:
    """Plan a review. Raises if the options exclude each other, or an exam needs labels that are not there."""
    check_review_options(options)
    until = asked_until(options, [agent.agent for agent in study.agents])
    return ReviewPlan(study, options, what_people_said(study, options), until)


@dataclass(frozen=True, slots=True)
class ReviewEvidence:
    """The evidence of a review, in the columns of ``evidence.JUDGEMENTS``."""

    reviewers: tuple[str, ...]
    judgements: pl.DataFrame
    """On the scale of the review."""
    comparisons: pl.DataFrame
    """Pairwise, for the consistency exam; the judgements themselves if their scale is pairwise."""
    pertinence: pl.DataFrame = field(default_factory=lambda: empty(JUDGEMENTS))
    """Comparisons of "relevant" and "irrelevant" answers."""
    confidence: Mapping[str, ConfidenceAnswers] = field(default_factory=dict)
    """By reviewer."""
    answers: pl.DataFrame = field(default_factory=lambda: empty(EXAMS))
    """Exam answers as received."""
    notes: tuple[str, ...] = ()
    """Recorded exam answers that could not be used."""

    def heard(self, rows: pl.DataFrame) -> list[str]:
        """The reviewers that gave any of these answers."""
        said = set(rows["reviewer"].unique().to_list())
        return [name for name in self.reviewers if name in said]

    def table(self, plan: ReviewPlan) -> PairJudgements | ResponseRatings | None:
        """The judgements on the scale of the review; None if there are none."""
        heard = self.heard(self.judgements)
        make = judged.pair_judgements if plan.options.chosen_scale.pairwise else judged.response_ratings
        return make(self.judgements, reviewers=heard, **plan.names) if heard else None


@dataclass(frozen=True, slots=True)
class ConfidenceAnswers:
    """How confident a reviewer was on easy and on hard pairs."""

    easy: tuple[ConfidenceItem, ...]
    hard: tuple[ConfidenceItem, ...]
    by_labels: bool
    """Whether higher is more confident: levels from 1 to 5; else uncertainties in nats."""


def paired_judgements(judgements: pl.DataFrame, pairing: Pairing | None) -> pl.DataFrame:
    """The judgements of responses that are scored: ratings of them, or comparisons with their peers."""
    if pairing is None:
        return judgements
    rated = [(task, agent, None) for task, agent in pairing]
    compared = [
        (task, *both)
        for (task, agent), peers in pairing.items()
        for peer in peers
        for both in ((agent, peer), (peer, agent))
    ]
    names = ("task", "one", "other")
    wanted = pl.DataFrame([*rated, *compared], schema=dict.fromkeys(names, pl.String), orient="row")
    keys = [
        pl.col("task").cast(pl.String),
        pl.coalesce("agent", "first").cast(pl.String),
        pl.col("second").cast(pl.String),
    ]
    return judgements.join(wanted, left_on=keys, right_on=names, how="semi", nulls_equal=True, maintain_order="left")


# --- recorded ------------------------------------------------------------------------------------------------------


def recorded_panel(plan: ReviewPlan) -> ReviewEvidence:
    """The recorded evidence of a review: of strangers to the agents, in the orders in which pairs are to be asked."""
    study, options = plan.study, plan.options
    names = [str(name) for name in options.reviewers]
    found = recorded_review(
        study,
        scale=options.chosen_scale,
        reviewers=names,
        convention=options.convention,
        with_exams=bool(options.traits),
    )
    if not options.judges_own_family:
        families = {agent.agent: agent.family or agent.agent for agent in study.agents}
        strange = partial(without_own_family, families=options.families, agents=families)
        found = replace(found, judgements=strange(found.judgements), comparisons=strange(found.comparisons))
    if options.orders == "both":
        return found
    return replace(found, judgements=_in_one_order(found.judgements, options.seed))


def _in_one_order(rows: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The judgements as if each pair had been asked about once; a pair recorded in one order only stays as it is."""
    columns = ["reviewer", "task", "first", "second"]
    turned = rows.select("reviewer", "task", first="second", second="first")
    twice = rows.join(turned, on=columns, how="semi")
    drawn = []
    for (name,), own in twice.group_by("reviewer", maintain_order=True):
        pairs = {pair_of(*row) for row in own.select("task", "first", "second").iter_rows()}
        questions = one_order(sorted(pairs), seed=seed, reviewer=str(name))
        drawn += [(str(name), question.task, question.first, question.second) for question in questions]
    kept = pl.DataFrame(drawn, schema={name: rows.schema[name] for name in columns}, orient="row")
    once = rows.join(turned, on=columns, how="anti")
    return pl.concat([rows.join(kept, on=columns, how="semi"), once])


def recorded_review(
    study: Study, *, scale: Scale, reviewers: Sequence[str], convention: Convention, with_exams: bool = False
) -> ReviewEvidence:
    """The recorded judgements of a study and, if requested, its exam answers."""
    table = find_table(study, "judgements")
    if table is None:
        raise MetricError(
            f"{study.name} has no recorded judgements (table judgements). Drop --recorded to call reviewers"
        )
    table.require(("reviewer", "format", "task", "output"))
    with study.reading("judgements"):
        named = table.rows.select("format", "reviewer").unique(maintain_order=True).collect()
    if named["format"].null_count():
        raise MetricError(f"{table.label} has rows without a format")
    formats = sorted(named["format"].unique().to_list())
    if scale.name not in formats:
        raise MetricError(f"{study.name} has no judgements on the scale {scale.name}. It has: {', '.join(formats)}")
    known = named.filter(pl.col("format") == scale.name)["reviewer"].to_list()
    for name in reviewers:
        if name not in known:
            raise UserError(
                f"{study.name} has no judgements of {name!r} on the scale {scale.name}"
                f"{nearest(name, known) or '.'} Reviewers: {', '.join(known)}"
            )
    names = tuple(reviewers or known)
    judgements = _judgements(table, scale, names, convention)
    comparisons = judgements
    if not scale.pairwise:
        pairwise = PAIRWISE in formats
        comparisons = _judgements(table, find_scale(PAIRWISE), names, convention) if pairwise else empty(JUDGEMENTS)
    found = ReviewEvidence(reviewers=names, judgements=judgements, comparisons=comparisons)
    exams = find_table(study, "exams") if with_exams else None
    if exams is None:
        return found
    rows = _exam_rows(exams, names)
    answers = rows.to_dicts()
    confidence, notes = _readable(confidence_of(answers), answers)
    return replace(found, pertinence=_pertinence(rows, convention), confidence=confidence, notes=notes)


EXAM_COLUMNS = (*EXAMS, "item", "label", "probability")
"""Columns of a recorded table of exams."""


def _exam_rows(table: RecordedTable, reviewers: Sequence[str]) -> pl.DataFrame:
    """The exam answers of these reviewers. Raises at a column, exam, difficulty or probability that is not known."""
    path = table.study.recorded_file(table.name)
    where = table.label if path is None else f"{table.study.name}: {path.name}"
    there = table.rows.collect_schema().names()
    for column in there:
        if column not in EXAM_COLUMNS:
            raise MetricError(
                f"{where}: unknown column {column!r}{nearest(column, EXAM_COLUMNS) or '.'} "
                f"Columns of exams: {', '.join(EXAM_COLUMNS)}"
            )
    table.require(("reviewer", "exam"))
    table.check_numbers(("probability",), "{reviewer}, {exam}")
    with table.study.reading(table.name):
        rows = table.rows.filter(pl.col("reviewer").is_in(list(reviewers))).collect()
    if "probability" in there:
        rows = rows.with_columns(pl.col("probability").cast(pl.Float64).fill_nan(None))
    confidence = pl.col("exam").str.starts_with(CONFIDENCE)
    others = pl.col("exam").is_in(["pertinence", "consistency", "human"])
    difficulty = pl.col("difficulty") if "difficulty" in there else pl.lit(None, pl.String)
    probability = pl.col("probability") if "probability" in there else pl.lit(None, pl.Float64)
    wrong = {
        ("exam", "pertinence, consistency, human or self-confidence"): ~(confidence | others).fill_null(value=False),
        ("difficulty", "easy or hard in rows of self-confidence"): confidence
        & ~difficulty.is_in(["easy", "hard"]).fill_null(value=False),
        ("probability", "above 0 and at most 1"): (probability <= 0) | (probability > 1),
    }
    for (column, allowed), is_wrong in wrong.items():
        for row in rows.filter(is_wrong).head(1).iter_rows(named=True):
            raise MetricError(f"{where}, {row['reviewer']}: {column} must be {allowed}, got {row.get(column)!r}")
    return rows


def _readable(
    found: Mapping[str, ConfidenceAnswers], rows: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, ConfidenceAnswers], tuple[str, ...]]:
    """The answers without those of reviewers that cannot be read, unless calls failed; and notes on them."""
    kept, notes = {}, []
    for name, answers in found.items():
        own = [row for row in rows if row["reviewer"] == name and str(row["exam"]).startswith(CONFIDENCE)]
        both = all(any(value is not None for _, value in one) for one in (answers.easy, answers.hard))
        if not both and all(row.get("failure") is None for row in own):
            notes.append(f"the {len(own)} self-confidence rows of {name} lack a readable easy or hard answer")
            continue
        kept[name] = answers
    return kept, tuple(notes)


def _judgements(table: RecordedTable, scale: Scale, reviewers: Sequence[str], convention: Convention) -> pl.DataFrame:
    """The reviewers' judgements on a scale, parsed from the output if no value is recorded."""
    rows = table.columns(JUDGEMENTS).filter(
        (pl.col("format") == scale.name) & pl.col("reviewer").is_in(list(reviewers))
    )
    agents = ("first", "second") if scale.pairwise else ("agent",)
    unused = [pl.lit(None, pl.String).alias(name) for name in {"first", "second", "agent"} - set(agents)]
    found = table.read(rows.with_columns(unused), {"task": "task", **dict.fromkeys(agents, "agent")})
    unnamed = found.filter(pl.any_horizontal(pl.col(agents).is_null())).head(1)
    if len(unnamed):
        row = unnamed.row(0, named=True)
        raise MetricError(f"the table judgements has a row of {row['reviewer']} on {row['task']} without an agent")
    return _read(found, scale, convention)


def _read(rows: pl.DataFrame, scale: Scale, convention: Convention) -> pl.DataFrame:
    """The rows with values on the scale, as recorded or parsed from the output; failed ones have none."""
    recorded = pl.col("value").cast(pl.Float64, strict=False)
    rows = rows.with_columns(value=pl.when(recorded.is_between(scale.lowest, scale.highest)).then(recorded))
    unread = rows.filter(pl.col("value").is_null() & pl.col("output").is_not_null())["output"].unique()
    papers = judged.read_pairwise if scale.pairwise else judged.read_rating
    read = scale.read if convention == "default" else papers
    said = pl.DataFrame(
        {"output": unread, "read": [read(output) for output in unread]},
        schema={"output": pl.String, "read": pl.Float64},
    )
    rows = rows.join(said, on="output", how="left", maintain_order="left")
    failed = pl.col("failure").is_not_null()
    rows = rows.with_columns(value=pl.when(~failed).then(pl.coalesce("value", "read"))).drop("read")
    lost = pl.when(pl.col("value").is_null() & ~failed)
    return rows.with_columns(
        failure=lost.then(pl.lit("unparsable")).otherwise("failure"),
        failure_message=lost.then(pl.lit("the recorded output has no verdict on the scale"))
        .when(failed)
        .then(pl.lit("recorded as failed"))
        .otherwise("failure_message"),
    )


def _pertinence(exams: pl.DataFrame, convention: Convention) -> pl.DataFrame:
    """The answers of the pertinence exam as judgements."""
    answers = exams.filter(pl.col("exam") == "pertinence")
    if len(answers) and not {"task", "first", "second", "output"} <= set(answers.columns):
        raise MetricError("the table exams has pertinence answers without task, first, second and output")
    rows = [{name: answer.get(name) for name in JUDGEMENTS} | {"format": PAIRWISE} for answer in answers.to_dicts()]
    return _read(pl.DataFrame(rows, schema=JUDGEMENTS, strict=False), find_scale(PAIRWISE), convention)


# --- how sure a reviewer was -----------------------------------------------------------------------------------------


CONFIDENCE = "self-confidence"


def confidence_of(answers: Sequence[Mapping[str, Any]]) -> dict[str, ConfidenceAnswers]:
    """How confident each reviewer was: by the probability of its label if any has one, else by the level it named."""
    asked = [row for row in answers if str(row["exam"]).startswith(CONFIDENCE)]
    found = {}
    for name in dict.fromkeys(row["reviewer"] for row in asked):
        own = [row for row in asked if row["reviewer"] == name]
        by_labels = all(_uncertainty(row) is None for row in own)
        sureness = _level if by_labels else _uncertainty
        easy, hard = (
            tuple((_item(row), sureness(row)) for row in own if row["difficulty"] == difficulty)
            for difficulty in ("easy", "hard")
        )
        found[name] = ConfidenceAnswers(easy, hard, by_labels=by_labels)
    return found


def _item(row: Mapping[str, Any]) -> str:
    return str(row.get("item") if row.get("item") is not None else row.get("task"))


def _uncertainty(row: Mapping[str, Any]) -> float | None:
    """-log p of the chosen label, in nats; None: unknown."""
    if row.get("probability") is not None:
        return -math.log(row["probability"])
    told = row.get("label_logprobs") or []  # a table of 0.1.0 has them by label
    values = told.values() if isinstance(told, Mapping) else [one["logprob_nats"] for one in told]
    known = [value for value in values if value is not None]
    return -max(known) if known else None


def _level(row: Mapping[str, Any]) -> float | None:
    """A level from 1 to 5; None: unknown."""
    for told in (row.get("label"), row.get("value")):
        if isinstance(told, int | float) and told - told == 0:  # neither NaN nor infinite
            return float(told)
        if isinstance(told, str):
            return confidence_levels([("", told)])[0][1]
    return None


# --- families --------------------------------------------------------------------------------------------------------


def reviewer_family(name: str, model: str | None, families: Mapping[str, str], agents: Mapping[str, str]) -> str:
    """A reviewer's family: as given; else that of the agent with its name or its model's name; else its own name.

    ``agents``: the family of each agent, its own name where it has none.
    """
    for known in (name, model or name):
        if known in families:
            return families[known]
    return next((agents[known] for known in (name, model or name) if known in agents), name)


def without_own_family(
    judgements: pl.DataFrame, families: Mapping[str, str], agents: Mapping[str, str]
) -> pl.DataFrame:
    """The judgements without those on agents of the reviewer's own family."""
    reviewers = judgements["reviewer"].unique().to_list()
    own = {name: reviewer_family(name, None, families, agents) for name in reviewers}
    family = pl.col("reviewer").replace_strict(own, return_dtype=pl.String) if own else pl.lit("")
    shown = [
        pl.col(name).cast(pl.String).replace(dict(agents)).eq_missing(family) for name in ("first", "second", "agent")
    ]
    return judgements.filter(~pl.any_horizontal(shown))


QUESTIONERS = 3
"""Number of agents in the human exam if none are named."""


@dataclass(frozen=True, slots=True)
class People:
    """Human labels, if any."""

    labels: PairLabels | None
    """All pairs that have a label."""
    tested: PairLabels | None
    """Decided pairs that the panel is compared with."""
    ratings: RatingTable | None
    questioners: tuple[str, ...]
    """Agents whose responses are used in the human exam."""


def what_people_said(study: Study, options: Options) -> People:
    """The labels of a study, if any. Raises if an exam needs labels that are not there."""
    check_margin(options.margin)
    agents = [agent.agent for agent in study.agents]
    if not study.n_ratings and not study.n_preferences:
        if "human exam" in options.traits:
            raise MetricError(f"{study.name} has no labels, which the human exam needs. Use the exam auto")
        return People(None, None, None, ())
    tasks, criterion, preferences = study.tasks, _criterion(study, options), list(study.preferences())
    margin = options.margin
    if margin is None:
        margin = usual_margin(preferences, criterion=criterion, convention=options.convention)
    labels = pair_labels(
        study.ratings(), preferences, tasks=tasks, agents=agents, criterion=criterion, least_margin=margin
    )
    ratings = None
    if study.n_ratings:
        ratings = rating_table(study.ratings(), tasks=tasks, agents=agents, criterion=criterion)
    tested = labels.decided()
    questioners: tuple[str, ...] = ()
    if "human exam" in options.traits:
        questioners = _questioners(labels, options)
        tested = tested if options.overlapping else tested.outside(questioners)
        if not tested.n_pairs:
            raise MetricError(
                "the human exam uses all pairs with a human preference, so none is left to test on. Name fewer "
                "questioners, or test on the same pairs with --overlap"
            )
    return People(labels, tested, ratings, questioners)


def _criterion(study: Study, options: Options) -> str | None:
    known = sorted({label.criterion for label in study.labels() if label.criterion is not None})
    if options.criterion is not None and options.criterion not in known:
        raise UserError(f"no label has the criterion {options.criterion!r}{nearest(options.criterion, known)}")
    if options.criterion is None and len(known) > 1:
        raise UserError(f"labels have several criteria: {', '.join(known)}. Choose one with --criterion")
    return options.criterion


def _questioners(labels: PairLabels, options: Options) -> tuple[str, ...]:
    """The given agents, or a random choice of those with decided pairs."""
    if options.questioners is not None:
        return tuple(options.questioners)
    if options.convention != "default":
        raise UserError(
            f"the human exam with --convention {options.convention} needs --questioners: the agents whose responses it "
            "uses, which the papers name. Try --questioners A,B,C"
        )
    decided = labels.decided()
    agents = [decided.agents[i] for i in sorted({*decided.low.tolist(), *decided.high.tolist()})]
    if len(agents) < 2:
        raise MetricError("the labels decide no pair of responses, so there is no human exam")
    drawn = sorted(agents, key=lambda name: content_hash("questioners", options.seed, name))
    return tuple(drawn[: min(QUESTIONERS, max(2, len(agents) - 1))])
