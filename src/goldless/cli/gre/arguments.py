"""Arguments that several verbs of GRE-bench have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

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


def given(**settings: Any) -> dict[str, Any]:
    """The settings that were named; the others stay as the edition's config has them."""
    return {name: value for name, value in settings.items() if value is not None}
