"""Label pairs blind: which of two responses is better, by keyboard, without knowing whose they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from goldless.apps.studio.host import Studio
from goldless.apps.studio.label_desk import Desk, OpenStudy, Sitting, as_table, label_agreement, read_sitting
from goldless.apps.studio.label_order import ORDERS, QUESTION, Pair, decide, named_pair, next_pair, pairs_in_all
from goldless.apps.studio.viewer.library import PageNotFoundError
from goldless.apps.studio.viewer.server import Route
from goldless.errors import UserError
from goldless.reports.spreadsheets import guarded_frame

VERDICTS = {"a": 1.0, "b": -1.0, "tie": 0.0}
"""What a button means for the response on the left."""


def routes(studio: Studio) -> list[Route]:
    """Its pages."""
    pages = _Pages(studio)
    return [
        ("GET", "/label", pages.start),
        ("GET", "/label/pairs", pages.pair),
        ("POST", "/label/pairs", pages.verdict),
        ("GET", "/label/agreement", pages.agreement),
        ("GET", "/label/agreement/now", pages.agreement_now),
        ("GET", "/label/labels.{format:csv|jsonl}", pages.export),
    ]


class _Pages:
    """Handlers; reading and writing is done in threads."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._desk = Desk(studio.library, studio.folder)

    async def start(self, request: web.Request) -> web.Response:
        runs, dropped = await asyncio.to_thread(lambda: (self._studio.library.summaries(), self._desk.dropped()))
        finished = [run for run in runs if run.results]
        return self._studio.page(
            "label.html", runs=finished, dropped=dropped, given=request.query, orders=ORDERS, question=QUESTION
        )

    async def pair(self, request: web.Request) -> web.Response:
        sitting = read_sitting(request.query)
        values = await asyncio.to_thread(self._pair_values, sitting, request.query)
        return self._studio.page("label_pair.html", sitting=sitting, **values)

    def _pair_values(self, sitting: Sitting, given: Mapping[str, str]) -> dict[str, Any]:
        desk = self._desk.open(sitting)
        labels = desk.on(sitting.seat.criterion)
        how = sitting.order, sitting.question
        pair = _asked_again(desk, sitting, given) or next_pair(desk.answers, sitting.seat, labels, *how)
        mine = sum(label.rater == sitting.seat.rater for label in labels)
        values = {
            "mine": mine,
            "of": pairs_in_all(desk.answers),
            "study": sitting.run or desk.study.name,
            "file": desk.folder,
            "undoable": bool(desk.given.get(sitting.seat)),
            "agreement": label_agreement(desk.study, labels, self._desk.scores(sitting)),
            "decision": decide(desk.answers, labels, sitting.question),
            "pair": None,
        }
        if pair is None:
            return values
        texts = [desk.study.response(pair.task, agent) for agent in (pair.left, pair.right)]
        return values | {
            "pair": sitting.seat.name(pair),
            "number": list(desk.answers).index(pair.task),
            "prompt": desk.study.task(pair.task).prompt,
            "texts": [response.text if response else "" for response in texts],
        }

    async def verdict(self, request: web.Request) -> web.Response:
        sitting, form = read_sitting(request.query), await request.post()
        given = {name: str(value) for name, value in form.items()}
        again = await asyncio.to_thread(self._write, sitting, given)
        # the page is fetched anew, so that reloading it sends nothing twice
        return web.Response(status=303, headers={"Location": f"/label/pairs?{sitting.address}{again}"})

    def _write(self, sitting: Sitting, given: Mapping[str, str]) -> str:
        if given.get("verdict") == "undo":
            label = self._desk.undo(sitting)
            if label is None:
                return ""
            desk = self._desk.open(sitting)
            name = sitting.seat.name(Pair(label.task, label.first, label.second))
            return f"&task={list(desk.answers).index(label.task)}&again={name}"
        if given.get("verdict") not in VERDICTS:
            raise UserError(f"the verdict must be one of {', '.join(VERDICTS)} or undo, got {given.get('verdict')!r}")
        desk = self._desk.open(sitting)
        pair = _named(desk, sitting, given.get("task"), given.get("pair"))
        if pair is None:
            raise PageNotFoundError("this pair is not in the study, or the study was changed. Nothing was written")
        self._desk.add(sitting, pair, VERDICTS[given["verdict"]])
        return ""

    async def agreement(self, request: web.Request) -> web.Response:
        return await self._agreement(request, "label_agreement.html")

    async def agreement_now(self, request: web.Request) -> web.Response:
        return await self._agreement(request, "_label_agreement.html")

    async def _agreement(self, request: web.Request, template: str) -> web.Response:
        sitting = read_sitting(request.query)

        def found() -> dict[str, Any]:
            desk = self._desk.open(sitting)
            labels = desk.on(sitting.seat.criterion)
            return {
                "agreement": label_agreement(desk.study, labels, self._desk.scores(sitting)),
                "decision": decide(desk.answers, labels, sitting.question),
            }

        return self._studio.page(template, sitting=sitting, **await asyncio.to_thread(found))

    async def export(self, request: web.Request) -> web.Response:
        sitting = read_sitting(request.query)
        desk = await asyncio.to_thread(self._desk.open, sitting)
        table = as_table(desk.on(sitting.seat.criterion))
        kind = request.match_info["format"]
        # other programs execute cells that look like formulas
        text = guarded_frame(table).write_csv() if kind == "csv" else _json_lines(table.to_dicts())
        headers = {"Content-Disposition": f'attachment; filename="labels.{kind}"'}
        content = "text/csv" if kind == "csv" else "application/x-ndjson"
        return web.Response(text=text, content_type=content, charset="utf-8", headers=headers)


def _asked_again(desk: OpenStudy, sitting: Sitting, given: Mapping[str, str]) -> Pair | None:
    """The pair in the address of an undo, unless it was labelled in the meantime."""
    pair = _named(desk, sitting, given.get("task"), given.get("again"))
    done = any(
        label.rater == sitting.seat.rater
        and pair
        and label.task == pair.task
        and {label.first, label.second} == pair.agents
        for label in desk.on(sitting.seat.criterion)
    )
    return None if done else pair


def _named(desk: OpenStudy, sitting: Sitting, number: str | None, name: str | None) -> Pair | None:
    """The pair of an opaque name, on the task of that number."""
    tasks = list(desk.answers)
    if not name or not number or not number.isascii() or not number.isdigit() or int(number[:9]) >= len(tasks):
        return None
    return named_pair(desk.answers, sitting.seat, tasks[int(number[:9])], name)


def _json_lines(rows: list[dict[str, Any]]) -> str:
    kept = ({name: value for name, value in row.items() if value is not None} for row in rows)
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in kept)
