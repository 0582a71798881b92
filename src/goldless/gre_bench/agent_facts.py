"""What is known of models: sizes, families and cut-offs from a table the user has."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.studies.agent_table import read_agents
from goldless.studies.checking import all_at_once
from goldless.studies.tables import Source

KNOWN = ("parameters", "family", "cutoff_date")


def read_agent_facts(path: Path) -> dict[str, dict[str, Any]]:
    """What a .csv, .jsonl or .parquet table says of agents, by name. Raises with everything that is wrong in it."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; give a table with agent, {', '.join(KNOWN)}")
    with all_at_once(str(path)) as problems:
        agents = read_agents(Source(path, path.name), problems).records()
    return {agent.agent: {k: v for k, v in asdict(agent).items() if k in KNOWN and v is not None} for agent in agents}
