"""The evidence of a review: judgements and exam answers, given by reviewers now or recorded in a study.

People: their labels, which of them an exam is made of, and which the panel is held against.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from goldless.arrays import FloatArray
from goldless.errors import MetricError, UserError, check_known
from goldless.evidence import EXAMS, FAILURE, JUDGEMENTS, empty, of_verb
from goldless.judging import exams as exam_items
from goldless.judging.asking import ReviewQuestion, ReviewStage, reads_by_scoring
from goldless.judging.planted_pairs import KINDS
from goldless.judging.review_stages import find_review_stage
from goldless.judging.scales import Scale, find_scale
from goldless.metrics import judgement_table as judged
from goldless.metrics.judgement_table import Convention
from goldless.metrics.metric import Pairing, in_both_orders
from goldless.metrics.pair_labels import PairLabels, median_ratings, pair_labels, usual_margin
from goldless.models.interface import ChatReply, Use, content_hash
from goldless.records import CallFailure
from goldless.runs.opening import OpenModel, Part
from goldless.runs.options import Options
from goldless.runs.recorded import RecordedTable, find_table
from goldless.studies import Study

PAIRWISE = "pairwise"
CONFIDENCE: Literal["self-confidence"] = "self-confidence"
CHANGER = "question changer"
QUESTIONERS = 3
"""Number of agents in the human exam if none are named."""
EXAM_COLUMNS = (*EXAMS, "item", "label", "probability")
"""Columns of a recorded table of exams."""


@dataclass(frozen=True, slots=True)
class ReviewEvidence:
    """The evidence of a review."""

    reviewers: tuple[str, ...] = ()
    judgements: pl.DataFrame = field(default_factory=lambda: empty(JUDGEMENTS))
    """On the scale of the review, in the columns of ``evidence.JUDGEMENTS``."""
    comparisons: pl.DataFrame = field(default_factory=lambda: empty(JUDGEMENTS))
    """Pairwise, for the consistency exam; the judgements themselves if their scale is pairwise."""
    exams: pl.DataFrame = field(default_factory=lambda: empty(EXAMS))
    """Exam answers, in some of ``EXAM_COLUMNS``."""


# --- asked of reviewers ----------------------------------------------------------------------------------------------


def named_reviewers(given: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """Reviewers by name: a mapping unchanged; ``NAME=SPEC``, or a model spec or object named after itself."""
    if isinstance(given, Mapping):
        return dict(given)
    found: dict[str, Any] = {}
    for one in given:
        match = re.match(r"([\w.\- ]+)=(.+)", one) if isinstance(one, str) else None
        name, spec = (match[1].strip(), match[2].strip()) if match else (one if isinstance(one, str) else "", one)
        name = name or one.identity.short
        if name in found:
            raise UserError(
                f"two reviewers have the name {name!r}. Give each its own name, such as first={spec} second={spec}"
            )
        found[name] = spec
    return found


def review_parts(options: Options) -> list[Part]:
    """The models of a review: its reviewers, and the model that changes questions for the pertinence exam."""
    named = named_reviewers(options.review.reviewers)
    for option, given in (("--family", options.review.families), ("--describe", options.review.descriptions)):
        check_known(given, named, f"{option}: unknown reviewer", "Reviewers")
    use: Use = "chat" if options.models.verdicts == "labels" else "both"
    parts = [Part(name, given, use) for name, given in named.items()]
    if options.exam.changer is not None and "pertinence" in options.exam.traits:
        parts.append(Part(CHANGER, options.exam.changer, "chat"))
    return parts


def reviewer_stage(options: Options, name: str, model: OpenModel, scale: Scale) -> ReviewStage:
    """The stage that puts a reviewer's questions on a scale. Refuses a model that cannot answer them."""
    described = options.review.descriptions.get(name, options.review.task_description)
    if options.review.debate is not None:
        stage = find_review_stage(options.review.debate)
        return stage(model.judge, scale, reviewer=name, task_description=described)
    if not (scale.labels and reads_by_scoring(model.model.capabilities, options.models.verdicts)):
        model.require_chat(f"review on the scale {scale.name}")
    verdicts = options.models.verdicts if scale.labels else "labels"
    return ReviewStage(model.judge, scale, reviewer=name, task_description=described, verdicts=verdicts)


def shown(study: Study) -> tuple[dict[tuple[str, str], str | CallFailure], dict[str, str | None]]:
    """The texts of all responses by task and agent, and the prompts by task."""
    texts: dict[tuple[str, str], str | CallFailure] = {(r.task, r.agent): r.text for _, rs in study for r in rs}
    return texts, {task.task: task.prompt for task, _ in study}


def answered(study: Study) -> dict[str, list[str]]:
    """The agents that answered each task."""
    return {task.task: [r.agent for r in responses] for task, responses in study if responses}


def review_questions(study: Study, options: Options, name: str, model: str | None) -> list[ReviewQuestion]:
    """The questions to a reviewer: about all responses or pairs, or those that the options pair, of strangers to it."""
    pairing, may = options.pairing, strangers(study, options, name, model)
    every = {task: [agent for agent in agents if agent in may] for task, agents in answered(study).items()}
    if not options.review.chosen_scale.pairwise:
        rated = [(task, agent) for task, agents in every.items() for agent in agents]
        return [ReviewQuestion(*one) for one in rated if pairing is None or one in pairing]
    pairs = exam_items.all_pairs({task: agents for task, agents in every.items() if agents})
    if options.review.orders == "both":
        asked = exam_items.both_orders(pairs)
    else:
        asked = exam_items.one_order(pairs, seed=options.statistics.seed, reviewer=name)
    if pairing is None:
        return asked
    sides = in_both_orders(pairing)
    return [question for question in asked if (question.task, question.first, question.second) in sides]


def exam_judgements(exams: pl.DataFrame, exam: str) -> pl.DataFrame:
    """The answers to an exam as judgements; the agent of a rated response has its own column."""
    alone, first = pl.col("second").is_null(), pl.col("first")
    rows = exams.filter(pl.col("exam") == exam)
    return rows.with_columns(pl.when(~alone).then(first), agent=pl.when(alone).then(first)).select(*JUDGEMENTS)


def paired_judgements(judgements: pl.DataFrame, pairing: Pairing) -> pl.DataFrame:
    """The judgements of responses that are scored: ratings of them, or comparisons with their peers."""
    wanted = [*((task, agent, None) for task, agent in pairing), *in_both_orders(pairing)]
    names = ("task", "one", "other")
    keys = [one.cast(pl.String) for one in (pl.col("task"), pl.coalesce("agent", "first"), pl.col("second"))]
    frame = pl.DataFrame(wanted, schema=dict.fromkeys(names, pl.String), orient="row")
    return judgements.join(frame, left_on=keys, right_on=names, how="semi", nulls_equal=True, maintain_order="left")


# --- recorded ------------------------------------------------------------------------------------------------------


def recorded_review(
    study: Study,
    *,
    scale: Scale,
    reviewers: Sequence[str],
    convention: Convention,
    with_exams: bool = False,
    verb: Literal["review", "score"] = "review",
) -> ReviewEvidence:
    """The recorded judgements of a study and, if requested, its exam answers.

    ``verb``: whose judgements are read where a run folder has those of several on one scale.
    """
    table = find_table(study, "judgements")
    if table is None:
        raise MetricError(
            f"{study.name} has no recorded judgements (table judgements). Drop --recorded to call reviewers"
        )
    table.require(("reviewer", "format", "task", "output"))
    table = replace(table, rows=of_verb(table.rows, verb))
    with table.reading():
        named = table.rows.select("format", "reviewer").unique(maintain_order=True).collect()
    if named["format"].null_count():
        raise MetricError(f"{table.label} has rows without a format")
    formats = sorted(named["format"].unique().to_list())
    if scale.name not in formats:
        raise MetricError(f"{study.name} has no judgements on the scale {scale.name}. It has: {', '.join(formats)}")
    known = named.filter(pl.col("format") == scale.name)["reviewer"].to_list()
    check_known(reviewers, known, f"on the scale {scale.name} {study.name} has no judgements of", "Reviewers")
    names = tuple(reviewers or known)
    judgements = _judgements(table, scale, names, convention)
    comparisons = judgements if scale.pairwise else _judgements(table, find_scale(PAIRWISE), names, convention)
    exams = find_table(study, "exams") if with_exams else None
    return ReviewEvidence(names, judgements, comparisons, empty(EXAMS) if exams is None else _exam_rows(exams, names))


def recorded_panel(study: Study, options: Options) -> ReviewEvidence:
    """The recorded evidence of a review: of strangers to the agents, in the orders in which pairs are to be asked."""
    found = recorded_review(
        study,
        scale=options.review.chosen_scale,
        reviewers=[str(name) for name in options.review.reviewers],
        convention=options.labels.convention,
        with_exams=bool(options.exam.traits),
    )
    judgements, comparisons = found.judgements, found.comparisons
    if not options.judges_own_family:
        judgements = without_own_family(judgements, study, options.review.families)
        comparisons = without_own_family(comparisons, study, options.review.families)
    if options.review.orders != "both":
        judgements = _in_one_order(judgements, options.statistics.seed)
    return ReviewEvidence(found.reviewers, judgements, comparisons, found.exams)


def _in_one_order(rows: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The judgements as if each pair had been asked about once; a pair recorded in one order only stays as it is."""
    columns = ["reviewer", "task", "first", "second"]
    turned = rows.select("reviewer", "task", first="second", second="first")
    drawn = []
    for (name,), own in rows.join(turned, on=columns, how="semi").group_by("reviewer", maintain_order=True):
        pairs = {exam_items.pair_of(*row) for row in own.select("task", "first", "second").iter_rows()}
        questions = exam_items.one_order(sorted(pairs), seed=seed, reviewer=str(name))
        drawn += [(str(name), question.task, question.first, question.second) for question in questions]
    kept = pl.DataFrame(drawn, schema={name: rows.schema[name] for name in columns}, orient="row")
    once = rows.join(turned, on=columns, how="anti")
    return pl.concat([rows.join(kept, on=columns, how="semi"), once])


def _judgements(table: RecordedTable, scale: Scale, reviewers: Sequence[str], convention: Convention) -> pl.DataFrame:
    """The reviewers' judgements on a scale, parsed from the output if no value is recorded."""
    mine = (pl.col("format") == scale.name) & pl.col("reviewer").is_in(list(reviewers))
    agents = ("first", "second") if scale.pairwise else ("agent",)
    unused = [pl.lit(None, pl.String).alias(name) for name in {"first", "second", "agent"} - set(agents)]
    rows = table.columns(JUDGEMENTS).filter(mine).with_columns(unused)
    found = table.read(rows, {"task": "task", **dict.fromkeys(agents, "agent")})
    alone = pl.any_horizontal(pl.col(agents).is_null())
    table.refuse(found, [(alone, "the row has no agent")], "{reviewer} on {task}")
    return read_judgements(found, scale, convention)


def read_judgements(rows: pl.DataFrame, scale: Scale, convention: Convention) -> pl.DataFrame:
    """The rows with values on the scale, as recorded or parsed from the output; failed ones have none."""
    papers = judged.read_pairwise if scale.pairwise else judged.read_rating
    read = scale.read_recorded if convention == "default" else lambda output, _: papers(output)
    recorded = pl.col("value").cast(pl.Float64, strict=False)
    rows = rows.with_columns(value=pl.when(recorded.is_between(scale.lowest, scale.highest)).then(recorded))
    failed = pl.col("failure").is_not_null()
    unread = rows.filter(pl.col("value").is_null() & pl.col("output").is_not_null()).select("output", "mark").unique()
    verdicts = [read(ChatReply(output).text, mark) for output, mark in unread.iter_rows()]
    read_from_outputs = unread.with_columns(verdict=pl.Series(verdicts, dtype=pl.Float64))
    rows = rows.join(read_from_outputs, on=["output", "mark"], how="left", nulls_equal=True, maintain_order="left")
    rows = rows.with_columns(value=pl.when(~failed).then(pl.coalesce("value", "verdict"))).drop("verdict")
    lost = pl.when(pl.col("value").is_null() & ~failed)
    return rows.with_columns(
        failure=lost.then(pl.lit("unparsable")).otherwise("failure"),
        failure_message=lost.then(pl.lit("the recorded output has no verdict on the scale"))
        .when(failed)
        .then(pl.lit("recorded as failed"))
        .otherwise("failure_message"),
    )


_SURE, _DIFFICULTY = pl.col("exam").str.starts_with(CONFIDENCE), pl.col("difficulty").cast(pl.String)
_EXAM_RULES = (
    (
        ~(_SURE | pl.col("exam").is_in(["planted", "pertinence", "consistency", "human"])).fill_null(value=False),
        "exam must be planted, pertinence, consistency, human or self-confidence, got {exam!r}",
    ),
    (
        _SURE & ~_DIFFICULTY.is_in(["easy", "hard"]).fill_null(value=False),
        "difficulty must be easy or hard in rows of self-confidence, got {difficulty!r}",
    ),
    (
        (pl.col("exam") == "planted") & ~_DIFFICULTY.is_in(list(KINDS)).fill_null(value=False),
        f"difficulty must be the kind of a planted pair ({', '.join(KINDS)}) in rows of planted, got {{difficulty!r}}",
    ),
    (
        ~pl.col("probability").is_between(0, 1, closed="right"),
        "probability must be above 0 and at most 1, got {probability!r}",
    ),
)


def _exam_rows(table: RecordedTable, reviewers: Sequence[str]) -> pl.DataFrame:
    """The exam answers of these reviewers. Raises at a column, exam, difficulty or probability that is not known."""
    there = table.rows.collect_schema().names()
    check_known(there, EXAM_COLUMNS, f"{table.label}: unknown column", "Columns of exams", MetricError)
    table.check_numbers(("probability",), "{reviewer}, {exam}")
    lacking = [pl.lit(None).alias(name) for name in EXAM_COLUMNS if name not in there]
    rows = table.rows.filter(pl.col("reviewer").is_in(list(reviewers))).with_columns(lacking)
    with table.reading():
        found = rows.with_columns(pl.col("probability").cast(pl.Float64).fill_nan(None)).collect()
    table.refuse(found, _EXAM_RULES, "{reviewer}")
    return found


def exam_comparisons(
    exams: pl.DataFrame, exam: Literal["pertinence", "planted"], convention: Convention
) -> pl.DataFrame:
    """Return the answers of an exam that compares texts of its own as judgements."""
    rows = exams.filter(pl.col("exam") == exam)
    needed = ("task", "first", "second", "output")
    if len(rows) and any(rows[name].dtype == pl.Null for name in needed):
        raise MetricError(f"the table exams has {exam} answers without task, first, second and output")
    typed = [
        pl.col(name).cast(JUDGEMENTS[name], strict=False) for name in ("task", "output", "mark", "value", *FAILURE)
    ]
    rows = exam_judgements(rows.with_columns(typed), exam)
    return read_judgements(rows, find_scale(PAIRWISE), convention)


# --- families --------------------------------------------------------------------------------------------------------


def reviewer_family(name: str, model: str | None, families: Mapping[str, str], agents: Mapping[str, str]) -> str:
    """A reviewer's family: as given; else that of the agent with its name or its model's name; else its own name.

    ``agents``: the family of each agent, its own name where it has none.
    """
    names = (name, model or name)
    return next((by_name[one] for by_name in (families, agents) for one in names if one in by_name), name)


def strangers(study: Study, options: Options, name: str, model: str | None) -> set[str]:
    """The agents that a reviewer may judge: those of other families, or all."""
    families = {agent.agent: agent.family or agent.agent for agent in study.agents}
    own = reviewer_family(name, model, options.review.families, families)
    return {agent for agent, family in families.items() if options.judges_own_family or family != own}


def without_own_family(judgements: pl.DataFrame, study: Study, families: Mapping[str, str]) -> pl.DataFrame:
    """The judgements without those on agents of the reviewer's own family."""
    agents = {agent.agent: agent.family or agent.agent for agent in study.agents}
    own = {name: reviewer_family(name, None, families, agents) for name in judgements["reviewer"].unique()}
    family = pl.col("reviewer").replace_strict(own, return_dtype=pl.String) if own else pl.lit("")
    shown = [pl.col(name).cast(pl.String).replace(agents).eq_missing(family) for name in ("first", "second", "agent")]
    return judgements.filter(~pl.any_horizontal(shown))


# --- people ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class People:
    """Human labels, if any."""

    labels: PairLabels | None = None
    """All pairs that have a label."""
    tested: PairLabels | None = None
    """Decided pairs that the panel is compared with."""
    ratings: FloatArray | None = None
    """Medians of the raters [tasks, agents]."""
    questioners: tuple[str, ...] = ()
    """Agents whose responses are used in the human exam."""


def what_people_said(study: Study, options: Options) -> People:
    """The labels of a study, if any. Raises if an exam needs labels that are not there."""
    examines = "human exam" in options.exam.traits
    if not study.n_ratings and not study.n_preferences:
        if examines:
            raise MetricError(f"{study.name} has no labels, which the human exam needs. Use the exam auto")
        return People()
    said, criterion, margin = study.label_table, options.labels.criterion, options.labels.margin
    known = said["criterion"].drop_nulls().unique().sort().to_list()
    if criterion is not None:
        check_known([criterion], known, "no label has the criterion", "Criteria")
        said = said.filter(pl.col("criterion") == criterion)
    elif len(known) > 1:
        raise UserError(f"labels have several criteria: {', '.join(known)}. Choose one with --criterion")
    if margin is None:
        margin = usual_margin(said, convention=options.labels.convention)
    how: dict[str, Any] = {"tasks": study.tasks, "agents": study.agent_list}
    labels = pair_labels(said, least_margin=margin, **how)
    ratings = median_ratings(said, **how) if study.n_ratings else None
    if not examines:
        return People(labels, labels.decided(), ratings)
    questioners = _questioners(labels, options)
    tested = labels.decided() if options.overlapping else labels.decided().outside(questioners)
    if not tested.n_pairs:
        raise MetricError(
            "the human exam uses all pairs with a human preference, so none is left to test on. Name fewer "
            "questioners, or test on the same pairs with --overlap"
        )
    return People(labels, tested, ratings, questioners)


def _questioners(labels: PairLabels, options: Options) -> tuple[str, ...]:
    """The given agents, or a random choice of those with decided pairs."""
    if options.exam.questioners is not None:
        if len(named := tuple(dict.fromkeys(options.exam.questioners))) < 2:
            raise UserError(f"--questioners must be at least two agents, got {', '.join(named) or 'none'}")
        return named
    if options.labels.convention != "default":
        raise UserError(
            f"the human exam with --convention {options.labels.convention} needs --questioners: the agents whose "
            "responses it uses, which the papers name. Try --questioners A,B,C"
        )
    decided = labels.decided()
    agents = [decided.agents[i] for i in sorted({*decided.low.tolist(), *decided.high.tolist()})]
    if len(agents) < 2:
        raise MetricError("the labels decide no pair of responses, so there is no human exam")
    drawn = sorted(agents, key=lambda name: content_hash("questioners", options.statistics.seed, name))
    return tuple(drawn[: min(QUESTIONERS, max(2, len(agents) - 1))])
