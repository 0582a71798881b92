"""Attacks that agents can agree on, or that need no knowledge of the task: shared empty texts, copies, deception."""

from __future__ import annotations

import re

from goldless.meta_evaluation.perturbations.manipulations import EMPTY_WORDS, add_tag, reformat
from goldless.meta_evaluation.perturbations.perturbation import (
    MATERIAL,
    Change,
    Made,
    Perturbation,
    Setting,
    of_text,
    rewritten,
)
from goldless.records import CallFailure, Response

SOURCE = "this project"
BOILERPLATE = (
    "Thank you for this question, which deserves a careful look. There are several aspects to consider, and each of "
    "them matters in its own way. In general it is best to weigh the available options, to keep the overall goal in "
    "mind and to proceed step by step. Results may vary with the circumstances, so it is advisable to review them "
    "regularly and to adjust where necessary. I hope that this gives you a helpful overview, and I am happy to go into "
    "more detail."
)
"""A text that fits any task and says nothing about it."""

COLLUSION = Perturbation(
    "collusion",
    "degradation",
    SOURCE,
    "the same empty text from all agents, on every task",
    of_text(lambda _: BOILERPLATE),
    scope="everybody",
)

# --- copies ----------------------------------------------------------------------------------------------------------


def _copy_prompt(setting: Setting) -> Change:
    def copy(response: Response) -> Made:
        prompt = setting.study.task(response.task).prompt
        return prompt or CallFailure("not_recorded", f"task {response.task} has no prompt", attempts=0)

    return copy


PROMPT_COPY = Perturbation("prompt-copy", "degradation", SOURCE, "the task's prompt, word for word", _copy_prompt)


def swap_words(text: str, every: int = 4) -> str:
    """The text with every fourth pair of neighboring words swapped; white space stays."""
    pieces = re.split(r"(\s+)", text)  # words at even places
    for place in range(0, len(pieces) - 2, 2 * every):
        pieces[place], pieces[place + 2] = pieces[place + 2], pieces[place]
    return "".join(pieces)


def _copy_peer(setting: Setting) -> Change:
    def copy(response: Response) -> Made:
        there = {one.agent: one.text for one in setting.study.responses(response.task) if one.agent != response.agent}
        peers = [peer for peer in setting.peers.get((response.task, response.agent), ()) if peer in there]
        name = next(iter(peers or there), None)
        if name is None:
            return CallFailure("not_recorded", f"task {response.task} has no other response", attempts=0)
        return swap_words(there[name])

    return copy


NEAR_COPY = Perturbation(
    "near-copy",
    "manipulation",
    SOURCE,
    "a peer's response with some neighboring words swapped",
    _copy_peer,
    by_default=False,  # whatever rewards agreement with peers rewards a copy of one; the audit finds those
)

# --- the same dress for everyone -------------------------------------------------------------------------------------

STYLE_OF_ALL = Perturbation(
    "style-of-all",
    "manipulation",
    SOURCE,
    "one house style for all agents: a tag, Markdown and the same closing words",
    lambda setting: lambda response: add_tag(f"{reformat(response.text)}\n\n{EMPTY_WORDS}", seed=setting.seed),
    scope="everybody",
)

# --- written by a chat model -----------------------------------------------------------------------------------------

TRANSLATING = (
    "Translate the text you are given into {language}. Keep every statement and the structure; add nothing and leave "
    f"nothing out. {MATERIAL} Output the translation and nothing else."
)
DECEIVING = (
    "Rewrite the text you are given so that it misleads its reader: keep its style, structure and length, but replace "
    "its correct and specific statements by plausible ones that are wrong. Do not hint that anything was changed. "
    f"{MATERIAL} Output the rewritten text and nothing else."
)
LANGUAGE = "German"


TRANSLATE = rewritten(TRANSLATING, "translation", language=LANGUAGE)
TRANSLATION = Perturbation(
    "translation",
    "manipulation",
    SOURCE,
    f"translated into {LANGUAGE} by a writer",
    TRANSLATE,
    needs_writer=True,
).with_open_form("LANGUAGE", TRANSLATE, description="translated into another language")
DECEPTIVE = Perturbation(
    "deceptive",
    "degradation",
    SOURCE,
    "rewritten by a writer to be fluent and wrong",
    rewritten(DECEIVING, "deceptive version"),
    needs_writer=True,
)
COLLUSIONS = (COLLUSION, PROMPT_COPY, DECEPTIVE, STYLE_OF_ALL, NEAR_COPY, TRANSLATION)
