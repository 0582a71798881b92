"""An edition's results, recomputed from the evidence in its run folders: no model is called, no printed number is used.

What was printed is compared with it: a leaderboard that does not follow from its evidence is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from goldless.errors import UserError
from goldless.gre_bench.edition import RUN, Edition
from goldless.gre_bench.edition_scores import EditionScores, edition_scores, reviews_told
from goldless.gre_bench.injected import INJECTED, holding
from goldless.gre_bench.preregistration import check_registration
from goldless.gre_bench.public_results import PublicResults
from goldless.gre_bench.stages import edition_pairing, hidden_study
from goldless.gre_bench.standing import Standing, other_runs, standing
from goldless.gre_bench.submissions import read_log, submission_results
from goldless.meta_evaluation.judges import ScoredBy, response_scores
from goldless.reports.document import write
from goldless.reports.run_folder import RunFolder
from goldless.runs.evaluation import Evaluation
from goldless.runs.pipeline import evaluate_study
from goldless.runs.replay import compared, recorded_options
from goldless.statistics.bootstrap import Draws
from goldless.studies import Study


@dataclass(frozen=True, slots=True)
class Recomputed:
    """An edition with its results."""

    edition: Edition
    study: Study
    """Its papers and reviews."""
    scores: EditionScores
    """Of its own run."""
    scored: tuple[ScoredBy, ...]
    """Scores of reviews by metric and run, its own run first."""
    standing: Standing

    @property
    def name(self) -> str:
        """The edition's name."""
        return self.scores.name

    @property
    def metric(self) -> str:
        """The metric that ranks: the first."""
        return self.scored[0].metric

    def review_scores(self, metric: str | None = None, run: str = RUN) -> Mapping[tuple[str, str], float | None]:
        """Scores by paper and agent in a run."""
        wanted = self.metric if metric is None else metric
        return next((one.scores for one in self.scored if (one.scorer, one.metric) == (run, wanted)), {})


async def recompute(edition: Edition) -> Recomputed:
    """The results of an edition and of the runs beside its own, from their evidence alone."""
    if not (edition.run_folder() / "leaderboard.json").is_file():
        raise UserError(
            f"{edition.folder}: no results yet (no {RUN}/leaderboard.json). Run: goldless gre score {edition.folder}"
        )
    study = edition.study()
    own = await _evaluated(edition, study, edition.run_folder())
    runs, notes = {RUN: own}, []
    for name in other_runs(edition):
        try:
            runs[name] = await _evaluated(edition, study, edition.run_folder(name))
        except StaleError:
            notes.append(f"{name} was scored on other papers or reviews than {RUN} and is left out; score it again.")
    scored = tuple(
        ScoredBy(run, outcome.metric, response_scores(outcome), outcome.signature)
        for run, found in runs.items()
        for outcome in found.outcomes.values()
    )
    config = edition.config.score
    draws: Draws = {"seed": config.seed, "resamples": config.resamples, "level": config.level}
    scores = replace(edition_scores(edition, study, own), public=await _public(edition, study, own, draws))
    if scores.clock is None:
        raise UserError(f"{edition.folder}: no model has written reviews. Run: goldless gre review {edition.folder}")
    return Recomputed(edition, study, scores, scored, standing(scored, draws, notes=notes))


class StaleError(UserError):
    """Results of other papers or reviews than the edition has now."""


async def _public(edition: Edition, study: Study, own: Evaluation, draws: Draws) -> PublicResults:
    """What is beside the leaderboards; hidden instructions are left out if their reviews were not scored."""
    folder, whole = edition.run_folder() / INJECTED, edition.whole_study()
    second, held = hidden_study(whole), None
    if second is not None and (folder / "leaderboard.json").is_file():
        held = holding(whole, own, await _evaluated(edition, second, folder), draws)
    submitted = submission_results(read_log(edition.folder), study, own, draws)
    return PublicResults(check_registration(edition), held, submitted)


async def _evaluated(edition: Edition, study: Study, folder: Path) -> Evaluation:
    run = RunFolder(folder)
    printed, texts = run.data("leaderboard") or {}, run.study
    if texts.fingerprint != study.fingerprint:
        raise StaleError(
            f"{folder}: its results are of other papers or reviews than the edition has now. Run again: goldless gre "
            f"score {edition.folder}"
        )
    told = reviews_told(study, demonstration=edition.config.demonstration)
    options = recorded_options(printed, metrics=tuple(printed.get("metrics", {})))
    with warnings.catch_warnings():
        # said when it was scored
        warnings.simplefilter("ignore")
        found = await evaluate_study(texts, replace(options, pairing=edition_pairing(texts), told=told))
    made = write(found)["metrics"]
    wrong = [
        f"{name} {one.place}: printed {one.printed}, but {one.recomputed} by the evidence"
        for name, then in printed["metrics"].items()
        for one in compared(name, then, made.get(name)).differences
    ]
    if wrong:
        shown = "\n".join([*wrong[:5], *([f"and {len(wrong) - 5} more"] if len(wrong) > 5 else [])])
        raise UserError(
            f"{folder}/leaderboard.json: {len(wrong)} values do not follow from the evidence beside it. Score the "
            f"edition again:\n{shown}"
        )
    return found
