"""How many tokens a request has: as its model counts them, or else estimated from characters."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from goldless.models.interface import MeasuringModel, Message

LETTERS_A_TOKEN = 3
"""Of letters and blanks; every other ASCII character counts as a token, for digits and signs often are one. With a
vocabulary of 49,000, smaller than most servers', the estimate is 1.3 to 1.5 times the tokens of four machine-learning
papers, and below them in no stretch of 5,000 characters."""
TOKENS_A_CHARACTER = 2
"""Of characters beyond ASCII: signs of mathematics and of other scripts are often several tokens."""
MESSAGE_TOKENS = 16
"""What a chat template puts around a message, at most."""
_LETTERS = re.compile(r"[A-Za-z ]+")


@dataclass(frozen=True, slots=True)
class RequestLength:
    """The length of a request."""

    tokens: int
    exact: bool
    """Whether the model counted it itself; else it is an estimate, on the safe side for papers."""

    def __str__(self) -> str:
        """The number, and whether it is an estimate."""
        return f"{self.tokens:,} tokens" if self.exact else f"about {self.tokens:,} tokens (estimated)"


async def request_length(model: object, messages: Sequence[Message]) -> RequestLength:
    """The messages' length as the model counts it, or estimated where it cannot tell.

    Raises CallError where the model could tell, but does not answer now.
    """
    counted = await model.count_tokens(messages) if isinstance(model, MeasuringModel) else None
    if counted is not None:
        return RequestLength(counted, exact=True)
    return RequestLength(sum(estimated_tokens(m.content) + MESSAGE_TOKENS for m in messages), exact=False)


def estimated_tokens(text: str) -> int:
    """Tokens of a text, rather too many than too few."""
    signs = _LETTERS.sub("", text)
    letters, plain = len(text) - len(signs), len(signs.encode("ascii", "ignore"))
    return math.ceil(letters / LETTERS_A_TOKEN) + plain + (len(signs) - plain) * TOKENS_A_CHARACTER


def context_limit(model: object, given: int | None) -> int | None:
    """Most tokens of request and reply: what the model says, or what the user says where that is less or all there is.

    None: nobody knows, and the server decides.
    """
    known = model.context_length if isinstance(model, MeasuringModel) else None
    return min((limit for limit in (known, given) if limit is not None), default=None)
