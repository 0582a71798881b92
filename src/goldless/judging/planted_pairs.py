"""Planted pairs: two texts for one prompt whose better side is known by construction and whose worse side looks better.

They are made from the user's own tasks and responses, without labels and without a model, so that a reviewer who
judges by looks fails them. The kinds:

- *neighbour*: a response against the answer to the nearest other task. The right side is the plainest response to the
  task, the wrong side the best-looking response to the other one, so that looks point the wrong way.
- *neighbour, right side longer*: the same with looks that point the right way. A control: a reviewer that always
  prefers the shorter text fails it.
- *altered*: a response against itself with one number, name or negation changed; the wrong side is then made longer and
  better formatted by rule.
- *empty*: a response against a text that answers nothing: the prompt repeated, or one of the master keys that are
  known to deceive judges ("One Token to Fool LLM-as-a-Judge", arXiv 2507.08794).

A draw depends on the seed and on names only, never on the order of rows, and a larger one contains the smaller.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import polars as pl

from goldless.evidence import EXAMS, empty, exams_frame
from goldless.judging.asking import ReviewStage
from goldless.judging.exams import ExamPair, PromptSimilarity, both_orders
from goldless.models.interface import content_hash
from goldless.sentences import split_sentences

Kind = Literal["neighbour", "neighbour, right side longer", "altered", "empty"]
KINDS: tuple[Kind, ...] = ("neighbour", "neighbour, right side longer", "altered", "empty")
FEWEST_OF_A_KIND, MOST_OF_A_KIND = 5, 20
"""Pairs of each kind; each pair is shown in both orders."""
CONTROL: Kind = "neighbour, right side longer"
PARAPHRASE = 0.8
"""Prompts at least this similar (cosine of TF-IDF weights) may ask for the same thing."""
NEIGHBOURS = 5
"""The nearest tasks among which one is chosen whose answer has the intended looks."""
MASTER_KEYS = ("Thought process:", "Let's solve this problem step by step.", "Solution", ":", "解")
"""Texts without an answer that judges reward, as published (arXiv 2507.08794, table 1)."""
FORMATTING = re.compile(r"^[ \t]*(?:[-*+•]|\d+[.)]|#{1,6})[ \t]+|\*\*[^*\n]+\*\*", re.MULTILINE)
FORMAT_WORTH = 10
"""A list mark, heading or bold phrase adds to looks what this many words add."""
NUMBER = re.compile(r"(?<![\w.,])\d{1,9}(?:[.,]\d+)?(?![\w]|[.,]\d)")
NAME = re.compile(r"(?<![.!?:\n] )(?<!^)(?<=\s)[A-Z][a-z]{2,}(?=[\s,.;:!?)])")
NEGATIONS: Mapping[str, str] = {
    "is": "is not",
    "are": "are not",
    "was": "was not",
    "were": "were not",
    "can": "cannot",
    "will": "will not",
    "should": "should not",
    "has": "has never",
    "have": "have never",
}
AUXILIARY = re.compile(rf"\b(?:{'|'.join(NEGATIONS)})\b(?! not\b)(?!n't)")
OPENING = "Here is a detailed and well-structured answer:"
CLOSING = (
    "I hope this overview is helpful. Please let me know if you would like further details on any of these points!"
)

RIGHT, WRONG = "right", "wrong"
"""Names used instead of agents in the exam's judgements; the reviewer does not see them."""
Texts = Mapping[tuple[str, str], str]
"""Responses by task and agent."""


@dataclass(frozen=True, slots=True)
class PlantedPair:
    """Two texts for a prompt, of which ``right`` is the better one by construction."""

    kind: Kind
    task: str
    prompt: str
    right: str
    wrong: str

    @property
    def looks_mislead(self) -> bool:
        """True if the wrong side is longer or better formatted."""
        return looks(self.wrong) > looks(self.right)


def looks(text: str) -> int:
    """Return how much a text makes a show of: its words, and its list marks, headings and bold phrases."""
    return len(text.split()) + FORMAT_WORTH * len(FORMATTING.findall(text))


def pairs_of_each_kind(exam_items: int | None) -> int:
    """Return how many pairs of each kind an exam of so many items has: a tenth, from 5 to 20."""
    if exam_items is None:
        return MOST_OF_A_KIND
    return min(MOST_OF_A_KIND, max(FEWEST_OF_A_KIND, exam_items // 10))


def planted_pairs(
    prompts: Mapping[str, str], texts: Texts, *, items: int, seed: int = 0, kinds: Sequence[Kind] = KINDS
) -> list[PlantedPair]:
    """Return up to ``items`` pairs of each kind, of one kind never two on a task."""
    responses: dict[str, list[str]] = {}
    for (task, _), text in texts.items():
        if text.strip() and prompts.get(task, "").strip():
            responses.setdefault(task, []).append(text)
    if not responses:
        return []
    by_looks = {task: sorted(own_texts, key=lambda text: (looks(text), text)) for task, own_texts in responses.items()}
    planter = _Planter(prompts, by_looks, PromptSimilarity({task: prompts[task] for task in responses}), seed)
    pairs: list[PlantedPair] = []
    for kind in kinds:
        drawn = {content_hash("planted", kind, seed, task): task for task in responses}
        possible = (planter.pair(kind, drawn[draw]) for draw in sorted(drawn))
        pairs += islice((pair for pair in possible if pair is not None), items)
    return pairs


@dataclass(frozen=True, slots=True)
class _Planter:
    """Makes the pair of one kind on a task, or none where the task's texts allow none."""

    prompts: Mapping[str, str]
    by_looks: Mapping[str, Sequence[str]]
    """The responses to each task, the plainest first."""
    similarity: PromptSimilarity
    seed: int

    def pair(self, kind: Kind, task: str) -> PlantedPair | None:
        if kind == "altered":
            sides = self._altered(task)
        elif kind == "empty":
            sides = self._empty(task)
        else:
            sides = self._neighbour(task, wrong_looks_better=kind != CONTROL)
        return None if sides is None else PlantedPair(kind, task, self.prompts[task], *sides)

    def _neighbour(self, task: str, *, wrong_looks_better: bool) -> tuple[str, str] | None:
        own_texts = self.by_looks[task]
        possible: list[tuple[str, str]] = []
        for neighbour in self.similarity.nearest_first(task, below=PARAPHRASE)[:NEIGHBOURS]:
            foreign_texts = self.by_looks[neighbour]
            right, wrong = own_texts[-1], foreign_texts[0]
            if wrong_looks_better:
                right, wrong = own_texts[0], foreign_texts[-1]
            if not any(same_words(wrong, text) for text in own_texts):
                possible.append((right, wrong))
        with_intended_looks = [
            (right, wrong) for right, wrong in possible if (looks(wrong) > looks(right)) == wrong_looks_better
        ]
        return next(iter(with_intended_looks or possible), None)

    def _altered(self, task: str) -> tuple[str, str] | None:
        right = self.by_looks[task][-1]
        altered = altered_fact(right, prompt=self.prompts[task], seed=self.seed)
        return None if altered is None else (right, dressed_up(altered))

    def _empty(self, task: str) -> tuple[str, str] | None:
        right = self.by_looks[task][0]
        empty_answers = (*MASTER_KEYS, self.prompts[task])
        number = int(content_hash("master key", self.seed, task)[:8], 16) % len(empty_answers)
        wrong = empty_answers[number]
        return None if same_words(wrong, right) else (right, wrong)


def same_words(first: str, second: str) -> bool:
    """Return True if two texts differ only in case, spaces and punctuation."""
    words = [re.findall(r"\w+", text.casefold()) for text in (first, second)]
    return words[0] == words[1]


def altered_fact(text: str, *, prompt: str = "", seed: int = 0) -> str | None:
    """Return the text with one number, name or negation changed, or None if it has none to change.

    Numbers come first; then a name that is replaced by another one; then a statement that is negated. Names are
    capitalised words within sentences that the prompt has too, or the text twice: others may be a style of headings.
    """
    alternatives = (_changed_numbers(text), _changed_names(text, prompt), _negated(text))
    for changes in alternatives:
        changed_texts = [changed for changed in changes if not same_words(changed, text)]
        if changed_texts:
            return min(changed_texts, key=lambda changed: content_hash("altered", seed, changed))
    return None


def _changed_numbers(text: str) -> Iterator[str]:
    for match in NUMBER.finditer(text):
        if _is_list_mark(text, match):
            continue
        digits = match[0]
        first_digit = int(digits[0])
        yield text[: match.start()] + str(first_digit % 9 + 1) + digits[1:] + text[match.end() :]


def _is_list_mark(text: str, match: re.Match[str]) -> bool:
    line_start = text.rfind("\n", 0, match.start()) + 1
    opens_line = not text[line_start : match.start()].strip()
    return opens_line and text[match.end() : match.end() + 1] in {".", ")"}


def _changed_names(text: str, prompt: str) -> Iterator[str]:
    counts = Counter(match[0] for match in NAME.finditer(text))
    names = sorted(name for name, count in counts.items() if count > 1 or name in prompt)
    if len(names) < 2:
        return
    for match in NAME.finditer(text):
        if match[0] not in names:
            continue
        next_name = names[(names.index(match[0]) + 1) % len(names)]
        yield text[: match.start()] + next_name + text[match.end() :]


def _negated(text: str) -> Iterator[str]:
    for match in AUXILIARY.finditer(text):
        yield text[: match.start()] + NEGATIONS[match[0]] + text[match.end() :]


def dressed_up(text: str) -> str:
    """Return the text as a list of its sentences with bold openings, between a greeting and an offer of help."""
    bullets = [f"- **{_first_words(sentence.text)}**{_rest(sentence.text)}" for sentence in split_sentences(text)]
    return "\n".join((OPENING, "", *bullets, "", CLOSING))


def _first_words(sentence: str) -> str:
    return " ".join(sentence.replace("*", "").split()[:3])


def _rest(sentence: str) -> str:
    words = sentence.replace("*", "").split()[3:]
    return f" {' '.join(words)}" if words else ""


async def sit_planted(stage: ReviewStage, pairs: Sequence[PlantedPair], *, at_once: int = 1) -> pl.DataFrame:
    """Return the reviewer's answers on both orders of each pair, kind by kind."""
    answers = [empty(EXAMS)]
    for kind in dict.fromkeys(pair.kind for pair in pairs):
        pairs_of_kind = [pair for pair in pairs if pair.kind == kind]
        prompts = {pair.task: pair.prompt for pair in pairs_of_kind}
        texts = {(pair.task, RIGHT): pair.right for pair in pairs_of_kind}
        texts |= {(pair.task, WRONG): pair.wrong for pair in pairs_of_kind}
        questions = both_orders(ExamPair(pair.task, RIGHT, WRONG) for pair in pairs_of_kind)
        judgements = await stage.review(questions, texts, prompts, at_once=at_once)
        answers.append(exams_frame("planted", judgements, kind))
    return pl.concat(answers)
