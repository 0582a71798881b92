"""The basic records: tasks, agents, responses, labels, failed calls, and the items and scores of text metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class Task:
    """The work that the agents were given (w in the papers)."""

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

    def synopsis(self, name: str) -> str | None:
        """The synopsis of this name; else the text of the column of this name: the prompt, or any other."""
        columns = {**self.extra, "prompt": self.prompt, "reference": self.reference}
        text = self.synopses.get(name) or columns.get(name)
        return text if isinstance(text, str) and text.strip() else None

    @property
    def synopsis_names(self) -> tuple[str, ...]:
        """The names of all texts that ``synopsis`` finds."""
        return tuple(
            name for name in dict.fromkeys((*self.synopses, "prompt", "reference", *self.extra)) if self.synopsis(name)
        )


@dataclass(frozen=True, slots=True)
class Agent:
    """The author of responses: a model under evaluation, a person, a strategy, a perturbed copy."""

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
    sample_of: str | None = None
    """The agent that this one is a sample of, where an agent has several responses to a task."""


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
    "waiting",
    "unparsable",
    "no_synopsis",
    "no_control",
    "not_recorded",
]
"""The reason why a call returned nothing usable.

``rejected``: the server does not accept this request (bad request, no such model, bad key).
``refused``: the model declined to answer. ``bad_reply``: the server's reply cannot be used.
``truncated``: the reply was cut at its length limit. ``budget``: not sent, it could have exceeded the budget.
``waiting``: handed to the provider in a batch, not answered yet.
``unparsable``: the reply has none of the labels offered.
``no_synopsis``: the task has no synopsis of the requested name.
``no_control``: the peer has responses to no other task, so task control has nothing to subtract.
``not_recorded``: not in the study, and calling models is off.
"""


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A call that returned nothing usable: absent, never zero."""

    kind: FailureKind
    message: str
    attempts: int = 1
    """Consecutive attempts before it was left open."""
    charged: tuple[int, int] | None = None
    """Input and output tokens that its last attempt may be charged for; (0, 0) if the reply does not say how many.
    None: it is not charged for, because it was not sent or not taken.
    """


@dataclass(frozen=True, slots=True)
class TextItem:
    """One response to be scored."""

    task: Task
    agent: str
    text: str
    peers: Mapping[str, str]
    """Texts of the peers it is compared with, by agent."""

    @property
    def fields(self) -> dict[str, Any]:
        """The response by the names that a metric may take."""
        return {
            "response": self.text,
            "prompt": self.task.prompt,
            "task": self.task.task,
            "agent": self.agent,
            "references": list(self.peers.values()),
            "reference": self.task.reference,
            "synopses": dict(self.task.synopses),
        }


@dataclass(frozen=True, slots=True)
class ItemScore:
    """A metric's score for one response."""

    score: float | None
    """Higher is better. None: missing."""
    problem: str | None = None
    """The reason why it is missing, if the metric says so."""


@dataclass(frozen=True)
class Finding:
    """Something a reader of the ranking should know."""

    kind: str
    """The check that found it, such as ``same-text``."""
    agents: tuple[str, ...]
    """The agents it concerns."""
    message: str
    """A whole sentence."""
    metrics: tuple[str, ...] = ()
    """The metrics it concerns; empty: the texts themselves."""


class ItemMetric(Protocol):
    """A metric that scores whole responses, given everything they can be compared with."""

    @property
    def name(self) -> str:
        """The name as requested."""

    @property
    def unit(self) -> str:
        """The unit of its scores."""

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings that distinguish its scores from those of another version, for the signature."""

    async def scores(self, items: Sequence[TextItem]) -> list[ItemScore]:
        """The score of each item, in order."""
