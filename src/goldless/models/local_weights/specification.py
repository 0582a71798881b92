"""The specification of a Hugging Face model, as written after ``hf:``, and the files of an adapter.

It is ``BASE`` or ``BASE+ADAPTER``, each optionally followed by ``?weights=4bit`` or the like; options are joined by
``&``. Names on the hub contain neither ``+`` nor ``?``, but paths may: a folder that exists exactly as written is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from goldless.errors import CapabilityError, ModelSpecError

Weights = Literal["4bit", "8bit", "nf4", "int4", "int8", "llm-int8"]
"""Number of bits a weight is kept in, or the exact method: ``4bit`` and ``8bit`` use what is installed."""
Precision = Literal["float32", "bfloat16", "float16"]
"""The compute precision."""
Sharing = Literal["auto", "packed", "cached"]
"""``packed``: many branches in one sequence under a tree mask; ``cached``: node by node, each under the keys and values
of its path; ``auto``: packed on a GPU, cached elsewhere.
"""
KNOWN: Mapping[str, tuple[str, ...]] = {
    "weights": get_args(Weights),
    "dtype": get_args(Precision),
    "device": ("cpu", "cuda"),
    "sharing": get_args(Sharing),
}
"""The options with their values; a device may have a number, as in ``cuda:1``."""
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""The files that determine the numbers of a model with an adapter."""
ADAPTER_RECORD = "goldless_adapter.json"
"""The record of base and prompts in an adapter made by goldless."""
TRAINING_PLAN = "plan.json"
"""The first file that a training writes into the folder of its adapter."""
HUB_NAME = re.compile(r"\w[\w.-]{0,95}(/[\w.-]{1,96})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class HfSpecification:
    """A model as written after ``hf:``."""

    base: str
    """A name on the hub or a folder."""
    adapter: str | None = None
    """A folder."""
    weights: Weights | None = None
    """None: as the model was saved."""
    dtype: Precision | None = None
    """None: the checkpoint's own on a GPU, float32 elsewhere."""
    device: str | None = None
    """None: a GPU if there is one."""
    sharing: Sharing | None = None
    """None: ``auto``."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text after ``hf:``. Raises ModelSpecError if it is invalid or ambiguous."""
        if is_folder(text):
            return cls(text)
        model, sign, written = text.rpartition("?") if "?" in text else (text, "", "")
        options: dict[str, Any] = {}
        for part in written.split("&") if sign else ():
            name, _, value = part.partition("=")
            word = re.sub(r"(?<=.):\d+$", "", value) if name == "device" else value
            if word not in KNOWN.get(name, ()) or name in options:
                allowed = ", ".join(f"{known}={'|'.join(values)}" for known, values in KNOWN.items())
                raise ModelSpecError(
                    f"hf:{text}: options must be of {allowed}, each once and joined by &, got {part!r}. Leave an "
                    "option out for its default"
                )
            options[name] = value
        if not model:
            raise ModelSpecError(f"hf:{text}: the model is missing. Write hf:NAME_OR_PATH?{written}")
        if "+" not in model or is_folder(model):
            return cls(model, **options)
        cuts = [(model[:i], model[i + 1 :]) for i, sign in enumerate(model) if sign == "+"]
        bases = [cut for cut in cuts if is_folder(cut[0]) or HUB_NAME.fullmatch(cut[0])]
        found = next((cut for cut in bases if adapter_folder(cut[1]) is not None), None)
        if found is not None:
            return cls(*found, **options)
        base, adapter = (bases or cuts)[0]
        problem = (
            f"BASE+ADAPTER must be a folder or a name on the hub, then a folder with {ADAPTER_CONFIG}; got the base "
            f"{base!r} and the adapter {adapter!r}. Check both paths"
        )
        if is_folder(adapter) and (Path(adapter).expanduser() / TRAINING_PLAN).is_file():
            again = "Run the same goldless finetune command again to continue it"
            problem = f"the training in {adapter} is not finished. {again}"
        raise ModelSpecError(f"hf:{text}: {problem}")

    def __str__(self) -> str:
        adapter = "" if self.adapter is None else f"+{self.adapter}"
        options = [f"{name}={value}" for name in KNOWN if (value := getattr(self, name)) is not None]
        return f"{self.base}{adapter}" + (f"?{'&'.join(options)}" if options else "")


def adapter_folder(written: str) -> Path | None:
    """The folder of an adapter: the one written, or ``adapter`` in it; None if neither is one."""
    if not is_folder(written):
        return None
    folder = Path(written).expanduser()
    return next((f for f in (folder, folder / "adapter") if (f / ADAPTER_CONFIG).is_file()), None)


def adapter_record(folder: Path | None) -> dict[str, Any]:
    """The record of an adapter made by goldless; empty for one made elsewhere."""
    if folder is None or not (folder / ADAPTER_RECORD).is_file():
        return {}
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        record = json.loads((folder / ADAPTER_RECORD).read_text(encoding="utf-8"))
        if isinstance(record["base"], dict):
            return dict(record)
    raise CapabilityError(f"{folder / ADAPTER_RECORD}: does not name its base. Make the adapter again")


def is_folder(written: str) -> bool:
    """True if this is a folder; False for what is not even a valid path."""
    return os.path.isdir(os.path.expanduser(written))  # noqa: PTH111, PTH112 - pathlib's raise


def sharing_word(settings: Mapping[str, str]) -> str | None:
    """The kind of sharing in an identity's settings, in one word for signatures; None if unknown.

    ``none``: every text is computed from its beginning.
    """
    words = {"packed prefix tree": "packed", "prefix tree": "cached", "none": "none"}
    told = settings.get("sharing", "").partition(";")[0].partition(":")[0]
    return words.get(told)
