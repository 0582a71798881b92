"""The verdict: who leads, how sure that is, and what is missing, in a sentence for each result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goldless.reports.documents.fields import Bounded
from goldless.reports.documents.scores import AgentScore, RankedMetric
from goldless.reports.html.blocks import Block, Bullets, Inline, Name, Paragraph, Term, listed, warning
from goldless.reports.html.labels import decimals_for, numeral, percent, plural
from goldless.reports.html.run_results import RunResults


def verdict_blocks(run: RunResults) -> tuple[Block, ...]:
    """The first result as a lead, the others as a list; warnings come before them."""
    sentences = [*_board_verdicts(run), *_review_verdict(run), *_other_verdicts(run)]
    blocks: list[Block] = []
    if sentences:
        blocks.append(Paragraph(tuple(sentences[0]), style="lead"))
    if len(sentences) > 1:
        blocks.append(Bullets(tuple(tuple(sentence) for sentence in sentences[1:])))
    return (*_state(run), *blocks)


def _state(run: RunResults) -> Iterator[Block]:
    ways = {"running": "is still in progress", "failed": "ended with an error", "interrupted": "was interrupted"}
    said = ways.get(run.progress.state)
    if said:
        done = f"{run.progress.done or 0:,} of {run.progress.total or 0:,}"
        yield warning(f"The run {said}: {run.progress.stage} {done}. These results may change.")
    if run.gre is not None and run.gre.demonstration:
        yield warning(run.gre.demonstration)
    findings = () if run.leaderboard is None else run.leaderboard.findings
    if findings:
        yield warning("Before you trust this ranking:")
        yield Bullets(tuple((finding.message,) for finding in findings))
    for problem in run.problems:
        yield warning(problem[0].upper() + problem[1:] + ".")


def _board_verdicts(run: RunResults) -> Iterator[list[Inline]]:
    until = None if run.leaderboard is None else run.leaderboard.until
    if until is not None:
        yield [Name(until.by), f": {until.summary}"]
    for place, (metric, board) in enumerate(run.boards.items()):
        scored = [row for row in board.rows if row.score is not None]
        if not scored:
            yield [Name(metric), ": no agent could be scored. ", *_missing(run, board)]
            continue
        lead = scored[0]
        decimals = decimals_for(row.score for row in scored)
        yield [
            Name(lead.agent),
            " leads under ",
            Name(metric),
            f" with {numeral(lead.score, decimals)} {board.unit}",
            *_interval(lead, board.level, decimals),
            *(_sure(lead, scored) if until is None else ()),
            *_missing(run, board),
        ]
        document = run.leaderboard
        if place == 0 and document is not None and not document.complete:
            yield [f"The run is incomplete: {plural(document.open, 'answer')} missing. Run it again to continue."]


def _interval(row: AgentScore, level: float, decimals: int) -> list[Inline]:
    tasks = f" on {plural(row.n, 'task')}" if row.n else ""
    return [" (", *_ends(row, level, decimals), f"{tasks}). "]


def _ends(found: Bounded, level: float, decimals: int = 3) -> list[Inline]:
    if found.low is None or found.high is None:
        return ["no interval"]
    ends = f" {numeral(found.low, decimals)} to {numeral(found.high, decimals)}"
    return [Term("interval", f"{percent(level)} interval"), ends]


def _sure(lead: AgentScore, scored: Sequence[AgentScore]) -> list[Inline]:
    others = [row.agent for row in scored if row is not lead]
    open_ = [name for name in others if name not in (lead.better_than or ())]
    if not others:
        return ["There is no other agent to compare it with. "]
    if not open_:
        many = {1: "the other", 2: "both others"}.get(len(others), f"all {len(others)} others")
        return [f"It is better than {many}", " (", Term("corrected", "corrected for many comparisons"), "). "]
    if len(open_) == len(others):
        return ["It is not significantly better than any other agent. "]
    return [
        f"It is better than {len(others) - len(open_)} of {len(others)} others, but not significantly better than ",
        *listed(open_, 3),
        ". ",
    ]


def _missing(run: RunResults, board: RankedMetric) -> list[Inline]:
    asked, missing = sum(row.asked for row in board.rows), sum(row.missing for row in board.rows)
    without = _without_reviews(run)
    if not asked:
        return without
    if not missing:
        return without or ["Nothing is missing."]
    what = "pair score" if board.counts_pairs else "response score"
    return [*without, f"{missing:,} of {plural(asked, f'{what} is', f'{what}s are')} ", Term("missing"), "."]


def _without_reviews(run: RunResults) -> list[Inline]:
    """Which models of an edition have no score because they have no review."""
    names = [] if run.gre is None else [row.agent for row in run.gre.written if not row.written]
    if not names:
        return []
    since = "has no score because it has no review" if len(names) == 1 else "have no score because they have no reviews"
    return [*listed(names), f" {since}. "]


def _review_verdict(run: RunResults) -> Iterator[list[Inline]]:
    review = run.review
    if review is None:
        return
    passed = sum(row.passed for row in review.reviewers)
    who = f"{passed} of {plural(len(review.reviewers), 'reviewer')} can vote"
    scored = [row for row in review.ranking if row.score is not None]
    if not scored:
        yield [f"The review has no ranking: {who}. ", review.nobody_passed]
        return
    if review.until is not None:
        yield [f"The review: {review.until.summary}"]
    lead = scored[0]
    unit = next((ranking.unit for ranking in review.rankings.values()), "score")
    ends = "" if lead.low is None or lead.high is None else f" ({numeral(lead.low)} to {numeral(lead.high)})"
    missing = sum(review.failures.values())
    yield [
        Name(lead.agent),
        f" leads in the review with a {unit} of {numeral(lead.score)}{ends}; {who}. ",
        f"{plural(missing, 'judgement or exam answer is', 'judgements or exam answers are')} missing."
        if missing
        else "Nothing is missing.",
    ]


def _other_verdicts(run: RunResults) -> Iterator[list[Inline]]:
    for metric, card in () if run.crash_test is None else run.crash_test.metrics.items():
        counts, unclear = card.counts, card.counts.get("not shown", 0)
        counted = (
            f" passes {counts.get('pass', 0)} of {sum(counts.values())} crash tests, fails {counts.get('fail', 0)}"
        )
        yield [Name(metric), counted, f"; {unclear} are undecided." if unclear else "."]
    yield from _agreement_verdicts(run)
    if run.bias is not None:
        shown = [row.judge for row in run.bias.rows if row.shown]
        measured = plural(len(run.bias.rows), "measured bias", "measured biases")
        yield [f"{len(shown)} of {measured} are significant, in {plural(len(set(shown)), 'judge')}."]


def _agreement_verdicts(run: RunResults) -> Iterator[list[Inline]]:
    if run.agreement is None:
        return
    for one in run.agreement.criteria:
        judges = [judge for judge in one.judges if judge.accuracy.accuracy is not None]
        if not judges:
            continue
        best = max(judges, key=lambda judge: judge.accuracy.accuracy or 0.0)
        found = best.accuracy
        on = f" on {one.criterion}" if one.criterion else ""
        yield [
            Name(best.name),
            f" agrees most with people{on}: {numeral(found.accuracy)} (",
            *_ends(found, run.agreement.level),
            f") of {plural(found.used, 'pair')} with a clear human preference, on {plural(found.n_tasks, 'task')}.",
        ]
