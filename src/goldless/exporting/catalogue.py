"""Exporters, built-in and from packages, and writing with them.

[project.entry-points."goldless.exporters"]
toy = "my_package:toy"
"""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from goldless.errors import UserError, check_known
from goldless.exporting.inspect_scores import write_inspect
from goldless.exporting.preference_pairs import has_pairs, write_pairs
from goldless.exporting.scored_run import BuiltInExporter, ScoredRun, check_free, scored_run
from goldless.exporting.tables import write_csv, write_markdown, write_schemas
from goldless.files import temporary_prefix
from goldless.plugins import Catalogue, must_have
from goldless.reports.run_folder import RunFolder
from goldless.studies import Study, as_study, write_study
from goldless.studies.writing import Exporter


def _study_folder(suffix: Literal["jsonl", "parquet"]) -> BuiltInExporter:
    return BuiltInExporter(
        f"a study as a folder of .{suffix} tables",
        "",
        lambda study, path: write_study(study, path, format=suffix),
        exports=lambda thing: isinstance(thing, Study),
    )


BUILT_IN: Mapping[str, Exporter] = {
    "jsonl": _study_folder("jsonl"),
    "csv": BuiltInExporter(
        "a study as a folder of .csv tables; a run as one table of responses and scores",
        "",
        write_csv,
        exports=lambda thing: isinstance(thing, Study | ScoredRun),
        is_file=lambda thing: isinstance(thing, ScoredRun),
    ),
    "parquet": _study_folder("parquet"),
    "markdown": BuiltInExporter("leaderboards as GitHub-flavoured Markdown, for a model card", ".md", write_markdown),
    "inspect": BuiltInExporter("Inspect: copies of the run's logs with the scores in them", "", write_inspect),
    "dpo-pairs": BuiltInExporter(
        "preference pairs for DPO: prompt, chosen, rejected as JSON lines", ".jsonl", write_pairs, has_pairs
    ),
    "schema": BuiltInExporter("JSON schemas of all files with results", ".json", write_schemas),
}
_SHAPE = must_have("an exporter", methods=("exports", "write"), texts=("description", "suffix"))
EXPORTERS: Catalogue[Exporter] = Catalogue("goldless.exporters", BUILT_IN, _SHAPE)


def export(source: Any, path: str | os.PathLike[str], *, exporter: str, **options: Any) -> Path:
    """Write a study, or a result that the exporter supports, and return its path.

    ``source``: a study or result, or the path of a study or run folder; ``options``: the exporter's own.
    """
    path = Path(path)
    chosen, thing, is_file = _prepared(source, exporter, options)
    check_free(path, folder=not is_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    chosen.write(thing, path, **options)
    return path


def exported_text(source: Any, *, exporter: str, **options: Any) -> str:
    """The same as text; raises if the exporter writes a folder."""
    chosen, thing, is_file = _prepared(source, exporter, options)
    if not is_file:
        raise UserError(f"{exporter} writes a folder. Name it with --out")
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
        file = Path(folder) / f"out{chosen.suffix}"
        chosen.write(thing, file, **options)
        return file.read_text(encoding="utf-8")


def _prepared(source: Any, name: str, options: Mapping[str, Any]) -> tuple[Any, Any, bool]:
    """The exporter of that name, the object that it writes of a source, and whether that is one file."""
    chosen, known = EXPORTERS.get(name), EXPORTERS.all()
    check_known([name], known, "unknown export format", "Formats")
    assert chosen is not None
    for option in options:
        if not _takes(chosen, option):
            takers = ", ".join(other for other, one in known.items() if _takes(one, option))
            word = f"--{option.replace('_', '-')}"
            raise UserError(f"{word} does not apply to {name}. It applies to: {takers or 'no exporter'}")
    thing, decides = _exported(source, name, chosen), getattr(chosen, "is_file", None)
    return chosen, thing, bool(chosen.suffix) if decides is None else bool(decides(thing))


def _exported(source: Any, exporter: str, chosen: Exporter) -> Any:
    """The object that the exporter writes of a source: the scores of a run folder, or a study."""
    if not isinstance(source, str | os.PathLike):
        if not chosen.exports(source):
            raise UserError(f"the exporter {exporter!r} does not write a {type(source).__name__}")
        return source
    refusal = None
    if RunFolder(Path(source)).has_results:
        try:
            run = scored_run(Path(source))
            if chosen.exports(run):
                return run
        except UserError as error:
            refusal = error
    study = as_study(source)
    if chosen.exports(study):
        return study
    raise refusal or UserError(
        f"{exporter} needs a run with scores, and {source} is a study. Score it first: goldless score {source} --out "
        f"RUN, then goldless export {exporter} RUN"
    )


def _takes(exporter: Exporter, option: str) -> bool:
    parameters = inspect.signature(exporter.write).parameters
    return option in parameters or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
