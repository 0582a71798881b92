"""``goldless models``: which models there are, and fetching the embedded one."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer
from rich.table import Table

from goldless.cli.console import out, say
from goldless.errors import ModelSpecError
from goldless.models.catalogue import KINDS, open_model
from goldless.models.embedded import find_embedded

app = typer.Typer(help="List the models goldless can use, or fetch the embedded one.", no_args_is_help=True)


@app.command("list")
def list_models() -> None:
    """List the ways to name a model."""
    table = Table("written as", "what it is", title="Models")
    for kind in KINDS:
        table.add_row(kind.form, kind.purpose)
    out.print(table, markup=False)
    path = find_embedded()
    say(f"embedded: {'not fetched yet (goldless models pull embedded)' if path is None else path}")


@app.command()
def pull(
    model: Annotated[str, typer.Argument(help="Only the embedded model can be fetched ahead.")] = "embedded",
) -> None:
    """Fetch the embedded model and convert it, so that it can be used without a connection."""
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
