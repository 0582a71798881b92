"""Results of an edition from its evidence alone: no printed number is used, and those that differ are refused."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goldless.apps.gre.edition import INJECTED, RUN, Edition
from goldless.apps.gre.results import (
    Clock,
    EditionResult,
    Standing,
    comparable_runs,
    edition_result,
    hidden_study,
    standing,
)
from goldless.apps.gre.scoring import edition_pairing, review_settings
from goldless.apps.gre_board.results import PUBLIC_BOARD, PublicBoard
from goldless.errors import UserError
from goldless.meta_evaluation.judges import ScoredBy, response_scores
from goldless.reports.document import write
from goldless.reports.run_folder import RunFolder
from goldless.runs.evaluation import Evaluation
from goldless.runs.pipeline import evaluate_study
from goldless.runs.replay import compared, recorded_options
from goldless.studies import Study

SHOWN = 5
"""Values that do not follow from their evidence, as an error lists them."""


@dataclass(frozen=True)
class Recomputed:
    """An edition with its results, recomputed from the evidence in its run folders: no printed number is used."""

    edition: Edition
    study: Study
    """Its papers and reviews."""
    result: EditionResult
    """Of its own run."""
    scored: tuple[ScoredBy, ...]
    """Scores of reviews by metric and run, its own run first; the first metric is the one that ranks."""
    clock: Clock
    standing: Standing
    board: PublicBoard
    """Its registration and its submissions."""

    @property
    def name(self) -> str:
        return self.result.edition

    @property
    def metric(self) -> str:
        return self.scored[0].metric


async def recompute(edition: Edition) -> Recomputed:
    """The results of an edition and of the runs beside its own, from their evidence alone."""
    study, (folders, notes) = edition.study(), comparable_runs(edition)
    runs = {run.name: await _evaluated(edition, study, run.path) for run in folders}
    scored = tuple(
        ScoredBy(run, outcome.metric, response_scores(outcome.responses), outcome.settings)
        for run, found in runs.items()
        for outcome in found.outcomes.values()
    )
    # hidden instructions are left out if their reviews were not scored
    folder, second, hidden = edition.run_folder() / INJECTED, hidden_study(edition.whole_study()), None
    if second is not None and (folder / "leaderboard.json").is_file():
        hidden = await _evaluated(edition, second, folder)
    result = edition_result(edition, study, runs[RUN], hidden)
    board = PUBLIC_BOARD.result(edition, study, runs[RUN]) or PublicBoard()
    if result.contamination is None:
        raise UserError(f"{edition.folder}: no model has written reviews. Run: goldless gre review {edition.folder}")
    firm = standing(scored, edition.config.score.draws, notes=notes)
    return Recomputed(edition, study, replace(result, standing=firm), scored, result.contamination, firm, board)


async def _evaluated(edition: Edition, study: Study, folder: Path) -> Evaluation:
    """The results of a run folder; raises if what was printed does not follow from its evidence."""
    run = RunFolder(folder)
    printed, again = run.data("leaderboard"), f"goldless gre score {edition.folder}"
    if printed is None:
        raise UserError(f"{folder}: no results yet. Run: {again}")
    if run.study.fingerprint != study.fingerprint:
        raise UserError(
            f"{folder}: its results are of other papers or reviews than the edition has now. Run again: {again}"
        )
    then = printed.get("metrics", {})
    how: dict[str, Any] = {"pairing": edition_pairing(run.study), "signature_settings": review_settings(edition, study)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said when it was scored
        found = await evaluate_study(run.study, recorded_options(printed, metrics=tuple(then), **how))
    made = write(found)["metrics"]
    wrong = [one for name in then for one in compared(name, then[name], made.get(name)).differences]
    if wrong:
        shown = [f"{one.place}: printed {one.printed}, but {one.recomputed} by the evidence" for one in wrong[:SHOWN]]
        shown += [f"… and {len(wrong) - SHOWN} more"] * (len(wrong) > SHOWN)
        raise UserError(
            f"{folder}/leaderboard.json: {len(wrong)} values do not follow from the evidence beside it. Score the "
            "edition again:\n" + "\n".join(shown)
        )
    return found
