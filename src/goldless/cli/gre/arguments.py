"""Arguments that several verbs of GRE-bench have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from goldless.cli.console import say
from goldless.gre_bench.making import Asking
from goldless.models.usage import parse_budget, parse_price
from goldless.runs.options import Progress

EditionFolder = Annotated[
    Path, typer.Argument(metavar="EDITION", help="Folder of an edition, begun with goldless gre collect.")
]
OutputEdition = Annotated[
    Path | None,
    typer.Argument(metavar="[EDITION]", help="Folder of the edition; named by the venue where it is left out."),
]
BoardName = Annotated[
    str,
    typer.Argument(
        metavar="BOARD",
        help="Folder of an edition or a run, a CSV file with agent and metrics, published:70b or published:8b.",
    ),
]


def asking(budget: str | None, price: str | None, journal: Path | None, tell: Callable[[Progress], None]) -> Asking:
    """What asking models may cost, as it was given, with who is told how far it is."""
    return Asking(
        budget_usd=None if budget is None else parse_budget(budget),
        price=None if price is None else parse_price(price),
        journal=journal,
        progress=tell,
        say=say,
    )


def given(**settings: Any) -> dict[str, Any]:
    """The settings that were named; the others stay as the edition's config has them."""
    return {name: value for name, value in settings.items() if value is not None}
