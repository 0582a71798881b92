"""The run folder as everybody reads it: documents, scores, tables and texts. Nothing in it is trusted.

A file that is damaged counts as absent, and ``problems`` says so in one sentence: a report can be made of the rest.
Who cannot do without a file asks for it by ``required``, ``required_scores`` or ``data``, which raise.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, TypeVar

import polars as pl

from goldless.errors import UserError
from goldless.evidence import TABLES, of_verb
from goldless.files import MOST_TABLE_BYTES, POLARS_FAILED, PROGRESS_FILE, UnsafeFileError, safe_file
from goldless.grouped import sum_in_order
from goldless.metrics.metric import PAIRS
from goldless.records import Agent
from goldless.reports.document import Unreadable, read_document, read_object, read_rows
from goldless.reports.findings import REVIEW
from goldless.reports.formats import guarded_frame, unguarded
from goldless.reports.leaderboard import Leaderboard, Leaderboards
from goldless.reports.review import ReviewReport
from goldless.reports.run_record import MadeBy, RunProgress
from goldless.studies import Study, read_study
from goldless.studies.recorded import texts_as_text
from goldless.studies.tables import PARTS, check_tables

SCORES = "response_scores.csv"
KEYS = {"metric": pl.String, "task": pl.String, "agent": pl.String, "score": pl.Float64}
COUNTED = {"asked": pl.Int64, "used": pl.Int64, "signature": pl.String}
"""Columns of the scores that a file need not have."""
SCHEMAS = {**{name: table.columns for name, table in TABLES.items()}, "pair_scores": {"metric": pl.String, **PAIRS}}
EVIDENCE = tuple(name for name, table in TABLES.items() if table.rows)
"""Tables in which failures are counted; what a crash test misses in the last, it counts itself."""
Stamp = tuple[tuple[str, int, int], ...]
"""Names, times and sizes of files: equal as long as nothing was written."""
Found = TypeVar("Found")


def stamp(files: Iterable[Path]) -> Stamp:
    """A value that changes when one of these files is written; missing files are left out."""
    found = []
    for path in files:
        try:
            status = path.stat()
        except OSError:
            continue
        found.append((str(path), status.st_mtime_ns, status.st_size))
    return tuple(found)


@functools.lru_cache(maxsize=256)
def _read(path: Path, name: str, _: Stamp) -> Any:
    return read_document(path, resolve_name(DOCUMENTS[name]))


class RunFolder:
    """A folder with results, or with a run in progress. What was read once is kept, so make a new one to look again."""

    SCORE_COLUMNS: ClassVar = KEYS
    """Columns of the scores of responses, with their types."""
    EVIDENCE: ClassVar = EVIDENCE
    """The tables in which failures are counted."""
    TABLE_COLUMNS: ClassVar = SCHEMAS
    """Columns of the other tables, with their types."""

    def __init__(self, path: Path | str, name: str | None = None) -> None:
        """``name``: as messages and pages call it; by default the folder's."""
        self.path = Path(path)
        self.name = name or self.path.resolve().name
        self._damaged: dict[str, str] = {}
        """A sentence for each table that was looked at and cannot be read, by name."""

    # --- files -------------------------------------------------------------------------------------------------------

    @property
    def scores_file(self) -> Path:
        return self.path / SCORES

    @property
    def progress_file(self) -> Path:
        return self.path / PROGRESS_FILE

    @property
    def in_progress(self) -> bool:
        """True if a command has begun to write to it, whether it is still running or not."""
        return self.progress_file.is_file()

    @property
    def stamp(self) -> Stamp:
        """A value that changes when its scores, texts or evidence are written."""
        tables = (path for name in ("tasks", "responses", *EVIDENCE) for path in self.files(name))
        return stamp((self.scores_file, self.path / "agents.jsonl", *tables))

    @property
    def last_written(self) -> datetime | None:
        """The time of its last result: as its record says, else that of a file; None: there is none."""
        times = []
        for made in self.made_by.made.values():
            with suppress(ValueError, OverflowError):
                times.append(datetime.fromisoformat(made.at).astimezone(UTC))
        written = stamp(self.path / f"{name}.json" for name in (*RESULTS, "progress"))
        return max(times) if times else datetime.fromtimestamp(written[0][1] / 1e9, UTC) if written else None

    # --- documents ---------------------------------------------------------------------------------------------------

    def read(self, name: str) -> Any:
        """The document or result of that name, Unreadable if it is damaged; None: there is no such file."""
        file = self.path / f"{name}.json"
        written = stamp([file])
        return _read(file, name, written) if written else None

    def _found(self, name: str, kind: type[Found]) -> Found | None:
        found = self.read(name)
        return found if isinstance(found, kind) else None

    @property
    def leaderboard(self) -> Leaderboards | None:
        """The scores of metrics; None, as for what follows: there is no such file, or it cannot be read."""
        return self._found("leaderboard", Leaderboards)

    @property
    def review(self) -> ReviewReport | None:
        return self._found("review", ReviewReport)

    @property
    def leaderboard_or_empty(self) -> Leaderboards:
        """The scores of metrics; without any where the folder has none."""
        return self.leaderboard or Leaderboards()

    @property
    def review_or_empty(self) -> ReviewReport:
        """The review; without anything where the folder has none."""
        return self.review or ReviewReport()

    @property
    def progress(self) -> RunProgress | None:
        return self._found("progress", RunProgress)

    @property
    def made_by(self) -> MadeBy:
        return self._found("made_by", MadeBy) or MadeBy()

    def required(self, name: str) -> Any:
        """The document of that name; raises UserError if the file is there and cannot be read."""
        found = self.read(name)
        if isinstance(found, Unreadable):
            advice = "" if found.is_object else ". Run the command that wrote it again"
            raise UserError(f"{self.path}: {found}{advice}")
        return found

    def data(self, name: str) -> dict[str, Any] | None:
        """The document of that name, word for word; raises UserError if the file is there and cannot be read."""
        found = None if self.required(name) is None else read_object(self.path / f"{name}.json")
        if not isinstance(found, dict):
            return None
        # as in a document, NaN counts as absent
        return {key: value for key, value in found.items() if not (isinstance(value, float) and math.isnan(value))}

    @property
    def has_results(self) -> bool:
        """True if there is a file with results, readable or not."""
        return any((self.path / f"{name}.json").is_file() for name in RESULTS)

    @cached_property
    def results(self) -> dict[str, Any]:
        """All results, by file name."""
        found = {name: self.read(name) for name in RESULTS}
        return {name: result for name, result in found.items() if not isinstance(result, Unreadable | None)}

    @property
    def others(self) -> dict[str, Any]:
        """Results of other verbs than score and review by file name, such as ``bias``; all have findings and tables."""
        return {name: result for name, result in self.results.items() if name in OTHERS}

    def _told(self, name: str) -> str:
        """The text that the record, or the first result that has it, gives for a name; empty: none does."""
        told = (getattr(one, name, "") for one in (self.made_by, *self.results.values()))
        return next((said for said in told if said), "")

    @property
    def study_name(self) -> str:
        return self._told("study")

    @property
    def fingerprint(self) -> str:
        return self._told("fingerprint")

    @cached_property
    def unreadable(self) -> tuple[str, ...]:
        """The documents that are there and cannot be read, each in a sentence."""
        return tuple(str(found) for name in DOCUMENTS if isinstance(found := self.read(name), Unreadable))

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """Everything that cannot be read, and results that do not belong together, each in a sentence."""
        _ = self.agent_notes, self.scores, self.failed  # what is damaged is found by reading it
        mixed = []
        prints = {name: said for name, found in self.results.items() if (said := getattr(found, "fingerprint", ""))}
        if len(set(prints.values())) > 1:
            files = ", ".join(f"{name}.json {value[:8]}" for name, value in prints.items())
            mixed = [f"the results belong to different studies, or the study changed in between: {files}"]
        return (*self.unreadable, *self._damaged.values(), *mixed)

    # --- agents and their scores -------------------------------------------------------------------------------------

    @cached_property
    def agent_notes(self) -> tuple[Agent, ...]:
        """The agents, with what is known of each."""
        found = read_rows(self.path / "agents.jsonl", Agent)
        if not isinstance(found, Unreadable):
            return found
        self._damaged["agents"] = str(found)
        return ()

    @property
    def boards(self) -> dict[str, Leaderboard]:
        """The metrics that rank agents, by name."""
        return {} if self.leaderboard is None else self.leaderboard.boards

    @cached_property
    def standings(self) -> dict[str, Leaderboard]:
        """All that ranks agents: the metrics, and the first ranking of the review."""
        reviewed = {} if self.review is None else self.review.boards
        first = list(reviewed.items())[:1]
        return {**self.boards, **{f"{REVIEW}{name}": board for name, board in first if board.rows}}

    @cached_property
    def scores(self) -> pl.DataFrame | None:
        """metric, task, agent, score, asked, used and signature of every response; None: the folder has none."""
        try:
            file = safe_file(self.scores_file, self.path, most_bytes=MOST_TABLE_BYTES)
            table = pl.scan_csv(file, schema_overrides={**KEYS, **COUNTED}, glob=False)
            there = table.collect_schema().names()
            more = [pl.col(name) if name in there else pl.lit(None, kind).alias(name) for name, kind in COUNTED.items()]
            frame = guarded_frame(table.select(*KEYS, *more).collect(), unguarded)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnsafeFileError as error:
            self._damaged[SCORES] = str(error)
            return None
        except (OSError, ValueError, *POLARS_FAILED) as error:
            self._damaged[SCORES] = f"{SCORES} cannot be read as {', '.join(KEYS)} ({_first_line(error)})"
            return None
        return frame.with_columns(pl.col("score").replace([float("inf"), float("-inf"), float("nan")], None))

    def required_scores(self) -> pl.DataFrame:
        """The scores of every response; raises UserError if there are none, or they cannot be read."""
        if self.scores is not None:
            return self.scores
        raise UserError(f"{self.path}: {self._damaged.get(SCORES, f'has no {SCORES}')}. Score the study again")

    @cached_property
    def all_scores(self) -> pl.DataFrame | None:
        """metric, task, agent and score under every standing: for a review, the share of the votes or mean rating."""
        found = [] if self.scores is None else [self.scores.select(*KEYS)]
        reviewed = next((name for name in self.standings if name not in self.boards), None)
        if reviewed is not None and self.review is not None:
            try:
                votes = self.judged_scores.filter(pl.col("metric") == f"{REVIEW}{self.review.scale}")
                found += [votes.select(pl.lit(reviewed).alias("metric"), "task", "agent", "score")] * bool(len(votes))
            except (OSError, ValueError, *POLARS_FAILED):
                pass  # said where failed calls are counted
        return pl.concat(found) if found else None

    @cached_property
    def judged_scores(self) -> pl.DataFrame:
        """Metric (``review: SCALE``), task, agent, score, asked and used: the share of comparisons won, or mean rating.

        On the scale of the review, the reviewers that vote count by their weights; on others, all alike. Raises what
        polars does if the judgements are damaged.
        """
        kinds = {**KEYS, "asked": pl.Int64, "used": pl.Int64}
        table = self.scan("judgements")
        there = set() if table is None else set(table.collect_schema().names())
        if table is None or not {"reviewer", "format", "task", "value"} <= there:
            return pl.DataFrame(schema=kinds)
        table = of_verb(table, "review")
        review, reviewer, weight = self.review, pl.col("reviewer"), pl.lit(1.0)
        if review is not None and review.voters:
            weights = {row.name: row.weight or 1.0 for row in review.reviewers if row.name in review.voters}
            on_scale = pl.col("format") == review.scale
            table = table.filter(~on_scale | reviewer.is_in(list(weights)))
            own = reviewer.replace_strict(weights, default=1.0, return_dtype=pl.Float64)
            weight = pl.when(on_scale).then(own).otherwise(1.0)
        metric, first = pl.concat_str(pl.lit(REVIEW), pl.col("format")), pl.col("value").cast(pl.Float64)
        about = metric.alias("metric"), "task", weight.alias("weight")
        by_response = [  # each judgement once for every response in it
            table.filter(pl.col(name).is_not_null()).select(*about, pl.col(name).alias("agent"), value.alias("value"))
            for name, value in (("first", first), ("second", 1 - first), ("agent", first))
            if name in there
        ]
        value, used = pl.col("value"), pl.col("value").count()
        counted = pl.when(value.is_not_null()).then(pl.col("weight"))
        share = sum_in_order(value * pl.col("weight")) / sum_in_order(counted)
        found = pl.concat(by_response).group_by(*list(KEYS)[:3], maintain_order=True)
        scores = found.agg(pl.when(used > 0).then(share).alias("score"), pl.len().alias("asked"), used.alias("used"))
        return scores.select(pl.col(name).cast(kind) for name, kind in kinds.items()).collect()

    # --- texts and evidence ------------------------------------------------------------------------------------------

    @cached_property
    def study(self) -> Study:
        """Tasks and responses; raises if they cannot be read."""
        check_tables(self.path)
        return read_study(self.path)

    def files(self, table: str) -> list[Path]:
        """The Parquet files of a table in order: NAME.parquet, or the parts in the folder NAME."""
        whole = self.path / f"{table}.parquet"
        return [whole] if whole.exists() else sorted((self.path / table).glob(PARTS))

    def scan(self, table: str) -> pl.LazyFrame | None:
        """A table, with names and texts as text; None: there is none.

        Raises what polars does if it is damaged, and UnsafeFileError if a file of it must not be opened.
        """
        files = [safe_file(file, self.path, most_bytes=MOST_TABLE_BYTES) for file in self.files(table)]
        return texts_as_text(pl.scan_parquet(files, glob=False)) if files else None

    def rows(self, table: str, wanted: Callable[[pl.LazyFrame], pl.LazyFrame]) -> pl.DataFrame:
        """The wanted rows of a table, of which there may be none; raises UserError if it is damaged.

        Columns that it lacks are null.
        """
        every = [pl.LazyFrame(schema=SCHEMAS[table])]
        try:
            found = self.scan(table)
            return wanted(pl.concat([*every, *([] if found is None else [found])], how="diagonal_relaxed")).collect()
        except UnsafeFileError as error:
            raise UserError(f"{self.path}: {error}") from error
        except (OSError, *POLARS_FAILED) as error:
            file = self.files(table)[0]
            raise UserError(f"{file}: cannot be read ({_first_line(error)}). Make the run again") from error

    @cached_property
    def failed(self) -> list[dict[str, Any]]:
        """what, cause and count of missing evidence by table and cause, with model, task and reply of the first."""
        found: list[dict[str, Any]] = []
        for table in EVIDENCE[:-1]:
            try:
                failed = self.failed_rows(table)
                if failed is None:
                    continue
                said = pl.coalesce("message", "reply").alias("example")
                causes = failed.group_by("kind").agg(pl.len(), pl.col("model", "task").first(), said.first())
                causes = causes.rename({"kind": "cause", "len": "count"})
                ordered = causes.sort("count", "cause", descending=[True, False]).collect()
                found += ({"what": TABLES[table].rows, **row} for row in ordered.iter_rows(named=True))
            except UnsafeFileError as error:
                self._damaged[table] = str(error)
            except (OSError, ValueError, *POLARS_FAILED) as error:
                self._damaged[table] = f"{table}.parquet cannot be read ({_first_line(error)})"
        return found

    def failed_rows(self, table: str) -> pl.LazyFrame | None:
        """The failed rows of a table of evidence, as ``failed_rows``; None: it has no failures."""
        rows = self.scan(table)
        return None if rows is None else failed_rows(rows, table)

    @property
    def report(self) -> Path | None:
        """The report; None: there is none, or it must not be opened."""
        with suppress(OSError):
            return safe_file(self.path / "report.html", self.path)
        return None


OTHERS = {
    "crash_test": "goldless.meta_evaluation.crash_test:CrashTest",
    "agreement": "goldless.meta_evaluation.agreement:Agreement",
    "calibration": "goldless.meta_evaluation.calibration:Calibration",
    "bias": "goldless.meta_evaluation.bias:BiasReport",
    "cost": "goldless.meta_evaluation.cost:CostReport",
    "consistency": "goldless.meta_evaluation.consistency:Consistency",
}
"""The classes of other verbs' results, by file name; a class is imported when there is such a file."""
DOCUMENTS = {
    "leaderboard": "goldless.reports.leaderboard:Leaderboards",
    "review": "goldless.reports.review:ReviewReport",
    "progress": "goldless.reports.run_record:RunProgress",
    **OTHERS,
    "made_by": "goldless.reports.run_record:MadeBy",
}
RESULTS = ("leaderboard", "review", *OTHERS)
"""Results, by file name."""


def failed_rows(rows: pl.LazyFrame, table: str) -> pl.LazyFrame | None:
    """The failed rows of a table of evidence in columns that all tables share; None: it has no failures.

    kind, task, the agents (``agent``, ``other``) and model they are about, ``message``, and the ``reply``.
    """
    columns = {
        "kind": ("failure",),
        "task": ("task",),
        "agent": TABLES[table].about,
        "other": ("given", "second"),
        "model": (TABLES[table].model,),
        "message": ("failure_message",),
        "reply": ("output",),
    }
    there = rows.collect_schema().names()
    if "failure" not in there:
        return None
    known = {key: [pl.col(name).cast(pl.String) for name in names if name in there] for key, names in columns.items()}
    cells = [pl.coalesce(*found, pl.lit(None, pl.String)).alias(key) for key, found in known.items()]
    return rows.filter(pl.col("failure").is_not_null()).select(cells)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
