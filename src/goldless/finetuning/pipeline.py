"""Fine-tuning from end to end: study → split → examples → held out before → training → held out after."""

from __future__ import annotations

import importlib
import json
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any

import anyio
import anyio.to_thread
import polars as pl

from goldless._version import __version__
from goldless.errors import CanaryError, PrerequisiteError, UserError
from goldless.files import write_text
from goldless.finetuning.material import RESPONSES, ExampleSet, Material, build_examples, choose_material
from goldless.finetuning.options import FinetuneOptions, check_finetune_options
from goldless.finetuning.result import Canaries, Counts, Finetuned, compare_held_out, held_out_evidence
from goldless.finetuning.training_folder import (
    ADAPTER,
    CHECKPOINTS,
    RESULT_FILE,
    Training,
    TrainingPlan,
    check_folder,
    finished_training,
    optimizer_for,
    settle_plan,
    template_words,
    trained_base,
)
from goldless.models.cache import default_journal
from goldless.models.canaries import CanaryReport, check_scorer
from goldless.models.interface import ModelIdentity, content_hash
from goldless.models.journal import Journal
from goldless.models.local_weights import HfModel
from goldless.models.local_weights.specification import HfSpecification, parse_specification
from goldless.runs.opening import TRAINED_ON, OpenModel, Part, open_models, task_marks
from goldless.runs.options import Options
from goldless.runs.progress import Progress
from goldless.studies import Study

INSTALL = "pip install 'goldless[finetune]'"


async def finetune_study(study: Study, options: FinetuneOptions) -> Finetuned:
    """An adapter trained on part of a study, with the log-likelihood of the rest before and after.

    Another run of the same plan resumes where the first stopped.
    """
    check_finetune_options(options)
    specification = _base(options.base)
    material = choose_material(study, options)
    check_folder(options.out)
    _require_extra(options)
    from goldless.finetuning.training import check_targets  # noqa: PLC0415 - it imports torch and peft

    async with _opened(HfModel(specification), options) as (model, journal):
        check_targets(specification.base, options.recipe)
        base_canaries = await _base_canaries(model, journal) if options.check_base else None
        examples = await _examples(material, model, options)
        plan = _plan(material, options, model.identity, examples)
        begun = settle_plan(options.out, plan)
        before = await _held_out(material, model, options, "before")
        spending = [model.spending]
    training = await _trained(specification, plan, material, examples, options, begun=begun)
    tuned = HfModel(replace(specification, adapter=str(options.out / ADAPTER)))
    async with _opened(tuned, options) as (model, journal):
        try:
            canaries = Canaries(base_canaries, await check_scorer(model.model, journal), None)
        except CanaryError as error:  # the adapter is kept, and the result says so
            canaries = Canaries(base_canaries, None, str(error))
        after = await _held_out(material, model, options, "after")
        scorer = model.identity
        spending.append(model.spending)
    draws: dict[str, Any] = {"seed": plan.recipe.seed, "resamples": options.resamples, "level": options.level}
    found = Finetuned(
        study=study.name,
        fingerprint=study.fingerprint,
        plan=plan,
        scorer=scorer,
        adapter=options.out / ADAPTER,
        specification=f"hf:{replace(specification, adapter=str(options.out))}",
        held_out_tasks=tuple(each.task.task for each in material.held_out),
        counts=_counts(material, examples),
        **training.model_dump(),
        held_out=compare_held_out(before, after, **draws),
        level=options.level,
        canaries=canaries,
        spending=tuple(spending),
    )
    write_text(
        options.out / RESULT_FILE, json.dumps(found.as_json(), ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    )
    shutil.rmtree(options.out / CHECKPOINTS, ignore_errors=True)
    return found


def _base(written: str) -> HfSpecification:
    specification = parse_specification(written.removeprefix("hf:"))
    if specification.adapter is not None:
        raise UserError(f"--base must be a model without an adapter, got {written}. Try hf:{specification.base}")
    if specification.weights not in {None, "4bit", "nf4"}:
        raise UserError(
            f"{written}: {specification.weights} weights cannot be trained on. Use ?weights=4bit, or the model's own "
            "weights"
        )
    return specification


def _require_extra(options: FinetuneOptions) -> None:
    """Raise where a package is missing, or several GPUs are visible and there is still something to train."""
    for package in ("torch", "transformers", "datasets", "peft", "trl"):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise PrerequisiteError(
                f"fine-tuning needs {package}, which cannot be imported ({error}). Run: {INSTALL}"
            ) from error
    import torch  # noqa: PLC0415 - an extra, and slow to import

    if finished_training(options.out) is None and torch.cuda.is_available() and torch.cuda.device_count() > 1:
        raise PrerequisiteError(
            f"training uses one GPU, but {torch.cuda.device_count()} are visible. Set CUDA_VISIBLE_DEVICES=0"
        )


@asynccontextmanager
async def _opened(model: HfModel, options: FinetuneOptions) -> AsyncIterator[tuple[OpenModel, Journal]]:
    """The loaded model behind the journal, and the journal; releases the model's memory afterwards."""
    journal = Journal(options.journal or default_journal())
    try:
        async with open_models([Part("scorer", model, "scoring")], Options(say=options.say), journal) as models:
            yield models["scorer"], journal
    finally:
        await model.aclose()
        journal.close()


async def _base_canaries(model: OpenModel, journal: Journal) -> CanaryReport:
    try:
        return await check_scorer(model.model, journal)
    except CanaryError as error:
        raise CanaryError(f"{error}. To train on it anyway, use --untested-base") from error


async def _examples(material: Material, model: OpenModel, options: FinetuneOptions) -> ExampleSet:
    trained = material.trained
    told = options.tell("building examples", len(trained))
    stages, max_length = material.stages(model.scorer), options.recipe.max_length
    examples = await build_examples(trained, stages, max_length=max_length, done=told)
    if not examples.examples:
        why = ", ".join(f"{count} {kind}" for kind, count in examples.left_out.items())
        raise UserError(f"no examples to train on ({why}). Raise --max-length, or use shorter texts")
    return examples


def _counts(material: Material, examples: ExampleSet) -> Counts:
    return Counts(
        tasks_trained=len(material.trained),
        tasks_held_out=len(material.held_out),
        tasks_too_few=material.tasks_too_few,
        texts_missing=material.texts_missing,
        held_out_texts_seen=material.texts_seen,
        held_out_synopses_seen=material.synopses_seen,
        examples=len(examples.examples),
        tokens=examples.tokens,
        left_out=examples.left_out,
    )


def _plan(material: Material, options: FinetuneOptions, base: ModelIdentity, examples: ExampleSet) -> TrainingPlan:
    held_out = [[each.task.task, dict(each.texts), dict(each.task.synopses)] for each in material.held_out]
    return TrainingPlan(
        base=trained_base(base),
        template=material.template,
        texts=material.rewriter or RESPONSES,
        synopsis=material.synopsis,
        recipe=options.recipe,
        optimizer=optimizer_for(base.settings.get("device", "")),
        examples=examples.digest,
        held_out=content_hash(held_out),
    )


async def _held_out(material: Material, model: OpenModel, options: FinetuneOptions, when: str) -> pl.DataFrame:
    tasks = material.held_out
    told = options.tell(f"held-out tasks {when}", len(tasks), lambda: model.ledger.usage.input_tokens)
    return await held_out_evidence(tasks, material.stages(model.scorer), done=told)


async def _trained(
    specification: HfSpecification,
    plan: TrainingPlan,
    material: Material,
    examples: ExampleSet,
    options: FinetuneOptions,
    *,
    begun: bool,
) -> Training:
    """Train in a thread, which stops at its next batch when cancelled."""
    # these modules import torch, peft and trl
    from goldless.finetuning.training import release_memory, train_adapter  # noqa: PLC0415
    from goldless.models.local_weights.checkpoint import load_checkpoint  # noqa: PLC0415
    from goldless.models.local_weights.engine import explained_memory  # noqa: PLC0415

    if begun and (finished := finished_training(options.out)) is not None:
        options.say(f"{options.out}: the training is already finished; using its adapter")
        return finished
    if begun:
        options.say(f"{options.out}: resuming the training")
    stopping = threading.Event()

    def work() -> Training:
        release_memory()
        try:
            with explained_memory():
                checkpoint = load_checkpoint(specification)
            if checkpoint.identity.revision != plan.base.revision:
                raise UserError(f"hf:{specification.base}: the model changed while in use. Run the command again")
            return train_adapter(
                checkpoint,
                examples.examples,
                plan.recipe,
                options.out,
                optimizer=plan.optimizer,
                record=_record(plan, material),
                save_every=options.save_every,
                progress=lambda done, total: options.progress(Progress("training", done, total, 0, 0.0)),
                cancelled=stopping.is_set,
            )
        finally:
            release_memory()

    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    finally:
        stopping.set()


def _record(plan: TrainingPlan, material: Material) -> dict[str, Any]:
    """The adapter's record: its base, its prompts, and hashes of its tasks."""
    trained = [(each.task, material.study.responses(each.task.task)) for each in material.trained]
    return {
        "goldless": __version__,
        "base": {
            "name": plan.base.name.partition("?")[0],
            "revision": plan.base.revision,
            "tokenizer": plan.base.tokenizer,
            "weights": plan.base.settings.get("weights", "as saved"),
        },
        "template": template_words(plan.template),
        "texts": plan.texts,
        "synopsis": plan.synopsis,
        "recipe": asdict(plan.recipe),
        TRAINED_ON: sorted({mark for task, responses in trained for mark in task_marks(task, responses)}),
    }
