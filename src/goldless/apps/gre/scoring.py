"""Reviews of an edition are scored against the references of their papers, and scores recomputed from their evidence.

Results that new ones would replace are recognised by their signatures and moved to a free name.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from goldless.apps.gre.config import METRICS
from goldless.apps.gre.contamination import Clock
from goldless.apps.gre.edition import CONFIG, INJECTED, RUN, Edition
from goldless.apps.gre.hidden_instructions import hidden_study, holding
from goldless.apps.gre.papers import REFERENCE, is_person
from goldless.apps.gre.preregistration import check_registration
from goldless.apps.gre.results import EditionResult, edition_result, read_result
from goldless.apps.gre.reviewing import GENERATIONS, check_models
from goldless.apps.gre.standing import Standing, edition_standing, left_out, other_runs, standing
from goldless.apps.gre.submissions import read_log, submission_results
from goldless.errors import UserError
from goldless.files import write_whole
from goldless.meta_evaluation.judges import ScoredBy, Scores, response_scores
from goldless.models.provider import Use
from goldless.reports.document import Unreadable, write
from goldless.reports.run_folder import RunFolder
from goldless.runs.evaluation import Evaluation
from goldless.runs.option_forms import several
from goldless.runs.options import Options, check_options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.replay import compared, recorded_options
from goldless.runs.store import check_writable, save_run, try_writing
from goldless.signature import Signature
from goldless.studies import Study

REVIEW_SETTINGS = ("prompt", "max_tokens", "temperature", "truncate", "cut")
"""Settings of the reviews for signatures."""


async def score_edition(
    edition: Edition,
    settings: Mapping[str, Any],
    *,
    run: str | None = None,
    stand_ins: Mapping[str, Any] | None = None,
    options: Options | None = None,
) -> tuple[Edition, EditionResult, Evaluation]:
    """Score an edition, and write its leaderboards into its run folder with evidence and report.

    ``settings``: of the config's table ``score``; those of another ``run`` beside the edition's own stay out of the
    config. ``stand_ins``: models themselves for ``scorer``, ``rewriters`` or ``synopsis_writer``. ``options``: budget,
    price, journal and so on.
    """
    planned = edition.planned({"score": settings})
    study, folder = planned.study(), edition.run_folder(run)
    config: dict[str, Any] = asdict(planned.config.score)
    config |= {"rewriters": config.pop("rewriter"), "templates": config.pop("template")}
    how: dict[str, Any] = {"pairing": edition_pairing(study), "told": _reviews_told(planned, study)}
    asked = replace(options or Options(), **config, **how)
    asked = replace(asked, **(stand_ins or {}))
    # before anything is asked: also models that no metric needs now
    named: dict[str, Use] = {"scorer": "scoring", "rewriter": "chat", "synopsis_writer": "chat"}
    check_models((one, use) for name, use in named.items() if name in settings for one in several(settings[name]))
    check_options(asked)
    try_writing(edition.folder, "Results are written there; make it writable")
    check_writable(folder, option="--run")
    if "metrics" not in settings and asked.metrics != METRICS:
        asked.say(f"metrics from {CONFIG}: {', '.join(planned.config.score.metrics)}. Choose others with --metric")
    spare = _free_name(folder)
    before = (edition.folder / CONFIG).read_bytes()
    tried = edition.with_settings({"score": settings} if run in {None, RUN} else {})
    try:
        evaluation = await evaluate_study(study, asked)
    except Exception:  # settings that did not work are not kept; those of an interrupted run are
        write_whole(edition.folder / CONFIG, lambda aside: aside.write_bytes(before))
        raise
    hidden = await _hidden_evaluation(planned, asked, evaluation)
    result = _result(planned, study, evaluation, hidden)
    evaluation = replace(evaluation, findings=(*result.findings(), *evaluation.findings))
    if _would_lose(folder, result, evaluation):
        folder.rename(spare)
        asked.say(f"{folder}: earlier results with other settings, cutoffs or reviews were moved to {spare}")
    save_run(evaluation, folder)
    if hidden is not None:
        save_run(hidden, folder / INJECTED)
    return tried, _save(planned, result, folder, study), evaluation


def _save(edition: Edition, result: EditionResult, folder: Path, study: Study) -> EditionResult:
    """Write a result into its folder, and how firm the ranking is into that of the edition's own results."""
    own = edition.run_folder()
    if folder != own:
        result.save(folder, study)
    kept = result if folder == own else read_result(RunFolder(own))
    if not isinstance(kept, EditionResult):
        return result
    kept = replace(kept, standing=edition_standing(edition, edition.config.score.draws))
    kept.save(own, study if folder == own else None)
    return replace(result, standing=kept.standing)


def _reviews_told(edition: Edition, study: Study) -> dict[str, str]:
    """Settings of the reviews for signatures: how they were written, and whether they are invented."""
    table = study.table(GENERATIONS)
    lines = []
    if table is not None and "settings" in table.columns:
        lines = table["settings"].drop_nulls().unique(maintain_order=True).to_list()
    ways = [Signature.parse(line).settings for line in lines]
    told = {name: "+".join(dict.fromkeys(way[name] for way in ways if name in way)) for name in REVIEW_SETTINGS}
    invented = {"demonstration": "invented"} if edition.config.demonstration else {}
    return invented | {f"review-{name}".replace("_", "-"): values for name, values in told.items() if values}


def edition_pairing(study: Study) -> dict[tuple[str, str], tuple[str, ...]]:
    """The peers of each review: the references of its paper. References themselves have none."""
    references = [agent.agent for agent in study.agents if agent.group == REFERENCE]
    if not references:
        raise UserError(
            f"{study.name}: no agent is in the group 'reference', so there is nothing to compare reviews with. Create "
            "the study of an edition with goldless gre collect"
        )
    named = set(references)
    return {
        (task.task, response.agent): tuple(references)
        for task, responses in study
        for response in responses
        if response.agent not in named
    }


async def _hidden_evaluation(edition: Edition, options: Options, evaluation: Evaluation) -> Evaluation | None:
    """The evaluation of the reviews of papers with hidden instructions; None if there are none.

    It is by the first metric that needs no synopsis of the whole text, which a hidden instruction could change.
    """
    study = hidden_study(edition.whole_study())
    metric = next((name for name in evaluation.outcomes if "assw" not in name), None)
    if study is None or metric is None:
        return None
    models = [agent.agent for agent in study.agents if not is_person(agent.agent)]
    if not any(study.response(task, model) for task in study.tasks for model in models):
        return None
    spent = sum(one.cost_usd or 0.0 for one in evaluation.spending)
    left = None if options.budget_usd is None else max(0.0, options.budget_usd - spent)
    found = await evaluate_study(
        study, replace(options, metrics=(metric,), pairing=edition_pairing(study), budget_usd=left)
    )
    if not found.complete:
        options.say(f"hidden instructions: incomplete, {found.open} rows are missing. Run the same command again")
    return found


def _result(edition: Edition, study: Study, evaluation: Evaluation, hidden: Evaluation | None) -> EditionResult:
    """The result of an edition, with what a public board shows beside its leaderboards."""
    draws = edition.config.score.draws
    return replace(
        edition_result(edition, study, evaluation),
        preregistered=check_registration(edition),
        injected=None if hidden is None else holding(edition.whole_study(), evaluation, hidden, draws),
        submissions=submission_results(read_log(edition.folder), study, evaluation, draws),
    )


# --- earlier results -------------------------------------------------------------------------------------------------


def _would_lose(folder: Path, result: EditionResult, evaluation: Evaluation) -> bool:
    """Whether the run folder has results that would be lost if these were written into it.

    They are there again where every leaderboard of before comes with the same signature, on all papers as on clean
    ones; a file of leaderboards that cannot be read is kept as well.
    """
    run = RunFolder(folder)
    board, before = run.read("leaderboard"), read_result(run)
    if isinstance(board, Unreadable) or isinstance(before, Unreadable):
        return True
    if run.made_by.fingerprint not in {"", evaluation.fingerprint} or (board is not None and not board.metrics):
        return True
    old = set() if board is None else {metric.signature for metric in board.metrics.values()}
    new = set(result.signatures.values()) | ({evaluation.raters.signature} if evaluation.raters is not None else set())
    for lines, one in ((old, before), (new, result)):
        if one is not None and (clock := one.contamination) is not None:
            lines.update(clock.signature(row.metric, row.scope) for row in clock.scores)
    return not old <= new


def _free_name(folder: Path) -> Path:
    """A free name next to the folder: its name with the study's hash, and a number if that is taken."""
    name = f"{folder.name}-{(RunFolder(folder).made_by.fingerprint or 'before')[:8]}"
    found, number = folder.with_name(name), 1
    while found.exists():
        number += 1
        found = folder.with_name(f"{name}-{number}")
    return found


# --- results from evidence alone -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recomputed:
    """An edition with its results, recomputed from the evidence in its run folders: no printed number is used."""

    edition: Edition
    study: Study
    """Its papers and reviews."""
    result: EditionResult
    """Of its own run."""
    scored: tuple[ScoredBy, ...]
    """Scores of reviews by metric and run, its own run first."""
    standing: Standing

    @property
    def name(self) -> str:
        """The edition's name."""
        return self.result.edition

    @property
    def metric(self) -> str:
        """The metric that ranks: the first."""
        return self.scored[0].metric

    @property
    def clock(self) -> Clock:
        """The clock of its own run."""
        assert self.result.contamination is not None
        return self.result.contamination

    @property
    def scores(self) -> Scores:
        """Scores by paper and agent under that metric in its own run."""
        return self.scored[0].scores


class StaleError(UserError):
    """Results of other papers or reviews than the edition has now."""


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
            notes.append(left_out(name))
    scored = tuple(
        ScoredBy(run, outcome.metric, response_scores(outcome), outcome.signature)
        for run, found in runs.items()
        for outcome in found.outcomes.values()
    )
    if all(is_person(agent.agent) for agent in study.agents):
        raise UserError(f"{edition.folder}: no model has written reviews. Run: goldless gre review {edition.folder}")
    # hidden instructions are left out if their reviews were not scored
    folder, second, hidden = edition.run_folder() / INJECTED, hidden_study(edition.whole_study()), None
    if second is not None and (folder / "leaderboard.json").is_file():
        hidden = await _evaluated(edition, second, folder)
    firm = standing(scored, edition.config.score.draws, notes=notes)
    result = replace(_result(edition, study, own, hidden), standing=firm)
    return Recomputed(edition, study, result, scored, firm)


async def _evaluated(edition: Edition, study: Study, folder: Path) -> Evaluation:
    """The results of a run folder; raises if what was printed does not follow from its evidence."""
    run = RunFolder(folder)
    run.required("leaderboard")
    printed, texts = run.data("leaderboard") or {}, run.study
    if texts.fingerprint != study.fingerprint:
        raise StaleError(
            f"{folder}: its results are of other papers or reviews than the edition has now. Run again: goldless gre "
            f"score {edition.folder}"
        )
    options = recorded_options(printed, metrics=tuple(printed.get("metrics", {})))
    with warnings.catch_warnings():
        # said when it was scored
        warnings.simplefilter("ignore")
        asked = replace(options, pairing=edition_pairing(texts), told=_reviews_told(edition, study))
        found = await evaluate_study(texts, asked)
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
