"""Studies of a few invented words, and the scores that a leaderboard has of their agents."""

from __future__ import annotations

from collections.abc import Mapping

import goldless

Texts = Mapping[str, Mapping[str, str]]

THREE_AGENTS: Texts = {
    "t1": {"ann": "zarn bluk mipo tolu", "bob": "zarn bluk mipo", "cy": "quex"},
    "t2": {"ann": "vond rask", "bob": "rask vond ebbo", "cy": "quex"},
    "t3": {"ann": "lirp", "bob": "lirp hoft", "cy": "hoft quex"},
}
"""Invented words, none of which stands in a prompt template."""


def text_rows(texts: Texts) -> list[dict[str, str]]:
    return [{"task": task, "agent": agent, "text": text} for task, by in texts.items() for agent, text in by.items()]


def scores(result: goldless.Evaluation, metric: str | None = None) -> dict[str, float | None]:
    return {row.agent: row.score for row in result.leaderboard(metric).rows}
