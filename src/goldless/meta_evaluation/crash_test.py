"""The crash test: how a metric reacts when responses lose content, or change without gaining any (GEM, Algorithm 1).

Every response is scored unchanged and after each perturbation, with the same peers. A degradation must lower the score,
a manipulation must not raise it. A perturbed copy is a separate agent with the peers of the original response, so that
any metric scores both in the same way. The effect is the standardised mean difference of the paper,
(mean after - mean before) / sqrt((variance before + variance after) / 2), over the samples that have both scores; the
independent units are tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl
from scipy.special import stdtr, stdtrit

from goldless.errors import MetricError, UserError, check_known
from goldless.evidence import OPEN_KINDS, PERTURBED
from goldless.files import write_text, write_whole
from goldless.meta_evaluation.perturbations.catalogue import default_perturbations, find_perturbation
from goldless.meta_evaluation.perturbations.perturbation import (
    Kind,
    Must,
    Perturbation,
    perturb_all,
)
from goldless.models.interface import ChatModel, content_hash
from goldless.records import Response
from goldless.reports.document import InMemory, Result, cells, write, written_property
from goldless.reports.findings import Name, Said, named
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.evaluation import MetricScores
from goldless.runs.opening import Spending
from goldless.runs.options import Options, check_options
from goldless.runs.pipeline import score_study
from goldless.runs.store import save_result
from goldless.signature import Signature
from goldless.statistics.bootstrap import Estimate
from goldless.statistics.comparisons import holm, sign_flip_p
from goldless.statistics.effects import paired_d, pooled_smd
from goldless.studies import Study, study_from_records

Rating = Literal["pass", "fail", "not shown"]
RATINGS: tuple[Rating, ...] = ("pass", "fail", "not shown")


@dataclass(frozen=True)
class CrashResult:
    """One metric under one perturbation."""

    metric: str
    perturbation: str
    kind: Kind
    must: Must
    rating: Rating
    reason: str
    """The reason for the rating."""
    mean_before: float | None
    mean_after: float | None
    smd: Estimate
    """Pooled standardised mean difference, as the paper defines it."""
    paired_d: Estimate
    """Mean difference / standard deviation of the differences."""
    p: float | None
    """One-sided: that the metric does what it must; of the same distribution as the interval of ``smd``."""
    p_holm: float | None
    """Corrected for all perturbations of the metric."""
    samples: int
    """Number of pairs with both scores, or of responses if the metric scores no pairs."""
    responses: int
    """Number of responses to perturb."""
    unchanged: int
    """Number of these that the perturbation did not change; they are not part of the effect."""
    not_made: int
    """Number of these that could not be perturbed."""
    missing: int
    """Samples without one of the two scores."""

    def cells(self, **more: str) -> dict[str, Any]:
        """A row of a table."""
        return cells(self, tasks=self.smd.n, note=self.smd.note, **more)


COLUMNS = (
    *("metric", "perturbation", "kind", "must", "rating", "reason", "mean_before", "mean_after", "smd", "smd_low"),
    *("smd_high", "paired_d", "paired_d_low", "paired_d_high", "p", "p_holm", "samples", "tasks", "responses"),
    *("unchanged", "not_made", "missing", "note", "signature"),
)
"""Columns of the CSV."""


@dataclass(frozen=True)
class CrashCard:
    """One metric under all perturbations."""

    signature: str
    perturbations: tuple[CrashResult, ...]

    @written_property
    def counts(self) -> dict[str, int]:
        return {rating: sum(one.rating == rating for one in self.perturbations) for rating in RATINGS}


@dataclass(frozen=True)
class CrashTest(Result):
    """The effects of perturbations on metrics."""

    study: str
    """Name of the study."""
    margin: float
    """Smaller effects count as none."""
    level: float
    responses: int
    """Number of responses that were perturbed."""
    responses_there_are: int
    """Number of eligible responses."""
    problems: Mapping[str, int]
    """Reasons why texts, evidence or scores are missing, with counts."""
    metrics: Mapping[str, CrashCard]
    """By name, in order."""
    source: InMemory[Study | None] = None
    """The study; None: the test was read from a file."""
    perturbed: InMemory[pl.DataFrame] = field(default_factory=lambda: pl.DataFrame(schema=PERTURBED))
    """The changed texts."""
    spending: InMemory[tuple[Spending, ...]] = ()
    asked: InMemory[int] = 0
    """Number of texts and pieces of evidence requested from models."""
    open: InMemory[int] = 0
    """Number of these missing for a temporary cause: the same command would try them again."""

    @property
    def results(self) -> tuple[CrashResult, ...]:
        return tuple(one for card in self.metrics.values() for one in card.perturbations)

    @property
    def unscored(self) -> tuple[str, ...]:
        return tuple(
            metric
            for metric, card in self.metrics.items()
            if any(one.missing for one in card.perturbations) and not any(one.samples for one in card.perturbations)
        )

    def sentences(self) -> Iterator[Said]:
        for metric, card in self.metrics.items():
            failed = [row.perturbation for row in card.perturbations if row.rating == "fail"]
            not_shown = card.counts["not shown"]
            said = f" passes {card.counts['pass']} of {len(card.perturbations)} crash tests"
            fails: Said = (", fails ", *named(failed, 6)) if failed else (", fails none",)
            yield (Name(metric), said, *fails, f"; {not_shown} not shown." if not_shown else ".")

    def tables(self) -> list[ReportTable]:
        return [self.table(metric) for metric in self.metrics]

    def table(self, metric: str) -> ReportTable:
        card = self.metrics[metric]
        results = card.perturbations
        columns = (
            NAMES,
            Column("must", "must", wide=True),
            Column("smd", "SMD", "number", decimals=2),
            Column("smd_low smd_high", f"{100 * self.level:g}%", "interval", "-", 2),
            Column("paired_d", "d", "number", "-", 2),
            Column("p", "p", "probability", "-"),
            Column("samples", "n", "count"),
            Column("tasks", "tasks", "count", wide=True),
            *([Column("unchanged", "same", "count")] if any(one.unchanged for one in results) else ()),
            *([Column("missing", "missing", "count")] if any(one.missing for one in results) else ()),
            *([Column("not_made", "not made", "count")] if any(one.not_made for one in results) else ()),
            Column("rating", "rating"),
            Column("reason", "why", wide=True),
            Column("mean_before", "mean before", "number", "-", 3, wide=True),
            Column("mean_after", "mean after", "number", "-", 3, wide=True),
        )
        return ReportTable(
            f"{metric}: {', '.join(f'{count} {rating}' for rating, count in card.counts.items())}",
            columns,
            tuple(result.cells(marked=_marked(result)) for result in results),
            card.signature,
            notes=tuple(
                f"{one.perturbation}: {one.rating}, {one.smd.note or one.reason}"
                for one in results
                if one.rating == "not shown" or one.smd.value is None
            ),
        )

    def overview(self) -> ReportTable:
        rows: dict[str, dict[str, Cell]] = {}
        for one in self.results:
            value = "" if one.smd.value is None else f"{one.smd.value:+z.2f} "
            row = rows.setdefault(one.perturbation, {"marked": _marked(one), "must": one.must})
            row[one.metric] = f"{value}{one.rating}"
        columns = (NAMES, Column("must", "must", wide=True), *(Column(name, name) for name in self.metrics))
        return ReportTable(f"Crash test on {self.study}", columns, tuple(rows.values()))

    def to_csv(self) -> str:
        rows = [
            result.cells(signature=card.signature) for card in self.metrics.values() for result in card.perturbations
        ]
        return ReportTable("", tuple(Column(name, name) for name in COLUMNS), tuple(rows)).to_csv()

    def to_markdown(self) -> str:
        tables = self.tables()
        if len(self.metrics) > 1:
            tables = [self.overview(), *tables]
        return "\n".join([*(table.to_markdown() for table in tables), self.reading, ""])

    @property
    def reading(self) -> str:
        return READING.format(level=100 * self.level, margin=self.margin)


READING = (
    "↓: must fall; ≤: must not rise. SMD: standardised mean difference, (mean after - mean before) / pooled standard "
    "deviation, with its {level:g}% interval from leaving each task out in turn. d: mean difference / standard "
    "deviation of the differences. p: one-sided, that the metric does what it must; of the same distribution as the "
    "interval. n: pairs, or responses if the metric scores no pairs. same: responses that the perturbation "
    "did not change; they are not part of the effect. A degradation passes if the whole interval is below 0, and "
    "otherwise fails if it is above -{margin:g}. A manipulation passes if it is below {margin:g}, and otherwise fails "
    "if it is above 0. Anything else is not shown."
)
MARKS: Mapping[Must, str] = {"fall": "↓", "not rise": "≤"}
NAMES = Column("marked", "perturbation", "name")


def _marked(result: CrashResult) -> str:
    return f"{MARKS[result.must]} {result.perturbation}"


DEFAULT_MARGIN = 0.2
"""Smaller effects count as none: Cohen's "small"."""
UNBOUNDED = "every score moves from one value to another, so the effect is unbounded"
RESPONSE, ROLES = ["task", "agent"], ("agent", "peer")


async def crash_test(
    study: Study,
    options: Options,
    *,
    perturbations: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
    references: int | Sequence[str] = 2,
    responses: int = 300,
    writer: str | ChatModel | None = None,
    margin: float = DEFAULT_MARGIN,
) -> CrashTest:
    """Score responses before and after perturbations with every metric, and rate the effects.

    ``perturbations``: names; None: those of ours that need no model. ``agents``: those whose responses are perturbed;
    None: all. ``references``: the number of peers that a response is
    compared with, or their names. ``responses``: the most that are perturbed, drawn by the seed. ``writer``: chat model
    for the perturbations that need one. ``margin``: a smaller effect counts as none.
    """
    chosen = _check(options, perturbations, margin)
    eligible = find_peers(study, agents=agents, references=references, seed=options.statistics.seed)
    every = eligible.select(RESPONSE).unique(maintain_order=True)
    by_chance = sorted(every.iter_rows(), key=lambda key: content_hash("candidate", options.statistics.seed, *key))
    drawn = pl.DataFrame(by_chance[:responses], RESPONSE, orient="row")
    pairs = eligible.join(drawn, on=RESPONSE, how="semi", maintain_order="left")
    peers = {(task, agent): tuple(own) for task, agent, own in _by_response(pairs).iter_rows()}
    used = dict.fromkeys((*peers, *pairs.select("task", "peer").iter_rows()))
    originals = [found for task, agent in used if (found := study.response(task, agent)) is not None]
    candidates = originals[: len(peers)]
    texts, writing = await perturb_all(
        study,
        list(chosen.values()),
        lambda one: originals if one.scope == "everybody" else candidates,
        options,
        writer=writer,
        to="perturb responses",
        peers=peers,
    )
    design = _held_against(texts, pairs, [name for name, one in chosen.items() if one.scope == "everybody"])
    of_copies = _by_response(design.select("task", agent="copy", peer="held"))
    pairing = peers | {(task, copy): tuple(held) for task, copy, held in of_copies.iter_rows()}
    made = _with_copies(study, originals, texts, design)
    scored = await score_study(made, options.changed(pairing=pairing, over_peers="own"))
    settings = {
        "perturbations": "+".join(chosen),
        **({"writer": writing[0].model} if writing else {}),
        "responses": f"{len(peers)}of{len(every)}",
        "candidates": "all" if agents is None else "+".join(agents),
        "references": str(references) if isinstance(references, int) else "+".join(references),
        "margin": f"{margin:g}",
        "missing": "left-out",
        "interval": f"tasks-jackknife-t-{options.statistics.level:g}",
        "test": "one-sided-t-holm",
        "resamples": str(options.statistics.resamples),
        "seed": str(options.statistics.seed),
        "study": study.fingerprint[:8],
    }
    evidence = scored.evidence
    problems = {f"{kind}, for example: {evidence.examples[kind]}": n for kind, n in sorted(evidence.failures.items())}
    failed = texts.drop_nulls("failure")
    problems |= Counter(failed.select(pl.format("{}: {}: {}", "perturbation", "failure", "message")).to_series())
    tested = texts.join(drawn, on=RESPONSE, how="semi")
    cards = {}
    for name, scores in scored.scores.items():
        problems |= {f"{name}: {problem}": n for problem, n in scores.problems.items()}
        # without what a crash test sets differently from a leaderboard
        own = {key: value for key, value in scores.signature.settings.items() if key not in {*settings, "peers"}}
        samples = _samples(scores, design)
        rows = [
            _result(name, one, tested, samples.filter(perturbation=one.name), options=options, margin=margin)
            for one in chosen.values()
        ]
        corrected = zip(rows, holm([row.p for row in rows]), strict=True)
        signature = str(Signature(f"crash-test[{name}]", {**own, **settings}))
        cards[name] = CrashCard(signature, tuple(replace(row, p_holm=p) for row, p in corrected))
    written = texts.filter(pl.col("perturbation").is_in([name for name, one in chosen.items() if one.needs_writer]))
    return CrashTest(
        study=study.name,
        margin=margin,
        level=options.statistics.level,
        responses=len(peers),
        responses_there_are=len(every),
        problems=problems,
        metrics=cards,
        source=study,
        perturbed=texts,
        spending=(*writing, *scored.spending),
        asked=len(written) + evidence.asked,
        open=int(written["failure"].is_in(list(OPEN_KINDS)).sum()) + evidence.open,
    )


def _check(options: Options, perturbations: Sequence[str] | None, margin: float) -> dict[str, Perturbation]:
    """The perturbations by name. Raises where something cannot be crash-tested."""
    check_options(options)
    metrics = options.scoring.chosen_metrics()
    for metric in metrics:
        if metric.needs.labels or metric.needs.table is not None:
            raise MetricError(
                f"{metric.name} cannot be crash-tested: it uses recorded labels or comparisons, and changed responses "
                "have none"
            )
    if not 0 <= margin < 10:
        raise UserError(f"margin must be a standardised difference from 0 to 10, got {margin}. Try 0.2")
    names = default_perturbations(metrics) if perturbations is None else dict.fromkeys(perturbations)
    return {name: find_perturbation(name) for name in names}


# --- who is tested, against whom -------------------------------------------------------------------------------------


def find_peers(
    study: Study, *, agents: Sequence[str] | None = None, references: int | Sequence[str] = 2, seed: int = 0
) -> pl.DataFrame:
    """Every peer of each response of the given agents, or of all, that has one: task, agent and peer.

    ``references``: the agents used as peers, or their number: the next ones around a circle that the seed draws, so
    that an agent has the same peers on every task that they answered.
    """
    known = study.agent_list
    wanted = [*(agents or ()), *(() if isinstance(references, int) else references)]
    check_known(wanted, known, "unknown agent", "Agents")
    if isinstance(references, int) and references < 1:
        raise UserError(f"references must be at least 1, got {references}")
    circle = sorted(known, key=lambda name: content_hash("references", seed, name))
    place = {name: number for number, name in enumerate(circle)}
    there = study.response_table.select(pl.col("task").cast(study.task_names), pl.col("agent").cast(study.agent_names))
    first, second = (pl.col(name).cast(pl.String).replace_strict(place, return_dtype=pl.Int64) for name in ROLES)
    every = there.join(there.rename({"agent": "peer"}), on="task").filter(pl.col("agent") != pl.col("peer"))
    every = every.with_columns(away=(second - first) % len(known))
    near = pl.col("peer").cast(pl.String).is_in([] if isinstance(references, int) else list(references))
    if isinstance(references, int):
        near = pl.col("away").rank("ordinal").over(RESPONSE) <= references
    asked = pl.col("agent").cast(pl.String).is_in(known if agents is None else list(agents))
    found = every.filter(near, asked).sort(*RESPONSE, "away").select(pl.col("task", *ROLES).cast(pl.String))
    if not len(found):
        raise MetricError(
            f"{study.name}: no response has a peer to compare with. A crash test needs tasks with responses of at "
            "least two agents"
        )
    return found


def _by_response(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.group_by(RESPONSE, maintain_order=True).agg(pl.col("peer").drop_nulls())


def _held_against(texts: pl.DataFrame, pairs: pl.DataFrame, everybody: Sequence[str]) -> pl.DataFrame:
    """Every changed response with each peer, and what its copy is held against instead.

    A perturbation of all responses holds copies against copies; null where a peer could not be perturbed.
    """
    made = texts.drop_nulls("text")
    copies = made.select("perturbation", "task", peer="agent", copied="copy")
    found = made.filter(~pl.col("unchanged")).join(pairs, on=RESPONSE, maintain_order="left_right")
    found = found.join(copies, on=["perturbation", "task", "peer"], how="left", maintain_order="left")
    held = pl.when(pl.col("perturbation").is_in(list(everybody))).then("copied").otherwise("peer")
    return found.select("perturbation", "task", "agent", "copy", "peer", held=held)


def _with_copies(study: Study, originals: Sequence[Response], texts: pl.DataFrame, design: pl.DataFrame) -> Study:
    """The originals and the copies that are scored, or that others are held against, as one study."""
    needed = pl.concat([design.select("task", "copy"), design.select("task", copy="held")])
    copies = texts.join(needed, on=["task", "copy"], how="semi", maintain_order="left").drop_nulls("text")
    if clash := {response.agent for response in originals} & set(copies["copy"]):
        raise UserError(f"the study has an agent {min(clash)!r}, the name of a perturbed copy. Rename it")
    kept = {response.task for response in originals}
    tasks = [study.task(task) for task in study.tasks if task in kept]
    copied = [Response(*row) for row in copies.select("task", "copy", "text").iter_rows()]
    return study_from_records(tasks, [*originals, *copied], name=study.name)


# --- the effect of each perturbation ---------------------------------------------------------------------------------


def _samples(scores: MetricScores, design: pl.DataFrame) -> pl.DataFrame:
    """The scores before and after: one sample for every pair, as in the paper, or for every response."""
    own, copied = ["task", "agent", "peer"], ["task", "copy", "held"]
    table = scores.pairs
    if scores.metric.needs.verdicts is not None or not len(table):
        design, table = design.unique(["task", "copy"], keep="first", maintain_order=True), scores.responses
        own, copied = own[:2], copied[:2]
    table = table.select(pl.col(own).cast(pl.String), pl.col("score").cast(pl.Float64))
    before = design.join(table.rename({"score": "before"}), on=own, how="left", maintain_order="left")
    after = table.rename({"score": "after"})
    return before.join(after, left_on=copied, right_on=own, how="left", maintain_order="left")


def _result(
    metric: str,
    perturbation: Perturbation,
    texts: pl.DataFrame,
    samples: pl.DataFrame,
    *,
    options: Options,
    margin: float,
) -> CrashResult:
    """The effect of a perturbation; responses that it left as they were are counted, and are in no effect."""
    texts = texts.filter(perturbation=perturbation.name)
    used = samples.drop_nulls(["before", "after"])
    tasks, before, after = used["task"].to_list(), used["before"].to_numpy(), used["after"].to_numpy()
    n, level = len(set(tasks)), options.statistics.level
    if n < 2:
        few = f"no effect size: n = {n}, needs at least 2 tasks"
        unmoved = not len(samples) and texts["unchanged"].all()
        smd = Estimate(None, None, None, n, level, "it changed no response" if unmoved else few)
    elif (before == after).all():
        smd = Estimate(0.0, 0.0, 0.0, n, level, "every score is the same before and after")
    elif len(set(before)) == len(set(after)) == 1:
        smd = Estimate(None, None, None, n, level, UNBOUNDED)
    else:
        smd = pooled_smd(before, after, clusters=tasks, level=level)
    rating, reason = rate(perturbation.must, smd, margin=margin)
    p = p_of_passing(perturbation.must, smd, margin=margin)
    if smd.note == UNBOUNDED:  # rated by its direction
        by_task = used.group_by("task", maintain_order=True).agg((pl.col("after") - pl.col("before")).mean())["after"]
        flipped = sign_flip_p(
            by_task.to_numpy(), seed=options.statistics.seed, permutations=options.statistics.resamples
        )
        rises = bool(after[0] > before[0])
        if flipped is not None:
            p = 1 - flipped / 2 if rises else flipped / 2
            if flipped < 1 - level:
                rating, reason = ("fail", "rises") if rises else ("pass", "falls")
    return CrashResult(
        metric=metric,
        perturbation=perturbation.name,
        kind=perturbation.kind,
        must=perturbation.must,
        rating=rating,
        reason=reason if len(samples) else "no response was changed",
        mean_before=float(before.mean()) if len(before) else None,
        mean_after=float(after.mean()) if len(after) else None,
        smd=smd,
        paired_d=paired_d(after - before, clusters=tasks, level=level),
        p=p,
        p_holm=None,
        samples=len(used),
        responses=len(texts),
        unchanged=int(texts["unchanged"].sum()),
        not_made=texts["text"].null_count(),
        missing=len(samples) - len(used),
    )


def p_of_passing(must: Must, smd: Estimate, *, margin: float = DEFAULT_MARGIN) -> float | None:
    """One-sided p of what a sound metric does: that the effect is below 0, or below the margin for a manipulation.

    It is of the same t distribution as the interval, so a rating is ``pass`` where it is below half of 1 - level.
    """
    if smd.value is None or smd.high is None:
        return None
    distance = smd.value - (0.0 if must == "fall" else max(margin, 0.0))
    error = (smd.high - smd.value) / float(stdtrit(smd.n - 1, (1 + smd.level) / 2))
    if error == 0:
        return 0.0 if distance < 0 or (must == "not rise" and distance == 0) else 1.0
    return float(stdtr(smd.n - 1, distance / error))


def rate(must: Must, smd: Estimate, *, margin: float = DEFAULT_MARGIN) -> tuple[Rating, str]:
    """The rating of an effect, and why.

    A degradation passes if the whole interval is below 0, and fails if the metric is shown not to fall by more than the
    margin. A manipulation passes if the metric is shown not to rise by more than the margin, and otherwise fails if the
    whole interval is above 0. Otherwise the interval is too wide to decide.
    """
    if smd.value is None or smd.low is None or smd.high is None:
        return "not shown", smd.note or "no interval"
    if must == "fall":
        falls, stays = smd.high < 0, smd.low > -margin
        if falls or not stays:
            return ("pass", "falls") if falls else ("not shown", "interval too wide")
        return "fail", "rises" if smd.low > 0 else f"does not fall by {margin:g}"
    if smd.high <= max(margin, 0):
        return "pass", "falls" if smd.high < 0 else f"does not rise by {margin:g}"
    return ("fail", "rises") if smd.low > 0 else ("not shown", "interval too wide")


# --- the folder ------------------------------------------------------------------------------------------------------


def save_crash_test(test: CrashTest, folder: Path | str) -> Path:
    """Write the card and every changed text; each file is written atomically."""
    text, spending = test.to_markdown(), test.spending
    folder = save_result(
        test.source, folder, verb="crashtest", name="crash_test", data=write(test), markdown=text, spending=spending
    )
    write_text(folder / "crash_test.csv", test.to_csv())
    columns = ("task", "agent", "perturbation", "text", "unchanged", "failure")
    write_whole(folder / "perturbed.parquet", test.perturbed.select(columns).write_parquet)
    return folder
