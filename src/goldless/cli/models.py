"""``goldless models``: which models there are, and fetching the embedded one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from goldless.cli.command import verb
from goldless.cli.console import say
from goldless.cli.output import Output
from goldless.errors import ModelSpecError

app = typer.Typer(
    help="List the models goldless can use, or fetch the embedded one.", no_args_is_help=True, rich_markup_mode="rich"
)


@app.command("list")
@verb()
def list_models(*, output: Output) -> None:
    """List the ways to name a model."""
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


@app.command()
def pull(
    model: Annotated[str, typer.Argument(help="Only the embedded model can be fetched ahead.")] = "embedded",
) -> None:
    """Fetch the embedded model and convert it, so that it can be used without a connection."""
    import anyio

    from goldless.models.catalogue import open_model

    if model != "embedded":
        raise ModelSpecError(
            f"only 'embedded' can be pulled, not {model!r}; other models are loaded when they are used"
        )
    loaded = open_model("embedded", say=say)

    async def load() -> None:
        await loaded.prepare()
        await loaded.aclose()

    anyio.run(load)
    say(f"ready: {loaded.identity.short}")
