"""Review stages of apps and packages, by name: other ways to come to a reviewer's verdict, such as a debate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name
from typing import Any

from goldless.judging.asking import ReviewStage
from goldless.judging.scales import find_named
from goldless.plugins import Catalogue, added_by_apps

GROUP = "goldless.review_stages"
StageMaker = Callable[..., ReviewStage]
"""A subclass of ReviewStage, constructed from a model, a scale, ``reviewer`` and ``task_description``."""


def _constructed(place: str, *arguments: Any, **settings: Any) -> ReviewStage:
    """A stage whose module is imported when it is needed."""
    make: StageMaker = resolve_name(place)
    return make(*arguments, **settings)


def _wrong_shape(value: Any) -> str | None:
    if isinstance(value, type) and issubclass(value, ReviewStage):
        return None
    return f"a review stage must be a subclass of ReviewStage, got {value!r}"


OF_APPS = {name: partial(_constructed, place) for name, place in added_by_apps(GROUP).items()}
CATALOGUE: Catalogue[StageMaker] = Catalogue(GROUP, OF_APPS, _wrong_shape)


def find_review_stage(name: str) -> StageMaker:
    """The stage with this name. Raises with the known names, or with why a package's cannot be used."""
    CATALOGUE.refuse_broken(name)
    return find_named("debate", name, CATALOGUE.all())
