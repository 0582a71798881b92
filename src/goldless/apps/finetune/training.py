"""Training: a LoRA adapter on a base model, by trl on examples that are token ids already.

Imported only with a model at hand: torch, transformers, peft and trl are extras and slow to import.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import peft
import pyarrow as pa
import torch
import transformers
from transformers.trainer_callback import PrinterCallback
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling, SFTTrainer

from goldless.apps.finetune.material import Example
from goldless.apps.finetune.options import Recipe
from goldless.apps.finetune.result import ADAPTER, CHECKPOINTS, TRAINING_FILE, Training
from goldless.errors import CapabilityError, ModelError
from goldless.files import write_json, write_text
from goldless.models.local_weights.specification import ADAPTER_CONFIG, ADAPTER_RECORD, ADAPTER_WEIGHTS
from goldless.reports.document import write

STATE = "trainer_state.json"
"""Name of the file that transformers' trainer writes last into a checkpoint."""


class Cancelled(Exception):  # noqa: N818 - not an error: somebody asked to stop
    """The caller wants to stop."""


def train_adapter(
    checkpoint: Any,
    examples: Sequence[Example],
    recipe: Recipe,
    folder: Path,
    *,
    optimizer: str,
    record: Mapping[str, Any],
    save_every: int = 50,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Training:
    """Train an adapter into ``folder/adapter``, resuming from the trainer's last complete checkpoint there.

    ``record``: what the adapter is to say of itself. ``progress`` hears of steps done and in all.
    """
    quantizer = getattr(checkpoint.model, "hf_quantizer", None)
    method = None if quantizer is None else quantizer.quantization_config.quant_method
    if getattr(method, "value", method) not in {None, "bitsandbytes"}:
        raise CapabilityError(
            f"{checkpoint.identity.name}: these quantized weights cannot be trained on. Use ?weights=4bit with "
            "bitsandbytes, or the model's own weights"
        )
    # the trainer writes its state last: a checkpoint without it is not complete
    complete = {int(path.parent.name[11:]): path.parent for path in folder.glob(f"{CHECKPOINTS}/checkpoint-*/{STATE}")}
    resumed_at = max(complete, default=0)
    with _quiet():
        try:
            trainer = _QuietTrainer(
                model=checkpoint.model,
                args=_arguments(checkpoint, recipe, folder, optimizer=optimizer, save_every=save_every),
                train_dataset=_dataset(examples),
                processing_class=checkpoint.tokenizer,
                # padding is masked and never predicted: any id will do
                data_collator=DataCollatorForLanguageModeling(pad_token_id=0),
                peft_config=peft.LoraConfig(
                    r=recipe.rank,
                    lora_alpha=recipe.alpha,
                    lora_dropout=recipe.dropout,
                    # all linear layers but the head: attention and feed-forward, which is also what Unsloth trains
                    target_modules="all-linear",
                    task_type="CAUSAL_LM",
                ),
                callbacks=[_Watch(progress, cancelled)],
            )
        except ValueError as error:
            raise CapabilityError(
                f"{checkpoint.identity.name}: peft cannot train an adapter on a model of type "
                f"{checkpoint.model.config.model_type} ({error}). Choose another kind of base, such as Llama or Qwen"
            ) from error
        trainer.remove_callback(PrinterCallback)
        trainer.train(resume_from_checkpoint=str(complete[resumed_at]) if resumed_at else None)
    losses = tuple((row["step"], float(row["loss"])) for row in trainer.state.log_history if "loss" in row)
    training = Training(steps=trainer.state.global_step, losses=losses, resumed_at=resumed_at)
    write_text(folder / TRAINING_FILE, json.dumps(write(training)) + "\n")
    _save_adapter(trainer.model, folder / ADAPTER, checkpoint, record)
    return training


class _QuietTrainer(SFTTrainer):  # type: ignore[misc]
    """trl's trainer without what it sends and prints: nothing leaves the machine, and only the command line speaks."""

    def _send_telemetry(self) -> None:
        """Nothing is sent."""

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """The adapter's own record says what it is."""

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        # by itself it would ask the hub whether the base's vocabulary has grown
        self.model.save_pretrained(
            output_dir or self.args.output_dir, state_dict=state_dict, save_embedding_layers=False
        )


class _Watch(transformers.TrainerCallback):  # type: ignore[misc]
    """Reports the progress of the training, and stops it if it is cancelled or its loss is not finite."""

    def __init__(self, progress: Callable[[int, int], None], cancelled: Callable[[], bool]) -> None:
        self._progress = progress
        self._cancelled = cancelled

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        self._progress(state.global_step, state.max_steps)

    def on_substep_end(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        if self._cancelled():
            raise Cancelled

    def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        if self._cancelled():
            raise Cancelled
        self._progress(state.global_step, state.max_steps)

    def on_log(self, _args: Any, state: Any, _control: Any, logs: Mapping[str, float] | None = None, **_: Any) -> None:
        if logs and "loss" in logs and not math.isfinite(logs["loss"]):
            raise ModelError(
                f"the training diverged: at step {state.global_step} its loss is {logs['loss']}. Lower the learning "
                "rate, and choose another folder"
            )


def _arguments(checkpoint: Any, recipe: Recipe, folder: Path, *, optimizer: str, save_every: int) -> Any:
    on_card = checkpoint.model.device.type == "cuda"
    return SFTConfig(
        output_dir=str(folder / CHECKPOINTS),
        num_train_epochs=recipe.epochs,
        per_device_train_batch_size=recipe.batch_size,
        gradient_accumulation_steps=recipe.accumulation,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type=recipe.schedule,
        warmup_steps=recipe.warmup_steps,
        weight_decay=recipe.weight_decay,
        optim=optimizer,
        seed=recipe.seed,
        data_seed=recipe.seed,
        # examples come ready: nothing is cut, packed or laid out anew
        max_length=None,
        packing=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        bf16=on_card and torch.cuda.is_bf16_supported(),
        gradient_checkpointing=on_card,
        use_cpu=not on_card,
        dataloader_pin_memory=on_card,
        save_strategy="steps",
        save_steps=save_every,
        save_total_limit=2,
        logging_steps=1,
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
    )


def _dataset(examples: Sequence[Example]) -> Any:
    columns = {
        "input_ids": pa.array([np.frombuffer(example.ids, np.int32) for example in examples]),
        "labels": pa.array([np.array(example.labels, np.int32) for example in examples]),
    }
    # a fingerprint of its own: datasets would pickle whatever the calling module holds to make one
    return datasets.Dataset(pa.table(columns), fingerprint="goldless")


def _save_adapter(model: Any, folder: Path, checkpoint: Any, record: Mapping[str, Any]) -> None:
    aside = folder.with_name(f".{folder.name}")
    shutil.rmtree(aside, ignore_errors=True)
    model.save_pretrained(str(aside), save_embedding_layers=False)
    for path in aside.iterdir():
        if path.name not in {ADAPTER_CONFIG, ADAPTER_WEIGHTS}:
            path.unlink()
    config = json.loads((aside / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    # where the base lies, and an order that changes from run to run, are no part of what was trained
    config["base_model_name_or_path"] = checkpoint.identity.name.partition("?")[0]
    if isinstance(config.get("target_modules"), list):
        config["target_modules"].sort()
    write_text(aside / ADAPTER_CONFIG, json.dumps(config, indent=2, sort_keys=True) + "\n")
    write_json(aside / ADAPTER_RECORD, record)
    shutil.rmtree(folder, ignore_errors=True)
    aside.replace(folder)


def release_memory() -> None:
    """Release the memory of unused models; a trained one has reference cycles."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            # GPT-2's kind of layer is announced and then handled
            warnings.filterwarnings("ignore", message="fan_in_fan_out is set")
            yield
    finally:
        transformers.utils.logging.set_verbosity(verbosity)
