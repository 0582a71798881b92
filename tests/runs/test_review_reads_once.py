"""A review reads its study once, however many batches of questions it asks."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import goldless
from goldless.models.scripted import ScriptedModel
from goldless.runs import reviewers
from goldless.studies import Study


def readings(tasks: int, monkeypatch: pytest.MonkeyPatch, journal: Path) -> int:
    """How often a task's responses are read in a review of so many tasks."""
    counted = 0
    original = Study.__iter__

    def counting(study):
        nonlocal counted
        for pair in original(study):
            counted += 1
            yield pair

    monkeypatch.setattr(Study, "__iter__", counting)
    rows = [{"task": f"t{i}", "agent": agent, "text": f"{agent} {i}"} for i in range(tasks) for agent in "ab"]
    model = ScriptedModel(answers=lambda _: "one", name="judge")
    goldless.review(pl.DataFrame(rows), reviewers={"r": model}, resamples=100, journal=journal)
    assert len(model.calls) == 2 * tasks
    return counted


def test_twice_the_tasks_are_read_twice_as_often(monkeypatch, tmp_path):
    monkeypatch.setattr(reviewers, "QUESTIONS_AT_ONCE", 4)
    few = readings(20, monkeypatch, tmp_path / "few.db")
    monkeypatch.undo()
    monkeypatch.setattr(reviewers, "QUESTIONS_AT_ONCE", 4)
    many = readings(40, monkeypatch, tmp_path / "many.db")
    assert few == pytest.approx(many / 2, rel=0.1)
    assert few <= 5 * 20
