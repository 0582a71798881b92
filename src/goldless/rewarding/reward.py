"""The reward: what a completion says about references that the policy does not see, beyond the prompt.

For a completion x to the prompt z, a reference y, and references y' of other tasks:

    log p(y | x, z) - log p(y | z)  -  mean over y' of [ log p(y' | x, z) - log p(y' | z) ]

in nats, averaged over the references: the metric gem-s[prompt]+control. Repeating the prompt adds nothing to z, what
fits every task raises both parts alike, and no completion is another one's reference, so a group that says the same
gains nothing by it.
"""

from __future__ import annotations

import asyncio
import atexit
import random
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, Self, TypeVar

import polars as pl

from goldless.errors import BudgetError, MetricError, UserError
from goldless.metrics.catalogue import find_metric
from goldless.metrics.likelihood import GEM, LikelihoodMetric
from goldless.models.canaries import check_scorer
from goldless.models.interface import content_hash
from goldless.records import Task
from goldless.runs.opening import OpenModel, Part, Spending, open_journal, open_models, refuse_without_scoring
from goldless.runs.options import Options, check_options
from goldless.scoring import Question, ScoringJob, ScoringStage, score_together
from goldless.signature import Signature

Found = TypeVar("Found")
Missing = Literal["none", "group-mean"]
Key = tuple[str, str]
DEFAULT_METRIC = "gem-s[prompt]+control"
NO_REFERENCE = "no_reference"
"""The cause where a row has nothing to predict."""
GATHERING_SECONDS = 0.01
"""Time to wait for completions that are asked for one by one, to be scored together."""

MOST_SHOWN = 5


class Background:
    """An event loop in a thread of its own: what is opened there stays open between calls from anywhere."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # a daemon: a program that does not close it ends all the same
        self._thread = threading.Thread(target=self._loop.run_forever, name="goldless", daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, Found]) -> Future[Found]:
        """Start work; may be called from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, Found]) -> Found:
        """Run work to its end; it is cancelled where waiting for it is interrupted."""
        begun = self.begin(work)
        try:
            return begun.result()
        except BaseException:
            begun.cancel()
            raise

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Reward:
    """A reward function for GRPO, made by ``goldless.reward``.

    Call it with prompts, completions and the columns of the data set, as TRL's ``GRPOTrainer(reward_funcs=…)`` does; or
    await ``reward.one(…)`` for a single completion, as a task of ``verifiers`` does. The scorer is loaded at the first
    call and kept.
    """

    def __init__(
        self,
        options: Options,
        *,
        reference: str = "reference",
        bank: Iterable[Any] | None = None,
        answer: Callable[[str], str] | None = None,
        missing: Missing = "none",
    ) -> None:
        """``options``: the metric, the scorer and how it is asked; ``goldless.reward`` describes the rest."""
        if missing not in {"none", "group-mean"}:
            raise UserError(f"missing must be none or group-mean, got {missing!r}")
        self.__name__ = "goldless"
        """The name under which trainers log it."""
        self.metric = _metric(options)
        check_options(options)
        self.reference = reference
        self.asked = 0
        """Completions that were given so far."""
        self.missing: Counter[str] = Counter()
        """Of these, the ones without a reward, by cause."""
        self._options, self._answer, self._fill = options, answer, missing
        self._bank = None if bank is None else _distinct([bank] if isinstance(bank, str) else bank)
        if self._bank is not None and self.metric.control and len(self._bank) < 2:
            raise UserError(f"bank must be a list of at least 2 different texts, got {len(self._bank)}")
        self._background: Background | None = None
        self._scorer: OpenModel | None = None
        self._stack = AsyncExitStack()
        self._turn = asyncio.Lock()
        self._gathering: asyncio.Task[None] | None = None
        self._waiting: list[tuple[Row, asyncio.Future[float | str]]] = []
        self._opening = threading.Lock()

    # --- for trainers ------------------------------------------------------------------------------------------------

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """The reward of each completion in nats; None: there is none, and ``missing`` counts why.

        ``columns``: those of the data set, one value per completion; others that a trainer passes are ignored.
        """
        rows = self._read(prompts, completions, columns)
        found = self._loop().run(self._rewards(rows))
        self._count(found)
        means = _group_means(rows, found) if self._fill == "group-mean" else {}
        both = zip(rows, found, strict=True)
        return [means.get(row.task.task) if isinstance(reward, str) else reward for row, reward in both]

    async def one(self, prompt: Any, completion: Any, **columns: Any) -> float:
        """The reward of one completion, for trainers that score each by itself, such as ``verifiers`` from 0.4 on.

        Those that are asked for meanwhile are scored together. Raises MetricError where there is none.
        """
        (row,) = self._read([prompt], [completion], {name: [value] for name, value in columns.items()})
        found = await asyncio.wrap_future(self._loop().begin(self._joined(row)))
        self._count([found])
        if isinstance(found, str):
            raise MetricError(f"a completion has no reward: {found}")
        return found

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def signature(self) -> str:
        """One line that says how the rewards are computed; known after the first call."""
        scorer = self._scorer
        settings = {
            **({} if scorer is None else {"scorer": scorer.identity.short, "positions": scorer.scorer.positions}),
            "template": self._options.scoring.chosen_templates()[0].name,
            "references": self.reference,
            "synopsis": self.metric.synopsis or "none",
        }
        if self.metric.control:
            texts = self._bank
            settings["control"] = f"other-tasks-{self._options.scoring.control_tasks}"
            settings["bank"] = "batch" if texts is None else f"{len(texts)}@{content_hash(texts)[:8]}"
            settings["seed"] = str(self._options.statistics.seed)
        return str(Signature(f"reward[{self.metric.name}]", {**settings, "missing": self._fill}))

    @property
    def spending(self) -> Spending | None:
        """Calls, tokens and cost so far; None before the first call."""
        return None if self._scorer is None else self._scorer.spending

    def close(self) -> None:
        """Release the scorer; the next call opens it again."""
        with self._opening:
            if self._background is not None:
                self._background.run(self._stack.aclose())
                self._background.stop()
            self._background, self._scorer = None, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- computing ---------------------------------------------------------------------------------------------------

    def _loop(self) -> Background:
        with self._opening:
            if self._background is None:
                self._background, self._stack = Background(), AsyncExitStack()
                self._turn, self._gathering = asyncio.Lock(), None
                atexit.register(_close, weakref.ref(self))
            return self._background

    def _read(self, prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Any]) -> list[Row]:
        if self.reference not in columns:
            known = ", ".join(name for name, value in columns.items() if isinstance(value, list)) or "none"
            raise UserError(
                f"the data set must have a column {self.reference!r} with a text that the policy does not see. Its "
                f"columns: {known}. Name another one with reference=…"
            )
        name = self.metric.synopsis
        synopsis = None
        if name not in {None, "prompt"}:
            column = next((column for column in (name, f"synopsis_{name}") if column in columns), None)
            if column is None:
                raise UserError(f"{self.metric.name} needs a column {name!r} in the data set. Add it, or use prompt")
            synopsis = (str(name), columns[column])
        return read_batch(prompts, completions, columns[self.reference], synopsis=synopsis, answer=self._answer)

    async def _rewards(self, rows: Sequence[Row]) -> list[float | str]:
        """A reward for each row, or why there is none."""
        groups: dict[str, list[Row]] = {}
        for row in rows:
            if row.references:
                groups.setdefault(row.task.task, []).append(row)
        others = self._others(groups)
        async with self._turn:
            scorer = await self._open()
        # of a model on this machine nothing is kept: a completion hardly ever comes again
        kept = self._options.models.journal is not None or not scorer.local
        template = self._options.scoring.chosen_templates()[0]
        stage = ScoringStage(scorer.scorer if kept else scorer.model, template, synopsis=self.metric.synopsis)
        jobs = []
        for name, group in groups.items():  # every text to predict given every completion, and given none
            given = dict.fromkeys(row.completion for row in group)
            predicted = (*group[0].references, *others[name])
            asked = [Question(target, one) for one in (None, *given) for target in predicted]
            jobs.append(ScoringJob(stage, group[0].task, {text: text for text in (*given, *predicted)}, asked))
        # a model on this machine computes one batch after the other
        async with self._turn if scorer.local else nullcontext():
            scored = await self._scored(scorer, jobs)
        gains, lost = _gains(scored)
        found: list[float | str] = []
        for row in rows:
            key = row.task.task, row.completion
            if not row.references:
                found.append(NO_REFERENCE)
            elif key in lost:
                found.append(lost[key])
            else:
                own, elsewhere = ([gains[key][y] for y in texts] for texts in (row.references, others[row.task.task]))
                found.append(fmean(own) - (fmean(elsewhere) if elsewhere else 0.0))
        return found

    async def _joined(self, row: Row) -> float | str:
        """The reward of a row, computed with all that wait at the same time."""
        reward: asyncio.Future[float | str] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, reward))
        if self._gathering is None or self._gathering.done():
            # a task of its own, which goes on for the others if whoever asked first is cancelled
            self._gathering = asyncio.create_task(self._gather())
        return await reward

    async def _gather(self) -> None:
        """Compute the rewards that wait, all together, until none waits."""
        batch: list[tuple[Row, asyncio.Future[float | str]]] = []
        try:
            while self._waiting:
                await asyncio.sleep(GATHERING_SECONDS)
                batch = [(row, reward) for row, reward in self._waiting if not reward.done()]
                self._waiting = []
                try:
                    rewards = await self._rewards([row for row, _ in batch])
                except Exception as error:  # noqa: BLE001 - each of them has failed
                    for _, reward in batch:
                        if not reward.done():
                            reward.set_exception(error)
                else:
                    for (_, reward), value in zip(batch, rewards, strict=True):
                        if not reward.done():
                            reward.set_result(value)
        finally:  # cancelled itself, when the loop ends
            for _, reward in batch + self._waiting:
                reward.cancel()

    async def _open(self) -> OpenModel:
        if self._scorer is None:
            options = self._options
            journal = await self._stack.enter_async_context(open_journal(options.models.journal))
            part = Part("scorer", options.scoring.scorer, "scoring")
            models = await self._stack.enter_async_context(open_models([part], options, journal))
            opened = models["scorer"]
            refuse_without_scoring(opened, [self.metric.name])
            await check_scorer(opened.model, journal, opened.ledger)
            self._scorer = opened
        return self._scorer

    def _others(self, groups: Mapping[str, Sequence[Row]]) -> dict[str, tuple[str, ...]]:
        """References of other tasks for each task, drawn by its name and the seed: always the same of a bank."""
        found: dict[str, tuple[str, ...]] = dict.fromkeys(groups, ())
        for name, (row, *_) in groups.items() if self.metric.control else ():
            texts = self._bank
            if texts is None:
                prompt = row.task.prompt
                texts = _distinct(one.references for one, *_ in groups.values() if one.task.prompt != prompt)
            chance = random.Random(content_hash(self._options.statistics.seed, name))  # noqa: S311 - a draw that anyone can repeat
            number = self._options.scoring.control_tasks
            drawn = chance.sample(texts, min(len(texts), number + len(row.references)))
            found[name] = tuple(text for text in drawn if text not in row.references)[:number]
            if not found[name]:
                raise UserError(
                    f"{self.metric.name} compares with references of other tasks, and this batch has no other task. "
                    f"Give bank=…, such as the column {self.reference} of the whole data set"
                )
        return found

    async def _scored(self, scorer: OpenModel, jobs: Sequence[ScoringJob]) -> list[pl.DataFrame]:
        """The log-probabilities of each job: all scored together where that is faster, else task by task."""
        together = not scorer.local or scorer.scorer.capabilities.together
        batches = [jobs] if together else [[job] for job in jobs]
        rows = [await score_together(batch) for batch in batches if batch]
        if any((some["failure"] == "budget").any() for some in rows):
            raise BudgetError(
                f"the budget is spent after {scorer.spending.calls} calls, so no reward can be computed any more. "
                "Raise budget_usd and continue from the last checkpoint"
            )
        return rows

    def _count(self, found: Sequence[float | str]) -> None:
        lost = Counter(reward for reward in found if isinstance(reward, str))
        new = [kind for kind in lost if kind not in self.missing]
        self.asked += len(found)
        self.missing += lost
        for kind in new:
            warnings.warn(f"{lost[kind]} of {len(found)} completions have no reward: {kind}", stacklevel=3)


def _close(kept: weakref.ref[Reward]) -> None:
    """At the end of a program that did not close its reward."""
    reward = kept()
    if reward is not None:
        reward.close()


def _metric(options: Options) -> LikelihoodMetric:
    named = [str(name) for name in options.scoring.metrics]
    if len(named) != 1:
        raise MetricError(f"a reward is one metric, got {', '.join(named) or 'none'}")
    found = find_metric(named[0])
    if not isinstance(found, LikelihoodMetric) or found.likelihood is not GEM or found.text == "rewrites":
        raise MetricError(
            f"a reward must be gem-raw or gem-s[COLUMN], with +control or without, got {named[0]!r}. Try "
            f"{DEFAULT_METRIC}"
        )
    if len(options.scoring.chosen_templates()) != 1:
        raise UserError("a reward is asked for with one template. Name one")
    return found


def _group_means(rows: Sequence[Row], found: Sequence[float | str]) -> dict[str, float]:
    by_task: dict[str, list[float]] = {}
    for row, reward in zip(rows, found, strict=True):
        if not isinstance(reward, str):
            by_task.setdefault(row.task.task, []).append(reward)
    return {task: sum(rewards) / len(rewards) for task, rewards in by_task.items()}


def _gains(scored: Sequence[pl.DataFrame]) -> tuple[dict[Key, dict[str, float]], dict[Key, str]]:
    """Gain in log p of each text given a completion, by task and completion; or why one of them is missing.

    A mean over fewer texts is another quantity.
    """
    alone: dict[Key, float | str] = {}
    gains: dict[Key, dict[str, float]] = {}
    lost: dict[Key, str] = {}
    columns = ("task", "given", "target", "sum_logprob_nats", "failure")
    for task, given, target, value, failure in (row for rows in scored for row in rows.select(columns).iter_rows()):
        if given is None:  # before those given a completion
            alone[task, target] = failure if value is None else value
            continue
        before = alone[task, target]
        if isinstance(before, str):
            lost[task, given] = before
        elif value is None:
            lost.setdefault((task, given), failure)
        else:
            gains.setdefault((task, given), {})[target] = value - before
    return gains, lost


def _distinct(references: Iterable[Any]) -> tuple[str, ...]:
    """The texts of a column of references, each once."""
    return tuple(dict.fromkeys(text for given in references for text in reference_texts(given)))


# --- a batch as a trainer gives it ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A completion and what it is rewarded for."""

    task: Task
    """Its name follows from the prompt, the synopsis and the references, so that a group is one task."""
    completion: str
    references: tuple[str, ...]
    """Empty: there is nothing to predict."""


def read_batch(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    references: Sequence[Any],
    *,
    synopsis: tuple[str, Sequence[Any]] | None = None,
    answer: Callable[[str], str] | None = None,
) -> list[Row]:
    """The rows of a batch. Raises one error that names all rows which cannot be read.

    ``synopsis``: a column to condition on, with its values. ``answer``: takes the part of a completion that counts.
    """
    lengths = {"prompts": len(prompts), "completions": len(completions), "references": len(references)}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{count} {name}" for name, count in lengths.items())
        raise UserError(f"prompts, completions and references must be equally many, got {said}")
    rows, wrong = [], []
    for number, (prompt, completion, given) in enumerate(zip(prompts, completions, references, strict=True), 1):
        try:
            asked, text = message_text(prompt), message_text(completion, role="assistant")
            known = reference_texts(given)
            extra = {} if synopsis is None else {synopsis[0]: str(synopsis[1][number - 1] or "")}
            text = text if answer is None else answer(text)
        except (TypeError, ValueError) as error:
            wrong.append(f"  row {number}: {error}")
            continue
        name = content_hash(asked, known, extra)[:16]
        rows.append(Row(Task(name, asked, extra=extra), text, known))
    if wrong:
        more = f"\n  … and {len(wrong) - MOST_SHOWN} more" * (len(wrong) > MOST_SHOWN)
        raise UserError("a batch must have text or messages with text:\n" + "\n".join(wrong[:MOST_SHOWN]) + more)
    return rows


def message_text(given: Any, *, role: str | None = None) -> str:
    """A text, or the texts of messages joined by blank lines; ``role``: only of messages with this role."""
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"must be text or a list of messages, got {type(given).__name__}")
    texts = []
    for message in given:
        content = _field(message, "content") or ""
        if isinstance(content, Mapping) or not isinstance(content, Iterable):
            raise TypeError(f"a message must have text as its content, got {type(content).__name__}")
        if not isinstance(content, str):
            parts = [part if isinstance(part, str) else _field(part, "text") for part in content]
            content = "\n".join(part for part in parts if isinstance(part, str))
        if role is None or _field(message, "role") in {role, None}:
            texts.append(content)
    return "\n\n".join(texts)


def _field(message: Any, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def reference_texts(given: Any) -> tuple[str, ...]:
    """The texts of a cell: one, several or none."""
    several = [given] if given is None or isinstance(given, str) else given
    if isinstance(several, Mapping) or not isinstance(several, Iterable):
        raise TypeError(f"a reference must be text or a list of texts, got {type(given).__name__}")
    texts = list(several)
    if wrong := [text for text in texts if text is not None and not isinstance(text, str)]:
        raise TypeError(f"a reference must be text, got {type(wrong[0]).__name__}")
    return tuple(dict.fromkeys(text for text in texts if text and text.strip()))
