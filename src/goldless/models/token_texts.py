"""The texts of a scorer's tokens, where its tokenizer is on this machine; never downloads anything."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from goldless.concurrency import in_own_thread
from goldless.errors import GoldlessError
from goldless.models.embedded import embedded_model, find_embedded
from goldless.models.interface import Message

if TYPE_CHECKING:
    from goldless.models.gguf.model import GgufModel


class TokenTexts:
    """Splits texts into a scorer's tokens."""

    def __init__(self) -> None:
        self._embedded: GgufModel | None = None
        self._tried = False
        self._lock = threading.Lock()

    def pieces(self, scorer: str, text: str) -> tuple[str, ...] | None:
        """The texts of the tokens, an end-of-turn token as ""; None if the tokenizer is not available."""
        model = self._model() if scorer.startswith("embedded:") else None
        if model is None or model.identity.short != scorer:
            return None
        return in_own_thread(_pieces, model, text)

    def _model(self) -> GgufModel | None:
        with self._lock:
            if not self._tried:
                self._tried = True
                if find_embedded() is not None:
                    try:
                        model = embedded_model()
                        in_own_thread(model.prepare)
                        self._embedded = model
                    except (GoldlessError, OSError):
                        self._embedded = None
            return self._embedded


async def _pieces(model: GgufModel, text: str) -> tuple[str, ...] | None:
    request = await model.encode((Message("user", "-"),), text)
    pieces = await model.pieces(request)
    return pieces if pieces is not None and "".join(pieces) == text else None
