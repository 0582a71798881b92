"""A new run: drop a file, see what is in it and what a score would cost, and start it."""

from __future__ import annotations

import asyncio
import re
import threading
import warnings
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from aiohttp import web
from multidict import MultiMapping

from goldless.apps.studio.children import checked_run_name, refuse_code
from goldless.apps.studio.dropped import COLUMNS, MOST_BYTES, Checked, Dropped, Reading
from goldless.apps.studio.host import Studio
from goldless.apps.studio.viewer.server import Route
from goldless.concurrency import in_own_thread
from goldless.errors import GoldlessError, UserError
from goldless.metrics.catalogue import METRICS
from goldless.models.embedded import find_embedded
from goldless.runs.estimate import Plan, plan_study
from goldless.runs.option_forms import declared
from goldless.runs.options import DEFAULT_METRICS, Options
from goldless.runs.plan import plan_run, with_default_metrics
from goldless.studies import Study
from goldless.studies.importers.log import IMPORTED

OFFERED = ("gem-raw", "mi", "bartscore", "gptscore", "tvd-mi", "rouge-l", "bleu", "length")
"""Metrics on the page, besides the default ones; the command line has more."""


def routes(studio: Studio) -> list[Route]:
    """The page to drop a file on, what is in it, the plan, and the start of the run."""
    pages = _Pages(studio)
    return [
        ("GET", "/new", pages.drop),
        ("POST", "/new", pages.keep),
        ("GET", "/new/{id}", pages.checked),
        ("GET", "/new/{id}/plan", pages.plan),
        ("POST", "/new/{id}/run", pages.run),
    ]


@dataclass(frozen=True, slots=True)
class Choices:
    """What to run, as the form says it."""

    metrics: tuple[str, ...] = (DEFAULT_METRICS,)
    scorer: str = "embedded"
    critic: str = "embedded"
    budget: str = ""
    recorded: bool = False

    @classmethod
    def of(cls, given: MultiMapping[Any]) -> Choices:
        """The choices of a form; those that it does not have are the default ones."""
        metrics = tuple(dict.fromkeys(str(name) for name in given.getall("metric", [])))
        if unknown := [name for name in metrics if name not in (DEFAULT_METRICS, *OFFERED)]:
            raise UserError(f"metric must be one of {', '.join((DEFAULT_METRICS, *OFFERED))}, got {unknown[0]!r}")
        words = {name: str(given.get(name, "")).strip() for name in ("scorer", "critic", "budget")}
        refuse_code(words.values())
        return cls(
            metrics or cls().metrics,
            words["scorer"] or cls().scorer,
            words["critic"] or cls().critic,
            words["budget"],
            bool(given.get("recorded")),
        )

    def options(self, **more: Any) -> Options:
        """For a plan."""
        budget = declared(Options)["budget_usd"].parse(self.budget) if self.budget else None
        words: dict[str, Any] = {"metrics": self.metrics, "scorer": self.scorer, "critic": self.critic}
        return Options(**words, budget_usd=budget, recorded=self.recorded, **more)

    @property
    def words(self) -> list[str]:
        """For the command line."""
        named = {"--metric": ",".join(self.metrics), "--scorer": self.scorer, "--critic": self.critic}
        named |= {"--budget": self.budget} if self.budget else {}
        return [*(f"{flag}={word}" for flag, word in named.items()), *["--recorded"] * self.recorded]


class _Pages:
    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._dropped = Dropped(studio.folder / "files")
        self._planning = threading.Lock()

    async def drop(self, _: web.Request) -> web.Response:
        return self._studio.page("new.html", most=MOST_BYTES // 1_000_000)

    async def keep(self, request: web.Request) -> web.Response:
        name = await self._dropped.keep(request)
        await asyncio.to_thread(self._dropped.check, name, Reading())
        return web.Response(status=303, headers={"Location": f"/new/{name}"})

    async def checked(self, request: web.Request) -> web.Response:
        name, reading = request.match_info["id"], Reading.of(request.query)
        found = await asyncio.to_thread(self._dropped.check, name, reading)
        choices = Choices.of(request.query)
        values: dict[str, Any] = {}
        if found.study is not None:
            values = await asyncio.to_thread(self._choosing, found.study)
        return self._studio.page(
            "checked.html",
            id=name,
            files=[path.name for path in self._dropped.files(name)],
            found=found,
            reading=reading,
            columns=COLUMNS,
            named=dict(reading.columns),
            choices=choices,
            offered={metric: METRICS[metric].partition(";")[0] for metric in OFFERED},
            name=str(request.query.get("name", "")) or self._free_name(found, self._dropped.files(name)[0].stem),
            query=request.query_string,
            **values,
        )

    def _choosing(self, study: Study) -> dict[str, Any]:
        usual = with_default_metrics(study, Options()).metrics
        return {"usual": usual, "has_evidence": any(table != IMPORTED for table in study.recorded)}

    def _free_name(self, found: Checked, stem: str) -> str:
        """A run's name that is not taken."""
        plain = re.sub(r"[^\w.+-]+", "-", found.study.name if found.study is not None else stem).strip("-. ")[:60]
        taken = {path.name for path in self._studio.library.root.iterdir()}
        names = (f"{plain or 'run'}{f'-{number}' if number > 1 else ''}" for number in range(1, len(taken) + 3))
        return next(name for name in names if name not in taken)

    async def plan(self, request: web.Request) -> web.Response:
        try:
            planned = await asyncio.to_thread(self._plan, request)
        except GoldlessError as error:
            return self._studio.page("_plan.html", problem=str(error))
        warned = self._dropped.check(request.match_info["id"], Reading.of(request.query)).warnings
        notes = [note for note in planned.notes if note.removeprefix("warning: ") not in warned]
        return self._studio.page("_plan.html", parts=planned.together, notes=notes)

    def _plan(self, request: web.Request) -> Plan:
        options = Choices.of(request.query).options(journal=self._studio.journal)
        study = self._study(request.match_info["id"], Reading.of(request.query))
        with self._planning, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            work = plan_run(study, with_default_metrics(study, options))
            if find_embedded() is None and any(part.given == "embedded" for part in work.parts()):
                # a page that is looked at downloads nothing
                raise UserError("the embedded model is not on this machine yet. Run downloads it first, once")
            planned = in_own_thread(plan_study, study, options)
        return replace(planned, notes=(*dict.fromkeys(str(one.message) for one in warned), *planned.notes))

    def _study(self, name: str, reading: Reading) -> Study:
        found = self._dropped.check(name, reading)
        if found.study is None:
            raise UserError(f"the files cannot be read: {found.problems[0]}")
        return found.study

    async def run(self, request: web.Request) -> web.Response:
        given, name = await request.post(), request.match_info["id"]
        reading, choices = Reading.of(given), Choices.of(given)
        run = checked_run_name(str(given.get("name", "")))
        await asyncio.to_thread(self._study, name, reading)
        choices.options()  # a mistake in the form is told here
        if (self._studio.library.root / run).exists():
            raise UserError(f"there is a run {run!r} already. Choose another name")
        files = [str(path) for path in self._dropped.files(name)]
        journal = f"--journal={self._studio.journal.resolve()}"
        await self._studio.children.start(run, ["score", *files, *reading.words, *choices.words, journal])
        return web.Response(status=303, headers={"Location": f"/watch/{quote(run)}"})
