"""Label pairs blind: which of two responses is better, by keyboard, without knowing whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import polars as pl
from aiohttp import web

from goldless.apps.studio.labels import (
    ORDERS,
    QUESTION,
    LabelSession,
    OpenStudy,
    Pair,
    decide,
    json_line,
    label_agreement,
    next_pair,
    read_sitting,
)
from goldless.apps.studio.site import PageNotFoundError, Studio
from goldless.errors import UserError
from goldless.reports.formats import guarded_frame

VERDICTS = {"a": 1.0, "b": -1.0, "tie": 0.0}
"""The preference for the response on the left that each button stands for."""
COLUMNS = ("task", "first", "second", "rater", "preference", "criterion")
Given = Mapping[str, str]


def label_start(studio: Studio, given: Given) -> str:
    """The form that says what to label."""
    runs = [run for run in studio.summaries() if run.results]
    dropped = sorted(path for path in studio.folder.glob("files/*/*") if path.is_file())
    return studio.page("label.html", runs=runs, dropped=dropped, given=given, orders=ORDERS, question=QUESTION)


def label_pair(studio: Studio, given: Given) -> str:
    """The next pair, or the one whose label was taken back, unless it was labelled in the meantime."""
    sitting = read_sitting(given)
    desk = studio.desk.open(sitting)
    mine = [label for label in desk.labels if label.rater == sitting.rater]
    pair = _named(desk, sitting, given.get("task"), given.get("again"))
    if pair is None or any(pair.is_of(label) for label in mine):
        pair = next_pair(desk.answers, sitting, desk.labels)
    shown: dict[str, Any] = {"pair": None}
    if pair is not None:
        texts = [desk.study.response(pair.task, agent) for agent in (pair.left, pair.right)]
        shown = {
            "pair": sitting.name(pair),
            "number": list(desk.answers).index(pair.task),
            "prompt": desk.study.task(pair.task).prompt,
            "texts": [response.text if response else "" for response in texts],
        }
    return studio.page(
        "label_pair.html",
        sitting=sitting,
        mine=len(mine),
        of=sum(len(agents) * (len(agents) - 1) // 2 for agents in desk.answers.values()),
        study=sitting.run or desk.study.name,
        file=desk.folder,
        undoable=studio.desk.can_undo(sitting),
        **_agreement(studio, sitting, desk),
        **shown,
    )


def _agreement(studio: Studio, sitting: LabelSession, desk: OpenStudy) -> dict[str, Any]:
    return {
        "agreement": label_agreement(desk.study, desk.labels, studio.desk.scores(sitting)),
        "decision": decide(desk.answers, desk.labels, sitting.question),
    }


def _named(desk: OpenStudy, sitting: LabelSession, number: str | None, name: str | None) -> Pair | None:
    """The pair of an opaque name, on the task of that number."""
    tasks = list(desk.answers)
    if not name or not number or not number.isascii() or not number.isdigit() or int(number[:9]) >= len(tasks):
        return None
    return sitting.named(desk.answers, tasks[int(number[:9])], name)


def label_verdict(studio: Studio, given: Given) -> web.Response:
    """Write a label, or take the last one back, and show the next pair."""
    sitting, verdict = read_sitting(given), given.get("verdict")
    address = f"/label/pairs?{sitting.address}"
    desk = studio.desk.open(sitting)
    if verdict == "undo":
        label = studio.desk.undo(sitting)
        if label is not None:
            name = sitting.name(Pair(label.task, label.first, label.second))
            address += f"&task={list(desk.answers).index(label.task)}&again={name}"
        return studio.see(address)
    if verdict not in VERDICTS:
        raise UserError(f"the verdict must be one of {', '.join(VERDICTS)} or undo, got {verdict!r}")
    pair = _named(desk, sitting, given.get("task"), given.get("pair"))
    if pair is None:
        raise PageNotFoundError("this pair is not in the study, or the study was changed. Nothing was written")
    studio.desk.add(sitting, pair, VERDICTS[verdict])
    return studio.see(address)


def agreement_page(studio: Studio, given: Given, *, template: str = "label_agreement.html") -> str:
    """The page with the answer of the labels so far."""
    sitting = read_sitting(given)
    return studio.page(template, sitting=sitting, **_agreement(studio, sitting, studio.desk.open(sitting)))


def export_labels(studio: Studio, given: Given, kind: str) -> web.Response:
    """The labels on the criterion as a file."""
    labels = studio.desk.open(read_sitting(given)).labels
    if kind == "csv":
        schema = {name: pl.Float64 if name == "preference" else pl.String for name in COLUMNS}
        # other programs execute cells that look like formulas
        body = guarded_frame(pl.DataFrame(list(labels), schema=schema)).write_csv().encode()
    else:
        body = b"".join(json_line(asdict(label)) for label in labels)
    headers = {"Content-Disposition": f'attachment; filename="labels.{kind}"'}
    content = "text/csv" if kind == "csv" else "application/x-ndjson"
    return web.Response(body=body, content_type=content, charset="utf-8", headers=headers)
