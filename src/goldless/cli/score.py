"""``goldless score``: from a study to a leaderboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import anyio
import typer
from rich.markup import escape

from goldless.cli.console import ProgressBars, out, say
from goldless.errors import UserError
from goldless.judging.critic_prompts import CRITIC_PROMPTS
from goldless.metrics.catalogue import METRICS
from goldless.models.usage import parse_budget, parse_price
from goldless.reports.leaderboard import Leaderboard
from goldless.reports.rater_table import RaterTable
from goldless.runs.evaluation import Evaluation
from goldless.runs.options import Options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.store import as_json, check_writable, save_run
from goldless.studies import as_study
from goldless.templates import TEMPLATES

INCOMPLETE = 3
NOTHING_SCORED = 1
Format = Literal["rich", "csv", "json", "markdown"]
OnTooLong = Literal["error", "skip"]
Verdicts = Literal["auto", "probabilities", "labels"]

ASKED = "What is asked"
CRITIC = "TVD-MI"
STATISTICS = "Statistics"
OUTPUT = "Output"
COST = "Cost"

StudyArgument = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study folder, or one file with task, agent, text.")
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metric", "-m", help=f"Repeat it or separate by commas: {escape(', '.join(METRICS))}.", rich_help_panel=ASKED
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
SeedOption = Annotated[int, typer.Option(help="Seed of draws, resampling and tests.", rich_help_panel=STATISTICS)]


def score(
    study: StudyArgument,
    *,
    metric: MetricOption = None,
    scorer: ScorerOption = "embedded",
    rewriter: RewriterOption = None,
    synopsis_writer: WriterOption = None,
    template: TemplateOption = None,
    peers: PeersOption = None,
    panel: PanelOption = None,
    on_too_long: TooLongOption = "error",
    recorded: Annotated[
        bool,
        typer.Option(
            "--recorded", help="Use only evidence that the study carries; ask no model.", rich_help_panel=ASKED
        ),
    ] = False,
    critic: CriticOption = "embedded",
    critic_prompt: CriticPromptOption = "same-source",
    verdicts: VerdictsOption = "auto",
    shuffles: ShufflesOption = None,
    budget_calls: BudgetCallsOption = None,
    compare_groups: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B",
            help="Compare two groups of the agents table: effect sizes and AUC.",
            rich_help_panel=STATISTICS,
        ),
    ] = None,
    seed: SeedOption = 0,
    resamples: Annotated[
        int, typer.Option(help="Resamples of tasks for intervals and tests.", rich_help_panel=STATISTICS)
    ] = 10_000,
    level: Annotated[float, typer.Option(help="Level of the intervals.", rich_help_panel=STATISTICS)] = 0.95,
    budget: BudgetOption = None,
    price: PriceOption = None,
    journal: JournalOption = None,
    out_folder: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="RUN_DIR", help="Write results and evidence into this folder.", rich_help_panel=OUTPUT
        ),
    ] = None,
    table: Annotated[
        Format, typer.Option("--format", help="How to print the leaderboard.", rich_help_panel=OUTPUT)
    ] = "rich",
    json_only: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one JSON object and nothing else on standard output.", rich_help_panel=OUTPUT
        ),
    ] = False,
) -> None:
    """Score a study and print the leaderboard with intervals.

    Example: goldless score answers.jsonl --metric gem-raw,tvd-mi --scorer embedded --out runs/first
    """
    with ProgressBars() as bars:
        options = Options(
            metrics=names(metric, "gem-raw"),
            scorer=scorer,
            rewriters=names(rewriter),
            synopsis_writer=synopsis_writer,
            templates=names(template),
            critic=critic,
            critic_prompt=critic_prompt,
            verdicts=verdicts,
            shuffles=shuffles,
            peers=None if peers is None else names([peers]),
            panel=panel,
            budget_calls=budget_calls,
            recorded=recorded,
            compare_groups=compare_groups,
            seed=seed,
            resamples=resamples,
            level=level,
            on_too_long=on_too_long,
            budget_usd=None if budget is None else parse_budget(budget),
            price=None if price is None else parse_price(price),
            journal=journal,
            progress=bars,
            say=say,
        )
        if out_folder is not None:
            check_writable(out_folder)
        evaluation = anyio.run(evaluate_study, as_study(study), options)
    if out_folder is not None:
        save_run(evaluation, out_folder)
    print_leaderboards(evaluation, "json" if json_only else table)
    tell_rest(evaluation, out_folder)


def names(given: list[str] | None, default: str | None = None) -> tuple[str, ...]:
    """Names from an option that is repeated or separated by commas, each once."""
    items = given or ([] if default is None else [default])
    return tuple(dict.fromkeys(name.strip() for item in items for name in item.split(",") if name.strip()))


def print_leaderboards(evaluation: Evaluation, table: Format) -> None:
    """Print every metric's leaderboard on standard output."""
    if table == "json":
        typer.echo(json.dumps(as_json(evaluation), ensure_ascii=False, indent=2))
        return
    boards: list[Leaderboard | RaterTable] = [outcome.leaderboard for outcome in evaluation.outcomes.values()]
    if evaluation.raters is not None:
        boards.append(evaluation.raters.table)
    for board in boards:
        if table == "rich":
            out.print(board.to_rich())
            out.print(board.signature, markup=False, soft_wrap=True, style="dim")
            out.print()
        elif table == "csv":
            # one header for all metrics; the table of raters has columns of its own
            lines = board.to_csv().splitlines(keepends=True)
            typer.echo(
                "".join(lines[1:] if isinstance(board, Leaderboard) and board is not boards[0] else lines), nl=False
            )
        elif table == "markdown":
            heading = f"## {board.metric}\n\n" * (len(boards) > 1)
            typer.echo(heading + board.to_markdown())
        else:
            raise UserError(f"unknown format {table!r}")
    if table == "rich":
        _print_groups(evaluation)


def _print_groups(evaluation: Evaluation) -> None:
    for outcome in evaluation.outcomes.values():
        groups = outcome.groups
        if groups is None:
            continue
        numbers = {"d_response": groups.d_response, "AUC": groups.auc, "d_task": groups.d_task}
        shown = ", ".join(f"{name} {_three(x)}" for name, x in numbers.items())
        interval = "" if groups.low is None else f" ({_three(groups.low)} … {_three(groups.high)})"
        out.print(
            f"{outcome.metric}: {evaluation.settings.get('groups')}, {groups.n_tasks} tasks: "
            f"difference {_three(groups.difference)}{interval}; {shown}",
            markup=False,
        )


def _three(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def tell_rest(evaluation: Evaluation, folder: Path | None) -> None:
    """Say on standard error what a reader of the table must know; exit with 3 where the run is incomplete."""
    for row in evaluation.spending:
        cost = "price unknown" if row.cost_usd is None else f"{row.cost_usd:.4f} USD"
        tokens = row.usage.input_tokens + row.usage.output_tokens
        say(f"{row.model}: {row.calls} calls now ({tokens:,} tokens, {cost}), {row.reused} from the journal")
    if evaluation.canaries is not None:
        say(f"numeric noise of a sum: {evaluation.canaries.noise_nats:.1e} nats")
    if evaluation.tasks_without_peers:
        listed = ", ".join(evaluation.tasks_without_peers[:10])
        count = len(evaluation.tasks_without_peers)
        say(f"{count} task{'s' * (count != 1)} answered by fewer than two agents, not scored: {listed}", style="yellow")
    if evaluation.failures:
        causes = ", ".join(f"{count} {kind}" for kind, count in sorted(evaluation.failures.items()))
        say(f"missing: {sum(evaluation.failures.values())} of {evaluation.asked} ({causes})", style="yellow")
        for kind, message in evaluation.examples.items():
            say(f"  {kind}, for example: {message}", style="yellow")
    if folder is not None:
        say(f"results and evidence: {folder}")
    if not evaluation.complete:
        done = evaluation.asked - evaluation.open
        say(f"incomplete: {done} of {evaluation.asked}; run the same command again to go on", style="yellow")
        raise typer.Exit(INCOMPLETE)
    if evaluation.outcomes and all(
        row.score is None for o in evaluation.outcomes.values() for row in o.leaderboard.rows
    ):
        say("nothing could be scored", style="red")
        raise typer.Exit(NOTHING_SCORED)
