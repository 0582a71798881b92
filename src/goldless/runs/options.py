"""How to evaluate: the options of a run, checked before anything is opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from goldless.errors import MetricError, UserError
from goldless.judging.critic import Verdicts
from goldless.judging.critic_prompts import find_critic_prompt
from goldless.metrics.catalogue import METRICS, find_metric
from goldless.metrics.metric import Metric
from goldless.metrics.text_metrics import UserMetric
from goldless.models.interface import ChatModel, Scorer
from goldless.models.usage import Price
from goldless.preprocessing import MOST_TOKENS
from goldless.templates import Template, find_template
from goldless.user_metrics.catalogue import USER_METRICS, find_user_metric, function_metric

OnTooLong = Literal["error", "skip"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is."""

    stage: str
    done: int
    total: int
    tokens: int
    cost_usd: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to evaluate."""

    metrics: Sequence[str | Callable[..., object]] = ("gem-raw",)
    """Names, or functions of a response."""
    scorer: str | Scorer = "embedded"
    rewriters: Sequence[str | ChatModel] = ()
    """Chat models that preprocess; several are averaged over."""
    rewrite_max_tokens: int = MOST_TOKENS
    """Longest rewrite; a longer one is missing."""
    synopsis_writer: str | ChatModel | None = None
    """Chat model that writes abstracts and ASSW summaries where the study has none."""
    metric_timeout_seconds: float | None = None
    """Longest that a metric of somebody else's may take for all responses; None: its own limit."""
    templates: Sequence[str] = ()
    """Wordings; several are averaged over. None: ``general``, and of recorded evidence all there are."""
    critic: str | ChatModel = "embedded"
    critic_prompt: str = "same-source"
    verdicts: Verdicts = "auto"
    shuffles: int | None = None
    """Shuffled partners of each matched pair; None: by the number of tasks."""
    peers: Sequence[str] | None = None
    """Agents that serve as peers; None: all."""
    pairing: Mapping[tuple[str, str], Sequence[str]] | None = None
    """The peers of each response that is scored, by task and agent; None: as ``peers`` says."""
    panel: int | None = None
    """That many agents, drawn by the seed, serve as peers."""
    budget_calls: int | None = None
    """Most calls of the critic; tasks and partners are chosen to fit."""
    recorded: bool = False
    """Use only what the study carries; ask no model."""
    told: Mapping[str, str] = field(default_factory=dict)
    """What signatures say beside what a run knows itself, such as how the responses were asked for."""
    compare_groups: tuple[str, str] | None = None
    """Two groups of the agents table to compare."""
    seed: int = 0
    resamples: int = 10_000
    level: float = 0.95
    on_too_long: OnTooLong = "error"
    budget_usd: float | None = None
    price: Price | None = None
    """Price of a model whose price is not known."""
    journal: Path | None = None
    progress: Callable[[Progress], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)

    def chosen_metrics(self) -> list[Metric]:
        """The metrics asked for, each once."""
        if not self.metrics or not all(isinstance(name, str) or callable(name) for name in self.metrics):
            raise MetricError(f"no metric was named. Known: {', '.join((*METRICS, *USER_METRICS))}.")
        found = [self._metric(name) for name in dict.fromkeys(self.metrics)]
        names = [metric.name for metric in found]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise MetricError(f"two metrics are called {', '.join(twice)}; give each function a name of its own")
        return found

    def _metric(self, name: str | Callable[..., object]) -> Metric:
        """The metric of that name: somebody else's, or ours; of a function, that function."""
        if not isinstance(name, str):
            given = function_metric(name, timeout_seconds=self.metric_timeout_seconds)
            return UserMetric(given.name, given)
        theirs = find_user_metric(name, timeout_seconds=self.metric_timeout_seconds)
        return find_metric(name) if theirs is None else UserMetric(name, theirs)

    def chosen_templates(self) -> list[Template]:
        """The templates asked for, each once."""
        return [find_template(name) for name in dict.fromkeys(self.templates or ("general",))]


def metric_names(given: Sequence[Any]) -> tuple[Any, ...]:
    """Metrics from names that may hold several, separated by commas; a command: takes all that follows it."""
    found: list[Any] = []
    for item in given:
        if callable(item):
            found.append(item)
            continue
        command = re.search(r"(?:^|,)\s*(command:.*)", str(item), re.DOTALL)
        listed = str(item) if command is None else str(item)[: command.start()]
        found += [name.strip() for name in listed.split(",") if name.strip()]
        found += [] if command is None else [command[1].strip()]
    return tuple(dict.fromkeys(found))


def check_options(options: Options) -> None:
    """Refuse what no study could be evaluated with."""
    options.chosen_metrics()
    options.chosen_templates()
    find_critic_prompt(options.critic_prompt)
    _check_types(options)
    _one_of("on_too_long", options.on_too_long, get_args(OnTooLong))
    _one_of("verdicts", options.verdicts, get_args(Verdicts))
    if options.seed < 0:
        raise UserError(f"a seed is a whole number that is not negative, not {options.seed}")
    if not 0 < options.level < 1:
        raise UserError(f"an interval's level lies between 0 and 1, not at {options.level}")
    if options.resamples < 100:
        raise UserError(f"{options.resamples} resamples are too few for an interval; give at least 100")
    for name, value, least in (
        ("shuffles", options.shuffles, 1),
        ("a panel", options.panel, 1),
        ("rewrite_max_tokens", options.rewrite_max_tokens, 1),
    ):
        if value is not None and value < least:
            raise UserError(f"{name}: {value} is too few; give at least {least}, or leave it out")
    if options.panel is not None and options.peers is not None:
        raise UserError("name the peers or say how many to draw, not both")
    if options.pairing is not None and (options.peers, options.panel, options.budget_calls) != (None, None, None):
        raise UserError("a pairing says who is whose peer: leave out the peers, the panel and the budget of calls")
    if options.budget_calls is not None and (options.panel is not None or options.peers is not None):
        raise UserError("a budget of critic calls chooses the partners itself: leave out the peers and the panel")


def _check_types(options: Options) -> None:
    whole = ("seed", "resamples", "panel", "shuffles", "budget_calls", "rewrite_max_tokens")
    for name in whole:
        value = getattr(options, name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise UserError(f"{name} is a whole number, not {value!r}")
    if not isinstance(options.level, int | float):
        raise UserError(f"level is a number between 0 and 1, not {options.level!r}")
    for name in ("scorer", "critic"):
        if not hasattr(getattr(options, name), "prepare") and not isinstance(getattr(options, name), str):
            raise UserError(f"{name} is the name of a model or a model, not {getattr(options, name)!r}")
    groups = options.compare_groups
    if groups is not None and (len(groups) != 2 or groups[0] == groups[1]):
        raise UserError(f"compare two different groups, not {', '.join(map(repr, groups))}")


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise UserError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
