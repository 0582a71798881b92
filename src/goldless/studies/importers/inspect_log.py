"""Logs of Inspect, .eval and .json, read by ``inspect_ai`` itself."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goldless.errors import PrerequisiteError
from goldless.studies.checking import Problems
from goldless.studies.importers.log import Log

JSON_START = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"')
STOPPED = {"content_filter": "refusal", "max_tokens": "truncated", "model_length": "truncated"}
"""Reasons why a model stopped, where its text is not the response."""
UNFINISHED = {
    "cancelled": ("cancelled", "was cancelled"),
    "error": ("not run", "ended in an error"),
    "started": ("not run", "has not ended"),
}
"""The reason why a sample is not in a log, and what became of the run, by its status."""
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0}
"""Inspect's grades as numbers; N, no answer, has none."""
OURS = "goldless"
"""The author of scores that goldless wrote into a log."""


class InspectLogs:
    """Agents are models; where runs of one model differ in solver, arguments or generation, its name says so."""

    description = "logs of Inspect (.eval or .json)"

    def recognises(self, path: Path) -> bool:
        if path.is_dir():
            return any(path.glob("*.eval"))
        if path.suffix == ".json":
            with path.open("rb") as file:
                return JSON_START.match(file.read(200)) is not None
        return path.suffix == ".eval" and path.is_file()

    def read(self, paths: Sequence[Path], problems: Problems, **_: Any) -> Mapping[str, Any] | Log:
        """The samples of all logs, with scores of models as judgements and those of people as labels."""
        found = Log(task_columns=("conversation",))
        for log in open_logs(paths, problems):
            for sample in log.samples(problems):
                _add(found, log, sample)
            if log.header.status in UNFINISHED:
                cause, said = UNFINISHED[log.header.status]
                found.notes.append(f"{log.path.name}: the run {said}; {len(log.seen):,} samples are in it")
                found.samples += [
                    {"task": log.task(name), "agent": log.agent, "missing": cause}
                    | {"source": log.source(name, epoch), "epoch": epoch}
                    for name in map(str, log.header.eval.dataset.sample_ids or ())
                    for epoch in range(1, (log.header.eval.config.epochs or 1) + 1)
                    if (name, epoch) not in log.seen
                ]
        if not found.samples:
            if not problems.total:
                problems.add("the logs have no samples")
            return {}
        return found


@dataclass
class InspectLog:
    """One log; its samples are read when asked for."""

    path: Path
    header: Any
    agent: str = ""
    seen: set[tuple[str, int]] = field(default_factory=set)
    """Samples read so far."""

    def task(self, sample_id: str | int) -> str:
        return f"{self.header.eval.task}/{sample_id}"

    def source(self, sample_id: str | int, epoch: int) -> str:
        return f"{self.path.name}:{sample_id}" + f" (epoch {epoch})" * ((self.header.eval.config.epochs or 1) > 1)

    def samples(self, problems: Problems) -> Iterator[Any]:
        reading = inspect_ai_log().read_eval_log_samples(
            str(self.path), all_samples_required=False, resolve_attachments="core", exclude_fields={"store", "events"}
        )
        try:
            for sample in reading:
                self.seen.add((str(sample.id), sample.epoch))
                yield sample
        except Exception as error:  # noqa: BLE001 - whatever a damaged file makes of its reader
            problems.add(_damaged(error), self.path.name)


def inspect_ai_log() -> Any:
    """The module of Inspect that reads and writes logs."""
    try:
        import inspect_ai.log  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise PrerequisiteError(
            f"Inspect logs are read and written by inspect-ai ({error}). Run: pip install 'goldless[inspect]'"
        ) from error
    return inspect_ai.log


def open_logs(paths: Sequence[Path], problems: Problems) -> list[InspectLog]:
    """The logs in these files and folders, each with its agent's name; what cannot be read is a problem."""
    reader = inspect_ai_log()
    found = []
    files = [file for path in paths for file in (sorted(path.glob("*.eval")) if path.is_dir() else [path])]
    for path in files:
        try:
            found.append(InspectLog(path, reader.read_eval_log(str(path), header_only=True)))
        except Exception as error:  # noqa: BLE001 - as above
            problems.add(_damaged(error), path.name)
    for log, agent in zip(found, _agents([log.header.eval for log in found]), strict=True):
        log.agent = agent
    return found


def _damaged(error: Exception) -> str:
    said = (str(error).splitlines() or [""])[0]
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return (
        f"cannot be read as a log of Inspect ({type(error).__name__}: {said[:200]}). It may be truncated: copy it "
        "again, or wait until the run has ended"
    )


def _agents(specs: Sequence[Any]) -> list[str]:
    """The model of each run and, where two runs of it on one task differ, what they differ in."""
    settings = []
    for spec in specs:
        chosen = {**(spec.solver_args or {}), **spec.task_args, **spec.model_args}
        chosen |= spec.model_generate_config.model_dump(exclude_none=True)
        plain = {key: _said(value) for key, value in chosen.items() if value is not None}
        settings.append({"solver": str(spec.solver or "default"), **plain})
    differing: dict[str, dict[str, None]] = {}
    for i, one in enumerate(specs):
        for j in range(i):
            if (one.model, one.task) == (specs[j].model, specs[j].task):
                keys = [key for key in {**settings[i], **settings[j]} if settings[i].get(key) != settings[j].get(key)]
                differing.setdefault(one.model, {}).update(dict.fromkeys(keys))
    names = []
    for spec, setting in zip(specs, settings, strict=True):
        said = [f"{key}={setting.get(key, 'default')}" for key in differing.get(spec.model, ())]
        names.append(f"{spec.model} ({', '.join(said)})" if said else spec.model)
    return names


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)


def _add(found: Log, log: InspectLog, sample: Any) -> None:
    cause, message = why_missing(sample)
    usage = sample.model_usage.get(log.header.eval.model)
    base = log.header.eval.model_base_url
    turns = () if isinstance(sample.input, str) else sample.input
    said = [f"{message.role}: {content_text(message.content)}" for message in turns]
    target = sample.target if isinstance(sample.target, str) else "\n".join(sample.target)
    for name, score in (sample.scores or {}).items():
        _add_score(found, name, score)
    found.samples.append(
        {
            "task": log.task(sample.id),
            "agent": log.agent,
            "text": None if cause else response_text(sample.output),
            "missing": cause,
            "message": message,
            "prompt": prompt_of(sample.input),
            "conversation": "\n\n".join(said) if len(said) > 1 else None,
            "reference": target or None,
            "model": log.header.eval.model + (f" at {base}" if base else ""),
            "source": log.source(sample.id, sample.epoch),
            "epoch": sample.epoch,
            "input_tokens": None if usage is None else usage.input_tokens,
            "output_tokens": None if usage is None else usage.output_tokens,
            "cost_usd": None if usage is None else usage.total_cost,
            "seconds": sample.working_time,
        }
    )


def _add_score(found: Log, name: str, score: Any) -> None:
    """The scorer's own value as a judgement or a score, and each person's edit as a label."""
    edits = [edit for edit in score.history if edit.provenance is not None and edit.value != "UNCHANGED"]
    for edit in edits:
        if edit.provenance.author != OURS:
            given = {"row": found.row, "rater": edit.provenance.author}
            found.labels += [{**given, "criterion": part, "score": value} for part, value in numbers(name, edit.value)]
    first = next((edit.value for edit in score.history if edit.provenance is None), None)
    if first is None and edits and all(edit.provenance.author != OURS for edit in edits):
        return  # a person's score alone
    value = score.value if first is None else first
    if is_judged(name, score):
        said = {"format": "inspect", "output": score.explanation or _said(value)}
        number = dict(numbers(name, value)).get(name)
        found.judgements.append({"row": found.row, "reviewer": name, **said, "value": number})
    else:
        for part, number in numbers(name, value):
            found.score(found.row, part, number)


def response_text(output: Any) -> str | None:
    """The text of the first choice: its parts of type text, without reasoning; None if there is none."""
    return content_text(output.choices[0].message.content) if output.choices else None


def content_text(content: Any) -> str:
    """A message's text: its parts of type text alone."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if part.type == "text")


def why_missing(sample: Any) -> tuple[str | None, str | None]:
    """The reason why a sample's text is not a response, in a word, and the details; None: it is one."""
    if sample.error is not None:
        return "error", sample.error.message
    if sample.invalidation is not None:
        return "invalidated", sample.invalidation.reason
    if sample.limit is not None:
        return "limit", f"{sample.limit.type} limit of {sample.limit.limit:g}"
    stopped = sample.output.choices[0].stop_reason if sample.output.choices else ""
    return STOPPED.get(stopped), stopped if stopped in STOPPED else None


def prompt_of(given: Any) -> str | None:
    """The input, or the last message of the user."""
    if isinstance(given, str):
        return given
    return next((content_text(message.content) for message in reversed(given) if message.role == "user"), None)


def is_judged(name: str, score: Any) -> bool:
    """True if a model gave the score: a model grader of Inspect keeps its transcript in the metadata."""
    return "model_graded" in name or "grading" in (score.metadata or {})


def numbers(name: str, value: Any) -> list[tuple[str, float]]:
    """The numbers in a score by name: one, or one per key; none for no answer and for an unscored sample."""
    if isinstance(value, Mapping):
        return [pair for key, one in value.items() for pair in numbers(f"{name}/{key}", one)]
    if isinstance(value, str):
        return [(name, GRADES[value])] if value in GRADES else []
    if isinstance(value, int | float) and math.isfinite(value):
        return [(name, float(value))]
    return []
