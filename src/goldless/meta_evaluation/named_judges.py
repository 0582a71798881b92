"""The judges that a command names: recorded reviewers, and external scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from goldless.errors import MetricError, UserError
from goldless.judging.scales import find_scale
from goldless.meta_evaluation.judges import (
    Judge,
    Scores,
    agent_names,
    judgement_arrays,
    judgements_hash,
    recorded_scales,
    reviewer_judges,
    scoring_judge,
)
from goldless.meta_evaluation.score_files import GivenScores, check_given, read_score_files
from goldless.metrics.chair import usual_fusion
from goldless.metrics.judgement_table import Convention
from goldless.runs.recorded import evidence_hash
from goldless.runs.review_evidence import recorded_review, without_own_family
from goldless.signature import Signature
from goldless.statistics.rank_correlation import levelled
from goldless.studies import Study

Given = str | Path | Sequence[str | Path] | Mapping[str, Scores]


def given_judges(scores: Given | None, study: Study) -> list[Judge]:
    """External scores as judges: files, or scores by metric and (task, agent)."""
    return [_given_judge(one, study) for one in _given(scores, study)]


def _given(scores: Given | None, study: Study) -> list[GivenScores]:
    if scores is None:
        return []
    if isinstance(scores, Mapping):
        return [check_given(name, one, study) for name, one in scores.items()]
    return read_score_files([scores] if isinstance(scores, str | Path) else list(scores), study)


def levelled_judge(judge: Judge) -> Judge:
    """Scores that differ only by rounding are equal."""
    scores = judge.response_scores
    return replace(judge, scores=replace(scores, score=levelled(scores.score)))


def _given_judge(given: GivenScores, study: Study) -> Judge:
    """External scores."""
    rows = [(task, agent, score) for (task, agent), score in sorted(given.scores.items())]
    settings = {"scores": f"given-{evidence_hash(rows)}", **({"file": given.file} if given.file else {})}
    signature = Signature(given.metric, {**settings, "study": study.fingerprint[:8]})
    names = {"tasks": study.tasks, "agents": agent_names(study)}
    return levelled_judge(scoring_judge(given.metric, "scores", given.scores, signature=str(signature), **names))


def recorded_judges(
    study: Study, reviewers: Sequence[str], scale: str | None, *, convention: Convention, own_family: bool
) -> list[Judge]:
    """Recorded reviewers, each alone, and their equal vote where they are several; ``all``: every one on the scale.

    By default judgements on agents of a reviewer's own family are left out, as in a review; the papers keep them.
    """
    if not reviewers:
        return []
    wanted = [] if "all" in reviewers else list(dict.fromkeys(reviewers))
    chosen = find_scale(_scale(study, scale))
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
    of_panel = {"reviewers": ",".join(heard), "fusion": fusion}
    found = []
    for judge in reviewer_judges(table, convention=convention):
        own = rows if judge.kind == "panel" else rows.filter(pl.col("reviewer") == judge.name)
        evidence_settings = {**settings, "evidence": f"recorded-{judgements_hash(own)}"}
        described = {**of_panel, **evidence_settings} if judge.kind == "panel" else evidence_settings
        found.append(replace(judge, signature=str(Signature(judge.name, described))))
    return found


def _scale(study: Study, scale: str | None) -> str:
    """The scale named, or the only one that judgements are on."""
    if scale is not None:
        return scale
    known = list(recorded_scales(study))
    if len(known) == 1:
        return known[0]
    raise UserError(f"choose the scale of the judgements with --scale. {study.name} has {', '.join(known) or 'none'}")


def check_unlike(judges: Sequence[Judge]) -> None:
    """Raise where two judges have one name."""
    names = [judge.name for judge in judges]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise UserError(
            f"names of metrics, reviewers and scores must be unique, got {', '.join(map(repr, twice))} more than once. "
            "Rename one in the column metric of its file, or leave one out"
        )
