"""Canaries: checks that a scorer's log-probabilities can be trusted, before any number is computed from them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass

from goldless.errors import BudgetError, CanaryError
from goldless.models.catalogue import PROVIDERS
from goldless.models.interface import (
    Message,
    Scorer,
    ScoreReply,
    ScoreRequest,
    TokenLogprobs,
    WrappedModel,
    check_score_reply,
)
from goldless.models.journal import Journal
from goldless.models.usage import Ledger, Price, Reservations, most_usage
from goldless.records import CallFailure

TEXTS = (
    "The survey covers forty farms in two valleys, but the winter counts are missing for nine of them.",
    "A slow valve, not the pump, explains why the pressure falls whenever the second boiler starts.",
    "Her translation keeps the rhyme of every stanza and loses, in the third, the joke about the ferry.",
)
REPEATS = 4
LEAST_GAIN_NATS = 0.01
INSTRUCTION = Message("system", "You are the second reader. You are given what the first reader wrote. Write your own.")


@dataclass(frozen=True, slots=True)
class CanaryReport:
    """The results of the canary checks."""

    tokens_counted: bool
    """True if the values are finite, at or below zero, and one per target token."""
    copied_nats: float
    """Mean log p of a text given the same text."""
    shuffled_nats: float
    """Mean log p of a text given another one; must be lower."""
    noise_nats: float
    """Largest change of a sum when the same texts are scored alone, together, and in another order."""

    @property
    def passed(self) -> bool:
        # a model that does not read its context gives equal means, but for noise and the last digits
        return self.tokens_counted and self.copied_nats - self.shuffled_nats > max(self.noise_nats, LEAST_GAIN_NATS)


async def check_scorer(scorer: Scorer, journal: Journal | None = None, ledger: Ledger | None = None) -> CanaryReport:
    """The scorer's report, from the journal if known. Raises CanaryError if the scorer cannot be trusted.

    ``ledger``: pays for the calls. Raises BudgetError if the budget does not allow them.
    """
    kept = None if journal is None else journal.canary_report(scorer.identity)
    report = CanaryReport(**json.loads(kept)) if kept else await _fly(scorer, ledger)
    if not report.passed:
        if not report.tokens_counted:
            raise CanaryError(
                f"{scorer.identity.short} returned invalid log-probabilities, or not one per token of the text. Use "
                "another scorer"
            )
        to_do = "Its weights may be untrained or damaged, or its chat template may be wrong. Use another model"
        if not _is_local(scorer):
            to_do = (
                "Check that the server returns log-probabilities of the prompt and that the right model and chat "
                "template are loaded"
            )
        raise CanaryError(
            f"{scorer.identity.short} finds a text no more likely after the same text ({report.copied_nats:.1f} nats) "
            f"than after another one ({report.shuffled_nats:.1f} nats), so it does not read its context. {to_do}"
        )
    if journal is not None and kept is None:
        journal.keep_canary_report(scorer.identity, json.dumps(asdict(report)))
    return report


async def _fly(scorer: Scorer, ledger: Ledger | None) -> CanaryReport:
    if any(map(WrappedModel(scorer).merges_at_join, TEXTS)):
        raise CanaryError(
            f"the tokenizer of {scorer.identity.short} merges the end of a context with the beginning of the text "
            "that follows, so the text has no log-probability of its own. Use a model whose chat template ends in "
            "a special token, or whose tokenizer keeps a trailing space or line break separate"
        )
    # what is given is longer than what is predicted, as in real work: noise grows with length
    requests = [
        await scorer.encode([INSTRUCTION, Message("user", " ".join([given] * REPEATS))], target)
        for given in TEXTS
        for target in TEXTS
    ]
    size = len(TEXTS)
    # on a server every request is alone, so that some of them sent again say the same for less
    again, singly = (requests, requests[:size]) if _is_local(scorer) else (requests[:size], [])
    runs = [requests, again[::-1], *([request] for request in singly)]
    together, backwards, *alone = await _scored(scorer, runs, ledger)
    sums = [reply.total for reply in together]
    copied = [sums[i * size + i] for i in range(size)]
    shuffled = [sums[i * size + j] for i in range(size) for j in range(size) if i != j]
    repeated = [*zip(together, backwards[::-1], strict=False), *zip(together, (one for (one,) in alone), strict=False)]
    return CanaryReport(
        tokens_counted=all(map(_counted, requests, together)),
        copied_nats=sum(copied) / len(copied),
        shuffled_nats=sum(shuffled) / len(shuffled),
        noise_nats=max(abs(one.total - other.total) for one, other in repeated),
    )


async def _scored(
    scorer: Scorer, runs: Sequence[Sequence[ScoreRequest]], ledger: Ledger | None
) -> list[list[TokenLogprobs]]:
    """The replies of each run in order, paid for and not kept."""
    if ledger is None or ledger.free:
        ledger = Ledger(scorer.identity.short, Price(0.0, 0.0))
    most = {
        f"{number} {place}": most_usage(request) for number, run in enumerate(runs) for place, request in enumerate(run)
    }
    scored: list[list[TokenLogprobs]] = []
    with Reservations(ledger) as aside:
        if not all(aside.set_aside(key, usage) for key, usage in most.items()):  # a part would be paid for in vain
            # up to the next cent, so that this much is enough for them
            usd = math.ceil(100 * sum(map(ledger.most_usd, most.values()))) / 100
            raise BudgetError(
                f"the {len(most)} short calls that check {scorer.identity.short} before its first use could cost up to "
                f"{usd:.2f} USD, which is more than is left of the budget. Raise --budget, or use a free scorer such "
                "as embedded"
            )
        for number, run in enumerate(runs):
            replies: dict[int, ScoreReply] = {}
            aside.send(f"{number} {place}" for place in range(len(run)))
            await scorer.score(run, replies.update)
            for place in range(len(run)):
                reply = replies[place]
                charged = reply.charged if isinstance(reply, CallFailure) else astuple(reply.usage)
                aside.book_unkept(f"{number} {place}", charged)
            if failed := [reply for reply in replies.values() if isinstance(reply, CallFailure)]:
                raise CanaryError(
                    f"{scorer.identity.short} could not score a short test text ({failed[0].kind}: "
                    f"{failed[0].message}). Run goldless doctor on it"
                )
            scored.append([replies[place] for place in range(len(run))])  # type: ignore[misc]
    return scored


def _counted(request: ScoreRequest, reply: TokenLogprobs) -> bool:
    return bool(reply.logprobs) and check_score_reply(request, reply) is reply


def _is_local(scorer: Scorer) -> bool:
    provider = PROVIDERS.get(scorer.identity.provider)
    return provider is None or provider.local
