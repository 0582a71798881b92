"""The cost of calls, and the budget they must stay within."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import anyio

from goldless.errors import BudgetError, GoldlessError, UserError
from goldless.models.catalogue import PROVIDERS
from goldless.models.interface import ChatRequest, ModelIdentity, ScoreRequest, Usage

MILLION = 1_000_000
MOST_HIDDEN_TOKENS = 65_536
"""Charged beyond what a request shows, such as a system prompt or thinking; a higher count is not believed."""
UNKNOWN_CHARGE = (0, 0)  # an attempt that may be charged for, nobody knows how much


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input_usd: float
    output_usd: float
    longer: tuple[int, Price] | None = None
    """The price of calls with more input tokens than this; None: the same."""

    def of_call(self, input_tokens: float) -> Price:
        """The price of a call of this length."""
        if self.longer is None or input_tokens <= self.longer[0]:
            return self
        return self.longer[1].of_call(input_tokens)

    def cost(self, usage: Usage) -> float:
        """The cost of one call."""
        price = self.of_call(usage.input_tokens)
        return (usage.input_tokens * price.input_usd + usage.output_tokens * price.output_usd) / MILLION

    def shared(self, share: float) -> Price:
        """The price at this share of it, such as half in a batch."""
        longer = self.longer and (self.longer[0], self.longer[1].shared(share))
        return Price(self.input_usd * share, self.output_usd * share, longer)


def price_of(identity: ModelIdentity, spec: object = None) -> Price | None:
    """The model's public price, or else that in its specification; None if unknown. Models on this machine are free."""
    in_spec = re.search(r"[?&]price=([^&]*)", str(spec))
    return _public_price(identity) or (parse_price(in_spec[1]) if in_spec else None)


def _public_price(identity: ModelIdentity) -> Price | None:
    provider = PROVIDERS.get(identity.provider)
    if provider is not None and provider.local:
        return Price(0.0, 0.0)
    if provider is None or provider.price_id is None or "server" in identity.settings:
        return None  # somebody's own server: a public price of the same name says nothing
    # the price table is large: it is loaded only where something costs money
    from genai_prices import Usage as PricedUsage  # noqa: PLC0415
    from genai_prices import calc_price  # noqa: PLC0415

    def calculated(length: int, written: int) -> Any:
        usage = PricedUsage(input_tokens=length, output_tokens=written)
        return calc_price(usage, identity.name, provider_id=provider.price_id)

    try:
        model = calculated(1000, 1000).model_price
    except LookupError:
        return None
    tiers = [tier for side in (model.input_mtok, model.output_mtok) for tier in getattr(side, "tiers", ())]
    price, beyond = None, 0
    for start in sorted({0, *(tier.start for tier in tiers)}, reverse=True):
        length = start + 1000
        read = calculated(length, 0).total_price
        written = calculated(length, 1000).total_price - read
        longer = None if price is None else (beyond, price)
        price, beyond = Price(float(read * MILLION / length), float(written * 1000), longer), start
    return price


def batch_share(identity: ModelIdentity) -> float:
    """The price of a call in a batch as a share of the usual price; 1 where there are no batches."""
    return getattr(PROVIDERS.get(identity.provider), "batch_share", None) or 1.0


def parse_price(text: str) -> Price:
    """``IN:OUT`` in US dollars per million tokens, as in the name of a model."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)", text)
    if match is None:
        raise UserError(f"price must be IN:OUT, two amounts of US dollars per million tokens, got {text!r}")
    return Price(float(match[1]), float(match[2]))


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
        self.committed_usd = 0.0  # spent, reserved for calls in progress, and for batches
        self.under_way = 0
        self.waiting: list[anyio.Event] = []


class MoreToReserveError(GoldlessError):
    """A call that was not taken, and whose model needs more set aside before it is sent in another way."""


class Reservation(NamedTuple):
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

    The maximum cost of a call is reserved before it, by ``Reservations``. A call whose reply does not say what was
    charged, or says what cannot be, is booked at that. Where it says, credibly, that it charged more, that is booked,
    and more is reserved for each call from then on: only calls sent before the first such reply can exceed the budget.
    """

    def __init__(self, model: str, price: Price | None, budget: Budget | None = None) -> None:
        self.price = price
        self.free = price == Price(0.0, 0.0)
        if budget is not None and price is None:
            raise BudgetError(
                f"the price of {model} is unknown, so --budget cannot be enforced. Give its price as in "
                "MODEL?price=IN:OUT (US dollars per million tokens), or leave out --budget"
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
        self._budget = budget or Budget(sys.float_info.max)

    def most_usd(self, shown: Usage) -> float:
        """The maximum cost of a call; 0 if the price is unknown."""
        return 0.0 if self.price is None else self.price.cost(shown + self._hidden)

    def affords(self, usd: float) -> bool:
        return self._budget.committed_usd + usd <= self._budget.limit_usd

    def commit(self, usd: float) -> None:
        """Commit an amount, whatever the budget allows; a negative one is returned, and whoever waits looks again."""
        self._budget.committed_usd += usd
        while self._budget.waiting:
            self._budget.waiting.pop().set()

    def reserve(self, shown: Usage) -> Reservation | None:
        """Set the maximum cost of a call aside, for ``Reservations``; None: the budget does not allow it."""
        usd = self.most_usd(shown)
        if not self.affords(usd):
            return None
        self.commit(usd)
        self._budget.under_way += 1
        return Reservation(shown, shown + self._hidden, usd)

    async def settled(self) -> bool:
        """Wait until a call in progress has returned its unused reservation; False if there is none."""
        if not self._budget.under_way:
            return False
        event = anyio.Event()
        self._budget.waiting.append(event)
        await event.wait()
        return True

    def settle(self, aside: Reservation, charged: Usage | None, *, kept: bool) -> Charge | None:
        """Replace a reservation by what the call is charged for; None: nothing."""
        self._budget.under_way -= 1
        if charged is None:
            self.commit(-aside.usd)
            return None
        return self.book(aside, charged, kept=kept)

    def book(self, aside: Reservation, usage: Usage, *, kept: bool) -> Charge:
        """Book a call by what its server says, or by the most that is possible; ``kept``: with a reply to keep."""
        given, written = usage.input_tokens - aside.shown.input_tokens, usage.output_tokens - aside.shown.output_tokens
        # no call is without input, and few tokens are hidden
        counted = usage.input_tokens >= 1 and usage.output_tokens >= 0
        estimated = not self.free and not (counted and max(given, written) <= MOST_HIDDEN_TOKENS)
        if estimated:
            usage = aside.most
        else:
            self._hidden = Usage(max(self._hidden.input_tokens, given), max(self._hidden.output_tokens, written))
        cost_usd = None if self.price is None else self.price.cost(usage)
        self.commit((cost_usd or 0.0) - aside.usd)
        self.usage += usage
        self.calls += 1
        self.estimated += estimated
        self.spent_usd += cost_usd or 0.0
        if kept:
            self.kept += 1
            self.kept_usage += usage
        return Charge(usage, cost_usd, estimated)


class Reservations:
    """The money and tokens set aside for calls, by key, from before they are sent until they are booked.

    A context manager, so that nothing stays set aside, however its block ends: a call that was sent and is not booked
    may be charged for, so it is booked at the most it can cost; what was set aside for any other is returned.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open: dict[str, Reservation] = {}
        self._sent: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for key in tuple(self._open):
            self.book_unkept(key, UNKNOWN_CHARGE if key in self._sent else None)

    def set_aside(self, key: str, shown: Usage) -> bool:
        """Reserve the maximum cost of a call; False: the budget does not allow it."""
        aside = self._ledger.reserve(shown)
        if aside is not None:
            self._open[key] = aside
        return aside is not None

    def send(self, keys: Iterable[str]) -> None:
        """Note that calls are handed to the model, which may charge for them from now on."""
        self._sent.update(keys)

    def book(self, key: str, usage: Usage) -> Charge | None:
        """Book a call whose reply is kept."""
        return self._ledger.settle(self._open.pop(key), usage, kept=True)

    def book_unkept(self, key: str, charged: tuple[int, int] | None) -> Charge | None:
        """Book a call without a reply to keep; ``charged`` as in a CallFailure."""
        usage = None if charged is None else Usage(*charged)
        return self._ledger.settle(self._open.pop(key), usage, kept=False)


def most_usage(request: ChatRequest | ScoreRequest, thinking_tokens: int = 0) -> Usage:
    """The most that a call can be charged for: a token has at least one byte of text."""
    if isinstance(request, ScoreRequest):
        sides = (request.context, request.target)
        return Usage(sum(len(side.encode()) if isinstance(side, str) else len(side) for side in sides), 1)
    # some more go to the marks around each message
    most = sum(len(message.content.encode()) + 16 for message in request.messages)
    return Usage(most, request.max_tokens + thinking_tokens)
