"""A Hugging Face causal language model as scorer and chat model: ``hf:NAME_OR_PATH``, with an adapter or without."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any, Self

from goldless.errors import PrerequisiteError
from goldless.models.interface import ModelIdentity
from goldless.models.local_model import LoadedModel, LocalModel
from goldless.models.local_weights.specification import (
    HfSpecification,
    Precision,
    Sharing,
    Weights,
    adapter_folder,
    parse_specification,
)

OLDEST = {"torch": (2, 5), "transformers": (4, 57)}
"""The oldest releases that have all that is used here."""
INSTALL = "pip install 'goldless[transformers]'"


class HfModel(LocalModel):
    """A model of the Hugging Face hub, or in a local folder of the same form, computed with torch on this machine."""

    def __init__(
        self,
        name_or_path: str,
        *,
        adapter: str | None = None,
        weights: Weights | None = None,
        device: str | None = None,
        dtype: Precision | None = None,
        revision: str | None = None,
        sharing: Sharing = "auto",
    ) -> None:
        """``device``: cuda where there is one, else cpu. ``dtype``: the checkpoint's own on cuda, float32 on cpu.

        ``adapter`` is a folder with an adapter for this model, ``weights`` how many bits its weights are kept in, and
        ``revision`` a branch, tag or commit of a hub model. ``sharing`` is the way in which what requests share is
        computed once; a model that cannot be packed is computed the other way, and its identity says so.
        """
        super().__init__()
        self._name_or_path = name_or_path
        self._adapter = adapter
        self._weights = weights
        self._device = device
        self._dtype = dtype
        self._revision = revision
        self._sharing: Sharing = sharing

    @classmethod
    def from_specification(cls, written: str | HfSpecification) -> Self:
        """The model that stands behind ``hf:``."""
        found = parse_specification(written) if isinstance(written, str) else written
        return cls(
            found.base,
            adapter=found.adapter,
            weights=found.weights,
            device=found.device,
            dtype=found.dtype,
            sharing=found.sharing or "auto",
        )

    def training_record(self) -> Mapping[str, Any]:
        """What its adapter says of its training; empty where there is none, or one that was made elsewhere."""
        folder = None if self._adapter is None else adapter_folder(self._adapter)
        if folder is None:
            return {}
        from goldless.models.local_weights.adapter import read_record  # noqa: PLC0415 - it imports torch

        return read_record(folder)

    def _load(self) -> LoadedModel:
        """The checkpoint in memory, with its tokenizer and engine."""
        _require_extra()
        # these modules import torch and transformers, which are an extra and slow to import
        from goldless.models.local_weights.adapter import with_adapter  # noqa: PLC0415
        from goldless.models.local_weights.checkpoint import load_checkpoint  # noqa: PLC0415
        from goldless.models.local_weights.engine import open_engine  # noqa: PLC0415
        from goldless.models.local_weights.network import Network, explained_memory  # noqa: PLC0415

        with explained_memory():
            checkpoint = load_checkpoint(
                self._name_or_path,
                device=self._device,
                dtype=self._dtype,
                revision=self._revision,
                weights=self._weights,
            )
            if self._adapter is not None:
                checkpoint = with_adapter(checkpoint, self._adapter)
            network = Network(checkpoint.model, checkpoint.probe)
            engine, settings = open_engine(network, self._sharing)
        identity = ModelIdentity(
            provider="hf",
            name=checkpoint.name,
            revision=checkpoint.revision,
            tokenizer=checkpoint.tokenizer_hash,
            settings={**checkpoint.settings, **settings},
        )
        return LoadedModel(
            identity=identity,
            layout=checkpoint.layout,
            context_length=checkpoint.context_length,
            stop=checkpoint.layout.stop_tokens() | checkpoint.stop,
            engine=engine,
            together=engine.packed is not None,
        )


def _require_extra() -> None:
    """Raise a PrerequisiteError where torch or transformers are missing or too old."""
    for package, oldest in OLDEST.items():
        try:
            module = importlib.import_module(package)
        except ImportError as error:
            raise PrerequisiteError(
                f"hf: models need {package}, which cannot be imported ({error}): {INSTALL}"
            ) from error
        if tuple(int(part) for part in re.findall(r"\d+", module.__version__)[:2]) < oldest:
            needed = ".".join(map(str, oldest))
            raise PrerequisiteError(f"hf: models need {package} {needed} or newer, not {module.__version__}: {INSTALL}")
