"""Runs the steps of a case as a user would and writes down what the user sees, without what changes by itself."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from goldless.studies import Study
from tests.golden.sound_tables import CHECKS

EXPECTED = Path(__file__).parent / "expected"
TOLERANCE = 1e-9
"""Share by which a number may differ on another processor."""

CHANGING = [
    (re.compile(r"\b20\d\d-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d| UTC)?)?"), "DATE"),
    (re.compile(r'("(?:seconds|wall_seconds|elapsed_seconds|cpu_seconds|seconds_[a-z_]+)": )[\d.e-]+'), r"\1SECONDS"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|min|h)\b(?! left)"), "TIME"),
    (re.compile(r"[\d,]+(?:\.\d+)?(?:/s\b| tokens/s\b)"), "RATE"),
    (re.compile(r"Python 3\.\d+\.\d+"), "Python 3"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
]
PROGRESS = re.compile(r"preparing, |[^:]+ so far, \d+ tasks?: |[a-z][\w :-]*: [\d,]+ of [\d,]+(, | \(\d+ failed\), |$)")
RULE = re.compile(" ?─+ ?")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def settled(text: str, folder: Path) -> str:
    """The text without the places, times and dates of this run."""
    text = text.replace(str(folder), "FOLDER").replace(os.environ["GOLDLESS_HOME"], "HOME")
    for pattern, instead in CHANGING:
        text = pattern.sub(instead, text)
    lines = (line.rstrip() for line in text.split("\n"))
    return "\n".join(line for line in lines if not PROGRESS.match(line))


class Case:
    """Runs steps in a folder, and keeps what they showed."""

    def __init__(self, folder: Path, run: Callable, patch: pytest.MonkeyPatch) -> None:
        self.folder, self._run, self._patch = folder, run, patch
        self.shown: list[str] = []
        self.every_format = False

    def goldless(self, line: str, columns: int = 80, *, folded: bool = False) -> None:
        """Run ``goldless LINE``; what it prints as JSON is indented, what is ``folded`` loses its boxes and gaps."""
        self._patch.setenv("COLUMNS", str(columns))
        said = self._run(*shlex.split(line))
        out = laid_out(without_rounding(json.loads(said.out))) if _is_json(said.out) else said.out
        if folded:
            out = re.sub(r"[ \n]*\n[ \n]*", "\n", re.sub(r"[ │╭╮╰╯─]{2,}", "  ", out))
        parts = [f"$ goldless {line}" + (f"   [{columns} columns]" if columns != 80 else ""), out]
        if said.err.strip():
            parts += ["----- standard error", said.err]
        if said.code:
            parts.append(f"----- exit code {said.code}")
        self.shown.append(settled("\n".join(part.rstrip("\n") for part in parts), self.folder))

    def numbers(self, line: str) -> None:
        """Run a command and keep what it prints as JSON."""
        self.goldless(f"{line} --format json")

    def everywhere(self, line: str) -> None:
        """Keep what a command prints in a terminal and as JSON; its other tables need only be sound."""
        self.goldless(line)
        self.numbers(line)
        self.sound(line)

    def sound(self, line: str) -> None:
        """Read what a command prints as CSV, Markdown or LaTeX, or as each, without keeping it."""
        formats = list(CHECKS)
        if not self.every_format:
            formats = [formats[zlib.crc32(line.encode()) % len(formats)]]
        for form in formats:
            check_table = CHECKS[form]
            printed = self._run(*shlex.split(line), "--format", form)
            if "\n" in printed.out.strip():  # an audit that found nothing has no table
                check_table(printed.out.strip("\n"))

    def prepare(self, line: str, exit_code: int = 0) -> None:
        """Run a command that makes what later steps need, without keeping what it prints."""
        ended = self._run(*shlex.split(line))
        assert ended.code == exit_code, ended.err

    def files(self, name: str, *patterns: str) -> None:
        """Names of the files in a folder and what each holds: columns and types, not values.

        Files of one kind whose names differ in numbers only are one line; ``patterns`` leave out all other files.
        """
        root = self.folder / name
        kinds: Counter[str] = Counter()
        for path in sorted(p for pattern in patterns or ("*",) for p in root.rglob(pattern) if p.is_file()):
            named = re.sub(r"\d+", "N", path.relative_to(root).as_posix())
            kinds[f"{named}: {', '.join(schema(path))}".rstrip(": ")] += 1
        lines = (f"{kind} ({count} files)" if count > 1 else kind for kind, count in kinds.items())
        self.shown.append(settled("\n".join([f"files of {name}", *lines]), self.folder))

    def page(self, name: str) -> None:
        """The text of a page of HTML."""
        self.web(name, (self.folder / name).read_text(encoding="utf-8"))

    def web(self, name: str, html: str) -> None:
        """The text of a page that was served."""
        self.shown.append(settled(f"text of {name}\n{page_text(html)}", self.folder))

    def lines(self, title: str, lines: Iterable[str]) -> None:
        """Lines below a title."""
        self.shown.append("\n".join([title, *lines]))

    def data(self, title: str, value: object) -> None:
        """A result of a Python function, as data."""
        self.shown.append(settled(f">>> {title}\n{laid_out(without_rounding(as_data(value)))}", self.folder))

    def fields(self, title: str, value: object) -> None:
        """What a result of a Python function holds, three levels deep; its numbers are those of the command."""
        lines = sorted({".".join(path.split(".")[:3]) for path in keys(as_data(value))})
        self.shown.append("\n".join([f">>> {title}", *lines]))


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False


def without_rounding(value: object) -> object:
    """The data with 0 for what is 0 but for rounding, which Python 3.12 adds up in another way."""
    if isinstance(value, dict):
        return {key: without_rounding(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_rounding(inner) for inner in value]
    return 0.0 if isinstance(value, float) and abs(value) < 1e-12 else value


def laid_out(value: object, indent: str = "") -> str:
    """JSON with everything that fits on one line on one line."""
    short = json.dumps(value, ensure_ascii=False)
    if len(short) + len(indent) <= 170 or not isinstance(value, dict | list) or not value:
        return short
    inner = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {laid_out(item, inner)}" for key, item in value.items()]
        opening, closing = "{}"
    else:
        parts = [laid_out(item, inner) for item in value]
        opening, closing = "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{closing}"


# --- what files hold -------------------------------------------------------------------------------------------------


def schema(path: Path) -> Iterator[str]:
    """Columns of a table with their types, or the keys of a document."""
    if path.suffix == ".parquet":
        yield from (f"{name} {kind}" for name, kind in pl.read_parquet_schema(path).items())
    elif path.suffix == ".csv":
        yield path.read_text(encoding="utf-8").split("\n", 1)[0]
    elif path.suffix == ".json":
        yield from sorted(keys(json.loads(path.read_text(encoding="utf-8"))))
    elif path.suffix == ".jsonl":
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        yield from sorted({key for row in rows for key in keys(row)})


def keys(value: object, at: str = "") -> set[str]:
    """The paths of a document's values; those of all elements of a list together."""
    if isinstance(value, dict) and value:
        return {path for key, inner in value.items() for path in keys(inner, f"{at}.{key}" if at else key)}
    if isinstance(value, list) and value:
        return {path for inner in value for path in keys(inner, f"{at}[]")}
    return {f"{at} {type(value).__name__}"}


class _Text(HTMLParser):
    BREAKS = frozenset(
        {"p", "div", "tr", "li", "h1", "h2", "h3", "h4", "section", "table", "summary", "figcaption", "dt"}
    )
    HIDDEN = frozenset({"script", "style", "template"})

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in self.HIDDEN
        self.pieces.append("\n" if tag in self.BREAKS else " " if tag in {"td", "th", "br"} else "")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in self.HIDDEN

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(data)


def page_text(html: str) -> str:
    """What a reader sees of a page, a block per line."""
    parser = _Text()
    parser.feed(html)
    lines = (" ".join(line.split()) for line in "".join(parser.pieces).split("\n"))
    return "\n".join(filter(None, lines))


def as_data(value: object) -> object:
    """A result as plain data: fields of dataclasses, rows of frames; what is private is left out."""
    if isinstance(value, pl.DataFrame):
        value = {"columns": {name: str(kind) for name, kind in value.schema.items()}, "rows": value.height}
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, Study):
        value = {name: getattr(value, name) for name in value.__dataclass_fields__ if not name.startswith("_")}
    elif isinstance(value, set | frozenset):
        value = sorted(map(str, value))
    elif hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): as_data(inner) for key, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [as_data(inner) for inner in value]
    return value if value is None or isinstance(value, str | int | float) else type(value).__name__


# --- comparing -------------------------------------------------------------------------------------------------------


def check(name: str, shown: Sequence[str]) -> None:
    """Compare with the file of this name, or write it where GOLDLESS_GOLDEN=write."""
    path = EXPECTED / f"{name}.txt"
    text = "\n\n".join(shown) + "\n"
    if os.environ.get("GOLDLESS_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    expected = path.read_text(encoding="utf-8").splitlines()
    found = text.splitlines()
    for number, (before, now) in enumerate(zip(expected, found, strict=False), 1):
        if not same(before, now):
            lines = [
                *(f"- {line}" for line in expected[number - 1 :][:3]),
                *(f"+ {line}" for line in found[number - 1 :][:3]),
            ]
            pytest.fail("\n".join((f"{path.name}:{number}: the output changed", *lines, "make golden rewrites it")))
    if len(expected) != len(found):
        rest = (found if len(found) > len(expected) else expected)[min(len(found), len(expected))]
        pytest.fail(f"{path.name}: {len(expected)} lines before, {len(found)} now; the first: {rest}")


def same(before: str, now: str) -> bool:
    """Whether two lines are the same but for the last digits of long numbers; a rule is as long as the texts below."""
    if before == now or (RULE.fullmatch(before) and RULE.fullmatch(now)):
        return True
    if NUMBER.split(before) != NUMBER.split(now):
        return False
    numbers = zip(NUMBER.findall(before), NUMBER.findall(now), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=TOLERANCE, abs_tol=1e-12) for a, b in numbers)
