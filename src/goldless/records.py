"""The rows everything is made of: tasks, agents, responses, labels, and failed calls.

What a metric of texts is given, and what it gives back: one response at a time, with all it may be held against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class Task:
    """What was asked (w in the papers)."""

    task: str
    """Its name, unique in the study."""
    prompt: str | None = None
    """The question or material the agents were given."""
    reference: str | None = None
    """A reference answer, where there is one."""
    synopses: Mapping[str, str] = field(default_factory=dict)
    """Named synopses: column ``synopsis_abstract`` is ``synopses["abstract"]``."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Any other columns of the tasks table."""


@dataclass(frozen=True, slots=True)
class Agent:
    """Whoever answered: a model under evaluation, a person, a strategy, a perturbed copy."""

    agent: str
    """Its name, unique in the study."""
    group: str | None = None
    """A group to compare, such as "good faith"."""
    parameters: float | None = None
    """Number of parameters."""
    family: str | None = None
    """Model family, for self-preference."""
    cutoff_date: str | None = None
    """Knowledge cut-off: YYYY-MM-DD, YYYY-MM or YYYY."""


@dataclass(frozen=True, slots=True)
class Response:
    """One agent's text for one task (x as candidate, y as peer reference)."""

    task: str
    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class Rating:
    """A human rating of one response."""

    task: str
    agent: str
    rater: str
    score: float
    criterion: str | None = None


@dataclass(frozen=True, slots=True)
class Preference:
    """A human preference between two responses; positive: the first is better."""

    task: str
    first: str
    second: str
    rater: str
    preference: float
    criterion: str | None = None


FailureKind = Literal[
    "rate_limited",
    "server_error",
    "timeout",
    "connection",
    "rejected",
    "refused",
    "bad_reply",
    "truncated",
    "too_long",
    "budget",
    "unparsable",
    "no_synopsis",
    "not_recorded",
]
"""Why a call gave nothing.

``rejected``: the server will not take this request (bad request, no such model, bad key).
``refused``: the model declined to answer. ``bad_reply``: the server's answer cannot be used.
``truncated``: the answer was cut at its length limit. ``budget``: not sent, it would have gone over the budget.
``unparsable``: the model answered, but with none of the labels it was offered.
``no_synopsis``: the task has no synopsis of the name asked for.
``not_recorded``: the study does not carry it, and no model was to be asked.
"""


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A call that gave nothing: absent, never zero."""

    kind: FailureKind
    message: str
    attempts: int = 1
    """How many times it was tried in a row before it was left open."""


@dataclass(frozen=True, slots=True)
class TextItem:
    """One response to be scored."""

    task: Task
    agent: str
    text: str
    peers: Mapping[str, str]
    """Texts of the responses it is held against, by agent."""


@dataclass(frozen=True, slots=True)
class ItemScore:
    """What a metric says of one response."""

    score: float | None
    """Higher is better. None: missing."""
    problem: str | None = None
    """Why it is missing, where the metric says so."""


class ItemMetric(Protocol):
    """A metric that is given whole responses with everything they may be held against."""

    @property
    def name(self) -> str:
        """As it was asked for."""

    @property
    def unit(self) -> str:
        """What its numbers are in."""

    @property
    def settings(self) -> Mapping[str, str]:
        """What tells its numbers from another version's, for the signature."""

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in their order."""
