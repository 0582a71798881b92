"""``goldless gre collect``, ``review``, ``score``, ``run`` and ``demo``: an edition, from its papers to its boards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from goldless.cli.command import OUTPUT, like, own, verb
from goldless.cli.console import INCOMPLETE, NOTHING, ProgressBars, end, say
from goldless.cli.output import Output, tell_spending
from goldless.cli.score import tell_all
from goldless.cli.signals import run_async
from goldless.errors import UserError
from goldless.runs.option_forms import metric_names, split
from goldless.runs.options import CALLING, Options
from goldless.runs.progress import Progress

if TYPE_CHECKING:
    from goldless.gre_bench.edition import Edition
    from goldless.gre_bench.edition_scores import EditionScores
    from goldless.gre_bench.generated_reviews import Generated
    from goldless.gre_bench.papers import LeftOut
    from goldless.gre_bench.stages import Asking

PAPERS = "Papers"
ASKED = "Generation"
COSTS = ("budget_usd", "price", "on", "journal", *CALLING)

EditionFolder = Annotated[
    Path, typer.Argument(metavar="EDITION", help="Folder of an edition, made by goldless gre collect.")
]


def _asking(options: Options, progress: Callable[[Progress], None]) -> Asking:
    """How models are called: budget, price, journal and progress."""
    from goldless.gre_bench.stages import Asking

    return Asking(**options.some(*COSTS), progress=progress, say=say)


def _given(**settings: Any) -> dict[str, Any]:
    """The settings that were given; the others remain as in the edition's config."""
    return {name: value for name, value in settings.items() if value is not None}


# --- collecting ----------------------------------------------------------------------------------------------------


@verb(first=("venue", "from_folder", "papers", "reviews", "seed"))
def collect(
    edition: Annotated[
        Path | None,
        typer.Argument(metavar="[EDITION]", help="Folder of the edition (default: named after the venue)."),
    ] = None,
    *,
    venue: Annotated[str | None, own("OpenReview venue, such as ICLR.cc/2024/Conference.", PAPERS, "ID")] = None,
    from_folder: Annotated[
        Path | None,
        own("Folder with papers and reviews; see docs/gre_folder.md for its layout.", PAPERS, "FOLDER"),
    ] = None,
    from_reviewarena: Annotated[
        Path | None,
        own("Folder with the corpus ReviewArena; --venue chooses one of its venues.", PAPERS, "FOLDER"),
    ] = None,
    papers: Annotated[int | None, own("Number of papers to draw (default: all usable ones).", PAPERS, min=1)] = None,
    reviews: Annotated[
        int | None,
        own("Human reviews per paper: one candidate, the others references.", PAPERS, default="3", min=2),
    ] = None,
    seed: Annotated[int | None, own("Seed for drawing papers and reviews.", PAPERS, default="0", min=0)] = None,
    reader: Annotated[
        Literal["pypdf", "docling"] | None, own("Library that reads PDFs.", PAPERS, default="pypdf")
    ] = None,
    fewer_ok: Annotated[
        bool | None,
        own("Accept fewer papers than requested.", PAPERS, "--fewer-ok", show_default=False),
    ] = None,
    anchors: Annotated[
        Path | None, own("An earlier edition, some of whose papers are added as anchors.", PAPERS, "EDITION")
    ] = None,
    anchor_papers: Annotated[int | None, own("Number of anchors.", PAPERS, default="20", min=1)] = None,
    injected: Annotated[
        int | None,
        own("Papers to review a second time, with a hidden instruction in the text.", PAPERS, default="0", min=0),
    ] = None,
    seconds_between_requests: Annotated[
        float, own("Pause between requests to the venue.", "Connection", "SECONDS", min=0.0)
    ] = 1.0,
    api1: Annotated[str, own("OpenReview API version 1.", "Connection", "URL")] = "https://api.openreview.net",
    api2: Annotated[str, own("OpenReview API version 2.", "Connection", "URL")] = "https://api2.openreview.net",
) -> None:
    """Collect papers with their human reviews into a new edition: a folder with a config and an ordinary study.

    Replies of the venue are kept: an interrupted command resumes where it stopped and requests nothing twice.

    Example:
      goldless gre collect iclr2024 --venue ICLR.cc/2024/Conference --papers 300
    """
    from goldless.gre_bench.edition import open_or_begin
    from goldless.gre_bench.stages import collect_edition

    if from_folder is not None and (venue is not None or from_reviewarena is not None):
        raise UserError("--from-folder and --venue or --from-reviewarena exclude each other: give one of them")
    begun = open_or_begin(_folder(edition, venue))
    settings = _given(
        venue=venue,
        from_folder=None if from_folder is None else str(from_folder.resolve()),
        from_reviewarena=None if from_reviewarena is None else str(from_reviewarena.resolve()),
        papers=papers,
        reviews=reviews,
        seed=seed,
        reader=reader,
        fewer_ok=fewer_ok,
        anchors=None if anchors is None else str(anchors.resolve()),
        anchor_papers=anchor_papers,
        injected=injected,
    )
    asked: dict[str, Any] = {"seconds_between_requests": seconds_between_requests, "api1": api1, "api2": api2}
    with ProgressBars() as bars, _unanswered_is_incomplete():
        made, left_out = collect_edition(begun, settings, **asked, progress=bars, say=say)
    _tell_collected(made, left_out)


def _folder(edition: Path | None, venue: str | None) -> Path:
    if edition is not None:
        return edition
    if venue is None:
        raise UserError("EDITION is missing: name a folder, and give --venue or --from-folder")
    return Path("gre-" + re.sub(r"[^A-Za-z0-9.]+", "-", venue).strip("-."))


@contextmanager
def _unanswered_is_incomplete() -> Iterator[None]:
    """End with 3, as it can be resumed, if a venue's server does not answer."""
    from goldless.gre_bench.papers import UnansweredError

    try:
        yield
    except UnansweredError as error:
        end(INCOMPLETE, f"incomplete: {error}", style="yellow")


def _tell_collected(edition: Edition, left_out: Iterable[LeftOut]) -> None:
    """Report what was collected, and what was left out for which reason."""
    from goldless.gre_bench.edition_study import fields_beside_reviews, section_titles

    study = edition.study()
    count = len(study.tasks)
    people = {agent.agent for agent in study.agents if agent.group in {"human", "reference"}}
    reviews = sum(response.agent in people for _, responses in study for response in responses)
    say(f"{count} paper{'s' * (count != 1)} with {reviews} human reviews: {edition.study_folder}")
    if titles := section_titles(study):
        say(f"sections of the human reviews: {', '.join(titles)}")
    if fields := fields_beside_reviews(study):
        table = edition.study_folder / "reviews.jsonl"
        say(f"fields with text that is not part of the reviews: {', '.join(fields)}; see {table}")
    if rows := tuple(left_out):
        reasons = ", ".join(f"{n} {reason}" for reason, n in Counter(row.reason for row in rows).most_common())
        say(f"left out: {len(rows)} ({reasons}); which and why: {edition.study_folder / 'left_out.jsonl'}")


# --- reviewing -----------------------------------------------------------------------------------------------------


@verb(*COSTS, first=("models", "agents", "max_tokens", "truncate", "budget_usd"))
def review(
    edition: EditionFolder,
    *,
    models: Annotated[
        list[str] | None,
        own(
            "Comma-separated models that review: openai:MODEL, http://…/v1#MODEL, hf:NAME, …, or names in edition.toml "
            "(default: all in edition.toml).",
            ASKED,
            "[NAME=]MODEL",
        ),
    ] = None,
    agents: Annotated[
        Path | None,
        own("Facts about the models, .csv or .jsonl: agent, parameters, family, cutoff_date.", ASKED, "FILE"),
    ] = None,
    max_tokens: Annotated[
        int | None,
        own("Maximum tokens of a review; a longer one is cut off and counts as missing.", ASKED, default="4096", min=1),
    ] = None,
    temperature: Annotated[float | None, own("Sampling temperature.", ASKED, default="0", min=0.0)] = None,
    truncate: Annotated[
        bool | None,
        own(
            "Cut the end of a paper that does not fit a model's context (otherwise its review is missing).",
            ASKED,
            "--truncate/--no-truncate",
            show_default=False,
        ),
    ] = None,
    keep_cut: Annotated[
        bool | None,
        own(
            "Keep reviews that were cut off at --max-tokens.",
            ASKED,
            "--keep-cut/--no-keep-cut",
            show_default=False,
        ),
    ] = None,
    options: Options,
    output: Output,
) -> None:
    """Have models review the papers of an edition, with prompt C.3 of the GEM paper.

    Example:
      goldless gre review iclr2024 --models openai:gpt-4o-mini --budget 5USD
    """
    from goldless.gre_bench.edition import open_edition, read_agent_facts
    from goldless.gre_bench.stages import review_edition
    from goldless.runs.reviewers import named_reviewers

    opened = open_edition(edition)
    chosen = named_reviewers(split(models or ()))
    facts = {} if agents is None else read_agent_facts(agents)
    if unknown := sorted(set(facts) - {*chosen, *opened.config.models}):
        say(f"{agents}: ignored, not models of the edition: {', '.join(unknown)}")
    settings = _given(
        max_tokens=max_tokens,
        temperature=temperature,
        truncate=truncate,
        cut=None if keep_cut is None else "keep" if keep_cut else "missing",
    )
    # a bare name in the config means that model
    new = {name: model for name, model in chosen.items() if name != model or name not in opened.config.models}
    added: dict[str, dict[str, Any]] = {name: {"model": model} for name, model in new.items()}
    for name, known in facts.items():
        if name not in unknown:
            added.setdefault(name, {}).update(known)
    with ProgressBars() as bars:
        asked = _asking(options, bars)
        work = partial(review_edition, opened, settings, models=added, only=list(chosen) or None, asking=asked)
        _, generated = run_async(work)
    output.print_tables([generated.table()], generated.as_json)
    _tell_generated(generated)


def _tell_generated(generated: Generated) -> None:
    """Report the cost and what is missing; exit with 3 where calls are open."""
    tell_spending(generated.spending)
    for kind, message in generated.examples.items():
        say(f"{kind}, for example {message}", style="yellow")
    if generated.incomplete is not None:
        end(INCOMPLETE, generated.incomplete, style="yellow")
    if generated.reviews and all(review.text is None for review in generated.reviews):
        end(NOTHING, "no review was written")


# --- scoring -------------------------------------------------------------------------------------------------------


@verb(*COSTS, first=("metric", "scorer", "rewriter", "synopsis_writer", "budget_usd"))
def score(
    edition: EditionFolder,
    *,
    metric: Annotated[list[str] | None, like("metrics")] = None,
    scorer: Annotated[str | None, like("scorer", default="embedded")] = None,
    rewriter: Annotated[list[str] | None, like("rewriters")] = None,
    synopsis_writer: Annotated[str | None, like("synopsis_writer")] = None,
    seed: Annotated[int | None, like("seed", "Seed for resampling and tests.", default="0")] = None,
    resamples: Annotated[
        int | None, like("resamples", "Resamples of papers for intervals and tests.", default="10000")
    ] = None,
    level: Annotated[float | None, like("level", default="0.9")] = None,
    run: Annotated[
        str | None,
        own(
            "Write results to this subfolder of the edition instead of run, for example for a second scorer.",
            OUTPUT,
            "NAME",
        ),
    ] = None,
    options: Options,
    output: Output,
) -> None:
    """Score the reviews of an edition by GEM, GEM-S (abstract) and GEM-S (ASSW), with the human baseline.

    Reviews are rewritten first (prompt C.1) and the authors' own claims summarised (C.4), where that is not done yet.

    Example:
      goldless gre score iclr2024 --scorer hf:NAME --rewriter openai:gpt-4o
    """
    from goldless.gre_bench.edition import open_edition
    from goldless.gre_bench.stages import score_edition

    settings = _given(
        metrics=list(metric_names(metric)) if metric else None,
        scorer=scorer,
        rewriter=list(split(rewriter or ())) or None,
        synopsis_writer=synopsis_writer,
        seed=seed,
        resamples=resamples,
        level=level,
    )
    opened = open_edition(edition)
    with ProgressBars() as bars:
        made, scores = run_async(partial(score_edition, opened, settings, run=run, asking=_asking(options, bars)))
    _print_scores(scores, output)
    _tell_scores(made, scores, run)


def _print_scores(scores: EditionScores, output: Output) -> None:
    """Print the metrics side by side, the differences to human, the contamination clock, and clean leaderboards."""
    from goldless.reports.document import write

    output.print_tables(scores.tables(), lambda: {**scores.as_json(), "scores": write(scores.evaluation)})


def _tell_scores(edition: Edition, scores: EditionScores, run: str | None = None) -> None:
    """Report on standard error what a reader of the tables must know."""
    if scores.left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in scores.left_out.items())
        say(f"papers left out when collecting: {reasons}")
    tell_all(scores.evaluation, Output(folder=edition.run_folder(run)))


# --- all of it -----------------------------------------------------------------------------------------------------


@verb(*COSTS, first=COSTS)
def run(edition: EditionFolder, *, options: Options, output: Output) -> None:
    """Collect, review and score as configured in edition.toml; finished stages are skipped.

    The budget applies to each stage.

    Example:
      goldless gre run iclr2024 --budget 50USD
    """
    from goldless.gre_bench.edition import open_edition
    from goldless.gre_bench.stages import collect_edition, review_edition, score_edition

    opened = open_edition(edition)
    with ProgressBars() as bars, _unanswered_is_incomplete():
        opened, left_out = collect_edition(opened, {}, progress=bars, say=say)
    _tell_collected(opened, left_out)
    with ProgressBars() as bars:
        opened, generated = run_async(partial(review_edition, opened, {}, asking=_asking(options, bars)))
    _tell_generated(generated)
    with ProgressBars() as bars:
        opened, scores = run_async(partial(score_edition, opened, {}, asking=_asking(options, bars)))
    _print_scores(scores, output)
    _tell_scores(opened, scores)


@verb("journal", first=("folder", "journal"))
def demo(
    *,
    folder: Annotated[Path, own("Folder for the edition.", flags="--out FOLDER")] = Path("gre-demo"),
    options: Options,
    output: Output,
) -> None:
    """Make an edition of twelve invented papers on the embedded model: no account, key, GPU or network.

    This is a demonstration, not a result. It takes some minutes, most of them for the embedded model's own reviews.

    Example:
      goldless gre demo --out gre-demo
    """
    from goldless.gre_bench.boards import read_board
    from goldless.gre_bench.demonstration import add_invented_rewrites, begin_demonstration, write_scripts
    from goldless.gre_bench.edition_scores import DEMONSTRATION
    from goldless.gre_bench.size_figure import size_figure
    from goldless.gre_bench.stages import collect_edition, review_edition, score_edition

    say(DEMONSTRATION, style="bold yellow")
    edition = begin_demonstration(folder)
    if not edition.config.demonstration:
        raise UserError(f"{folder} is not a demonstration edition. Choose another folder with --out")
    with ProgressBars() as bars:
        edition, left_out = collect_edition(edition, {}, progress=bars, say=say)
        _tell_collected(edition, left_out)
        write_scripts(edition)
        asking = _asking(options, bars)
        say("Reviews of three invented models are at hand; the embedded model writes its own now …")
        edition, _ = run_async(partial(review_edition, edition, {}, asking=asking))
        add_invented_rewrites(edition)
        say("Preprocessing and scoring by the embedded model …")
        edition, scores = run_async(partial(score_edition, edition, {}, asking=asking))
    _print_scores(scores, output)
    drawn = edition.folder / "figure.svg"
    drawn.write_text(size_figure(read_board(edition.folder)), encoding="utf-8")
    say(f"figure: {drawn}")
    _tell_scores(edition, scores)
