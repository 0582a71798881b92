"""The jury: reviewers judge the same answers, and their votes make one verdict.

A juror on a pairwise scale sees each pair of answers in both orders and votes with their mean; if an order is missing
it abstains, because it may prefer one position. A juror on a pointwise scale rates each answer once and votes for the
higher rating; equal ratings split the vote. An answer's share of a pair is the weighted mean of the votes received, as
the chair of a panel counts them; its share of the verdict is the mean over its pairs that have a vote. The highest
share wins; if several are highest, no answer wins. Failures are listed and count for no answer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from goldless.concurrency import side_by_side
from goldless.errors import ModelError, UserError
from goldless.evidence import JudgementEvidence
from goldless.judging.asking import ReviewQuestion, ReviewStage
from goldless.judging.licences import Licence
from goldless.judging.scales import Scale
from goldless.models.interface import ChatReply, ChatRequest, Deliver, ScoreRequest, TokenLogprobs, Usage, WrappedModel
from goldless.records import CallFailure

TASK = "question"
"""Name of the single task of a jury."""
TIE_TOLERANCE = 1e-9
"""Shares closer than this are equal: sums of equal votes in another order differ by less."""
AT_ONCE = 16
"""Concurrent questions per verdict and juror; the juror's model may allow fewer."""


@dataclass(frozen=True)
class Juror:
    """A reviewer with a vote."""

    name: str
    model: Any
    """Already prepared; the code that opened it closes it."""
    scale: Scale
    weight: float
    task_description: str = ""
    """A description of what is judged and of the criteria, as in its exam; empty: the scale's neutral wording."""

    def __post_init__(self) -> None:
        if not 0 < self.weight < math.inf:
            raise UserError(
                f"juror {self.name}: weight must be a number above 0, got {self.weight}. Leave out the juror instead"
            )

    def stage(self, model: Any) -> ReviewStage:
        """The stage that sends questions to it, through this model. Raises if the model cannot answer on its scale."""
        return ReviewStage(model, self.scale, reviewer=self.name, task_description=self.task_description)


@dataclass(frozen=True)
class JuryVerdict:
    """A jury's decision."""

    winner: int | None
    """Index of the best answer; None: an exact tie for first place."""
    shares: tuple[float, ...]
    """Each answer's share of the votes, between 0 and 1; for two answers the shares sum to 1."""
    votes: tuple[JudgementEvidence, ...]
    """All votes, juror by juror; answers are named by their indices."""
    absent: tuple[str, ...]
    """Jurors without a vote on any pair."""
    usage: Usage
    """Tokens charged for this verdict; replies from the journal are not charged again."""


@dataclass(frozen=True)
class JuryWorth:
    """The number of independent votes a jury is worth, by what its licences say of shared errors."""

    jurors: int
    effective_votes: float | None
    """None: some licence does not say how far its juror errs together with another."""
    correlation: float | None
    """Mean over all two jurors."""
    of: Literal["errors", "votes"] | None
    """``votes``: of some, only how far they vote together is known; then the jury is worth more as a rule."""

    def __str__(self) -> str:
        if self.jurors == 1:
            return "one juror is one vote"
        if self.effective_votes is None:
            return (
                f"how many independent votes the {self.jurors} jurors are worth is not known: their licences were not "
                "issued together by one review"
            )
        return (
            f"the {self.jurors} jurors are worth {self.effective_votes:.2f} independent votes: in the review that "
            f"licensed them their {self.of} correlate at {self.correlation:.3f}"
            + ", which counts agreement on what is right as shared error"
            * (self.of == "votes")
        )


def jury_worth(licences: Sequence[Licence]) -> JuryWorth:
    """The worth of jurors with these licences together, with equal votes."""
    found = [
        (one.shared.get(other.reviewer) or other.shared.get(one.reviewer))
        if one.study_hash == other.study_hash
        else None
        for one, other in itertools.combinations(licences, 2)
    ]
    known = [pair for pair in found if pair is not None]
    if len(licences) < 2 or len(known) < len(found):
        return JuryWorth(len(licences), 1.0 if len(licences) == 1 else None, None, None)
    mean = sum(pair.correlation for pair in known) / len(known)
    of: Literal["errors", "votes"] = "votes" if any(pair.of == "votes" for pair in known) else "errors"
    # Kish's effective sample size; a negative correlation claims no more votes than there are jurors
    effective = len(licences) / (1 + (len(licences) - 1) * min(1.0, max(0.0, mean)))
    return JuryWorth(len(licences), effective, mean, of)


class JuryError(ModelError):
    """A jury that could not decide, with every juror's votes."""

    def __init__(self, message: str, votes: Sequence[JudgementEvidence]) -> None:
        self.votes = tuple(votes)
        super().__init__(message)


class Jury:
    """Jurors who decide together."""

    def __init__(self, jurors: Sequence[Juror], *, worth: JuryWorth | None = None) -> None:
        self.jurors = tuple(jurors)
        self.worth = worth or JuryWorth(len(self.jurors), 1.0 if len(self.jurors) == 1 else None, None, None)
        names = [juror.name for juror in self.jurors]
        twice = sorted({name for name in names if names.count(name) > 1})
        if not names:
            raise UserError("jurors must name at least one juror, got none")
        if twice:
            raise UserError(f"each juror votes once, but {', '.join(twice)} is given more than once")
        for juror in self.jurors:
            juror.stage(juror.model)

    async def decide(self, question: str | None, answers: Sequence[str]) -> JuryVerdict:
        """Decide between answers to one question: two, or more in a round robin.

        Raises JuryError if an answer got no vote at all.
        """
        if isinstance(answers, str) or len(answers) < 2:
            raise UserError("answers must be a list of at least two")
        meters = [_Meter(juror.model) for juror in self.jurors]

        async def hear(place: int) -> list[JudgementEvidence]:
            return await _ask(self.jurors[place], meters[place], question, answers)

        heard = await side_by_side(hear, range(len(meters)), len(meters))
        return _verdict(self.jurors, heard, len(answers), sum((meter.usage for meter in meters), Usage()))


async def _ask(juror: Juror, model: Any, question: str | None, answers: Sequence[str]) -> list[JudgementEvidence]:
    """A juror's votes on every pair in both orders, or on every answer."""
    names = [str(i) for i in range(len(answers))]
    asked = [ReviewQuestion(TASK, name) for name in names]
    if juror.scale.pairwise:
        asked = [
            ReviewQuestion(TASK, *order) for pair in itertools.combinations(names, 2) for order in (pair, pair[::-1])
        ]
    texts = {(TASK, name): answer for name, answer in zip(names, answers, strict=True)}
    return await juror.stage(model).review(asked, texts, {TASK: question}, at_once=AT_ONCE)


class _Meter(WrappedModel):
    """A model that counts the tokens charged for one verdict, apart from other verdicts in progress."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.usage = Usage()

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        reply = await self._model.chat(request)
        if isinstance(reply, ChatReply):
            self.usage += reply.usage
        return reply

    async def score(self, requests: Sequence[ScoreRequest], deliver: Deliver) -> None:
        def count(replies: Mapping[int, TokenLogprobs | CallFailure]) -> None:
            came = (reply.usage for reply in replies.values() if isinstance(reply, TokenLogprobs))
            self.usage = sum(came, self.usage)
            deliver(replies)

        await self._model.score(requests, count)


def _verdict(
    jurors: Sequence[Juror], heard: Sequence[Sequence[JudgementEvidence]], answers: int, usage: Usage
) -> JuryVerdict:
    votes = tuple(itertools.chain.from_iterable(heard))
    values = [{(vote.first, vote.second): vote.value for vote in said} for said in heard]
    received: list[list[float]] = [[] for _ in range(answers)]
    """Each answer's share of every pair that has a vote."""
    present: set[str] = set()
    for i, j in itertools.combinations(range(answers), 2):
        voted = [
            (juror, vote)
            for juror, by_place in zip(jurors, values, strict=True)
            if (vote := _preference(by_place, str(i), str(j))) is not None
        ]
        if voted:
            share = sum(juror.weight * vote for juror, vote in voted) / sum(juror.weight for juror, _ in voted)
            received[i].append(share)
            received[j].append(1 - share)
            present.update(juror.name for juror, _ in voted)
    if unheard := [str(number) for number, shares in enumerate(received, 1) if not shares]:
        failures = dict.fromkeys(f"{vote.reviewer}: {vote.failure.kind}" for vote in votes if vote.failure is not None)
        raise JuryError(
            f"no vote for answer {', '.join(unheard)} of {answers}: every call failed ({'; '.join(failures)}). Try "
            "again, or check the jurors",
            votes,
        )
    means = tuple(sum(shares) / len(shares) for shares in received)
    leaders = [answer for answer, mean in enumerate(means) if mean > max(means) - TIE_TOLERANCE]
    winner = leaders[0] if len(leaders) == 1 else None
    return JuryVerdict(winner, means, votes, tuple(one.name for one in jurors if one.name not in present), usage)


def _preference(values: Mapping[tuple[str, str | None], float | None], i: str, j: str) -> float | None:
    """A juror's preference for answer i over j: the mean of both orders, or by its ratings; None: it abstains."""
    compared = (i, j) in values
    one, other = (values[key] for key in (((i, j), (j, i)) if compared else ((i, None), (j, None))))
    if one is None or other is None:
        return None
    return (one + 1 - other) / 2 if compared else 0.5 if one == other else float(one > other)
