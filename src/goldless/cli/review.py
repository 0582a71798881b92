"""``goldless review``: reviewers earn their vote in an exam and judge; the chair counts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from goldless.cli.console import say, tell_folder, tell_spending
from goldless.cli.exit_codes import INCOMPLETE, NOBODY_PASSED
from goldless.cli.metric_options import (
    STATISTICS,
    BudgetOption,
    Format,
    FormatOption,
    JournalOption,
    JsonOption,
    MarginOption,
    OutOption,
    PriceOption,
    SeedOption,
    StudyArgument,
    Verdicts,
    names,
    run_on_study,
)
from goldless.cli.tables import print_tables
from goldless.errors import UserError
from goldless.judging.debate import DEBATES
from goldless.judging.judges import JUDGES
from goldless.models.usage import parse_budget, parse_price
from goldless.reports.review_tables import review_markdown, review_tables
from goldless.runs.review_options import TRAITS, ReviewOptions
from goldless.runs.review_results import Review, review_as_json
from goldless.runs.review_store import save_review
from goldless.runs.reviewing import review_study

EXAM = "Exam"
WHO = "Reviewers"
Convention = Literal["default", "paper"]
Weighting = Literal["equal", "mean of traits", "trait", "logit"]


def review(
    study: StudyArgument,
    *,
    reviewers: Annotated[
        list[str] | None,
        typer.Option(
            "--reviewers",
            help="Chat models, by commas or repeated: SPEC or NAME=SPEC; with --recorded names. "
            "The same model under two names, with --describe, is two reviewers.",
            rich_help_panel=WHO,
        ),
    ] = None,
    scale: Annotated[
        str, typer.Option(help=f"What they are asked: {', '.join(JUDGES)}.", rich_help_panel=WHO)
    ] = "pairwise",
    task_description: Annotated[
        str, typer.Option(help="What is judged and what counts, in a sentence or two.", rich_help_panel=WHO)
    ] = "",
    describe: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TEXT", help="A task description of its own for a reviewer.", rich_help_panel=WHO),
    ] = None,
    family: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FAMILY", help="Family of a reviewer; agents' are in the agents table.", rich_help_panel=WHO
        ),
    ] = None,
    own_family: Annotated[
        bool, typer.Option("--own-family", help="Let reviewers judge agents of their own family.", rich_help_panel=WHO)
    ] = False,
    debate: Annotated[
        str | None,
        typer.Option(
            help=f"Each reviewer is a debate among copies of its model: {', '.join(DEBATES)}.", rich_help_panel=WHO
        ),
    ] = None,
    verdicts: Annotated[
        Verdicts,
        typer.Option(
            help="Read verdicts as probabilities of the labels, or as written; auto: the first where possible.",
            rich_help_panel=WHO,
        ),
    ] = "auto",
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Use only judgements that the study carries.", rich_help_panel=WHO)
    ] = False,
    exam: Annotated[
        list[str] | None,
        typer.Option(help=f"What must be passed, by commas: {', '.join(TRAITS)}.", rich_help_panel=EXAM),
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TRAIT=]LIMIT",
            help="A number, mean (over the candidates) or none; of one trait or of all.",
            rich_help_panel=EXAM,
        ),
    ] = None,
    combine: Annotated[
        Literal["all", "any"], typer.Option(help="All limits must be passed, or any.", rich_help_panel=EXAM)
    ] = "all",
    weights: Annotated[
        Weighting | None,
        typer.Option(help="How votes are weighed; by default as the exam's paper does.", rich_help_panel=EXAM),
    ] = None,
    weight_from: Annotated[
        str | None, typer.Option(metavar="TRAIT", help="The trait that weights come from.", rich_help_panel=EXAM)
    ] = None,
    criterion: Annotated[
        str | None, typer.Option(help="Of the labels, where they have several.", rich_help_panel=STATISTICS)
    ] = None,
    margin: MarginOption = None,
    questioners: Annotated[
        str | None,
        typer.Option(metavar="AGENTS", help="Agents whose responses the human exam is made of.", rich_help_panel=EXAM),
    ] = None,
    overlap: Annotated[
        bool, typer.Option("--overlap", help="Test on the human exam's pairs as well.", rich_help_panel=EXAM)
    ] = False,
    exam_items: Annotated[
        int, typer.Option(help="Most pairs or tasks of an automatic exam; 0: all.", rich_help_panel=EXAM)
    ] = 100,
    relevant: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Whose responses are the relevant answers.", rich_help_panel=EXAM),
    ] = None,
    irrelevant: Annotated[
        str | None, typer.Option(metavar="AGENT", help="Whose responses are the irrelevant ones.", rich_help_panel=EXAM)
    ] = None,
    changer: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Chat model that changes questions for the pertinence exam; by default the nearest other question.",
            rich_help_panel=EXAM,
        ),
    ] = None,
    easy: Annotated[
        str | None, typer.Option(metavar="A,B", help="Agents of the easy set: far apart.", rich_help_panel=EXAM)
    ] = None,
    hard: Annotated[
        str | None, typer.Option(metavar="A,C", help="Agents of the hard set: close together.", rich_help_panel=EXAM)
    ] = None,
    licence: Annotated[
        list[Path] | None,
        typer.Option(help="Licence file or folder, instead of an exam.", rich_help_panel=EXAM),
    ] = None,
    issue: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write licences of those who pass here.", rich_help_panel=EXAM)
    ] = None,
    task_kind: Annotated[
        str,
        typer.Option(
            help="What is judged, in a few words, for licences; the study's name by default.", rich_help_panel=EXAM
        ),
    ] = "",
    fusion: Annotated[
        Literal["z", "raw"] | None,
        typer.Option(
            help="How ratings are added up: z-normalised for each reviewer, or raw.", rich_help_panel=STATISTICS
        ),
    ] = None,
    convention: Annotated[
        Convention,
        typer.Option(
            help="paper: as the papers count (missing and tied 0.5, exam pairs tested).", rich_help_panel=STATISTICS
        ),
    ] = "default",
    seed: SeedOption = 0,
    resamples: Annotated[int, typer.Option(help="Resamples of tasks.", rich_help_panel=STATISTICS)] = 10_000,
    level: Annotated[float, typer.Option(help="Level of the intervals.", rich_help_panel=STATISTICS)] = 0.95,
    budget: BudgetOption = None,
    price: PriceOption = None,
    journal: JournalOption = None,
    out_folder: OutOption = None,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Let reviewers sit an exam, judge the responses if they pass, and rank the agents by their weighted votes.

    Exit code 4: nobody passed. Example: goldless review study/ --reviewers openai:gpt-4o,openai:gpt-4o-mini --exam auto
    """
    exams: Any = names(exam, "none")
    options = ReviewOptions(
        reviewers=names(reviewers),
        scale=scale,
        exams=exams,
        questioners=None if questioners is None else names([questioners]),
        overlap=overlap,
        exam_items=exam_items or None,
        relevant=relevant,
        irrelevant=irrelevant,
        changer=changer,
        easy=_two(easy, "--easy"),
        hard=_two(hard, "--hard"),
        thresholds=_thresholds(threshold or [], exams),
        combination=combine,
        weighting=weights,
        weight_from=weight_from,
        criterion=criterion,
        margin=margin,
        fusion=fusion,
        convention=convention,
        own_family=own_family,
        families=_pairs(family or [], "--family"),
        task_description=task_description,
        descriptions=_pairs(describe or [], "--describe"),
        task_kind=task_kind,
        licences=tuple(licence or ()),
        issue_to=issue,
        debate=debate,
        verdicts=verdicts,
        recorded=recorded,
        seed=seed,
        resamples=resamples,
        level=level,
        budget_usd=None if budget is None else parse_budget(budget),
        price=None if price is None else parse_price(price),
        journal=journal,
        say=say,
    )
    found = run_on_study(review_study, study, options, out_folder=out_folder, replaces_evidence=True)
    if out_folder is not None:
        save_review(found, out_folder)
    print_review(found, "json" if json_only else table, level)
    tell_review(found, out_folder)


def _two(text: str | None, option: str) -> tuple[str, str] | None:
    if text is None:
        return None
    found = names([text])
    if len(found) != 2:
        raise UserError(f"{option} {text!r}: name two different agents, by a comma")
    return found[0], found[1]


def _pairs(given: list[str], option: str) -> dict[str, str]:
    found = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UserError(f"{option} {item!r}: give NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _thresholds(given: list[str], exams: tuple[str, ...]) -> dict[str, Any]:
    traits = [trait for exam, measured in TRAITS.items() if exam in exams for trait in measured]
    found: dict[str, Any] = {}
    for item in given:
        name, equals, value = item.rpartition("=")
        if value not in {"mean", "none"}:
            try:
                limit: Any = float(value)
            except ValueError:
                raise UserError(f"--threshold {item!r}: a limit is a number, mean or none") from None
        else:
            limit = None if value == "none" else value
        found |= dict.fromkeys([name.strip()] if equals else traits, limit)
    return found


def print_review(review: Review, shown_as: Format, level: float) -> None:
    """Print the exam report and the rankings on standard output."""
    data = review_as_json(review)
    print_tables(
        review_tables(data, level=level),
        shown_as,
        as_json=lambda: data,
        markdown=lambda: review_markdown(data),
    )


def tell_review(review: Review, folder: Path | None) -> None:
    """Say the rest on standard error; exit with 3 where the review is incomplete, with 4 where nobody passed."""
    tell_spending(review.spending)
    for note in review.notes:
        say(note, style="yellow")
    if review.failures:
        causes = ", ".join(f"{count} {kind}" for kind, count in sorted(review.failures.items()))
        say(f"missing: {sum(review.failures.values())} ({causes})", style="yellow")
    tell_folder(folder)
    if not review.complete:
        say(f"incomplete: {review.open} left; run the same command again to go on", style="yellow")
        raise typer.Exit(INCOMPLETE)
    if review.nobody is not None:
        say(f"nobody may vote. {review.nobody}", style="red")
        raise typer.Exit(NOBODY_PASSED)
