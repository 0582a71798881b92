"""The record on public sets with known truth: how a default metric did on studies of the kind at hand.

The figures are of the embedded model, from docs/truth.md and docs/decisions/0009_the_default_metric.md.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from goldless.audit.texts import sampled_tasks
from goldless.studies import Study

StudyKind = Literal["sources", "sources without grounding", "translations", "open questions", "repeated texts"]

SCRIPT_OF_THE_SETS = "latin"
"""The script of the responses in every set with known truth."""
WORDS_WITHOUT_SPACES = {"cjk", "hiragana", "katakana", "hangul"}
"""Scripts that are often mixed in one text."""
RECORD: dict[StudyKind, str] = {
    "sources": "with sources in the prompts this metric ordered 61% to 81% of the pairs of responses to one task as "
    "people did, word overlap 57% to 69%",
    "sources without grounding": "with sources in the prompts this metric ordered 54% to 72% of the pairs of responses "
    "to one task as people did, no more than word overlap (57% to 69%)",
    "translations": "this metric ordered 57% of the pairs of translations as people did, no more than word overlap; "
    "two professional translators were last",
    "open questions": "on open questions this metric ordered models much as a public board does (correlation .77 given "
    "length; word overlap -.04)",
    "repeated texts": "this form of the metric was not measured",
}


def truth_record(study: Study, *, has_sources: bool, uses_grounding: bool, repeats_texts: bool) -> str:
    """The sentence on how the default metric did, where the truth was known, on studies of this kind."""
    responses = main_script(text for text in sampled_texts(study, "responses"))
    if responses not in {None, SCRIPT_OF_THE_SETS}:
        return f"Where the answer was known: nothing was measured on responses in this script ({responses})."
    prompts = main_script(text for text in sampled_texts(study, "prompts"))
    kind: StudyKind = "open questions"
    if has_sources:
        kind = "sources" if uses_grounding else "sources without grounding"
    elif repeats_texts:
        kind = "repeated texts"
    elif prompts not in {None, responses}:
        kind = "translations"
    return f"Where the answer was known: {RECORD[kind]}."


def sampled_texts(study: Study, what: Literal["prompts", "responses"]) -> Iterable[str]:
    """The prompts or responses of evenly spaced tasks."""
    for name in sampled_tasks(study):
        if what == "prompts":
            yield study.task(name).prompt or ""
        else:
            yield from (response.text for response in study.responses(name))


def main_script(texts: Iterable[str]) -> str | None:
    """The script that most letters are of, such as "latin" or "cjk"; None without letters."""
    letters = Counter(letter for text in texts for letter in text if letter.isalpha())
    scripts: Counter[str] = Counter()
    for letter, count in letters.items():
        name = unicodedata.name(letter, "unknown").split()[0].lower()
        scripts["cjk" if name in WORDS_WITHOUT_SPACES else name] += count
    return scripts.most_common(1)[0][0] if scripts else None
