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
import polars as pl

from goldless.errors import UserError
from goldless.exporting.scored_run import REVIEW, ScoredRun
from goldless.files import write_text
from goldless.judging.judges import find_judge
from goldless.metrics.judgement_table import pair_judgements, response_ratings
from goldless.runs.review_evidence import recorded_review
from goldless.studies import Study

Pair = dict[str, Any]
"""task, chosen_agent, rejected_agent, their scores if there are any, and difference; the chosen is better or equal."""


class PreferencePairs:
    """Pairs of responses to one task whose scores, or whose judges' votes, are at least a margin apart."""

    description = "preference pairs for DPO: prompt, chosen, rejected as JSON lines"
    suffix = ".jsonl"

    def exports(self, thing: Any) -> bool:
        return isinstance(thing, ScoredRun) or (isinstance(thing, Study) and "judgements" in thing.recorded)

    def write(
        self,
        thing: Any,
        path: Path,
        *,
        metric: str | None = None,
        margin: float | None = None,
        decided: bool = False,
        scale: str | None = None,
    ) -> None:
        """Write every pair at least ``margin`` apart; from judgements, ``scale`` names theirs.

        ``decided``: only responses of agents whose difference over all tasks is decided, the better agent's chosen.
        """
        if isinstance(thing, ScoredRun) and scale is None and metric != REVIEW and thing.scores is not None:
            name = metric or next(iter(thing.response_scores()["metric"]))
            found, board = _by_scores(thing.response_scores(name)), thing.ranked[name]
            unit, signature = board.unit, board.signature
            if decided:
                found = _decided(thing, name, found)
                margin = margin or min(pair["difference"] for pair in found)
        elif metric is not None and metric != REVIEW:
            raise UserError(f"pairs from judgements have no metric, got --metric {metric!r}. Leave it out")
        elif decided:
            raise UserError(
                "--decided is about the scores of a run. Of judgements, --margin 1 keeps the pairs on which all "
                "reviewers agree in both orders"
            )
        else:
            found, unit, signature = _by_judgements(thing, scale)
        made = {"unit": unit, **({"signature": signature} if signature else {})}
        rows = _rows(thing.study if isinstance(thing, ScoredRun) else thing, _far_apart(found, margin, unit))
        write_text(path, "".join(json.dumps({**row, **made}, ensure_ascii=False) + "\n" for row in rows))


def _pair(task: str, chosen: str, rejected: str, difference: float, **scores: float) -> Pair:
    return {"task": task, "chosen_agent": chosen, "rejected_agent": rejected, **scores, "difference": difference}


def _by_scores(scores: pl.DataFrame) -> list[Pair]:
    """Every two scored responses to a task."""
    found = []
    for (task,), rows in scores.drop_nulls("score").group_by("task", maintain_order=True):
        for one, two in combinations(rows.select("agent", "score").iter_rows(), 2):
            (better, high), (worse, low) = sorted((one, two), key=lambda row: -row[1])
            found.append(_pair(str(task), better, worse, high - low, chosen_score=high, rejected_score=low))
    return found


def _decided(run: ScoredRun, metric: str, found: list[Pair]) -> list[Pair]:
    """The pairs in which the response of an agent that is shown to be better has the higher score."""
    better = {row.agent: set(row.better_than or ()) for row in run.ranked[metric].rows}
    kept = [p for p in found if p["difference"] > 0 and p["rejected_agent"] in better.get(p["chosen_agent"], ())]
    if not kept:
        raise UserError(
            f"{run.path}: {metric} decides between no two agents, so --decided leaves no pair. Score more tasks, or "
            "choose pairs by --margin"
        )
    return kept


def _by_judgements(thing: ScoredRun | Study, scale: str | None) -> tuple[list[Pair], str, str]:
    """Every two judged responses; of a review, by those who passed its exam. Comparisons count in both orders alone."""
    study, review = (thing.study, thing.review) if isinstance(thing, ScoredRun) else (thing, None)
    signature, reviewers = ("", ()) if review is None else (review.signature, review.panel.reviewers)
    scale = scale or (None if review is None else review.scale)
    table = study.table("judgements")
    formats = [] if table is None or "format" not in table.columns else sorted(table["format"].unique().to_list())
    if scale is None and len(formats) != 1:
        raise UserError(f"--scale must name the scale of the judgements. They are on: {', '.join(formats) or 'none'}")
    chosen = find_judge(scale or formats[0])
    evidence = recorded_review(study, scale=chosen, reviewers=reviewers, convention="default")
    if not chosen.pairwise:
        ratings = response_ratings(evidence.judgements)
        means = ratings.value.mean(axis=0)  # NaN where a reviewer is missing
        rows = [(t, a, means[i, j]) for i, t in enumerate(ratings.tasks) for j, a in enumerate(ratings.agents)]
        frame = pl.DataFrame(rows, {"task": pl.String, "agent": pl.String, "score": pl.Float64}, orient="row")
        return _by_scores(frame.fill_nan(None)), "points", signature
    pairs = pair_judgements(evidence.judgements)
    value = pairs.value.mean(axis=(0, 2))  # NaN where a reviewer or an order is missing
    found = []
    for task, low, high, share in zip(pairs.task, pairs.low, pairs.high, value, strict=True):
        if not np.isnan(share):
            first, second = (low, high) if share >= 0.5 else (high, low)
            names = pairs.agents[first], pairs.agents[second]
            found.append(_pair(pairs.tasks[task], *names, float(abs(2 * share - 1))))
    return found, "share of votes", signature


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


def _rows(study: Study, pairs: list[Pair]) -> Iterator[Pair]:
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
