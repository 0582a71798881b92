"""The run folder: everything needed to recompute a published number without models or keys."""

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from goldless._version import __version__
from goldless.errors import UserError
from goldless.evidence import VERB, of_other_verbs
from goldless.files import MADE_BY, alone, sweep, write_table, write_text, write_whole
from goldless.reports.document import Unreadable, read_document, write
from goldless.reports.formats import guarded_frame
from goldless.reports.run_folder import RunFolder
from goldless.reports.run_record import Made, MadeBy, Spending
from goldless.runs.evaluation import Evaluation
from goldless.runs.review_outcome import Review
from goldless.studies import Study
from goldless.studies.writing import write_texts

REPORT = "report.html"


def check_writable(folder: Path, study: Study | None = None, *, replaces_evidence: bool = False) -> None:
    """Check before any paid call that results can be written to a folder.

    Raises if it is a study, if it has results of another study, or, with ``replaces_evidence``, if it is the input
    folder.
    """
    made_by = _made_by(folder)
    if replaces_evidence:
        RunFolder(folder).rows("judgements", lambda table: table)  # raises before anything is paid for
    noted = made_by or MadeBy()
    for table in ("tasks", "responses", "labels"):
        if made_by is None and any(folder.glob(f"{table}.*")):
            raise UserError(f"{folder} is a study (it has {table}); results would mix with it. Choose another folder")
    if study is not None and noted.fingerprint not in {"", study.fingerprint}:
        raise UserError(
            f"{folder} has results of another study ({noted.study}), or of this one before it changed. "
            "Choose another folder, or remove that one"
        )
    if replaces_evidence and study is not None and study.path is not None and study.path.resolve() == folder.resolve():
        raise UserError(
            f"{folder} is the input folder; writing there would overwrite its evidence. Choose another folder"
        )
    try_writing(folder, "Choose another folder")


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
    _write_judgements(evidence.judgements, folder, "score")
    for name, table in evidence_tables.items():
        write_table(None if table is None else as_texts(table), folder, name)
    agents = [json.dumps(row, ensure_ascii=False) + "\n" for row in evaluation.source.rows("agents")]
    write_text(folder / "agents.jsonl", "".join(agents))
    write_whole(folder / "pair_scores.parquet", evaluation.score_frame("pairs").write_parquet)
    write_whole(folder / "response_scores.csv", guarded_frame(evaluation.to_polars()).write_csv)
    csv = [board.to_csv() for board in evaluation.boards.values()]
    write_text(folder / "leaderboard.csv", "".join([*csv[:1], *(text.split("\n", 1)[1] for text in csv[1:])]))
    return save_result(
        evaluation.source,
        folder,
        verb="score",
        name="leaderboard",
        data=write(evaluation),
        markdown="\n".join(f"## {name}\n\n{found.to_markdown()}" for name, found in evaluation.metrics.items()),
        spending=evaluation.spending,
    )


def save_review(review: Review, folder: Path | str) -> Path:
    """Write results and evidence, each file atomically."""
    folder = Path(folder)
    check_writable(folder, review.source, replaces_evidence=True)
    _write_judgements(review.judgements, folder, "review")
    write_table(review.answers, folder, "exams")
    text = "\n".join(table.to_markdown() for table in review.tables())
    source, spending = review.source, review.spending
    return save_result(
        source, folder, verb="review", name="review", data=write(review), markdown=text, spending=spending
    )


def _write_judgements(judgements: pl.DataFrame, folder: Path, verb: str) -> None:
    """Replace the judgements of a verb in the table that verbs share; those of others stay."""
    with alone(folder):
        of_others = RunFolder(folder).rows("judgements", lambda table: of_other_verbs(table, verb))
        own = as_texts(judgements).with_columns(pl.lit(verb).alias(VERB))
        write_table(pl.concat([of_others.lazy(), own], how="diagonal_relaxed"), folder, "judgements")


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
    """Record when and with what results were made, beside those of other verbs; write the texts and the report."""
    # a run whose results go nowhere needs no templates in memory
    from goldless.reports.html.page import write_report  # noqa: PLC0415

    before = _made_by(folder) or MadeBy()
    made = {**before.made, verb: Made(datetime.now(UTC).isoformat(timespec="seconds"), tuple(spending))}
    noted = MadeBy(
        goldless=__version__,
        python=platform.python_version(),
        machine=platform.machine(),
        # the name it first had: texts read back from a run folder are called like the folder
        study=before.study or ("" if study is None else study.name),
        fingerprint=before.fingerprint or ("" if study is None else study.fingerprint),
        made=made,
        spending=tuple(row for one in made.values() for row in one.spending),
    )
    write_text(folder / MADE_BY, json.dumps(write(noted), ensure_ascii=False, indent=2) + "\n")
    if study is not None:
        write_texts(study, folder)
    write_report(folder)
    return folder


def report_of(folder: Path) -> Path:
    """Path of the report of a run folder."""
    return folder / REPORT


def _made_by(folder: Path) -> MadeBy | None:
    """The record of a run folder; None if it is not one. Raises UserError if it cannot be read."""
    noted = read_document(folder / MADE_BY, MadeBy)
    if isinstance(noted, Unreadable):
        raise UserError(f"{folder}: {noted}. Without it, nothing is written here: choose another folder")
    return noted


def as_texts(table: pl.LazyFrame | pl.DataFrame) -> pl.LazyFrame:
    """The table with names as plain text columns, which every Parquet reader supports."""
    return table.lazy().with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
