"""Adapters: small trained additions to a base model, in folders in ``peft``'s format.

An adapter's layers stay separate from the weights they were trained on and are not merged into them: in half precision
part of what was learnt would be rounded away.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from goldless.errors import CapabilityError, PrerequisiteError
from goldless.models.interface import content_hash
from goldless.models.local_weights.checkpoint import Checkpoint, folder_hash
from goldless.models.local_weights.network import short_of_memory
from goldless.models.local_weights.specification import ADAPTER_CONFIG, adapter_folder

INSTALL = "pip install 'goldless[finetune]'"
WEIGHTS_FILE = "adapter_model.safetensors"
ADAPTER_FILES = (ADAPTER_CONFIG, WEIGHTS_FILE)
"""The files that determine the numbers of a model with this adapter."""
RECORD_FILE = "goldless_adapter.json"
"""The record of base and prompts in an adapter made by goldless."""


def with_adapter(checkpoint: Checkpoint, written: str) -> Checkpoint:
    """The model with an adapter. Raises if the folder is not an adapter, or was made for another base."""
    peft = _peft()
    folder = _found(written)
    config = _config(peft, folder)
    _check_base(checkpoint, folder, config)
    model = _loaded(peft, checkpoint.model, folder, config)
    digest = folder_hash(folder, ADAPTER_FILES)
    return replace(
        checkpoint,
        model=model.eval(),
        name=_name(checkpoint.name, folder),
        # one hash over both: tables and recorded evidence know a model by its first digits
        revision=content_hash(checkpoint.revision, digest),
        settings={**checkpoint.settings, "base": checkpoint.revision, "adapter": digest},
    )


def read_record(folder: Path) -> dict[str, Any]:
    """The record of an adapter made by goldless; empty for one made elsewhere."""
    try:
        record = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CapabilityError(f"{folder / RECORD_FILE}: cannot be read ({error}). Make the adapter again") from error
    if not isinstance(record, dict) or not isinstance(record.get("base"), dict):
        raise CapabilityError(f"{folder / RECORD_FILE}: does not name its base. Make the adapter again")
    return record


def _peft() -> Any:
    try:
        import peft  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise PrerequisiteError(f"an adapter needs peft, which cannot be imported ({error}). Run: {INSTALL}") from error
    return peft


def _found(written: str) -> Path:
    folder = adapter_folder(written)
    if folder is None:
        raise PrerequisiteError(
            f"{written}: not an adapter, which is a folder with {ADAPTER_CONFIG} and {WEIGHTS_FILE}. Download one "
            f"from the hub with 'hf download {written} --local-dir FOLDER'"
        )
    if not (folder / WEIGHTS_FILE).is_file():
        raise PrerequisiteError(f"{folder}: incomplete adapter: {WEIGHTS_FILE} is missing")
    return folder.resolve()


def _config(peft: Any, folder: Path) -> Any:
    try:
        config = peft.PeftConfig.from_pretrained(str(folder))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CapabilityError(f"{folder}: not an adapter that peft {peft.__version__} can read: {error}") from error
    if config.peft_type is None or config.is_prompt_learning or config.task_type not in {None, "CAUSAL_LM"}:
        raise CapabilityError(
            f"{folder}: the adapter has kind {config.peft_type} for {config.task_type or 'no task'}. Scorers "
            "support LoRA and its variants on causal language models"
        )
    return config


def _check_base(checkpoint: Checkpoint, folder: Path, config: Any) -> None:
    """Reject an adapter that, by its own record, was made for another base."""
    base = read_record(folder).get("base")
    if base is None:
        said = str(config.base_model_name_or_path or "").rstrip("/").rsplit("/", 1)[-1]
        have = checkpoint.name.partition("?")[0].rsplit("/", 1)[-1]
        if said != have:
            raise CapabilityError(
                f"{folder}: made for the base {config.base_model_name_or_path!r}, but the base here is "
                f"{checkpoint.name!r}. Use its own base; if the two are the same model, set "
                f"base_model_name_or_path in {ADAPTER_CONFIG}"
            )
        return
    pairs = (("weights", "revision", checkpoint.revision), ("tokenizer", "tokenizer", checkpoint.tokenizer_hash))
    other = [what for what, key, have in pairs if base.get(key) != have]
    if other:
        raise CapabilityError(
            f"{folder}: made for the base {base.get('name')}@{str(base.get('revision'))[:8]}, but the base here is "
            f"{checkpoint.name}@{checkpoint.revision[:8]}, with different {' and '.join(other)}. Use the base it "
            "was made for, from the same source (hub or folder), or fine-tune this one"
        )


def _loaded(peft: Any, model: Any, folder: Path, config: Any) -> Any:
    """The base with the adapter's layers, all of them filled from the file and nothing left over."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - peft brings it; without the extra it is absent

    try:
        with warnings.catch_warnings():
            # layers that are missing are found below; GPT-2's kind of layer is announced and then handled
            warnings.simplefilter("ignore", UserWarning)
            tuned = peft.PeftModel.from_pretrained(model, str(folder), config=config, is_trainable=False)
        there = set(peft.get_peft_model_state_dict(tuned, save_embedding_layers=False))
        with safe_open(folder / WEIGHTS_FILE, framework="pt") as file:
            saved = set(file.keys())
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError, SafetensorError) as error:
        if short_of_memory(error):
            raise
        line = " ".join(str(error).split())[:300] or type(error).__name__
        raise CapabilityError(
            f"{folder}: the adapter does not fit this base: layers or shapes differ ({line}). Use the base it was "
            "made for"
        ) from error
    if strange := sorted(saved ^ there):
        raise CapabilityError(
            f"{folder}: the adapter does not fit this base: {len(strange)} layers are in only one of them, such as "
            f"{strange[0]}. Use the base it was made for"
        )
    # the base itself, whose linear layers now have the adapter's beside them
    return tuned.get_base_model()


def _name(base: str, folder: Path) -> str:
    """``BASE+ADAPTER``, followed by the weight format; a folder ``adapter`` is named after its parent."""
    model, sign, option = base.partition("?")
    own = folder.parent.name if folder.name == "adapter" else folder.name
    return f"{model}+{own}{sign}{option}"
