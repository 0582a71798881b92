"""``goldless list``: the metrics, models, importers and plugins that there are."""

from __future__ import annotations

from dataclasses import asdict
from pkgutil import resolve_name

from goldless.cli.command import verb, verbs_app
from goldless.cli.console import say
from goldless.cli.output import Output, plain_table

CATALOGUES = (
    *("goldless.metrics.catalogue:CATALOGUE", "goldless.models.catalogue:PROVIDERS"),
    *("goldless.meta_evaluation.perturbations.catalogue:CATALOGUE", "goldless.studies.importers:IMPORTERS"),
    *("goldless.exporting.catalogue:EXPORTERS", "goldless.reports.html.page:CATALOGUE", "goldless.cli.main:ADDED"),
)
"""Where plugins come in, by entry point or as apps of ours."""


@verb()
def metrics(*, output: Output) -> None:
    """List the metrics with what each measures, ours, those of installed packages, and the forms of custom ones.

    Example:
      goldless list metrics
    """
    from goldless.metrics.catalogue import CATALOGUE, METRICS
    from goldless.user_metrics.catalogue import USER_METRICS

    theirs = {plugin.name: f"from {plugin.package}" for plugin in CATALOGUE.plugins() if plugin.failure is None}
    rows = [{"metric": name, "measures": text} for name, text in {**METRICS, **theirs, **USER_METRICS}.items()]
    table = plain_table("Metrics", rows, metric="metric", measures="what it measures")
    output.print_tables([table], lambda: {"metrics": rows})


@verb()
def models(*, output: Output) -> None:
    """List the ways to name a model.

    Example:
      goldless list models
    """
    from goldless.models.catalogue import forms
    from goldless.models.embedded import find_embedded

    rows, path = [asdict(form) for form in forms()], find_embedded()
    table = plain_table("Models", rows, form="written as", purpose="what it is")
    output.print_tables([table], lambda: {"models": rows, "embedded": None if path is None else str(path)})
    say(f"embedded: {'not fetched yet (goldless doctor embedded does it)' if path is None else path}")


@verb()
def importers(*, output: Output) -> None:
    """List the formats that a study is read from; most are recognised by themselves, --from names one.

    Example:
      goldless list importers
    """
    from goldless.studies.importers import IMPORTERS

    rows = [{"format": name, "reads": one.description} for name, one in IMPORTERS.all().items()]
    table = plain_table("Importers", rows, format="--from", reads="what it reads")
    output.print_tables([table], lambda: {"importers": rows})


@verb()
def plugins(*, output: Output) -> None:
    """List what installed packages add, such as metrics, models or sections of the report; which failed, and why.

    A package adds a metric by an entry point in the group goldless.metrics. A broken plugin never stops goldless.

    Example:
      goldless list plugins
    """
    from goldless.plugins import GROUPS

    names = ("group", "name", "package", "version", "failure")
    found = [one for place in CATALOGUES for one in resolve_name(place).plugins()]
    rows = [{name: getattr(one, name) for name in names} | {"usable": one.failure is None} for one in found]
    headings = {name: name for name in names} | {"failure": "cannot be used because"}
    tables = [plain_table("Plugins", rows, **headings)] if rows else []
    output.print_tables(tables, lambda: {"groups": list(GROUPS), "plugins": rows})
    if not rows:
        say(f"no installed package adds anything. Entry-point groups: {', '.join(GROUPS)}")
    if failed := sum(not row["usable"] for row in rows):
        say(f"cannot be used: {failed} of {len(rows)}", style="yellow")


app = verbs_app("List metrics, models, importers or plugins.", metrics, models, importers, plugins)
