"""What a run folder holds, read without trusting it: JSON documents, agents, scores of responses, failed calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from goldless.errors import UserError

RESULTS = ("leaderboard", "review", "crash_test", "agreement", "bias", "cost", "consistency")
"""Documents that a section shows, by the name of their file."""
BESIDE = ("made_by", "progress", "gre")
EVIDENCE = {
    "logprobs": ("log-probabilities", "scorer"),
    "verdicts": ("verdicts of a critic", "critic"),
    "rewrites": ("rewritten responses", "rewriter"),
    "synopses": ("synopses", "writer"),
    "judgements": ("judgements", "reviewer"),
}
"""Tables of evidence: what their rows are, and the column that says whose."""


@dataclass(frozen=True, slots=True)
class Failed:
    """One cause of missing evidence in one table."""

    what: str
    """What is missing, in words."""
    cause: str
    count: int
    model: str
    """Whose it is, in the example."""
    task: str
    example: str | None
    """What was said or came back; None: nothing was kept."""


@dataclass(frozen=True, slots=True, eq=False)
class RunDocuments:
    """Everything a report is made of."""

    folder: Path
    documents: Mapping[str, Mapping[str, Any]]
    """By the name of the file without ``.json``."""
    agents: tuple[Mapping[str, Any], ...]
    scores: pl.DataFrame | None
    """metric, task, agent, score of every response; None: the folder has none."""
    failed: tuple[Failed, ...]
    problems: tuple[str, ...]
    """What could not be read."""

    def get(self, name: str) -> Mapping[str, Any] | None:
        """A document; None where there is none."""
        return self.documents.get(name)

    @property
    def boards(self) -> dict[str, Mapping[str, Any]]:
        """The metrics that rank agents, by name."""
        metrics = (self.get("leaderboard") or {}).get("metrics", {})
        return {name: found for name, found in metrics.items() if "rows" in found}

    @property
    def study(self) -> str:
        """The study's name, as far as a document tells it."""
        found = (self.documents.get(name, {}).get("study") for name in (*RESULTS, "made_by"))
        return next((str(name) for name in found if name), "study")


def read_run(folder: Path) -> RunDocuments:
    """Read a run folder. Raises where it holds no result at all; anything else that is wrong is noted."""
    problems: list[str] = []
    documents = {}
    for name in (*RESULTS, *BESIDE):
        found = _document(folder / f"{name}.json", problems)
        if found is not None:
            documents[name] = found
    if not any(name in documents for name in RESULTS):
        raise UserError(
            f"{folder}: holds no results to report. One of {', '.join(f'{name}.json' for name in RESULTS)} is "
            "expected, as goldless score --out, goldless review --out or goldless crashtest --out write them."
            + (f" Problems: {'; '.join(problems)}." if problems else "")
        )
    agents = _agents(folder / "agents.jsonl", problems)
    scores = _scores(folder / "response_scores.csv", problems)
    failed = tuple(row for name in EVIDENCE for row in _failed(folder, name, problems))
    return RunDocuments(folder, documents, agents, scores, failed, (*problems, *_mixed(documents)))


def _document(path: Path, problems: list[str]) -> Mapping[str, Any] | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{path.name} cannot be read ({type(error).__name__}: {error})")
        return None
    if not isinstance(data, dict):
        problems.append(f"{path.name} holds {type(data).__name__}, and an object is expected")
        return None
    return data


def _mixed(documents: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Results of different studies in one folder."""
    prints = {
        name: str(document["fingerprint"])
        for name, document in documents.items()
        if name in RESULTS and document.get("fingerprint")
    }
    if len(set(prints.values())) < 2:
        return []
    told = ", ".join(f"{name}.json {value[:8]}" for name, value in prints.items())
    return [f"the results are of different studies, or of one that was changed in between: {told}"]


def _agents(path: Path, problems: list[str]) -> tuple[Mapping[str, Any], ...]:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{path.name} cannot be read ({type(error).__name__}: {error})")
        return ()
    return tuple(row for row in rows if isinstance(row, dict) and isinstance(row.get("agent"), str))


def _scores(path: Path, problems: list[str]) -> pl.DataFrame | None:
    if not path.is_file():
        return None
    kinds = {"metric": pl.String, "task": pl.String, "agent": pl.String, "score": pl.Float64}
    try:
        frame = pl.read_csv(path, columns=list(kinds), schema_overrides=kinds)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        problems.append(f"{path.name} cannot be read as metric, task, agent, score ({_first_line(error)})")
        return None
    return frame.with_columns(pl.col("score").replace([float("inf"), float("-inf"), float("nan")], None))


def _failed(folder: Path, name: str, problems: list[str]) -> list[Failed]:
    """Missing evidence of one table by cause, each with the first example."""
    path = folder / f"{name}.parquet"
    if not path.is_file():
        return []
    what, whose = EVIDENCE[name]
    try:
        table = pl.scan_parquet(path)
        columns = table.collect_schema().names()
        if "failure" not in columns:
            return []
        said = next((column for column in ("failure_message", "output", "text") if column in columns), None)
        first = [
            (pl.col(column) if column in columns else pl.lit(None, pl.String)).first().alias(alias)
            for column, alias in ((whose, "model"), ("task", "task"), (said or "", "said"))
        ]
        rows = (
            table.filter(pl.col("failure").is_not_null())
            .group_by("failure")
            .agg(pl.len().alias("count"), *first)
            .sort("count", "failure", descending=[True, False])
            .collect()
        )
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        problems.append(f"{path.name} cannot be read ({_first_line(error)})")
        return []
    return [
        Failed(what, str(r["failure"]), int(r["count"]), str(r["model"] or ""), str(r["task"] or ""), r["said"])
        for r in rows.to_dicts()
    ]


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
