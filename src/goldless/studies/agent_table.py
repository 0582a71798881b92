"""The agents table: each agent once, with its group, size, family and cut-off date."""

from __future__ import annotations

from datetime import date

from goldless.dates import last_day
from goldless.records import Agent
from goldless.studies.checking import Checking, Names, Problems, Row
from goldless.studies.tables import Source


class AgentTable:
    """The agents: those the table lists, or else those that other tables name."""

    def __init__(self, listed: dict[str, Agent] | None = None, listed_in: str = "") -> None:
        self._listed = listed or {}
        self.names = Names(listed_in)
        self.names.update({agent: number for number, agent in enumerate(self._listed)})

    def records(self) -> tuple[Agent, ...]:
        """All agents, in order."""
        return tuple(self._listed.get(name) or Agent(name) for name in self.names)


def read_agents(source: Source, problems: Problems) -> AgentTable:
    """The agents in the order of the table."""
    check = Checking(source.file, problems)
    agents: dict[str, Agent] = {}
    first: dict[str, int] = {}
    for chunk in source.chunks(problems):
        check.rows += len(chunk.rows)
        for line, row in zip(chunk.lines, chunk.rows, strict=True):
            agent = _agent(row, line, check)
            if agent is None:
                continue
            if agent.agent in agents:
                check.duplicate(f"agent {agent.agent!r} stands here again; it is on line {first[agent.agent]}", line)
                continue
            agents[agent.agent] = agent
            first[agent.agent] = line
    check.finish()
    if not check.rows and not check.broken:
        check.add("no rows; an agents table names every agent, or is left out")
    return AgentTable(agents, "" if check.broken else source.file)


def _agent(row: Row, line: int, check: Checking) -> Agent | None:
    name = check.name(row, "agent", line)
    group = check.optional_name(row, "group", line)
    parameters = check.optional_number(row, "parameters", line)
    family = check.optional_name(row, "family", line)
    cutoff = _cutoff_date(row, line, check)
    if parameters is not None and parameters <= 0:
        check.add(f"parameters is {parameters:g}; a number of parameters such as 7e9 is needed", line)
    return None if name is None else Agent(name, group, parameters, family, cutoff)


def _cutoff_date(row: Row, line: int, check: Checking) -> str | None:
    value = row.get("cutoff_date")
    if isinstance(value, date):
        # A datetime is a date too, and its time says nothing here.
        return date(value.year, value.month, value.day).isoformat()
    text = check.optional_text(row, "cutoff_date", line)
    if text is None:
        return None
    if last_day(text) is None:
        check.add(f"cutoff_date is {text!r}; a date such as 2023-09-30, 2023-09 or 2023 is needed", line)
        return None
    return text.strip()
