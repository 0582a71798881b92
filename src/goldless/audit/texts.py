"""Findings from the texts alone: repeated texts, near-identical agents, copied prompts, other languages, refusals.

No model is asked. Of large studies evenly spaced tasks are read, always the same ones.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import py3langid
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from goldless.arrays import BoolArray, FloatArray, IntArray
from goldless.audit.finding import listed
from goldless.records import Finding
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
CONTAINED = 0.5
"""A response may be made of another where it has this much of the shorter one's runs, beside what the prompt says."""
QUOTED = 0.3
"""A response may be made of its peers where they have this much of its runs, without the peer that has the most."""
FAR = 3.0
"""And where that is this many times what is usual in the study."""
MOST_AGENTS = 2_000
"""Texts taken from peers are looked for among at most so many agents: each is compared with each other."""
ENOUGH_RUNS = 6
"""Texts with fewer runs of their own are left out: their words are those of the prompt."""
ENOUGH_WORDS = 8
"""Shorter texts are often alike for good reasons."""
ENOUGH_CHARACTERS = 40
"""The language of shorter texts cannot be recognised."""
FEWEST_TASKS = 3
FEWEST_TEXTS = 3
"""Of two texts nothing is usual."""
_WORD = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W_]+")  # where words are not separated, characters
_COMMENT = re.compile(r"<!--(.*?)(?:-->|\Z)", re.DOTALL)
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_REFUSAL = (
    r"(?i)\b(?:i.?m|i am) (?:really |very |so )?sorry,? but|\bas an ai(?: language)? model"
    r"|\bi (?:can.?t|cannot|won.?t|am (?:un|not )able to|must decline to) (?:\w+ )?"
    r"(?:help|assist|answer|provide|comply|fulfill|discuss|do that)"
)


@dataclass(frozen=True)
class _Sample:
    """The responses to some of the tasks, with their runs of words."""

    rows: pl.DataFrame
    """By task and agent: ``task`` and ``agent`` as numbers, ``name`` of the agent, ``text``, ``prompt``, ``words``."""
    prompt_words: IntArray
    """By task."""
    shingles: sparse.csr_array
    """[responses and then prompts, different runs of three words], 1 where the text has the run."""
    vocabulary: sparse.csr_array
    """The same of single words."""

    @property
    def enough(self) -> BoolArray:
        """True for responses of enough words."""
        return (self.rows["words"] >= ENOUGH_WORDS).to_numpy()

    def places(self, column: str) -> list[IntArray]:
        """The rows of each task, or of each agent."""
        numbers = self.rows[column].to_numpy()
        order = np.argsort(numbers, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


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
    checks = (_same_text, _near_identical, _taken_from_peers, _repeated_prompts, _other_languages, _refusals)
    return [found for check in checks for found in check(sample)]


def repeats_prompts(study: Study) -> bool:
    """True if an agent's responses are its prompts again."""
    return bool(study.n_responses) and any(_repeated_prompts(_sampled(study)))


def agents_repeating_texts(study: Study) -> list[str]:
    """The agents that give one text, or nearly one, to many tasks."""
    return [agent for finding in _same_text(_sampled(study)) for agent in finding.agents] if study.n_responses else []


# --- reading ---------------------------------------------------------------------------------------------------------


def sampled_tasks(study: Study) -> list[str]:
    """The tasks that are looked at: all of a small study, evenly spaced ones of a large study."""
    most = max(LEAST_TASKS, RESPONSES // max(1, len(study.agents)))
    places = np.unique(np.linspace(0, len(study.tasks) - 1, min(most, len(study.tasks))).astype(int))
    return [study.tasks[int(place)] for place in places]


def _sampled(study: Study) -> _Sample:
    chosen = sampled_tasks(study)
    tasks = study.task_table.filter(pl.col("task").is_in(chosen)).select("task", "prompt")
    rows = study.response_table.filter(pl.col("task").is_in(chosen)).join(tasks, on="task", maintain_order="left")
    texts = [*rows["text"], *(prompt or "" for prompt in tasks["prompt"])]
    words = [_words(text) for text in texts]
    sizes = np.array([len(found) for found in words])
    numbered = rows.select(
        pl.col("task").replace_strict(chosen, range(len(chosen)), return_dtype=pl.Int64),
        pl.col("agent").cast(pl.String).cast(study.agent_names).to_physical().cast(pl.Int64),
        pl.col("agent").alias("name"),
        *("text", "prompt"),
        pl.Series("words", sizes[: len(rows)]),
    )
    return _Sample(numbered, sizes[len(rows) :], _shingle_matrix(words, 3), _shingle_matrix(words, 1))


def _words(text: str) -> list[str]:
    """The words that a reader sees, and after them those in HTML comments, whatever characters they are written in."""
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    if "<!--" in text:
        text = "\n".join([_COMMENT.sub("", text), *_COMMENT.findall(text)])
    return _WORD.findall(text.casefold())


def _shingle_matrix(words: Sequence[Sequence[str]], run: int) -> sparse.csr_array:
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


# --- the checks ------------------------------------------------------------------------------------------------------


def _counted(rows: pl.DataFrame, count: pl.Expr) -> Iterator[tuple[str, int, int]]:
    """The agents with enough tasks, each with a count over its rows and their number."""
    found = rows.group_by("agent", "name", maintain_order=True).agg(count.alias("count"), n=pl.len())
    yield from found.filter(pl.col("n") >= FEWEST_TASKS).select("name", "count", "n").iter_rows()


def _same_text(sample: _Sample) -> Iterator[Finding]:
    """Agents that give one text, or nearly one, to many tasks."""
    sizes, many = sample.shingles.sum(axis=1), sample.enough
    for rows in sample.places("agent"):
        fewest = max(FEWEST_TASKS, len(rows) / 2)
        agent = sample.rows["name"][int(rows[0])]
        count = Counter(" ".join(text.split()) for text in sample.rows["text"][rows]).most_common(1)[0][1]
        if count >= fewest:
            yield Finding("same-text", (agent,), f"{agent} gives the same text to {count} of {len(rows)} tasks.")
            continue
        mine, enough = (
            sizes[rows],
            many[rows],
        )  # texts of very different lengths are not alike: most need no closer look
        close = (ALIKE * mine <= mine[:, None]) & (ALIKE * mine[:, None] <= mine) & enough
        if close.sum(axis=1).max() < fewest:
            continue
        count = max(int(((found >= ALIKE) & enough).sum(axis=1).max()) for _, found in _shared(sample.shingles[rows]))
        if count >= fewest:
            yield Finding("same-text", (agent,), f"{agent} gives nearly the same text to {count} of {len(rows)} tasks.")


def _near_identical(sample: _Sample) -> Iterator[Finding]:
    """Groups of agents whose responses to the same tasks are nearly the same."""
    agent, enough = sample.rows["agent"].to_numpy(), sample.enough
    names = dict(sample.rows.select("agent", "name").unique().iter_rows())
    tasks = [rows[enough[rows]] for rows in sample.places("task")]
    size = int(agent.max()) + 1
    answered = np.zeros((len(tasks), size), np.bool_)
    pairs = [np.zeros(0, np.int64)]
    for task, rows in enumerate(tasks):
        answered[task, agent[rows]] = True
        for begin, found in _shared(sample.shingles[rows]):
            first, second = np.nonzero(found >= ALIKE)
            pairs.append(agent[rows[first + begin]] * size + agent[rows[second]])
    numbers, alike = np.unique(np.concatenate(pairs), return_counts=True)
    first, second = np.divmod(numbers, size)
    common = (answered[:, first] & answered[:, second]).sum(axis=0)
    same = (first != second) & (common >= FEWEST_TASKS) & (alike >= common / 2)
    links = sparse.csr_array((np.ones(same.sum()), (first[same], second[same])), shape=(size, size))
    _, group = connected_components(links, directed=False)
    for number in np.flatnonzero(np.bincount(group) > 1):
        members = np.flatnonzero(group == number)
        theirs = [rows[np.isin(agent[rows], members)] for rows in tasks]
        similarity = sum(found.sum() for rows in theirs for _, found in _shared(sample.shingles[rows]))
        texts = sum(map(len, theirs))  # each of which is like itself
        share = (similarity - texts) / (sum(len(rows) ** 2 for rows in theirs) - texts)
        alike_ones = tuple(names[member] for member in members)
        yield Finding(
            "near-identical",
            alike_ones,
            f"{listed(alike_ones)} give nearly the same responses ({share:.0%} alike on average). "
            "They vouch for each other: metrics that compare agents with their peers favour them.",
        )


def _taken_from_peers(sample: _Sample) -> Iterator[Finding]:
    """Agents whose responses are made of their peers', and pairs of which one has most of the other's text."""
    agent = sample.rows["agent"].to_numpy()
    names = dict(sample.rows.select("agent", "name").unique().iter_rows())
    size = int(agent.max()) + 1
    if size > MOST_AGENTS:
        yield Finding(
            "too-many-agents",
            (),
            f"Texts taken from peers were not looked for among {size:,} agents. Score at most {MOST_AGENTS:,} at once, "
            "or look at the best of them: --agents.",
        )
        return
    contained, quoted = (_Means(size) for _ in range(2))
    task = sample.rows["task"].to_numpy()
    for rows in sample.places("task"):
        every = sample.shingles[rows]
        of_prompt = sample.shingles[[len(sample.rows) + task[rows[0]]]]
        used, columns = np.unique(every.indices, return_inverse=True)
        runs = sparse.csr_array((every.data, columns, every.indptr), shape=(len(rows), len(used)))
        runs = runs[:, ~np.isin(used, of_prompt.indices)]
        enough = np.flatnonzero(runs.sum(axis=1) >= ENOUGH_RUNS)
        if len(enough) < FEWEST_TEXTS:
            continue
        runs, members = runs[enough], agent[rows[enough]]
        sizes: FloatArray = runs.sum(axis=1)
        contained.add(members, (runs @ runs.T).toarray() / np.minimum(sizes[:, None], sizes[None, :]))
        writers = np.asarray(runs.sum(axis=0)).ravel()
        elsewhere: FloatArray = runs[:, writers >= 2].sum(axis=1)
        of_two = runs[:, writers == 2]
        quoted.add(members, (elsewhere[:, None] - (of_two @ of_two.T).toarray()) / sizes[:, None])
    yield from _quoting(quoted.means(), contained.means(), names)


def _quoting(quoted: FloatArray, contained: FloatArray, names: Mapping[int, str]) -> Iterator[Finding]:
    """The findings of two tables of agents and peers, NaN on too few tasks.

    ``quoted``: the share of an agent's runs that agents other than this peer have; ``contained``: of the shorter
    response's runs that both have.
    """
    quoting = set()
    for agent in np.flatnonzero(~np.isnan(quoted).all(axis=1)):
        share = float(np.nanmin(quoted[agent]))
        others = np.delete(quoted[:, agent], agent)  # what others share without this agent
        usual = float(np.nanmedian(others))
        if share >= max(QUOTED, FAR * usual):
            quoting.add(int(agent))
            yield Finding(
                "quotes-peers",
                (names[int(agent)],),
                f"{names[int(agent)]} says what several peers say, word for word: {share:.0%} of its runs of three "
                f"words, without those of its closest peer (usual here: {usual:.0%}). A text made of its peers' texts "
                "wins metrics that compare agents with their peers.",
            )
    first, second = np.nonzero(np.triu(~np.isnan(contained), 1))
    shares = contained[first, second]
    if len(shares) < FEWEST_TEXTS:
        return
    usual_shares = _medians_of_others(shares)
    suspicious = np.flatnonzero(shares >= np.maximum(CONTAINED, FAR * usual_shares))
    for place in suspicious[np.argsort(-shares[suspicious], kind="stable")]:
        pair = int(first[place]), int(second[place])
        if quoting & set(pair):
            continue
        both = tuple(names[agent] for agent in pair)
        yield Finding(
            "contains-peer",
            both,
            f"{listed(both)} share {shares[place]:.0%} of the shorter response's runs of three words on average (usual "
            f"here: {usual_shares[place]:.0%}). One may be an edited copy of the other: they vouch for each other "
            "under metrics that compare agents with their peers.",
        )


def _medians_of_others(values: FloatArray) -> FloatArray:
    """Return for each of two or more values the median of all others."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(values))
    lower, upper = (len(values) - 2) // 2, (len(values) - 1) // 2
    medians: FloatArray = (ordered[lower + (rank <= lower)] + ordered[upper + (rank <= upper)]) / 2
    return medians


@dataclass
class _Means:
    """Means over tasks of a table of agents."""

    size: int
    sums: FloatArray = field(init=False)
    counts: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.sums, self.counts = np.zeros((self.size, self.size)), np.zeros((self.size, self.size), np.int64)

    def add(self, members: IntArray, values: FloatArray) -> None:
        """Add the table of a task, in which these agents are."""
        self.sums[np.ix_(members, members)] += values
        self.counts[np.ix_(members, members)] += 1

    def means(self) -> FloatArray:
        """NaN where there are too few tasks, and for an agent with itself."""
        known = (self.counts >= FEWEST_TASKS) & ~np.eye(self.size, dtype=bool)
        found: FloatArray = np.where(known, self.sums / np.maximum(self.counts, 1), np.nan)
        return found


def _repeated_prompts(sample: _Sample) -> Iterator[Finding]:
    """Agents whose responses are the prompt again."""
    size, task, words = len(sample.rows), sample.rows["task"].to_numpy(), sample.rows["words"].to_numpy()
    runs, single = (
        matrix[:size].multiply(matrix[size + task]).sum(axis=1) / np.maximum(matrix[:size].sum(axis=1), 1)
        for matrix in (sample.shingles, sample.vocabulary)
    )
    long = 2 * words >= sample.prompt_words[task]
    again = ((runs >= COPIED) | ((single >= REARRANGED) & long)) & sample.enough
    prompted = sample.rows.with_columns(again=again).filter(pl.col("prompt").fill_null("") != "")
    for agent, count, n in _counted(prompted, pl.col("again").sum()):
        if count >= max(FEWEST_TASKS, n / 3):
            yield Finding("copied-prompt", (agent,), f"{agent} repeats its prompt on {count} of {n} tasks.")


def _other_languages(sample: _Sample) -> Iterator[Finding]:
    """Agents that answer in another language than most of their peers do on the same task."""
    long = sample.rows.filter(pl.col("text").str.len_chars() >= ENOUGH_CHARACTERS)
    language = pl.Series([py3langid.classify(text[:1000])[0] for text in long["text"]], dtype=pl.String)
    of_most = 2 * pl.len().over("task", "language") > pl.len().over("task")
    rows = long.with_columns(language=language).filter(pl.len().over("task") > 1)
    rows = rows.with_columns(usual=pl.col("language").filter(of_most).first().over("task"))
    other = (pl.col("language") != pl.col("usual")).fill_null(value=False)
    for agent, count, n in _counted(rows.sort("agent", maintain_order=True), other.sum()):
        if count >= max(FEWEST_TASKS, n / 2):
            told = rows.filter(other & (pl.col("name") == agent)).select("language", "usual").rows()
            (own, usual), _ = Counter(told).most_common(1)[0]
            yield Finding(
                "other-language",
                (agent,),
                f"{agent} answers in another language than its peers on {count} of {n} tasks "
                f"(mostly {own}, not {usual}). Information shared across languages is measured worse.",
            )


def _refusals(sample: _Sample) -> Iterator[Finding]:
    """Agents that decline to answer."""
    refused = pl.col("text").str.slice(0, 300).str.contains(_REFUSAL)
    for agent, count, n in _counted(sample.rows.sort("agent", maintain_order=True), refused.sum()):
        if count >= max(FEWEST_TASKS, n / 10):
            yield Finding("refusals", (agent,), f"{agent} declines to answer {count} of {n} tasks.")
