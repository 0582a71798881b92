"""``goldless study import``: results of other tools, and plain tables, as a study."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from goldless.cli.command import OUTPUT, verb
from goldless.cli.console import say
from goldless.cli.output import Output
from goldless.runs.option_forms import REQUIRED, option

if TYPE_CHECKING:
    from goldless.reports.report_table import ReportTable
    from goldless.studies.reading import StudyFiles


@dataclass(frozen=True, kw_only=True)
class Importing:
    """Options of ``import_``."""

    folder: Path = option(REQUIRED, "Write the study to this folder.", "--out FOLDER", group=OUTPUT)


@verb(first=("folder", "importer", "columns", "wide", "repeats"))
def import_(files: Any, own: Importing, output: Output) -> None:
    """Make a study of another tool's results, or of a table with any columns.

    Every other verb reads such files directly, too; an imported study is checked once and is faster to read.

    Examples:
      goldless study import lm_eval results/ --out study
      goldless study import promptfoo results.json --out study
      goldless study import table answers.csv --columns task=id,agent=model,text=output --out study
    """
    from goldless.studies import import_study, write_study
    from goldless.studies.reading import StudyFiles
    from goldless.studies.summary import import_summary
    from goldless.studies.writing import check_target

    assert isinstance(files, StudyFiles)
    paths, options = _with_format(files)
    check_target(own.folder, overwrite=False)
    study = import_study(paths, **options)
    write_study(study, own.folder, format="parquet")
    summary = {**import_summary(study), "folder": str(own.folder)}
    output.print_tables([_table(summary)], lambda: summary)
    for note in summary["notes"]:
        say(f"note: {note}", style="yellow")
    say(f"study: {own.folder}")
    say(f"next: goldless score {quote(str(own.folder))}")


def _with_format(files: StudyFiles) -> tuple[list[str], dict[str, Any]]:
    """The paths, and the options with the format if the first word names one."""
    from goldless.studies.importers import IMPORTERS

    first, *others = files.paths
    if others and not Path(first).exists() and IMPORTERS.get(first) is not None:
        return others, {**files.options, "importer": first}
    return list(files.paths), dict(files.options)


def _table(summary: dict[str, Any]) -> ReportTable:
    """Counts of what was read."""
    from goldless.reports.report_table import Column, ReportTable

    lost = {f"missing: {cause}": count for cause, count in summary["missing"].items()}
    counts = {name: summary[name] for name in ("tasks", "agents", "responses")} | lost | summary["also"]
    rows = tuple({"what": what, "count": count} for what, count in counts.items())
    columns = (Column("what", "what"), Column("count", "count", "count"))
    return ReportTable(f"Read as {summary['format']}", columns, rows)
