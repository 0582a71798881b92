"""Which layers an adapter is put on, and whether a model has any: found from its config, before weights are used.

Imported only with a model at hand: torch, transformers and peft are extras and slow to import.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import peft
import torch
import transformers

from goldless.errors import CapabilityError, UserError
from goldless.finetuning.options import Recipe


def lora_settings(recipe: Recipe) -> Any:
    """The adapter as peft is asked for it."""
    return peft.LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=recipe.dropout,
        # all linear layers but the head: attention and feed-forward, which is also what Unsloth trains
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


def check_targets(base: str, recipe: Recipe) -> None:
    """Raise where no adapter, or none of this rank, fits the layers of a model; it is built without weights for that.

    An adapter of a matrix has at most the rank of the matrix: what is beyond the shorter side does nothing.
    """
    path = Path(base).expanduser()
    config = transformers.AutoConfig.from_pretrained(str(path) if path.is_dir() else base)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.device("meta"):
                model = transformers.AutoModelForCausalLM.from_config(config)
                tuned = peft.get_peft_model(model, lora_settings(replace(recipe, rank=1)))
    except ValueError as error:
        raise CapabilityError(
            f"hf:{base}: no adapter can be trained on a model of type {config.model_type}, whose layers peft refuses "
            f"({error}). Choose a base of another kind, such as Llama or Qwen."
        ) from error
    layers = [module for module in tuned.modules() if isinstance(module, peft.tuners.lora.LoraLayer)]
    largest = max(min(layer.in_features, layer.out_features) for layer in layers)
    if recipe.rank > largest:
        raise UserError(f"rank {recipe.rank}: no layer of hf:{base} has a rank above {largest}; give at most that")
