"""Judges of responses: a metric, a reviewer, a panel of reviewers, or external scores.

All are compared with people, and tested for bias, in the same two ways: by their scores of single responses, and by
their votes on two responses to a task. Votes are one frame for reviewers, panels, metrics and people: judge, kind,
task, low, high and vote; tasks and agents are numbers, the lower agent first; a vote is 1 for ``low``, 0 for ``high``,
0.5 for neither, and null where it was requested but is missing. External scores are files with the columns metric
(optional: else the file's name), task, agent and score; a run's ``response_scores.csv`` has these columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self

import numpy as np
import polars as pl

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import MetricError, UserError, check_known, listed
from goldless.evidence import of_verb
from goldless.judging.scales import find_scale
from goldless.metrics.chair import PanelScores, PanelVerdicts, usual_fusion
from goldless.metrics.judgement_table import NEITHER, Convention, judgement_arrays
from goldless.metrics.label_agreement import Judge, Kind, panel_judge, reviewer_judges
from goldless.metrics.pair_labels import PairLabels
from goldless.reports.formats import unguarded
from goldless.reports.run_folder import SCORES, RunFolder
from goldless.runs.evaluation import Evaluation
from goldless.runs.options import Options, check_options
from goldless.runs.review_evidence import recorded_review, without_own_family
from goldless.signature import Signature, evidence_hash, table_hash
from goldless.statistics.bootstrap import Draws
from goldless.studies import Study
from goldless.studies.checking import Cells, Problems, all_at_once
from goldless.studies.frames import Listed
from goldless.studies.tables import ALLOWED, Table, is_table

Scores = Mapping[tuple[str, str], float | None]
"""The score of each task and agent; None: missing."""
Given = str | Path | Sequence[str | Path] | Mapping[str, Scores]
"""External scores: files, or scores by metric."""


def check_unlike(judges: Sequence[Judge]) -> None:
    """Raise where two judges have one name."""
    names = [judge.name for judge in judges]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise UserError(
            f"names of metrics, reviewers and scores must be unique, got {', '.join(map(repr, twice))} more than once. "
            "Rename one in the column metric of its file, or leave one out"
        )


def refuse_rater_metrics(options: Options, to: str) -> None:
    """Refuse metrics of raters, before anything is computed; ``to``: what they cannot be."""
    of_raters = (
        [metric.name for metric in options.scoring.chosen_metrics() if metric.needs.labels]
        if options.scoring.metrics
        else []
    )
    if of_raters:
        raise MetricError(f"{of_raters[0]} scores raters, not responses, so it cannot be {to}")


def draws_of(options: Options) -> Draws:
    """The resampling settings of the options, which are checked and need not name a metric."""
    check_options(options if options.scoring.metrics else options.changed(metrics=Options().scoring.metrics))
    return {
        "seed": options.statistics.seed,
        "resamples": options.statistics.resamples,
        "level": options.statistics.level,
    }


# --- votes -----------------------------------------------------------------------------------------------------------

Orders = Literal["each", "together"]
"""``each``: the two orders of a pair are separate verdicts. ``together``: one vote on both."""
PAIR = ("task", "low", "high")


def toward(vote: str) -> pl.Expr:
    """The vote for high instead of low where ``turned`` is true."""
    return pl.when("turned").then(1 - pl.col(vote)).otherwise(pl.col(vote))


def people_votes(labels: PairLabels) -> pl.DataFrame:
    """People's votes on each labelled pair."""
    return _voted("people", "people", labels, vote=(labels.sign + 1) / 2)


def votes(judge: Judge) -> pl.DataFrame:
    """One vote on each pair: of a reviewer the mean over the orders, if none is missing; of scores the higher one."""
    if judge.compared is None or judge.kind == "panel":
        return verdicts(judge, "together").select("judge", "kind", *PAIR, "vote")
    mean = pl.when(pl.col("vote").null_count() == 0).then(pl.col("vote").mean())
    return verdicts(judge, "each").group_by("judge", "kind", *PAIR, maintain_order=True).agg(mean).sort(PAIR)


def verdicts(judge: Judge, orders: Orders) -> pl.DataFrame:
    """The decisions for low, high or neither: on both orders of a pair together, or on each alone.

    ``first``: whether low is shown first, null where both orders count. ``heard``: whether nothing is missing.
    """
    if judge.compared is None:
        return _scored(judge)
    found = []
    for first in (True, False) if orders == "each" else (None,):
        voted = (judge if first is None else judge.in_order(0 if first else 1)).verdicts
        rows = _voted(judge.name, judge.kind, voted, vote=voted.verdict, heard=voted.used == voted.asked)
        found.append(rows.with_columns(first=pl.lit(first, pl.Boolean)).filter(voted.asked > 0))
    return pl.concat(found)


def _scored(judge: Judge) -> pl.DataFrame:
    """The higher of two scores wins."""
    table = judge.response_scores
    task, agent = np.nonzero(table.asked > 0)
    rows = pl.DataFrame({"task": task, "agent": agent, "score": table.score[task, agent]}, nan_to_null=True)
    pairs = rows.join(rows, on="task", suffix="_high", maintain_order="left_right")
    vote = ((pl.col("score") - pl.col("score_high")).sign() + 1) / 2
    return pairs.filter(pl.col("agent") < pl.col("agent_high")).select(
        *(pl.lit(judge.name).alias("judge"), pl.lit(judge.kind).alias("kind"), "task"),
        low="agent",
        high="agent_high",
        vote=vote if judge.convention == "default" else vote.fill_null(NEITHER),
        heard=vote.is_not_null(),
        first=pl.lit(None, pl.Boolean),
    )


def _voted(name: str, kind: str, pairs: PairLabels | PanelVerdicts, **more: FloatArray | BoolArray) -> pl.DataFrame:
    rows = {column: getattr(pairs, column) for column in PAIR} | more
    named = [pl.lit(name).alias("judge"), pl.lit(kind).alias("kind")]
    return pl.DataFrame(rows, nan_to_null=True).select(*named, *rows)


# --- metrics -------------------------------------------------------------------------------------------------------


def scoring_judge(
    name: str, kind: Kind, scores: Scores, *, tasks: Sequence[str], agents: Sequence[str], signature: str = ""
) -> Judge:
    """A judge by its scores of responses."""
    value, asked = score_arrays(scores, tasks=tasks, agents=agents)
    used = (~np.isnan(value)).astype(np.int64)
    table = PanelScores(tuple(tasks), tuple(agents), value, asked.astype(np.int64), used)
    return Judge(name, kind, table, signature=signature)


def metric_judges(evaluation: Evaluation | None, study: Study, *, only_asked: bool = False) -> list[Judge]:
    """Computed metrics as judges, by their response scores; ``only_asked``: without responses that have no pair."""
    found, names = [], {"tasks": study.tasks, "agents": study.agent_list}
    for name, one in ({} if evaluation is None else evaluation.outcomes).items():
        rows = one.responses.filter(pl.col("asked") > 0) if only_asked else one.responses
        found.append(scoring_judge(name, "metric", response_scores(rows), signature=one.signature, **names))
    return found


def response_scores(rows: pl.DataFrame) -> dict[tuple[str, str], float | None]:
    """The score of each response in a table with the columns task, agent and score."""
    return {(task, agent): score for task, agent, score in rows.select("task", "agent", "score").iter_rows()}


def score_arrays(scores: Scores, *, tasks: Sequence[str], agents: Sequence[str]) -> tuple[FloatArray, BoolArray]:
    """Scores as [tasks, agents], NaN where there is none, and which of them were requested."""
    number = [{name: place for place, name in enumerate(names)} for names in (tasks, agents)]
    places = [number[0][name] for name, _ in scores], [number[1][name] for _, name in scores]
    table, asked = np.full((len(tasks), len(agents)), np.nan), np.zeros((len(tasks), len(agents)), dtype=np.bool_)
    table[places] = np.array(list(scores.values()), dtype=np.float64)  # None becomes NaN
    asked[places] = True
    return table, asked


# --- reviewers -------------------------------------------------------------------------------------------------------


def judgements_hash(rows: pl.DataFrame) -> str:
    """A hash of these judgements."""
    return table_hash(rows.select("reviewer", "task", "first", "second", "agent", "value"))


def recorded_scales(study: Study) -> dict[str, list[str]]:
    """The scales on which the study has recorded judgements, sorted, with the reviewers of each in their order."""
    table = study.table("judgements")
    if table is None or not {"reviewer", "format"} <= set(table.columns):
        return {}
    named = of_verb(table.lazy(), "review").select("format", "reviewer").drop_nulls()
    rows = named.unique(maintain_order=True).collect()
    found: dict[str, list[str]] = {scale: [] for scale in sorted(rows["format"].unique())}
    for scale, reviewer in rows.iter_rows():
        found[scale].append(reviewer)
    return found


def recorded_judges(
    study: Study, reviewers: Sequence[str], scale: str | None, *, convention: Convention, own_family: bool
) -> list[Judge]:
    """Recorded reviewers, each alone, and their equal vote where they are several; ``all``: every one on the scale.

    By default judgements on agents of a reviewer's own family are left out, as in a review; the papers keep them.
    """
    if not reviewers:
        return []
    known = list(recorded_scales(study))
    if scale is None and len(known) != 1:
        raise UserError(
            f"choose the scale of the judgements with --scale. {study.name} has {', '.join(known) or 'none'}"
        )
    wanted = [] if "all" in reviewers else list(dict.fromkeys(reviewers))
    chosen = find_scale(known[0] if scale is None else scale)
    evidence = recorded_review(study, scale=chosen, reviewers=wanted, convention=convention)
    rows = evidence.judgements
    own_family = own_family or convention != "default"
    if not own_family:
        rows = without_own_family(rows, study, {})
    said = set(rows["reviewer"])
    heard = [name for name in evidence.reviewers if name in said]
    if not heard:
        raise MetricError(
            "the given reviewers judged only agents of their own family. Add --own-family to count these judgements"
        )
    table = judgement_arrays(rows, reviewers=heard, tasks=study.tasks, agents=study.agent_list)
    settings = {
        "scale": chosen.name,
        "own-family": "judged" if own_family else "left-out",
        "missing": "left-out" if convention == "default" else "0.5" if chosen.pairwise else "0",
        "study": study.fingerprint[:8],
    }
    fusion = "vote" if chosen.pairwise else usual_fusion(convention)
    found = []
    panels = [panel_judge(table, convention=convention)] * (len(heard) > 1)
    for judge in [*reviewer_judges(table, convention=convention), *panels]:
        panel = judge.kind == "panel"
        own = rows if panel else rows.filter(pl.col("reviewer") == judge.name)
        described = {"reviewers": ",".join(heard), "fusion": fusion} if panel else {}
        described |= {**settings, "evidence": f"recorded-{judgements_hash(own)}"}
        found.append(replace(judge, signature=str(Signature(judge.name, described))))
    return found


# --- tables of others ------------------------------------------------------------------------------------------------


def read_table(
    path: Path, columns: Mapping[str, Cells], problems: Problems, *, study: Study | None = None, empty: str = ""
) -> tuple[pl.DataFrame, Table]:
    """The sound rows of a file, with the line of each, and where to report what else is wrong with them.

    Tasks and agents that the study does not have are reported. A column ``score`` may be empty but not absent.
    ``empty``: what to say if there is no row.
    """
    if not is_table(path):
        problems.add(f"no such file; {ALLOWED}", str(path))
    check = Table(path if is_table(path) else (), problems, path.name)
    absent: dict[str, Cells] = {"score": "number"} if "score" in {*columns} - {*check.frame.columns} else {}
    kinds = {name: pl.Float64 if cells.endswith("number") else pl.String for name, cells in columns.items()}
    frame = check.read({**columns, **absent}).cast(pl.Schema(kinds))
    if empty and not check.rows and not check.broken:
        check.add(empty)
    known: dict[Literal["task", "agent"], Sequence[str]] = {}
    if study is not None:
        known = {"task": study.tasks, "agent": study.agent_list}
    for what, names in known.items():
        if what in columns:
            # a run's own file guards names that a spreadsheet would compute
            own = set(names)
            plain = [name if name is None or name in own else unguarded(name) for name in frame[what]]
            frame = frame.with_columns(pl.Series(what, plain, pl.String))
            listed = Listed(what, pl.Series(names, dtype=pl.String), "" if study is None else study.name)
            frame = frame.filter(listed.check(frame, [what], check))
    return frame, check


def given_judges(scores: Given | None, study: Study) -> list[Judge]:
    """External scores as judges. Reports all problems at once: unknown names, repeated rows, bad numbers."""
    if isinstance(scores, Mapping):
        known = set(study.tasks), set(study.agent_list)
        for name, one in scores.items():
            strange = [f"{t!r} and {a!r}" for t, a in one if t not in known[0] or a not in known[1]]
            if strange:
                raise UserError(
                    f"{name}: {len(strange)} of {len(one)} scores are for a task or an agent that is not in "
                    f"{study.name}: {listed(strange)}"
                )
        return [_given_judge(name, one, study) for name, one in scores.items()]
    columns: dict[str, Cells] = {"metric": "optional_name", "task": "name", "agent": "name"}
    columns["score"] = "optional_number"
    empty, judges = "no rows. The columns are metric (optional), task, agent and score", []
    with all_at_once("scores") as problems:
        for path in map(Path, [scores] if isinstance(scores, str | Path) else scores or ()):
            rows, check = read_table(path, columns, problems, study=study, empty=empty)
            rows = rows.with_columns(pl.col("metric").fill_null(path.stem))
            again = ~pl.struct("metric", "task", "agent").is_first_distinct()
            said = "{metric} already has a score for agent {agent!r} on task {task!r}"
            for (name,), own in check.report(rows, again, said).group_by("metric", maintain_order=True):
                judges.append(_given_judge(str(name), response_scores(own), study, file=path.name))
    return judges


def _given_judge(name: str, scores: Scores, study: Study, **file: str) -> Judge:
    rows_hash = evidence_hash([(task, agent, score) for (task, agent), score in sorted(scores.items())])
    signature = str(Signature(name, {"scores": f"given-{rows_hash}", **file, "study": study.fingerprint[:8]}))
    names = {"tasks": study.tasks, "agents": study.agent_list}
    return scoring_judge(name, "scores", scores, signature=signature, **names).levelled()


# --- run folders -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoredBy:
    """One metric's response scores under one scorer, or in one run."""

    scorer: str
    """The name of the scorer or run."""
    metric: str
    scores: Scores
    settings: Mapping[str, str] = field(default_factory=dict)
    """The parts of the signature; empty: not known."""

    @property
    def signature(self) -> str:
        """The settings in one line."""
        return Signature.line(self.settings)

    @classmethod
    def of_run(cls, run: RunFolder) -> list[Self]:
        """The scores in a run folder, by metric and signature."""
        table = run.required_scores().with_columns(pl.col("signature").fill_null(""))
        results = [] if run.leaderboard is None else [*run.leaderboard.metrics.values()]
        settings_of = {result.signature: result.settings for result in results}
        scored = []
        for (metric, line), rows in table.group_by("metric", "signature", maintain_order=True):
            # a table from elsewhere has lines that no result of the folder has
            settings = settings_of.get(str(line)) or Signature.parse(str(line)).parts
            scored.append(cls(run.name, str(metric), response_scores(rows), settings))
        return scored


def read_run_scores(folders: Sequence[Path | str], *, metrics: Sequence[str] = ()) -> list[ScoredBy]:
    """The scores of several runs of one study, each under the name of its folder; ``metrics``: empty for all."""
    paths = [Path(folder) for folder in folders]
    without = [str(path) for path in paths if not (path / SCORES).is_file()]
    if without:
        raise UserError(
            f"{', '.join(without)}: not a run folder with {SCORES}. Write one with goldless score STUDY --out FOLDER"
        )
    if len({path.resolve() for path in paths}) < max(2, len(paths)):
        raise UserError(
            f"two or more different run folders are needed, got {', '.join(map(str, paths))}. Score the study again: "
            "goldless score STUDY --scorer MODEL --out FOLDER"
        )
    unlike = len({path.name for path in paths}) == len(paths)
    runs = [RunFolder(path, path.name if unlike else str(path)) for path in paths]
    for run in runs:
        run.required("leaderboard")
    if len({run.fingerprint for run in runs}) > 1:
        several = ", ".join(f"{run.path} ({run.fingerprint[:8]})" for run in runs)
        raise UserError(
            f"the runs are of different studies, or of a study that was changed: {several}. Compare runs of one study"
        )
    found = [scored for run in runs for scored in ScoredBy.of_run(run)]
    known = list(dict.fromkeys(scored.metric for scored in found))
    check_known(metrics, known, "no run has", "Metrics in the runs")
    return [scored for scored in found if not metrics or scored.metric in metrics]
