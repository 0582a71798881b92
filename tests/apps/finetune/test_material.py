"""Tasks are either trained on or held out, by a seed, and each gives exactly three responses."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from goldless.apps.finetune.material import ExampleSet, choose_material
from goldless.apps.finetune.options import FinetuneOptions
from goldless.apps.finetune.result import Counts
from goldless.errors import UserError
from goldless.studies import read_study, study_from_frame


def study_of(tasks: int, agents: str = "abcd", *, lacking: tuple[str, str] | None = None):
    rows = [{"task": f"t{i}", "agent": agent, "text": f"{agent} on {i}"} for i in range(tasks) for agent in agents]
    return study_from_frame(pl.DataFrame([row for row in rows if (row["task"], row["agent"]) != lacking]))


def chosen(study, *, seed: int = 42, **options):
    given = {"base": "hf:x", "folder": Path("out"), "raw": True, "seed": seed, **options}
    return choose_material(study, FinetuneOptions(**given))


def names(tasks) -> set[str]:
    return {each.task.task for each in tasks}


def test_a_response_without_rewrite_is_missing_and_never_replaced_by_the_response_itself(tmp_path: Path):
    rows = [{"task": f"t{i}", "agent": agent, "text": f"{agent}{i}"} for i in range(3) for agent in "abc"]
    pl.DataFrame(rows).write_ndjson(tmp_path / "responses.jsonl")
    rewrites = [{**row, "rewriter": "gpt", "text": f"re {row['text']}"} for row in rows if row["text"] != "c1"]
    pl.DataFrame(rewrites).write_ndjson(tmp_path / "rewrites.jsonl")
    found = chosen(read_study(tmp_path), raw=False)
    assert (found.tasks_too_few, found.texts_missing, found.rewriter) == (1, 1, "gpt")
    texts = [text for each in found.trained + found.held_out for text in each.texts.values()]
    assert sorted(texts) == ["re a0", "re a2", "re b0", "re b2", "re c0", "re c2"]


@pytest.mark.parametrize(
    ("tasks", "agents", "message"),
    [
        (5, ("a", "b", "x", "y"), "no agent 'x' in the study"),
        (5, ("a", "b"), "at least 3 agents, got 2"),
        (1, (), r"at least 2 tasks must have 3 usable responses.*got 1"),
    ],
)
def test_what_cannot_be_split_is_refused(tasks, agents, message):
    with pytest.raises(UserError, match=message):
        chosen(study_of(tasks), agents=agents)


@pytest.mark.parametrize(("tasks", "share", "expected"), [(20, 0.1, 2), (5, 0.1, 1), (3, 0.9, 2), (2, 0.5, 1)])
def test_the_share_of_tasks_is_held_out_and_at_least_one_on_either_side(tasks, share, expected):
    found = chosen(study_of(tasks), held_out=share)
    assert len(found.held_out) == expected
    assert names(found.held_out) ^ names(found.trained) == {f"t{i}" for i in range(tasks)}


def test_held_out_texts_and_synopses_that_were_trained_on_word_for_word_are_counted():
    rows = [{"task": f"t{i}", "agent": a, "text": f"{a}{i}" if a != "c" else "same"} for i in range(4) for a in "abc"]
    known = pl.DataFrame(
        {"task": [f"t{i}" for i in range(4)], "synopsis_abstract": ["same"] * 4, "synopsis_assw": [*"wxyz"]}
    )
    study = study_from_frame(pl.DataFrame(rows), tasks=known)
    found = [Counts.of(chosen(study, held_out=0.5, synopsis=name), ExampleSet(())) for name in ("abstract", "assw")]
    assert [(each.held_out_texts_seen, each.held_out_synopses_seen) for each in found] == [(2, 2), (2, 0)]
