"""OpenTelemetry: scores as ``gen_ai.evaluation.result`` events, in OTLP's JSON encoding of logs."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from goldless._version import __version__
from goldless.exporting.scored_run import RunExporter
from goldless.files import write_text

EVENT = "gen_ai.evaluation.result"


class OpenTelemetry(RunExporter):
    """One event per scored response; a collector reads the file with its OTLP JSON file receiver."""

    description = f"OpenTelemetry: {EVENT} events as OTLP JSON"
    suffix = ".json"

    def write(self, thing: Any, path: Path, *, metric: str | None = None) -> None:
        """Write the events of one metric or all."""
        nanoseconds = "0"
        with suppress(ValueError):  # not noted, or damaged
            nanoseconds = str(int(datetime.fromisoformat(thing.made_at).timestamp()) * 10**9)
        rows = thing.response_scores(metric).drop_nulls("score").select("metric", "task", "agent", "score")
        records = [
            {
                "timeUnixNano": nanoseconds,
                "eventName": EVENT,
                "attributes": [
                    _attribute("gen_ai.evaluation.name", name),
                    {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": score}},
                    _attribute("gen_ai.request.model", agent),
                    _attribute("goldless.task", task),
                    _attribute("goldless.unit", thing.ranked[name].unit),
                    _attribute("goldless.signature", thing.ranked[name].signature),
                ],
            }
            for name, task, agent, score in rows.iter_rows()
        ]
        scope = {"scope": {"name": "goldless", "version": __version__}, "logRecords": records}
        resource = {"attributes": [_attribute("service.name", "goldless")]}
        data = {"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]}
        write_text(path, json.dumps(data, ensure_ascii=False) + "\n")


def _attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}
