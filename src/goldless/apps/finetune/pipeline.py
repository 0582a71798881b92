"""Fine-tuning from end to end: study → split → examples → held out before → training → held out after.

A training folder has its plan, the trainer's checkpoints, the adapter and the result. The plan is everything that must
be the same for a second run to go on where the first one stopped; a finished training is never done again.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import polars as pl

from goldless import __version__
from goldless.apps.finetune.material import RESPONSES, ExampleSet, TrainingMaterial, build_examples, choose_material
from goldless.apps.finetune.options import FinetuneOptions
from goldless.apps.finetune.result import (
    ADAPTER,
    CHECKPOINTS,
    RESULT_FILE,
    TRAINING_FILE,
    Canaries,
    Counts,
    Finetuned,
    Training,
    TrainingPlan,
    compare_held_out,
    held_out_evidence,
)
from goldless.errors import CanaryError, PrerequisiteError, UserError
from goldless.files import write_json
from goldless.models.interface import ModelIdentity, content_hash
from goldless.models.local_weights import HfModel
from goldless.models.local_weights.specification import ADAPTER_CONFIG, TRAINING_PLAN, HfSpecification
from goldless.reports.document import read, read_document, write
from goldless.runs.opening import OpenModel, Part, open_journal, open_models, trained_on
from goldless.runs.option_forms import check_each
from goldless.runs.options import Options
from goldless.runs.progress import Progress
from goldless.runs.store import check_writable
from goldless.studies import Study

INSTALL = "pip install 'goldless[finetune]'"
LONG = 40
"""Longer settings are not shown in messages."""


async def finetune_study(study: Study, verb_options: FinetuneOptions, options: Options) -> Finetuned:
    """An adapter trained on part of a study, with the log-likelihood of the rest before and after.

    Another run of the same plan resumes where the first stopped.
    """
    check_each(verb_options)
    verb_options.check()
    specification = _base(verb_options.base)
    material = choose_material(study, verb_options, options.say)
    _check_folder(verb_options.folder)
    _require_extra(verb_options.folder)
    async with _opened(specification, options) as model:
        base_report = None
        if not verb_options.untested_base:
            try:
                base_report = await model.check_scorer()
            except CanaryError as error:
                raise CanaryError(f"{error}. To train on it anyway, use --untested-base") from error
        told = _teller(options, "building examples", len(material.trained))
        stages = material.stages(model.scorer)
        examples = await build_examples(material.trained, stages, max_length=verb_options.max_length, done=told)
        plan = _plan(material, verb_options, model.identity, examples)
        begun = _settle_plan(verb_options.folder, plan)
        before = await _held_out(material, model, options, "before")
        spending = [model.spending]
    record = _record(plan, material)
    training = await _trained(
        specification, plan, examples, record, verb_options=verb_options, options=options, begun=begun
    )
    refused, report = None, None
    tuned = replace(specification, adapter=str(verb_options.folder / ADAPTER))
    async with _opened(tuned, options) as model:
        try:
            report = await model.check_scorer()
        except CanaryError as error:  # the adapter is kept, and the result says so
            refused = str(error)
        after = await _held_out(material, model, options, "after")
        spending.append(model.spending)
    draws: dict[str, Any] = {
        "seed": verb_options.seed,
        "resamples": options.statistics.resamples,
        "level": options.statistics.level,
    }
    found = Finetuned(
        study=study.name,
        fingerprint=study.fingerprint,
        plan=plan,
        scorer=model.identity,
        adapter=verb_options.folder / ADAPTER,
        specification=f"hf:{replace(specification, adapter=str(verb_options.folder))}",
        held_out_tasks=tuple(each.task.task for each in material.held_out),
        counts=Counts.of(material, examples),
        training=training,
        held_out=compare_held_out(before, after, **draws),
        level=options.statistics.level,
        canaries=Canaries(base_report, report, refused),
        spending=tuple(spending),
    )
    write_json(verb_options.folder / RESULT_FILE, write(found))
    shutil.rmtree(verb_options.folder / CHECKPOINTS, ignore_errors=True)
    return found


def _teller(options: Options, stage: str, total: int, tokens: Callable[[], int] = lambda: 0) -> Callable[[int], None]:
    return lambda done: options.progress(Progress(stage, done, total, tokens(), 0.0))


def _base(written: str) -> HfSpecification:
    specification = HfSpecification.parse(written.removeprefix("hf:"))
    if specification.adapter is not None:
        raise UserError(f"--base must be a model without an adapter, got {written}. Try hf:{specification.base}")
    if specification.weights not in {None, "4bit", "nf4"}:
        raise UserError(
            f"{written}: {specification.weights} weights cannot be trained on. Use ?weights=4bit, or the model's own "
            "weights"
        )
    return specification


def _require_extra(folder: Path) -> None:
    """Raise where a package is missing, or several GPUs are visible and there is still something to train."""
    for package in ("torch", "transformers", "datasets", "peft", "trl"):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise PrerequisiteError(
                f"fine-tuning needs {package}, which cannot be imported ({error}). Run: {INSTALL}"
            ) from error
    import torch  # noqa: PLC0415 - an extra, and slow to import

    if _finished(folder) is None and torch.cuda.is_available() and torch.cuda.device_count() > 1:
        raise PrerequisiteError(
            f"training uses one GPU, but {torch.cuda.device_count()} are visible. Set CUDA_VISIBLE_DEVICES=0"
        )


@asynccontextmanager
async def _opened(specification: HfSpecification, options: Options) -> AsyncIterator[OpenModel]:
    """The loaded model behind the journal; releases its memory afterwards."""
    part = Part("scorer", f"hf:{specification}", "scoring")
    async with (
        open_journal(options.models.journal) as journal,
        open_models([part], Options(say=options.say), journal) as models,
    ):
        yield models["scorer"]


async def _held_out(material: TrainingMaterial, model: OpenModel, options: Options, when: str) -> pl.DataFrame:
    tasks = material.held_out
    told = _teller(options, f"held-out tasks {when}", len(tasks), lambda: model.ledger.usage.input_tokens)
    return await held_out_evidence(tasks, material.stages(model.scorer), done=told)


# --- the plan and its folder -----------------------------------------------------------------------------------------


def _plan(
    material: TrainingMaterial, verb_options: FinetuneOptions, base: ModelIdentity, examples: ExampleSet
) -> TrainingPlan:
    held_out = [[each.task.task, dict(each.texts), dict(each.task.synopses)] for each in material.held_out]
    settings, template = base.settings, material.template
    # with its state in 8 bits, as in the paper, where that can run
    eight_bits = settings.get("device") == "cuda" and find_spec("bitsandbytes") is not None
    return TrainingPlan(
        # only the settings that affect training
        base=replace(base, settings={k: settings[k] for k in ("device", "dtype", "weights") if k in settings}),
        template={"name": template.name, **template.texts},
        texts=material.rewriter or RESPONSES,
        synopsis=material.synopsis,
        recipe=verb_options.recipe,
        optimizer="adamw_8bit" if eight_bits else "adamw_torch",
        examples=examples.digest,
        held_out=content_hash(held_out),
    )


def _finished(folder: Path) -> Training | None:
    """The result of the training in a folder; None if it is not finished."""
    if not (folder / ADAPTER / ADAPTER_CONFIG).is_file():
        return None
    try:
        return read(Training, (folder / TRAINING_FILE).read_bytes())
    except (OSError, ValueError):
        return None


def _check_folder(folder: Path) -> None:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"{folder}: cannot write ({there} is not a writable folder). Choose another folder with --out")
    names = sorted(path.name for path in folder.iterdir()) if there == folder else []
    strange = [name for name in names if not name.startswith(".") or name == f".{ADAPTER}"]
    if strange and _read_plan(folder) is None:
        more = f" and {len(strange) - 3} more" * (len(strange) > 3)
        raise UserError(
            f"{folder} is not a training folder: it has {', '.join(strange[:3])}{more}, but no {TRAINING_PLAN}. "
            "Choose a new or empty folder with --out"
        )


def _settle_plan(folder: Path, plan: TrainingPlan) -> bool:
    """Write the plan to its folder; True if the same plan was already there, UserError if another one was."""
    check_writable(folder)
    now, before = asdict(plan), _read_plan(folder)
    if before is None:
        write_json(folder / TRAINING_PLAN, now)
    elif changed := _changed(before, json.loads(json.dumps(now))):
        raise UserError(
            f"{folder} has a training with another plan: {'; '.join(changed)}. Choose another folder, or remove that "
            "one"
        )
    return before is not None


def _read_plan(folder: Path) -> dict[str, Any] | None:
    found = read_document(folder / TRAINING_PLAN, dict)
    if found is None or (isinstance(found, dict) and {"base", "template", "recipe"} <= found.keys()):
        return found
    raise UserError(f"{folder / TRAINING_PLAN}: not a training plan. Remove the folder, or choose another one")


def _changed(before: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> list[str]:
    """Differences by setting, with values unless they are hashes, long texts or missing in one."""
    told: list[str] = []
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            told += _changed(old, new, f"{within}{key} ")
        elif old != new:
            was, is_now = ("none" if value is None else str(value) for value in (old, new))
            short = key in before and key in now and max(len(was), len(is_now)) < LONG
            told.append(f"{within}{key} was {was}, now {is_now}" if short else f"different {within}{key}")
    return told


# --- the training ----------------------------------------------------------------------------------------------------


async def _trained(
    specification: HfSpecification,
    plan: TrainingPlan,
    examples: ExampleSet,
    record: Mapping[str, Any],
    *,
    verb_options: FinetuneOptions,
    options: Options,
    begun: bool,
) -> Training:
    """Train in a thread, which stops at its next batch when cancelled."""
    # these modules import torch, peft and trl
    from goldless.apps.finetune.training import release_memory, train_adapter  # noqa: PLC0415

    if begun and (finished := _finished(verb_options.folder)) is not None:
        options.say(f"{verb_options.folder}: the training is already finished; using its adapter")
        return finished
    if begun:
        options.say(f"{verb_options.folder}: resuming the training")
    stopping = threading.Event()

    def work() -> Training:
        release_memory()
        try:
            model = HfModel(specification)
            checkpoint = model.load_checkpoint()
            if checkpoint.identity.revision != plan.base.revision:
                raise UserError(f"hf:{specification.base}: the model changed while in use. Run the command again")
            with model.explained_memory():
                return train_adapter(
                    checkpoint,
                    examples.examples,
                    plan.recipe,
                    verb_options.folder,
                    optimizer=plan.optimizer,
                    record=record,
                    save_every=verb_options.save_every,
                    progress=lambda done, total: options.progress(Progress("training", done, total, 0, 0.0)),
                    cancelled=stopping.is_set,
                )
        finally:
            release_memory()

    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    finally:
        stopping.set()


def _record(plan: TrainingPlan, material: TrainingMaterial) -> dict[str, Any]:
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
        **trained_on(trained),
    }
