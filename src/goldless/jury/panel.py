"""The jury: reviewers who are asked about the same answers, and one verdict from what they say.

A juror on a pairwise scale sees each pair of answers in both orders and votes with their mean; where an order is
missing it abstains, for it may prefer one place to the other. A juror on a pointwise scale rates each answer once and
votes for the higher rating; equal ratings are divided evenly. The share of an answer in a pair is the weighted mean of
the votes that came, as the chair of a panel counts them; its share of the verdict is the mean over the pairs it stands
in that have a vote. The highest share wins; where several are the highest, nobody does. What failed is listed and
counts for nobody.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from goldless.concurrency import side_by_side
from goldless.errors import ModelError, UserError
from goldless.evidence import JudgementEvidence
from goldless.judging.asking import ChatJudge, ScoringJudge, Verdicts
from goldless.judging.reviewing import ReviewQuestion, ReviewStage
from goldless.judging.scales import Scale
from goldless.metrics.chair import panel_verdicts, vote_share
from goldless.metrics.judgement_table import PairJudgements, pair_judgements
from goldless.models.interface import (
    Capabilities,
    ChatReply,
    ChatRequest,
    Deliver,
    ScoreReply,
    ScoreRequest,
    TokenLogprobs,
    Usage,
    WrappedScorer,
)
from goldless.records import CallFailure

TASK = "question"
"""Name of the one task a jury decides on."""
TIE_TOLERANCE = 1e-9
"""Shares nearer than this are the same: sums of equal votes in another order differ by less."""
DEFAULT_AT_ONCE = 16


JuryModel = ScoringJudge | ChatJudge
"""What a jury needs of a juror's model; one behind the journal is paid for each question once."""


@dataclass(frozen=True, slots=True)
class Juror:
    """A reviewer with a vote."""

    name: str
    model: JuryModel
    """Prepared; whoever opened it closes it."""
    scale: Scale
    weight: float
    task_description: str = ""
    """What is judged and what counts, as its licence was earned with; empty: the scale's neutral words."""
    verdicts: Verdicts = "auto"
    """How its verdicts are read."""

    def __post_init__(self) -> None:
        """Raise where the weight is none."""
        if not 0 < self.weight < math.inf:
            raise UserError(f"juror {self.name}: a weight is a number above 0, not {self.weight}; leave the juror out")

    def stage(self, model: JuryModel) -> ReviewStage:
        """How questions are put to it, through this model. Raises where the model cannot answer on its scale."""
        return ReviewStage(
            model,
            self.scale,
            reviewer=self.name,
            task_description=self.task_description,
            verdicts=self.verdicts,
        )


@dataclass(frozen=True, slots=True)
class Vote:
    """What one juror said when it was asked once."""

    juror: str
    scale: str
    weight: float
    first: int
    """Index of the answer that was rated, or shown first."""
    second: int | None
    """Index of the answer shown second; None: one answer was rated."""
    value: float | None
    """Of two answers, how far the first is better (1: it is, 0: the second is); of one, its rating.
    None: missing, and ``failure`` says why."""
    output: str | None
    """The juror's reply as it wrote it."""
    failure: CallFailure | None


@dataclass(frozen=True, slots=True)
class JuryVerdict:
    """What a jury decided."""

    winner: int | None
    """Index of the best answer; None: an exact tie for the first place."""
    shares: tuple[float, ...]
    """Each answer's share of the votes, between 0 and 1; of two answers the shares sum to 1."""
    votes: tuple[Vote, ...]
    """Everything that was asked, juror by juror."""
    absent: tuple[str, ...]
    """Jurors who voted on no pair."""
    usage: Usage
    """Tokens charged for this verdict; replies that the journal had are not charged again."""

    @property
    def used(self) -> int:
        """Questions that were answered with a value."""
        return sum(vote.value is not None for vote in self.votes)

    @property
    def missing(self) -> int:
        """Questions that were not."""
        return len(self.votes) - self.used


class JuryError(ModelError):
    """A jury that could not decide, with what every juror said."""

    def __init__(self, message: str, votes: Sequence[Vote]) -> None:
        """Carry the votes."""
        self.votes = tuple(votes)
        super().__init__(message)


class Jury:
    """Jurors who decide together."""

    def __init__(self, jurors: Sequence[Juror], *, at_once: int = DEFAULT_AT_ONCE) -> None:
        """``at_once``: questions of one verdict under way at one juror; its model may allow fewer."""
        self.jurors = tuple(jurors)
        names = [juror.name for juror in self.jurors]
        twice = sorted({name for name in names if names.count(name) > 1})
        if not names:
            raise UserError("a jury has at least one juror, and none was given")
        if twice:
            raise UserError(f"a juror votes once: {', '.join(twice)} was given more than once")
        if at_once < 1:
            raise UserError(f"at least 1 question is asked at once, not {at_once}")
        for juror in self.jurors:
            juror.stage(juror.model)
        self._at_once = at_once

    async def decide(self, question: str | None, answers: Sequence[str]) -> JuryVerdict:
        """The verdict on answers to one question: two, or more in a round robin.

        Raises JuryError where an answer got no vote at all.
        """
        if isinstance(answers, str) or len(answers) < 2:
            raise UserError("a jury decides between at least two answers; give a list of them")
        meters = [_Meter(juror.model) for juror in self.jurors]
        by_juror: dict[str, list[Vote]] = {juror.name: [] for juror in self.jurors}

        async def hear(job: tuple[Juror, _Meter]) -> None:
            juror, meter = job
            by_juror[juror.name] = await _ask(juror, meter, question, answers, self._at_once)

        await side_by_side(hear, list(zip(self.jurors, meters, strict=True)), len(meters))
        return _verdict(by_juror, len(answers), sum((meter.usage for meter in meters), Usage()))


async def _ask(
    juror: Juror, model: JuryModel, question: str | None, answers: Sequence[str], at_once: int
) -> list[Vote]:
    """What a juror says of every pair in both orders, or of every answer."""
    count = range(len(answers))
    asked: list[tuple[int, int | None]] = [(i, None) for i in count]
    if juror.scale.pairwise:
        asked = [order for i, j in itertools.combinations(count, 2) for order in ((i, j), (j, i))]
    evidence = await juror.stage(model).review(
        [ReviewQuestion(TASK, str(first), None if second is None else str(second)) for first, second in asked],
        {(TASK, str(i)): answer for i, answer in enumerate(answers)},
        {TASK: question},
        at_once=at_once,
    )
    return [
        Vote(juror.name, juror.scale.name, juror.weight, *order, said.value, said.output, said.failure)
        for order, said in zip(asked, evidence, strict=True)
    ]


# --- what a verdict costs ----------------------------------------------------------------------------------------


class _Meter(WrappedScorer):
    """A model that counts what one verdict's calls are charged for, apart from other verdicts under way."""

    def __init__(self, model: JuryModel) -> None:
        super().__init__(model)
        self.usage = Usage()

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do and has the methods for."""
        can, model = self._model.capabilities, self._model
        return replace(
            can,
            scoring=can.scoring and isinstance(model, ScoringJudge),
            chat=can.chat and isinstance(model, ChatJudge),
        )

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        reply = await self._model.chat(request)
        if isinstance(reply, ChatReply):
            self.usage += reply.usage
        return reply

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        def count(replies: Mapping[int, ScoreReply]) -> None:
            came = (reply.usage for reply in replies.values() if isinstance(reply, TokenLogprobs))
            self.usage = sum(came, self.usage)
            deliver(replies)

        await self._model.score(requests, count)


# --- counting --------------------------------------------------------------------------------------------------


def _verdict(by_juror: Mapping[str, Sequence[Vote]], answers: int, usage: Usage) -> JuryVerdict:
    votes = tuple(itertools.chain.from_iterable(by_juror.values()))
    compared = _compared(by_juror, answers)
    shares = _shares(compared, {vote.juror: vote.weight for vote in votes})
    if np.isnan(shares).any():
        unheard = ", ".join(str(i + 1) for i in np.flatnonzero(np.isnan(shares)))
        failures = {f"{vote.juror}: {vote.failure.kind}": None for vote in votes if vote.failure is not None}
        raise JuryError(
            f"no juror's verdict can be used for answer {unheard} of {answers}; the calls failed with "
            f"{'; '.join(failures)}. Ask again, or look into the jurors.",
            votes,
        )
    leaders = np.flatnonzero(shares > shares.max() - TIE_TOLERANCE)
    winner = int(leaders[0]) if len(leaders) == 1 else None
    heard = np.any(compared.asked.any(axis=2) & ~(compared.asked & np.isnan(compared.value)).any(axis=2), axis=1)
    absent = tuple(name for name, votes_once in zip(compared.reviewers, heard, strict=True) if not votes_once)
    return JuryVerdict(winner, tuple(shares.tolist()), votes, absent, usage)


def _shares(compared: PairJudgements, weights: Mapping[str, float]) -> npt.NDArray[np.float64]:
    """Each answer's mean share of the pairs it stands in, as the chair counts votes; NaN where none has a vote."""
    verdicts = panel_verdicts(compared, weights=weights)
    table = np.full((len(verdicts.agents), len(verdicts.agents)), np.nan)
    share = vote_share(verdicts)
    table[verdicts.low, verdicts.high], table[verdicts.high, verdicts.low] = share, 1 - share
    voted = ~np.isnan(table)
    means: npt.NDArray[np.float64] = np.full(len(table), np.nan)
    np.divide(np.where(voted, table, 0.0).sum(axis=1), voted.sum(axis=1), out=means, where=voted.any(axis=1))
    return means


def _compared(by_juror: Mapping[str, Sequence[Vote]], answers: int) -> PairJudgements:
    """All votes as comparisons; whoever rates compares each pair once, by the two ratings."""
    rows: list[tuple[str, int, int, float | None]] = []
    for juror, said in by_juror.items():
        rows += [(juror, vote.first, vote.second, vote.value) for vote in said if vote.second is not None]
        rated = [(vote.first, vote.value) for vote in said if vote.second is None]
        rows += [(juror, i, j, _preference(a, b)) for (i, a), (j, b) in itertools.combinations(rated, 2)]
    votes = [JudgementEvidence(juror, "votes", TASK, str(i), str(j), value=value) for juror, i, j, value in rows]
    return pair_judgements(votes, agents=[str(i) for i in range(answers)])


def _preference(first: float | None, second: float | None) -> float | None:
    """How far the first of two ratings is the better one; None where one is missing."""
    if first is None or second is None:
        return None
    return 0.5 if first == second else float(first > second)
