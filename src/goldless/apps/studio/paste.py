"""Paste two texts and see what each provides about the other, sentence by sentence."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import OrderedDict
from dataclasses import asdict, dataclass

from aiohttp import web

from goldless.apps.studio.host import Studio
from goldless.apps.studio.viewer.information_map import PairMap
from goldless.apps.studio.viewer.library import PageNotFoundError
from goldless.apps.studio.viewer.server import Route
from goldless.errors import GoldlessError
from goldless.files import write_text
from goldless.models.embedded import find_embedded
from goldless.studies import as_study

MOST_CHARACTERS = 4_000
"""Of each text: a map scores the second text once per sentence of the first, and a reader waits for it."""
MAPS_KEPT = 40
_ID = re.compile(r"[0-9a-f]{16}")


def routes(studio: Studio) -> list[Route]:
    """The form, the map of two texts, and its progress."""
    pages = _Pages(studio)
    return [
        ("GET", "/paste", pages.form),
        ("POST", "/paste", pages.paste),
        ("GET", "/paste/{id}", pages.map),
        ("GET", "/paste/{id}/progress", pages.progress),
    ]


@dataclass(frozen=True, slots=True)
class Pasted:
    """Two texts, and what both were asked."""

    first: str = ""
    second: str = ""
    task: str = ""

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong with them, by field."""
        found = {}
        for name, title in (("first", "The first text"), ("second", "The second text"), ("task", "The task")):
            text = getattr(self, name)
            if name != "task" and not text.strip():
                found[name] = f"{title} is empty. Paste some sentences."
            if len(text) > MOST_CHARACTERS:
                found[name] = (
                    f"{title} has {len(text):,} characters; at most {MOST_CHARACTERS:,} fit here, and nothing is cut. "
                    "Shorten it, or use goldless explain."
                )
        return found

    @property
    def id(self) -> str:
        """The same for the same texts."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]


class _Pages:
    """The handlers; maps are computed in the background, one at a time."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._folder = studio.folder / "pasted"
        self._maps: OrderedDict[tuple[str, bool], asyncio.Task[PairMap]] = OrderedDict()

    async def form(self, request: web.Request) -> web.Response:
        pasted = await asyncio.to_thread(_example) if request.query.get("example") else Pasted()
        again = request.query.get("again", "")
        return self._form(self._read(again) if again else pasted)

    def _form(self, pasted: Pasted, status: int = 200) -> web.Response:
        problems = pasted.problems if status != 200 else {}
        return self._studio.page(
            "paste.html",
            status=status,
            pasted=pasted,
            problems=problems,
            most=MOST_CHARACTERS,
            missing=_missing_model(),
        )

    async def paste(self, request: web.Request) -> web.Response:
        given = await request.post()
        # browsers send line ends as carriage return and newline
        texts = {name: str(given.get(name, "")).replace("\r\n", "\n") for name in ("first", "second", "task")}
        pasted = Pasted(**{name: text.strip() for name, text in texts.items()})
        if pasted.problems or _missing_model():
            return self._form(pasted, 400)
        self._folder.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(write_text, self._folder / f"{pasted.id}.json", json.dumps(asdict(pasted)))
        return web.Response(status=303, headers={"Location": f"/paste/{pasted.id}"})

    async def map(self, request: web.Request) -> web.Response:
        pasted, job, reverse = self._job(request)
        # one whose replies are in the journal is shown at once
        await asyncio.wait([job], timeout=0.2)
        found, problem = None, ""
        if job.done():
            try:
                found = job.result()
            except GoldlessError as error:
                problem = str(error)
                self._maps.pop((pasted.id, reverse), None)
        return self._studio.page(
            "pasted.html",
            pasted=pasted,
            reverse=reverse,
            found=found,
            problem=problem,
        )

    async def progress(self, request: web.Request) -> web.Response:
        """Says when a map is there; waits for it some seconds."""
        _, job, _ = self._job(request)
        await asyncio.wait([job], timeout=8)
        response = self._studio.page("_computing.html")
        response.headers["X-Run-State"] = "done" if job.done() else "running"
        return response

    def _job(self, request: web.Request) -> tuple[Pasted, asyncio.Task[PairMap], bool]:
        pasted, reverse = self._read(request.match_info["id"]), bool(request.query.get("reverse"))
        key = pasted.id, reverse
        if key not in self._maps:
            self._maps[key] = asyncio.create_task(asyncio.to_thread(self._make, pasted, reverse=reverse))
            while len(self._maps) > MAPS_KEPT:
                self._maps.popitem(last=False)
        return pasted, self._maps[key], reverse

    def _make(self, pasted: Pasted, *, reverse: bool) -> PairMap:
        texts = (pasted.second, pasted.first) if reverse else (pasted.first, pasted.second)
        return self._studio.library.maps.of_texts(*texts, task=pasted.task or None)

    def _read(self, name: str) -> Pasted:
        path = self._folder / f"{name}.json"
        if not _ID.fullmatch(name) or not path.is_file():
            raise PageNotFoundError("these texts are not here (any more). Paste them again")
        return Pasted(**json.loads(path.read_text(encoding="utf-8")))


def _missing_model() -> str:
    if find_embedded() is not None:
        return ""
    return "The embedded model is not on this machine yet. Fetch it once with: goldless doctor embedded"


def _example() -> Pasted:
    """Two responses of the sample study."""
    study = as_study("sample")
    task = study.task(study.tasks[0])
    first, second, *_ = study.responses(task.task)
    return Pasted(first.text, second.text, task.prompt or "")
