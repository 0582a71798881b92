"""Exporters, built-in and from packages, and writing with them.

[project.entry-points."goldless.exporters"]
toy = "my_package:toy"
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goldless.errors import UserError, nearest
from goldless.exporting.every_eval_ever import write_eee
from goldless.exporting.hub_results import write_hub
from goldless.exporting.inspect_scores import write_inspect
from goldless.exporting.preference_pairs import PreferencePairs
from goldless.exporting.scored_run import RunExporter, check_free, scored_run
from goldless.exporting.tables import EVENT, CsvTables, write_events, write_markdown, write_schemas
from goldless.plugins import Catalogue
from goldless.reports.run_folder import RunFolder
from goldless.studies import as_study
from goldless.studies.writing import Exporter, StudyFolder


def _shape(value: Any) -> str | None:
    lacking = [name for name in ("exports", "write") if not callable(getattr(value, name, None))]
    lacking += [name for name in ("description", "suffix") if not isinstance(getattr(value, name, None), str)]
    if lacking or isinstance(value, type):
        got = "a class" if isinstance(value, type) else f"one without {lacking[0]}"
        return f"an exporter must be an object with description, suffix, exports and write, got {got}"
    return None


BUILT_IN: Mapping[str, Exporter] = {
    "jsonl": StudyFolder("jsonl"),
    "csv": CsvTables(),
    "parquet": StudyFolder("parquet"),
    "markdown": RunExporter("leaderboards as GitHub-flavoured Markdown, for a model card", ".md", write_markdown),
    "eee": RunExporter("Every Eval Ever: aggregate and instance files of schema 0.3.0", "", write_eee),
    "inspect": RunExporter("Inspect: copies of the run's logs with the scores in them", "", write_inspect),
    "hf-eval-results": RunExporter(
        "Hugging Face Hub: AGENT/.eval_results/NAME.yaml for each model's repository", "", write_hub
    ),
    "dpo-pairs": PreferencePairs(),
    "otel": RunExporter(f"OpenTelemetry: {EVENT} events as OTLP JSON", ".json", write_events),
    "schema": RunExporter("JSON schemas of all files with results", ".json", write_schemas),
}
EXPORTERS: Catalogue[Exporter] = Catalogue("goldless.exporters", BUILT_IN, _shape)


def export(thing: Any, path: str | os.PathLike[str], *, exporter: str | None = None, **options: Any) -> Path:
    """Write a study, or a result that an exporter supports, and return its path.

    ``thing``: a study, or the path of a study or of a run folder. Uses the exporter named, with its own options, or the
    first that can write this object with the path's extension.
    """
    path = Path(path)
    known = EXPORTERS.all()
    if exporter is None:
        found = as_study(thing) if isinstance(thing, str | os.PathLike) else thing
        able = {name: one for name, one in known.items() if one.suffix == path.suffix.lower() and one.exports(found)}
        if not able:
            endings = ", ".join(f"{name} ({one.suffix or 'a folder'})" for name, one in known.items())
            raise UserError(f"no exporter writes a {type(found).__name__} to {path.name}. Exporters: {endings}")
        exporter = next(iter(able))
    else:
        found = exported_thing(thing, exporter)
    chosen: Any = find_exporter(exporter)  # its options are its own
    check_options(exporter, options)
    check_free(path, folder=not writes_file(chosen, found))
    path.parent.mkdir(parents=True, exist_ok=True)
    chosen.write(found, path, **options)
    return path


def find_exporter(name: str) -> Exporter:
    """The exporter of that name."""
    EXPORTERS.refuse_broken(name)
    found = EXPORTERS.get(name)
    if found is None:
        known = EXPORTERS.all()
        raise UserError(f"exporter must be one of {', '.join(known)}, got {name!r}{nearest(name, known)}")
    return found


def exported_thing(source: Any, exporter: str) -> Any:
    """What the exporter writes of a source: the scores of a run folder, or a study."""
    chosen = find_exporter(exporter)
    if not isinstance(source, str | os.PathLike):
        if not chosen.exports(source):
            raise UserError(f"the exporter {exporter!r} does not write a {type(source).__name__}")
        return source
    run, refusal = None, None
    if RunFolder(folder := Path(source)).has_results:
        try:
            run = scored_run(folder)
        except UserError as error:
            refusal = error
    if run is not None and chosen.exports(run):
        return run
    study = as_study(source)
    if chosen.exports(study):
        return study
    raise refusal or UserError(
        f"{exporter} needs a run with scores, and {source} is a study. Score it first: goldless score {source} --out "
        f"RUN, then goldless export {exporter} RUN"
    )


def writes_file(exporter: Exporter, thing: Any) -> bool:
    """Whether the exporter writes one file of this object, or a folder."""
    decides = getattr(exporter, "is_file", None)
    return bool(exporter.suffix) if decides is None else bool(decides(thing))


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an option that the exporter does not take."""
    for option in options:
        if not _takes(find_exporter(name), option):
            takers = [other for other, one in EXPORTERS.all().items() if _takes(one, option)]
            word = f"--{option.replace('_', '-')}"
            raise UserError(f"{word} does not apply to {name}. It applies to: {', '.join(takers) or 'no exporter'}")


def _takes(exporter: Exporter, option: str) -> bool:
    parameters = inspect.signature(exporter.write).parameters
    return option in parameters or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
