"""The cost of a reviewer's judgements: tokens, their source, and prices.

Token counts are those a user gives, else those recorded in the study or the run, else estimates from the text of the
actual question and reply, at four characters per token. An unknown price stays unknown: a panel with such a reviewer
has no cost, rather than a cost of 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from goldless.errors import CapabilityError, UserError, nearest
from goldless.grouped import mean_in_order
from goldless.judging.exams.items import all_pairs, pair_questions
from goldless.judging.reviewing import ReviewQuestion
from goldless.models.catalogue import is_local, open_model, unopened_identity
from goldless.models.interface import ModelIdentity
from goldless.models.usage import MILLION, Price, parse_price, price_of, public_price
from goldless.runs.estimate import CHARACTERS_A_TOKEN
from goldless.runs.options import Options
from goldless.runs.review_evidence import reviewer_family
from goldless.runs.review_results import Review
from goldless.runs.reviewers import named_reviewers
from goldless.studies import Study

TokensFrom = Literal["given", "recorded", "measured", "estimated"]
"""``given``: by the user; ``recorded``: counted in the study's judgements; ``measured``: charged in the run;
``estimated``: from the text, at four characters per token."""
PriceFrom = Literal["given", "price table", "on this machine", "unknown"]
REPLY_TOKENS = 1
"""The length assumed for a missing verdict: one word."""
Asked = tuple[str, str, str | None]
"""Task, first agent, second agent."""


@dataclass(frozen=True, slots=True)
class ReviewerCost:
    """The cost of one reviewer's judgements."""

    reviewer: str
    judgements: int
    """Number of judgements requested; with both orders each pair counts twice."""
    tokens: float
    """Input and output tokens of all judgements together."""
    tokens_a_judgement: float
    """Mean over the judgements."""
    tokens_from: TokensFrom
    input_usd_per_million: float | None
    """None: price unknown."""
    output_usd_per_million: float | None
    price_from: PriceFrom
    usd: float | None
    """Of all judgements together; None: price unknown."""


# --- of judgements that are there ----------------------------------------------------------------------------------


def reviewer_costs(
    study: Study,
    review: Review,
    options: Options,
    *,
    prices: Mapping[str, Price] | None = None,
    tokens_a_judgement: float | None = None,
) -> dict[str, ReviewerCost]:
    """The cost of a review's judgements, by reviewer. ``prices``: by reviewer, overriding the price table."""
    names = [reviewer.name for reviewer in review.reviewers]
    counted = _recorded_tokens(study, options) if options.recorded else _measured_tokens(review)
    counter = _Counter(study, options, names, prices, tokens_a_judgement)
    first = pl.when(pl.col("second").is_null()).then("agent").otherwise("first")
    written = pl.col("output").fill_null("").str.len_chars() // CHARACTERS_A_TOKEN + 1
    found = {}
    for name in names:
        own = review.judgements.filter(pl.col("reviewer") == name).select("task", first, "second", written=written)
        asked = own.drop("written").rows()
        found[name] = counter.cost(name, asked, float(own["written"].sum()), counted.get(name))
    return found


class _Counter:
    """What judgements of several reviewers cost, by what is known of their tokens."""

    def __init__(
        self,
        study: Study,
        options: Options,
        names: Sequence[str],
        prices: Mapping[str, Price] | None,
        tokens_a_judgement: float | None,
    ) -> None:
        """Refuse prices of unknown reviewers, and an impossible number of tokens."""
        strange = [name for name in prices or {} if name not in names]
        if strange:
            raise UserError(
                f"a price is given for {', '.join(map(repr, strange))}, which is not a reviewer"
                f"{nearest(strange[0], names) or '.'} Reviewers: {', '.join(names)}"
            )
        if tokens_a_judgement is not None and not 0 < tokens_a_judgement < math.inf:
            raise UserError(
                f"tokens per judgement must be above 0, got {tokens_a_judgement}. Try 1000, or leave it out"
            )
        self._study, self._options, self._prices, self._given = study, options, prices or {}, tokens_a_judgement
        self._known: dict[tuple[str, Asked], int] = {}

    def cost(
        self, name: str, asked: Sequence[Asked], written: float, counted: tuple[float, float] | None = None
    ) -> ReviewerCost:
        """The cost of the questions; ``counted``: input and output tokens of each judgement, if known."""
        source: TokensFrom
        if self._given is not None:
            whole = self._given * len(asked)
            source, tokens = "given", (max(0.0, whole - written), min(whole, written))
        elif counted is not None:
            source = "recorded" if self._options.recorded else "measured"
            tokens = (counted[0] * len(asked), counted[1] * len(asked))
        else:
            read = sum(self._sizes(name, asked))
            source, tokens = "estimated", (float(read), written)
        price, price_from = _price(name, self._prices, self._options)
        return ReviewerCost(
            reviewer=name,
            judgements=len(asked),
            tokens=sum(tokens),
            tokens_a_judgement=sum(tokens) / len(asked) if asked else 0.0,
            tokens_from=source,
            input_usd_per_million=None if price is None else price.input_usd,
            output_usd_per_million=None if price is None else price.output_usd,
            price_from=price_from,
            usd=None if price is None else (tokens[0] * price.input_usd + tokens[1] * price.output_usd) / MILLION,
        )

    def _sizes(self, reviewer: str, asked: Sequence[Asked]) -> Iterator[int]:
        """Tokens of the questions at four characters each; questions to several reviewers are rendered once."""
        described = self._options.descriptions.get(reviewer, self._options.task_description)
        texts: dict[str, dict[str, str]] = {}
        for key in asked:
            if (described, key) not in self._known:
                task, first, second = key
                if task not in texts:
                    texts[task] = {response.agent: response.text for response in self._study.responses(task)}
                shown = texts[task].get(first, ""), None if second is None else texts[task].get(second, "")
                prompt = self._study.task(task).prompt
                messages = self._options.chosen_scale.messages(*shown, prompt=prompt, task_description=described)
                characters = sum(len(message.content) for message in messages)
                self._known[described, key] = characters // CHARACTERS_A_TOKEN + 1
            yield self._known[described, key]


def _recorded_tokens(study: Study, options: Options) -> dict[str, tuple[float, float]]:
    """Tokens read and written a judgement as the study counts them, of reviewers with both on every row."""
    table = study.table("judgements")
    columns = ("input_tokens", "output_tokens")
    if table is None or not set(columns) <= set(table.columns):
        return {}
    rows = table.filter(pl.col("format") == options.chosen_scale.name)
    sums = rows.group_by("reviewer").agg(
        *(mean_in_order(pl.col(name).cast(pl.Float64, strict=False)) for name in columns),
        pl.any_horizontal(pl.col(*columns).is_null()).any().alias("lacking"),
    )
    return {
        row["reviewer"]: (row["input_tokens"], row["output_tokens"])
        for row in sums.iter_rows(named=True)
        if not row["lacking"]
    }


def _measured_tokens(review: Review) -> dict[str, tuple[float, float]]:
    """Tokens read and written a judgement by what the run was charged for.

    Replies from the journal are taken to be like those paid for now. A model that plays several reviewers is charged
    once for all of them: each has its share by judgements.
    """
    spent = {row.model: row for row in review.spending if row.kept}
    asked = {r.name: r.asked for r in review.reviewers}
    played: dict[str, list[str]] = {}
    for reviewer in review.reviewers:
        if reviewer.model in spent and reviewer.asked:
            played.setdefault(str(reviewer.model), []).append(reviewer.name)
    found: dict[str, tuple[float, float]] = {}
    for model, names in played.items():
        row = spent[model]
        assert row.kept is not None
        assert row.kept_usage is not None
        share = (row.kept + row.reused) / row.kept / sum(asked[name] for name in names)
        found |= dict.fromkeys(names, (row.kept_usage.input_tokens * share, row.kept_usage.output_tokens * share))
    return found


# --- of judgements that are still to be asked for --------------------------------------------------------------------


def planned_reviewer_costs(
    study: Study,
    options: Options,
    *,
    prices: Mapping[str, Price] | None = None,
    tokens_a_judgement: float | None = None,
) -> dict[str, ReviewerCost]:
    """The cost of asking the reviewers about everything, by the text of the questions. No model is called."""
    named = named_reviewers(options.reviewers)
    counter = _Counter(study, options, list(named), prices, tokens_a_judgement)
    found = {}
    for name, given in named.items():
        asked = [(q.task, q.first, q.second) for q in _questions(study, options, name, _identity(given))]
        found[name] = counter.cost(name, asked, float(len(asked) * REPLY_TOKENS))
    return found


def _questions(study: Study, options: Options, name: str, identity: ModelIdentity | None) -> Sequence[ReviewQuestion]:
    """The questions to a reviewer: all except those about its own family."""
    families = {agent.agent: agent.family or agent.agent for agent in study.agents}
    own = reviewer_family(name, None if identity is None else identity.name, options.families, families)
    kept = {agent for agent, family in families.items() if options.judges_own_family or family != own}
    answered = {task.task: [r.agent for r in responses if r.agent in kept] for task, responses in study}
    if options.chosen_scale.pairwise:
        pairs = all_pairs({task: agents for task, agents in answered.items() if agents})
        return pair_questions(pairs, options.orders, seed=options.seed, reviewer=name)
    return [ReviewQuestion(task, agent) for task, agents in answered.items() for agent in agents]


# --- prices ----------------------------------------------------------------------------------------------


def _price(name: str, prices: Mapping[str, Price], options: Options) -> tuple[Price | None, PriceFrom]:
    if name in prices:
        return prices[name], "given"
    given = name if options.recorded else named_reviewers(options.reviewers).get(name, name)
    identity = None if options.recorded else _identity(given)
    if identity is None and not options.recorded:
        return Price(0.0, 0.0), "on this machine"
    found = public_price(name) if identity is None else price_of(identity)
    if found is not None:
        return found, "on this machine" if identity is not None and is_local(identity) else "price table"
    return (options.price, "given") if options.price is not None else (None, "unknown")


def _identity(given: Any) -> ModelIdentity | None:
    """A reviewer's identity, as far as its specification gives it; None: a model on this machine.

    Nothing is loaded or called, and no key is needed. Unknown specifications are refused, as in a review.
    """
    told = unopened_identity(given) if isinstance(given, str) else None
    if told is not None:
        return told
    model = open_model(given, use="chat") if isinstance(given, str) else given
    try:
        identity: ModelIdentity = model.identity
    except CapabilityError:
        return None  # says who it is only once it is loaded, so it is on this machine
    return identity


def parse_reviewer_prices(given: Iterable[str]) -> dict[str, Price]:
    """Prices by reviewer from ``NAME=USD`` or ``NAME=IN,OUT``, in US dollars per million tokens."""
    found, problems = {}, []
    for item in given:
        name, equals, price = item.rpartition("=")
        try:
            if not equals or not name.strip():
                raise UserError("a name is missing")  # noqa: TRY301 - reported with the others
            found[name.strip()] = parse_price(price if "," in price else f"{price},{price}")
        except UserError:
            problems.append(repr(item))
    if problems:
        raise UserError(
            "--reviewer-price must be NAME=USD or NAME=IN,OUT in US dollars per million tokens, not negative, "
            f"got {', '.join(problems)}. Try gpt4=40 or open-model=0"
        )
    return found
