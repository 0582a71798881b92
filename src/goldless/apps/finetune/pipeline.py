"""Fine-tuning from end to end: study → split → examples → held out before → training → held out after."""

from __future__ import annotations

import importlib
import json
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import Any

import anyio
import anyio.to_thread
import polars as pl

from goldless._version import __version__
from goldless.apps.finetune.material import RESPONSES, ExampleSet, Material, build_examples, choose_material
from goldless.apps.finetune.options import FinetuneOptions, check_finetune_options
from goldless.apps.finetune.result import Canaries, Counts, Finetuned, compare_held_out, held_out_evidence
from goldless.apps.finetune.training_folder import (
    ADAPTER,
    CHECKPOINTS,
    RESULT_FILE,
    Training,
    TrainingPlan,
    check_folder,
    finished_training,
    settle_plan,
)
from goldless.errors import CanaryError, PrerequisiteError, UserError
from goldless.files import write_text
from goldless.models.cache import default_journal
from goldless.models.canaries import check_scorer
from goldless.models.interface import ModelIdentity, content_hash
from goldless.models.journal import Journal
from goldless.models.local_weights import HfModel
from goldless.models.local_weights.specification import HfSpecification, parse_specification
from goldless.runs.opening import TRAINED_ON, OpenModel, Part, open_models, task_marks
from goldless.runs.options import Options
from goldless.runs.progress import Progress
from goldless.studies import Study
from goldless.templates import FIELDS

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
    async with _opened(HfModel(specification), options) as (model, journal):
        base_report = None
        if options.check_base:
            try:
                base_report = await check_scorer(model.model, journal)
            except CanaryError as error:
                raise CanaryError(f"{error}. To train on it anyway, use --untested-base") from error
        examples = await build_examples(
            material.trained,
            material.stages(model.scorer),
            max_length=options.recipe.max_length,
            done=options.tell("building examples", len(material.trained)),
        )
        plan = _plan(material, options, model.identity, examples)
        begun = settle_plan(options.out, plan)
        before = await _held_out(material, model, options, "before")
        spending = [model.spending]
    training = await _trained(specification, plan, material, examples, options, begun=begun)
    refused, report = None, None
    async with _opened(HfModel(replace(specification, adapter=str(options.out / ADAPTER))), options) as opened:
        model, journal = opened
        try:
            report = await check_scorer(model.model, journal)
        except CanaryError as error:  # the adapter is kept, and the result says so
            refused = str(error)
        after = await _held_out(material, model, options, "after")
        spending.append(model.spending)
    found = Finetuned(
        study=study.name,
        fingerprint=study.fingerprint,
        plan=plan,
        scorer=model.identity,
        adapter=options.out / ADAPTER,
        specification=f"hf:{replace(specification, adapter=str(options.out))}",
        held_out_tasks=tuple(each.task.task for each in material.held_out),
        counts=Counts(
            tasks_trained=len(material.trained),
            tasks_held_out=len(material.held_out),
            tasks_too_few=material.tasks_too_few,
            texts_missing=material.texts_missing,
            held_out_texts_seen=material.texts_seen,
            held_out_synopses_seen=material.synopses_seen,
            examples=len(examples.examples),
            tokens=sum(example.target_tokens for example in examples.examples),
            left_out=examples.left_out,
        ),
        **training.model_dump(),
        held_out=compare_held_out(
            before, after, seed=plan.recipe.seed, resamples=options.resamples, level=options.level
        ),
        level=options.level,
        canaries=Canaries(base_report, report, refused),
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


def _plan(material: Material, options: FinetuneOptions, base: ModelIdentity, examples: ExampleSet) -> TrainingPlan:
    held_out = [[each.task.task, dict(each.texts), dict(each.task.synopses)] for each in material.held_out]
    settings, template = base.settings, material.template
    # with its state in 8 bits, as in the paper, where that can run
    eight_bits = settings.get("device") == "cuda" and find_spec("bitsandbytes") is not None
    return TrainingPlan(
        # only the settings that affect training
        base=replace(base, settings={k: settings[k] for k in ("device", "dtype", "weights") if k in settings}),
        template={"name": template.name, **{field: getattr(template, field) for field in FIELDS}},
        texts=material.rewriter or RESPONSES,
        synopsis=material.synopsis,
        recipe=options.recipe,
        optimizer="adamw_8bit" if eight_bits else "adamw_torch",
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
    from goldless.apps.finetune.training import release_memory, train_adapter  # noqa: PLC0415
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
        "template": plan.template,
        "texts": plan.texts,
        "synopsis": plan.synopsis,
        "recipe": asdict(plan.recipe),
        TRAINED_ON: sorted({mark for task, responses in trained for mark in task_marks(task, responses)}),
    }
