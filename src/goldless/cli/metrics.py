"""``goldless metrics``: the metrics there are."""

from __future__ import annotations

from goldless.cli.command import verb
from goldless.cli.output import Output


@verb()
def metrics(*, output: Output) -> None:
    """List the metrics with what each measures, ours, those of installed packages, and the forms of custom ones.

    Example:
      goldless metrics
    """
    from goldless.metrics.catalogue import CATALOGUE, METRICS
    from goldless.reports.report_table import Column, ReportTable
    from goldless.user_metrics.catalogue import USER_METRICS

    theirs = {plugin.name: f"from {plugin.package}" for plugin in CATALOGUE.plugins() if plugin.failure is None}
    listed = {**METRICS, **theirs, **USER_METRICS}
    rows = tuple({"metric": name, "measures": text} for name, text in listed.items())
    columns = (Column("metric", "metric"), Column("measures", "what it measures"))
    output.print_tables([ReportTable("Metrics", columns, rows)], lambda: {"metrics": rows})
