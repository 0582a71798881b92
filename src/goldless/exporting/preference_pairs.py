"""Preference pairs for training (DPO and relatives): prompt, chosen and rejected, one JSON object per line."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from goldless.arrays import FloatArray, IntArray
from goldless.errors import UserError
from goldless.exporting.scored_run import REVIEW, ScoredRun
from goldless.files import write_text
from goldless.judging.judges import find_judge
from goldless.metrics.chair import panel_scores, panel_verdicts
from goldless.metrics.judgement_table import pair_judgements, response_ratings
from goldless.runs.review_evidence import recorded_review, without_own_family
from goldless.studies import Study

Pair = dict[str, Any]
"""task, chosen_agent, rejected_agent, their scores if there are any, and difference; the chosen is better or equal."""


def has_pairs(thing: Any) -> bool:
    """True for a run, and for a study with judgements."""
    return isinstance(thing, ScoredRun) or (isinstance(thing, Study) and "judgements" in thing.recorded)


def write_pairs(
    thing: ScoredRun | Study,
    path: Path,
    *,
    metric: str | None = None,
    margin: float | None = None,
    decided: bool = False,
    scale: str | None = None,
) -> None:
    """Write every pair of responses to a task whose scores, or whose judges' votes, are at least ``margin`` apart.

    ``decided``: only responses of agents whose difference over all tasks is decided, the better agent's chosen.
    ``scale``: names that of the judgements.
    """
    if isinstance(thing, ScoredRun) and scale is None and metric != REVIEW and thing.scores is not None:
        scores = thing.response_scores(metric)
        name = scores["metric"][0]
        scores, board = scores.filter(metric=name), thing.ranked[name]
        scores = thing.scores_of_single_responses(scores, "are in no pair")
        by_task = scores.select("task", "agent", "score").partition_by("task", maintain_order=True)
        found = [pair for rows in by_task for pair in _by_scores(rows.rows())]
        unit, signature = board.unit, board.signature
        if decided:
            better = {row.agent: set(row.better_than or ()) for row in board.rows}
            found = [
                p for p in found if p["difference"] > 0 and p["rejected_agent"] in better.get(p["chosen_agent"], ())
            ]
            if not found:
                raise UserError(
                    f"{thing.path}: {name} decides between no two agents, so --decided leaves no pair. Score more "
                    "tasks, or choose pairs by --margin"
                )
            margin = margin or min(pair["difference"] for pair in found)
    elif metric is not None and metric != REVIEW:
        raise UserError(f"pairs from judgements have no metric, got --metric {metric!r}. Leave it out")
    elif decided:
        raise UserError(
            "--decided is about the scores of a run. Of judgements, --margin 1 keeps the pairs on which all reviewers "
            "agree in both orders"
        )
    else:
        found, unit, signature = _by_judgements(thing, scale)
    made = {"unit": unit, **({"signature": signature} if signature else {})}
    study = thing.study if isinstance(thing, ScoredRun) else thing
    rows = _with_texts(study, _far_apart(found, margin, unit))
    write_text(path, "".join(json.dumps({**row, **made}, ensure_ascii=False) + "\n" for row in rows))


def _pair(task: str, chosen: str, rejected: str, difference: float, **scores: float) -> Pair:
    return {"task": task, "chosen_agent": chosen, "rejected_agent": rejected, **scores, "difference": difference}


def _by_scores(scores: list[tuple[str, str, float]]) -> Iterator[Pair]:
    """Every two of the scored responses to a task, given as task, agent and score."""
    for pair in combinations(scores, 2):
        (task, better, high), (_, worse, low) = sorted(pair, key=lambda row: -row[2])
        yield _pair(task, better, worse, high - low, chosen_score=high, rejected_score=low)


def _by_judgements(thing: ScoredRun | Study, scale: str | None) -> tuple[list[Pair], str, str]:
    """Every two judged responses, by the panel of a review with its weights, or by all reviewers alike.

    A reviewer's comparison counts where it said something in every order that it was asked. In a study, judgements on
    agents of the reviewer's own family do not count, as in a review.
    """
    study, review = (thing.study, thing.review) if isinstance(thing, ScoredRun) else (thing, None)
    signature = "" if review is None else review.signature
    reviewers = () if review is None else review.panel.reviewers
    weights = None
    if review is not None and scale in {None, review.scale}:
        weights = {name: weight for name, weight in review.panel.weights.items() if weight is not None} or None
    scale = scale or (None if review is None else review.scale)
    table = study.table("judgements")
    formats = [] if table is None or "format" not in table.columns else sorted(table["format"].unique().to_list())
    if scale is None and len(formats) != 1:
        raise UserError(f"--scale must name the scale of the judgements. They are on: {', '.join(formats) or 'none'}")
    chosen = find_judge(scale or formats[0])
    judgements = recorded_review(study, scale=chosen, reviewers=reviewers, convention="default").judgements
    if isinstance(thing, Study):
        judgements = without_own_family(judgements, study, {})
    pairs: list[Pair] = []
    if not chosen.pairwise:
        panel = panel_scores(response_ratings(judgements), weights=weights, normalisation="raw")
        _tell_missing(panel.asked, panel.score, "responses have no rating")
        for task, means in zip(panel.tasks, panel.score.tolist(), strict=True):
            rated = zip(panel.agents, means, strict=True)
            pairs += _by_scores([(task, agent, mean) for agent, mean in rated if not np.isnan(mean)])
        return pairs, "points", signature
    verdicts = panel_verdicts(pair_judgements(judgements), weights=weights)
    _tell_missing(verdicts.asked, verdicts.margin, "pairs have no verdict in every order that was asked")
    for task, low, high, margin in zip(verdicts.task, verdicts.low, verdicts.high, verdicts.margin, strict=True):
        if not np.isnan(margin):
            first, second = (low, high) if margin >= 0 else (high, low)
            names = verdicts.agents[first], verdicts.agents[second]
            pairs.append(_pair(verdicts.tasks[task], *names, float(abs(margin))))
    return pairs, "share of votes", signature


def _tell_missing(asked: IntArray, values: FloatArray, lacking: str) -> None:
    """Warn how many values that were asked for are missing."""
    missing = int(((asked > 0) & np.isnan(values)).sum())
    if missing:
        warnings.warn(f"{missing:,} of {int((asked > 0).sum()):,} {lacking} and are left out", stacklevel=4)


def _far_apart(found: list[Pair], margin: float | None, unit: str) -> list[Pair]:
    """The pairs at least the margin apart; raises if there is no margin, or no pair."""
    if not found:
        raise UserError("no task has two responses with scores, so there are no pairs")
    differences = [pair["difference"] for pair in found]
    if margin is None or not margin > 0:
        raise UserError(
            f"dpo-pairs needs --decided, or --margin, the smallest difference in {unit} that makes a pair, greater "
            f"than 0{'' if margin is None else f', got {margin:g}'}. Half of the {len(found):,} pairs differ by "
            f"{median(differences):.3g} or more"
        )
    if max(differences) < margin:
        raise UserError(
            f"--margin {margin:g} leaves no pair: the largest difference is {max(differences):.3g} {unit}. Choose a "
            "smaller one"
        )
    return [pair for pair in found if pair["difference"] >= margin]


def _with_texts(study: Study, pairs: list[Pair]) -> Iterator[Pair]:
    """The pairs with their texts; without those of a task without a prompt, and two equal texts are not a pair."""
    lacking = sum(not study.task(pair["task"]).prompt for pair in pairs)
    if lacking == len(pairs):
        raise UserError(f"{study.name}: no task has a prompt, and a preference pair needs one. Add a column prompt")
    if lacking:
        warnings.warn(f"{lacking} of {len(pairs)} pairs are left out: their task has no prompt", stacklevel=2)
    for pair in pairs:
        prompt = study.task(pair["task"]).prompt
        texts = [study.response(pair["task"], pair[which]) for which in ("chosen_agent", "rejected_agent")]
        chosen, rejected = (None if one is None else one.text for one in texts)
        if prompt and chosen is not None and rejected is not None and chosen != rejected:
            yield {"prompt": prompt, "chosen": chosen, "rejected": rejected, **pair}
