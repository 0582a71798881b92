"""``goldless gre``: GRE-bench, from collecting papers to a year's leaderboard."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from goldless.cli.command import OUTPUT, Command, like, own, verb, verbs_app
from goldless.cli.console import INCOMPLETE, NOTHING, ProgressBars, end, out, say
from goldless.cli.output import Output, tell_spending
from goldless.cli.score import tell_all
from goldless.cli.signals import run_async
from goldless.errors import UserError
from goldless.runs.option_forms import metric_names, split
from goldless.runs.options import CALLING, Options

if TYPE_CHECKING:
    from goldless.apps.gre.edition import Edition
    from goldless.apps.gre.edition_results import EditionResult
    from goldless.apps.gre.papers import LeftOut
    from goldless.apps.gre.reviewing import Generated
    from goldless.runs.evaluation import Evaluation

PAPERS = "Papers"
ASKED = "Generation"
COSTS = ("budget_usd", "price", "on", "journal", *CALLING)

EditionFolder = Annotated[
    Path, typer.Argument(metavar="EDITION", help="Folder of an edition, made by goldless gre collect.")
]
BoardName = Annotated[
    str,
    typer.Argument(
        metavar="BOARD",
        help="Folder of an edition or run, a CSV file with agent and metrics, published:70b or published:8b.",
    ),
]


def _given(**settings: Any) -> dict[str, Any]:
    """The settings that were given; the others remain as in the edition's config."""
    full = {name: str(value.resolve()) if isinstance(value, Path) else value for name, value in settings.items()}
    return {name: value for name, value in full.items() if value is not None}


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
        own("Folder with papers and reviews; see docs/gre_bench.md for its layout.", PAPERS, "FOLDER"),
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
    from goldless.apps.gre.edition import open_or_begin

    if from_folder is not None and (venue is not None or from_reviewarena is not None):
        raise UserError("--from-folder and --venue or --from-reviewarena exclude each other: give one of them")
    if edition is None and venue is None:
        raise UserError("EDITION is missing: name a folder, and give --venue or --from-folder")
    folder = edition or Path("gre-" + re.sub(r"[^A-Za-z0-9.]+", "-", str(venue)).strip("-."))
    settings = _given(
        venue=venue,
        from_folder=from_folder,
        from_reviewarena=from_reviewarena,
        papers=papers,
        reviews=reviews,
        seed=seed,
        reader=reader,
        fewer_ok=fewer_ok,
        anchors=anchors,
        anchor_papers=anchor_papers,
        injected=injected,
    )
    pause = seconds_between_requests
    _collect(open_or_begin(folder), settings, seconds_between_requests=pause, api1=api1, api2=api2)


def _collect(edition: Edition, settings: dict[str, Any], **connection: Any) -> Edition:
    """Collect, and report what was; a venue's server that does not answer ends it with 3, as it can be resumed."""
    from goldless.apps.gre.collecting import collect_edition
    from goldless.apps.gre.papers import UnansweredError

    try:
        with ProgressBars() as bars:
            made, left_out = collect_edition(edition, settings, progress=bars, say=say, **connection)
    except UnansweredError as error:
        end(INCOMPLETE, f"incomplete: {error}", style="yellow")
    _tell_collected(made, left_out)
    return made


def _tell_collected(edition: Edition, left_out: Iterable[LeftOut]) -> None:
    """Report what was collected, and what was left out for which reason."""
    from goldless.apps.gre.edition_study import fields_beside_reviews, section_titles

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
    from goldless.apps.gre.edition import open_edition, read_agent_facts
    from goldless.apps.gre.reviewing import review_edition
    from goldless.reports.document import write
    from goldless.runs.reviewers import named_reviewers

    opened = open_edition(edition)
    chosen = named_reviewers(split(models or ()))
    facts = {} if agents is None else read_agent_facts(agents)
    if unknown := sorted(set(facts) - {*chosen, *opened.config.models}):
        say(f"{agents}: ignored, not models of the edition: {', '.join(unknown)}")
    cut = None if keep_cut is None else "keep" if keep_cut else "missing"
    settings = _given(max_tokens=max_tokens, temperature=temperature, truncate=truncate, cut=cut)
    # a bare name in the config means that model
    new = {name: model for name, model in chosen.items() if name != model or name not in opened.config.models}
    added: dict[str, dict[str, Any]] = {name: {"model": model} for name, model in new.items()}
    for name, known in facts.items():
        if name not in unknown:
            added.setdefault(name, {}).update(known)
    with _told(options) as asked:
        work = partial(review_edition, opened, settings, models=added, only=list(chosen) or None, options=asked)
        _, generated = run_async(work)
    output.print_tables([generated.table()], lambda: write(generated))
    _tell_generated(generated)


@contextmanager
def _told(options: Options) -> Iterator[Options]:
    """The options with bars of progress, and messages on standard error."""
    with ProgressBars() as bars:
        yield replace(options, progress=bars, say=say)


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
    from goldless.apps.gre.edition import open_edition
    from goldless.apps.gre.scoring import score_edition

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
    with _told(options) as asked:
        made, result, evaluation = run_async(partial(score_edition, opened, settings, run=run, options=asked))
    _print_result(result, evaluation, output)
    _tell_result(result, evaluation, made.run_folder(run))


def _print_result(result: EditionResult, evaluation: Evaluation, output: Output) -> None:
    """Print the metrics side by side, the differences to human, the contamination clock, and clean leaderboards."""
    from goldless.reports.document import write

    output.print_tables(result.tables(), lambda: {**write(result), "scores": write(evaluation)})


def _tell_result(result: EditionResult, evaluation: Evaluation, folder: Path) -> None:
    """Report on standard error what a reader of the tables must know."""
    if result.left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in result.left_out.items())
        say(f"papers left out when collecting: {reasons}")
    tell_all(evaluation, Output(folder=folder))


# --- all of it -----------------------------------------------------------------------------------------------------


@verb(*COSTS, first=COSTS)
def run(edition: EditionFolder, *, options: Options, output: Output) -> None:
    """Collect, review and score as configured in edition.toml; finished stages are skipped.

    The budget applies to each stage.

    Example:
      goldless gre run iclr2024 --budget 50USD
    """
    from goldless.apps.gre.edition import open_edition
    from goldless.apps.gre.reviewing import review_edition
    from goldless.apps.gre.scoring import score_edition

    opened = _collect(open_edition(edition), {})
    with _told(options) as asked:
        opened, generated = run_async(partial(review_edition, opened, {}, options=asked))
    _tell_generated(generated)
    with _told(options) as asked:
        opened, result, evaluation = run_async(partial(score_edition, opened, {}, options=asked))
    _print_result(result, evaluation, output)
    _tell_result(result, evaluation, opened.run_folder())


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
    from goldless.apps.gre.boards import read_board
    from goldless.apps.gre.demonstration import add_invented_rewrites, begin_demonstration, write_scripts
    from goldless.apps.gre.edition_results import DEMONSTRATION
    from goldless.apps.gre.reviewing import review_edition
    from goldless.apps.gre.scoring import score_edition
    from goldless.apps.gre.size_figure import size_figure

    say(DEMONSTRATION, style="bold yellow")
    edition = begin_demonstration(folder)
    if not edition.config.demonstration:
        raise UserError(f"{folder} is not a demonstration edition. Choose another folder with --out")
    edition = _collect(edition, {})
    write_scripts(edition)
    with _told(options) as asked:
        say("Reviews of three invented models are at hand; the embedded model writes its own now …")
        edition, _ = run_async(partial(review_edition, edition, {}, options=asked))
        add_invented_rewrites(edition)
        say("Preprocessing and scoring by the embedded model …")
        edition, result, evaluation = run_async(partial(score_edition, edition, {}, options=asked))
    _print_result(result, evaluation, output)
    drawn = edition.folder / "figure.svg"
    drawn.write_text(size_figure(read_board(edition.folder)), encoding="utf-8")
    say(f"figure: {drawn}")
    _tell_result(result, evaluation, edition.run_folder())


# --- what boards say -------------------------------------------------------------------------------------------------


@verb("seed")
def show(board: BoardName, *, options: Options, output: Output) -> None:
    """Print a board with all its metrics, and how much higher larger models of a family score.

    Example:
      goldless gre show published:70b
    """
    from goldless.apps.gre.boards import read_board
    from goldless.apps.gre.size_effect import size_effect
    from goldless.reports.document import write

    found = read_board(board)
    effect = size_effect(found, seed=options.seed)
    tables = [found.table(), *([effect.table()] if any(row.slope is not None for row in effect.metrics) else [])]
    output.print_tables(tables, lambda: {**write(found), "size_effect": write(effect)})


@verb("seed")
def compare(first: BoardName, second: BoardName, *, options: Options, output: Output) -> None:
    """Compare two editions, or two scorers of one: how similarly they rank the agents, and which rose or fell.

    Editions that share anchors are linked: the second one's scores are also printed on the scale of the first.

    Examples:
      goldless gre compare 2023/ 2024/
      goldless gre compare published:70b published:8b
    """
    from goldless.apps.gre.board_comparison import compare_boards
    from goldless.apps.gre.boards import read_board
    from goldless.apps.gre.linking import link_boards
    from goldless.reports.document import write

    found = compare_boards(read_board(first), read_board(second), seed=options.seed)
    links, lacking = link_boards(first, second, seed=options.seed)
    found = replace(found, notes=(*found.notes, *lacking))
    tables = [*found.tables(), *(link.table() for link in links)]
    output.print_tables(tables, lambda: {**write(found), "links": list(map(write, links))})


@verb("seed")
def correlate(
    board: BoardName,
    *,
    benchmarks: Annotated[
        str,
        own(
            "A .csv file with agent and a column per benchmark, or published for those of the GEM paper.", flags="FILE"
        ),
    ],
    options: Options,
    output: Output,
) -> None:
    """Correlate a board with other benchmarks, over the agents that both have: Pearson, Spearman and Kendall's tau-b.

    Example:
      goldless gre correlate published:70b --benchmarks published
    """
    from goldless.apps.gre.board_comparison import correlate as correlate_board
    from goldless.apps.gre.board_comparison import read_benchmark_scores
    from goldless.apps.gre.boards import read_board
    from goldless.reports.document import write

    found = correlate_board(read_board(board), read_benchmark_scores(benchmarks), seed=options.seed)
    output.print_tables([found.table()], lambda: write(found))


@verb()
def figure(
    board: BoardName,
    *,
    out_file: Annotated[Path, own("Write the figure to this file.", flags="--out FILE.svg")],
    dark: Annotated[bool, own("Always dark (default: follows the reader's screen).", flags="--dark")] = False,
) -> None:
    """Draw scores by number of parameters as SVG, a panel per metric, with intervals and the human baseline.

    Example:
      goldless gre figure published:70b --out figure.svg
    """
    from goldless.apps.gre.boards import read_board
    from goldless.apps.gre.size_figure import size_figure

    if out_file.suffix.lower() != ".svg":
        raise UserError(f"--out must end in .svg, got {out_file}")
    drawn = size_figure(read_board(board), dark=dark)
    try:
        if out_file.is_file() and not out_file.read_bytes().startswith(b"<svg"):
            raise UserError(f"{out_file} exists and was not drawn by goldless. Choose another name, or remove it")
        out_file.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{out_file}: cannot be written ({error.strerror})") from error
    say(f"figure: {out_file}")


# --- a public board --------------------------------------------------------------------------------------------------


@verb()
def preregister(edition: EditionFolder) -> None:
    """Write the hash of draw, prompts, scorer and metrics, to be published before there are reviews.

    Also writes papers.jsonl, which is what reviewers are given. Later runs report whether anything was changed.

    Example:
      goldless gre preregister iclr2024
    """
    from goldless.apps.gre.edition import open_edition
    from goldless.apps.gre.preregistration import FILE, PAPERS
    from goldless.apps.gre.preregistration import preregister as register

    opened = open_edition(edition)
    found = register(opened)
    say(found.sentence)
    say(f"publish {opened.folder / FILE} and {opened.folder / PAPERS}; hash: {found.hash}")


@verb(first=("name", "team"))
def submit(
    edition: EditionFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="One line per paper, with paper and text.")],
    *,
    name: Annotated[str, own("Name of this submission on the board; each has its own.", flags="NAME")],
    team: Annotated[str, own("Who submits; all submissions of a team are counted.", flags="TEAM")],
) -> None:
    """Check a submission of reviews, log it, and add it to the edition, to be scored by goldless gre score.

    Example:
      goldless gre submit iclr2024 reviews.jsonl --name tuned-2 --team "Example Lab"
    """
    from goldless.apps.gre.edition import open_edition
    from goldless.apps.gre.submissions import submit as add

    found, of_team = add(open_edition(edition), file, name=name, team=team)
    say(f"submission {found.number}: {found.reviews} reviews, sha256 {found.sha256}")
    say(f"submissions by {team} so far: {of_team}")
    if found.missing:
        say(f"papers without a review: {found.missing}. Incomplete submissions cannot be a team's best", style="yellow")
    say(f"score it with: goldless gre score {edition}")


@verb(first=("folder",))
def site(
    editions: Annotated[
        list[Path], typer.Argument(metavar="EDITION…", help="Folders of editions, by year; the last is the front page.")
    ],
    *,
    folder: Annotated[Path, own("Folder for the site.", flags="--out FOLDER")],
) -> None:
    """Make the board of one or more editions as a static site: no script, no network, the same bytes every time.

    All numbers are recomputed from the evidence in the editions; results that do not follow from it are refused.

    Example:
      goldless gre site iclr2024 iclr2025 --out site
    """
    from goldless.apps.gre.edition import open_edition
    from goldless.apps.gre.scoring import recompute
    from goldless.apps.gre.site import check_names, site_pages, write_site

    opened = [open_edition(edition) for edition in editions]
    check_names(opened)
    pages = site_pages([run_async(partial(recompute, one)) for one in opened])
    write_site(pages, folder)
    say(f"site: {folder / 'index.html'} ({len(pages)} pages)")


@verb(first=("dry_run", "dataset", "folder"))
def publish(
    edition: EditionFolder,
    *,
    dry_run: Annotated[bool, own("Write the files; nothing is uploaded.", flags="--dry-run")] = False,
    dataset: Annotated[
        str | None, own("The benchmark's dataset on the Hugging Face Hub.", flags="--dataset OWNER/NAME")
    ] = None,
    url: Annotated[str | None, own("Address of the board, as the source of the scores.", flags="--url URL")] = None,
    folder: Annotated[
        Path | None, own("Folder for the files (default: EDITION/hub).", flags="--out FOLDER", show_default=False)
    ] = None,
) -> None:
    """Write the files for the Hugging Face Hub: eval.yaml of the benchmark, .eval_results of each model.

    goldless itself uploads nothing: it prints the commands that do.

    Example:
      goldless gre publish iclr2025 --dry-run --dataset acme/gre-bench
    """
    from goldless.apps.gre.edition import open_edition
    from goldless.apps.gre.hub_dataset import write_hub_files
    from goldless.apps.gre.scoring import recompute
    from goldless.exporting.files import check_free

    opened = open_edition(edition)
    target = folder or opened.folder / "hub"
    if not dry_run:
        raise UserError(
            "goldless uploads nothing. Write the files with --dry-run, read them, and upload them yourself; the "
            "commands are printed then"
        )
    if dataset is None:
        raise UserError("--dataset is missing: name the benchmark's dataset on the Hub, such as acme/gre-bench")
    check_free(target, folder=True)
    commands = write_hub_files(run_async(partial(recompute, opened)), target, dataset=dataset, url=url)
    say(f"files: {target}. Nothing was uploaded. To upload them:")
    for line in commands:
        out().print(line, markup=False, highlight=False, soft_wrap=True)


VERBS = (demo, run, collect, preregister, review, submit, score, show, compare, correlate, figure, site, publish)
app = verbs_app("GRE-bench: which model writes the most informative reviews, on papers it cannot have seen?")
for each in VERBS:
    app.command(cls=Command)(each)
