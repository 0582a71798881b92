"""How many functions of goldless, in how many files, `goldless score` goes through for nine responses.

    python benchmarks/speed/journey.py [--list]

A scripted model scores three agents on three tasks; the journal has all replies, so that what is counted is the way of
the data and no model. Functions that run while a module is imported do not count. ``--list`` names each function.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import goldless
from goldless.cli.main import main
from goldless.models.scripted import ScriptedModel

SOURCE = str(Path(goldless.__file__).parent)
ROWS = "".join(
    f"{task},{agent},agent {agent} says that the pump of task {task} {said} on Monday\n"
    for task in ("t1", "t2", "t3")
    for agent, said in (("a", "failed early"), ("b", "failed late"), ("c", "was tested"))
)


def logprobs(context: str, target: str) -> list[float]:
    """Words that the context has are likelier."""
    seen = set(context.split())
    return [-0.5 if word in seen else -3.0 for word in target.split()]


class Journey:
    """The functions of goldless that were entered, without those of modules while they are imported."""

    def __init__(self) -> None:
        self.entered: set[CodeType] = set()
        self._importing = threading.local()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Is called at each call and return."""
        code = frame.f_code
        if event not in {"call", "return"} or not code.co_filename.startswith(SOURCE):
            return
        depth = getattr(self._importing, "depth", 0)
        if code.co_name == "<module>":
            self._importing.depth = depth + (1 if event == "call" else -1)
        elif event == "call" and not depth and not code.co_name.startswith("<"):
            self.entered.add(code)


def score(*more: str) -> None:
    sys.argv = ["goldless", "score", *more]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


def traced(folder: Path) -> Journey:
    """The journey of the second of two equal runs."""
    answers, script = folder / "answers.csv", folder / "script.jsonl"
    answers.write_text(f"task,agent,text\n{ROWS}")
    script.touch()
    ScriptedModel.from_file = classmethod(lambda cls, _: cls(logprobs=logprobs))  # type: ignore[method-assign,assignment]
    command = (str(answers), "--metric", "gem-raw", "--scorer", f"scripted:{script}")
    command += ("--journal", str(folder / "journal.sqlite"))
    score(*command)
    journey = Journey()
    threading.setprofile(journey)
    sys.setprofile(journey)
    try:
        score(*command)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return journey


def shown(journey: Journey, *, listed: bool) -> None:
    place = {code: Path(code.co_filename).relative_to(SOURCE) for code in journey.entered}
    rooms = Counter(str(path.parent) if path.parent.name else path.stem for path in place.values())
    print(f"{len(place)} functions in {len(set(place.values()))} files")
    print(", ".join(f"{room} {count}" for room, count in rooms.most_common()))
    for code in sorted(place, key=lambda code: (place[code], code.co_firstlineno)) if listed else ():
        print(f"{place[code]}:{code.co_firstlineno} {code.co_qualname}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as room:
        os.environ |= {"GOLDLESS_CACHE": room, "XDG_CONFIG_HOME": room, "XDG_CACHE_HOME": room}
        listed = "--list" in sys.argv[1:]  # before the command's own arguments take their place
        shown(traced(Path(room)), listed=listed)
