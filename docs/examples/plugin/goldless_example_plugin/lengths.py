"""``goldless lengths``: how long each agent's responses are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from goldless.cli.command import verb
from goldless.reports.document import Result
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.option_forms import option
from goldless.studies import Study


@dataclass(frozen=True, kw_only=True)
class Counting:
    """Options of the verb."""

    at_least: int = option(1, "Leave out agents with fewer responses.", at_least=1)


@dataclass(frozen=True)
class Lengths(Result):
    """Mean characters of a response, by agent."""

    characters: dict[str, float]

    def sentences(self) -> Iterable[tuple[str, ...]]:
        """Sentences above the table."""
        yield (f"{max(self.characters, key=self.characters.__getitem__)} writes the longest responses.",)

    def tables(self) -> list[ReportTable]:
        """One row per agent."""
        columns = (Column("agent", "agent"), Column("characters", "mean characters", "count"))
        rows = tuple({"agent": agent, "characters": mean} for agent, mean in self.characters.items())
        return [ReportTable("Lengths", columns, rows)]


@verb()
def lengths(study: Study, verb_options: Counting) -> Lengths:
    """Show how long each agent's responses are.

    Example:
      goldless lengths answers.csv
    """
    found: dict[str, list[int]] = {}
    for _, responses in study:
        for response in responses:
            found.setdefault(response.agent, []).append(len(response.text))
    return Lengths({agent: sum(one) / len(one) for agent, one in found.items() if len(one) >= verb_options.at_least})
