"""Selecting over the wire: the most informative of several answers to a question, by one scorer, without jurors.

A request has one case, ``{"question", "answers"}``, or several, ``{"cases": […]}``: with several, what answers share
with those to other questions does not count (task control).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import anyio
from pydantic import ConfigDict, Field

from goldless.errors import MetricError, TextTooLongError, UserError
from goldless.jury.access import Limits
from goldless.jury.wire import Body, GivenCase, RequestError, read_body
from goldless.runs.options import Options
from goldless.selection.choosing import Choice, Tolerance
from goldless.selection.samples import samples_study
from goldless.selection.selecting import TOLERANCE, select_responses

SELECT_FORM = 'Send {"question": "…", "answers": ["…", "…", "…"]} or {"cases": [{"question": "…", "answers": […]}, …]}'


class SelectBody(Body):
    """A request to select, of one case or of several."""

    model_config = ConfigDict(extra="forbid")

    question: str | None = None
    answers: list[str] | None = None
    cases: Annotated[list[GivenCase], Field(min_length=1)] | None = None
    tolerance: float | int | str = TOLERANCE
    model: Any = None


class Selector:
    """A scorer and a metric that choose answers, one request after the other."""

    def __init__(self, options: Options) -> None:
        """``options``: the metric, the scorer already open, and the journal."""
        self._options = options
        self._turn = anyio.Lock()

    async def reply(self, body: bytes, limits: Limits) -> dict[str, Any]:
        """The chosen answers, with what they rest on. Raises RequestError with what is accepted."""
        asked = read_body(SelectBody, body, accepted=SELECT_FORM)
        cases = _cases(asked, limits)
        try:
            Tolerance.parse(asked.tolerance)
        except UserError as error:
            raise RequestError(str(error), param="tolerance") from error
        try:
            async with self._turn:  # its requests are already scored together
                study = samples_study([(case.question, case.answers) for case in cases])
                found = await select_responses(study, self._options, tolerance=asked.tolerance)
        except (MetricError, TextTooLongError) as error:
            raise RequestError(str(error)) from error
        return {
            "object": "goldless.selection",
            "metric": found.metric,
            "unit": found.unit,
            "choices": list(map(_choice, found.choices)),
            "missing": dict(found.failures or {}),
            "signature": found.signature,
        }


def _cases(asked: SelectBody, limits: Limits) -> list[GivenCase]:
    given = asked.cases
    if given is None:
        if asked.answers is None or len(asked.answers) < 2:
            raise RequestError(f"answers must be a list of at least two strings. {SELECT_FORM}", param="answers")
        given = [GivenCase(question=asked.question, answers=asked.answers)]
    elif asked.answers is not None or asked.question is not None:
        raise RequestError(f"a request has one case or a list of cases, got both. {SELECT_FORM}", param="cases")
    answers = sum(len(case.answers) for case in given)
    if answers > limits.most_samples:
        raise RequestError(f"a request must have at most {limits.most_samples} answers, got {answers}")
    longest = max(len(text) for case in given for text in (case.question or "", *case.answers))
    if longest > limits.longest_text:
        raise RequestError(f"a text must have at most {limits.longest_text:,} characters, got {longest:,}")
    return given


def _choice(choice: Choice) -> dict[str, Any]:
    """The choice with answers by their index, counted from 0."""
    data = asdict(choice)
    del data["task"]
    winner, second = (None if name is None else int(name) - 1 for name in (data.pop("chosen"), data.pop("runner_up")))
    return {"winner": winner, "runner_up": second, **data}
