"""The charts of ``benchmarks/speed/report.py`` drawn by Altair, where that is installed. Prints seconds and bytes.

    PYTHON benchmarks/speed/report_altair.py RUN_DIR

PYTHON needs altair and vl-convert-python, and nothing of goldless.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path
from typing import Any


def draw(folder: Path) -> Path:
    import altair as alt  # noqa: PLC0415 - only this interpreter has it

    alt.data_transformers.disable_max_rows()
    board = json.loads((folder / "leaderboard.json").read_text())
    with (folder / "response_scores.csv").open() as file:
        scores = [row | {"score": float(row["score"])} for row in csv.DictReader(file) if row["score"]]
    parts: list[Any] = []
    for metric, one in board["metrics"].items():
        order = [row["agent"] for row in one["rows"]]
        base = alt.Chart(alt.Data(values=one["rows"])).encode(y=alt.Y("agent:N", sort=order))
        parts.append(base.mark_rule().encode(x="estimate.low:Q", x2="estimate.high:Q"))
        parts[-1] += base.mark_circle().encode(x="estimate.value:Q")
        agents, means = one["matrix"]["agents"], one["matrix"]["means"]
        cells = [{"a": a, "p": p, "v": means[i][j]} for i, a in enumerate(agents) for j, p in enumerate(agents)]
        differences = [{"a": c["first"], "p": c["second"], "v": c["difference"]} for c in one["comparisons"]]
        for values in (differences, cells):
            chart = alt.Chart(alt.Data(values=values)).mark_rect()
            parts.append(chart.encode(x=alt.X("p:N", sort=order), y=alt.Y("a:N", sort=order), color="v:Q"))
        mine = [row for row in scores if row["metric"] == metric]
        parts.append(alt.Chart(alt.Data(values=mine)).mark_tick().encode(x="score:Q", y=alt.Y("agent:N", sort=order)))
    path = folder / "altair.html"
    alt.vconcat(*parts).resolve_scale(color="independent").save(path, inline=True)
    return path


def main() -> None:
    begun = time.perf_counter()
    path = draw(Path(sys.argv[1]))
    print(time.perf_counter() - begun, path.stat().st_size)


if __name__ == "__main__":
    main()
