"""Reviewers: their models, their exams, and the judgements of those who pass."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import polars as pl

from goldless.errors import CapabilityError, UserError, nearest
from goldless.evidence import EXAMS, JUDGEMENTS, empty, judgements_frame
from goldless.judging import exams as exam_items
from goldless.judging.asking import reads_by_scoring
from goldless.judging.debate import DebateStage, find_debate
from goldless.judging.exams import (
    ChangingStage,
    ConfidenceSets,
    ConfidenceStage,
    ExamAnswer,
    ExamPair,
    PertinenceItem,
    chosen_sets,
    nearest_items,
    ranked_sets,
    sit_pertinence,
)
from goldless.judging.licences import Licence, check, prompt_hash, read_licence, read_licences
from goldless.judging.reviewing import ReviewQuestion, ReviewStage
from goldless.judging.scales import Scale, find_scale
from goldless.metrics.qualification import Candidate, Qualification
from goldless.models.provider import Use
from goldless.records import CallFailure
from goldless.runs.opening import CALLS_AT_ONCE, OpenModel, Part, in_batches, stop_if_waiting
from goldless.runs.options import PEERS, Options
from goldless.runs.progress import Arrived, nobody
from goldless.runs.review_evidence import PAIRWISE, ReviewEvidence, confidence_of, reviewer_family
from goldless.studies import Study

CHANGER = "question changer"
QUESTIONS_AT_ONCE = 64
"""Questions per batch for a reviewer on this machine; a batch is stored as a whole."""


def named_reviewers(given: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """Reviewers by name: a mapping unchanged; ``NAME=SPEC``, or a model spec or object named after itself."""
    if isinstance(given, Mapping):
        return dict(given)
    found: dict[str, Any] = {}
    for one in given:
        match = re.match(r"([\w.\- ]+)=(.+)", one) if isinstance(one, str) else None
        name, spec = (match[1].strip(), match[2].strip()) if match else (one if isinstance(one, str) else "", one)
        name = name or one.identity.short
        if name in found:
            raise UserError(
                f"two reviewers have the name {name!r}. Give each its own name, such as first={spec} second={spec}"
            )
        found[name] = spec
    return found


def review_parts(options: Options) -> list[Part]:
    """The models of a review: its reviewers, and the model that changes questions for the pertinence exam."""
    named = named_reviewers(options.reviewers)
    for option, given in (("--family", options.families), ("--describe", options.descriptions)):
        for name in given:
            if name not in named:
                raise UserError(f"{option}: unknown reviewer {name!r}{nearest(name, named)}")
    use: Use = "chat" if options.verdicts == "labels" else "both"
    parts = [Part(name, given, use) for name, given in named.items()]
    if options.changer is not None and "pertinence" in options.traits:
        parts.append(Part(CHANGER, options.changer, "chat"))
    return parts


@dataclass(frozen=True)
class ReviewCollector:
    """A study and its reviewers."""

    study: Study
    options: Options
    opened: Mapping[str, OpenModel]
    """Reviewers by name, and the model that changes questions."""
    questioners: tuple[str, ...] = ()
    """Agents whose responses are used in the human exam."""
    arrived: Arrived = nobody

    @cached_property
    def models(self) -> dict[str, OpenModel]:
        return {name: model for name, model in self.opened.items() if name != CHANGER}

    @property
    def changer(self) -> OpenModel | None:
        return self.opened.get(CHANGER)

    @cached_property
    def answered(self) -> dict[str, list[str]]:
        """The agents that answered each task."""
        return {task.task: [r.agent for r in responses] for task, responses in self.study if responses}

    @cached_property
    def texts(self) -> dict[tuple[str, str], str | CallFailure]:
        return {(r.task, r.agent): r.text for _, responses in self.study for r in responses}

    @cached_property
    def prompts(self) -> dict[str, str | None]:
        return {task: self.study.task(task).prompt for task in self.study.tasks}

    def stage(self, name: str, scale: Scale) -> ReviewStage:
        """The stage that puts a reviewer's questions on a scale."""
        options, model = self.options, self.models[name]
        described = options.descriptions.get(name, options.task_description)
        if options.debate is not None:
            debate = find_debate(options.debate)
            return DebateStage(model.judge, scale, debate, reviewer=name, task_description=described)
        scoring = bool(scale.labels) and reads_by_scoring(model.model.capabilities, options.verdicts)
        if not scoring and not model.model.capabilities.chat:
            raise CapabilityError(
                f"{model.identity.short} does not write text, so it cannot review on the scale {scale.name}"
            )
        return ReviewStage(
            model.judge,
            scale,
            reviewer=name,
            task_description=described,
            verdicts=options.verdicts if scale.labels else "labels",
        )

    def readings(self, names: Iterable[str]) -> dict[str, str]:
        """How the verdicts of these reviewers are read; empty for a debate."""
        if self.options.debate is not None:
            return {}
        return {name: self.stage(name, self.options.chosen_scale).reading for name in names}

    def licensed(self) -> Qualification | None:
        """The reviewers who may vote by licence; None if no licences were given. Raises if one is not valid."""
        options = self.options
        if not options.licences:
            return None
        held: list[Licence] = []
        for path in options.licences:
            held += read_licences(path) if path.is_dir() else [read_licence(path)]
        scale, today = options.chosen_scale, dt.datetime.now(dt.UTC).date()
        candidates, refused = [], []
        for name, model in self.models.items():
            wording = prompt_hash(scale, options.descriptions.get(name, options.task_description))
            kind = options.task_kind or self.study.name
            own = [one for one in held if one.reviewer == model.identity.short]
            why_not = [
                check(one, identity=model.identity, scale=scale.name, prompt_hash=wording, task_kind=kind, today=today)
                for one in own
            ]
            good = next((one for one, reasons in zip(own, why_not, strict=True) if not reasons), None)
            if good is None:
                reasons_given = "; ".join(reason for reasons in why_not for reason in reasons) or "no licence"
                refused.append(f"  {name} ({model.identity.short}): {reasons_given}")
                continue
            why = f"licence until {good.expires}"
            candidates.append(Candidate(name, {}, passed=True, why=why, weight=good.weight, shortfall=0.0))
        if refused:
            raise UserError("\n".join(["these reviewers have no valid licence:", *refused]))
        return Qualification(tuple(candidates), {}, "all", "trait")

    async def exams(self) -> ReviewEvidence:
        """The answers of all reviewers to all requested exams."""
        options, traits, found = self.options, self.options.traits, list[ExamAnswer]()
        pairwise = options.chosen_scale if options.chosen_scale.pairwise else find_scale(PAIRWISE)
        for name, model in self.models.items():
            at_once = model.at_once(CALLS_AT_ONCE)
            if "human exam" in traits:
                stage = self.stage(name, options.chosen_scale)
                pairs = self._others(name, exam_items.human_pairs(self.answered, self.questioners))
                asked = exam_items.both_orders(pairs) if stage.scale.pairwise else exam_items.single_ratings(pairs)
                self._report(f"human exam of {name}", 0, len(pairs), name)
                found += await exam_items.exam_answers("human", stage, asked, self.texts, self.prompts, at_once=at_once)
            if {"consistency", PEERS} & set(traits):
                drawn = exam_items.consistency_pairs(self.answered, items=options.exam_items, seed=options.seed)
                pairs = self._others(name, drawn)
                asked, stage = exam_items.both_orders(pairs), self.stage(name, pairwise)
                self._report(f"consistency of {name}", 0, len(pairs), name)
                found += await exam_items.exam_answers(
                    "consistency", stage, asked, self.texts, self.prompts, at_once=at_once
                )
            if "pertinence" in traits:
                items = await self._pertinence_items()
                self._report(f"pertinence of {name}", 0, len(items), name)
                found += await sit_pertinence(self.stage(name, pairwise), items, at_once=at_once)
        if "self-confidence" in traits:
            sets = self._confidence_sets(found)
            for name, model in self.models.items():
                self._report(f"self-confidence of {name}", 0, 2 * len(sets.easy), name)
                described = options.descriptions.get(name, options.task_description)
                sitting = ConfidenceStage(
                    model=model.judge, reviewer=name, task_description=described, reading=options.verdicts
                )
                found += await sitting.sit(sets, self.texts, self.prompts, at_once=model.at_once(CALLS_AT_ONCE))

        def of(exam: str, on: str | None = None) -> pl.DataFrame:
            rows = [answer.evidence for answer in found if answer.exam == exam]
            return judgements_frame([row for row in rows if on is None or row.scale == on])

        exams = pl.DataFrame([answer.as_row() for answer in found], schema=EXAMS)
        return ReviewEvidence(
            reviewers=tuple(self.models),
            judgements=of("human", options.scale),
            comparisons=of("consistency"),
            pertinence=of("pertinence"),
            confidence=confidence_of(exams.to_dicts()),
            answers=exams,
        )

    async def _pertinence_items(self) -> list[PertinenceItem]:
        options, texts = self.options, self.texts
        most = max(self.study.agents, key=lambda a: sum(a.agent in names for names in self.answered.values())).agent
        relevant = options.relevant or most
        drawn: dict[str, Any] = {"items": options.exam_items, "seed": options.seed}
        if self.changer is None:
            irrelevant = options.irrelevant or relevant
            return nearest_items(self.prompts, texts, relevant=relevant, irrelevant=irrelevant, **drawn)
        changing = ChangingStage(self.changer.chat, options.task_description or None)
        flight = self.changer.at_once(CALLS_AT_ONCE)
        return await changing.items(self.prompts, texts, relevant=relevant, **drawn, at_once=flight)

    def _confidence_sets(self, answers: Sequence[ExamAnswer]) -> ConfidenceSets:
        options = self.options
        items = None if options.exam_items is None else max(1, options.exam_items // 2)
        if options.easy is not None and options.hard is not None:
            return chosen_sets(self.answered, easy=options.easy, hard=options.hard, items=items, seed=options.seed)
        won: dict[str, list[float]] = {}
        for row in (answer.evidence for answer in answers if answer.exam == "consistency"):
            if row.value is not None and row.second is not None:
                won.setdefault(row.first, []).append(row.value)
                won.setdefault(row.second, []).append(1 - row.value)
        if not won:
            raise UserError(
                "the self-confidence exam needs an easy and a hard pair of agents. Name them with --easy A,B and "
                "--hard A,C, or add the consistency exam, whose comparisons rank the agents"
            )
        scores = {agent: sum(values) / len(values) for agent, values in won.items()}
        return ranked_sets(self.answered, scores, items=items, seed=options.seed)

    async def round(self, options: Options, arrived: Arrived, reviewers: Sequence[str]) -> pl.DataFrame:
        """The judgements of these reviewers on the responses that the options pair."""
        found = await replace(self, options=options, arrived=arrived).judgements(reviewers)
        stop_if_waiting(self.opened.values())
        return found

    async def judgements(self, reviewers: Sequence[str]) -> pl.DataFrame:
        """The judgements of these reviewers on all responses, or on all pairs."""
        return pl.concat([empty(JUDGEMENTS), *[await self._review(name) for name in reviewers]])

    async def _review(self, name: str) -> pl.DataFrame:
        model, stage, asked = self.models[name], self.stage(name, self.options.chosen_scale), self._questions(name)
        size = QUESTIONS_AT_ONCE if model.local else CALLS_AT_ONCE * 8
        return await in_batches(
            model,
            [asked[begin : begin + size] for begin in range(0, len(asked), size)],
            partial(stage.review, texts=self.texts, prompts=self.prompts),
            judgements_frame,
            arrived=partial(self.arrived, "judgements", f"{name} {stage.scale.name}"),
            report=lambda ended, failed: self._report(f"reviewing by {name}", ended - failed, len(asked), name, failed),
        )

    def _questions(self, name: str) -> list[ReviewQuestion]:
        pairing = self.options.pairing
        if self.options.chosen_scale.pairwise:
            pairs, options = self._others(name, exam_items.all_pairs(self.answered)), self.options
            asked = exam_items.pair_questions(pairs, options.orders, seed=options.seed, reviewer=name)
            if pairing is None:
                return asked
            sides = {(task, agent, peer) for (task, agent), peers in pairing.items() for peer in peers}
            return [q for q in asked if sides & {(q.task, q.first, q.second), (q.task, q.second, q.first)}]
        strange = self._stranger(name)
        return [
            ReviewQuestion(task, agent)
            for task, agents in self.answered.items()
            for agent in agents
            if strange(agent) and (pairing is None or (task, agent) in pairing)
        ]

    def _others(self, name: str, pairs: Sequence[ExamPair]) -> list[ExamPair]:
        """The pairs without an agent of the reviewer's own family."""
        strange = self._stranger(name)
        return [pair for pair in pairs if strange(pair.first) and strange(pair.second)]

    def _stranger(self, name: str) -> Callable[[str], bool]:
        if self.options.judges_own_family:
            return lambda _: True
        families = {agent.agent: agent.family or agent.agent for agent in self.study.agents}
        own = reviewer_family(name, self.models[name].identity.name, self.options.families, families)
        return lambda agent: families[agent] != own

    def _report(self, stage: str, done: int, total: int, name: str, failed: int = 0) -> None:
        self.options.progress(self.models[name].progress(stage, done, total, failed))
