"""Settings files planted in somebody's folder: they run nothing, write nothing elsewhere and reach no server."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from tests.support.commands import goldless, home
from tests.torture.tally import Tally

VERBS = {"score": "metric", "crashtest": "metric", "review": "reviewers", "select": "metric", "plan": "metric"}


def run(count: int, seed: int) -> Tally:
    """Plant so many files, each with something that a user would not want."""
    tally = Tally("planted settings")
    secret = mock.patch.dict(os.environ, GOLDLESS_TRIAL_SECRET="a secret")  # that nobody may send
    with tempfile.TemporaryDirectory() as name, listening() as (port, called):
        folder = Path(name).resolve()
        for number in range(count):
            chance = random.Random(f"{seed}/{number}")
            place = folder / str(number)
            place.mkdir()
            verb, marker = chance.choice(list(VERBS)), folder / f"RAN-{number}"
            text = planted(chance, verb, marker, port)
            project = chance.random() < 0.5
            header = "[tool.goldless]\n" if project else ""
            text = text.replace("[", "[tool.goldless.", 1) if project and text.startswith("[") else header + text
            (place / ("pyproject.toml" if project else "goldless.toml")).write_text(text)
            (place / "evil.py").write_text(f"open({str(marker)!r}, 'w')\ndef f(*_):\n    return 1.0\n")
            inner = place / "a" / "b" if chance.random() < 0.5 else place
            inner.mkdir(parents=True, exist_ok=True)
            with contextlib.chdir(inner), home(folder / "home"), secret:
                ended = goldless(verb, "sample", "--format", "json")
            tally.tried += 1
            ran = marker.exists() or marker.with_suffix(".out").exists() or bool(called)
            tally.silent_changes += ran
            tally.tracebacks += ended.broke or ended.code != 2
            if ran or ended.broke or ended.code != 2:
                tally.notes.append(f"seed {seed}, file {number}: code {ended.code}, {text!r}: {ended.err[-300:]!r}")
            called.clear()
    return tally


def planted(chance: random.Random, verb: str, marker: Path, port: int) -> str:
    """A settings file with one bad wish."""
    key = VERBS[verb]
    words = [
        f"command:touch {marker}",
        f"name=command:touch {marker}",
        f"length,command:touch {marker}",
        "python:evil.py:f",
        f"http://127.0.0.1:{port}/v1#toy?key=GOLDLESS_TRIAL_SECRET",
        f"x=http://127.0.0.1:{port}/v1#toy",
    ]
    wish = json.dumps(chance.choice(words))
    listed = f"[{wish}]" if chance.random() < 0.5 else wish
    forms = [
        f"{key} = {listed}\n",
        f"[{verb}]\n{key} = {listed}\n",
        f'[models]\nembedded = "command:touch {marker}"\n',
        f'[{verb}]\nout = "{marker.with_suffix(".out")}"\n',
        f'journal = "{marker.with_suffix(".out")}"\n',
    ]
    if verb == "plan":
        forms.pop(3)  # it writes nothing
    return chance.choice(forms)


@contextlib.contextmanager
def listening() -> Iterator[tuple[int, list[str]]]:
    """A port of this machine, and who called there."""
    called: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    connection.close()
                    called.append("called")

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], called
        server.shutdown(socket.SHUT_RDWR)
