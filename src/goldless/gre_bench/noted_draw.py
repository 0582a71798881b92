"""What a study notes of the draw it was made by, held against what an edition's config asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goldless.gre_bench.config import CollectConfig
from goldless.studies import Study

DRAW = "draw"
"""The table."""


def noted_draw(study: Study) -> Mapping[str, Any] | None:
    """What the study says of its draw; None: nothing, as where somebody else wrote it."""
    table = study.table(DRAW)
    rows = [] if table is None else table.to_dicts()
    return rows[0] if rows else None


def asked_source(collect: CollectConfig, folder: Path) -> str:
    """How a draw from this source calls it: the venue, or the name of the folder, seen from the edition's."""
    return collect.venue or (folder / str(collect.from_folder)).resolve().name


def draw_differences(study: Study, collect: CollectConfig, folder: Path) -> list[str]:
    """What the study's papers were drawn by and the config does not ask for, such as ``seed 0 and not 3``."""
    noted = noted_draw(study)
    if noted is None:
        return []
    asked = {
        "source": asked_source(collect, folder),
        "seed": collect.seed,
        "papers_asked": collect.papers,
        "reviews_asked": collect.reviews,
    }
    return [
        f"{name.removesuffix('_asked')} {_shown(noted[name])} and not {_shown(value)}"
        for name, value in asked.items()
        if name in noted and noted[name] != value
    ]


def _shown(value: Any) -> str:
    return "all" if value is None else str(value)
