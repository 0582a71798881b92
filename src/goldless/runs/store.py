"""The run folder: everything a published number needs to be recomputed, without a model and without keys."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from goldless._version import __version__
from goldless.errors import UserError
from goldless.runs.evaluation import Evaluation, response_frame

LOGPROB_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "scorer": pl.String,
    "template": pl.String,
    "rewriter": pl.String,
    "task": pl.String,
    "target": pl.String,
    "given": pl.String,
    "synopsis": pl.String,
    "sum_logprob_nats": pl.Float64,
    "tokens": pl.Int64,
    "logprobs_nats": pl.List(pl.Float64),
    "failure": pl.String,
    "failure_message": pl.String,
}


def check_writable(folder: Path) -> None:
    """Find out before anything is paid for whether results can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        message = f"{folder}: cannot be written to ({error.strerror}). Give another folder with --out."
        raise UserError(message) from error


def save_run(evaluation: Evaluation, folder: Path | str) -> Path:
    """Write results and evidence. Every file is whole or not there; the same results give the same bytes."""
    folder = Path(folder)
    check_writable(folder)
    _replace(folder / "evidence_logprobs.parquet", lambda p: _logprobs(evaluation).write_parquet(p))
    if evaluation.rewrites:
        _replace(folder / "evidence_rewrites.parquet", lambda p: _rewrites(evaluation).write_parquet(p))
    else:
        # a run into the same folder may have had some
        (folder / "evidence_rewrites.parquet").unlink(missing_ok=True)
    _replace(folder / "pair_scores.parquet", lambda p: _pairs(evaluation).write_parquet(p))
    _replace(folder / "response_scores.csv", lambda p: response_frame(evaluation.outcomes.values()).write_csv(p))
    boards = [outcome.leaderboard for outcome in evaluation.outcomes.values()]
    csv = "".join(board.to_csv() if i == 0 else board.to_csv().split("\n", 1)[1] for i, board in enumerate(boards))
    _text(folder / "leaderboard.csv", csv)
    _text(folder / "leaderboard.md", "\n".join(f"## {board.metric}\n\n{board.to_markdown()}" for board in boards))
    _text(folder / "leaderboard.json", json.dumps(as_json(evaluation), ensure_ascii=False, indent=2) + "\n")
    made_by = {
        "goldless": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "spending": [asdict(row) for row in evaluation.spending],
    }
    _text(folder / "made_by.json", json.dumps(made_by, ensure_ascii=False, indent=2) + "\n")
    return folder


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """The evaluation as plain data: what ``--json`` prints. Nothing in it depends on when or how fast it ran."""
    return {
        "study": evaluation.study,
        "fingerprint": evaluation.fingerprint,
        "scorer": evaluation.scorer.as_dict(),
        "canaries": None if evaluation.canaries is None else asdict(evaluation.canaries),
        "settings": dict(evaluation.settings),
        "asked": evaluation.asked,
        "open": evaluation.open,
        "complete": evaluation.complete,
        "failures": dict(sorted(evaluation.failures.items())),
        "tasks_without_peers": list(evaluation.tasks_without_peers),
        "metrics": {name: asdict(outcome.leaderboard) for name, outcome in evaluation.outcomes.items()},
    }


def _logprobs(evaluation: Evaluation) -> pl.DataFrame:
    rows = [
        (
            row.scorer,
            row.template,
            row.rewriter,
            row.task,
            row.target,
            row.given,
            row.synopsis,
            row.sum_nats,
            None if row.logprobs_nats is None else len(row.logprobs_nats),
            row.logprobs_nats,
            None if row.failure is None else row.failure.kind,
            None if row.failure is None else row.failure.message,
        )
        for row in evaluation.logprobs
    ]
    return pl.DataFrame(rows, schema=LOGPROB_SCHEMA, orient="row")


def _rewrites(evaluation: Evaluation) -> pl.DataFrame:
    rows = [
        (row.rewriter, row.task, row.agent, row.text, None if row.failure is None else row.failure.kind)
        for row in evaluation.rewrites
    ]
    names = ("rewriter", "task", "agent", "text", "failure")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def _pairs(evaluation: Evaluation) -> pl.DataFrame:
    rows = [
        (outcome.metric, pair.task, pair.agent, pair.peer, pair.score, pair.missing)
        for outcome in evaluation.outcomes.values()
        for pair in outcome.pairs
    ]
    names = ("metric", "task", "agent", "peer", "score", "missing")
    schema = [(name, pl.Float64 if name == "score" else pl.String) for name in names]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _text(path: Path, text: str) -> None:
    _replace(path, lambda p: p.write_text(text, encoding="utf-8"))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(aside)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
