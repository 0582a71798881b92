"""One line that says exactly how a number was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import goldless._version as version


@dataclass(frozen=True, slots=True)
class Signature:
    """How a number was made: ``metric|key:value|…|goldless:version``. Two equal lines mean comparable numbers."""

    metric: str
    settings: Mapping[str, str]

    def __str__(self) -> str:
        """The line."""
        # a name may hold the sign that parts the line
        parts = [self.metric, *(f"{key}:{value}" for key, value in self.settings.items())]
        return "|".join([*(part.replace("|", "/") for part in parts), f"goldless:{version.__version__}"])
