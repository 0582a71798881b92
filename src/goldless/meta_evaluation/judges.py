"""Judges of responses: a metric, a reviewer, a panel of reviewers, or external scores.

All are compared with people, and tested for bias, in the same two ways: by their scores of single responses, and by
their preferences between two responses to a task. External scores are files with the columns metric (optional: else
the file's name), task, agent and score; a run's ``response_scores.csv`` has these columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from goldless.arrays import BoolArray, FloatArray
from goldless.errors import MetricError, UserError, nearest
from goldless.judging.scales import find_scale
from goldless.metrics.chair import (
    PanelScores,
    PanelVerdicts,
    panel_scores,
    panel_verdicts,
    reviewer_scores,
    usual_fusion,
)
from goldless.metrics.judgement_table import (
    Convention,
    PairJudgements,
    ResponseRatings,
    pair_judgements,
    response_ratings,
)
from goldless.metrics.label_agreement import (
    PairCredits,
    panel_credits,
    reviewer_credits,
    score_credits,
    with_each_order,
)
from goldless.metrics.pair_labels import PairLabels
from goldless.reports.run_folder import SCORES, RunFolder
from goldless.reports.spreadsheets import unguarded
from goldless.runs.evaluation import Evaluation, MetricOutcome, MetricScores
from goldless.runs.options import Options, check_options
from goldless.runs.recorded import evidence_hash
from goldless.runs.review_evidence import recorded_review, without_own_family
from goldless.runs.review_outcome import shares_by_agent
from goldless.signature import Signature, table_hash
from goldless.statistics.bootstrap import Draws
from goldless.statistics.rank_correlation import levelled
from goldless.statistics.standings import score_table
from goldless.studies import Study
from goldless.studies.checking import Checking, Names, Problems, all_at_once
from goldless.studies.tables import ALLOWED, Source, is_table

Scores = Mapping[tuple[str, str], float | None]
"""The score of each task and agent; None: missing."""
Given = str | Path | Sequence[str | Path] | Mapping[str, Scores]
"""External scores: files, or scores by metric."""
Results = MetricScores | MetricOutcome
Kind = Literal["metric", "reviewer", "panel", "scores"]
PANEL = "panel"


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """One judge, with its scores of responses or its judgements of pairs."""

    name: str
    kind: Kind
    scores: PanelScores | None = None
    """Scores of responses; None: it compares pairs."""
    compared: PairJudgements | None = None
    """Judgements of pairs, by it or by each of its reviewers; None: the difference of scores decides."""
    weights: Mapping[str, float] | None = None
    """Weights of a panel's votes on pairs; None: equal."""
    convention: Convention = "default"
    signature: str = ""

    @property
    def verdicts(self) -> PanelVerdicts | None:
        """One vote on each pair, both orders together; None: it scores."""
        if self.compared is None:
            return None
        return panel_verdicts(self.compared, weights=self.weights, convention=self.convention)

    @property
    def response_scores(self) -> PanelScores:
        """Scores of responses; for comparisons, the share that each response won."""
        if self.scores is not None:
            return self.scores
        assert self.verdicts is not None
        return shares_by_agent(self.verdicts)

    def credits(self, labels: PairLabels, convention: Convention) -> PairCredits:
        """The judge's credit on each pair that people decided."""
        if self.compared is not None and self.kind == "reviewer":
            return reviewer_credits(self.compared, labels, convention=convention)[self.name]
        if self.compared is not None and self.verdicts is not None:
            earned = panel_credits(self.verdicts, labels, name=self.name, convention=convention)
            return with_each_order(earned, self.compared, weights=self.weights)
        return score_credits(self.response_scores, labels, name=self.name, convention=convention)

    def levelled(self) -> Judge:
        """The same judge, with scores that differ only by rounding made equal."""
        scores = self.response_scores
        return replace(self, scores=replace(scores, score=levelled(scores.score)))


def check_unlike(judges: Sequence[Judge]) -> None:
    """Raise where two judges have one name."""
    names = [judge.name for judge in judges]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise UserError(
            f"names of metrics, reviewers and scores must be unique, got {', '.join(map(repr, twice))} more than once. "
            "Rename one in the column metric of its file, or leave one out"
        )


def agent_names(study: Study) -> tuple[str, ...]:
    """The agents of a study."""
    return tuple(agent.agent for agent in study.agents)


def numbers(names: Sequence[str]) -> dict[str, int]:
    """The index of each name."""
    return {name: number for number, name in enumerate(names)}


def draws_of(options: Options) -> Draws:
    """The resampling settings of the options, which are checked and need not name a metric."""
    check_options(options if options.metrics else replace(options, metrics=Options().metrics))
    return {"seed": options.seed, "resamples": options.resamples, "level": options.level}


# --- metrics -------------------------------------------------------------------------------------------------------


def scoring_judge(
    name: str, kind: Kind, scores: Scores, *, tasks: Sequence[str], agents: Sequence[str], signature: str = ""
) -> Judge:
    """A judge by its scores of responses."""
    value, asked = score_arrays(scores, tasks=tasks, agents=agents)
    used = (~np.isnan(value)).astype(np.int64)
    table = PanelScores(tuple(tasks), tuple(agents), value, asked.astype(np.int64), used, {name: 1.0}, "raw")
    return Judge(name, kind, table, signature=signature)


def metric_judges(evaluation: Evaluation | None, study: Study, *, only_asked: bool = False) -> list[Judge]:
    """Computed metrics as judges, by their response scores; ``only_asked``: without responses that have no pair."""
    outcomes = {} if evaluation is None else evaluation.outcomes
    names = {"tasks": study.tasks, "agents": agent_names(study)}
    return [
        scoring_judge(
            name, "metric", response_scores(outcome, only_asked=only_asked), signature=outcome.signature, **names
        )
        for name, outcome in outcomes.items()
    ]


def response_scores(results: Results, *, only_asked: bool = False) -> dict[tuple[str, str], float | None]:
    """The score of each response; ``only_asked``: only responses with at least one pair to score."""
    rows = results.responses.filter(pl.col("asked") > 0) if only_asked else results.responses
    return {(task, agent): score for task, agent, score in rows.select("task", "agent", "score").iter_rows()}


def score_arrays(scores: Scores, *, tasks: Sequence[str], agents: Sequence[str]) -> tuple[FloatArray, BoolArray]:
    """Scores as [tasks, agents], NaN where there is none, and which of them were requested."""
    task_number, agent_number = numbers(tasks), numbers(agents)
    task = np.array([task_number[name] for name, _ in scores], dtype=np.int64)
    agent = np.array([agent_number[name] for _, name in scores], dtype=np.int64)
    score = np.array(list(scores.values()), dtype=np.float64)  # None becomes NaN
    asked = np.zeros((len(tasks), len(agents)), dtype=np.bool_)
    asked[task, agent] = True
    return score_table(task, agent, score, tasks=len(tasks), agents=len(agents)), asked


# --- reviewers -------------------------------------------------------------------------------------------------------


def reviewer_judges(
    table: PairJudgements | ResponseRatings,
    *,
    weights: Mapping[str, float] | None = None,
    convention: Convention = "default",
) -> list[Judge]:
    """The reviewers, each alone, and their panel if there are several or weights are given.

    The panel votes on both orders of comparisons; ratings are z-normalised for it, or raw as in Auto-PRE.
    """
    panel = weights is not None or len(table.reviewers) > 1
    if isinstance(table, PairJudgements):
        judges = [Judge(name, "reviewer", compared=table.of([name]), convention=convention) for name in table.reviewers]
        together = Judge(PANEL, "panel", compared=table, weights=weights, convention=convention)
        return [*judges, together] if panel else judges
    judges = [
        Judge(name, "reviewer", reviewer_scores(table, name, convention=convention), convention=convention)
        for name in table.reviewers
    ]
    if not panel:
        return judges
    scores = panel_scores(table, weights=weights, normalisation=usual_fusion(convention), convention=convention)
    return [*judges, Judge(PANEL, "panel", scores, convention=convention)]


def judgement_arrays(
    study: Study, rows: pl.DataFrame, reviewers: Sequence[str], *, pairwise: bool
) -> PairJudgements | ResponseRatings:
    """Judgements as arrays, numbered by the study's tasks and agents."""
    arrays = pair_judgements if pairwise else response_ratings
    return arrays(rows, reviewers=reviewers, tasks=study.tasks, agents=agent_names(study))


def judgements_hash(rows: pl.DataFrame) -> str:
    """A hash of these judgements."""
    return table_hash(rows.select("reviewer", "task", "first", "second", "agent", "value"))


def recorded_scales(study: Study) -> dict[str, list[str]]:
    """The scales on which the study has recorded judgements, sorted, with the reviewers of each in their order."""
    table = study.table("judgements")
    if table is None or not {"reviewer", "format"} <= set(table.columns):
        return {}
    rows = table.select("format", "reviewer").drop_nulls().unique(maintain_order=True)
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
        rows = without_own_family(rows, {}, {agent.agent: agent.family or agent.agent for agent in study.agents})
    said = set(rows["reviewer"])
    heard = [name for name in evidence.reviewers if name in said]
    if not heard:
        raise MetricError(
            "the given reviewers judged only agents of their own family. Add --own-family to count these judgements"
        )
    table = judgement_arrays(study, rows, heard, pairwise=chosen.pairwise)
    settings = {
        "scale": chosen.name,
        "own-family": "judged" if own_family else "left-out",
        "missing": "left-out" if convention == "default" else "0.5" if chosen.pairwise else "0",
        "study": study.fingerprint[:8],
    }
    fusion = "vote" if chosen.pairwise else usual_fusion(convention)
    found = []
    for judge in reviewer_judges(table, convention=convention):
        panel = judge.kind == "panel"
        own = rows if panel else rows.filter(pl.col("reviewer") == judge.name)
        described = {"reviewers": ",".join(heard), "fusion": fusion} if panel else {}
        described |= {**settings, "evidence": f"recorded-{judgements_hash(own)}"}
        found.append(replace(judge, signature=str(Signature(judge.name, described))))
    return found


# --- external scores -------------------------------------------------------------------------------------------------


def given_judges(scores: Given | None, study: Study) -> list[Judge]:
    """External scores as judges. Reports all problems at once: unknown names, repeated rows, bad numbers."""
    found: list[tuple[str, Scores, str]] = []
    if isinstance(scores, Mapping):
        tasks, agents = set(study.tasks), set(agent_names(study))
        for name, one in scores.items():
            found.append((name, one, ""))
            strange = [f"{task!r} and {agent!r}" for task, agent in one if task not in tasks or agent not in agents]
            if strange:
                raise UserError(
                    f"{name}: {len(strange)} of {len(one)} scores are for a task or an agent that is not in "
                    f"{study.name}: {', '.join(strange[:5])}{f' and {len(strange) - 5} more' * (len(strange) > 5)}"
                )
    elif scores is not None:
        with all_at_once("scores") as problems:
            for path in map(Path, [scores] if isinstance(scores, str | Path) else scores):
                if is_table(path):
                    found += [(name, one, path.name) for name, one in _read_scores(path, study, problems).items()]
                else:
                    problems.add(f"no such file; {ALLOWED}", str(path))
    judges = []
    for name, one, file in found:
        rows = [(task, agent, score) for (task, agent), score in sorted(one.items())]
        settings = {"scores": f"given-{evidence_hash(rows)}", **({"file": file} if file else {})}
        signature = str(Signature(name, {**settings, "study": study.fingerprint[:8]}))
        names = {"tasks": study.tasks, "agents": agent_names(study)}
        judges.append(scoring_judge(name, "scores", one, signature=signature, **names).levelled())
    return judges


def _read_scores(path: Path, study: Study, problems: Problems) -> dict[str, dict[tuple[str, str], float | None]]:
    """The scores in a file, by metric."""
    tasks, agents = Names(study.name), Names(study.name)
    tasks.update(numbers(study.tasks))
    agents.update(numbers(agent_names(study)))
    found: dict[str, dict[tuple[str, str], float | None]] = {}
    check = Checking(path.name, problems)
    for chunk in Source(path, path.name).chunks(problems):
        check.rows += len(chunk.rows)
        for line, row in zip(chunk.lines, chunk.rows, strict=True):
            metric = check.optional_name(row, "metric", line) or path.stem
            task, agent = check.name(row, "task", line), check.name(row, "agent", line)
            # a cell may be empty, the column may not be absent
            score = check.optional_number(row, "score", line) if "score" in row else check.number(row, "score", line)
            if task is None or agent is None:
                continue
            # a run's own file guards names that a spreadsheet would compute
            task = task if task in tasks else unguarded(task)
            agent = agent if agent in agents else unguarded(agent)
            if min([tasks.number(task, line), agents.number(agent, line)]) < 0:
                continue
            scores = found.setdefault(metric, {})
            if (task, agent) in scores:
                check.duplicate(f"{metric} already has a score for agent {agent!r} on task {task!r}", line)
            scores[task, agent] = score
    check.finish()
    if not check.rows and not check.broken:
        check.add("no rows. The columns are metric (optional), task, agent and score")
    tasks.report_strangers("task", path.name, problems)
    agents.report_strangers("agent", path.name, problems)
    return found


# --- run folders -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScoredBy:
    """One metric's response scores under one scorer, or in one run."""

    scorer: str
    """The name of the scorer or run."""
    metric: str
    scores: Scores
    signature: str = ""


def run_scores(run: RunFolder) -> list[ScoredBy]:
    """The scores in a run folder, by metric and signature."""
    rows: dict[tuple[str, str], dict[tuple[str, str], float | None]] = {}
    table = run.required_scores().select("metric", "task", "agent", "score", pl.col("signature").fill_null(""))
    for metric, task, agent, score, signature in table.iter_rows():
        rows.setdefault((metric, signature), {})[task, agent] = score
    return [ScoredBy(run.name, metric, scores, signature) for (metric, signature), scores in rows.items()]


def read_run_scores(folders: Sequence[Path | str], *, metrics: Sequence[str] = ()) -> list[ScoredBy]:
    """The scores of several runs of one study, each under the name of its folder. Reports all problems at once.

    ``metrics``: those to compare; empty: all.
    """
    paths = [Path(folder) for folder in folders]
    problems = []
    for path in paths:
        lacking = [name for name in (SCORES, "leaderboard.json") if not (path / name).is_file()]
        if lacking:
            problems.append(
                f"{path} is not a run folder: it has no {' and no '.join(lacking)}. "
                f"Write one with goldless score STUDY --out {path}"
            )
    if len({path.resolve() for path in paths}) < len(paths):
        problems.append("run folders must be different, got one twice")
    if len(paths) < 2:
        problems.append(
            f"at least two run folders are needed, got {len(paths)}. Give another, or one study with two scorers"
        )
    if problems:
        raise UserError("\n".join(problems))
    short = [path.name for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    runs = [RunFolder(path, name) for path, name in zip(paths, names, strict=True)]
    for run in runs:
        run.required("leaderboard")
    if len({run.fingerprint for run in runs}) > 1:
        listed = ", ".join(f"{run.path} ({run.fingerprint[:8]})" for run in runs)
        raise UserError(
            f"the runs are of different studies, or of a study that was changed: {listed}. Compare runs of one study"
        )
    found = [scored for run in runs for scored in run_scores(run)]
    known = list(dict.fromkeys(scored.metric for scored in found))
    strange = [metric for metric in metrics if metric not in known]
    if strange:
        raise UserError(
            f"no run has {', '.join(map(repr, strange))}{nearest(strange[0], known) or '.'} "
            f"Metrics in the runs: {', '.join(known)}"
        )
    return [scored for scored in found if not metrics or scored.metric in metrics]
