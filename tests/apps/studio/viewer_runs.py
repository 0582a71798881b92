"""Run folders for the viewer's tests: made by real runs over scripted models, or written by hand with known numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

import goldless
from goldless.apps.studio.site import RunSummary, Site
from goldless.models.interface import ChatReply
from goldless.models.scripted import ScriptedModel
from goldless.runs.store import save_run
from goldless.signature import Signature
from goldless.studies import study_from_frame
from tests.support.study_files import response_rows, word_scorer

HOSTILE = {
    "script": "<script>document.title='run by a text'</script><img src=x onerror=\"document.title='run'\">",
    "textarea": "</textarea></pre></details><h1>escaped</h1>",
    "line": "x" * 30_000,
    "rtl": "abc \u202egnp.exe\u202c \u2067hidden\u2069",
    "nul": "before\x00after\x1b[31mred",
    "\"quoted'{{ 7*7 }}": "{{ 7*7 }} {% raw %} [[A]] `code`",
}
"""Texts by agent; one agent's name is hostile as well."""


def scored_run(folder: Path, texts: Mapping[str, Mapping[str, str]], journal: Path, **options) -> ScriptedModel:
    """A run scored by words that two texts share; the model that was asked."""
    scorer = options.pop("scorer", None) or word_scorer()
    tasks = pl.DataFrame([{"task": t, "prompt": f"What of {t}?", "synopsis_gist": f"About {t}."} for t in texts])
    study = study_from_frame(pl.DataFrame(response_rows(texts)), tasks=tasks, name="words")
    options.setdefault("metrics", "gem-raw")
    found = goldless.evaluate(study, scorer=scorer, resamples=200, journal=journal, **options)
    save_run(found, folder)
    return scorer


def chat(*replies: str | ChatReply, name: str = "chat") -> ScriptedModel:
    """A chat model that gives these replies in turn, the last one for ever."""
    left = list(replies)
    return ScriptedModel(answers=lambda _: left.pop(0) if len(left) > 1 else left[0], name=name)


def written_run(
    folder: Path,
    scores: Sequence[tuple[str, str, str, float | None]],
    *,
    prompts: Mapping[str, str] | None = None,
    responses: Sequence[tuple[str, str, str]] = (),
    failures: Sequence[tuple[str, str, str]] = (),
    signature: str = "m|seed:0",
    fingerprint: str = "f1",
) -> Path:
    """A run folder with these scores (metric, task, agent, score), texts, and failed log-probabilities."""
    folder.mkdir(parents=True)
    rows = [(m, t, a, s, 2, 2 if s is not None else 1, signature) for m, t, a, s in scores]
    names = ["metric", "task", "agent", "score", "asked", "used", "signature"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv(folder / "response_scores.csv")
    settings = Signature.parse(signature).parts
    metrics = {
        metric: {"metric": metric, "unit": "points", "level": 0.95, "rows": [], "settings": settings}
        for metric in dict.fromkeys(row[0] for row in scores)
    }
    document = {"study": "by hand", "fingerprint": fingerprint, "complete": True, "failures": {}, "metrics": metrics}
    (folder / "leaderboard.json").write_text(json.dumps(document))
    tasks = prompts or dict.fromkeys(row[1] for row in scores)
    frame = pl.DataFrame({"task": list(tasks), "prompt": [tasks[t] or f"prompt of {t}" for t in tasks]})
    frame.write_parquet(folder / "tasks.parquet")
    if responses:
        pl.DataFrame(list(responses), schema=["task", "agent", "text"], orient="row").write_parquet(
            folder / "responses.parquet"
        )
    if failures:
        names = ["task", "target", "failure"]
        pl.DataFrame(list(failures), schema=names, orient="row").write_parquet(folder / "logprobs.parquet")
    return folder


def listed(root: Path) -> list[RunSummary]:
    """All runs in a folder, newest first."""
    return Site(root, journal=root / "j.sqlite").summaries()
