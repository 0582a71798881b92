"""A GGUF model as scorer and chat model: ``gguf:PATH``, and the embedded default."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from goldless.models.gguf.build import build_model
from goldless.models.gguf.engine import Engine
from goldless.models.interface import ChatReply, ChatRequest, ModelIdentity
from goldless.models.local_model import LoadedModel, LocalModel

if TYPE_CHECKING:
    from goldless.models.gguf.graph import Kernel
    from goldless.records import CallFailure


class GgufModel(LocalModel):
    """A model in a GGUF file, computed on this machine's processor."""

    def __init__(
        self,
        locate: Path | Callable[[], Path],
        *,
        provider: str = "gguf",
        name: str | None = None,
        kernel: Kernel | None = None,
        too_small_to_write: bool = False,
    ) -> None:
        """``locate`` is the file or gives it when first needed."""
        super().__init__()
        self._locate = locate
        self._provider = provider
        self._name = name
        self._kernel = kernel
        self._too_small_to_write = too_small_to_write

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """A written text, or the likeliest of the given answers; warns once where the model is too small for that."""
        self._warn_if_too_small()
        return await super().chat(request)

    def _load(self) -> LoadedModel:
        """The file, converted where that was not done yet, and its engine."""
        path = self._locate if isinstance(self._locate, Path) else self._locate()
        built = build_model(path, self._kernel)
        self._name = self._name or path.stem
        identity = ModelIdentity(
            provider=self._provider,
            name=self._name,
            revision=built.sha256,
            tokenizer=built.tokenizer_hash,
            settings={"kernel": built.kernel, "layout": built.layout.name},
        )
        return LoadedModel(
            identity=identity,
            layout=built.layout,
            context_length=built.architecture.context_length,
            stop=built.layout.stop_tokens(),
            engine=Engine(built.architecture, built.folder),
        )

    def _warn_if_too_small(self) -> None:
        if self._too_small_to_write:
            self._too_small_to_write = False
            warnings.warn(
                f"{self._name} is a small model: it scores given texts well enough on average, but is not fit to "
                "rewrite or to judge. Use a larger model for that (openai:MODEL, http://HOST:PORT/v1#MODEL, "
                "gguf:PATH, hf:NAME_OR_PATH).",
                stacklevel=2,
            )
