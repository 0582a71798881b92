"""The kind of a study's tasks, from the prompts and responses alone: whether prompts hold what responses are about.

The rule and its test on public sets: docs/decisions/0009_the_default_metric.md.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from goldless.audit.texts import sampled_tasks
from goldless.studies import Study

ENOUGH_TASKS = 0.5
"""A study has sources if this share of its tasks with a prompt has one."""
ENOUGH_WORDS = 0.5
"""A prompt holds a source if the median response takes this share of its distinct words from it."""


def share_with_source(study: Study) -> float:
    """The share of tasks with a prompt whose prompt holds what the responses are about; 0 without prompts.

    Of a large study evenly spaced tasks are read.
    """
    chosen = set(sampled_tasks(study)) if study.n_responses else set()
    held = []
    for task, responses in study:
        prompt = _words(task.prompt or "")
        texts = [words for response in responses if (words := _words(response.text))]
        if task.task in chosen and prompt and texts:
            held.append(_holds_source(prompt, texts))
    return statistics.mean(held) if held else 0.0


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _holds_source(prompt: Sequence[str], responses: Sequence[Sequence[str]]) -> bool:
    """True if the prompt is longer than the median response, and has half of its distinct words."""
    in_prompt = set(prompt)
    taken = statistics.median(len(in_prompt & set(response)) / len(set(response)) for response in responses)
    longer = len(prompt) > statistics.median(len(response) for response in responses)
    return longer and taken >= ENOUGH_WORDS
