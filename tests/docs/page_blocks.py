"""Pages that can be run: their fenced blocks as one bash session, and what each command is claimed to print.

A block with a title is a file. In a ``console`` block a line after ``$ `` is a command, continued after a backslash,
and what follows is what it prints. ``[…]`` stands for anything in a line, and alone on a line for any number of lines.
A command ends with status 0, or the next one is ``echo $?`` and says what it ended with.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r'^```(?P<kind>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$', re.DOTALL | re.MULTILINE)
ANYTHING = "[…]"
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
DOCUMENTED_PORT = "18641"
"""What pages name as their server's port; a free one of as many digits is taken instead."""
PROGRESS = re.compile(
    r"^(?:preparing, \d+ seconds so far|[^\n:]+ so far, \d+ tasks?: [^\n]*"
    r"|[^\n:]+: [\d,]+ of [\d,]+(?: \([\d,]+ failed\))?(?:, [^\n]*)?)\n",
    re.MULTILINE,
)
"""What a command says now and then of how far it is, on a slow machine more often than on a fast one."""
GAP = re.compile(" {2,}")
RULE = re.compile(r"^( ?─)─+$")
SECONDS = 600


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a page."""

    line: int
    """Where it stands in the page."""
    command: str
    claimed: str | None
    """What it is to print; None: a file is written, nothing is claimed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step ended."""

    status: int | None
    """None: the session ended before."""
    printed: str


def steps_of(page: str) -> list[Step]:
    """The commands of a page, in order."""
    steps = []
    for block in BLOCK.finditer(page):
        line = page[: block.start()].count("\n") + 2
        if block["title"] is not None:
            written = f"cat > {block['title']} <<'END OF {block['title']}'\n{block['body']}END OF {block['title']}"
            steps.append(Step(line, written, None))
        elif block["kind"] == "console":
            steps.extend(_commands(block["body"], line))
    return steps


def _commands(body: str, first_line: int) -> list[Step]:
    found: list[tuple[int, list[str], list[str]]] = []
    continued = False
    for number, line in enumerate(body.splitlines(), first_line):
        if continued:
            found[-1][1].append(line)
        elif line.startswith("$ "):
            found.append((number, [line[2:]], []))
        elif not found:
            raise ValueError(f"line {number}: a console block begins with a command after '$ '")
        else:
            found[-1][2].append(line)
        continued = line.endswith("\\") and not found[-1][2]
    return [Step(number, "\n".join(command), "\n".join(output)) for number, command, output in found]


def run_page(page: str, folder: Path, programs: Path | None = None) -> list[tuple[Step, Outcome]]:
    """Run a page's commands in one bash session in the folder; ``programs``: a folder of commands that come first."""
    port = free_port()
    steps = steps_of(page)
    ended = "----- a step ended with status"
    script = "\n".join(f'{step.command}\nstatus=$?; echo; echo "{ended} $status"; (exit $status)' for step in steps)
    output = folder.parent / f"{folder.name}.output"
    path = [*filter(None, [programs]), Path(sys.executable).parent, os.environ["PATH"]]
    with output.open("wb") as sink:
        session = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-c", script.replace(DOCUMENTED_PORT, port)],
            cwd=folder,
            env={**os.environ, "PATH": os.pathsep.join(map(str, path))},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                session.wait(timeout=SECONDS)
        finally:  # and whatever it left in the background
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session.pid, signal.SIGKILL)
            session.wait()
    printed = output.read_text(encoding="utf-8", errors="replace").replace(port, DOCUMENTED_PORT)
    printed = PROGRESS.sub("", printed)
    parts = re.split(rf"\n{ended} (\d+)\n", printed)
    outcomes = [Outcome(int(status), text) for text, status in zip(parts[:-1:2], parts[1::2], strict=True)]
    outcomes += [Outcome(None, parts[-1])] * (len(steps) - len(outcomes))
    return list(zip(steps, outcomes, strict=True))


def free_port() -> str:
    """A port that nobody listens on, of as many digits as the documented one, below those that systems give out."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return str(port)


def problem_of(ran: list[tuple[Step, Outcome]], *, tolerance: float = 0.0) -> str | None:
    """The first thing on which a page and what it ran do not agree, with the command and all it printed."""
    for i, (step, outcome) in enumerate(ran):
        told = i + 1 < len(ran) and ran[i + 1][0].command == "echo $?"
        if outcome.status is None:
            problem = "was not reached, or did not end in time"
        elif outcome.status != 0 and not told:
            problem = f"ended with status {outcome.status}"
        elif step.claimed is not None and not agrees(step.claimed, outcome.printed, tolerance=tolerance):
            problem = f"printed something other than the page says:\n{step.claimed}"
        else:
            continue
        return f"line {step.line}: $ {step.command}\n{problem}\n----- it printed:\n{outcome.printed}"
    return None


def agrees(claimed: str, printed: str, *, tolerance: float = 0.0) -> bool:
    """Whether a text is what was claimed.

    Blank lines, spaces at the ends of lines, and how wide gaps and rules are do not count: a column is as wide as what
    stands in it, and a time is "3 s" on one machine and "12 s" on another. With a tolerance, numbers may be off by this
    share of themselves.
    """
    numbers: list[float] = []
    pattern = "".join(_line_pattern(line, numbers if tolerance else None) for line in _lines(claimed))
    found = re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(printed)))
    if found is None:
        return False
    pairs = zip(numbers, map(_number, found.groups()), strict=True)
    return all(math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=0.01) for ours, theirs in pairs)


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return [GAP.sub(" ", RULE.sub(r"\1", line)) for line in lines]


def _line_pattern(line: str, numbers: list[float] | None) -> str:
    """A pattern of one line; numbers in it are noted and captured where a list is given for them."""
    if line.strip() == ANYTHING:
        return r"(?:.*\n)*?"
    parts = re.split(
        f"({NUMBER.pattern}|{re.escape(ANYTHING)})" if numbers is not None else f"({re.escape(ANYTHING)})", line
    )
    pattern = ""
    for part in parts:
        if part == ANYTHING:
            pattern += ".*?"
        elif numbers is not None and NUMBER.fullmatch(part):
            numbers.append(_number(part))
            pattern += f"({NUMBER.pattern})"
        else:
            pattern += re.escape(part)
    return pattern + "\n"


def _number(text: str) -> float:
    return float(text.replace(",", ""))
