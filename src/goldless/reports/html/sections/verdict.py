"""The verdict: over all metrics in one or two sentences, what warns, and a sentence for each other result."""

from __future__ import annotations

from collections.abc import Iterator

from goldless.reports.findings import over_all
from goldless.reports.html.blocks import Block, Bullets, Inline, Link, Name, Paragraph, Term, warning
from goldless.reports.html.labels import plural
from goldless.reports.run_folder import RunFolder

ONE_BY_ONE = {"crash_test"}
"""Results with a sentence for every metric, all of which belong to the verdict."""


def verdict_blocks(run: RunFolder) -> tuple[Block, ...]:
    """The first finding as a lead, the others as a list, and warnings about the ranking."""
    sentences = [*_scores(run), *_others(run)]
    blocks: list[Block] = []
    if sentences:
        blocks.append(Paragraph(sentences[0], style="lead"))
    if len(sentences) > 1:
        blocks.append(Bullets(tuple(sentences[1:])))
    findings = () if run.leaderboard is None else run.leaderboard.findings
    if findings:
        blocks.append(warning("Before you trust this ranking:"))
        blocks.append(Bullets(tuple((finding.message,) for finding in findings)))
    return tuple(blocks)


def whole_run_warnings(run: RunFolder) -> Iterator[Block]:
    """Warnings that a run is not complete, or that its files cannot be read."""
    ways = {"running": "is still in progress", "failed": "ended with an error", "interrupted": "was interrupted"}
    progress = run.progress
    if progress is not None and progress.state in ways:
        done = f"{progress.done or 0:,} of {progress.total or 0:,}"
        yield warning(f"The run {ways[progress.state]}: {progress.stage} {done}. These results may change.")
    if run.leaderboard is not None and not run.leaderboard.complete:
        many = plural(run.leaderboard.open, "answer")
        yield warning(f"The run is incomplete: {many} missing. Run it again to continue.")
    for problem in run.problems:
        yield warning(problem[0].upper() + problem[1:] + ".")


def _scores(run: RunFolder) -> Iterator[tuple[Inline, ...]]:
    until = None if run.leaderboard is None else run.leaderboard.stopped
    if until is not None:
        yield Name(until.by), f": {until.sentence}"
    elif run.review is not None and run.review.stopped is not None and not run.boards:
        yield (f"The review: {run.review.stopped.sentence}",)
    lead, *rest = [*over_all(run.standings), ()]
    if lead:
        yield (*lead, *_missing(run))
    yield from rest[:-1]
    for metric, board in run.standings.items():
        if all(row.score is None for row in board.rows):
            yield Name(metric), ": no agent could be scored."
    if run.review is not None:
        scored = any(row.score is not None for row in run.review.ranking)
        for said in run.review.findings()[1 if scored else 0 :]:
            yield (*said, " ", Link("review", "Who judged"))


def _missing(run: RunFolder) -> Iterator[Inline]:
    """What is missing in all, for the end of the lead."""
    counted = [
        (sum(row.missing for row in board.rows), sum(row.asked for row in board.rows), board.counts_pairs)
        for board in run.standings.values()
    ]
    missing, asked = sum(one for one, _, _ in counted), sum(one for _, one, _ in counted)
    what = "pair score" if all(pairs for _, _, pairs in counted) else "score"
    if missing:
        yield f" {missing:,} of {plural(asked, f'{what} is', f'{what}s are')} "
        yield from (Term("missing"), ".")
    failed = 0 if run.review is None else sum(run.review.failures.values())
    if failed:
        yield f" {plural(failed, 'judgement or exam answer is', 'judgements or exam answers are')} "
        yield from (Term("missing"), ".")
    if asked and not missing and not failed:
        yield " Nothing is missing."


def _others(run: RunFolder) -> Iterator[tuple[Inline, ...]]:
    """The first sentence about each other result, with a link to the rest."""
    for name, found in run.others.items():
        link = Link(name.replace("_", "-"), name.replace("_", " ").capitalize())
        for place, said in enumerate(found.findings()):
            if place == 0 or name in ONE_BY_ONE:
                yield (*said, " ", link)
