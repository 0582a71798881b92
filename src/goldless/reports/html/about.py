"""The verdict on a run, who judged, how it was made, and what is missing."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import islice
from typing import Any

from goldless.reports.document import cells
from goldless.reports.findings import named
from goldless.reports.html import blocks
from goldless.reports.html.blocks import (
    Block,
    Inline,
    Name,
    fold,
    interval_figure,
    link,
    note,
    section,
    term,
    warning,
    words,
)
from goldless.reports.html.charts import IntervalRow
from goldless.reports.html.labels import excerpt, label, numeral, plural, visible
from goldless.reports.leaderboard import Leaderboards, run_findings
from goldless.reports.report_table import Column, ReportTable
from goldless.reports.review import EXAM, ReviewReport
from goldless.reports.run_folder import RunFolder
from goldless.signature import Signature
from goldless.statistics.bootstrap import Estimate

ONE_BY_ONE = {"crash_test"}
"""Results with a sentence for every metric, all of which belong to the verdict."""
UNFINISHED = {"running": "is still in progress", "failed": "ended with an error", "interrupted": "was interrupted"}


def whole_run_warnings(run: RunFolder) -> Iterator[Block]:
    """Warnings that a run is not complete, or that its files cannot be read."""
    progress, board = run.progress, run.leaderboard
    if progress is not None and progress.state in UNFINISHED:
        done = f"{progress.done or 0:,} of {progress.total or 0:,}"
        yield warning(f"The run {UNFINISHED[progress.state]}: {progress.stage} {done}. These results may change.")
    if board is not None and not board.complete:
        yield warning(f"The run is incomplete: {plural(board.open, 'answer')} missing. Run it again to continue.")
    for problem in run.problems:
        yield warning(problem[0].upper() + problem[1:] + ".")


def verdict_blocks(run: RunFolder) -> Iterator[Block]:
    """The first finding as a lead, the others as a list, and warnings about the ranking."""
    lead, *others = [*_findings(run)] or [()]
    if lead:
        yield words(*lead, style="lead")
    if others:
        yield blocks.bullets(others)
    audited = () if run.leaderboard is None else run.leaderboard.findings
    caveats = [finding.message for finding in audited]
    for board in islice(run.boards.values(), 1):  # what a page shows without -v
        caveats += [said.partition("; -v ")[0] for said in board.notes if not said.startswith("Undecided")]
    if caveats:
        yield warning("Before you trust this ranking:")
        yield blocks.bullets(caveats)


def _findings(run: RunFolder) -> Iterator[tuple[Inline, ...]]:
    """The leader, as far as that is decided; who judged; and the first sentence about each other result."""
    review, scores = run.review, run.leaderboard
    if scores is not None and scores.stopped is not None:
        yield Name(scores.stopped.by), f": {scores.stopped.sentence}"
    elif review is not None and review.stopped is not None and not run.boards:
        yield (f"The review: {review.stopped.sentence}",)
    for place, said in enumerate(run_findings(run.standings)):
        yield said if place else (*said, *_missing(run))
    for metric, board in run.standings.items():
        if all(row.score is None for row in board.rows):
            yield Name(metric), ": no agent could be scored."
    if review is not None:
        scored = any(row.score is not None for row in review.ranking)
        for said in review.sentences()[1 if scored else 0 :]:
            yield (*said, " ", link("#review", "Who judged"))
    for name, found in run.others.items():
        section_of = link(f"#{name.replace('_', '-')}", name.replace("_", " ").capitalize())
        for said in islice(found.sentences(), None if name in ONE_BY_ONE else 1):
            yield (*said, " ", section_of)


def _missing(run: RunFolder) -> Iterator[Inline]:
    """A sentence on what is missing in all, for the end of the lead."""
    boards = run.standings.values()
    missing = sum(row.missing for board in boards for row in board.rows)
    asked = sum(row.asked for board in boards for row in board.rows)
    what = "pair score" if all(board.counts_pairs for board in boards) else "score"
    if missing:
        yield from (f" {missing:,} of {plural(asked, f'{what} is', f'{what}s are')} ", term("missing"), ".")
    failed = 0 if run.review is None else sum(run.review.failures.values())
    if failed:
        said = plural(failed, "judgement or exam answer is", "judgements or exam answers are")
        yield from (f" {said} ", term("missing"), ", but no score." if asked and not missing else ".")
    if asked and not missing and not failed:
        yield " Nothing is missing."


# --- who judged ------------------------------------------------------------------------------------------------------


RANKINGS = {"bradley-terry": "bradley-terry", "mean": "mean of ratings", "win rate": "win rate"}
"""The glossary's names for the rankings."""


@section("review", "Who judged")
def review_section(run: RunFolder) -> Iterator[Block]:
    """The exam, the panel, and the ranking of agents by its votes; None if there was no review."""
    review = run.review
    if review is None:
        return
    begin = f"Scale: {review.scale}; exam: {', '.join(review.exams) or 'none'}. "
    if review.voters:
        yield words(begin, "The panel is ", *named(review.voters, 12), ".")
    else:
        yield words(begin, "There is no panel. ", review.nobody or "")
    notes = list(review.panel_notes())
    if notes:
        yield words(" ".join(map(blocks.sentence, notes)))
    yield blocks.result_table(review.reviewers_table())
    terms = [term(RANKINGS[name]) for name in review.rankings if name in RANKINGS]
    listing = [part for term in terms for part in (", ", term)]
    details: list[Block] = [note("Ranked by ", *listing[1:], ".")] if terms else []
    for table in review.tables():
        if table.title != EXAM:
            details += [blocks.result_table(table), *blocks.remarks(one for one in table.notes if one not in notes)]
        elif review.exams:
            details.append(_exam(review, table))
    yield fold(f"Every ranking, {'the exam, ' if review.exams else ''}and the order of reviewers", details)
    yield from blocks.remarks(review.notes)


def _exam(review: ReviewReport, table: ReportTable) -> Block:
    drawn = []
    traits = [(row.name, name, trait) for row in review.reviewers for name, trait in row.traits.items()]
    for reviewer, name, trait in sorted(traits, key=lambda one: (one[1], -(one[2].value or 0.0))):
        look: dict[str, Any] = {"group": name, "limit": trait.threshold, "hint": trait.estimate.note or ""}
        if trait.value is None or trait.threshold is None:
            outcome, look["shape"] = "missing" if trait.value is None else "no limit", "ring"
        elif trait.value > trait.threshold:
            outcome = "above"
        else:
            outcome, look["shape"], look["tone"] = "not above", "cross", "vermilion"
        aside = f"{numeral(trait.value, absent='')} {outcome}"
        drawn.append(IntervalRow(reviewer, Estimate(trait.value, *trait.interval), aside, **look))
    failed = list(dict.fromkeys(row.name for row in review.reviewers if not row.passed))
    return interval_figure(
        "exam",
        "The exam",
        (
            "Results of each reviewer: ",
            *(term("consistency"), ", ", term("pertinence"), " and ", term("self-confidence")),
            ", with intervals. The vertical stroke is the limit to exceed: ",
            "dots are above it, crosses are not, rings have no limit.",
        ),
        drawn,
        [blocks.result_table(table)],
        finding=f"{', '.join(map(label, failed))} did not pass." if failed else "All reviewers passed.",
        title="Exam results of reviewers, with limits",
        axis="share",
    )


# --- how the run was made --------------------------------------------------------------------------------------------

MODELS = (
    *blocks.texts(part="part"),
    *blocks.names(name="model"),
    *blocks.texts("unknown", revision="revision", tokenizer="tokenizer"),
    *blocks.texts("none", settings="settings"),
)
SPENDING = (
    *blocks.texts("", verb="verb"),
    *blocks.names(model="model"),
    *blocks.counts(calls="calls", reused="from the journal", tokens="tokens"),
    Column("cost_usd", "USD", "usd", "unknown"),
    Column("result_usd", "USD of the result", "usd", "unknown"),
)
AGENTS = (
    *blocks.names("not given", agent="agent", group="group", family="family"),
    Column("parameters", "parameters", "large", "not given"),
    *blocks.names("not given", cutoff_date="knowledge cutoff"),
)


@section("asked", "How this was run, and signatures", appendix=True)
def asked_section(run: RunFolder) -> Iterator[Block]:
    """The way the run was made; every report has this section."""
    board = run.leaderboard or Leaderboards()
    spending = [
        cells(row, verb=verb, tokens=row.usage.input_tokens + row.usage.output_tokens)
        for verb, one in run.made_by.made.items()
        for row in one.spending
    ]
    models = []
    for part, model in board.models.items():
        settings = ", ".join(f"{key} {value}" for key, value in model.settings.items())
        known = {"name": f"{model.provider}:{model.name}", "revision": model.revision[:12], "settings": settings}
        models.append({"part": part, **known, "tokenizer": model.tokenizer[:12]})
    agents = [cells(agent) for agent in run.agent_notes]
    used = str(board.settings.get("template") or "").split(",") if board.models else []
    yield blocks.rendered(
        "asked.html",
        run=run,
        board=board,
        tasks=0 if run.scores is None else run.scores["task"].n_unique(),
        models=(MODELS, models),
        spending=(SPENDING, spending),
        estimated=any(row["estimated"] for row in spending),
        agents=([column for column in AGENTS if any(row[column.name] for row in agents)], agents),
        long_names=[row.agent for row in run.agent_notes if label(row.agent) != visible(row.agent)],
        templates={name: board.template(name, "a custom file, as stored with the run") for name in used},
        rewritten=any(part.startswith("rewriter") for part in board.models),
        signatures=list(dict.fromkeys(_signatures(run))),
        meanings=blocks.lexicon()["signature"],
        parsed=functools.partial(_signature_parts, run),
    )


def _signature_parts(run: RunFolder, lines: str) -> list[tuple[str, str]]:
    """The settings behind signatures: those of the run's results, or of the line alone where only it was written."""
    results = [] if run.leaderboard is None else [*run.leaderboard.metrics.values()]
    settings = {result.signature: result.settings for result in results}
    if run.review is not None:
        settings[run.review.signature] = run.review.settings
    parts: list[tuple[str, str]] = []
    for line in lines.split(" || "):
        parts += (settings[line] if line in settings else Signature.parse(line).parts).items()
    return parts


def _signatures(run: RunFolder) -> Iterator[tuple[str, str]]:
    metrics = {} if run.leaderboard is None else run.leaderboard.metrics
    yield from ((name, one.signature) for name, one in metrics.items() if one.signature)
    if run.review is not None and run.review.signature:
        yield "review", run.review.signature
    for name, result in run.others.items():
        lines = (line for table in result.tables() for line in table.signature.split(" || "))
        yield from ((name.replace("_", " "), line) for line in lines if line)


@section("missing", "What is missing", appendix=True)
def missing_section(run: RunFolder) -> Iterator[Block]:
    """Failed calls by cause with an example each, and tasks that could not be scored; None if nothing is missing."""
    failed = run.failed
    if not failed:  # only counts, for a folder without evidence
        kinds = ((run.leaderboard, "replies used by the metrics"), (run.review, "judgements and exam answers"))
        counted = [(what, found.failures) for found, what in kinds if found is not None]
        failed = [{"what": what, "cause": cause, "count": n} for what, of in counted for cause, n in of.items()]
    if failed:
        about = (*blocks.texts(what="what", cause="cause"), *blocks.texts("", meaning="meaning"))
        rows = [{**row, "meaning": blocks.lexicon()["causes"].get(row["cause"])} for row in failed]
        caption = (term("missing", "Missing evidence"), " by cause")
        yield blocks.table(caption, (*about, *blocks.counts(count="missing")), rows)
        yield note("It is left out of every score; it never counts as zero.")
        for row in failed:
            if row.get("example") is not None or row.get("task"):
                whose = note("Task ", Name(row["task"] or "unknown"), " · model ", Name(row["model"] or "unknown"))
                text = blocks.code(excerpt(row["example"])) if row["example"] else note("No text was kept.")
                yield fold(f"Example: {row['cause'].replace('_', ' ')} among {row['what']}", (whose, text))
    without = () if run.leaderboard is None else run.leaderboard.tasks_without_peers
    if without:
        many = plural(len(without), "task")
        yield words(f"{many} had fewer than two responses, so nothing could be compared: ", *named(without, 12), ".")
