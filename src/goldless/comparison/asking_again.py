"""Asking a judge the same questions a second time, past the journal's first answers; the second ones are kept too."""

from __future__ import annotations

from goldless.comparison.certificate import Judged
from goldless.comparison.pairing import Run
from goldless.errors import UserError
from goldless.evidence import judgements_frame, verdicts_frame
from goldless.judging.asking import ReviewQuestion, ReviewStage, Verdicts
from goldless.judging.judges import find_critic_prompt, find_judge
from goldless.judging.licences import prompt_hash
from goldless.models.interface import ModelIdentity
from goldless.runs.opening import Part, Spending, open_journal, open_models
from goldless.runs.options import Options
from goldless.runs.review_evidence import named_reviewers, review_parts, reviewer_stage, shown

REPLICATE = 1
"""The journal's number of the second asking."""


async def ask_again(judged: Judged, n: int, options: Options) -> tuple[Spending, ...]:
    """Ask n verdicts of a run a second time and keep the answers with the run; those kept already are not asked."""
    if n < 1:
        raise UserError(f"aa must be at least 1, got {n}")
    wanted = judged.questions(n, options.statistics.seed)
    if wanted.is_empty():
        return ()
    critic = judged.table == "verdicts"
    if critic:
        parts = [Part("critic", options.scoring.critic, "both")]
    else:
        named = named_reviewers(options.review.reviewers)
        names = wanted["reviewer"].unique(maintain_order=True).to_list()
        lacking = [name for name in names if name not in named]
        if lacking:
            raise UserError(
                f"--aa asks the run's reviewers again: name {', '.join(lacking)} as in the review, such as "
                f"--reviewers {lacking[0]}=MODEL"
            )
        options = options.changed(reviewers={name: named[name] for name in names}, changer=None)
        parts = review_parts(options)
    async with open_journal(options.models.journal) as journal, open_models(parts, options, journal) as models:
        opened = {name: one.replica(REPLICATE) for name, one in models.items()}
        judge, way = ("critic", "prompt") if critic else ("reviewer", "format")
        for (number, name, asked_in), rows in wanted.group_by("run", judge, way, maintain_order=True):
            run, asked = judged.sides.runs[int(str(number))], rows.rows(named=True)
            model = opened["critic" if critic else str(name)]
            noted = _review_options(run, judged, options)
            if critic:
                _check_model("--critic", model.identity, {str(name)})
                said = run.metrics[judged.metric].settings.get("verdicts", "")
                stage = ReviewStage(model.judge, find_critic_prompt(str(asked_in)), verdicts=_reading(said))
            else:
                _check_model(f"--reviewers {name}", model.identity, _model_of(run, judged.metric, str(name)))
                stage = reviewer_stage(noted, str(name), model, noted.review.chosen_scale)
            about = [
                ReviewQuestion(r["task"], r["first"] or r["agent"], r["second"], r.get("second_task")) for r in asked
            ]
            at_once = model.at_once()
            found = await stage.review(about, *shown(run.study), at_once=at_once)
            judged.keep(run, verdicts_frame(found) if critic else judgements_frame(found))
            told = "asking again" if critic else f"asking {name} again"
            options.progress(model.progress(told, len(asked), len(asked)))
        return tuple({model.identity.short: model.spending for model in opened.values()}.values())


def _check_model(option: str, identity: ModelIdentity, known: set[str]) -> None:
    other = sorted(known - {identity.short})
    if other:
        raise UserError(
            f"{option} must be the judge of the run, {', '.join(other)}, got {identity.short}. A certificate of "
            "another model says nothing about this one"
        )


def _reading(said: str) -> Verdicts:
    """The way verdicts are asked for; ``auto`` reads probabilities where there are any."""
    return "labels" if said.startswith("label") else "auto"


def _model_of(run: Run, metric: str, name: str) -> set[str]:
    """The short name of a reviewer's model, as the run recorded it."""
    review = run.metrics[metric].review
    if review is not None:
        models = {one.model for one in review.reviewers if one.name == name}
    else:
        identity = None if run.leaderboard is None else run.leaderboard.models.get(name)
        models = {None if identity is None else identity.short}
    found = {model for model in models if model is not None}
    if not found:
        raise UserError(
            f"the judgements of {name} in {run.name} are recorded ones, so its model cannot be asked again. Give a "
            "run of the same questions asked a second time with --second-run"
        )
    return found


def _review_options(run: Run, judged: Judged, options: Options) -> Options:
    """The options that the run's reviewers were asked with."""
    review, scale = run.metrics[judged.metric].review, judged.scale or options.review.scale
    if review is None:
        return options.changed(scale=scale)
    noted, settings = review.instructions, review.settings
    readings = {_reading(reading) for reading in noted.readings.values()}
    asked = options.changed(
        scale=scale,
        task_description=noted.task_description,
        descriptions=dict(noted.descriptions),
        debate=settings.get("debate"),
        verdicts=readings.pop() if len(readings) == 1 else options.models.verdicts,
    )
    wordings = settings.get("wording", "").split("+")
    for name in named_reviewers(options.review.reviewers):
        described = asked.review.descriptions.get(name, asked.review.task_description)
        if prompt_hash(find_judge(scale), described)[:8] not in wordings:
            raise UserError(
                f"{run.name}: this version of goldless asks {name} in other words than the run did, so a second "
                "answer would be to another question. Review again"
            )
    return asked
