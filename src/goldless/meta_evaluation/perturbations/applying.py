"""Applying a perturbation to responses: the pure ones at once, the others by a chat model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import anyio

from goldless.errors import UserError
from goldless.judging.asking import side_by_side
from goldless.meta_evaluation.perturbations.additions import inject_verdict, pad, praise, repeat
from goldless.meta_evaluation.perturbations.catalogue import Perturbation
from goldless.meta_evaluation.perturbations.elongation import STRENGTHS, elongate, elongate_review, find_section
from goldless.meta_evaluation.perturbations.headings import SECTIONS
from goldless.meta_evaluation.perturbations.prompts import COMPLETION, REPHRASING, SYNOPSIS_ONLY, TWO_POINTS, Wording
from goldless.meta_evaluation.perturbations.replacements import NULL, PEER_REVIEW_NULL, other_tasks
from goldless.meta_evaluation.perturbations.sentence_deletion import (
    PLACEHOLDER,
    delete_as_published,
    delete_every_second,
    mark_every_second,
)
from goldless.meta_evaluation.perturbations.surface import add_tag, flip_case, reformat
from goldless.meta_evaluation.perturbations.writing import MOST_TOKENS, Writer, room_for, written
from goldless.records import CallFailure, Response, Task
from goldless.studies import Study

LINE_TOKENS = 256
"""Room for a summary of one line."""


@dataclass(frozen=True, slots=True)
class PerturbedText:
    """A response after a perturbation."""

    task: str
    agent: str
    perturbation: str
    text: str | None
    """None: missing, and ``failure`` says why."""
    unchanged: bool
    """Whether the perturbation left the text as it was, but for white space."""
    failure: CallFailure | None = None


async def perturb(
    study: Study,
    perturbation: Perturbation,
    *,
    responses: Sequence[Response],
    seed: int = 0,
    writer: Writer | None = None,
    at_once: int = 1,
    sections: Sequence[str] = SECTIONS,
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[PerturbedText]:
    """These responses of the study after the perturbation, in their order.

    ``writer`` makes those that need a chat model, ``at_once`` requests at a time. ``sections`` are the headings that
    deletion keeps. ``tell`` hears how many of how many are done.
    """
    if seed < 0:
        raise UserError(f"a seed is a whole number that is not negative, not {seed}")
    make = _maker(study, perturbation, responses, seed=seed, writer=writer, sections=sections)
    found: dict[int, str | CallFailure] = {}

    async def one(place: int) -> None:
        found[place] = await make(responses[place])
        tell(len(found), len(responses))

    await side_by_side(one, range(len(responses)), at_once)
    return [_row(response, perturbation, found[place]) for place, response in enumerate(responses)]


def perturb_text(text: str, perturbation: Perturbation, *, seed: int = 0, sections: Sequence[str] = SECTIONS) -> str:
    """A text after a perturbation that needs nothing but the text."""
    family, variant = perturbation.family, perturbation.variant
    if family == "null":
        return {None: NULL, "peer-review": PEER_REVIEW_NULL}.get(variant, variant or NULL)
    if family == "verdict-injection":
        return inject_verdict(text, form=variant)
    if family == "pattern":
        return add_tag(text, seed=seed)
    if family == "deletion":
        delete = delete_as_published if variant == "paper" else delete_every_second
        return delete(text, sections=sections)
    if perturbation.needs_writer or family not in _PURE:
        needs = "a chat model" if perturbation.needs_writer else "the agent's other responses"
        raise UserError(f"{perturbation.name} needs {needs}, not the text alone: use perturb on a study")
    return elongate_review(text) if variant == "peer-review" else _PURE[family](text)


_PURE: Mapping[str, Callable[[str], str]] = {
    "elongation": elongate,
    "case-flip": flip_case,
    "format": reformat,
    "padding": pad,
    "repetition": repeat,
    "praise": praise,
}

_Make = Callable[[Response], Awaitable[str | CallFailure]]


def _row(response: Response, perturbation: Perturbation, made: str | CallFailure) -> PerturbedText:
    if isinstance(made, str) and not made.strip():
        made = CallFailure("not_recorded", f"nothing is left of it after {perturbation.name}", attempts=0)
    failure = made if isinstance(made, CallFailure) else None
    text = made if isinstance(made, str) else None
    unchanged = text is not None and text.split() == response.text.split()
    return PerturbedText(response.task, response.agent, perturbation.name, text, unchanged, failure)


def _maker(
    study: Study,
    perturbation: Perturbation,
    responses: Sequence[Response],
    *,
    seed: int,
    writer: Writer | None,
    sections: Sequence[str],
) -> _Make:
    """How one response is made."""
    if not perturbation.needs_writer:
        if perturbation.family == "shuffled-task":
            return _Shuffled(study, responses, seed)

        async def pure(response: Response) -> str | CallFailure:
            return perturb_text(response.text, perturbation, seed=seed, sections=sections)

        return pure
    if writer is None:
        raise UserError(f"{perturbation.name} is written by a chat model, and none was named: name a writer")
    wording: Wording = "peer-review" if perturbation.variant == "peer-review" else "general"
    if perturbation.family == "synopsis-only":
        column = "abstract" if wording == "peer-review" else perturbation.variant or "abstract"
        return _SynopsisOnly(study, writer, column.removeprefix("synopsis_"), SYNOPSIS_ONLY[wording])
    if perturbation.family == "completion":
        return partial(_completed, writer, COMPLETION[wording], sections)
    if perturbation.family == "rephrase":
        return partial(_rephrased, writer, REPHRASING[wording])
    return partial(_elongated_with_summaries, writer)


class _Shuffled:
    """The same agent's response to another task."""

    def __init__(self, study: Study, responses: Sequence[Response], seed: int) -> None:
        self._study = study
        agents = {response.agent for response in responses}
        answered: dict[str, list[str]] = {agent: [] for agent in agents}
        for task, given in study:
            for response in given:
                if response.agent in agents:
                    answered[response.agent].append(task.task)
        self._others = {agent: other_tasks(tasks, agent=agent, seed=seed) for agent, tasks in answered.items()}

    async def __call__(self, response: Response) -> str | CallFailure:
        other = self._others[response.agent].get(response.task)
        found = None if other is None else self._study.response(other, response.agent)
        if found is None:
            return CallFailure("not_recorded", f"{response.agent} answered no other task", attempts=0)
        return found.text


class _SynopsisOnly:
    """A response made of a synopsis, one a task whoever's place it takes."""

    def __init__(self, study: Study, writer: Writer, column: str, instruction: str) -> None:
        self._study, self._writer, self._column, self._instruction = study, writer, column, instruction
        self._made: dict[str, str | CallFailure] = {}
        self._under_way: dict[str, anyio.Lock] = {}
        if column not in study.synopses:
            has = ", ".join(study.synopses) or "none"
            raise UserError(
                f"no task of {study.name} has a synopsis {column!r}, which synopsis-only is made of; the study has: "
                f"{has}. Add a column synopsis_{column} to its tasks table."
            )

    async def __call__(self, response: Response) -> str | CallFailure:
        # agents of one task are asked for side by side: the second waits for what the first gets
        async with self._under_way.setdefault(response.task, anyio.Lock()):
            if response.task not in self._made:
                self._made[response.task] = await self._write(self._study.task(response.task))
        return self._made[response.task]

    async def _write(self, task: Task) -> str | CallFailure:
        synopsis = task.synopses.get(self._column)
        if synopsis is None:
            return CallFailure("no_synopsis", f"task {task.task} has no synopsis {self._column!r}", attempts=0)
        return await written(
            self._writer, self._instruction, synopsis, what="response to the synopsis", most_tokens=MOST_TOKENS
        )


async def _completed(
    writer: Writer, instruction: str, sections: Sequence[str], response: Response
) -> str | CallFailure:
    """The response with every second sentence replaced by an empty one; one without gaps as it is."""
    gapped = mark_every_second(response.text, sections=sections)
    if gapped == response.text:
        return gapped
    made = await written(writer, instruction, gapped, what="completion", most_tokens=room_for(gapped))
    if isinstance(made, str) and PLACEHOLDER in made:
        return CallFailure("bad_reply", f"the writer left gaps: {made.count(PLACEHOLDER)} of {PLACEHOLDER!r}")
    return made


async def _rephrased(writer: Writer, instruction: str, response: Response) -> str | CallFailure:
    return await written(writer, instruction, response.text, what="rephrasing", most_tokens=room_for(response.text))


async def _elongated_with_summaries(writer: Writer, response: Response) -> str | CallFailure:
    """The review with the paper's words in full; without a section to sum up, no summary is asked for."""
    if find_section(response.text, STRENGTHS) is None:
        return elongate_review(response.text)
    lines = []
    for points in ("strengths", "weaknesses"):
        instruction = TWO_POINTS.format(points=points)
        made = await written(
            writer, instruction, response.text, what=f"summary of the {points}", most_tokens=LINE_TOKENS
        )
        if isinstance(made, CallFailure):
            return made
        lines.append(" ".join(made.split()).rstrip("."))
    return elongate_review(response.text, strengths=lines[0], weaknesses=lines[1])
