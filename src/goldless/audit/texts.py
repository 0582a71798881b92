"""Findings from the texts alone: repeated texts, near-identical agents, copied prompts, other languages, refusals.

No model is asked. Of large studies evenly spaced tasks are read, always the same ones.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import py3langid
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from goldless.arrays import FloatArray
from goldless.audit.finding import Finding, listed
from goldless.statistics.comparisons import too_few_tasks
from goldless.studies import Study

ELEMENTS_AT_ONCE = 1 << 21
RESPONSES = 3_000
"""About this many responses are read, but those to at least ``LEAST_TASKS`` tasks."""
LEAST_TASKS = 20
ALIKE = 0.8
"""Two texts are nearly the same where they share this much of their runs of three words (Jaccard)."""
COPIED = 0.8
"""A response repeats its prompt where this much of its runs of three words is in the prompt."""
REARRANGED = 0.95
"""Or this much of its words, in any order, if it is at least half as long: a summary is shorter."""
ENOUGH_WORDS = 8
"""Shorter texts are often alike for good reasons."""
ENOUGH_CHARACTERS = 40
"""The language of shorter texts cannot be recognised."""
FEWEST_TASKS = 3
_WORD = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W_]+")  # where words are not separated, characters
_REFUSAL = re.compile(
    r"\b(?:i.?m|i am) (?:really |very |so )?sorry,? but|\bas an ai(?: language)? model"
    r"|\bi (?:can.?t|cannot|won.?t|am (?:un|not )able to|must decline to) (?:\w+ )?"
    r"(?:help|assist|answer|provide|comply|fulfill|discuss|do that)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Sample:
    """Responses to some of the tasks, as rows: number of task and of agent, text, and its runs of words as a matrix."""

    agents: tuple[str, ...]
    n_tasks: int
    task: npt.NDArray[np.int64]
    agent: npt.NDArray[np.int64]
    texts: Sequence[str]
    prompts: Sequence[str | None]
    """By task."""
    shingles: sparse.csr_array
    """[responses and then prompts, different runs of words], 1 where the text has the run."""
    vocabulary: sparse.csr_array
    """The same of single words."""
    words: npt.NDArray[np.int64]
    """Number of words of each."""

    def of_task(self, task: int) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self.task == task)


def study_warnings(study: Study) -> Iterator[str]:
    """Warnings about a study before it is scored: too few tasks, and what its texts show."""
    shared = sum(len(responses) > 1 for _, responses in study) if study.n_responses else len(study.tasks)
    if len(study.agents) > 1 and (few := too_few_tasks(shared)):
        yield few
    yield from (finding.message for finding in text_findings(study))


def text_findings(study: Study) -> list[Finding]:
    """Findings from the texts of a study, most serious first; empty: nothing was found."""
    if not study.n_responses:
        return []
    sample = _sampled(study)
    found = [*_same_text(sample), *_near_identical(sample), *_repeated_prompts(sample), *_other_languages(sample)]
    for agent, rows in _by_agent(sample):
        count = sum(bool(_REFUSAL.search(sample.texts[row][:300])) for row in rows)
        if count >= max(FEWEST_TASKS, len(rows) / 10):
            found.append(Finding("refusals", (agent,), f"{agent} declines to answer {count} of {len(rows)} tasks."))
    return found


def repeats_prompts(study: Study) -> bool:
    """True if an agent's responses are its prompts again."""
    return bool(study.n_responses) and any(_repeated_prompts(_sampled(study)))


# --- reading ---------------------------------------------------------------------------------------------------------


def sampled_tasks(study: Study) -> list[str]:
    """The tasks that are looked at: all of a small study, evenly spaced ones of a large study."""
    most = max(LEAST_TASKS, RESPONSES // max(1, len(study.agents)))
    places = np.unique(np.linspace(0, len(study.tasks) - 1, min(most, len(study.tasks))).astype(int))
    return [study.tasks[int(place)] for place in places]


def _sampled(study: Study) -> _Sample:
    agents = {agent.agent: number for number, agent in enumerate(study.agents)}
    chosen = sampled_tasks(study)
    task, agent, texts, prompts = [], [], [], []
    for number, name in enumerate(chosen):
        prompts.append(study.task(name).prompt)
        for response in study.responses(name):
            task.append(number)
            agent.append(agents[response.agent])
            texts.append(response.text)
    words = [_WORD.findall(text.casefold()) for text in [*texts, *(prompt or "" for prompt in prompts)]]
    return _Sample(
        tuple(agents),
        len(chosen),
        np.array(task),
        np.array(agent),
        texts,
        prompts,
        _shingle_matrix(words),
        _shingle_matrix(words, 1),
        np.array([len(found) for found in words]),
    )


def _shingle_matrix(words: Sequence[Sequence[str]], run: int = 3) -> sparse.csr_array:
    """A matrix of the texts and their runs of words; a text shorter than a run is one run."""
    numbers: dict[tuple[str, ...], int] = {}
    rows, columns = [], []
    for row, found in enumerate(words):
        runs = {tuple(found[i : i + run]) for i in range(max(1, len(found) - run + 1))} if found else set()
        rows += [row] * len(runs)
        columns += [numbers.setdefault(one, len(numbers)) for one in runs]
    return sparse.csr_array(
        (np.ones(len(rows)), (rows, columns)), shape=(len(words), max(1, len(numbers))), dtype=np.float64
    )


def _shared(shingles: sparse.csr_array) -> Iterator[tuple[int, FloatArray]]:
    """The share that each two of the rows have in common, in blocks of rows with the number of their first."""
    sizes: FloatArray = shingles.sum(axis=1)
    step = max(1, ELEMENTS_AT_ONCE // max(1, shingles.shape[0]))
    for begin in range(0, shingles.shape[0], step):
        common: FloatArray = (shingles[begin : begin + step] @ shingles.T).toarray()
        either = sizes[begin : begin + step, None] + sizes[None, :] - common
        yield begin, np.divide(common, either, out=np.zeros_like(common), where=common > 0)


def _by_agent(sample: _Sample) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    order = np.argsort(sample.agent, kind="stable")
    ends = np.cumsum(np.bincount(sample.agent, minlength=len(sample.agents)))
    for agent, rows in zip(sample.agents, np.split(order, ends[:-1]), strict=True):
        if len(rows) >= FEWEST_TASKS:
            yield agent, rows


# --- the checks ------------------------------------------------------------------------------------------------------


def _same_text(sample: _Sample) -> Iterator[Finding]:
    """Agents that give one text, or nearly one, to many tasks."""
    sizes = sample.shingles.sum(axis=1)
    for agent, rows in _by_agent(sample):
        fewest = max(FEWEST_TASKS, len(rows) / 2)
        (_, count), *_ = Counter(" ".join(sample.texts[row].split()) for row in rows).most_common(1)
        if count >= fewest:
            yield Finding("same-text", (agent,), f"{agent} gives the same text to {count} of {len(rows)} tasks.")
            continue
        enough = sample.words[rows] >= ENOUGH_WORDS
        mine = sizes[rows]  # texts of very different lengths are not alike: most agents need no closer look
        close = (ALIKE * mine <= mine[:, None]) & (ALIKE * mine[:, None] <= mine) & enough
        if close.sum(axis=1).max() < fewest:
            continue
        count = max(int(((found >= ALIKE) & enough).sum(axis=1).max()) for _, found in _shared(sample.shingles[rows]))
        if count >= fewest:
            yield Finding("same-text", (agent,), f"{agent} gives nearly the same text to {count} of {len(rows)} tasks.")


def _near_identical(sample: _Sample) -> Iterator[Finding]:
    """Groups of agents whose responses to the same tasks are nearly the same."""
    tasks = [rows[sample.words[rows] >= ENOUGH_WORDS] for rows in map(sample.of_task, range(sample.n_tasks))]
    size = len(sample.agents)
    answered = np.zeros((sample.n_tasks, size), np.bool_)
    pairs = [np.zeros(0, np.int64)]
    for task, rows in enumerate(tasks):
        answered[task, sample.agent[rows]] = True
        for begin, found in _shared(sample.shingles[rows]):
            first, second = np.nonzero(found >= ALIKE)
            pairs.append(sample.agent[rows[first + begin]] * size + sample.agent[rows[second]])
    numbers, alike = np.unique(np.concatenate(pairs), return_counts=True)
    first, second = np.divmod(numbers, size)
    common = (answered[:, first] & answered[:, second]).sum(axis=0)
    same = (first != second) & (common >= FEWEST_TASKS) & (alike >= common / 2)
    links = sparse.csr_array((np.ones(same.sum()), (first[same], second[same])), shape=(size, size))
    _, group = connected_components(links, directed=False)
    for number in np.flatnonzero(np.bincount(group) > 1):
        members = np.flatnonzero(group == number)
        theirs = [rows[np.isin(sample.agent[rows], members)] for rows in tasks]
        similarity = sum(found.sum() for rows in theirs for _, found in _shared(sample.shingles[rows]))
        texts = sum(map(len, theirs))  # each of which is like itself
        share = (similarity - texts) / (sum(len(rows) ** 2 for rows in theirs) - texts)
        names = tuple(sample.agents[member] for member in members)
        yield Finding(
            "near-identical",
            names,
            f"{listed(names)} give nearly the same responses ({share:.0%} alike on average). "
            "They vouch for each other: metrics that compare agents with their peers favour them.",
        )


def _repeated_prompts(sample: _Sample) -> Iterator[Finding]:
    """Agents whose responses are the prompt again."""
    copied: dict[int, int] = defaultdict(int)
    there: dict[int, int] = defaultdict(int)
    for task, prompt in enumerate(sample.prompts):
        if not prompt:
            continue
        rows, place = sample.of_task(task), len(sample.texts) + task
        runs, words = (_share_inside(matrix, rows, place) for matrix in (sample.shingles, sample.vocabulary))
        long = 2 * sample.words[rows] >= sample.words[place]
        repeats = (runs >= COPIED) | ((words >= REARRANGED) & long)
        for row, again in zip(rows, repeats & (sample.words[rows] >= ENOUGH_WORDS), strict=True):
            there[int(sample.agent[row])] += 1
            copied[int(sample.agent[row])] += bool(again)
    for number, count in copied.items():
        if count >= max(FEWEST_TASKS, there[number] / 3):
            agent = sample.agents[number]
            yield Finding("copied-prompt", (agent,), f"{agent} repeats its prompt on {count} of {there[number]} tasks.")


def _share_inside(matrix: sparse.csr_array, rows: npt.NDArray[np.int64], place: int) -> FloatArray:
    own = matrix[rows]
    found: FloatArray = (own @ matrix[[place]].T).toarray()[:, 0] / np.maximum(own.sum(axis=1), 1)
    return found


def _other_languages(sample: _Sample) -> Iterator[Finding]:
    """Agents that answer in another language than most of their peers do on the same task."""
    languages = [
        py3langid.classify(text[:1000])[0] if len(text) >= ENOUGH_CHARACTERS else None for text in sample.texts
    ]
    others: dict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
    seen: Counter[int] = Counter()
    for task in range(sample.n_tasks):
        rows = [int(row) for row in sample.of_task(task) if languages[row] is not None]
        if len(rows) < 2:
            continue
        usual, votes = Counter(str(languages[row]) for row in rows).most_common(1)[0]
        for row in rows:
            number = int(sample.agent[row])
            seen[number] += 1
            if languages[row] != usual and votes > len(rows) / 2:
                others[number][str(languages[row]), usual] += 1
    for number, found in sorted(others.items()):
        count = found.total()
        if count >= max(FEWEST_TASKS, seen[number] / 2):
            (own, usual), _ = found.most_common(1)[0]
            agent = sample.agents[number]
            yield Finding(
                "other-language",
                (agent,),
                f"{agent} answers in another language than its peers on {count} of {seen[number]} tasks "
                f"(mostly {own}, not {usual}). Information shared across languages is measured worse.",
            )
