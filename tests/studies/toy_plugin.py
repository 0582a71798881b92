"""An importer and an exporter as somebody else's package would have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from goldless.studies.checking import Problems
from goldless.studies.tables import Line


class ToyImporter:
    """Reads ``TASK|AGENT|TEXT`` lines under the heading ``#toy``; ``?`` in place of an agent gives the prompt."""

    description = "toy files: one TASK|AGENT|TEXT per line"

    def recognises(self, path: Path) -> bool:
        return path.suffix == ".toy"

    def read(self, paths: Sequence[Path], problems: Problems, *, upper: bool = False) -> dict[str, Any]:
        lines = list(self._lines(paths, problems))
        tasks = [Line(n, {"task": task, "prompt": text}) for n, task, agent, text in lines if agent == "?"]
        responses = (
            Line(n, {"task": task, "agent": agent, "text": text.upper() if upper else text})
            for n, task, agent, text in lines
            if agent != "?"
        )
        notes = pl.DataFrame({"task": [task for _, task, *_ in lines]})
        return {"responses": responses, "notes": notes} | ({"tasks": tasks} if tasks else {})

    def _lines(self, paths: Sequence[Path], problems: Problems) -> Iterator[tuple[int, str, str, str]]:
        for path in paths:
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()[1:], 2):
                cells = line.split("|")
                if len(cells) == 3:
                    yield number, *cells
                else:
                    problems.add(f"{len(cells)} cells; a line has three", path.name, number)


class Greedy(ToyImporter):
    """Takes everything for its own, and stumbles."""

    def recognises(self, path: Path) -> bool:
        return True

    def read(self, paths: Sequence[Path], problems: Problems) -> dict[str, Any]:
        return {"responses": ({}[path] for path in paths)}


class Stumbling(ToyImporter):
    """Cannot even say what its files are."""

    def recognises(self, path: Path) -> bool:
        raise RuntimeError("no idea")


class ToyExporter:
    """Writes a study as toy lines."""

    description = "toy files"
    suffix = ".toy"

    def exports(self, thing: Any) -> bool:
        return hasattr(thing, "rows")

    def write(self, thing: Any, path: Path) -> None:
        lines = ["#toy", *(f"{row['task']}|{row['agent']}|{row['text']}" for row in thing.rows("responses"))]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


importer, greedy, stumbling, exporter = ToyImporter(), Greedy(), Stumbling(), ToyExporter()
nothing = object()
