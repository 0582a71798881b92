"""Fine-tuning from end to end: study → split → examples → held out before → training → held out after."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any

import anyio
import anyio.to_thread
import polars as pl

from goldless._version import __version__
from goldless.errors import CanaryError, PrerequisiteError, UserError
from goldless.files import write_text
from goldless.finetuning.held_out import compare_held_out, held_out_evidence
from goldless.finetuning.material import (
    RESPONSES,
    ExampleSet,
    Material,
    build_examples,
    choose_material,
    scoring_stages,
)
from goldless.finetuning.options import FinetuneOptions, check_finetune_options
from goldless.finetuning.result import Canaries, Counts, Finetuned
from goldless.finetuning.training_folder import (
    ADAPTER,
    CHECKPOINTS,
    RESULT_FILE,
    Training,
    TrainingPlan,
    check_folder,
    finished_training,
    optimizer_for,
    remove_checkpoints,
    settle_plan,
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
    _require_extra()
    _require_one_card(options)
    async with _opened(HfModel(specification), options) as (model, journal):
        _check_targets(specification, options)
        base = model.identity
        base_canaries = await _base_canaries(model, journal) if options.check_base else None
        stages = _stages(material, model)
        trained = material.split.trained
        told = options.tell("building examples", len(trained))
        examples = await build_examples(trained, stages, max_length=options.recipe.max_length, done=told)
        plan = _plan(material, options, base, examples)
        begun = settle_plan(options.out, plan, examples)
        before = await _held_out(material, model, options, "before")
        spending = [model.spending]
    training = await _trained(specification, plan, examples, options, record=_record(plan, material), begun=begun)
    tuned = HfModel(replace(specification, adapter=str(options.out / ADAPTER)))
    async with _opened(tuned, options) as (model, journal):
        canaries = await _adapter_canaries(base_canaries, model, journal)
        after = await _held_out(material, model, options, "after")
        scorer = model.identity
        spending.append(model.spending)
    found = Finetuned(
        study=study.name,
        fingerprint=study.fingerprint,
        plan=plan,
        scorer=scorer,
        adapter=options.out / ADAPTER,
        specification=f"hf:{replace(specification, adapter=str(options.out))}",
        held_out_tasks=tuple(each.task.task for each in material.split.held_out),
        counts=_counts(material, examples),
        **training.model_dump(),
        held_out=compare_held_out(
            before, after, seed=plan.recipe.seed, resamples=options.resamples, level=options.level
        ),
        level=options.level,
        canaries=canaries,
        spending=tuple(spending),
    )
    write_text(
        options.out / RESULT_FILE, json.dumps(found.as_json(), ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    )
    remove_checkpoints(options.out / CHECKPOINTS, plan.digest)
    return found


# --- before anything is loaded ----------------------------------------------------------------------------------------


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


def _require_extra() -> None:
    for package in ("torch", "transformers", "datasets", "peft", "trl"):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise PrerequisiteError(
                f"fine-tuning needs {package}, which cannot be imported ({error}). Run: {INSTALL}"
            ) from error


def _require_one_card(options: FinetuneOptions) -> None:
    """Reject several GPUs if there is still something to train."""
    import torch  # noqa: PLC0415 - an extra, and slow to import

    if finished_training(options.out) is None and torch.cuda.is_available() and torch.cuda.device_count() > 1:
        raise PrerequisiteError(
            f"training uses one GPU, but {torch.cuda.device_count()} are visible. Set CUDA_VISIBLE_DEVICES=0"
        )


# --- with the model ---------------------------------------------------------------------------------------------------


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


def _check_targets(specification: HfSpecification, options: FinetuneOptions) -> None:
    """Reject a base that no adapter fits, before computing anything with it."""
    from goldless.finetuning.training import check_targets  # noqa: PLC0415 - it imports torch and peft

    check_targets(specification.base, options.recipe)


async def _base_canaries(model: OpenModel, journal: Journal) -> CanaryReport:
    """Canary results of the base. Raises CanaryError with the option to train it anyway."""
    try:
        return await check_scorer(model.model, journal)
    except CanaryError as error:
        raise CanaryError(f"{error}. To train on it anyway, use --untested-base") from error


async def _adapter_canaries(base: CanaryReport | None, model: OpenModel, journal: Journal) -> Canaries:
    """Canary results of the adapter; one that fails them is kept, and the result says so."""
    try:
        return Canaries(base, await check_scorer(model.model, journal), None)
    except CanaryError as error:
        return Canaries(base, None, str(error))


def _stages(material: Material, model: OpenModel) -> Any:
    return scoring_stages(model.scorer, material.template, rewriter=material.rewriter, synopsis=material.synopsis)


def _plan(material: Material, options: FinetuneOptions, base: ModelIdentity, examples: ExampleSet) -> TrainingPlan:
    held_out = [[each.task.task, dict(each.texts), dict(each.task.synopses)] for each in material.split.held_out]
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
    tasks = material.split.held_out
    told = options.tell(f"held-out tasks {when}", len(tasks), lambda: model.ledger.usage.input_tokens)
    return await held_out_evidence(tasks, _stages(material, model), done=told)


async def _trained(
    specification: HfSpecification,
    plan: TrainingPlan,
    examples: ExampleSet,
    options: FinetuneOptions,
    *,
    record: Mapping[str, Any],
    begun: bool,
) -> Training:
    """Train in a thread, which stops at its next batch when cancelled."""
    finished = finished_training(options.out) if begun else None
    if finished is not None:
        options.say(f"{options.out}: the training is already finished; using its adapter")
        return finished
    stopping = threading.Event()
    if begun:
        options.say(f"{options.out}: resuming the training")

    def tell(done: int, total: int) -> None:
        options.progress(Progress("training", done, total, 0, 0.0))

    def work() -> Training:
        # these modules import torch, peft and trl
        from goldless.finetuning.training import release_memory, train_adapter  # noqa: PLC0415

        release_memory()
        try:
            return train_adapter(
                _checkpoint(specification, plan),
                examples.examples,
                plan.recipe,
                options.out,
                plan=plan.digest,
                optimizer=plan.optimizer,
                record=record,
                save_every=options.save_every,
                say=options.say,
                progress=tell,
                cancelled=stopping.is_set,
            )
        finally:
            release_memory()

    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    finally:
        stopping.set()


def _checkpoint(specification: HfSpecification, plan: TrainingPlan) -> Any:
    """The base, ready for training."""
    # these modules import torch
    from goldless.models.local_weights.checkpoint import load_checkpoint  # noqa: PLC0415
    from goldless.models.local_weights.network import explained_memory  # noqa: PLC0415

    with explained_memory():
        checkpoint = load_checkpoint(
            specification.base, device=specification.device, dtype=specification.dtype, weights=specification.weights
        )
    if checkpoint.revision != plan.base.revision:
        raise UserError(f"hf:{specification.base}: the model changed while in use. Run the command again")
    return checkpoint


def _record(plan: TrainingPlan, material: Material) -> dict[str, Any]:
    """The adapter's record: its base, its prompts, and hashes of its tasks."""
    trained = [(each.task, material.study.responses(each.task.task)) for each in material.split.trained]
    return {
        "goldless": __version__,
        "base": {
            "name": plan.base.name.partition("?")[0],
            "revision": plan.base.revision,
            "tokenizer": plan.base.tokenizer,
            "weights": plan.base.settings.get("weights", "as saved"),
        },
        "template": {"name": plan.template.name, **{field: getattr(plan.template, field) for field in FIELDS}},
        "texts": plan.texts,
        "synopsis": plan.synopsis,
        "recipe": asdict(plan.recipe),
        TRAINED_ON: sorted({mark for task, responses in trained for mark in task_marks(task, responses)}),
    }


def _counts(material: Material, examples: ExampleSet) -> Counts:
    split, usable = material.split, material.usable
    return Counts(
        tasks_trained=len(split.trained),
        tasks_held_out=len(split.held_out),
        tasks_too_few=len(usable.too_few),
        texts_missing=usable.texts_missing,
        held_out_texts_seen=split.texts_seen,
        held_out_synopses_seen=split.synopses_seen(material.synopsis),
        examples=len(examples.examples),
        tokens=examples.tokens,
        left_out=examples.left_out,
    )
