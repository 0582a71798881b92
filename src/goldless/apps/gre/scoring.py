"""Reviews of an edition are scored against the references of their papers.

Results that new ones would replace are recognised by their signatures and moved to a free name.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from goldless import Evaluation
from goldless.apps.gre.additions import added_sentences, edition_additions
from goldless.apps.gre.config import METRICS
from goldless.apps.gre.edition import CONFIG, INJECTED, Edition
from goldless.apps.gre.papers import REFERENCE, is_person
from goldless.apps.gre.results import (
    EditionResult,
    edition_result,
    hidden_study,
    read_result,
)
from goldless.apps.gre.reviewing import noted_reviews
from goldless.errors import UserError
from goldless.models.catalogue import open_model
from goldless.models.interface import Use
from goldless.reports.run_folder import RunFolder
from goldless.runs.option_forms import as_tuple
from goldless.runs.options import Options, check_options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.store import check_writable, save_run, try_writing
from goldless.signature import Signature
from goldless.studies import Study

REVIEW_SETTINGS = ("prompt", "max_tokens", "temperature", "truncate", "cut")
"""Settings of the reviews for signatures."""
MODELS: Mapping[str, Use] = {"scorer": "scoring", "rewriter": "chat", "synopsis_writer": "chat"}


async def score_edition(
    edition: Edition,
    settings: Mapping[str, Any],
    *,
    stand_ins: Mapping[str, Any] | None = None,
    options: Options | None = None,
) -> tuple[Edition, EditionResult, Evaluation]:
    """Score an edition, and write its leaderboards into its run folder with evidence and report.

    ``settings``: of the config's table ``score``. ``stand_ins``: models themselves for ``scorer``, ``rewriters`` or
    ``synopsis_writer``. ``options``: budget, price, journal and so on.
    """
    planned = edition.planned({"score": settings})
    study, folder = planned.study(), edition.run_folder
    config: dict[str, Any] = asdict(planned.config.score)
    config |= {"rewriters": config.pop("rewriter"), "templates": config.pop("template")}
    how: dict[str, Any] = {"pairing": edition_pairing(study), "signature_settings": review_settings(planned, study)}
    asked = (options or Options()).changed(**{**config, **how, **(stand_ins or {})})
    for name, use in MODELS.items():  # also those that no metric needs now
        for model in as_tuple(settings.get(name) or ()):
            open_model(model, use=use)
    check_options(asked)
    try_writing(edition.folder, "Results are written there; make it writable")
    check_writable(folder)
    if "metrics" not in settings and asked.scoring.metrics != METRICS:
        asked.say(f"metrics from {CONFIG}: {', '.join(planned.config.score.metrics)}. Choose others with --metric")
    sentences = added_sentences(planned)  # raises before anything is paid
    before = (edition.folder / CONFIG).read_bytes()
    tried = edition.with_settings({"score": settings})
    try:
        evaluation = await evaluate_study(study, asked)
    except Exception:  # settings that did not work are not kept; those of an interrupted run are
        (edition.folder / CONFIG).write_bytes(before)
        raise
    added = {name: app.result(planned, study, evaluation) for name, app in edition_additions().items()}

    def saved(hidden: Evaluation | None) -> tuple[EditionResult, Evaluation]:
        """Write what there is; the result of the edition, and the evaluation with its findings."""
        result = replace(edition_result(planned, study, evaluation, hidden), notes=sentences, added=added)
        with_findings = replace(evaluation, findings=(*result.findings(), *evaluation.findings))
        if _would_lose(folder, result, with_findings):
            spare = _free_name(folder)
            folder.rename(spare)
            asked.say(f"{folder}: earlier results with other settings, cutoffs or reviews were moved to {spare}")
        save_run(with_findings, folder)
        if hidden is not None:
            save_run(hidden, folder / INJECTED)
        result.save(folder, study)
        return result, with_findings

    try:
        hidden = await _hidden_evaluation(planned, asked, evaluation)
    except Exception:
        saved(None)  # what is finished is kept, whatever became of the hidden instructions
        raise
    return tried, *saved(hidden)


def review_settings(edition: Edition, study: Study) -> dict[str, str]:
    """Settings of the reviews for signatures: how they were written, and whether they are invented."""
    lines = dict.fromkeys(one.settings for one in noted_reviews(study).values() if one.settings)
    ways = [Signature.parse(line).settings for line in lines]
    told = {name: "+".join(dict.fromkeys(way[name] for way in ways if name in way)) for name in REVIEW_SETTINGS}
    invented = {"demonstration": "invented"} if edition.config.demonstration else {}
    return invented | {f"review-{name}".replace("_", "-"): values for name, values in told.items() if values}


def edition_pairing(study: Study) -> dict[tuple[str, str], tuple[str, ...]]:
    """The peers of each review: the references of its paper. References themselves have none."""
    references = tuple(agent.agent for agent in study.agents if agent.group == REFERENCE)
    if not references:
        raise UserError(
            f"{study.name}: no agent is in the group 'reference', so there is nothing to compare reviews with. Create "
            "the study of an edition with goldless gre collect"
        )
    pairs = [(task.task, response.agent) for task, responses in study for response in responses]
    return {pair: references for pair in pairs if pair[1] not in references}


async def _hidden_evaluation(edition: Edition, options: Options, evaluation: Evaluation) -> Evaluation | None:
    """The evaluation of the reviews of papers with hidden instructions; None if there are none.

    It is by the first metric that needs no synopsis of the whole text, which a hidden instruction could change.
    """
    study = hidden_study(edition.whole_study())
    metric = next((name for name in evaluation.outcomes if "assw" not in name), None)
    if study is None or metric is None or all(is_person(r.agent) for _, responses in study for r in responses):
        return None
    spent = sum(one.cost_usd or 0.0 for one in evaluation.spending)
    left = None if options.models.budget_usd is None else max(0.0, options.models.budget_usd - spent)
    asked = options.changed(metrics=(metric,), pairing=edition_pairing(study), budget_usd=left)
    found = await evaluate_study(study, asked)
    if not found.complete:
        options.say(f"hidden instructions: incomplete, {found.open} rows are missing. Run the same command again")
    return found


# --- earlier results -------------------------------------------------------------------------------------------------


def _would_lose(folder: Path, result: EditionResult, evaluation: Evaluation) -> bool:
    """True if the run folder has results that would be lost if these were written into it.

    They are there again where every leaderboard of before comes with the same signature, on all papers as on clean
    ones; a file of leaderboards that cannot be read is kept as well.
    """
    run = RunFolder(folder)
    before, same = read_result(run), {"", evaluation.fingerprint}
    if not isinstance(before, EditionResult) or not run.boards:
        return run.read("leaderboard") is not None or before is not None
    return run.made_by.fingerprint not in same or not before.all_signatures <= result.all_signatures


def _free_name(folder: Path) -> Path:
    """A free name next to the folder: its name with the study's hash, and a number if that is taken."""
    before = RunFolder(folder).made_by.fingerprint[:8]
    name = f"{folder.name}-{before if before.isalnum() else 'before'}"
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(free for name in names if not (free := folder.with_name(name)).exists())
