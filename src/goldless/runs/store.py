"""The run folder: everything needed to recompute a published number without models or keys."""

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from goldless._version import __version__
from goldless.errors import UserError
from goldless.evidence import VERDICTS
from goldless.files import Frames, sweep, write_table, write_text, write_whole
from goldless.metrics.label_information import GroupInformation, Information
from goldless.metrics.metric import pair_means
from goldless.reports.documents.fields import read_object
from goldless.reports.documents.tables import review_markdown
from goldless.reports.spreadsheets import guarded_frame
from goldless.runs.evaluation import Evaluation, MetricOutcome, RaterOutcome, pair_frames, response_frame
from goldless.runs.opening import Spending
from goldless.runs.review_results import Review, review_as_json
from goldless.runs.rounds import stopped_as_json
from goldless.studies import Study
from goldless.studies.writing import write_texts
from goldless.templates import FIELDS

MADE_BY = "made_by.json"
REPORT = "report.html"


def check_writable(
    folder: Path, study: Study | None = None, *, replaces_evidence: bool = False, option: str = "--out"
) -> None:
    """Check before any paid call that results can be written to a folder.

    Raises if it is a study, if it has results of another study, or, with ``replaces_evidence``, if it is the input
    folder. ``option``: the option that names the folder.
    """
    made_by = _made_by(folder)
    for table in ("tasks", "responses", "labels"):
        if not made_by and any(folder.glob(f"{table}.*")):
            raise UserError(f"{folder} is a study (it has {table}); results would mix with it. Choose another folder")
    if study is not None and made_by.get("fingerprint", study.fingerprint) != study.fingerprint:
        raise UserError(
            f"{folder} has results of another study ({made_by.get('study')}), or of this one before it changed. "
            "Choose another folder, or remove that one"
        )
    if replaces_evidence and study is not None and study.path is not None and study.path.resolve() == folder.resolve():
        raise UserError(
            f"{folder} is the input folder; writing there would overwrite its evidence. Choose another folder"
        )
    try_writing(folder, f"Choose another folder with {option}")


def try_writing(folder: Path, advice: str) -> None:
    """Check that files can be written to a folder, creating it if needed; ``advice`` ends the message if not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"{folder}: cannot write ({error.strerror}). {advice}") from error


def save_run(evaluation: Evaluation, folder: Path | str) -> Path:
    """Write results and evidence, each file atomically; the same results give the same bytes.

    The evidence has the names and columns of a study's tables, in parts, so that the folder can itself be scored again
    with ``--recorded``, by these metrics or by others over the same evidence, without a model.
    """
    folder = Path(folder)
    check_writable(folder, evaluation.source, replaces_evidence=True)
    evidence = evaluation.evidence
    evidence_tables = {
        "logprobs": None if evidence.with_tokens is None else evidence.with_tokens(),
        "control_logprobs": evidence.control,
        "verdicts": evidence.verdicts,
        "critic_contrasts": evidence.contrasts,
        "rewrites": evidence.rewrites,
        "synopses": evidence.synopses,
    }
    if len(evidence.judgements):  # those of a review in the same folder stay
        evidence_tables["judgements"] = evidence.judgements
    for name, table in evidence_tables.items():
        write_table(None if table is None else as_texts(table), folder, name)
    if "verdicts" in evidence.large:
        parts = (as_texts(rows.select(*VERDICTS)).collect() for rows in evidence.large["verdicts"])
        write_table(parts, folder, "verdicts")
    agents = [{k: v for k, v in asdict(agent).items() if v is not None} for agent in evaluation.agents]
    write_text(folder / "agents.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in agents))
    write_whole(folder / "pair_scores.parquet", partial(_write_pairs, evaluation))
    write_whole(folder / "response_scores.csv", guarded_frame(response_frame(evaluation.outcomes.values())).write_csv)
    boards = [outcome.leaderboard for outcome in evaluation.outcomes.values()]
    csv = "".join(board.to_csv() if i == 0 else board.to_csv().split("\n", 1)[1] for i, board in enumerate(boards))
    write_text(folder / "leaderboard.csv", csv)
    tables = [f"## {board.metric}\n\n{board.to_markdown()}" for board in boards]
    if evaluation.raters is not None:
        tables.append(f"## {evaluation.raters.metric}\n\n{evaluation.raters.table.to_markdown()}")
    write_text(folder / "leaderboard.md", "\n".join(tables))
    write_text(folder / "leaderboard.json", json.dumps(as_json(evaluation), ensure_ascii=False, indent=2) + "\n")
    return finish_folder(folder, "score", evaluation.source, evaluation.spending)


def _write_pairs(evaluation: Evaluation, path: Path) -> None:
    parts = pair_frames(evaluation.outcomes.values())
    if all(isinstance(outcome.pair_table, pl.DataFrame) for outcome in evaluation.outcomes.values()):
        pl.concat(parts).write_parquet(path)
        return
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import, and needed only where pairs do not fit memory

    with pq.ParquetWriter(path, next(parts).to_arrow().schema, compression="zstd") as writer:
        for rows in parts:
            writer.write_table(rows.to_arrow())


def save_review(review: Review, folder: Path | str) -> Path:
    """Write results and evidence, each file atomically."""
    folder = Path(folder)
    check_writable(folder, review.source, replaces_evidence=True)
    write_table(as_texts(review.judgements), folder, "judgements")
    write_table(review.answers, folder, "exams")
    data = review_as_json(review)
    write_text(folder / "review.json", json.dumps(data, ensure_ascii=False, indent=2) + "\n")
    write_text(folder / "review.md", review_markdown(data))
    return finish_folder(folder, "review", review.source, review.spending)


def save_result(
    study: Study | None,
    folder: Path | str,
    *,
    verb: str,
    name: str,
    data: Mapping[str, Any],
    markdown: str,
    spending: Sequence[Spending] = (),
) -> Path:
    """Write a result as ``NAME.json`` and ``NAME.md``, beside other results of the same study.

    ``study``: None if unknown, for example if only its scores are available.
    """
    folder = Path(folder)
    check_writable(folder, study)
    text = json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False)
    write_text(folder / f"{name}.json", text + "\n")
    write_text(folder / f"{name}.md", markdown)
    return finish_folder(folder, verb, study, spending)


def finish_folder(folder: Path, verb: str, study: Study | None, spending: Sequence[Spending]) -> Path:
    """Record how results were made, and write the study's texts and the report."""
    # a run whose results go nowhere needs no templates in memory
    from goldless.reports.html.page import write_report  # noqa: PLC0415

    note_made_by(folder, verb, study, spending)
    if study is not None:
        write_texts(study, folder)
    write_report(folder)
    return folder


def report_of(folder: Path) -> Path:
    """Path of the report of a run folder."""
    return folder / REPORT


def note_made_by(folder: Path, verb: str, study: Study | None, spending: Sequence[Spending]) -> None:
    """Record when and with what results were made, next to the records of other verbs."""
    before = _made_by(folder)
    made = before.get("made", {})
    rows = [asdict(row) for row in spending]
    made[verb] = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "spending": rows}
    known = {} if study is None else {"study": study.name, "fingerprint": study.fingerprint}
    # the name it first had: texts read back from a run folder are called like the folder
    known |= {name: before[name] for name in ("study", "fingerprint") if name in before}
    noted = {
        "goldless": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        **known,
        "made": made,
        "spending": [row for one in made.values() for row in one["spending"]],
    }
    write_text(folder / MADE_BY, json.dumps(noted, ensure_ascii=False, indent=2) + "\n")


def noted_spending(folder: Path) -> tuple[dict[str, Any], ...]:
    """What the results in a run folder cost, a row per verb and model. Raises UserError if it is not a run folder."""
    made = _made_by(folder).get("made")
    if not isinstance(made, dict):
        raise UserError(f"{folder} is not a run folder (it has no {MADE_BY}). Give a folder written with --out")
    return tuple({"verb": name, **row} for name, one in made.items() for row in one.get("spending", ()))


def _made_by(folder: Path) -> dict[str, Any]:
    """The record of a run folder; empty if it is not one."""
    noted = read_object(folder / MADE_BY)
    return noted if isinstance(noted, dict) else {}


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """The evaluation as plain data: what ``--json`` prints. Nothing in it depends on when or how fast it ran."""
    agents = [agent.agent for agent in evaluation.agents]
    metrics = {
        name: _outcome(outcome, agents, evaluation.settings.get("groups"))
        for name, outcome in evaluation.outcomes.items()
    }
    if evaluation.raters is not None:
        metrics[evaluation.raters.metric] = _raters(evaluation.raters)
    return {
        "study": evaluation.study,
        "fingerprint": evaluation.fingerprint,
        "scorer": None if evaluation.scorer is None else evaluation.scorer.as_dict(),
        "models": {part: identity.as_dict() for part, identity in evaluation.models.items()},
        "canaries": None if evaluation.canaries is None else asdict(evaluation.canaries),
        "settings": dict(evaluation.settings),
        "options": dict(evaluation.options),
        "prompts": dict(evaluation.prompts),
        "templates": {
            name: {field: getattr(template, field) for field in FIELDS}
            for name, template in evaluation.templates.items()
        },
        "asked": evaluation.asked,
        "open": evaluation.open,
        "complete": evaluation.complete,
        "failures": dict(sorted(evaluation.failures.items())),
        "tasks_without_peers": list(evaluation.tasks_without_peers),
        "findings": [asdict(finding) for finding in evaluation.findings],
        **({} if evaluation.stopped is None else {"until": stopped_as_json(evaluation.stopped)}),
        "metrics": metrics,
    }


def _outcome(outcome: MetricOutcome, agents: list[str], groups: str | None) -> dict[str, Any]:
    return {
        **asdict(outcome.leaderboard),
        **({} if outcome.groups is None else {**asdict(outcome.groups), "groups": groups}),
        "notes": [*outcome.leaderboard.notes, *(outcome.groups.notes if outcome.groups is not None else ())],
        **({"summary": dict(outcome.summary)} if outcome.summary else {}),
        "by_wording": {name: dict(scores) for name, scores in outcome.by_wording.items()},
        "influence": [asdict(row) for row in outcome.influence],
        "peer_graph": None if outcome.peer_graph is None else asdict(outcome.peer_graph),
        "matrix": {
            "agents": agents,
            "means": pair_matrix(outcome.pair_table, agents),
        },
    }


def _group(found: GroupInformation) -> dict[str, Any]:
    own = {"group": found.group, "raters": found.raters, "low": found.low, "high": found.high}
    return {**own, **asdict(found.information), "excess": found.information.excess}


def _raters(outcome: RaterOutcome) -> dict[str, Any]:
    def numbers(found: Information | None) -> dict[str, Any]:
        return {} if found is None else {**asdict(found), "excess": found.excess}

    return {
        "metric": outcome.metric,
        "signature": outcome.signature,
        "criteria": {
            criterion or "": {
                **numbers(found.overall),
                "raters": [{"rater": r.rater, "partners": r.partners, **numbers(r.information)} for r in found.raters],
                "pairs": [
                    {"first": p.first, "second": p.second, "items": p.items, **numbers(p.information)}
                    for p in found.pairs
                ],
                "permutations": found.permutations,
                **({"groups": [_group(one) for one in found.groups]} if found.groups else {}),
            }
            for criterion, found in outcome.by_criterion.items()
        },
    }


def pair_matrix(pairs: Frames, agents: Sequence[str]) -> list[list[float | None]]:
    """Mean over tasks of each ordered pair: [agent, peer], None if there is none."""
    known = {(agent, peer): score for agent, peer, score, _ in pair_means(pairs).iter_rows()}
    return [[known.get((agent, peer)) for peer in agents] for agent in agents]


def as_texts(table: pl.LazyFrame | pl.DataFrame) -> pl.LazyFrame:
    """The table with names as plain text columns, which every Parquet reader supports."""
    return table.lazy().with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
