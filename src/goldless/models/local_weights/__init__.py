"""Hugging Face causal language models as scorers and chat models: ``hf:NAME_OR_PATH``, with an adapter or without.

This module is light: torch is imported when a model is loaded.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from goldless.errors import PrerequisiteError
from goldless.models.local_model import LoadedModel, LocalModel
from goldless.models.local_weights.specification import HfSpecification, adapter_folder, adapter_record

if TYPE_CHECKING:
    from goldless.models.local_weights.checkpoint import Checkpoint

OLDEST = {"torch": (2, 5), "transformers": (4, 57)}
"""The oldest supported releases."""
PROBE_TEXT = "The quick brown fox jumps over the lazy dog; 12 boxes of liquor jugs were packed for him, he said. "
"""Ordinary words for trying a model."""
INSTALL = "pip install 'goldless[transformers]'"


class HfModel(LocalModel):
    """A model from the Hugging Face hub, or in a local folder of the same form, computed with torch on this machine."""

    def __init__(self, base: str | HfSpecification, **options: Any) -> None:
        """``base``: a name on the hub or a folder, with ``options`` as the fields of an HfSpecification; or one.

        A model that does not support the requested sharing is computed the other way, and its identity says so.
        """
        super().__init__()
        self._wanted = base if isinstance(base, HfSpecification) else HfSpecification(base, **options)

    def load_checkpoint(self) -> Checkpoint:
        """Its weights and tokenizer by themselves, as for training."""
        from goldless.models.local_weights.checkpoint import load_checkpoint  # noqa: PLC0415 - imports torch

        with self.explained_memory():
            return load_checkpoint(self._wanted)

    @staticmethod
    def explained_memory() -> AbstractContextManager[None]:
        """A ``with`` block in which errors about too little memory say what to do."""
        from goldless.models.local_weights.engine import explained_memory  # noqa: PLC0415 - imports torch

        return explained_memory()

    def training_record(self) -> Mapping[str, Any]:
        """The training record of its adapter; empty if there is none, or one made elsewhere."""
        return {} if self._wanted.adapter is None else adapter_record(adapter_folder(self._wanted.adapter))

    def _load(self) -> LoadedModel:
        for package, oldest in OLDEST.items():
            try:
                found = importlib.import_module(package).__version__
            except ImportError as error:
                raise PrerequisiteError(f"hf: models need {package} ({error}). Run: {INSTALL}") from error
            if tuple(map(int, found.split(".")[:2])) < oldest:
                needed = ".".join(map(str, oldest))
                raise PrerequisiteError(f"hf: models need {package} {needed} or newer, got {found}. Run: {INSTALL}")
        # these modules import torch and transformers, which are an extra and slow to import
        from goldless.models.local_weights.checkpoint import load_checkpoint  # noqa: PLC0415
        from goldless.models.local_weights.engine import TorchEngine, explained_memory  # noqa: PLC0415

        with explained_memory():
            checkpoint = load_checkpoint(self._wanted)
            model, layout, identity = checkpoint.model, checkpoint.layout, checkpoint.identity
            engine = TorchEngine(model, layout.tokenizer.text_ids(PROBE_TEXT) or (0,))
            sharing = self._wanted.sharing or "auto"
            settings = engine.settings
            # a dense mask is computed in full, so without a GPU the walk from node to node is faster
            if sharing == "packed" or (sharing == "auto" and engine.device.type == "cuda"):
                settings = pack_if_possible(engine)
        end = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
        return LoadedModel(
            identity=replace(identity, settings={**identity.settings, **settings}),
            layout=layout,
            context_length=getattr(model.config.get_text_config(), "max_position_embeddings", None),
            stop=layout.stop_tokens() | frozenset(end if isinstance(end, list) else [] if end is None else [end]),
            engine=engine,
            together=engine.packed is not None,
        )


def open_hf(written: str) -> HfModel:
    """The model of an ``hf:`` specification."""
    return HfModel(HfSpecification.parse(written))


def pack_if_possible(engine: Any) -> dict[str, str]:
    """Let a TorchEngine score in packed sequences if its model supports them; how it computes, for the identity."""
    try:
        # FlexAttention is not in every release of torch that computes all the rest
        from goldless.models.local_weights.packed import UnsupportedAttention, open_packed  # noqa: PLC0415
    except ImportError as error:
        reason, shown = "this torch has no block-sparse attention", str(error)
    else:
        try:
            engine.packed = open_packed(engine)
        except UnsupportedAttention as error:
            reason, shown = error.reason, str(error)
        else:
            return {**engine.settings, **engine.packed.settings}
    way = engine.settings["sharing"]
    warnings.warn(
        f"the model cannot be packed, so it is computed with the slower method ({way}): {shown}", stacklevel=2
    )
    return {**engine.settings, "sharing": f"{way}; not packed: {reason}"}
