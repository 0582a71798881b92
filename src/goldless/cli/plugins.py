"""``goldless plugins``: what installed packages add to goldless, and what of it cannot be used."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from goldless.cli.command import verb
from goldless.cli.console import say
from goldless.cli.output import Output

if TYPE_CHECKING:
    from goldless.plugins import Plugin
    from goldless.reports.report_table import ReportTable

CATALOGUES = {
    "goldless.metrics": "goldless.metrics.catalogue",
    "goldless.models": "goldless.models.catalogue",
    "goldless.perturbations": "goldless.meta_evaluation.perturbations.catalogue",
    "goldless.importers": "goldless.studies.importers",
    "goldless.exporters": "goldless.exporting.catalogue",
    "goldless.sections": "goldless.reports.html.page",
    "goldless.verbs": "goldless.cli.main",
}
"""The module whose catalogue says whether a group's plugins have the right shape and a name that is free."""


@verb()
def plugins(*, output: Output) -> None:
    """List what installed packages add, such as metrics, models or sections of the report; which failed, and why.

    A package adds a metric by an entry point in the group goldless.metrics. A broken plugin never stops goldless.

    Example:
      goldless plugins
    """
    from goldless.plugins import GROUPS

    found = [plugin for group in GROUPS for plugin in _of(group)]
    rows: list[dict[str, Any]] = [
        {
            "group": one.group,
            "name": one.name,
            "package": one.package,
            "version": one.version,
            "usable": one.failure is None,
            "failure": one.failure,
        }
        for one in found
    ]
    output.print_tables([_table(rows)], lambda: {"groups": list(GROUPS), "plugins": rows})
    if not found:
        say(f"no installed package adds anything. Entry-point groups: {', '.join(GROUPS)}")
    failed = sum(not row["usable"] for row in rows)
    if failed:
        say(f"cannot be used: {failed} of {len(rows)}", style="yellow")


def _of(group: str) -> Iterable[Plugin]:
    """The plugins of a group, as its catalogue sees them where it has one."""
    from goldless.plugins import Catalogue
    from goldless.plugins import plugins as entry_points

    if importlib.util.find_spec(CATALOGUES[group]) is None:
        return entry_points(group)
    module = importlib.import_module(CATALOGUES[group])
    kept = [value for value in vars(module).values() if isinstance(value, Catalogue) and value.group == group]
    return kept[0].plugins() if kept else entry_points(group)


def _table(rows: list[dict[str, Any]]) -> ReportTable:
    from goldless.reports.report_table import Column, ReportTable

    columns = (
        Column("group", "group"),
        Column("name", "name"),
        Column("package", "package"),
        Column("version", "version"),
        Column("failure", "cannot be used because", absent=""),
    )
    return ReportTable("Plugins", columns, tuple(rows))
