"""The cost of calls, and the budget they must stay within."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

import anyio

from goldless.errors import BudgetError, UserError
from goldless.models.catalogue import PROVIDERS
from goldless.models.interface import ChatRequest, ModelIdentity, ScoreRequest, Usage

MILLION = 1_000_000
MOST_HIDDEN_TOKENS = 65_536
"""Charged beyond what a request shows, such as a system prompt or thinking; a higher count is not believed."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input_usd: float
    output_usd: float

    def cost(self, usage: Usage) -> float:
        return (usage.input_tokens * self.input_usd + usage.output_tokens * self.output_usd) / MILLION

    def shared(self, share: float) -> Price:
        """The price at this share of it, such as half in a batch."""
        return Price(self.input_usd * share, self.output_usd * share)


def price_of(identity: ModelIdentity) -> Price | None:
    """The model's price, or None if unknown. Models on this machine are free."""
    provider = PROVIDERS.get(identity.provider)
    if provider is not None and provider.local:
        return Price(0.0, 0.0)
    if provider is None or provider.price_id is None or "server" in identity.settings:
        return None  # somebody's own server: a public price of the same name says nothing
    # the price table is large: it is loaded only where something costs money
    from genai_prices import Usage as PricedUsage  # noqa: PLC0415
    from genai_prices import calc_price  # noqa: PLC0415

    try:
        # asked for a call of usual size: some models cost more a token in calls of hundreds of thousands of tokens
        usages = PricedUsage(input_tokens=1000), PricedUsage(output_tokens=1000)
        prices = [calc_price(usage, identity.name, provider_id=provider.price_id).total_price for usage in usages]
    except LookupError:
        return None
    return Price(*(float(usd * 1000) for usd in prices))


def batch_share(identity: ModelIdentity) -> float:
    """The price of a call in a batch as a share of the usual price; 1 where there are no batches."""
    return getattr(PROVIDERS.get(identity.provider), "batch_share", None) or 1.0


def parse_price(text: str) -> Price:
    """``IN,OUT`` in US dollars per million tokens, as given on the command line."""
    try:
        given, out = (float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"--price must be two numbers IN,OUT in US dollars per million tokens, got {text!r}") from None
    if not (0 <= given < math.inf and 0 <= out < math.inf):
        raise UserError(f"--price must not be negative, got {text!r}")
    return Price(given, out)


def parse_budget(text: str) -> float:
    """US dollars from ``2USD``, ``0.5`` or ``$3``."""
    match = re.fullmatch(r"\$?\s*(\d+(?:\.\d+)?)\s*(?:USD)?", text.strip(), flags=re.IGNORECASE)
    if match is None:
        raise UserError(f"--budget must be an amount in US dollars, such as 2USD or 0.50USD, got {text!r}")
    return float(match.group(1))


class Budget:
    """The most that all models of a run may cost together."""

    def __init__(self, limit_usd: float) -> None:
        if not 0 <= limit_usd < math.inf:
            raise BudgetError(f"a budget must be an amount of US dollars, not negative, got {limit_usd}")
        self.limit_usd = limit_usd
        self.committed_usd = 0.0  # spent, and reserved for calls in progress
        self.under_way = 0
        self.waiting: list[anyio.Event] = []


@dataclass(frozen=True, slots=True)
class Reservation:
    """The usage and cost set aside for one call before it is sent."""

    shown: Usage  # the most that it can be charged for, by its request
    most: Usage  # the same with what the server is known to add
    usd: float


class Charge(NamedTuple):
    """The usage and cost booked for one call."""

    usage: Usage
    cost_usd: float | None  # None: price unknown
    estimated: bool
    """True if this is the most it can be, because the server does not say what it charged, or nothing credible."""


class Ledger:
    """Counts what one model's calls cost and keeps them within the budget, whatever a server says.

    The maximum cost of a call is reserved before it. A call whose reply does not say what was charged, or says what
    cannot be, is booked at that. Where it says, credibly, that it charged more, that is booked, and more is reserved
    for each call from then on: only calls sent before the first such reply can exceed the budget.
    """

    def __init__(self, model: str, price: Price | None, budget: Budget | None = None) -> None:
        self.price = price
        self.free = price == Price(0.0, 0.0)
        if budget is not None and price is None:
            raise BudgetError(
                f"the price of {model} is unknown, so --budget cannot be enforced. Give its price with --price "
                "IN,OUT (US dollars per million tokens), or leave out --budget"
            )
        if budget is not None and budget.limit_usd <= 0 and not self.free:
            raise BudgetError(
                f"a budget of {budget.limit_usd:g} USD allows no call to {model}. Raise --budget, or use a free "
                "model such as embedded"
            )
        self.spent_usd = 0.0
        self.usage = Usage()
        self.calls = 0  # calls that are or may be charged for
        self.kept = 0  # of these, the ones with a reply to keep; the others are failed attempts, probes and canaries
        self.kept_usage = Usage()  # what the kept ones were charged for
        self.estimated = 0  # of all calls, the ones booked at their maximum
        self._hidden = Usage()  # the most that a call was charged for beyond what its request shows
        self._budget = budget

    def most_usd(self, shown: Usage) -> float:
        """The maximum cost of a call; 0 if the price is unknown."""
        return 0.0 if self.price is None else self.price.cost(shown + self._hidden)

    def set_aside(self, shown: Usage) -> Reservation | None:
        """Reserve the maximum cost of a call; None if the budget does not allow it."""
        usd, budget = self.most_usd(shown), self._budget
        if budget is not None and budget.committed_usd + usd > budget.limit_usd:
            return None
        self.reserve(usd)
        return Reservation(shown, shown + self._hidden, usd)

    def reserve(self, usd: float) -> None:
        """Reserve an amount whatever the budget allows, such as what calls of an earlier run may still cost."""
        if self._budget is not None:
            self._budget.committed_usd += usd
            self._budget.under_way += 1

    async def settled(self) -> bool:
        """Wait until a call in progress has returned its unused reservation; False if there is none."""
        if self._budget is None or not self._budget.under_way:
            return False
        event = anyio.Event()
        self._budget.waiting.append(event)
        await event.wait()
        return True

    def book(self, aside: Reservation, usage: Usage) -> Charge:
        """Replace a reservation by what the call is charged for, and return that."""
        charge = self._settle(aside, usage)
        self.kept += 1
        self.kept_usage += charge.usage
        return charge

    def book_unkept(self, aside: Reservation, charged: tuple[int, int] | None) -> Charge | None:
        """Replace the reservation of a call without a reply to keep; ``charged`` as in a CallFailure."""
        if charged is not None:
            return self._settle(aside, Usage(*charged))
        self._commit(-aside.usd)
        return None

    def _settle(self, aside: Reservation, usage: Usage) -> Charge:
        """Book a call by what its server says and by the most that is possible."""
        given, written = usage.input_tokens - aside.shown.input_tokens, usage.output_tokens - aside.shown.output_tokens
        # no call is without input, and few tokens are hidden
        counted = usage.input_tokens >= 1 and usage.output_tokens >= 0
        estimated = not self.free and not (counted and max(given, written) <= MOST_HIDDEN_TOKENS)
        if estimated:
            usage = aside.most
        else:
            self._hidden = Usage(max(self._hidden.input_tokens, given), max(self._hidden.output_tokens, written))
        cost_usd = None if self.price is None else self.price.cost(usage)
        self._commit((cost_usd or 0.0) - aside.usd)
        self.usage += usage
        self.calls += 1
        self.estimated += estimated
        self.spent_usd += cost_usd or 0.0
        return Charge(usage, cost_usd, estimated)

    def _commit(self, usd: float) -> None:
        if self._budget is not None:
            self._budget.committed_usd += usd
            self._budget.under_way -= 1
            while self._budget.waiting:
                self._budget.waiting.pop().set()


def most_usage(request: ChatRequest | ScoreRequest, thinking_tokens: int = 0) -> Usage:
    """The most that a call can be charged for: a token has at least one byte of text."""
    if isinstance(request, ScoreRequest):
        sides = (request.context, request.target)
        return Usage(sum(len(side.encode()) if isinstance(side, str) else len(side) for side in sides), 1)
    # some more go to the marks around each message
    most = sum(len(message.content.encode()) + 16 for message in request.messages)
    return Usage(most, request.max_tokens + thinking_tokens)
