"""Replacements: another text in the place of a response, ours, the agent's own to another task, or a writer's."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial

import anyio

from goldless.errors import UserError
from goldless.meta_evaluation.perturbations.perturbation import (
    MATERIAL,
    MOST_TOKENS,
    Apply,
    Change,
    Made,
    Perturbation,
    Setting,
    Writer,
    of_text,
    room_for,
    written,
)
from goldless.records import CallFailure, Response

NULL_TEXT = "This response addresses the task. Everything about it appears to be in order."
"""A constant that tells nothing about any task."""
NULL_REVIEW = "This paper presents research findings. The methodology and results appear sound."
"""TVD-MI, A.2: what agent 6 always says."""


SYNOPSIS = (
    "You are given a short synopsis of a task, and nothing else of it. Write the full and detailed response that "
    "somebody who knew the whole task might have given. Do not say that you saw only a synopsis. Output the "
    "response and nothing else."
)
"""System message; the user's message is the synopsis."""
SYNOPSIS_REVIEW = (
    "You are given an abstract of a paper submission for a top-tier Machine Learning conference. You need to write "
    "a detailed peer review of the paper with only the abstract. Please read the abstract carefully. Once you have "
    "finished reading, please provide the following in your review:\n"
    'First, write a concise summary of the key points and contributions of the paper in "Summary Of The Paper" '
    "section.\n"
    'Next, in the "Strength And Weaknesses" section, think critically about the strengths and weaknesses of the '
    "submission. Give a numbered list of at least 4 key reasons why this paper should potentially be accepted to "
    "the conference. For each reason, use sub-bullet points to provide detailed arguments and evidence from the "
    "paper to support that reason. Then, give a numbered list of at least 4 key reasons why this paper should "
    "potentially be rejected from the conference. Again, for each reason, use sub-bullet points to provide "
    "detailed arguments and evidence from the paper to support that reason. After weighing the reasons for and "
    "against, think of some questions you have about the work.\n"
    'Then, finish the "Clarity, Quality, Novelty And Reproducibility" and "Summary Of The Review" sections.\n'
    "Remember, as a reviewer your job is to rigorously evaluate the strengths and weaknesses of the work and to "
    "provide critical but constructive feedback to the authors. Be thorough, specific and detailed in your "
    "arguments and feedback. Highlight both the positives and negatives you see, and justify your points carefully "
    "with reference to the content of the paper."
)
"""GEM, D.1.3."""
REPHRASING = (
    "Rewrite the text you are given in other words. Keep its structure, every statement it makes and its length; "
    "add nothing and leave nothing out. Make the language natural and fluent and mend its grammar. "
    f"{MATERIAL} Output the rewritten text and nothing else."
)
"""System message; the user's message is the response."""
REPHRASING_REVIEW = (
    "You are tasked with rewriting a peer review evaluation. You should follow these guidelines:\n"
    "1. Maintain the overall structure and organization of the review.\n"
    "2. Improve the writing and make the language more natural and native-sounding.\n"
    "3. Correct any grammatical errors or awkward phrasing.\n"
    "Remember to maintain the overall structure and content of the original review, but aim to enhance its "
    "readability and fluency."
)
"""GEM, D.2.1."""


def other_tasks(tasks: Sequence[str], *, agent: str, seed: int = 0) -> dict[str, str]:
    """For each task that an agent answered another one whose response takes its place: a derangement.

    Tasks stand in a circle in the order of a hash of seed, agent and name, and each takes the next one's response. So
    the draw depends on nothing but these: another agent in the study changes nothing. One task alone has no other.
    """
    ring = sorted(set(tasks), key=lambda task: _drawn(seed, agent, task))
    return {} if len(ring) < 2 else dict(zip(ring, [*ring[1:], ring[0]], strict=True))


def _drawn(seed: int, agent: str, task: str) -> bytes:
    # lengths first, so that no two pairs of names give the same bytes
    parts = [str(seed).encode(), agent.encode(), task.encode()]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


class _OtherTask:
    """The same agent's response to another task."""

    def __init__(self, setting: Setting) -> None:
        self._study = setting.study
        answered: dict[str, list[str]] = {response.agent: [] for response in setting.responses}
        for task, given in setting.study:
            for response in given:
                if response.agent in answered:
                    answered[response.agent].append(task.task)
        self._others = {agent: other_tasks(tasks, agent=agent, seed=setting.seed) for agent, tasks in answered.items()}

    def __call__(self, response: Response) -> Made:
        other = self._others[response.agent].get(response.task)
        found = None if other is None else self._study.response(other, response.agent)
        if found is None:
            return CallFailure("not_recorded", f"{response.agent} answered no other task", attempts=0)
        return found.text


class _OfSynopsis:
    """A response made of a synopsis, one a task whoever's place it takes."""

    def __init__(self, setting: Setting, column: str, instruction: str) -> None:
        self._study, self._writer, self._column, self._instruction = setting.study, setting.writer, column, instruction
        self._made: dict[str, Made] = {}
        self._under_way: dict[str, anyio.Lock] = {}
        if column not in self._study.synopses:
            has = ", ".join(self._study.synopses) or "none"
            raise UserError(
                f"no task of {self._study.name} has a synopsis {column!r}, which synopsis-only is made of; the study "
                f"has: {has}. Add a column synopsis_{column} to its tasks table."
            )

    async def __call__(self, response: Response) -> Made:
        # agents of one task are asked for side by side: the second waits for what the first gets
        async with self._under_way.setdefault(response.task, anyio.Lock()):
            if response.task not in self._made:
                self._made[response.task] = await self._write(response.task)
        return self._made[response.task]

    async def _write(self, task: str) -> Made:
        synopsis = self._study.task(task).synopses.get(self._column)
        if synopsis is None:
            return CallFailure("no_synopsis", f"task {task} has no synopsis {self._column!r}", attempts=0)
        what = "response to the synopsis"
        return await written(self._writer, self._instruction, synopsis, what=what, most_tokens=MOST_TOKENS)


def _of_synopsis(setting: Setting) -> Change:
    column = (setting.form or "abstract").removeprefix("synopsis_")
    return _OfSynopsis(setting, column, SYNOPSIS)


def _rephrasing(instruction: str) -> Apply:
    return lambda setting: partial(_rephrase, setting.writer, instruction)


async def _rephrase(writer: Writer, instruction: str, response: Response) -> Made:
    return await written(writer, instruction, response.text, what="rephrasing", most_tokens=room_for(response.text))


SYNOPSIS_ONLY = (
    Perturbation(
        "synopsis-only",
        "degradation",
        "GEM D.1.3, our wording",
        "a response that a writer made of the abstract alone",
        _of_synopsis,
        needs_writer=True,
    )
    .with_form(
        "peer-review",
        lambda setting: _OfSynopsis(setting, "abstract", SYNOPSIS_REVIEW),
        source="GEM D.1.3",
        description="a review made of the abstract alone, in the paper's words",
    )
    .with_open_form("COLUMN", _of_synopsis, description="made of another synopsis of the task")
)
SHUFFLED_TASK = Perturbation(
    "shuffled-task",
    "degradation",
    "GEM and TVD-MI, their shuffled pairs",
    "the same agent's response to another task",
    _OtherTask,
)
NULL = (
    Perturbation(
        "null",
        "degradation",
        "TVD-MI A.2, our wording",
        "a constant that tells nothing",
        of_text(lambda _: NULL_TEXT),
    )
    .with_form(
        "peer-review",
        of_text(lambda _: NULL_REVIEW),
        source="TVD-MI A.2, agent 6",
        description="the constant review of the paper",
    )
    .with_open_form(
        "TEXT",
        lambda setting: lambda _: setting.form or NULL_TEXT,
        source="this project",
        description="a constant text of yours",
    )
)
REPHRASE = Perturbation(
    "rephrase",
    "manipulation",
    "GEM D.2.1, our wording",
    "rewritten by a writer in other words",
    _rephrasing(REPHRASING),
    needs_writer=True,
).with_form(
    "peer-review", _rephrasing(REPHRASING_REVIEW), source="GEM D.2.1", description="the same in the paper's words"
)
