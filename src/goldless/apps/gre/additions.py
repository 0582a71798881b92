"""Additions of other apps to GRE-bench: verbs of ``goldless gre``, and results of an edition beside its own."""

from __future__ import annotations

from collections.abc import Iterable
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

from goldless.plugins import added_by_apps

if TYPE_CHECKING:
    from goldless import Evaluation
    from goldless.apps.gre.edition import Edition
    from goldless.reports.report_table import ReportTable
    from goldless.studies import Study

VERBS = "goldless.gre_verbs"
RESULTS = "goldless.gre_results"


class AddedResult(Protocol):
    """A result that an app adds to those of an edition: a frozen dataclass, written as ``gre_NAME.json``."""

    def tables(self) -> list[ReportTable]: ...


class EditionAddition(Protocol):
    """An app that adds to the results of editions."""

    def sentences(self, edition: Edition) -> Iterable[str]:
        """Sentences about the edition as it is now. Raises UserError if what the app wrote there is damaged."""

    def result(self, edition: Edition, study: Study, evaluation: Evaluation) -> AddedResult | None:
        """The app's result, from the evaluation of the edition's study; None if there is nothing to say."""


def added_verbs() -> list[Any]:
    """The verbs that apps add to ``goldless gre``."""
    return [resolve_name(place) for place in added_by_apps(VERBS).values()]


def edition_additions() -> dict[str, EditionAddition]:
    """The apps that add to the results of editions, by name."""
    return {name: resolve_name(place) for name, place in added_by_apps(RESULTS).items()}


def added_sentences(edition: Edition) -> tuple[str, ...]:
    """Sentences of apps on an edition as it is now."""
    return tuple(sentence for app in edition_additions().values() for sentence in app.sentences(edition))
