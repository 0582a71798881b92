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

WEIGHTS_FILE = "adapter_model.safetensors"
ADAPTER_FILES = (ADAPTER_CONFIG, WEIGHTS_FILE)
"""The files that determine the numbers of a model with this adapter."""
RECORD_FILE = "goldless_adapter.json"
"""The record of base and prompts in an adapter made by goldless."""


def with_adapter(checkpoint: Checkpoint, written: str) -> Checkpoint:
    """The model with an adapter. Raises if the folder is not an adapter, or was made for another base."""
    try:
        import peft  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise PrerequisiteError(
            f"an adapter needs peft, which cannot be imported ({error}). Run: pip install 'goldless[finetune]'"
        ) from error
    folder = adapter_folder(written)
    if folder is None or not (folder / WEIGHTS_FILE).is_file():
        raise PrerequisiteError(
            f"{written}: an adapter must be a folder with {ADAPTER_CONFIG} and {WEIGHTS_FILE}. Download one from the "
            f"hub with 'hf download {written} --local-dir FOLDER'"
        )
    folder, identity = folder.resolve(), checkpoint.identity
    try:
        model = _loaded(peft, checkpoint, folder)
    except (OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError, ImportError) as error:
        if short_of_memory(error):
            raise
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise CapabilityError(
            f"{folder}: peft {peft.__version__} cannot put this adapter on this base ({reason}). Use the base it was "
            "made for"
        ) from error
    digest = folder_hash(folder, ADAPTER_FILES)
    base, sign, option = identity.name.partition("?")
    own = folder.parent.name if folder.name == "adapter" else folder.name
    both = replace(
        identity,
        name=f"{base}+{own}{sign}{option}",
        # one hash over both: tables and recorded evidence know a model by its first digits
        revision=content_hash(identity.revision, digest),
        settings={**identity.settings, "base": identity.revision, "adapter": digest},
    )
    return replace(checkpoint, model=model.eval(), identity=both)


def read_record(folder: Path) -> dict[str, Any]:
    """The record of an adapter made by goldless; empty for one made elsewhere."""
    path = folder / RECORD_FILE
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(record["base"], dict):
            return dict(record)
    except (OSError, ValueError, LookupError, TypeError):
        pass
    raise CapabilityError(f"{path}: does not name its base. Make the adapter again")


def _check_base(checkpoint: Checkpoint, folder: Path, config: Any) -> None:
    """Reject an adapter that, by its own record, was made for another base."""
    here, base = checkpoint.identity, read_record(folder).get("base")
    if base is None:
        made_for = str(config.base_model_name_or_path or "").rstrip("/")
        names = {name.rsplit("/", 1)[-1] for name in (made_for, here.name.partition("?")[0])}
        differ = ["names"] if len(names) > 1 else []
    else:
        made_for = f"{base.get('name')}@{str(base.get('revision'))[:8]}"
        pairs = (("weights", "revision", here.revision), ("tokenizer", "tokenizer", here.tokenizer))
        differ = [what for what, key, have in pairs if base.get(key) != have]
    if differ:
        raise CapabilityError(
            f"{folder}: made for the base {made_for}, but the base here is {here.name}@{here.revision[:8]}, with "
            f"different {' and '.join(differ)}. Use the base it was made for, from the same source (hub or folder); if "
            f"both names are of the same model, set base_model_name_or_path in {ADAPTER_CONFIG}"
        )


def _loaded(peft: Any, checkpoint: Checkpoint, folder: Path) -> Any:
    """The base with the adapter's layers, all of them filled from the file and nothing left over."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - peft brings it; without the extra it is absent

    config = peft.PeftConfig.from_pretrained(str(folder))
    if config.peft_type is None or config.is_prompt_learning or config.task_type not in {None, "CAUSAL_LM"}:
        raise ValueError(f"it must be LoRA or a variant of it for a causal language model, got {config.peft_type}")
    _check_base(checkpoint, folder, config)
    try:
        with warnings.catch_warnings():
            # layers that are missing are found below; GPT-2's kind of layer is announced and then handled
            warnings.simplefilter("ignore", UserWarning)
            tuned = peft.PeftModel.from_pretrained(checkpoint.model, str(folder), config=config, is_trainable=False)
        there = set(peft.get_peft_model_state_dict(tuned, save_embedding_layers=False))
        with safe_open(folder / WEIGHTS_FILE, framework="pt") as file:
            strange = sorted(there.symmetric_difference(file.keys()))
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    if strange:
        raise ValueError(f"{len(strange)} layers are in only one of them, such as {strange[0]}")
    # the base itself, whose linear layers now have the adapter's beside them
    return tuned.get_base_model()
