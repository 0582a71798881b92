"""Results of an edition from its evidence alone: no printed number is used, and those that differ are refused."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goldless import Evaluation
from goldless.apps.gre.edition import INJECTED, Edition
from goldless.apps.gre.results import (
    Clock,
    EditionResult,
    Scores,
    edition_result,
    hidden_study,
)
from goldless.apps.gre.scoring import edition_pairing, review_settings
from goldless.apps.gre_board.results import PUBLIC_BOARD, PublicBoard
from goldless.errors import UserError
from goldless.reports.run_folder import RunFolder
from goldless.runs.replay import recompute_evaluation
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
    scores: Mapping[str, Scores]
    """Scores of reviews by metric; the first metric is the one that ranks."""
    clock: Clock
    board: PublicBoard
    """Its registration and its submissions."""

    @property
    def name(self) -> str:
        return self.result.edition

    @property
    def metric(self) -> str:
        return next(iter(self.scores))


async def recompute(edition: Edition) -> Recomputed:
    """The results of an edition, from their evidence alone."""
    study, folder = edition.study(), edition.run_folder
    evaluation = await _evaluated(edition, study, folder)
    scores = {metric: outcome.response_scores for metric, outcome in evaluation.outcomes.items()}
    # hidden instructions are left out if their reviews were not scored
    second, hidden = hidden_study(edition.whole_study()), None
    if second is not None and (folder / INJECTED / "leaderboard.json").is_file():
        hidden = await _evaluated(edition, second, folder / INJECTED)
    result = edition_result(edition, study, evaluation, hidden)
    board = PUBLIC_BOARD.result(edition, study, evaluation) or PublicBoard()
    if result.contamination is None:
        raise UserError(f"{edition.folder}: no model has written reviews. Run: goldless gre review {edition.folder}")
    return Recomputed(edition, study, result, scores, result.contamination, board)


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
    how: dict[str, Any] = {"pairing": edition_pairing(run.study), "signature_settings": review_settings(edition, study)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said when it was scored
        found, wrong = await recompute_evaluation(run.study, printed, **how)
    if wrong:
        shown = [f"{one.place}: printed {one.printed}, but {one.recomputed} by the evidence" for one in wrong[:SHOWN]]
        shown += [f"… and {len(wrong) - SHOWN} more"] * (len(wrong) > SHOWN)
        raise UserError(
            f"{folder}/leaderboard.json: {len(wrong)} values do not follow from the evidence beside it. Score the "
            "edition again:\n" + "\n".join(shown)
        )
    return found
