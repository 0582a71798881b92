"""One response among the answers of other models: a study of its own, scored like any other."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
from inspect_ai.scorer import Score

from goldless.errors import GoldlessError, UserError
from goldless.models.catalogue import open_model
from goldless.records import Response, Task
from goldless.runs.evaluation import MetricScores
from goldless.runs.options import Options
from goldless.runs.pipeline import score_study
from goldless.studies import Study, study_from_records
from goldless.studies.checking import all_at_once
from goldless.studies.importers.inspect_log import open_logs, prompt_of, response_text, why_missing

Key = tuple[str, str | None]
"""A sample: its id and its prompt, which must be the same for all models."""


class Panel:
    """The peers' answers, and the model that scores; both are there before Inspect asks the model under evaluation."""

    def __init__(self, files: Sequence[Path], model: str, options: Options) -> None:
        (method,) = options.scoring.chosen_metrics()
        needs = method.needs.logprobs
        if needs is None or needs.both_directions or not needs.pairs or needs.source or needs.text != "responses":
            raise UserError(f"method must be gem-raw or gem-s[COLUMN], with or without +control, got {method.name!r}")
        if not files:
            raise UserError("peers must name logs of other models to compare with. Try -S peers=OTHER.eval")
        self._files = files
        self._options = options
        self._scorer = open_model(model)
        self._answers: dict[Key, dict[str, str]] = {}
        self._names: dict[Key, str] = {}
        self._lock = anyio.Lock()
        with ThreadPoolExecutor(1) as threads:  # Inspect's own loop may be running here
            threads.submit(self._read).result()

    async def score(self, state: Any) -> Any:
        """The score of one sample; unscored, with the reason, where there is nothing to compare."""
        text = response_text(state.output)
        if not (text or "").strip():
            return Score.unscored(reason="no_response", explanation="the response is empty")
        async with self._lock:  # one at a time: the model is the same for all
            key = str(state.sample_id), prompt_of(state.input)
            me = str(state.model)
            peers = [name for name in self._answers.get(key, {}) if name != me]
            if not peers:
                return Score.unscored(reason="scoring_failed", explanation=self._lacking(key))
            try:
                return await self._scored(key, me, str(text), peers)
            except GoldlessError as error:
                return Score.unscored(reason="scoring_failed", explanation=str(error))

    async def _scored(self, key: Key, me: str, text: str, peers: Sequence[str]) -> Any:
        study = self._study(me, text)
        task = self._names[key]
        options = self._options.changed(scorer=self._scorer, pairing={(task, me): peers})
        (found,) = (await score_study(study, options)).scores.values()
        return _as_score(found, task, me, text, peers)

    def _study(self, me: str, text: str) -> Study:
        """The peers' answers to all samples, and this response.

        It also takes the place of this model's answers to the other samples, which are not known here: task control
        counts who answered what, and no model sees them.
        """
        tasks = [Task(self._names[key], prompt=key[1]) for key in self._answers]
        responses = [
            Response(self._names[key], agent, said)
            for key, answers in self._answers.items()
            for agent, said in ({name: said for name, said in answers.items() if name != me} | {me: text}).items()
        ]
        return study_from_records(tasks, responses, name="inspect")

    def _read(self) -> None:
        """Read the peers' answers, of several epochs the first; samples have the names that a study gives them."""
        with all_at_once(", ".join(map(str, self._files))) as problems:
            for log in open_logs(self._files, problems):
                for sample in log.samples(problems):
                    said = None if why_missing(sample)[0] else response_text(sample.output)
                    key = str(sample.id), prompt_of(sample.input)
                    if said and said.strip():
                        self._answers.setdefault(key, {}).setdefault(log.agent, said)
                        name = log.task(sample.id)
                        taken = key not in self._names and name in self._names.values()
                        self._names.setdefault(key, f"{name}: {key[1]}" if taken else name)

    def _lacking(self, key: Key) -> str:
        """The reason why a sample has no peers."""
        if any(sample == key[0] for sample, _ in self._answers):
            return f"sample {key[0]} has another prompt in the logs of the peers"
        return f"no log of another model has a response to sample {key[0]}"


def _as_score(found: MetricScores, task: str, me: str, text: str, peers: Sequence[str]) -> Any:
    rows = found.responses.cast({"task": str, "agent": str})
    mine = [row for row in rows.iter_rows(named=True) if (row["task"], row["agent"]) == (task, me)]
    value = mine[0]["score"] if mine else None
    metadata = {"signature": str(found.signature), "metric": found.metric.name, "peers": list(peers)}
    if value is None:
        return Score.unscored(reason="scoring_failed", answer=text, explanation="no pair was scored", metadata=metadata)
    said = f"{value:.4g} {found.metric.unit} about the answers of {len(peers)} other model{'s' * (len(peers) > 1)}"
    return Score(value=float(value), answer=text, explanation=said, metadata=metadata)
