"""Damaged journals: the same result, or a clear refusal; never a traceback, never another result without a word."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

from tests.support.commands import goldless, home
from tests.torture.counted_runs import COMMANDS, Trial, counted, reference
from tests.torture.tally import Tally

Damage = Callable[[Path, random.Random], None]


def _bytes(change: Callable[[bytearray, random.Random], None]) -> Damage:
    def damage(path: Path, chance: random.Random) -> None:
        content = bytearray(path.read_bytes())
        change(content, chance)
        path.write_bytes(content)

    return damage


def _flip(content: bytearray, chance: random.Random, times: int) -> None:
    for _ in range(times):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def _replies(content: bytearray, chance: random.Random) -> None:
    """Flip bits inside of stored replies, where the file itself stays whole."""
    marks = (b'"text":"', b'"finish"', b"logprobs")
    places = [at for at in range(len(content) - 8) if bytes(content[at : at + 8]) in marks]
    for at in chance.sample(places, min(len(places), 12)):
        content[at + 8 + chance.randrange(6)] ^= 1 << chance.randrange(7)


def _page(content: bytearray, chance: random.Random, byte: int) -> None:
    at = 4096 * chance.randrange(len(content) // 4096)
    content[at : at + 4096] = bytes([byte]) * 4096


def _sql(*statements: str) -> Damage:
    def damage(path: Path, _: random.Random) -> None:
        with contextlib.closing(sqlite3.connect(path)) as journal:
            for statement in statements:
                journal.execute(statement)
            journal.commit()

    return damage


KINDS: dict[str, Damage] = {
    "bits of replies": _bytes(_replies),
    "one bit": _bytes(lambda content, chance: _flip(content, chance, 1)),
    "100 bits": _bytes(lambda content, chance: _flip(content, chance, 100)),
    "3,000 bits": _bytes(lambda content, chance: _flip(content, chance, 3000)),
    "a page of zeros": _bytes(lambda content, chance: _page(content, chance, 0)),
    "a page of ones": _bytes(lambda content, chance: _page(content, chance, 255)),
    "cut short": lambda path, chance: path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)]),
    "cut at a page": lambda path, chance: path.write_bytes(path.read_bytes()[: 4096 * chance.randrange(1, 10)]),
    "another header": _bytes(lambda content, _: content.__setitem__(slice(0, 16), b"not a database!!")),
    "empty": lambda path, _: path.write_bytes(b""),
    "a reply that ends early": _sql("update calls set reply = substr(reply, 1, 9)"),
    "a reply without a checksum": _sql("update calls set checksum = null"),
    "bytes that are no text": _sql("update calls set reply = cast(x'c328ff' as text)"),
    "tokens that are no number": _sql("update calls set input_tokens = 'many'"),
    "no table of calls": _sql("drop table calls"),
    "calls of another form": _sql("drop table calls", "create table calls (key text, reply text)"),
    "no table of claims": _sql("drop table claims"),
    "claims of nobody": _sql("insert into claims select key, 'nobody', 0, null from calls", "delete from calls"),
    "claims without sense": _sql("insert into claims select key, 'x', 'y', null from calls", "delete from calls"),
    "a log beside it that is none": lambda path, chance: Path(f"{path}-wal").write_bytes(chance.randbytes(5000)),
}


def run(count: int, seed: int) -> Tally:
    """Damage so many journals, all kinds in turn."""
    tally = Tally("damaged journals")
    with counted("review", seed, delay_seconds=0.0, copies=1) as trial:
        reference(trial)
        whole = trial.folder / "reference_home" / "journal.sqlite"
        with contextlib.closing(sqlite3.connect(whole)) as journal:
            journal.execute("pragma wal_checkpoint(truncate)")
        right = _said(trial, whole.parent)
        for number in range(count):
            kind = list(KINDS)[number % len(KINDS)]
            folder = trial.folder / f"damaged-{number}"
            folder.mkdir()
            shutil.copy(whole, folder / "journal.sqlite")
            KINDS[kind](folder / "journal.sqlite", random.Random(f"{seed} {number}"))
            code, out, err = _said(trial, folder)
            tally.tried += 1
            refused = code == 2 and "error: " in err and "journal" in err
            broke = code is None or "Traceback" in out + err or (code != 0 and not refused)
            changed = code == 0 and out != right[1]
            tally.tracebacks += broke
            tally.silent_changes += changed
            if broke or changed:
                tally.notes.append(f"{kind}, number {number}: code {code}, changed {changed}: {err.strip()[-300:]!r}")
    return tally


def _said(trial: Trial, folder: Path) -> tuple[int | None, str, str]:
    places = {"study": trial.folder / "study.jsonl", "model": f"{trial.server.url}#toy?patience=1"}
    arguments = [argument.format(**places) for argument in COMMANDS["review"].arguments]
    with home(folder):
        ran = goldless(*arguments, "--resamples", 100, "--format", "json")
    result = {} if ran.code != 0 else json.loads(ran.out)
    return ran.code, json.dumps(result), ran.err
