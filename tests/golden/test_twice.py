"""The same study, evidence and seed give the same bytes, run after run: what is printed and what is written."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.golden import studies
from tests.golden.test_golden import MODELS, PANEL, PAST, toy_models  # noqa: F401 - a fixture

QUICK = "--resamples 200"
RUN = f"score study --metric gem-raw,gem-raw+control,tvd-mi,length {MODELS} {QUICK} --out run"
WITH_TIMES = re.compile(r"made_by.*|progress.*|report\.html|occasions\.jsonl|watch\.json")
"""Files that say when they were made, how long it took or what it cost."""
COMMANDS = [
    [f"{RUN} --format json"],
    [f"score many.jsonl --metric gem-raw --scorer toy:scorer --until best {QUICK} --format json"],
    [f"review study {PANEL} --exam consistency {QUICK} --out run --format json"],
    [
        RUN,
        "compare run --agents ann,bob --format json",
        "gate run --baseline bob --candidate ann --metric gem-raw --margin 1",
    ],
    [f"crashtest answers.csv --metric gem-raw,length {MODELS} {QUICK} --out run --format json"],
    [f"watch run --anchors answers.csv --metric gem-raw {MODELS} --format json"],
]
AT_NIGHT = [
    [f"score study --metric gem-raw,tvd-mi,length --recorded {QUICK} --format json"],
    [f"review study {PAST} {QUICK} --format json"],
    [RUN, "replay run", "audit run --format json", "export csv run --out run/all.csv"],
    ["select study --metric tvd-mi --recorded --format json", "audit study --format json"],
    ["explain answers.csv --task rivers --agent ann --peer bob --scorer toy:scorer --format json"],
    [f"score study --compare-groups honest deceptive --metric tvd-mi,gem-raw --recorded {QUICK} --format json"],
    [f"agree study {PAST} {QUICK} --out run --format json", f"bias study {PAST} {QUICK} --out run --format json"],
    ["calibrate half --metric gem-raw,length --recorded --out run --format json"],
    [
        *(
            f"score answers.csv --metric gem-raw --scorer toy:{name} {QUICK} --out {name}"
            for name in ("scorer", "terse")
        ),
        f"compare --rankings scorer terse {QUICK} --format json",
        "plan --cost scorer --format json",
    ],
    ["crashtest answers.csv --perturbation deletion,shuffled-task,padding --write run --format json"],
]


def outcome(commands, place: Path, goldless, monkeypatch) -> dict[str, bytes]:
    """What the commands print, and every file that they write, made in a new folder."""
    studies.make(place / "work")
    monkeypatch.chdir(place / "work")
    monkeypatch.setenv("GOLDLESS_HOME", str(place / "home"))
    made: dict[str, bytes] = {}
    for line in commands:
        ended = goldless(*line.split())
        made |= {f"exit code of {line}": str(ended.code).encode(), line: ended.out.encode()}
    files = (path for path in sorted(Path("run").rglob("*")) if path.is_file() and not WITH_TIMES.fullmatch(path.name))
    return made | {str(path): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "commands",
    [*COMMANDS, *(pytest.param(commands, marks=pytest.mark.nightly) for commands in AT_NIGHT)],
    ids=lambda commands: commands[-1].split()[0],
)
@pytest.mark.usefixtures("toy_models")
def test_two_runs_give_the_same_bytes(commands, tmp_path, goldless, monkeypatch):
    first, second = (outcome(commands, tmp_path / name, goldless, monkeypatch) for name in ("once", "again"))
    shutil.rmtree(tmp_path / "once")
    assert first.keys() == second.keys()
    assert {code for name, code in first.items() if name.startswith("exit code")} <= {b"0", b"5", b"6", b"7"}
    assert [name for name in first if first[name] != second[name]] == []
