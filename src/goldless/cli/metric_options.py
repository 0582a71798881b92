"""The options that every verb over metrics takes, written once.

``@metric_options`` puts them into a command in the place of its parameter ``options``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Collection
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import anyio
import typer
from rich.markup import escape

from goldless.cli.console import ProgressBars, say
from goldless.judging.critic_prompts import CRITIC_PROMPTS
from goldless.metrics.catalogue import METRICS
from goldless.models.usage import parse_budget, parse_price
from goldless.runs.options import Options, Progress, metric_names
from goldless.runs.progress_file import ProgressFile
from goldless.runs.store import check_writable
from goldless.studies import Study, as_study
from goldless.templates import TEMPLATES
from goldless.user_metrics.catalogue import USER_METRICS

Result = TypeVar("Result")
Format = Literal["rich", "markdown", "csv", "json", "latex"]
OnTooLong = Literal["error", "skip"]
Verdicts = Literal["auto", "probabilities", "labels"]

ASKED = "What is asked"
CRITIC = "TVD-MI"
STATISTICS = "Statistics"
OUTPUT = "Output"
COST = "Cost"

StudyArgument = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study folder, or one file with task, agent, text; or sample.")
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        "-m",
        help=f"Repeat it or separate by commas: {escape(', '.join((*METRICS, *USER_METRICS)))}.",
        rich_help_panel=ASKED,
    ),
]
ScorerOption = Annotated[
    str,
    typer.Option(
        help="Model that gives log-probabilities: embedded, gguf:PATH, hf:NAME, http://…/v1#MODEL.",
        rich_help_panel=ASKED,
    ),
]
RewriterOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Chat model that preprocesses for gem and gem-s: openai:MODEL, http://…/v1#MODEL, … "
        "Repeat it to average over several.",
        rich_help_panel=ASKED,
    ),
]
WriterOption = Annotated[
    str | None,
    typer.Option(
        help="Chat model that writes the abstract or assw of a task that has none, for gem-s.", rich_help_panel=ASKED
    ),
]
TemplateOption = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Prompt wording: {', '.join(TEMPLATES)}, or FILE.toml. Repeat it to average over several.  "
        "[dim]\\[default: general][/dim]",
        rich_help_panel=ASKED,
        show_default=False,
    ),
]
PeersOption = Annotated[
    str | None,
    typer.Option(
        metavar="AGENTS", help="Agents that serve as peers, by commas; all by default.", rich_help_panel=ASKED
    ),
]
PanelOption = Annotated[
    int | None, typer.Option(help="Draw so many agents to serve as peers of all.", rich_help_panel=ASKED)
]
TooLongOption = Annotated[
    OnTooLong,
    typer.Option(
        help="A text that does not fit the scorer's context: stop, or count it as missing.", rich_help_panel=ASKED
    ),
]
CriticOption = Annotated[
    str, typer.Option(help="Model that tells matched pairs from shuffled ones.", rich_help_panel=CRITIC)
]
CriticPromptOption = Annotated[
    str, typer.Option(help=f"What the critic is asked: {', '.join(CRITIC_PROMPTS)}.", rich_help_panel=CRITIC)
]
VerdictsOption = Annotated[
    Verdicts,
    typer.Option(
        help="Read verdicts as probabilities of the labels, or as the label written; auto: the first where possible.",
        rich_help_panel=CRITIC,
    ),
]
ShufflesOption = Annotated[
    int | None,
    typer.Option(help="Shuffled pairs for each matched one; 4 by default, or tasks - 1.", rich_help_panel=CRITIC),
]
BudgetCallsOption = Annotated[
    int | None,
    typer.Option(
        metavar="CALLS",
        help="Most questions to the critic; the pairs that rank best are chosen.",
        rich_help_panel=CRITIC,
    ),
]
BudgetOption = Annotated[
    str | None, typer.Option(metavar="USD", help="Stop before this is exceeded, e.g. 2USD.", rich_help_panel=COST)
]
PriceOption = Annotated[
    str | None,
    typer.Option(
        metavar="IN,OUT", help="USD per million tokens, for a model whose price is unknown.", rich_help_panel=COST
    ),
]
JournalOption = Annotated[
    Path | None,
    typer.Option(help="Journal file; by default one for all your runs.", show_default=False, rich_help_panel=COST),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--metric-timeout",
        metavar="SECONDS",
        help="Longest that a metric of yours may take; 600 for a command by default.",
        show_default=False,
        rich_help_panel=ASKED,
    ),
]
SeedOption = Annotated[int, typer.Option(help="Seed of draws, resampling and tests.", rich_help_panel=STATISTICS)]

RecordedOption = Annotated[
    bool,
    typer.Option("--recorded", help="Use only evidence that the study carries; ask no model.", rich_help_panel=ASKED),
]
ResamplesOption = Annotated[
    int, typer.Option(help="Resamples of tasks for intervals and tests.", rich_help_panel=STATISTICS)
]
MarginOption = Annotated[
    float | None,
    typer.Option(
        metavar="VOTES",
        help="Votes that people's preferences must be ahead by to decide a pair; 2, or 1 where there are few.",
        show_default=False,
        rich_help_panel=STATISTICS,
    ),
]
LevelOption = Annotated[float, typer.Option(help="Level of the intervals.", rich_help_panel=STATISTICS)]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print tables.", rich_help_panel=OUTPUT)]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="RUN_DIR", help="Write results and evidence into this folder.", rich_help_panel=OUTPUT
    ),
]
ResultOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="RUN_DIR",
        help="Write the result into this folder; it may hold other results of the study.",
        rich_help_panel=OUTPUT,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Short for --format json: one object on standard output.", rich_help_panel=OUTPUT),
]


def metric_options(
    default: str | None = "gem-raw", *, leave_out: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of metrics; it is called with ``options`` made of them.

    ``default``: the metric where none is named; None: none. ``leave_out``: options the command has no use for.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        common = {
            name: parameter
            for name, parameter in inspect.signature(_options, eval_str=True).parameters.items()
            if name not in {*own, *leave_out, "default"}
        }

        @functools.wraps(command)
        def run(**given: Any) -> None:
            asked = {name: given.pop(name) for name in common}
            command(**given, options=_options(default=default, **asked))

        parameters: list[inspect.Parameter] = []
        for name, parameter in own.items():
            parameters += common.values() if name == "options" else [parameter]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _options(
    *,
    default: str | None,
    metric: MetricOption = None,
    scorer: ScorerOption = "embedded",
    rewriter: RewriterOption = None,
    synopsis_writer: WriterOption = None,
    template: TemplateOption = None,
    peers: PeersOption = None,
    panel: PanelOption = None,
    on_too_long: TooLongOption = "error",
    recorded: RecordedOption = False,
    metric_timeout: TimeoutOption = None,
    critic: CriticOption = "embedded",
    critic_prompt: CriticPromptOption = "same-source",
    verdicts: VerdictsOption = "auto",
    shuffles: ShufflesOption = None,
    budget_calls: BudgetCallsOption = None,
    seed: SeedOption = 0,
    resamples: ResamplesOption = 10_000,
    level: LevelOption = 0.95,
    budget: BudgetOption = None,
    price: PriceOption = None,
    journal: JournalOption = None,
) -> Options:
    return Options(
        metrics=metric_names(metric or ([] if default is None else [default])),
        scorer=scorer,
        rewriters=names(rewriter),
        synopsis_writer=synopsis_writer,
        templates=names(template),
        metric_timeout_seconds=metric_timeout,
        critic=critic,
        critic_prompt=critic_prompt,
        verdicts=verdicts,
        shuffles=shuffles,
        peers=None if peers is None else names([peers]),
        panel=panel,
        budget_calls=budget_calls,
        recorded=recorded,
        seed=seed,
        resamples=resamples,
        level=level,
        on_too_long=on_too_long,
        budget_usd=None if budget is None else parse_budget(budget),
        price=None if price is None else parse_price(price),
        journal=journal,
        say=say,
    )


def names(given: list[str] | None, default: str | None = None) -> tuple[str, ...]:
    """Names from an option that is repeated or separated by commas, each once."""
    items = given or ([] if default is None else [default])
    return tuple(dict.fromkeys(name.strip() for item in items for name in item.split(",") if name.strip()))


def run_on_study(
    work: Callable[..., Awaitable[Result]],
    study: str | Study,
    options: Any,
    *,
    out_folder: Path | None = None,
    replaces_evidence: bool = False,
    **more: Any,
) -> Result:
    """What the work gives for a study, with a bar for every stage on standard error.

    Where results will go into a folder, that is checked first, and how far the work is stands there in a file.
    """
    source = as_study(study)
    with ExitStack() as stack:
        tell: Callable[[Progress], None] = stack.enter_context(ProgressBars())
        if out_folder is not None:
            check_writable(out_folder, source, replaces_evidence=replaces_evidence)
            tell = stack.enter_context(ProgressFile(out_folder, work.__name__, tell))
        return anyio.run(functools.partial(work, source, replace(options, progress=tell), **more))
