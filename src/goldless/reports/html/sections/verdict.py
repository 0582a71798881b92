"""The verdict: who leads, how sure that is, and what is missing, in a sentence for each result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from goldless.reports.html.blocks import Block, Bullets, Inline, Name, Paragraph, Term, listed, warning
from goldless.reports.html.counted import counts_pairs
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.numerals import count, decimals_for, number, numeral, percent, plural

Row = Mapping[str, Any]


def verdict_blocks(run: RunDocuments) -> tuple[Block, ...]:
    """The first result as a lead, the others as a list; before them what a reader must know first."""
    sentences = [*_board_verdicts(run), *_review_verdict(run), *_other_verdicts(run)]
    blocks: list[Block] = []
    if sentences:
        blocks.append(Paragraph(tuple(sentences[0]), style="lead"))
    if len(sentences) > 1:
        blocks.append(Bullets(tuple(tuple(sentence) for sentence in sentences[1:])))
    return (*_state(run), *blocks)


def _state(run: RunDocuments) -> Iterator[Block]:
    progress = run.get("progress") or {}
    if progress.get("state") in {"running", "failed"}:
        done = f"{count(progress, 'done'):,} of {count(progress, 'total'):,}"
        said = "is still going on" if progress["state"] == "running" else "ended with an error"
        yield warning(f"The run {said}: {progress.get('stage', '')} {done}. What stands here may change.")
    if demonstration := (run.get("gre") or {}).get("demonstration"):
        yield warning(str(demonstration))
    for problem in run.problems:
        yield warning(problem[0].upper() + problem[1:] + ".")


def _board_verdicts(run: RunDocuments) -> Iterator[list[Inline]]:
    document = run.get("leaderboard") or {}
    for place, (metric, board) in enumerate(run.boards.items()):
        rows = board["rows"]
        scored = [row for row in rows if number(row, "score") is not None]
        if not scored:
            yield [Name(metric), ": no agent could be scored. ", *_missing(run, board)]
            continue
        lead = scored[0]
        decimals = decimals_for(number(row, "score") for row in scored)
        begin: list[Inline] = [Name(str(lead["agent"])), " leads under ", Name(metric), " with "]
        begin.append(f"{numeral(number(lead, 'score'), decimals)} {board.get('unit', '')}".rstrip())
        yield [
            *begin,
            *_interval(lead, float(board.get("level", 0.95)), decimals),
            *_sure(lead, scored),
            *_missing(run, board),
        ]
        if place == 0 and document.get("complete") is False:
            yield [f"The run is incomplete: {plural(count(document, 'open'), 'answer')} left open; run it again."]


def _interval(row: Row, level: float, decimals: int) -> list[Inline]:
    low, high, n = number(row, "low"), number(row, "high"), count(row, "n")
    tasks = f" on {plural(n, 'task')}" if n else ""
    if low is None or high is None:
        return [f" (no interval{tasks}). "]
    ends = f"{numeral(low, decimals)} to {numeral(high, decimals)}"
    return [" (", Term("interval", f"{percent(level)} interval"), f" {ends}{tasks}). "]


def _sure(lead: Row, scored: list[Row]) -> list[Inline]:
    others = [str(row["agent"]) for row in scored if row is not lead]
    beaten = set(lead.get("better_than", ()))
    open_ = [name for name in others if name not in beaten]
    if not others:
        return ["There is no other agent to compare it with. "]
    if not open_:
        many = (
            "both others"
            if len(others) == 2
            else f"each of the {len(others)} others"
            if len(others) > 1
            else "the other"
        )
        return [f"It is better than {many}", " (", Term("holm", "corrected for many comparisons"), "). "]
    if len(open_) == len(others):
        return ["It is not shown to be better than any other. "]
    return [
        f"It is better than {len(others) - len(open_)} of {len(others)} others, and not shown to be better than ",
        *listed(open_, 3),
        ". ",
    ]


def _missing(run: RunDocuments, board: Row) -> list[Inline]:
    asked, missing = (sum(count(row, key) for row in board["rows"]) for key in ("asked", "missing"))
    without = _without_reviews(run)
    if not asked:
        return without
    if not missing:
        return without or ["Nothing is missing."]
    what = "pair score" if counts_pairs(board) else "response score"
    return [*without, f"{missing:,} of {plural(asked, f'{what} is', f'{what}s are')} ", Term("missing"), "."]


def _without_reviews(run: RunDocuments) -> list[Inline]:
    """Which models of an edition have no score, since none of their reviews is there."""
    written = (run.get("gre") or {}).get("written") or ()
    names = [str(row["agent"]) for row in written if not count(row, "written")]
    if not names:
        return []
    since = "has no score, since it has no review" if len(names) == 1 else "have no score, since they have no review"
    return [*listed(names), f" {since}. "]


def _review_verdict(run: RunDocuments) -> Iterator[list[Inline]]:
    review = run.get("review")
    if review is None:
        return
    reviewers, ranking = review["reviewers"], review.get("ranking") or []
    passed = [row["name"] for row in reviewers if row.get("passed")]
    who = f"{len(passed)} of {plural(len(reviewers), 'reviewer')} may vote"
    scored = [row for row in ranking if number(row, "score") is not None]
    if not scored:
        why = review.get("nobody_passed")
        yield [f"In the review nobody is ranked: {who}. ", *([str(why)] if why else [])]
        return
    lead = scored[0]
    low, high = number(lead, "low"), number(lead, "high")
    rankings: Mapping[str, Row] = review.get("rankings") or {}
    unit = next((ranking.get("unit") for ranking in rankings.values()), None) or "score"
    ends = "" if low is None or high is None else f" ({numeral(low)} to {numeral(high)})"
    missing = sum((review.get("failures") or {}).values())
    yield [
        Name(str(lead["agent"])),
        f" leads in the review with a {unit} of {numeral(number(lead, 'score'))}{ends}; {who}. ",
        f"{plural(missing, 'judgement or exam answer is', 'judgements or exam answers are')} missing."
        if missing
        else "Nothing is missing.",
    ]


def _other_verdicts(run: RunDocuments) -> Iterator[list[Inline]]:
    for metric, card in ((run.get("crash_test") or {}).get("metrics") or {}).items():
        counts = card["counts"]
        total = sum(counts.values())
        told = f" passes {counts.get('pass', 0)} of {total} crash tests, fails {counts.get('fail', 0)}"
        unclear = counts.get("not shown", 0)
        yield [Name(metric), told, f", and in {unclear} it is not shown either way." if unclear else "."]
    yield from _agreement_verdicts(run)
    bias = run.get("bias")
    if bias is not None:
        shown = [row for row in bias["rows"] if row.get("shown")]
        whose = len({row["judge"] for row in shown})
        measured = plural(len(bias["rows"]), "measured bias", "measured biases")
        yield [f"Of {measured}, {len(shown)} are shown, of {plural(whose, 'judge')}."]


def _agreement_verdicts(run: RunDocuments) -> Iterator[list[Inline]]:
    agreement = run.get("agreement") or {}
    level = number(agreement, "level") or 0.95
    for one in agreement.get("criteria") or ():
        judges = [j for j in one["judges"] if number(j["accuracy"], "accuracy") is not None]
        if not judges:
            continue
        best = max(judges, key=lambda j: number(j["accuracy"], "accuracy") or 0.0)
        found: Row = best["accuracy"]
        on = f" on {one['criterion']}" if one.get("criterion") else ""
        low, high = number(found, "low"), number(found, "high")
        interval: list[Inline] = ["no interval"]
        if low is not None and high is not None:
            interval = [Term("interval", f"{percent(level)} interval"), f" {numeral(low)} to {numeral(high)}"]
        tasks = plural(count(found, "n_tasks"), "task")
        yield [
            Name(str(best["name"])),
            f" agrees most with people{on}: on {numeral(number(found, 'accuracy'))} (",
            *interval,
            f") of {plural(count(found, 'used'), 'pair')} that they decided, on {tasks}.",
        ]
