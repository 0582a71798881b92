"""The Python functions: ``goldless.evaluate`` and its siblings, one per verb, made from the verb's declaration.

``api.pyi`` tells type checkers what they take; ``make stubs`` writes it from the same declarations.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_origin

from goldless.cli.command import Reading, Verb
from goldless.cli.main import find_verb
from goldless.errors import UserError
from goldless.runs.option_forms import REQUIRED, declared, defaults, from_arguments, keywords, refuse_unknown
from goldless.runs.options import Options

VERBS = {
    "evaluate": "score",
    "crash_test": "crashtest",
    "consistency": "compare --rankings",
    "cost": "plan --cost",
    **{
        name: name
        for name in (*("agree", "bias", "calibrate", "compare", "explain", "gate", "plan", "review", "select"),)
    },
}
"""Functions and their verbs."""
REWARDING = ("metrics", "scorer", "templates", "control_tasks", "seed", "budget_usd", "price", "journal")
"""Options for asking a scorer for rewards."""


def __getattr__(name: str) -> Any:
    if name not in VERBS:
        raise AttributeError(f"module 'goldless.api' has no attribute {name!r}")
    made = function(find_verb(VERBS[name]), name)
    globals()[name] = made
    return made


def function(verb: Verb, name: str) -> Callable[..., Any]:
    """A verb as a Python function of that name."""
    declarations = declared(verb.verb_options)
    others = [name for name in defaults(Options) if name not in declared(Options)]
    shared = keywords(Options, (*verb.takes, *others))
    mine = keywords(verb.verb_options, (name for name, one in declarations.items() if not one.command_only))
    reading = dict(declared(Reading)) if verb.study else {}
    signature = _signature(verb, {verb.verb_options: mine, Options: shared})

    def call(*places: Any, **by_name: Any) -> Any:
        given = signature.bind_partial(*places).arguments | by_name
        study = given.pop("study", None)
        refuse_unknown(name, given, {**shared, **mine, **reading})
        files = {key: given[key] for key in reading if given.get(key)}
        given_verb_options = {key: one for key, one in given.items() if key in mine}
        if missing := [
            key
            for key, field in mine.items()
            if declarations[field].default is REQUIRED and key not in given_verb_options
        ]:
            raise TypeError(f"{name}() is missing {', '.join(missing)}")
        verb_options = from_arguments(verb.verb_options, given_verb_options, mine)
        given_options = {key: one for key, one in given.items() if key in shared and key not in mine}
        options = from_arguments(
            Options, {**verb.defaults, **given_options}, shared | {key: key for key in verb.defaults}
        )

        async def work() -> Any:
            result = verb.begin(study=_opened(verb, study, files), verb_options=verb_options, options=options)
            return await result if inspect.isawaitable(result) else result

        return _in_loop(work)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = _described(verb, VERBS.get(name, name), mine)
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _signature(verb: Verb, names: Mapping[Any, Mapping[str, str]]) -> inspect.Signature:
    """Places, then every option under its own name, with its default, as ``help`` and notebooks show them."""
    kinds, declarations = inspect.Parameter, declared(verb.verb_options)
    places = ["study"] if verb.study else [name for name in names[verb.verb_options].values() if is_place(verb, name)]
    first = [kinds(place, kinds.POSITIONAL_OR_KEYWORD) for place in places]
    if places and places[0] in declarations and get_origin(declarations[places[0]].form.typed) is list:
        first = [kinds(places[0], kinds.VAR_POSITIONAL)]
    others = {
        key: declared(model)[field].default
        for model, known in names.items()
        for key, field in known.items()
        if field in declared(model) and declared(model)[field].keyword == key and key not in {one.name for one in first}
    }
    by_name = [
        kinds(key, kinds.KEYWORD_ONLY, default=kinds.empty if default is REQUIRED else default)
        for key, default in others.items()
    ]
    return inspect.Signature([*first, *by_name])


def is_place(verb: Verb, name: str) -> bool:
    """True if an own option may be given by position: an argument of the command, or one that must be given."""
    one = declared(verb.verb_options)[name]
    return one.argument or one.default is REQUIRED


def _described(verb: Verb, command: str, mine: Mapping[str, str]) -> str:
    """The first paragraph of the verb's help, and its own arguments."""
    told = inspect.cleandoc(verb.work.__doc__ or "").partition("\n\n")[0]
    declarations = declared(verb.verb_options)
    listed = [
        f"- ``{name}``: {declarations[field].help}"
        for name, field in mine.items()
        if declarations[field].keyword == name
    ]
    others = f"The other arguments are the options of ``goldless {command}``."
    return "\n".join([told, "", *listed, *[""] * bool(listed), others])


def _opened(verb: Verb, study: Any, files: Mapping[str, Any]) -> Any:
    """The study; ``files``: how its files, or the columns of a frame, are read."""
    from goldless.studies import as_study, import_study, study_from_frame  # noqa: PLC0415 - slower than a name

    if not verb.study:
        return None
    if files and isinstance(study, str | Path):
        return import_study([study], **files)
    if files:
        return study_from_frame(study, **files)
    return as_study(study if verb.study_from is None else verb.study_from(study))


def _in_loop(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run work to its end; in a separate thread where an event loop is already running, as in a notebook."""
    import anyio  # noqa: PLC0415 - a name needs no loop

    try:
        asyncio.get_running_loop()
        running = True
    except RuntimeError:
        running = False
    if not running:
        # a thread that an event loop started has that loop in its context
        return contextvars.Context().run(anyio.run, work)
    with ThreadPoolExecutor(1, thread_name_prefix="goldless") as threads:
        return threads.submit(anyio.run, work).result()


def reward(
    metric: str | None = None,
    *,
    reference: str = "reference",
    bank: Iterable[Any] | None = None,
    answer: Callable[[str], str] | None = None,
    missing: Any = "none",
    **options: Any,
) -> Any:
    """A reward function for GRPO: what a completion says about references that the policy does not see.

    - ``metric``: gem-s[COLUMN] or gem-raw, with +control or without.
    - ``reference``: the column of the data set with a reference, or a list of them, for each prompt.
    - ``bank``: references of other tasks for +control, such as the whole column (default: those in the same batch).
    - ``answer``: takes the part of a completion that counts, such as what follows the reasoning (default: all).
    - ``missing``: the reward of a completion that cannot be scored: none, or the mean of its group.
    - ``options``: ``scorer``, ``control_tasks``, ``journal`` and others of ``evaluate``.
    """
    from goldless.rewarding.reward import DEFAULT_METRIC, Reward  # noqa: PLC0415 - heavy

    named = {"metrics": metric or DEFAULT_METRIC, **options}
    known = keywords(Options, REWARDING)
    refuse_unknown("reward", named, known)
    chosen = from_arguments(Options, named, known)
    return Reward(chosen, reference=reference, bank=bank, answer=answer, missing=missing)


def load(run: Path | str, result: str | None = None) -> Any:
    """The result in a run folder, as the function that made it returned it, without evidence and texts.

    - ``result``: which, such as review or agreement, where the folder has several (default: the leaderboards of score).
    """
    from goldless.reports.run_folder import RESULTS, RunFolder  # noqa: PLC0415 - heavy

    there = [name for name in RESULTS if (Path(run) / f"{name}.json").is_file()]
    name = result or ("leaderboard" if "leaderboard" in there else there[0] if len(there) == 1 else "")
    if name not in there:
        known = f"It has {', '.join(there)}" if there else "goldless.evaluate and save_run, or --out, write one"
        raise UserError(f"{run} must be a run folder with {name or 'one result'}. {known}")
    return RunFolder(run).required(name)


def export(source: Any, path: Path | str, *, exporter: str, **options: Any) -> Path:
    """Write scores or a study in another tool's format and return the path: the formats of ``goldless export``.

    - ``source``: a run folder, a study, or the result of ``evaluate`` or ``review``.
    - ``options``: those of the format, such as ``metric``, ``margin``, ``dataset``, ``task_id`` and ``logs``.
    """
    from goldless.exporting.catalogue import export as export_to  # noqa: PLC0415 - heavy
    from goldless.runs.evaluation import Evaluation  # noqa: PLC0415 - heavy
    from goldless.runs.review_outcome import Review  # noqa: PLC0415 - heavy
    from goldless.runs.store import save_review, save_run  # noqa: PLC0415 - heavy

    if not isinstance(source, Evaluation | Review):
        return export_to(source, path, exporter=exporter, **options)
    with TemporaryDirectory(prefix="goldless-") as folder:
        save: Callable[..., object] = save_run if isinstance(source, Evaluation) else save_review
        save(source, Path(folder) / "run")
        return export_to(Path(folder) / "run", path, exporter=exporter, **options)
