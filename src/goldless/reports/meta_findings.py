"""What agreement, bias, cost, consistency and crash tests found, in sentences: for the terminal and the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from goldless.reports.findings import Name, Said, named
from goldless.reports.report_table import usd_text
from goldless.statistics.comparisons import SIGNIFICANT

# what reads documents brings pydantic: it is loaded when the first of them is read
if TYPE_CHECKING:
    from goldless.reports.documents.meta_evaluation import (
        AgreementDocument,
        BiasDocument,
        BiasNote,
        ConsistencyDocument,
        CostDocument,
        CrashTestDocument,
        CriterionNote,
        JudgeNote,
        PanelCostNote,
    )

CHANCE = 0.5
NEARLY = 0.01
"""Accuracy that is given up for a cheaper panel."""


def _list(parts: Sequence[Said]) -> Said:
    found: list[str | Name] = []
    for place, part in enumerate(parts):
        found += ["; "] * bool(place) + [*part]
    return tuple(found)


# --- agreement with people -------------------------------------------------------------------------------------------


def agreement_findings(document: AgreementDocument) -> Iterator[Said]:
    """Who agrees most with people, who is not better than chance, and how far people agree with each other."""
    for one in document.criteria:
        judges = _by_accuracy(one)
        if not judges:
            continue
        on: Said = (" on ", Name(one.criterion)) if one.criterion else ()
        best = judges[0].accuracy
        ends = "" if best.low is None or best.high is None else f" ({best.low:.3f} to {best.high:.3f})"
        yield (
            Name(judges[0].name),
            " agrees most with people",
            *on,
            f": on {best.accuracy:.3f}{ends} of {best.used:,} pairs with a clear human preference",
            *_not_less(one, judges),
            ".",
        )
        chance = [row.name for row in judges if row.accuracy.low is not None and row.accuracy.low <= CHANCE]
        if chance:
            yield (*named(chance, 6), f" {'is' if len(chance) == 1 else 'are'} not shown to be better than chance.")
        yield from _people(one, judges)


def _by_accuracy(one: CriterionNote) -> list[JudgeNote]:
    known = [judge for judge in one.judges if judge.accuracy.accuracy is not None]
    return sorted(known, key=lambda judge: -(judge.accuracy.accuracy or 0.0))


def _not_less(one: CriterionNote, judges: Sequence[JudgeNote]) -> Said:
    """The judges that the best one is not shown to exceed."""
    lead = judges[0].name
    open_ = []
    for row in one.comparisons:
        pair = {row.first, row.second}
        if lead in pair and row.statistic.startswith("accuracy") and (row.p_holm is None or row.p_holm >= SIGNIFICANT):
            open_ += [name for name in pair if name != lead]
    order = [judge.name for judge in judges if judge.name in open_]
    return (", not shown to exceed ", *named(order)) if order else ()


def _people(one: CriterionNote, judges: Sequence[JudgeNote]) -> Iterator[Said]:
    people = one.ceiling.accuracy
    if people is None or people.value is None:
        return
    above = [judge.name for judge in judges if (judge.accuracy.accuracy or 0.0) > people.value]
    begin = f"One person agrees with the others on {people.value:.3f} of pairs"
    if above:
        yield (
            f"{begin}; ",
            *named(above),
            f" {'is' if len(above) == 1 else 'are'} above that. A judge can be: it is compared with what most people ",
            "prefer, and one person differs from most people more often than a steady judge does.",
        )
    else:
        yield (f"{begin}; no judge is above that.",)


# --- bias ------------------------------------------------------------------------------------------------------------


def reviewers_of(document: BiasDocument) -> list[str]:
    """The judges that are reviewers: not panels, people, metrics, or pairs of reviewers."""
    return list(dict.fromkeys(row.judge for row in document.rows if row.kind == _judged(document)))


def _judged(document: BiasDocument) -> str:
    """What is counted: reviewers, or metrics if there are none."""
    return "reviewer" if any(row.kind == "reviewer" for row in document.rows) else "metric"


def bias_findings(document: BiasDocument) -> Iterator[Said]:
    """How many judges show each bias, and which one most."""
    judges = reviewers_of(document)
    tested = [row for row in document.rows if row.judge in judges and None not in (row.neutral, row.value)]
    if not tested:
        yield ("No bias could be tested.",)
        return
    biased = {row.judge for row in tested if row.shown}
    yield (f"{len(biased)} of {len(judges)} {_judged(document)}s show a bias.",)
    parts: list[Said] = []
    for bias in dict.fromkeys(row.bias for row in tested):
        rows = [row for row in tested if row.bias == bias]
        shown = [row for row in rows if row.shown]
        whose = len({row.judge for row in rows})
        if shown:
            worst = max(shown, key=_distance)
            parts.append((f"{bias}: {len({row.judge for row in shown})} of {whose}, most ", *_worst(worst)))
        else:
            parts.append((f"{bias}: none of {whose}",))
    yield (*_list(parts), ".")


def _distance(row: BiasNote) -> float:
    return abs((row.value or 0.0) - (row.neutral or 0.0))


def _worst(row: BiasNote) -> Said:
    return Name(row.judge), f" ({row.measure} {row.value:.3f}, unbiased {row.neutral:g})"


# --- cost ------------------------------------------------------------------------------------------------------------


def cost_findings(document: CostDocument) -> Iterator[Said]:
    """What accuracy the money buys, along the frontier."""
    panels = document.panels
    if panels is None:
        return
    known = [row for row in panels.frontier if row.usd is not None and row.accuracy is not None]
    edge = sorted(known, key=lambda row: row.usd or 0.0)
    if not edge:
        return
    shown = [edge[0], *_nearly(edge), edge[-1]] if len(edge) > 1 else edge
    parts = _list([(*_panel(row), f": {row.accuracy:.3f} for {usd_text(row.usd or 0.0)} USD") for row in shown])
    yield ("What the money buys, in agreement with people: ", *parts, ".")
    single = [row for row in (*panels.by_size, *panels.frontier) if len(row.reviewers) == 1 and row.usd is not None]
    best = max(single, key=lambda row: row.accuracy or 0.0, default=None)
    if best is not None and best.reviewers not in {row.reviewers for row in shown}:
        said = f": {best.accuracy:.3f} for {usd_text(best.usd or 0.0)} USD."
        yield ("The most accurate single reviewer is ", Name(best.name), said)


def _panel(row: PanelCostNote) -> Iterator[str | Name]:
    for place, name in enumerate(row.reviewers):
        yield from [" + "] * bool(place)
        yield Name(name)


def _nearly(edge: Sequence[PanelCostNote]) -> list[PanelCostNote]:
    """The cheapest panel that is nearly as accurate as the best, if there are others."""
    best = edge[-1].accuracy or 0.0
    near = next(row for row in edge if (row.accuracy or 0.0) >= best - NEARLY)
    return [] if near in (edge[0], edge[-1]) else [near]


# --- consistency and crash test --------------------------------------------------------------------------------------


def consistency_findings(document: ConsistencyDocument) -> Iterator[Said]:
    """Whether two scorers rank the agents alike, by Spearman's coefficient."""
    rows = [row for row in document.rows if row.coefficient == "spearman"] or list(document.rows)
    for row in rows:
        who: Said = (Name(row.first), " and ", Name(row.second))
        if row.value is None:
            yield (*who, ": the correlation under ", Name(row.metric), " is not defined.")
            continue
        ends = "" if row.low is None or row.high is None else f" ({row.low:.2f} to {row.high:.2f})"
        alike = "do not rank the agents alike" if row.value <= 0 else "rank the agents alike"
        if row.low is not None and row.low <= 0 < row.value:
            alike = "are not shown to rank the agents alike"
        yield (*who, f" {alike} under ", Name(row.metric), f": {row.coefficient.capitalize()} {row.value:.3f}{ends}.")


def crash_findings(document: CrashTestDocument) -> Iterator[Said]:
    """What each metric passes and fails."""
    for metric, card in document.metrics.items():
        failed = [row.perturbation for row in card.perturbations if row.rating == "fail"]
        undecided = card.counts.get("not shown", 0)
        said = f" passes {card.counts.get('pass', 0)} of {sum(card.counts.values())} crash tests"
        fails: Said = (", fails ", *named(failed, 6)) if failed else (", fails none",)
        yield (Name(metric), said, *fails, f"; {undecided} undecided." if undecided else ".")
