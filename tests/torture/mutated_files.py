"""Damaged files over every verb that reads them: studies, run folders, licences, templates, editions, settings.

Each trial copies a sound folder, damages one file, and runs one command in this process through ``main()``. Whatever is
not an answer or a refusal in words counts as a traceback.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import polars as pl
from tally import Tally

from goldless.cli.console import err, out
from goldless.cli.main import main
from goldless.gre_bench.edition import open_or_begin
from goldless.gre_bench.stages import collect_edition

TASKS = [f"t{i}" for i in range(6)]
WORTH = {"ann": 3, "bob": 2, "cy": 1}
QUICK = ("--resamples", "100")
NAMES = ("task", "agent", "first", "second", "second_task", "target", "reviewer")
STRANGE: tuple[object, ...] = (
    *(None, "", " ", 0, -1, 1e308, float("nan"), True, [], {}, ["a"], {"a": {"b": []}}, "\x00", "\ud7ff", "x" * 5000),
    *(2**70, "1e999", "\u202e", "=1+1", "../../etc/passwd", [[[[[]]]]], "NaN", "null", "two", -0.0),
)


# --- sound folders ---------------------------------------------------------------------------------------------------


def tables() -> dict[str, list[dict[str, object]]]:
    """A study with every kind of recorded evidence."""
    pairs = [(one, other) for one in WORTH for other in WORTH if one != other]
    said = {True: "one", False: "two"}
    return {
        "tasks": [{"task": t, "prompt": f"What of {t}?", "reference": f"word {t}"} for t in TASKS],
        "responses": [{"task": t, "agent": a, "text": f"{'word ' * w}{t}"} for t in TASKS for a, w in WORTH.items()],
        "agents": [{"agent": a, "group": "g", "parameters": 7.5} for a in WORTH],
        "labels": [{"task": t, "agent": a, "rater": "p", "score": w} for t in TASKS for a, w in WORTH.items()],
        "judgements": [
            {"reviewer": r, "format": "pairwise", "task": t, "first": a, "second": b}
            | {"output": said[r == "lazy" or WORTH[a] > WORTH[b]]}
            for t in TASKS
            for r in ("honest", "lazy")
            for a, b in pairs
        ],
        "logprobs": [
            {"scorer": "toy", "task": t, "target": b, "given": a, "sum_logprob_nats": -9.0 + WORTH.get(a or "", 0)}
            | {"tokens": 3}
            for t in TASKS
            for b in WORTH
            for a in (None, *WORTH)
            if a != b
        ],
        "verdicts": [
            {"critic": "toy", "task": t, "first": a, "second": b, "second_task": u, "value": 0.9 if t == u else 0.2}
            for i, t in enumerate(TASKS)
            for a, b in pairs
            for u in (t, TASKS[(i + 1) % len(TASKS)], TASKS[(i + 2) % len(TASKS)])
        ],
        "rewrites": [
            {"rewriter": "toy", "task": t, "agent": a, "text": t * w} for t in TASKS for a, w in WORTH.items()
        ],
    }


def write(folder: Path, name: str, rows: list[dict[str, object]], form: str) -> None:
    """One table in one of the formats."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "csv":
        pl.DataFrame(rows, infer_schema_length=None).write_csv(path)
    else:
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)


class Sound:
    """The folders that are copied and damaged, each with the commands that read it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for form in ("jsonl", "csv", "parquet"):
            for name, rows in tables().items():
                write(place / f"study-{form}", name, rows, form)
        run = self._quiet
        first = str(place / "study-jsonl")
        run("score", first, "--metric", "gem-raw,tvd-mi,length", "--recorded", *QUICK, "--out", str(place / "run"))
        run(
            "review",
            first,
            "--recorded",
            "--reviewers",
            "honest,lazy",
            "--exam",
            "none",
            *QUICK,
            "--out",
            str(place / "run"),
        )
        (place / "single").mkdir()
        shutil.copy(place / "study-jsonl" / "responses.jsonl", place / "single" / "answers.jsonl")
        (place / "other").mkdir()
        (place / "other" / "goldless.toml").write_text('[score]\nmetric = "length"\nresamples = 100\n')
        fields = ("rewrite", "predict", "synopsis_heading", "candidate_heading")
        (place / "other" / "words.toml").write_text("".join(f'{field} = "Say it."\n' for field in fields))
        licence = {"reviewer": "toy", "scale": "pairwise", "task_kind": "any", "weight": 0.9, "identity": {"name": "a"}}
        (place / "other" / "licence.json").write_text(json.dumps(licence))
        (place / "other" / "script.jsonl").write_text('{"context": "a", "target": "b", "logprobs": [-1.0]}\n')
        shutil.copy(place / "study-jsonl" / "responses.jsonl", place / "other" / "answers.jsonl")
        papers = place / "papers"
        write(papers, "papers", [{"paper": p, "title": p, "abstract": "Of it."} for p in ("p1", "p2")], "jsonl")
        write(
            papers, "reviews", [{"paper": p, "review": r, "text": "good"} for p in ("p1", "p2") for r in "abc"], "jsonl"
        )
        (papers / "papers").mkdir()
        for paper in ("p1", "p2"):
            (papers / "papers" / f"{paper}.txt").write_text("The whole paper.")
        collect_edition(open_or_begin(place / "edition"), {"from_folder": str(papers), "seed": 0})

    def _quiet(self, *words: str) -> None:
        code, said = command(words)
        if code not in {0, 3}:
            raise RuntimeError(f"{' '.join(words)} ended with {code}: {said[-500:]}")

    def commands(self, kind: str, at: Path) -> list[tuple[str, ...]]:
        """The commands that read such a folder."""
        study, script = str(at), f"scripted:{at / 'script.jsonl'}"
        recorded = ("--recorded", *QUICK)
        panel = (*recorded, "--reviewers", "honest,lazy", "--exam", "none")
        reading = [
            ("study", "check", study),
            ("study", "show", study),
            *(("score", study, "--metric", name, *recorded) for name in ("gem-raw", "tvd-mi", "gem", "length,rouge-l")),
            ("review", study, *panel),
            ("agree", study, *panel),
            ("agree", study, "--metric", "length", *QUICK),
            ("bias", study, *panel),
            ("cost", study, *panel, "--splits", "5", "--reviewer-price", "honest=1", "--reviewer-price", "lazy=0"),
            ("audit", study),
            ("crashtest", study, "--metric", "length", "--perturbation", "null", *QUICK),
            ("plan", study, "--metric", "gem-raw,tvd-mi", "--scorer", "http://127.0.0.1:9/v1#toy"),
            ("perturb", study, "--perturbation", "null", "--out", str(at.parent / "perturbed")),
            ("export", "csv", study, "--out", str(at.parent / "exported")),
            ("import", "table", study, "--out", str(at.parent / "imported")),
            ("calibrate", study, "--metric", "length", *QUICK),
        ]
        whole = str(self.place / "run")
        if kind.startswith("study") or kind == "single":
            return (
                reading
                if kind != "single"
                else [(*c[:1], str(at / "answers.jsonl"), *c[2:]) if c[1] == study else c for c in reading]
            )
        if kind == "run":
            return [
                *reading[:7],
                ("compare", study, whole, "--agents", "ann"),
                ("compare", study, "--agents", "ann,bob"),
                ("gate", study, whole, "--agents", "ann", "--margin", "0.1"),
                ("consistency", study, whole),
                ("export", "csv", study),
                ("export", "markdown", study),
                ("agree", str(self.place / "study-jsonl"), "--scores", str(at / "response_scores.csv")),
                ("view", str(at.parent), "--bundle", str(at.parent.parent / f"pages-{at.parent.name}"), "--maps"),
            ]
        if kind == "edition":
            scorer = f"scripted:{self.place / 'other' / 'script.jsonl'}"
            return [("gre", "show", study), ("gre", "run", study), ("gre", "score", study, "--scorer", scorer)]
        answers = str(at / "answers.jsonl")
        return [
            ("config", "show"),
            ("score", answers),
            ("score", answers, "--metric", "gem-raw", "--template", str(at / "words.toml"), "--scorer", script),
            ("serve-jury", str(at / "licence.json")),
            ("doctor", script),
        ]


# --- damage ----------------------------------------------------------------------------------------------------------


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
    path.write_bytes(data[:where] + random.choice((b"\xff\xfe", b"\0" * 9, b"\n\n", b'"', b"{" * 5000)) + data[where:])
    return "bytes put in"


def _empty(path: Path, _: Random) -> str:
    path.write_bytes(b"")
    return "emptied"


def _cell(path: Path, random: Random) -> str:
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()] or [{}]
    row, value = random.choice(rows), random.choice(STRANGE)
    name = random.choice([*row, "task"])
    if random.random() < 0.2:
        row.pop(name, None)
        value = "gone"
    else:
        row[name] = value
    if random.random() < 0.2:
        rows = [{**one, name: value} for one in rows]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return f"{name} is {str(value)[:20]!r}"


def _value(path: Path, random: Random) -> str:
    data = json.loads(path.read_text())
    at = data
    while isinstance(at, dict | list) and at:
        key = random.choice(list(at) if isinstance(at, dict) else range(len(at)))
        if not isinstance(at[key], dict | list) or not at[key] or random.random() < 0.3:
            at[key] = random.choice(STRANGE)
            break
        at = at[key]
    path.write_text(json.dumps(data))
    return f"{key} is {str(at[key])[:20]!r}" if isinstance(data, dict) and data else "unchanged"


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


# --- the trial -------------------------------------------------------------------------------------------------------


def command(words: tuple[str, ...]) -> tuple[object, str]:
    """The exit code and everything printed; raises whatever is not an exit."""
    printed = io.StringIO()
    before = sys.argv
    sys.argv = ["goldless", *words]
    for console in (out, err):
        console.cache_clear()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main()
        code: object = 0
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = before
        for console in (out, err):
            console.cache_clear()
    return code, printed.getvalue()


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run(count: int, seed: int) -> Tally:
    """Damage this many files, and read each by one command."""
    tally = Tally("mutated files")
    random = Random(seed)
    with tempfile.TemporaryDirectory(prefix="goldless-torture-") as place:
        sound = Sound(Path(place))
        kinds = ("study-jsonl", "study-csv", "study-parquet", "run", "run", "single", "other", "edition")
        while tally.tried < count:
            kind = random.choice(kinds)
            with tempfile.TemporaryDirectory(dir=place) as fresh:
                at = Path(fresh) / kind
                shutil.copytree(sound.place / kind, at)
                files = sorted(p for p in at.rglob("*") if p.is_file() and p.suffix not in {".html", ".md", ".sqlite"})
                how = damage(random.choice(files), random)
                words = random.choice(sound.commands(kind, at))
                tally.tried += 1
                try:
                    with _working_in(at):
                        command(words)
                except BaseException as error:  # noqa: BLE001 - counted
                    tally.tracebacks += 1
                    last = traceback.extract_tb(error.__traceback__)[-1]
                    tally.notes.append(
                        f"{' '.join(words[:4])} | {how} | {type(error).__name__}: {error} at {last.name}"
                    )
    return tally
