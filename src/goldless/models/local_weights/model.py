"""A Hugging Face causal language model as scorer and chat model: ``hf:NAME_OR_PATH``."""

from __future__ import annotations

import importlib
import re
from typing import Literal

from goldless.errors import PrerequisiteError
from goldless.models.interface import ModelIdentity
from goldless.models.local_model import LoadedModel, LocalModel

Precision = Literal["float32", "bfloat16", "float16"]
OLDEST_TRANSFORMERS = (4, 57)
"""The oldest release the tests were run with."""
INSTALL = "pip install 'goldless[transformers]'"


class HfModel(LocalModel):
    """A model of the Hugging Face hub, or in a local folder of the same form, computed with torch on this machine."""

    def __init__(
        self,
        name_or_path: str,
        *,
        device: str | None = None,
        dtype: Precision | None = None,
        revision: str | None = None,
    ) -> None:
        """``device``: cuda where there is one, else cpu. ``dtype``: the checkpoint's own on cuda, float32 on cpu.

        ``revision`` is a branch, tag or commit of a hub model.
        """
        super().__init__()
        self._name_or_path = name_or_path
        self._device = device
        self._dtype = dtype
        self._revision = revision

    def _load(self) -> LoadedModel:
        """The checkpoint in memory, with its tokenizer and engine."""
        _require_extra()
        # these modules import torch and transformers, which are an extra and slow to import
        from goldless.models.local_weights.checkpoint import load_checkpoint  # noqa: PLC0415
        from goldless.models.local_weights.engine import TorchEngine  # noqa: PLC0415
        from goldless.models.local_weights.network import Network, explained_memory  # noqa: PLC0415

        with explained_memory():
            checkpoint = load_checkpoint(
                self._name_or_path, device=self._device, dtype=self._dtype, revision=self._revision
            )
            network = Network(checkpoint.model, checkpoint.probe)
        identity = ModelIdentity(
            provider="hf",
            name=checkpoint.name,
            revision=checkpoint.revision,
            tokenizer=checkpoint.tokenizer_hash,
            settings={**checkpoint.settings, **network.settings},
        )
        return LoadedModel(
            identity=identity,
            layout=checkpoint.layout,
            context_length=checkpoint.context_length,
            stop=checkpoint.layout.stop_tokens() | checkpoint.stop,
            engine=TorchEngine(network),
        )


def _require_extra() -> None:
    """Raise a PrerequisiteError where torch or transformers are missing or too old."""
    for package in ("torch", "transformers"):
        try:
            module = importlib.import_module(package)
        except ImportError as error:
            raise PrerequisiteError(
                f"hf: models need {package}, which cannot be imported ({error}): {INSTALL}"
            ) from error
    version = tuple(int(part) for part in re.findall(r"\d+", module.__version__)[:2])
    if version < OLDEST_TRANSFORMERS:
        oldest = ".".join(map(str, OLDEST_TRANSFORMERS))
        raise PrerequisiteError(f"hf: models need transformers {oldest} or newer, not {module.__version__}: {INSTALL}")
