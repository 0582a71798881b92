"""``goldless metrics``, ``models`` and ``plugins``: what there is, and fetching the embedded model."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from goldless.cli.command import Command, verb, verbs_app
from goldless.cli.console import say
from goldless.cli.output import Output, plain_table
from goldless.cli.signals import run_async
from goldless.errors import ModelSpecError
from goldless.runs.option_forms import argument

if TYPE_CHECKING:
    from goldless.plugins import Plugin

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
models = verbs_app("List the ways to name a model, or fetch the embedded one.")


@verb()
def metrics(*, output: Output) -> None:
    """List the metrics with what each measures, ours, those of installed packages, and the forms of custom ones.

    Example:
      goldless metrics
    """
    from goldless.metrics.catalogue import CATALOGUE, METRICS
    from goldless.user_metrics.catalogue import USER_METRICS

    theirs = {plugin.name: f"from {plugin.package}" for plugin in CATALOGUE.plugins() if plugin.failure is None}
    listed = {**METRICS, **theirs, **USER_METRICS}
    rows = tuple({"metric": name, "measures": text} for name, text in listed.items())
    table = plain_table("Metrics", rows, metric="metric", measures="what it measures")
    output.print_tables([table], lambda: {"metrics": rows})


@models.command("list", cls=Command)
@verb()
def list_models(*, output: Output) -> None:
    """List the ways to name a model.

    Example:
      goldless models list
    """
    from goldless.models.catalogue import forms
    from goldless.models.embedded import find_embedded

    rows = tuple(asdict(form) for form in forms())
    path = find_embedded()
    table = plain_table("Models", rows, form="written as", purpose="what it is")
    output.print_tables([table], lambda: {"models": rows, "embedded": None if path is None else str(path)})
    say(f"embedded: {'not fetched yet (goldless models pull embedded)' if path is None else path}")


@dataclass(frozen=True, kw_only=True)
class Pulling:
    """Options of ``models pull``."""

    model: str = argument("MODEL", "embedded; other models are loaded on use.", "embedded")


@models.command(cls=Command)
@verb()
def pull(own: Pulling) -> None:
    """Fetch and convert the embedded model, so that it can be used offline.

    Example:
      goldless models pull embedded
    """
    from goldless.models.catalogue import open_model

    if own.model != "embedded":
        raise ModelSpecError(f"MODEL must be embedded, got {own.model!r}. Other models are loaded when they are used")
    loaded = open_model("embedded", say=say)

    async def load() -> None:
        await loaded.prepare()
        await loaded.aclose()

    run_async(load)
    say(f"ready: {loaded.identity.short}")


@verb()
def plugins(*, output: Output) -> None:
    """List what installed packages add, such as metrics, models or sections of the report; which failed, and why.

    A package adds a metric by an entry point in the group goldless.metrics. A broken plugin never stops goldless.

    Example:
      goldless plugins
    """
    from goldless.plugins import GROUPS

    names = ("group", "name", "package", "version")
    found = [plugin for group in GROUPS for plugin in _of(group)]
    rows = tuple(
        {name: getattr(one, name) for name in names} | {"usable": one.failure is None, "failure": one.failure}
        for one in found
    )
    columns = {name: name for name in names} | {"failure": "cannot be used because"}
    output.print_tables([plain_table("Plugins", rows, **columns)], lambda: {"groups": list(GROUPS), "plugins": rows})
    if not found:
        say(f"no installed package adds anything. Entry-point groups: {', '.join(GROUPS)}")
    if failed := sum(not row["usable"] for row in rows):
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
