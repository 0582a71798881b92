"""How long the command line takes to start, as a multiple of Python's own start.

    python benchmarks/speed/startup.py [TIMES]

Each command runs TIMES times (15 by default) in turn with the others, so that whatever else the machine does meets
all of them alike; the first round, which fills the file cache and compiles the modules, does not count. Bytecode is
kept in a folder for the measurement, because an installed package has it, whatever this shell's settings for it are.
The alternative is a typer application with one argument and one option.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

MINIMAL = """
import typer

app = typer.Typer(add_completion=False)

@app.command()
def hello(name: str, times: int = 1) -> None:
    "Say hello."

app()
"""
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "goldless --version": ["-m", "goldless", "--version"],
    "goldless --help": ["-m", "goldless", "--help"],
    "goldless score --help": ["-m", "goldless", "score", "--help"],
    "goldless review --help": ["-m", "goldless", "review", "--help"],
    "goldless crashtest --help": ["-m", "goldless", "crashtest", "--help"],
    "goldless study check --help": ["-m", "goldless", "study", "check", "--help"],
    "goldless gre collect --help": ["-m", "goldless", "gre", "collect", "--help"],
    "a minimal typer app --help": ["-c", MINIMAL, "--help"],
}


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(arguments: list[str], settings: dict[str, str]) -> tuple[float, float]:
    """How long a command takes, and how long a processor is busy with it, which other work on it leaves alone."""
    begin, busy = time.perf_counter(), processor_seconds()
    command = [sys.executable, *arguments]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=settings)  # noqa: S603 - ours
    return time.perf_counter() - begin, processor_seconds() - busy


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as bytecode:
        settings["PYTHONPYCACHEPREFIX"] = bytecode
        rounds = [{name: seconds(given, settings) for name, given in COMMANDS.items()} for _ in range(times + 1)][1:]
    print(f"medians of {times} runs each, Python {sys.version.split()[0]}; ratio: to python -c pass")
    print(f"{'command':28} {'wall ms':>8} {'ratio':>6} {'CPU ms':>8} {'ratio':>6}")
    bare = [statistics.median(one["python -c pass"][i] for one in rounds) for i in (0, 1)]
    for name in COMMANDS:
        wall, busy = (statistics.median(one[name][i] for one in rounds) for i in (0, 1))
        print(f"{name:28} {wall * 1000:8.0f} {wall / bare[0]:6.1f} {busy * 1000:8.0f} {busy / bare[1]:6.1f}")


if __name__ == "__main__":
    main()
