"""Asking a judge the same questions a second time, past the journal's first answers; the second ones are kept too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from goldless.comparison.certificate import EvidenceKey, Judged
from goldless.comparison.run_scores import ReviewedMetric, Run
from goldless.errors import UserError
from goldless.evidence import judgements_frame, verdicts_frame
from goldless.judging.asking import Verdicts
from goldless.judging.critic import CriticStage, find_critic_prompt
from goldless.judging.critic_questions import CriticQuestion
from goldless.judging.judges import find_judge
from goldless.judging.licences import prompt_hash
from goldless.judging.reviewing import ReviewQuestion
from goldless.models.interface import ModelIdentity
from goldless.runs.collection import CALLS_AT_ONCE
from goldless.runs.opening import Part, Spending, open_journal, open_models
from goldless.runs.options import Options
from goldless.runs.review_evidence import ReviewCollector, named_reviewers, review_parts
from goldless.signature import Signature

REPLICATE = 1
"""The journal's number of the second asking."""


async def ask_again(judged: Judged, n: int, options: Options) -> tuple[Spending, ...]:
    """Ask n verdicts of a run a second time and keep the answers with the run; those kept already are not asked."""
    if n < 1:
        raise UserError(f"aa must be at least 1, got {n}")
    again = judged.answered_again()
    wanted = {q for unit in judged.sample(n, options.seed) for q in unit if again.get(q) is None}
    if not wanted:
        return ()
    by_run = {
        number: [q for q in judged.asked if q in wanted and q.run == number] for number in range(len(judged.runs))
    }
    ask = _ask_reviewers if judged.table == "judgements" else _ask_critic
    return await ask(judged, {number: asked for number, asked in by_run.items() if asked}, options)


# --- a critic --------------------------------------------------------------------------------------------------------


async def _ask_critic(
    judged: Judged, by_run: Mapping[int, Sequence[EvidenceKey]], options: Options
) -> tuple[Spending, ...]:
    async with (
        open_journal(options.journal) as journal,
        open_models([Part("critic", options.critic, "both")], options, journal) as models,
    ):
        opened = {name: one.replica(REPLICATE) for name, one in models.items()}
        critic = opened["critic"]
        for number, asked in by_run.items():
            _check_model("--critic", critic.identity, {question.judge for question in asked})
            run = judged.runs[number]
            verdicts = _reading(Signature.parse(run.metrics[judged.metric].signature).settings.get("verdicts", ""))
            texts = {(r.task, r.agent): r.text for _, responses in run.study for r in responses}
            for prompt in dict.fromkeys(question.way for question in asked):
                stage = CriticStage(critic.judge, find_critic_prompt(prompt), verdicts)
                own = [
                    CriticQuestion(question.task, *map(str, (question.first, question.second, question.other)))
                    for question in asked
                    if question.way == prompt
                ]
                rows = await stage.judge(own, texts, at_once=critic.at_once(CALLS_AT_ONCE))
                judged.keep(number, verdicts_frame(rows))
                options.progress(critic.progress("asking again", len(own), len(asked)))
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


# --- reviewers -------------------------------------------------------------------------------------------------------


async def _ask_reviewers(
    judged: Judged, by_run: Mapping[int, Sequence[EvidenceKey]], options: Options
) -> tuple[Spending, ...]:
    wanted = dict.fromkeys(question.judge for asked in by_run.values() for question in asked)
    named = named_reviewers(options.reviewers)
    lacking = [name for name in wanted if name not in named]
    if lacking:
        raise UserError(
            f"--aa asks the run's reviewers again: name {', '.join(lacking)} as in the review, such as "
            f"--reviewers {lacking[0]}=MODEL"
        )
    options = replace(options, reviewers={name: named[name] for name in wanted}, changer=None)
    async with (
        open_journal(options.journal) as journal,
        open_models(review_parts(options), options, journal) as models,
    ):
        opened = {name: one.replica(REPLICATE) for name, one in models.items()}
        for number, asked in by_run.items():
            run = judged.runs[number]
            as_asked = _review_options(run, judged, options)
            for name in dict.fromkeys(question.judge for question in asked):
                _check_model(f"--reviewers {name}", opened[name].identity, _model_of(run, judged.metric, name))
                own = [
                    ReviewQuestion(question.task, str(question.first or question.other), question.second)
                    for question in asked
                    if question.judge == name
                ]
                collector = ReviewCollector(run.study, as_asked, opened)
                stage, flight = collector.stage(name, find_judge(as_asked.scale)), opened[name].at_once(CALLS_AT_ONCE)
                rows = await stage.review(own, collector.texts, collector.prompts, at_once=flight)
                judged.keep(number, judgements_frame(rows))
                options.progress(opened[name].progress(f"asking {name} again", len(own), len(asked)))
        return tuple({model.identity.short: model.spending for model in opened.values()}.values())


def _model_of(run: Run, metric: str, name: str) -> set[str]:
    """The short name of a reviewer's model, as the run recorded it."""
    if isinstance(run.metrics[metric], ReviewedMetric) and run.review is not None:
        models = {one.model for one in run.review.reviewers if one.name == name}
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
    scale = str(judged.scale)
    if not isinstance(run.metrics[judged.metric], ReviewedMetric) or run.review is None:
        return replace(options, scale=scale)
    noted, settings = run.review.settings, Signature.parse(run.review.signature).settings
    readings = {_reading(reading) for reading in noted.readings.values()}
    asked = replace(
        options,
        scale=scale,
        task_description=noted.task_description,
        descriptions=dict(noted.descriptions),
        debate=settings.get("debate"),
        verdicts=readings.pop() if len(readings) == 1 else options.verdicts,
    )
    wordings = settings.get("wording", "").split("+")
    for name in named_reviewers(options.reviewers):
        described = asked.descriptions.get(name, asked.task_description)
        if prompt_hash(find_judge(scale), described)[:8] not in wordings:
            raise UserError(
                f"{run.name}: this version of goldless asks {name} in other words than the run did, so a second "
                "answer would be to another question. Review again"
            )
    return asked
