"""Reading a pickle of plain values: containers, texts and numbers. Anything else is refused before it is made."""

from __future__ import annotations

import io
import pickle
from typing import Any, NoReturn

from goldless.errors import UserError


class PlainUnpickler(pickle.Unpickler):
    """An unpickler that knows no class and no function, so that reading runs no code of the file."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise UserError(f"the file must hold plain values only, got {module}.{name}. Nothing was run")

    def persistent_load(self, identifier: Any) -> NoReturn:
        raise UserError(f"the file must hold plain values only, got a reference to {identifier!r}")


def read_plain_pickle(content: bytes) -> Any:
    """Read a pickle of dictionaries, lists, tuples, sets, texts, bytes and numbers."""
    try:
        return PlainUnpickler(io.BytesIO(content)).load()
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"the file is not a complete pickle ({type(error).__name__}: {error})") from error
