"""The page that holds two runs side by side."""

from __future__ import annotations

from collections.abc import Mapping

from goldless.errors import UserError
from goldless.viewer.comparison import LEVEL, RESAMPLES, common_metrics, compare_runs
from goldless.viewer.library import Library
from goldless.viewer.links import Links
from goldless.viewer.rendering import decimals_for, render

TASKS_SHOWN = 100


def compare_page(library: Library, links: Links, given: Mapping[str, str]) -> str:
    """Two runs compared, or the form that asks which."""
    runs = library.summaries()
    names = given.get("first") or "", given.get("second") or ""
    metrics: tuple[str, ...] = ()
    found = None
    if all(names):
        first, second = (library.run(name) for name in names)
        indexes = library.index(first), library.index(second)
        metrics = common_metrics(*indexes)
        metric = given.get("metric") or next(iter(metrics), "")
        if given.get("metric") and metric not in metrics:
            metric = next(iter(metrics), "")
        if metrics:
            found = compare_runs((first, indexes[0]), (second, indexes[1]), metric)
    elif any(names):
        raise UserError("name two runs to compare; one came")
    ends = [x for row in found.agents for x in (row.difference.low, row.difference.high)] if found else []
    there = [0.0, *(x for x in ends if x is not None)]
    values = [x for row in found.agents for x in (row.first, row.second)] if found else []
    return render(
        "compare.html",
        links,
        runs=runs,
        first=names[0],
        second=names[1],
        metrics=metrics,
        found=found,
        tasks=found.tasks[:TASKS_SHOWN] if found else (),
        lowest=min(there),
        highest=max(there),
        decimals=decimals_for(values),
        level=LEVEL,
        resamples=RESAMPLES,
    )
