"""Response scores from run folders, to compare runs without a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from goldless.errors import UserError, nearest
from goldless.meta_evaluation.consistency import ScoredBy
from goldless.metrics.metric import ResponseScore

SCORES = "response_scores.csv"
SCHEMA = {
    "metric": pl.String,
    "task": pl.String,
    "agent": pl.String,
    "score": pl.Float64,
    "asked": pl.Int64,
    "used": pl.Int64,
    "signature": pl.String,
}


def read_run_scores(folders: Sequence[Path | str], *, metrics: Sequence[str] = ()) -> list[ScoredBy]:
    """The scores of several runs of one study, each under the name of its folder. All problems are told at once.

    ``metrics``: those to compare; none: all there are.
    """
    paths = [Path(folder) for folder in folders]
    problems = [_problem(path) for path in paths]
    if len({path.resolve() for path in paths}) < len(paths):
        problems.append("a run folder is named twice: name different runs")
    if len(paths) < 2:
        problems.append(f"{len(paths)} run folder came; name at least two, or one study with two scorers")
    if any(problems):
        raise UserError("\n".join(problem for problem in problems if problem))
    fingerprints = {path: _fingerprint(path) for path in paths}
    if len(set(fingerprints.values())) > 1:
        told = ", ".join(f"{path} ({print_[:8]})" for path, print_ in fingerprints.items())
        raise UserError(
            f"the runs are of different studies, or of one that was changed: {told}; compare runs of the same"
        )
    short = [path.name for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    found = [scored for path, name in zip(paths, names, strict=True) for scored in _scores(path, name)]
    known = list(dict.fromkeys(scored.metric for scored in found))
    strange = [metric for metric in metrics if metric not in known]
    if strange:
        hints = "; ".join(f"{metric!r}{nearest(metric, known)}" for metric in strange)
        raise UserError(f"no run has {hints}. Metrics in the runs: {', '.join(known)}.")
    return [scored for scored in found if not metrics or scored.metric in metrics]


def _problem(folder: Path) -> str | None:
    lacking = [name for name in (SCORES, "leaderboard.json") if not (folder / name).is_file()]
    if not lacking:
        return None
    return f"{folder}: no run folder, {' and '.join(lacking)} not there; goldless score STUDY --out {folder} writes one"


def _fingerprint(folder: Path) -> str:
    try:
        return str(json.loads((folder / "leaderboard.json").read_text(encoding="utf-8"))["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder}/leaderboard.json: cannot be read ({error!r}); score the study again") from error


def _scores(folder: Path, name: str) -> list[ScoredBy]:
    try:
        frame = pl.read_csv(folder / SCORES, schema_overrides=SCHEMA)
        rows: dict[tuple[str, str], list[ResponseScore]] = {}
        for row in frame.select(*SCHEMA).iter_rows(named=True):
            response = ResponseScore(row["task"], row["agent"], row["score"], row["asked"], row["used"])
            rows.setdefault((row["metric"], row["signature"]), []).append(response)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UserError(
            f"{folder / SCORES}: cannot be read as {', '.join(SCHEMA)} ({error}); score the study again"
        ) from error
    return [ScoredBy(name, metric, responses, signature) for (metric, signature), responses in rows.items()]
