"""Review stages of apps and packages, by name: other ways to come to a reviewer's verdict, such as a debate.

Each is a subclass of ReviewStage, constructed from a model, a scale, ``reviewer`` and ``task_description``.
"""

from __future__ import annotations

from typing import Any

from goldless.judging.asking import ReviewStage
from goldless.judging.scales import find_named
from goldless.plugins import Catalogue

GROUP = "goldless.review_stages"


def _wrong_shape(value: Any) -> str | None:
    if isinstance(value, type) and issubclass(value, ReviewStage):
        return None
    return f"a review stage must be a subclass of ReviewStage, got {value!r}"


CATALOGUE: Catalogue[type[ReviewStage]] = Catalogue(GROUP, {}, _wrong_shape)


def find_review_stage(name: str) -> type[ReviewStage]:
    """The stage with this name. Raises with the known names, or with why a package's cannot be used."""
    return CATALOGUE.get(name) or find_named("debate", name, CATALOGUE.all())
