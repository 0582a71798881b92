"""Exporters, built-in and from packages, and writing with them.

[project.entry-points."goldless.exporters"]
toy = "my_package:toy"
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goldless.errors import UserError, nearest
from goldless.exporting.every_eval_ever import write_eee
from goldless.exporting.inspect_scores import write_inspect
from goldless.exporting.preference_pairs import has_pairs, write_pairs
from goldless.exporting.scored_run import ScoredRun, check_free, scored_run
from goldless.exporting.tables import EVENT, write_csv, write_events, write_hub, write_markdown, write_schemas
from goldless.plugins import Catalogue
from goldless.reports.run_folder import RunFolder
from goldless.studies import Study, as_study
from goldless.studies.writing import Exporter, StudyFolder


def _shape(value: Any) -> str | None:
    lacking = [name for name in ("exports", "write") if not callable(getattr(value, name, None))]
    lacking += [name for name in ("description", "suffix") if not isinstance(getattr(value, name, None), str)]
    if lacking or isinstance(value, type):
        got = "a class" if isinstance(value, type) else f"one without {lacking[0]}"
        return f"an exporter must be an object with description, suffix, exports and write, got {got}"
    return None


def _is_run(thing: Any) -> bool:
    return isinstance(thing, ScoredRun)


@dataclass(frozen=True, slots=True)
class Format:
    """An exporter of ours."""

    description: str
    suffix: str
    write: Callable[..., None]
    """Of what is exported and a path; its keywords are the exporter's options."""
    exports: Callable[[Any], bool] = _is_run
    is_file: Callable[[Any], bool] | None = None
    """True if one file is written of this object; False: a folder; None: the suffix tells."""


BUILT_IN: Mapping[str, Exporter] = {
    "jsonl": StudyFolder("jsonl"),
    "csv": Format(
        "a study as a folder of .csv tables; a run as one table of responses and scores",
        "",
        write_csv,
        exports=lambda thing: isinstance(thing, Study | ScoredRun),
        is_file=_is_run,
    ),
    "parquet": StudyFolder("parquet"),
    "markdown": Format("leaderboards as GitHub-flavoured Markdown, for a model card", ".md", write_markdown),
    "eee": Format("Every Eval Ever: aggregate and instance files of schema 0.3.0", "", write_eee),
    "inspect": Format("Inspect: copies of the run's logs with the scores in them", "", write_inspect),
    "hf-eval-results": Format(
        "Hugging Face Hub: AGENT/.eval_results/NAME.yaml for each model's repository", "", write_hub
    ),
    "dpo-pairs": Format(
        "preference pairs for DPO: prompt, chosen, rejected as JSON lines", ".jsonl", write_pairs, has_pairs
    ),
    "otel": Format(f"OpenTelemetry: {EVENT} events as OTLP JSON", ".json", write_events),
    "schema": Format("JSON schemas of all files with results", ".json", write_schemas),
}
EXPORTERS: Catalogue[Exporter] = Catalogue("goldless.exporters", BUILT_IN, _shape)


def export(thing: Any, path: str | os.PathLike[str], *, exporter: str | None = None, **options: Any) -> Path:
    """Write a study, or a result that an exporter supports, and return its path.

    ``thing``: a study, or the path of a study or of a run folder. Uses the exporter named, with its own options, or the
    first that can write this object with the path's extension.
    """
    path = Path(path)
    if exporter is None:
        thing, known = as_study(thing) if isinstance(thing, str | os.PathLike) else thing, EXPORTERS.all()
        able = (name for name, one in known.items() if one.suffix == path.suffix.lower() and one.exports(thing))
        exporter = next(able, None)
        if exporter is None:
            endings = ", ".join(f"{name} ({one.suffix or 'a folder'})" for name, one in known.items())
            raise UserError(f"no exporter writes a {type(thing).__name__} to {path.name}. Exporters: {endings}")
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
    """The object that the exporter writes of a source: the scores of a run folder, or a study."""
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
    """True if the exporter writes one file of this object; False: a folder."""
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
