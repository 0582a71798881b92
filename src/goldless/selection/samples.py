"""Samples: the responses to each task that one is chosen from, and further ones asked of a model."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goldless.concurrency import side_by_side
from goldless.errors import UserError
from goldless.metrics.metric import Pairing
from goldless.models.interface import ChatRequest, Message, unusable
from goldless.records import CallFailure, FailureKind, Response, Task
from goldless.runs.collection import CALLS_AT_ONCE
from goldless.runs.opening import OpenModel
from goldless.runs.options import Options
from goldless.studies import Study, study_from_records


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """A model to take more samples from, and how."""

    writer: Any
    """A specification, or the model itself."""
    most: int = 24
    """The most samples per task, those that are there included."""
    temperature: float = 1.0
    max_tokens: int = 1024
    system: str = ""
    """A system message; empty: none."""

    def request(self, task: Task, number: int) -> ChatRequest:
        told = (Message("system", self.system),) if self.system else ()
        messages = (*told, Message("user", task.prompt or ""))
        return ChatRequest(messages, max_tokens=self.max_tokens, temperature=self.temperature, seed=number)


def samples_study(cases: Iterable[tuple[str | None, Sequence[str]]], name: str = "samples") -> Study:
    """A study of questions with their answers, all by one agent; tasks are numbered from 1."""
    numbered = [(str(number), question, answers) for number, (question, answers) in enumerate(cases, 1)]
    for _, question, answers in numbered:
        if isinstance(answers, str) or not all(isinstance(text, str) for text in answers):
            raise UserError(f"the answers to {question!r} must be a list of strings, got {answers!r}")
    tasks = [Task(task, question) for task, question, _ in numbered]
    responses = [Response(task, str(i), text) for task, _, answers in numbered for i, text in enumerate(answers, 1)]
    return study_from_records(tasks, responses, name=name)


@dataclass(slots=True)
class Samples:
    """The samples of each task, by name."""

    source: Study
    texts: dict[str, dict[str, str]]
    failures: dict[str, list[CallFailure]] = field(default_factory=dict)
    """Samples that a model failed to give, by task."""
    asked: int = 0

    @classmethod
    def of(cls, study: Study) -> Samples:
        """The responses that a study has, all as samples of a task."""
        return cls(study, {task.task: {r.agent: r.text for r in responses} for task, responses in study})

    @property
    def failures_by_kind(self) -> Counter[FailureKind]:
        return Counter(failure.kind for failures in self.failures.values() for failure in failures)

    def study(self) -> Study:
        """A study in which every sample is an agent.

        Where a task has fewer samples than another, some are there twice: only to be another task's response, for task
        control and shuffles; they are in no pairing.
        """
        names = list(dict.fromkeys(name for texts in self.texts.values() for name in texts))
        filled = [
            Response(task, name, text)
            for task, texts in self.texts.items()
            for name, text in ({**dict(zip(names, itertools.cycle(texts.values()))), **texts} if texts else {}).items()
        ]
        tasks = [self.source.task(task) for task in self.texts]
        return study_from_records(tasks, filled, name=self.source.name)

    def pairing(self) -> Pairing:
        """Every sample with all others of its task as peers."""
        return {
            (task, name): [other for other in texts if other != name]
            for task, texts in self.texts.items()
            for name in texts
        }

    async def grow(self, writer: OpenModel, sampling: Sampling, wanted: Mapping[str, int], options: Options) -> None:
        """Ask the writer for samples until each of these tasks has been asked as often as wanted."""
        name = writer.identity.short
        jobs = [(task, number) for task, most in wanted.items() for number in range(1, most - self._tried(task) + 1)]
        jobs = [(task, self._asked_of(task, name) + number) for task, number in jobs]
        done = 0

        async def one(job: tuple[str, int]) -> None:
            nonlocal done
            task, number = job
            # as its own replicate: the journal keeps samples apart, and returns each when it is asked again
            request = sampling.request(self.source.task(task), number)
            replies[job] = await writer.replica(number).chat.chat(request)
            done += 1
            options.progress(writer.progress("sampling", done, len(jobs)))

        replies: dict[tuple[str, int], Any] = {}
        await side_by_side(one, jobs, writer.at_once(CALLS_AT_ONCE))
        for task, number in jobs:
            reply = replies[task, number]
            lost = unusable(reply, "sample", sampling.max_tokens)
            if lost is None:
                self.texts[task][f"{name}#{number}"] = reply.text
            else:
                self.failures.setdefault(task, []).append(lost)
        self.asked += len(jobs)

    def _tried(self, task: str) -> int:
        return len(self.texts[task]) + len(self.failures.get(task, ()))

    def _asked_of(self, task: str, writer: str) -> int:
        """How often the writer was asked about a task; the samples of a file are not its own."""
        mine = sum(name.startswith(f"{writer}#") for name in self.texts[task])
        return mine + len(self.failures.get(task, ()))
