"""Selecting over the wire: the most informative of several answers to a question, by one scorer, without jurors.

A request has one case, ``{"question", "answers"}``, or several, ``{"cases": […]}``: with several, what answers share
with those to other questions does not count (task control).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import anyio

from goldless.errors import MetricError, TextTooLongError, UserError
from goldless.jury.access import Limits
from goldless.jury.wire import RequestError
from goldless.runs.options import Options
from goldless.selection.choosing import Choice, Tolerance
from goldless.selection.samples import samples_study
from goldless.selection.selecting import TOLERANCE, Selection, select_responses

SELECT_FORM = '{"question": "…", "answers": ["…", "…", "…"]} or {"cases": [{"question": "…", "answers": […]}, …]}'
Cases = Sequence[tuple[str | None, Sequence[str]]]


class Selector:
    """A scorer and a metric that choose answers, one request after the other."""

    def __init__(self, options: Options) -> None:
        """``options``: the metric, the scorer already open, and the journal."""
        self._options = options
        self._turn = anyio.Lock()

    async def reply(self, body: dict[str, Any], limits: Limits) -> dict[str, Any]:
        """The chosen answers, with what they rest on. Raises RequestError with what is accepted."""
        cases = _cases(body, limits)
        tolerance = body.get("tolerance", TOLERANCE)
        try:
            Tolerance.parse(tolerance)
        except UserError as error:
            raise RequestError(str(error), param="tolerance") from error
        try:
            async with self._turn:  # its requests are already scored together
                found = await select_responses(samples_study(cases), self._options, tolerance=tolerance)
        except (MetricError, TextTooLongError) as error:
            raise RequestError(str(error)) from error
        return _reply(found)


def _cases(body: dict[str, Any], limits: Limits) -> Cases:
    several = "cases" in body
    given = body["cases"] if several else [{name: body[name] for name in ("question", "answers") if name in body}]
    unknown = sorted(set(body) - {"model", "tolerance", *(("cases",) if several else ("question", "answers"))})
    if unknown:
        raise RequestError(f"unknown fields: {', '.join(unknown)}. Send {SELECT_FORM}", param=unknown[0])
    if not isinstance(given, list) or not given:
        raise RequestError(f'"cases" must be a list of at least one case. Send {SELECT_FORM}', param="cases")
    wrong = [str(number) for number, case in enumerate(given, 1) if not _is_case(case)]
    if wrong:
        where = f"case {', '.join(wrong)}: " if several else ""
        raise RequestError(
            f"{where}a case must have answers, a list of at least two strings, and a question, a string or null. Send "
            f"{SELECT_FORM}",
            param="cases" if several else "answers",
        )
    texts = [text for case in given for text in (case.get("question") or "", *case["answers"])]
    if len(texts) - len(given) > limits.most_samples:
        raise RequestError(f"a request must have at most {limits.most_samples} answers, got {len(texts) - len(given)}")
    if (longest := max(map(len, texts))) > limits.longest_text:
        raise RequestError(f"a text must have at most {limits.longest_text:,} characters, got {longest:,}")
    return [(case.get("question"), case["answers"]) for case in given]


def _is_case(case: Any) -> bool:
    if not isinstance(case, dict) or not set(case) <= {"question", "answers"}:
        return False
    question, answers = case.get("question"), case.get("answers")
    there = isinstance(answers, list) and len(answers) > 1 and all(isinstance(answer, str) for answer in answers)
    return there and (question is None or isinstance(question, str))


def _reply(found: Selection) -> dict[str, Any]:
    return {
        "object": "goldless.selection",
        "metric": found.metric,
        "unit": found.unit,
        "choices": list(map(_choice, found.choices)),
        "missing": dict(found.failures or {}),
        "signature": found.signature,
    }


def _choice(choice: Choice) -> dict[str, Any]:
    """The choice with answers by their index, counted from 0."""
    data = asdict(choice)
    del data["task"]
    winner, second = (None if name is None else int(name) - 1 for name in (data.pop("chosen"), data.pop("runner_up")))
    return {"winner": winner, "runner_up": second, **data}
