"""``goldless gre``: GRE-bench, from collecting papers to a year's leaderboard."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goldless.apps.gre.additions import added_verbs
from goldless.apps.gre.config import ASKED, NOT_NEGATIVE, CollectConfig, ReviewConfig, ScoreConfig, as_given
from goldless.cli.command import verb, verbs_app
from goldless.cli.console import INCOMPLETE, NOTHING, NOTHING_SCORED, ProgressBars, end, say
from goldless.cli.output import Output, tell_spending
from goldless.errors import UserError
from goldless.runs.option_forms import NAMES, OptionForm, argument, option
from goldless.runs.options import Options

if TYPE_CHECKING:
    from goldless import Evaluation
    from goldless.apps.gre.edition import Edition
    from goldless.apps.gre.results import EditionResult
    from goldless.apps.gre.reviewing import Generated

    Scored = tuple[Edition, EditionResult, Evaluation]

COSTS = ("budget_usd", "on", "journal")


@dataclass(frozen=True, kw_only=True)
class OfEdition:
    edition: Path = argument("EDITION", "Folder of an edition, made by goldless gre collect.")

    def opened(self) -> Edition:
        from goldless.apps.gre.edition import open_edition

        return open_edition(self.edition)


def _settings(table: Any, verb_options: Any) -> dict[str, Any]:
    """The settings of a table that were given; the others remain as in the edition's config."""
    given = vars(verb_options)
    settings = {name: given[name] for name in table.__dataclass_fields__ if given.get(name) is not None}
    return {name: str(Path(value).resolve()) if name == "from_folder" else value for name, value in settings.items()}


# --- collecting ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CollectOptions(as_given(CollectConfig)):  # type: ignore[misc]
    edition: Path | None = argument("EDITION", "Folder of the edition (default: named after the venue).", default=None)
    seconds_between_requests: float = option(
        1.0,
        "Pause between requests to the venue.",
        "--pause SECONDS",
        group="Connection",
        form=NOT_NEGATIVE,
    )
    api1: str = option("https://api.openreview.net", "OpenReview API version 1.", "URL")
    api2: str = option("https://api2.openreview.net", "OpenReview API version 2.", "URL")


@verb(prominent=("venue", "from_folder", "papers", "reviews", "seed"))
def collect(verb_options: CollectOptions) -> None:
    """Collect papers with their human reviews into a new edition: a folder with a config and an ordinary study.

    Replies of the venue are kept: an interrupted command resumes where it stopped and requests nothing twice.

    Example:
      goldless gre collect iclr2024 --venue ICLR.cc/2024/Conference --papers 300
    """
    from goldless.apps.gre.edition import open_or_begin

    if verb_options.edition is None and verb_options.venue is None:
        raise UserError("EDITION is missing: name a folder, and give --venue or --from-folder")
    folder = verb_options.edition or Path("gre-" + re.sub(r"[^A-Za-z0-9.]+", "-", str(verb_options.venue)).strip("-."))
    connection = {name: getattr(verb_options, name) for name in ("seconds_between_requests", "api1", "api2")}
    _collect(open_or_begin(folder), _settings(CollectConfig, verb_options), **connection)


def _collect(edition: Edition, settings: dict[str, Any], **connection: Any) -> Edition:
    """Collect, and report what was; a venue's server that does not answer ends it with 3, as it can be resumed."""
    from goldless.apps.gre import collecting
    from goldless.apps.gre.papers import UnansweredError

    try:
        with ProgressBars() as bars:
            made = collecting.collect_edition(edition, settings, progress=bars, say=say, **connection)
    except UnansweredError as error:
        end(INCOMPLETE, f"incomplete: {error}", style="yellow")
    for line in collecting.told_collection(made, made.study()):
        say(line)
    return made


# --- reviewing and scoring -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EditionReviewOptions(as_given(ReviewConfig), OfEdition):  # type: ignore[misc]
    models: tuple[str, ...] = option(
        (),
        "Comma-separated models that review: openai:MODEL, http://…/v1#MODEL, hf:NAME, …, or names in edition.toml "
        "(default: all in edition.toml).",
        "[NAME=]MODEL",
        group=ASKED,
        form=NAMES,
    )
    keep_cut: bool | None = option(
        None, "Keep reviews that were cut off at --max-tokens.", "--keep-cut/--no-keep-cut", form=OptionForm(bool)
    )


@verb(*COSTS, prominent=("models", "max_tokens", "truncate", "budget_usd"))
async def review(verb_options: EditionReviewOptions, options: Options) -> Generated:
    """Have models review the papers of an edition, with prompt C.3 of the GEM paper.

    Example:
      goldless gre review iclr2024 --models openai:gpt-4o-mini --budget 5USD
    """
    from goldless.apps.gre.reviewing import review_edition
    from goldless.runs.review_evidence import named_reviewers

    opened, chosen, settings = (
        verb_options.opened(),
        named_reviewers(verb_options.models),
        _settings(ReviewConfig, verb_options),
    )
    if verb_options.keep_cut is not None:
        settings["cut"] = "keep" if verb_options.keep_cut else "missing"
    # a bare name in the config means that model
    new = {name: spec for name, spec in chosen.items() if name != spec or name not in opened.config.models}
    added = {name: {"model": spec} for name, spec in new.items()}
    _, generated = await review_edition(opened, settings, models=added, only=list(chosen) or None, options=options)
    return generated


@review.renderer
def _tell_generated(generated: Generated, output: Output | None = None) -> None:
    """Report the cost and what is missing; exit with 3 where calls are open."""
    if output is not None:
        output.show(generated)
    tell_spending(generated.spending)
    for kind, message in generated.examples.items():
        say(f"{kind}, for example {message}", style="yellow")
    if generated.incomplete is not None:
        end(INCOMPLETE, generated.incomplete, style="yellow")
    if generated.reviews and all(review.text is None for review in generated.reviews):
        end(NOTHING, "no review was written")


@dataclass(frozen=True, kw_only=True)
class EditionScoreOptions(as_given(ScoreConfig), OfEdition):  # type: ignore[misc]
    """Options of ``gre score``."""


@verb(*COSTS, prominent=("metrics", "scorer", "rewriter", "synopsis_writer", "budget_usd"))
async def score(verb_options: EditionScoreOptions, options: Options) -> Scored:
    """Score the reviews of an edition by GEM, GEM-S (abstract) and GEM-S (ASSW), with the human baseline.

    Reviews are rewritten first (prompt C.1) and the authors' own claims summarised (C.4), where that is not done yet.

    Example:
      goldless gre score iclr2024 --scorer hf:NAME --rewriter openai:gpt-4o
    """
    from goldless.apps.gre.scoring import score_edition

    return await score_edition(verb_options.opened(), _settings(ScoreConfig, verb_options), options=options)


@score.renderer
def _show(scored: Scored, output: Output) -> None:
    """Print all tables, and report on standard error what a reader of them must know."""
    from goldless.reports.document import write

    edition, result, evaluation = scored
    added = {name: one for name, one in result.added.items() if one is not None}
    output.print_tables(
        result.tables(),
        lambda: {**write(result), **{name: write(one) for name, one in added.items()}, "scores": write(evaluation)},
    )
    output.tell_warnings(evaluation)
    Output(folder=edition.run_folder).tell_end(evaluation, holds="results and evidence")
    if evaluation.nothing_scored:
        end(NOTHING, NOTHING_SCORED)


@verb(*COSTS, prominent=COSTS)
async def run(verb_options: OfEdition, options: Options) -> Scored:
    """Collect, review and score as configured in edition.toml; finished stages are skipped.

    The budget applies to each stage.

    Example:
      goldless gre run iclr2024 --budget 50USD
    """
    from goldless.apps.gre.reviewing import review_edition
    from goldless.apps.gre.scoring import score_edition

    edition, generated = await review_edition(_collect(verb_options.opened(), {}), {}, options=options)
    _tell_generated(generated)
    return await score_edition(edition, {}, options=options)


@dataclass(frozen=True, kw_only=True)
class EditionDemoOptions:
    folder: Path = option(Path("gre-demo"), "Folder for the edition.", "--out FOLDER")


@verb("journal", prominent=("folder", "journal"))
async def demo(verb_options: EditionDemoOptions, options: Options) -> Scored:
    """Make an edition of twelve invented papers on the embedded model: no account, key, GPU or network.

    This is a demonstration, not a result. It takes a few minutes, most of them for the embedded model's own reviews.

    Example:
      goldless gre demo --out gre-demo
    """
    from goldless.apps.gre import demonstration
    from goldless.apps.gre.results import DEMONSTRATION
    from goldless.apps.gre.reviewing import review_edition
    from goldless.apps.gre.scoring import score_edition

    say(DEMONSTRATION, style="bold yellow")
    edition = demonstration.begin_demonstration(verb_options.folder)
    if not edition.config.demonstration:
        raise UserError(f"{verb_options.folder} is not a demonstration edition. Choose another folder with --out")
    edition = _collect(edition, {})
    demonstration.write_scripts(edition)
    say("Reviews of three invented models are at hand; the embedded model writes its own now …")
    edition, _ = await review_edition(edition, {}, options=options)
    demonstration.add_invented_rewrites(edition)
    say("Preprocessing and scoring by the embedded model …")
    return await score_edition(edition, {}, options=options)


run.renderer(_show)
demo.renderer(_show)

app = verbs_app(
    "GRE-bench: which model writes the most informative reviews, on papers it cannot have seen?",
    *(demo, run, collect, review, score),
    *added_verbs(),
)
