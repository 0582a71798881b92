"""Every public name as a user writes it, for the type checker: ``make lint`` runs mypy in strict mode over this file.

A wrong use carries an ignore; mypy fails where one is not needed, so what is refused here stays refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import polars as pl

import goldless


def studies(folder: Path, frame: pl.DataFrame) -> goldless.Study:
    """Studies come from files, frames and the package, and go to a folder."""
    assert_type(goldless.read_study(folder), goldless.Study)
    assert_type(goldless.import_study([folder], importer="table", wide=True), goldless.Study)
    assert_type(goldless.study_from_frame(frame), goldless.Study)
    study = goldless.read_study(assert_type(goldless.sample_study(), Path))
    goldless.write_study(study, folder)
    goldless.write_study("study", folder)  # type: ignore[arg-type]
    assert_type(goldless.export(study, folder / "tables", exporter="csv"), Path)
    goldless.export(study, folder)  # type: ignore[call-arg]
    return study


def models() -> goldless.ScriptedModel:
    """Models are opened by name or written down."""
    goldless.open_model("embedded")
    goldless.open_model(1)  # type: ignore[arg-type]
    return goldless.ScriptedModel(logprobs=lambda _context, target: [-1.0 for _ in target.split()], name="words")


def scoring(study: goldless.Study, folder: Path) -> None:
    """Plan, score, look at the result, keep it."""
    assert_type(goldless.plan(study, metrics=["gem-raw", "mi"], scorer="embedded"), goldless.Plan)
    result = goldless.evaluate(
        study, metrics="gem-raw", scorer=models(), seed=1, level=0.9, peers=["ann", "bob"], journal=folder / "journal"
    )
    assert_type(result, goldless.Evaluation)
    board = result.leaderboard("gem-raw")
    assert_type(board, goldless.Leaderboard)
    assert_type(board.to_markdown(), str)
    assert_type([row.agent for row in board.rows], list[str])
    assert_type([row.score for row in board.rows], list[float | None])
    assert_type(result.to_polars(), pl.DataFrame)
    assert_type(goldless.save_run(result, folder), Path)
    goldless.evaluate(study, metrics="gem-raw", level="high")  # type: ignore[arg-type]
    goldless.evaluate(study, metrics="gem-raw", metric="gem-raw")  # type: ignore[call-arg]


def explaining(study: goldless.Study) -> None:
    """One pair, sentence by sentence."""
    found = goldless.explain(study, task="t1", agent="ann", peer="bob")
    assert_type(found, goldless.InformationMap)
    goldless.explain(study, task="t1", agent="ann")  # type: ignore[call-arg]


def reviewing(study: goldless.Study, folder: Path) -> None:
    """A peer review, kept."""
    review = goldless.review(study, reviewers=["openai:one", models()], scale="pairwise", exams=["consistency"])
    assert_type(review, goldless.Review)
    assert_type(goldless.save_review(review, folder), Path)
    goldless.review(study, combination="most")  # type: ignore[arg-type]


def trusting(study: goldless.Study, folder: Path) -> None:
    """How far the numbers can be trusted, and what they cost."""
    test = goldless.crash_test(study, metrics="length", perturbations=["deletion"], responses=5)
    assert_type(test, goldless.CrashTest)
    goldless.save_crash_test(test, folder)
    assert_type(goldless.agree(study, metrics=["length"]), goldless.Agreement)
    assert_type(goldless.calibrate(study, labels="labels.csv", metrics=["length"], next_count=5), goldless.Calibration)
    goldless.calibrate(study, next_count="five")  # type: ignore[arg-type]
    assert_type(goldless.bias(study, favours=[("ann", "bob")]), goldless.BiasReport)
    assert_type(goldless.consistency(folder, "other", metrics="gem-raw"), goldless.Consistency)
    assert_type(goldless.cost(folder, "other", tasks=500), goldless.CostReport)


def deciding(before: Path, after: Path) -> None:
    """Two agents compared, and a candidate gated."""
    found = goldless.compare(before, after, agents="bot", metrics=["gem-raw"], level=0.9)
    assert_type(found, goldless.PairedComparison)
    assert_type([one.difference.value for one in found.metrics], list[float | None])
    gate = goldless.gate(before, baseline="v1", candidate="v2", margin="0.2sd", alpha=0.1, aa=60, critic=models())
    assert_type(gate, goldless.Gate)
    assert_type(gate.certificate.allows, bool)
    goldless.gate(before, baseline="v1")  # type: ignore[call-arg]
    best = goldless.select(
        {"Which?": ["one", "two"]}, metrics="gem-raw", sampler="openai:gpt", most=20, tolerance="1sd"
    )
    assert_type(best, goldless.Selection)
    assert_type(best.texts(), dict[str, str])
    goldless.load(Path("runs") / "first", "review")
    reward = goldless.reward("gem-raw", scorer=models(), bank=["one"], missing="group-mean")
    assert_type(reward, goldless.Reward)
    assert_type(reward(["Why?"], ["So."], reference=["Thus."]), list[float | None])
    goldless.compare(before, metric="gem-raw")  # type: ignore[call-arg]


def errors(study: goldless.Study) -> str:
    """Every error is a ``GoldlessError``; a study's names all of its problems."""
    caught = (
        *(goldless.BudgetError, goldless.CallError, goldless.CanaryError, goldless.CapabilityError),
        *(goldless.MetricError, goldless.ModelError, goldless.ModelSpecError, goldless.PrerequisiteError),
        *(goldless.TextTooLongError, goldless.UserError, goldless.WaitingError),
    )
    kinds: tuple[type[goldless.GoldlessError], ...] = caught
    try:
        goldless.evaluate(study, metrics="gem-raw")
    except goldless.StudyError as error:
        problems: list[goldless.Problem] = list(error.problems)
        return f"{len(problems)} problems in goldless {goldless.__version__}"
    except kinds as error:
        return str(error)
    return ""
