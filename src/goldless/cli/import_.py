"""``goldless import``: results of other tools, and plain tables, as a study."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from goldless.cli.command import OUTPUT, FilesArgument, own, verb
from goldless.cli.console import say
from goldless.cli.output import Output

if TYPE_CHECKING:
    from goldless.reports.report_table import ReportTable
    from goldless.studies.reading import StudyFiles


@verb(first=("folder", "importer", "columns", "wide", "repeats"))
def import_(
    files: FilesArgument,
    *,
    folder: Annotated[Path, own("Write the study to this folder.", OUTPUT, "--out FOLDER")],
    output: Output,
) -> None:
    """Make a study of another tool's results, or of a table with any columns.

    Every other verb reads such files directly, too; an imported study is checked once and is faster to read.

    Examples:
      goldless import lm_eval results/ --out study
      goldless import promptfoo results.json --out study
      goldless import table answers.csv --columns task=id,agent=model,text=output --out study
    """
    from goldless.studies import import_study, write_study
    from goldless.studies.reading import StudyFiles
    from goldless.studies.summary import import_summary
    from goldless.studies.writing import check_target

    assert isinstance(files, StudyFiles)
    paths, options = _with_format(files)
    check_target(folder, overwrite=False)
    study = import_study(paths, **options)
    write_study(study, folder, format="parquet")
    summary = {**import_summary(study), "folder": str(folder)}
    output.print_tables([_table(summary)], lambda: summary)
    for note in summary["notes"]:
        say(f"note: {note}", style="yellow")
    say(f"study: {folder}")
    say(f"next: goldless score {quote(str(folder))}")


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
