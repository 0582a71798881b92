"""``goldless models``: the ways to name a model, and fetching the embedded one."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from goldless.cli.command import Command, verb, verbs_app
from goldless.cli.console import say
from goldless.cli.output import Output
from goldless.cli.signals import run_async
from goldless.errors import ModelSpecError
from goldless.runs.option_forms import argument

app = verbs_app("List the ways to name a model, or fetch the embedded one.")


@app.command("list", cls=Command)
@verb()
def list_models(*, output: Output) -> None:
    """List the ways to name a model.

    Example:
      goldless models list
    """
    from goldless.models.catalogue import forms
    from goldless.models.embedded import find_embedded
    from goldless.reports.report_table import Column, ReportTable

    columns = (Column("form", "written as"), Column("purpose", "what it is"))
    kinds = tuple(asdict(form) for form in forms())
    path = find_embedded()
    output.print_tables(
        [ReportTable("Models", columns, kinds)],
        lambda: {"models": kinds, "embedded": None if path is None else str(path)},
    )
    say(f"embedded: {'not fetched yet (goldless models pull embedded)' if path is None else path}")


@dataclass(frozen=True, kw_only=True)
class Pulling:
    """Options of ``pull``."""

    model: str = argument("MODEL", "embedded; other models are loaded on use.", "embedded")


@app.command(cls=Command)
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
