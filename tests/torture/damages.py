"""Ways to damage a file: bytes, and values of another kind where its format is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import polars as pl

STRANGE: tuple[object, ...] = (
    *(None, "", " ", 0, -1, 1e308, float("nan"), True, [], {}, ["a"], {"a": {"b": []}}, "\x00", "\ud7ff", "x" * 5000),
    *(2**70, "1e999", "\u202e", "=1+1", "../../etc/passwd", [[[[[]]]]], "NaN", "null", "two", -0.0),
)


def damage(path: Path, random: Random) -> str:
    """Damage a file, and say how."""
    kinds: list[Callable[[Path, Random], str]] = [_flip, _cut, _insert, _empty]
    if path.suffix == ".jsonl":
        kinds += [_cell] * 6
    if path.suffix == ".json":
        kinds += [_value] * 6
    if path.suffix == ".csv":
        kinds += [_csv_cell] * 4
    if path.suffix == ".parquet":
        kinds += [_column] * 4
    if path.suffix == ".toml":
        kinds += [_setting] * 4
    return f"{path.name} {random.choice(kinds)(path, random)}"


def _flip(path: Path, random: Random) -> str:
    data = bytearray(path.read_bytes() or b"\0")
    for _ in range(random.randint(1, 8)):
        data[random.randrange(len(data))] = random.randrange(256)
    path.write_bytes(data)
    return "bytes changed"


def _cut(path: Path, random: Random) -> str:
    data = path.read_bytes()
    path.write_bytes(data[: random.randrange(len(data) + 1)])
    return "cut"


def _insert(path: Path, random: Random) -> str:
    data = path.read_bytes()
    where = random.randrange(len(data) + 1)
    path.write_bytes(
        data[:where] + random.choice((b"\xff\xfe", b"\0" * 9, b"\n\n", b'"', b"{" * 5000, b"[" * 5000)) + data[where:]
    )
    return "bytes put in"


def _empty(path: Path, _: Random) -> str:
    path.write_bytes(b"")
    return "emptied"


def _cell(path: Path, random: Random) -> str:
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()] or [{}]
    row, value = random.choice(rows), random.choice(STRANGE)
    name = random.choice([*row, "task"])
    chance = random.random()
    if chance < 0.2:
        row.pop(name, None)
        how = f"{name} is gone"
    elif chance < 0.5:
        how = _changed(row, random)
    else:
        row[name] = value
        how = f"{name} is {str(value)[:20]!r}"
    if random.random() < 0.2:
        rows = [{**one, name: value} for one in rows]
        how += ", and so in all"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return how


def _value(path: Path, random: Random) -> str:
    data = json.loads(path.read_text())
    how = _changed(data, random)
    path.write_text(json.dumps(data))
    return how


def _changed(data: object, random: Random) -> str:
    """Put a strange value somewhere into nested data, or take one out."""
    at = data
    while isinstance(at, dict | list) and at:
        key = random.choice(list(at) if isinstance(at, dict) else range(len(at)))
        if not isinstance(at[key], dict | list) or not at[key] or random.random() < 0.3:
            if random.random() < 0.2:
                del at[key]
                return f"{key} is gone"
            at[key] = random.choice(STRANGE)
            return f"{key} is {str(at[key])[:20]!r}"
        at = at[key]
    return "unchanged"


def _setting(path: Path, random: Random) -> str:
    lines = path.read_text().splitlines()
    number = random.choice([i for i, line in enumerate(lines) if "=" in line])
    values = (
        "7",
        "-1",
        "[]",
        "{}",
        "true",
        '""',
        "1e400",
        "nan",
        "1979-05-27",
        '["a", 1]',
        '{a = {b = "c"}}',
        '"\\u0000"',
    )
    lines[number] = f"{lines[number].partition('=')[0]}= {random.choice(values)}"
    path.write_text("\n".join(lines))
    return lines[number]


def _csv_cell(path: Path, random: Random) -> str:
    lines = [line.split(",") for line in path.read_text().splitlines()] or [[""]]
    line = random.choice(lines)
    line[random.randrange(len(line))] = random.choice(("", " ", '"', "x,y", "1e999", "\0", "nan", "zzz", "-1"))
    path.write_text("\n".join(map(",".join, lines)))
    return "cell changed"


def _column(path: Path, random: Random) -> str:
    try:
        frame = pl.read_parquet(path)
    except pl.exceptions.PolarsError:
        return "unchanged"
    name = random.choice(frame.columns)
    how = random.choice(("drop", "null", "number", "list", "one", "date"))
    some = pl.int_range(pl.len()) == 0
    made = {
        "null": pl.lit(None),
        "number": pl.lit(1.5),
        "list": pl.lit([1]),
        "one": pl.when(some).then(None).otherwise(pl.col(name)),
        "date": pl.lit("2024-01-01").str.to_date(),
    }
    frame = frame.drop(name) if how == "drop" else frame.with_columns(made[how].alias(name))
    frame.write_parquet(path)
    return f"{name}: {how}"
