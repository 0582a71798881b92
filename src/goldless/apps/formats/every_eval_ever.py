"""Every Eval Ever, schema 0.3.0: one aggregate file per agent, with its responses in a file beside it."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl

from goldless import __version__
from goldless.errors import UserError
from goldless.exporting.scored_run import BuiltInExporter, ScoredRun

SCHEMA = "0.3.0"
Relationship = Literal["first_party", "third_party", "collaborative", "other"]
RELATIONSHIPS: tuple[Relationship, ...] = get_args(Relationship)
CONTROLS = ("length",)
"""Metrics that are no measure of quality, exported by name alone."""
ATTRIBUTION = {"turn_idx": 0, "source": "output.raw", "extraction_method": "whole response", "is_terminal": True}
NO_GOLD = "this metric has no gold standard: is_correct is required by the schema and means nothing here"


def write_eee(
    run: ScoredRun,
    path: Path,
    *,
    metric: str | None = None,
    organization: str = "unknown",
    relationship: Relationship = "other",
) -> None:
    """Write ``data/STUDY/DEVELOPER/MODEL/UUID.json`` and ``UUID_samples.jsonl`` for every agent with a score."""
    if relationship not in RELATIONSHIPS:
        raise UserError(f"--relationship must be one of {', '.join(RELATIONSHIPS)}, got {relationship!r}")
    source = {"source_type": "evaluation_run", "source_organization_name": organization}
    source["evaluator_relationship"] = relationship
    boards = {name: board for name, board in run.chosen(metric).items() if metric is not None or name not in CONTROLS}
    if not boards:
        raise UserError(
            f"{run.path} has no scores but those of {', '.join(CONTROLS)}, which does not measure "
            f"quality, so eee leaves it out. To export it all the same, add --metric {CONTROLS[0]}"
        )
    responses = None
    if run.scores is not None:
        of_boards = run.scores.filter(pl.col("metric").is_in(list(boards)))
        responses = run.with_texts(run.scores_of_single_responses(of_boards, "have no line in the files of samples"))
    files: dict[str, list[str]] = {}
    for agent in dict.fromkeys(row.agent for board in boards.values() for row in board.rows):
        rows = {name: next((row for row in board.rows if row.agent == agent), None) for name, board in boards.items()}
        scored = {name: row for name, row in rows.items() if row is not None and row.score is not None}
        if scored:
            files |= _agent_files(run, agent, scored, source, responses)
    ScoredRun.write_files(path, files)


def _agent_files(
    run: ScoredRun,
    agent: str,
    rows: Mapping[str, Any],
    source: Mapping[str, str],
    responses: pl.DataFrame | None,
) -> Iterator[tuple[str, list[str]]]:
    # the same identifier for the same results, of the form that the schema asks for
    parts = "\0".join([run.made_by.fingerprint, agent, *(run.ranked[name].signature for name in rows)])
    name = uuid.UUID(bytes=hashlib.sha256(parts.encode()).digest()[:16], version=4)
    developer, slash, model = agent.partition("/")
    place = (run.study_name, developer if slash else "unknown", model if slash else agent)
    stem = "/".join(["data", *map(ScoredRun.file_name, place), str(name)])
    now = str(time.time())
    identity = f"{run.study_name}/{agent}/{now}"
    lines: list[str] = []
    if responses is not None:
        lines = list(_instances(run, responses.filter(pl.col("agent") == agent), identity))
    data = {
        "schema_version": SCHEMA,
        "evaluation_id": identity,
        **({"evaluation_timestamp": run.made_at} if run.made_at else {}),
        "retrieved_timestamp": now,
        "source_metadata": source,
        "eval_library": {"name": "goldless", "version": run.made_by.goldless or __version__},
        "model_info": _model(agent),
        "evaluation_results": [_result(run, name, row) for name, row in rows.items()],
    }
    if lines:
        data["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": f"{stem}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256("".join(lines).encode()).hexdigest(),
            "total_rows": len(lines),
        }
        yield f"{stem}_samples.jsonl", lines
    yield f"{stem}.json", [json.dumps(data, ensure_ascii=False, indent=2) + "\n"]


def _model(name: str, **details: str) -> dict[str, Any]:
    developer, slash, _ = name.partition("/")
    known = {"developer": developer} if slash else {}
    unknown = {"deployment_type": "unknown", "model_availability": "unknown"}
    return {"name": name, "id": name, **known, "additional_details": {**unknown, **details}}


def _result(run: ScoredRun, name: str, row: Any) -> dict[str, Any]:
    board = run.ranked[name]
    settings = board.settings
    uncertainty: dict[str, Any] = {"num_samples": row.estimate.n}
    if row.estimate.low is not None and row.estimate.high is not None:
        uncertainty["confidence_interval"] = {
            "lower": row.estimate.low,
            "upper": row.estimate.high,
            "confidence_level": board.level,
            "method": settings.get("interval", "bootstrap over tasks"),
        }
    if (resamples := settings.get("resamples", "")).isdigit():
        uncertainty["num_bootstrap_samples"] = int(resamples)
    counts = {"rank": row.rank, "asked": row.asked, "used": row.used, "missing": row.missing}
    low, high = run.bounds(name) or ("-Infinity", "Infinity")
    judges, fingerprint = _judges(run, name, settings), {"fingerprint": run.made_by.fingerprint}
    return {
        "evaluation_result_id": f"goldless.{name}",
        "evaluation_name": run.study_name,
        "source_data": {"dataset_name": run.study_name, "source_type": "other", "additional_details": fingerprint},
        "metric_config": {
            "metric_id": f"goldless.{name}",
            "metric_name": name,
            "metric_unit": board.unit,
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": low,
            "max_score": high,
            **({"llm_scoring": judges} if judges else {}),
            "additional_details": {"signature": board.signature},
        },
        "score_details": {
            "score": row.score,
            "details": {key: str(value) for key, value in counts.items() if value is not None},
            "uncertainty": uncertainty,
        },
    }


def _judges(run: ScoredRun, name: str, settings: Mapping[str, str]) -> dict[str, Any] | None:
    """The critic of TVD-MI, or the reviewers who voted; None if no model judged."""
    judges = [{"model_info": _model(row.model or row.name), "weight": row.weight} for row in run.voters(name)]
    if judges:
        return {"judges": judges, "input_prompt": run.review_question, "aggregation_method": "weighted_average"}
    scores = run.leaderboard
    if scores is None or "critic" not in settings or "critic" not in scores.models:
        return None
    critic = scores.models["critic"]
    judge = {"model_info": _model(critic.name, provider=critic.provider, revision=critic.revision)}
    return {"judges": [judge], "input_prompt": "\n\n".join(scores.prompts.values()) or settings.get("prompt", "")}


def _instances(run: ScoredRun, responses: pl.DataFrame, identity: str) -> Iterator[str]:
    """One line per response of an agent and metric; a missing score has no line: the schema wants a number."""
    for row in responses.drop_nulls("text").iter_rows(named=True):
        prompt, reference = row["prompt"] or "", [row["reference"]] if row["reference"] else []
        line = {
            "schema_version": SCHEMA,
            "evaluation_id": identity,
            "model_id": row["agent"],
            "evaluation_name": run.study_name,
            "evaluation_result_id": f"goldless.{row['metric']}",
            "sample_id": row["task"],
            "sample_hash": hashlib.sha256((prompt + "".join(reference)).encode()).hexdigest(),
            "interaction_type": "single_turn",
            "input": {"raw": prompt, "reference": reference},
            "output": {"raw": [row["text"]]},
            "answer_attribution": [ATTRIBUTION | {"extracted_value": row["text"]}],
            "evaluation": {"score": row["score"], "is_correct": False},
            "metadata": {"is_correct": NO_GOLD},
        }
        yield json.dumps(line, ensure_ascii=False) + "\n"


EVERY_EVAL_EVER = BuiltInExporter("Every Eval Ever: aggregate and instance files of schema 0.3.0", "", write_eee)
