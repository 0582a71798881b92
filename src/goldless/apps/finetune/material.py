"""The material of a training: which tasks are trained on and which are held out, three texts of each, and the examples.

Draws go by hashes of names, so that a task more or less in the study changes little else. What a scorer is trained on
is, for every question it will be asked, the very token ids it will be asked with. Of three responses r1, r2, r3 of a
task these are gen(x, y) for the six ordered pairs and gen(Null, y) for each, once without synopsis (GEM) and once with
it (GEM-S): 9 + 9 (GEM, appendix E.1). They are made by the code that scores.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goldless.apps.finetune.options import FinetuneOptions
from goldless.errors import CapabilityError, UserError, check_known
from goldless.models.interface import content_hash
from goldless.records import CallFailure, Task
from goldless.runs.plan import recorded_preprocessors
from goldless.scoring import Question, ScoringStage, questions
from goldless.studies import Study
from goldless.templates import Template, find_template

ABSTRACT = "abstract"
RESPONSES = "responses"
"""Name of the original responses in a plan."""
RESPONSES_A_TASK = 3
"""As in the paper: three responses make six ordered pairs and three marginals."""

Rewrites = Mapping[tuple[str, str], str | CallFailure]
"""By task and agent."""


@dataclass(frozen=True)
class TaskTexts:
    """A task with the texts drawn of it."""

    task: Task
    texts: Mapping[str, str]
    """By agent; always three."""

    @property
    def questions(self) -> list[Question]:
        return list(questions(list(self.texts)))


@dataclass(frozen=True)
class TrainingMaterial:
    """The training and held-out data, before any model is loaded."""

    study: Study
    template: Template
    rewriter: str | None
    """None: the original responses."""
    synopsis: str | None
    trained: tuple[TaskTexts, ...]
    held_out: tuple[TaskTexts, ...]
    tasks_too_few: int
    """Tasks with fewer than three usable responses."""
    texts_missing: int
    """Responses without a recorded rewrite."""

    def stages(self, scorer: Any) -> list[ScoringStage]:
        """The ways of asking a scorer: for GEM, and for GEM-S if there is a synopsis."""
        ways = [None] if self.synopsis is None else [None, self.synopsis]
        return [ScoringStage(scorer, self.template, self.rewriter, name) for name in ways]


def choose_material(
    study: Study, verb_options: FinetuneOptions, say: Callable[[str], None] = lambda _: None
) -> TrainingMaterial:
    """Choose tasks and texts by the options; at least one task is trained on and one held out."""
    rewriter, rewrites = (None, None) if verb_options.raw else _rewrites(study, verb_options)
    if verb_options.agents and len(set(verb_options.agents)) < RESPONSES_A_TASK:
        raise UserError(
            f"--agents must name at least {RESPONSES_A_TASK} agents, got {len(set(verb_options.agents))}: "
            f"{', '.join(verb_options.agents)}"
        )
    chosen = study.subset(agents=verb_options.agents) if verb_options.agents else study
    template, synopsis = find_template(verb_options.template), _synopsis(study, verb_options, say)
    usable: list[TaskTexts] = []
    too_few = missing = 0
    for task, responses in chosen:
        texts = {
            each.agent: text
            for each in responses
            if isinstance(text := each.text if rewrites is None else rewrites.get((each.task, each.agent)), str)
            and text.strip()
        }
        missing += len(responses) - len(texts)
        if len(texts) < RESPONSES_A_TASK:
            too_few += 1
            continue
        order = sorted(texts, key=lambda agent: content_hash("response", verb_options.seed, task.task, agent))
        drawn = order[:RESPONSES_A_TASK]
        usable.append(TaskTexts(task, {agent: text for agent, text in texts.items() if agent in drawn}))
    if len(usable) < 2:
        raise UserError(
            f"at least 2 tasks must have {RESPONSES_A_TASK} usable responses, one to train on and one to hold out; "
            f"got {len(usable)}"
        )
    count = min(max(1, round(verb_options.held_out * len(usable))), len(usable) - 1)
    names = sorted(
        (each.task.task for each in usable), key=lambda name: content_hash("held out", verb_options.seed, name)
    )
    trained, held_out = (
        tuple(each for each in usable if (each.task.task in names[:count]) == aside) for aside in (False, True)
    )
    return TrainingMaterial(study, template, rewriter, synopsis, trained, held_out, too_few, missing)


def _rewrites(study: Study, verb_options: FinetuneOptions) -> tuple[str, Rewrites]:
    """The recorded rewrites to train on, with the name of their rewriter."""
    recorded = recorded_preprocessors(study)
    if not recorded:
        raise UserError(
            f"{study.name} has no recorded rewrites, and GEM scores rewritten responses. Create them with goldless "
            "score STUDY --metric gem --rewriter MODEL --out RUN and fine-tune on RUN, or train on the original "
            "responses with --raw (for gem-raw)"
        )
    names = list(dict.fromkeys(each.name for each in recorded))
    if verb_options.rewriter is not None:
        check_known([verb_options.rewriter], names, f"{study.name} has no rewrites by", "Rewriters")
    chosen = [each for each in recorded if verb_options.rewriter in {None, each.name}]
    if len(chosen) > 1:
        # of one rewriter, prefer those made with the template to train
        chosen = [each for each in chosen if each.template == find_template(verb_options.template).name] or chosen
    if len(chosen) > 1:
        raise UserError(f"{study.name} has several sets of rewrites ({', '.join(names)}). Choose one with --rewriter")
    return chosen[0].name, chosen[0].texts()


def _synopsis(study: Study, verb_options: FinetuneOptions, say: Callable[[str], None]) -> str | None:
    """The synopsis for GEM-S; None if there is none."""
    wanted = verb_options.synopsis or ABSTRACT
    if wanted in study.synopses:
        return wanted
    if verb_options.synopsis is not None:
        check_known([wanted], study.synopses, "no task has a synopsis", "Known synopses")
    metric = "gem-raw" if verb_options.raw else "gem"
    say(f"no task has a synopsis {ABSTRACT!r}, so the adapter is trained without one, for {metric} but not for gem-s")
    return None


# --- examples ------------------------------------------------------------------------------------------------------

IGNORED = -100
"""Label of positions that are not predicted, in transformers."""


@dataclass(frozen=True)
class Example:
    """One text to predict, as token ids."""

    task: str
    question: Question
    synopsis: str | None
    """Name of the synopsis, if any."""
    ids: array[int]
    """Context and target, joined."""
    target_tokens: int
    """Number of target tokens at the end: the positions that are scored and trained on."""

    @property
    def labels(self) -> list[int]:
        """The ids of the target, with everything before it ignored."""
        context = len(self.ids) - self.target_tokens
        return [IGNORED] * context + list(self.ids[context:])


@dataclass(frozen=True)
class ExampleSet:
    """Examples, and questions without one."""

    examples: tuple[Example, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of questions without an example, by reason."""

    @property
    def digest(self) -> str:
        return content_hash([content_hash(e.ids.tolist(), e.target_tokens) for e in self.examples])


async def build_examples(
    tasks: Sequence[TaskTexts],
    stages: Sequence[ScoringStage],
    *,
    max_length: int,
    done: Callable[[int], None] = lambda _: None,
) -> ExampleSet:
    """The examples of all tasks; ``done`` receives the number of finished tasks."""
    examples: list[Example] = []
    left_out: Counter[str] = Counter()
    for count, each in enumerate(tasks, 1):
        for stage in stages:
            for question in each.questions:
                request = await stage.request(each.task, question, each.texts)
                if isinstance(request, CallFailure):
                    left_out[request.kind] += 1
                elif isinstance(request.context, str) or isinstance(request.target, str):
                    raise CapabilityError("this model takes text; only models with known token ids can be trained")
                elif not request.context or not request.target:
                    left_out["rejected"] += 1
                elif request.tokens > max_length:
                    left_out["too_long"] += 1
                else:
                    ids = array("i", (*request.context, *request.target))
                    examples.append(Example(each.task.task, question, stage.synopsis, ids, len(request.target)))
        done(count)
    if not examples:
        why = ", ".join(f"{count} {kind}" for kind, count in sorted(left_out.items()))
        raise UserError(f"no examples to train on ({why}). Raise --max-length, or use shorter texts")
    return ExampleSet(tuple(examples), dict(sorted(left_out.items())))
