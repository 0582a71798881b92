"""Making an edition, stage by stage: collect papers, have models review them, score the reviews.

Each stage puts what it was asked into the edition's config and does what is not done yet, so that the same command, or
``goldless gre run``, goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.gre_bench.collected_study import write_collected
from goldless.gre_bench.config import CollectConfig, ModelConfig
from goldless.gre_bench.draw import draw_papers
from goldless.gre_bench.edition import Edition
from goldless.gre_bench.edition_scores import EditionScores, edition_scores, reviews_told, save_scores
from goldless.gre_bench.generating import Generated, GenerationOptions, add_reviews, generate_reviews
from goldless.gre_bench.openreview_venue import OpenReviewVenue
from goldless.gre_bench.paper_folder import PaperFolder
from goldless.gre_bench.papers import LeftOut, PaperSource
from goldless.models.interface import ChatModel
from goldless.models.usage import Price
from goldless.records import Agent
from goldless.runs.options import Options, Progress
from goldless.runs.pipeline import evaluate_study
from goldless.runs.store import check_writable, noted_fingerprint, save_run
from goldless.studies import Study

Say = Callable[[str], None]
Tell = Callable[[Progress], None]
SOURCE = ("venue", "from_folder")


def quiet(_: object) -> None:
    """Say nothing."""


# --- papers --------------------------------------------------------------------------------------------------------


def collect_edition(
    edition: Edition,
    settings: Mapping[str, Any],
    *,
    seconds_between_requests: float = 1.0,
    api1: str = "https://api.openreview.net",
    api2: str = "https://api2.openreview.net",
    progress: Tell = quiet,
    say: Say = quiet,
) -> tuple[Edition, tuple[LeftOut, ...]]:
    """The edition with its papers, and those that were left out; ``settings``: of the config's table ``collect``."""
    _refuse_other_papers(edition, settings)
    edition = edition.with_settings({"collect": settings})
    config = edition.config.collect
    if config is None:
        raise UserError(f"{edition.folder}: name a venue, or a folder of papers and reviews")
    if edition.collected:
        say(f"{edition.folder}: its papers were collected before")
        return edition, _left_out(edition.study())
    source: PaperSource
    if config.venue is not None:
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
    draw = draw_papers(
        source,
        papers=config.papers,
        reviews=config.reviews,
        seed=config.seed,
        fewer_ok=config.fewer_ok,
        progress=progress,
    )
    write_collected(draw, edition.study_folder)
    return edition, draw.left_out


def _refuse_other_papers(edition: Edition, settings: Mapping[str, Any]) -> None:
    """Refuse to mix papers of another draw into a study that is there."""
    before = edition.config.collect
    if before is None or not edition.collected:
        return
    other = CollectConfig.model_validate({**before.model_dump(), **_one_source(settings)})
    changed = [name for name in CollectConfig.model_fields if getattr(other, name) != getattr(before, name)]
    if changed:
        told = ", ".join(f"{name} {getattr(before, name)} and not {getattr(other, name)}" for name in changed)
        raise UserError(f"{edition.folder}: holds papers of another draw ({told}); give another folder")


def _one_source(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which naming one source takes the other away."""
    named = [name for name in SOURCE if settings.get(name) is not None]
    return {**dict.fromkeys(SOURCE if named else ()), **settings}


def _left_out(study: Study) -> tuple[LeftOut, ...]:
    table = study.table("left_out")
    rows = [] if table is None else table.to_dicts()
    return tuple(LeftOut(str(row["paper"]), row["reason"], str(row.get("detail") or "")) for row in rows)


# --- reviews -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """What asking models may cost, where replies are kept, and who is told how far it is."""

    budget_usd: float | None = None
    price: Price | None = None
    journal: Path | None = None
    progress: Tell = quiet
    say: Say = quiet


async def review_edition(
    edition: Edition,
    settings: Mapping[str, Any],
    *,
    models: Mapping[str, Mapping[str, Any]] | None = None,
    only: Sequence[str] | None = None,
    stand_ins: Mapping[str, ChatModel] | None = None,
    asking: Asking | None = None,
) -> tuple[Edition, Generated]:
    """The edition with models' reviews of its papers.

    ``settings``: of the config's table ``review``. ``models``: more of its table ``models``, by agent. ``only``: the
    agents that are to review now; all by default. ``stand_ins``: models themselves, by agent, instead of their names.
    """
    study = edition.study()
    edition = edition.with_settings({"review": settings, "models": models or {}})
    chosen = _chosen(edition, only)
    review, asking = edition.config.review, asking or Asking()
    options = GenerationOptions(
        models={name: (stand_ins or {}).get(name, model.model) for name, model in chosen.items()},
        agents={name: _agent(name, model) for name, model in chosen.items()},
        max_tokens=review.max_tokens,
        temperature=review.temperature,
        seed=review.seed,
        truncate=review.truncate,
        cut=review.cut,
        context_length={n: m.context_length for n, m in chosen.items() if m.context_length is not None},
        budget_usd=asking.budget_usd,
        price=asking.price,
        journal=asking.journal,
        progress=asking.progress,
        say=asking.say,
    )
    generated = await generate_reviews(study, options)
    add_reviews(edition.study_folder, generated)
    return edition, generated


def _chosen(edition: Edition, only: Sequence[str] | None) -> dict[str, ModelConfig]:
    models = edition.config.models
    if not models:
        raise UserError(f"{edition.folder}: no model was named; name some with --models, or in edition.toml")
    if unknown := [name for name in only or () if name not in models]:
        raise UserError(f"{', '.join(unknown)}: not among the edition's models, which are {', '.join(models)}")
    return {name: model for name, model in models.items() if only is None or name in only}


def _agent(name: str, model: ModelConfig) -> Agent:
    return Agent(name, "model", model.parameters, model.family, model.cutoff_date)


# --- scores --------------------------------------------------------------------------------------------------------


async def score_edition(
    edition: Edition,
    settings: Mapping[str, Any],
    *,
    run: str | None = None,
    stand_ins: Mapping[str, Any] | None = None,
    asking: Asking | None = None,
) -> tuple[Edition, EditionScores]:
    """The edition's leaderboards, written into its run folder with evidence and report.

    ``settings``: of the config's table ``score``; those of another ``run`` beside the edition's own stay out of the
    config. ``stand_ins``: models themselves for ``scorer``, ``rewriters`` or ``synopsis_writer``.
    """
    study = edition.study()
    if run is None:
        edition = edition.with_settings({"score": settings})
        config = edition.config.score
    else:
        config = type(edition.config.score).model_validate({**edition.config.score.model_dump(), **settings})
    asking = asking or Asking()
    options = Options(
        metrics=config.metrics,
        scorer=config.scorer,
        rewriters=config.rewriter,
        rewrite_max_tokens=config.rewrite_max_tokens,
        synopsis_writer=config.synopsis_writer,
        templates=config.template,
        pairing=edition_pairing(study),
        told=reviews_told(study),
        level=config.level,
        seed=config.seed,
        resamples=config.resamples,
        on_too_long=config.on_too_long,
        budget_usd=asking.budget_usd,
        price=asking.price,
        journal=asking.journal,
        progress=asking.progress,
        say=asking.say,
    )
    folder = edition.run_folder(run)
    check_writable(folder)
    evaluation = await evaluate_study(study, replace(options, **(stand_ins or {})))
    _make_room(folder, study)
    save_run(evaluation, folder)
    scores = edition_scores(edition, study, evaluation)
    save_scores(scores, folder)
    return edition, scores


def _make_room(folder: Path, study: Study) -> None:
    """Put results of the edition as it was before, with fewer models say, beside the new ones."""
    before = noted_fingerprint(folder)
    if before is not None and before != study.fingerprint:
        folder.rename(folder.with_name(f"{folder.name}-{before[:8]}"))


def edition_pairing(study: Study) -> dict[tuple[str, str], tuple[str, ...]]:
    """Whom each review is held against: the references of its paper. References are held against nobody."""
    references = [agent.agent for agent in study.agents if agent.group == "reference"]
    if not references:
        raise UserError(
            f"{study.name}: no agent is in the group 'reference', so reviews have nothing to be held against. An "
            "edition's study is written by goldless gre collect."
        )
    named = set(references)
    return {
        (task.task, response.agent): tuple(references)
        for task, responses in study
        for response in responses
        if response.agent not in named
    }
