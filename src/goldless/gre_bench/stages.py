"""The stages of an edition: collect papers, have models review them, score the reviews.

Each stage puts what it was asked into the edition's config and does what is not done yet, so that the same command, or
``goldless gre run``, goes on where it stopped.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from goldless.errors import UserError
from goldless.gre_bench.anchors import anchor_tables, refuse_unlike
from goldless.gre_bench.edition import CONFIG, METRICS, RUN, Edition, ModelConfig, open_edition
from goldless.gre_bench.edition_scores import (
    EditionScores,
    edition_scores,
    free_name,
    reviews_told,
    save_scores,
    would_lose,
)
from goldless.gre_bench.edition_study import (
    add_reviews,
    check_before_asking,
    left_out_papers,
    noted_draw,
    write_collected,
)
from goldless.gre_bench.generated_reviews import Generated, finished_models, replaced_reviews, settled_reviews
from goldless.gre_bench.injected import INJECTED, holding, injected_papers
from goldless.gre_bench.openreview_venue import OpenReviewVenue
from goldless.gre_bench.paper_folder import PaperFolder
from goldless.gre_bench.papers import (
    HUMAN,
    REFERENCE,
    CollectConfig,
    LeftOut,
    PaperSource,
    TooFewPapersError,
    draw_papers,
    is_person,
)
from goldless.gre_bench.preregistration import check_registration
from goldless.gre_bench.public_results import PublicResults
from goldless.gre_bench.review_generation import Asking, ReviewRequest, generate_reviews
from goldless.gre_bench.reviewarena import ReviewArena
from goldless.gre_bench.standing import save_standing
from goldless.gre_bench.submissions import read_log, submission_results
from goldless.models.catalogue import open_model
from goldless.models.interface import ChatModel
from goldless.models.provider import Use
from goldless.runs.evaluation import Evaluation
from goldless.runs.options import Options, check_options
from goldless.runs.pipeline import evaluate_study
from goldless.runs.plan import plan_run
from goldless.runs.progress import Progress
from goldless.runs.store import check_writable, save_run, try_writing
from goldless.statistics.bootstrap import Draws
from goldless.studies import Study

__all__ = ["Asking", "collect_edition", "review_edition", "score_edition"]

SOURCE = ("venue", "from_folder", "from_reviewarena")


# --- papers --------------------------------------------------------------------------------------------------------


def collect_edition(
    edition: Edition,
    settings: Mapping[str, Any],
    *,
    seconds_between_requests: float = 1.0,
    api1: str = "https://api.openreview.net",
    api2: str = "https://api2.openreview.net",
    progress: Callable[[Progress], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Edition, tuple[LeftOut, ...]]:
    """Collect the papers of an edition; returns those left out too. ``settings``: of the config's table ``collect``."""
    asked = {"collect": _one_source(settings)}
    planned = edition.planned(asked)
    if edition.collected:
        study = planned.study()
        _refuse_other_papers(edition, planned, study)
        say(f"{edition.folder}: the papers are already collected{_not_taken_up(planned)}")
        return edition.with_settings(asked), left_out_papers(study)
    config = _collecting(planned)
    source: PaperSource
    if config.from_reviewarena is not None:
        source = ReviewArena(edition.folder / config.from_reviewarena, config.venue, say=say)
    elif config.venue is not None:
        source = OpenReviewVenue(
            config.venue,
            cache=edition.cache,
            api1=api1,
            api2=api2,
            seconds_between_requests=seconds_between_requests,
            say=say,
            reader=config.reader,
        )
    else:
        source = PaperFolder(edition.folder / str(config.from_folder), reader=config.reader)
    earlier = _earlier(planned, config)
    try_writing(edition.folder, "Choose another folder")
    edition = edition.with_settings(asked)
    try:
        draw = draw_papers(source, config, progress=progress)
    except TooFewPapersError:
        if isinstance(source, OpenReviewVenue):
            source.forget_unreviewed()
        raise
    anchors: dict[str, Any] = {}
    if earlier is not None:
        taken = [drawn.paper.paper for drawn in draw.papers]
        name = earlier.folder.resolve().name
        anchors = anchor_tables(earlier.study(), name, papers=config.anchor_papers, seed=config.seed, taken=taken)
    write_collected(draw, edition.study_folder, anchors)
    return edition, draw.left_out


def _earlier(edition: Edition, config: CollectConfig) -> Edition | None:
    """The edition that the anchors are from, checked before anything is requested; None if there are none."""
    if config.anchors is None:
        return None
    earlier = open_edition(edition.folder / config.anchors)
    if earlier.folder.resolve() == edition.folder.resolve():
        raise UserError("--anchors: an edition cannot be its own earlier edition")
    name = earlier.folder.resolve().name
    refuse_unlike(earlier.study(), name, papers=config.anchor_papers, reviews=config.reviews)
    return earlier


def _collecting(edition: Edition) -> CollectConfig:
    """The settings of the source of papers. Raises if there is no source, or if its folder does not exist."""
    config = edition.config.collect
    if config is None:
        raise UserError(f"{edition.folder}: no source of papers. Give --venue VENUE or --from-folder FOLDER")
    if config.from_folder is not None and not (edition.folder / config.from_folder).is_dir():
        raise UserError(f"{config.from_folder}: no such folder. See docs/gre_folder.md for the folder layout")
    return config


def _not_taken_up(edition: Edition) -> str:
    """A note for users who changed the folder of papers since then."""
    config = edition.config.collect
    if config is None or config.from_folder is None:
        return ""
    return f"; later changes in {config.from_folder} are not included. To include them, collect into another folder"


def _refuse_other_papers(edition: Edition, planned: Edition, study: Study) -> None:
    """Reject changed settings of the draw, as far as the study itself does not record them."""
    before, after = edition.config.collect, planned.config.collect
    if before is None or after is None:
        return
    whole = [name for name in CollectConfig.model_fields if name != "fewer_ok"]
    names = whole if noted_draw(study) is None else ["reader"]
    changed = [name for name in names if getattr(after, name) != getattr(before, name)]
    if changed:
        shown = ", ".join(f"{name} {getattr(before, name)}, not {getattr(after, name)}" for name in changed)
        raise UserError(f"{edition.folder}: the papers were drawn with other settings ({shown}). Use another folder")


def _one_source(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which one source removes the other."""
    named = [name for name in SOURCE if settings.get(name) is not None]
    return {**dict.fromkeys(SOURCE if named else ()), **settings}


# --- reviews -------------------------------------------------------------------------------------------------------


async def review_edition(
    edition: Edition,
    settings: Mapping[str, Any],
    *,
    models: Mapping[str, Mapping[str, Any]] | None = None,
    only: Sequence[str] | None = None,
    stand_ins: Mapping[str, ChatModel] | None = None,
    asking: Asking | None = None,
) -> tuple[Edition, Generated]:
    """Write models' reviews of the papers of an edition.

    ``settings``: of the config's table ``review``. ``models``: more of its table ``models``, by agent. ``only``: the
    agents that are to review now; all by default. ``stand_ins``: models themselves, by agent, instead of their names.
    """
    asked = {"review": settings, "models": models or {}}
    _refuse_other_models(edition, models or {})
    planned = edition.planned(asked)
    study = planned.whole_study()
    chosen = _chosen(planned, only)
    if submitted := [one.name for one in read_log(edition.folder) if one.name in chosen]:
        raise UserError(f"names of submissions: {', '.join(submitted)}. Give the models other names: NAME=MODEL")
    request = ReviewRequest(
        models=chosen, stand_ins=stand_ins or {}, review=planned.config.review, asking=asking or Asking()
    )
    specs = {name: planned.config.models[name].model for name in {**chosen, **(models or {})}}
    named: dict[str, str | ChatModel] = {**specs, **request.stand_ins}
    finished = finished_models(study, named, settled_reviews(study, request.ways))
    check_models((model, "chat") for name, model in named.items() if name not in finished)
    check_before_asking(edition.study_folder, study, replaced_reviews(study, request.ways))
    if (registered := check_registration(planned)) is not None:
        request.asking.say(registered.sentence)
    generated = await generate_reviews(study, request)
    add_reviews(edition.study_folder, generated, facts=planned.models)
    return edition.with_settings(asked), generated


def _refuse_other_models(edition: Edition, models: Mapping[str, Mapping[str, Any]]) -> None:
    """Reject a name that another model has: the reviews and facts of the two would be mixed up."""
    known = edition.config.models
    taken = [
        f"{name} is {known[name].model}, not {given['model']}"
        for name, given in models.items()
        if name in known and given.get("model", known[name].model) != known[name].model
    ]
    if taken:
        raise UserError(
            f"{edition.folder}: {'; '.join(taken)}. Give the new model another name, or change it in edition.toml "
            "with its size, family and cutoff; its reviews then replace the old ones"
        )


def _chosen(edition: Edition, only: Sequence[str] | None) -> dict[str, ModelConfig]:
    models = edition.config.models
    if not models:
        raise UserError(f"{edition.folder}: no models. Add some with --models, or in edition.toml")
    if unknown := [name for name in only or () if name not in models]:
        raise UserError(f"unknown models: {', '.join(unknown)}. The edition has: {', '.join(models)}")
    return {name: model for name, model in models.items() if only is None or name in only}


# --- scores --------------------------------------------------------------------------------------------------------


async def score_edition(
    edition: Edition,
    settings: Mapping[str, Any],
    *,
    run: str | None = None,
    stand_ins: Mapping[str, Any] | None = None,
    asking: Asking | None = None,
) -> tuple[Edition, EditionScores]:
    """Score an edition, and write its leaderboards into its run folder with evidence and report.

    ``settings``: of the config's table ``score``; those of another ``run`` beside the edition's own stay out of the
    config. ``stand_ins``: models themselves for ``scorer``, ``rewriters`` or ``synopsis_writer``.
    """
    planned = edition.planned({"score": settings})
    study, asking = planned.study(), asking or Asking()
    folder = edition.run_folder(run)
    options = replace(_score_options(planned, study, asking), **(stand_ins or {}))
    _check_scoring(study, options, set(settings))
    try_writing(edition.folder, "Results are written there; make it writable")
    check_writable(folder, option="--run")
    if "metrics" not in settings and options.metrics != METRICS:
        asking.say(f"metrics from {CONFIG}: {', '.join(planned.config.score.metrics)}. Choose others with --metric")
    spare = free_name(folder)
    with edition.trying({"score": settings} if run in {None, RUN} else {}) as tried:
        evaluation = await evaluate_study(study, options)
    hidden = await _hidden_evaluation(planned, options, evaluation)
    config = planned.config.score
    draws: Draws = {"seed": config.seed, "resamples": config.resamples, "level": config.level}
    public = PublicResults(
        check_registration(planned),
        None if hidden is None else holding(planned.whole_study(), evaluation, hidden, draws),
        submission_results(read_log(edition.folder), study, evaluation, draws),
    )
    scores = replace(edition_scores(planned, study, evaluation), public=public)
    if would_lose(folder, scores):
        folder.rename(spare)
        asking.say(f"{folder}: earlier results with other settings, cutoffs or reviews were moved to {spare}")
    save_run(evaluation, folder)
    save_scores(scores, folder)
    if hidden is not None:
        save_run(hidden, folder / INJECTED)
    return tried, replace(scores, standing=save_standing(edition, draws))


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


def hidden_study(whole: Study) -> Study | None:
    """The second versions of papers, with the reviews of all but the human baseline; None if there are none."""
    second = injected_papers(whole)
    if not second:
        return None
    return whole.subset(tasks=second, agents=[agent.agent for agent in whole.agents if agent.agent != HUMAN])


def _score_options(edition: Edition, study: Study, asking: Asking) -> Options:
    config = edition.config.score
    return asking.options(
        rewriters=config.rewriter,
        templates=config.template,
        pairing=edition_pairing(study),
        told=reviews_told(study, demonstration=edition.config.demonstration),
        **config.model_dump(exclude={"rewriter", "template"}),
    )


def _check_scoring(study: Study, options: Options, named: Collection[str]) -> None:
    """Check that the study can be scored, without calling a model. ``named``: settings given now."""
    check_options(options)
    with warnings.catch_warnings():
        # the run itself warns of the same
        warnings.simplefilter("ignore")
        parts = [(part.given, part.use) for part in plan_run(study, options).parts()]
    given: list[tuple[Any, Use]] = [(options.scorer, "scoring")] if "scorer" in named else []
    given += [(model, "chat") for model in options.rewriters] if "rewriter" in named else []
    given += [(options.synopsis_writer, "chat")] if "synopsis_writer" in named else []
    check_models([*given, *parts])


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


def check_models(given: Iterable[tuple[Any, Use]]) -> None:
    """Reject model specs that are not valid or not available here, with all problems at once.

    Nothing is loaded or sent. Model objects are not checked. Messages do not repeat addresses, which may contain
    secrets.
    """
    wrong = []
    for spec, use in given:
        if not isinstance(spec, str):
            continue
        try:
            open_model(spec, use=use)
        except UserError as error:
            wrong.append(error)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        raise UserError("\n".join(dict.fromkeys(map(str, wrong))))
