"""Runs of the studio: drop a file, see what is in it and what a score would cost, start it, stop it, delete it."""

from __future__ import annotations

import functools
import re
import secrets
import shutil
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from aiohttp import web
from aiohttp.web_request import FileField
from multidict import MultiMapping

from goldless.apps.studio.site import PageNotFoundError, Studio, checked_run_name, refuse_code
from goldless.audit.texts import study_warnings
from goldless.concurrency import in_own_thread
from goldless.errors import GoldlessError, StudyError, UserError
from goldless.metrics.catalogue import METRICS
from goldless.runs.estimate import plan_study
from goldless.runs.option_forms import declared
from goldless.runs.options import DEFAULT_METRICS, Options
from goldless.runs.plan import with_default_metrics
from goldless.studies import Study, import_study
from goldless.studies.importers.log import IMPORTED, import_summary
from goldless.studies.recorded import check_inside

MOST_BYTES = 200_000_000
LONGEST_NAME = 120
COLUMNS = ("task", "agent", "text", "prompt")
"""Columns of a plain table that can be named on the page."""
OFFERED = ("gem-raw", "mi", "bartscore", "gptscore", "tvd-mi", "rouge-l", "bleu", "length")
"""Metrics on the page, besides the default ones; the command line has more."""
ASKED = {one.flags[0].lstrip("-"): (name, one) for name, one in declared(Options).items() if one.flags}
"""The options of a run by their names in a form: those of the command line."""
Given = MultiMapping[Any]


# --- the files -------------------------------------------------------------------------------------------------------


class Checked(NamedTuple):
    """The study in the files, or the problems with them."""

    study: Study | None = None
    summary: Mapping[str, Any] = {}
    warnings: Sequence[str] = ()
    problems: Sequence[str] = ()


def _check(studio: Studio, given: Given, id: str) -> Checked:  # noqa: A002 - as the address calls it
    """The files that were dropped together, read with the columns that the page names."""
    return _checked(_files(studio, id), tuple(_columns(given).items()), wide=bool(given.get("wide")))


@functools.lru_cache(maxsize=4)
def _checked(files: tuple[Path, ...], columns: tuple[tuple[str, str], ...], *, wide: bool) -> Checked:
    options: dict[str, Any] = {"columns": {name: [column] for name, column in columns}} if columns else {}
    try:
        study = import_study(files, **options | ({"wide": True} if wide else {}))
        check_inside(study.recorded_tables, study.name)
    except StudyError as error:
        return Checked(problems=[str(problem) for problem in error.problems])
    except GoldlessError as error:
        return Checked(problems=[str(error)])
    return Checked(study, import_summary(study), tuple(study_warnings(study)))


def _columns(given: Given) -> dict[str, str]:
    """The columns of a plain table that have other names."""
    named = {name: str(given.get(f"column-{name}", "")).strip() for name in COLUMNS}
    return {name: column for name, column in named.items() if column}


def _files(studio: Studio, id: str) -> tuple[Path, ...]:  # noqa: A002
    folder = studio.folder / "files" / id
    if not re.fullmatch("[0-9a-f]{16}", id) or not folder.is_dir():
        raise PageNotFoundError("these files are not here (any more). Drop them again")
    return tuple(sorted(path.resolve() for path in folder.iterdir()))


def _study(studio: Studio, given: Given, id: str) -> Study:  # noqa: A002
    found = _check(studio, given, id)
    if found.study is None:
        raise UserError(f"the files cannot be read: {found.problems[0]}")
    return found.study


def drop_page(studio: Studio, _: Given) -> str:
    """The page to drop a file on."""
    return studio.page("new.html", most=MOST_BYTES // 1_000_000)


def keep_files(studio: Studio, given: Given) -> web.Response:
    """Keep the files of a form in a folder of their own, and show what is in them."""
    with ExitStack() as closing:
        fields = [field for field in given.getall("file", []) if isinstance(field, FileField) and field.filename]
        for field in fields:
            closing.callback(field.file.close)
        _check_names([field.filename for field in fields])
        id = secrets.token_hex(8)  # noqa: A001
        folder = studio.folder / "files" / id
        folder.mkdir(parents=True)
        for field in fields:
            with (folder / field.filename).open("xb") as file:
                shutil.copyfileobj(field.file, file)
    return studio.see(f"/new/{id}")


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise UserError("no file was sent. Choose one, or drop it on the page")
    if len(set(names)) < len(names):
        raise UserError("two files have the same name. Drop one of them under another name")
    for name in names:
        if Path(name).name != name or "\\" in name or name.startswith(".") or not name.isprintable():
            raise UserError(
                f"a file's name must not have a path, a leading dot or control characters, got {name[:200]!r}"
            )
        if len(name.encode(errors="replace")) > LONGEST_NAME:
            raise UserError(f"a file's name must have at most {LONGEST_NAME} bytes, got {name[:200]!r}")


# --- the plan --------------------------------------------------------------------------------------------------------


def read_choices(given: Given) -> tuple[Options, list[str]]:
    """The options that a form gives, and the same as words of a command line."""
    metrics = [*dict.fromkeys(str(name) for name in given.getall("metric", []))]
    if unknown := [name for name in metrics if name not in (DEFAULT_METRICS, *OFFERED)]:
        raise UserError(f"metric must be one of {', '.join((DEFAULT_METRICS, *OFFERED))}, got {unknown[0]!r}")
    typed = {name: str(given.get(name, "")).strip() for name in ("scorer", "critic", "budget", "recorded")}
    values: dict[str, Any] = {}
    words = []
    for flag, text in ({"metric": ",".join(metrics)} | typed).items():
        name, option = ASKED[flag]
        if text:
            values[name] = name == "recorded" or option.parse([text] if name == "metrics" else text)
            words.append(f"--{flag}" if name == "recorded" else f"--{flag}={text}")
    refuse_code(words)
    return Options.of(**values), words


def checked_page(studio: Studio, given: Given, id: str) -> str:  # noqa: A002
    """The page with the contents of the files and the choices for a run."""
    found, files = _check(studio, given, id), _files(studio, id)
    study, (chosen, _) = found.study, read_choices(given)
    plain = re.sub(r"[^\w.+-]+", "-", study.name if study is not None else files[0].stem).strip("-. ")[:60] or "run"
    taken = {path.name for path in studio.root.iterdir()}
    numbered = (plain if number == 1 else f"{plain}-{number}" for number in range(1, len(taken) + 3))
    return studio.page(
        "checked.html",
        id=id,
        files=[path.name for path in files],
        found=found,
        given=given,
        columns={name: _columns(given).get(name, "") for name in COLUMNS},
        chosen=chosen,
        defaults=Options(),
        options={flag: option for flag, (_, option) in ASKED.items()},
        offered={metric: METRICS[metric].partition(";")[0] for metric in OFFERED},
        usual=() if study is None else with_default_metrics(study, Options()).scoring.metrics,
        has_evidence=study is not None and any(table != IMPORTED for table in study.recorded),
        name=given.get("name") or next(name for name in numbered if name not in taken),
        query=urlencode([*given.items()], errors="surrogatepass"),
    )


_PLANNING = threading.Lock()


def plan_page(studio: Studio, given: Given, id: str) -> str:  # noqa: A002
    """Calls, cost and time of what is chosen."""
    try:
        options = read_choices(given)[0].changed(journal=studio.journal)
        study = _study(studio, given, id)
        with _PLANNING, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            # a page that is looked at downloads nothing
            planned = in_own_thread(functools.partial(plan_study, may_download=False), study, options)
    except GoldlessError as error:
        return studio.page("_plan.html", problem=str(error))
    notes = (*dict.fromkeys(str(one.message) for one in told), *planned.notes)
    known = _check(studio, given, id).warnings
    shown = [note for note in notes if note.removeprefix("warning: ") not in known]
    return studio.page("_plan.html", parts=planned.together, notes=shown)


# --- the run ---------------------------------------------------------------------------------------------------------


def start_run(studio: Studio, given: Given, id: str) -> web.Response:  # noqa: A002
    """Start ``goldless score`` on the files."""
    name = checked_run_name(str(given.get("name", "")))
    _study(studio, given, id)
    words = read_choices(given)[1]
    if (studio.root / name).exists():
        raise UserError(f"there is a run {name!r} already. Choose another name")
    words += [f"--columns={column}={other}" for column, other in _columns(given).items()]
    words += ["--wide"] * bool(given.get("wide")) + [f"--journal={studio.journal.resolve()}"]
    studio.children.start(name, ["score", *map(str, _files(studio, id)), *words])
    return studio.see(str(studio.links.to("run", name)))


def change_run(studio: Studio, _: Given, name: str, *, go_on: bool) -> web.Response:
    """Continue a run that was started here, or stop it in good order."""
    act = studio.children.go_on if go_on else studio.children.stop
    act(name)
    return studio.see(str(studio.links.to("run", name)))


def ask_deletion(studio: Studio, _: Given, name: str) -> str:
    """The page that asks before a run is deleted."""
    run = studio.run(name)
    size = sum(path.lstat().st_size for path in run.path.rglob("*") if not path.is_dir())
    return studio.page("delete.html", folder=run.path, run=studio.summary(run), size=size)


def delete_run(studio: Studio, _: Given, name: str) -> web.Response:
    """Delete a run's folder, never outside the folder of runs, and forget its command.

    It leaves the list at once: it is moved to the studio's folder before it is removed.
    """
    run = studio.run(name)
    if studio.summary(run).state == "running":
        raise UserError(f"the run {name} is in progress. Stop it before you delete it")
    if run.path.is_symlink() or run.path.resolve().parent != studio.root.resolve():
        raise UserError(f"{run.path} is a link to a folder elsewhere, which is not deleted. Remove the link yourself")
    away = studio.folder / "deleted" / secrets.token_hex(8)
    try:
        away.parent.mkdir(parents=True, exist_ok=True)
        run.path.rename(away)
        shutil.rmtree(away)
    except OSError as error:
        raise UserError(f"{run.path} cannot be deleted ({error.strerror}). Delete the folder yourself") from error
    studio.children.forget(name)
    return studio.see("/")
