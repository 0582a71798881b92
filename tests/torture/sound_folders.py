"""Sound folders of every kind that a verb reads: studies, runs, editions, other tools' results, journals, settings."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import anyio
import polars as pl

from goldless.apps.gre.edition import open_edition
from goldless.apps.gre.scoring import score_edition
from goldless.apps.watch.watching import watch
from goldless.models.interface import ChatReply, ChatRequest, Message, ModelIdentity, ScoreRequest, TokenLogprobs, Usage
from goldless.models.journal import Journal
from goldless.models.scripted import ScriptedModel
from goldless.models.usage import Charge
from goldless.runs.explaining import explain_pair
from goldless.runs.options import Options
from goldless.studies import read_study
from tests.golden.studies import POINTS, SUBJECTS, papers, tables
from tests.support.board_files import arena_hard, helm_run, lighteval, mt_bench
from tests.support.commands import goldless, home
from tests.support.paths import OTHER_TOOLS_FILES

Rows = Sequence[dict[str, object]]

QUICK = ("--resamples", "100")
FILES = OTHER_TOOLS_FILES
"""Small results that other tools wrote."""


def write(path: Path, rows: Rows) -> None:
    """A table in the format that the name ends with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        pl.DataFrame(rows, infer_schema_length=None).write_csv(path)
    elif path.suffix == ".parquet":
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
    else:
        path.write_text(json.dumps(rows))


def make(place: Path) -> None:
    """Make all of them under this folder, each with a name of its own."""
    with home(place / "home"):
        _studies(place)
        _script(place)
        _runs(place)
        _edition(place)
        _journal(place)
        _settings(place)
        _others(place)
        _board_logs(place)


def _run(*words: object) -> None:
    """A command that must succeed, or be incomplete."""
    ran = goldless(*words)
    if ran.code not in {0, 3}:
        raise RuntimeError(f"{' '.join(map(str, words))} ended with {ran.code}: {ran.err[-500:]}")


def _studies(place: Path) -> None:
    for form in ("jsonl", "csv", "parquet"):
        for name, rows in tables().items():
            write(place / f"study-{form}" / f"{name}.{form}", list(rows))
    write(place / "single" / "answers.jsonl", tables()["responses"])


def _script(place: Path) -> None:
    """A scorer and a judge that know all that the sound commands ask."""
    asked: dict[tuple[str, str], list[float]] = {}

    def logprobs(context: str, target: str) -> list[float]:
        return asked.setdefault((context, target), _logprobs(context, target))

    model = ScriptedModel(logprobs=logprobs, tokens=_words, name="toy")
    study = read_study(place / "single" / "answers.jsonl")
    options = Options.of(metrics=("gem-raw",), scorer=model, journal=place / "asked.sqlite")
    anyio.run(lambda: explain_pair(study, options, task=SUBJECTS[0], agent="ann", peer="bob"))
    anyio.run(lambda: watch(study, options, folder=place / "asked"))
    shutil.rmtree(place / "asked")
    (place / "asked.sqlite").unlink()
    rows = [{"context": c, "target": t, "logprobs": v, "tokens": _words(t)} for (c, t), v in asked.items()]
    write(place / "models" / "script.jsonl", [*rows, {"prompt": "Well?", "answer": "one"}])
    shutil.copy(place / "single" / "answers.jsonl", place / "models" / "answers.jsonl")


def _logprobs(context: str, target: str) -> list[float]:
    return [-1.0 - 0.001 * (len(context) % 97) + (0.5 if target in context else 0.0)] * len(_words(target))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+\W*|\W+", text)


def _runs(place: Path) -> None:
    first, out = place / "study-jsonl", ("--out", place / "run")
    panel = ("--recorded", "--reviewers", "honest,lazy", "--exam", "none")
    _run("score", first, "--metric", "gem-raw,tvd-mi,length", "--recorded", *QUICK, *out)
    _run("review", first, *panel, *QUICK, *out)
    scorer = f"scripted:{place / 'models' / 'script.jsonl'}"
    anchors = place / "models" / "answers.jsonl"
    for _ in range(2):
        _run("watch", place / "watch", "--anchors", anchors, "--metric", "gem-raw", "--scorer", scorer)
    scores = [{"task": t, "agent": a, "score": w} for t in SUBJECTS for a, w in POINTS.items()]
    write(place / "watch" / "stream.csv", scores)


def _edition(place: Path) -> None:
    papers(place / "papers")
    edition = place / "edition"
    _run("gre", "collect", edition, "--from-folder", place / "papers", "--injected", "1")
    _run("gre", "submit", edition, "--preregister")
    asked = [json.loads(line)["paper"] for line in (edition / "papers.jsonl").read_text().splitlines()]
    for name in ("first", "submitted"):
        write(edition / f"{name}.jsonl", [{"paper": paper, "text": f"Good, says {name}."} for paper in asked])
    _run("gre", "submit", edition, edition / "first.jsonl", "--name", "first", "--team", "lab")
    model = ScriptedModel(logprobs=_logprobs)
    settings = {"metrics": ["gem-raw"], "resamples": 100}
    begun, asking = open_edition(edition), Options.of(journal=place / "asked.sqlite")
    anyio.run(lambda: score_edition(begun, settings, stand_ins={"scorer": model}, options=asking))
    (place / "asked.sqlite").unlink()


def _journal(place: Path) -> None:
    path = place / "journal" / "journal.sqlite"
    path.parent.mkdir()
    asked, charge = ChatRequest((Message("user", "x"),)), Charge(Usage(10, 5), 0.01, estimated=False)
    with contextlib.closing(Journal(path)) as journal:
        chats = [(f"a{i}", asked, ChatReply("kept"), charge) for i in range(30)]
        journal.record(ModelIdentity("http", "one"), chats)
        journal.record(ModelIdentity("http", "two"), [("b", ScoreRequest("c", "t"), TokenLogprobs((-1.0,)), charge)])


def _settings(place: Path) -> None:
    folder = place / "settings"
    shutil.copytree(place / "models", folder)
    (folder / "goldless.toml").write_text(
        'resamples = 100\n[score]\nmetric = "length"\n[models]\ntoy = "scripted:script.jsonl"\n'
    )
    fields = ("rewrite", "predict", "synopsis_heading", "candidate_heading")
    (folder / "words.toml").write_text("".join(f'{field} = "Say it."\n' for field in fields))
    licence = {"reviewer": "toy", "scale": "pairwise", "task_kind": "any", "weight": 0.9, "identity": {"name": "a"}}
    (folder / "licence.json").write_text(json.dumps(licence))


def _others(place: Path) -> None:
    """Results of other tools, named by their format."""
    for name in ("lm_eval", "promptfoo", "every_eval_ever"):
        shutil.copytree(FILES / name, place / f"import-{name}")
    for name, files in {"inspect": ("inspect/alpha.eval", "inspect/beta.json"), "traces": ("otel_otlp.json",)}.items():
        (place / f"import-{name}").mkdir()
        for file in files:
            shutil.copy(FILES / file, place / f"import-{name}")
    row = {"instruction": "Name a colour.", "output_1": "Red.", "generator_1": "base", "output_2": "Blue."}
    row |= {"dataset": "d", "generator_2": "mine", "annotator": "judge/v1", "preference": 1.25}
    write(place / "import-alpaca_eval" / "annotations.json", [row, row | {"instruction": "Another."}])
    vote = {"model_a": "m-1", "model_b": "m-2", "winner": "model_a", "language": "en"}
    votes = [{"id": f"v{i}", **vote, **{f"conversation_{side}": _talk(i, side) for side in "ab"}} for i in range(2)]
    write(place / "import-arena_votes" / "votes.jsonl", votes)
    write(
        place / "import-table" / "any.csv", [{"id": t, "model": a, "output": a + t} for t in SUBJECTS for a in POINTS]
    )
    write(place / "import-wide" / "wide.csv", [{"task": t, **{a: a + t for a in POINTS}} for t in SUBJECTS])


def _talk(number: int, said: str) -> Rows:
    return [{"role": "user", "content": f"question {number}"}, {"role": "assistant", "content": said * 3}]


def _board_logs(place: Path) -> None:
    mt_bench(place / "import-mt_bench")
    arena_hard(place / "import-arena_hard")
    lighteval(place / "import-lighteval")
    for model in ("m-1", "m-2"):
        helm_run(place / "import-helm" / model, model, ["One.", "Two."])
