"""Does a metric order responses as people do? Agreement with known truth on public sets.

    goldless study fetch summeval --out data/summeval                         # one of the sets; the page lists them
    python benchmarks/method/truth.py data --tasks 4 --agents 5 --scorer embedded       # a smoke run on a processor
    python benchmarks/method/truth.py data --scorer hf:FOLDER --results truth.jsonl     # whole sets, on a GPU or server
    python benchmarks/method/truth.py data --gains data                       # recorded log-probabilities, no model
    python benchmarks/method/truth.py data --gains data --page docs/truth.md  # write the table and figure of the page

The folder has studies with ratings, as ``goldless study fetch`` writes them, or NAME.jsonl (task, agent, text, prompt)
with NAME.truth.json ([task, agent, truth] rows). Metrics see the responses; the truth is used afterwards. For each set
and metric:

agents   Spearman's correlation of the agents' mean scores with their mean truth; planted agents are left out
partial  the same given the agents' mean length in words
within   the share of pairs of responses to one task, with different truth, that the score orders in the same way; a
         tie of the score counts one half; pooled over tasks

each with a 95% interval over tasks (1,000 resamples). Word overlap is the mean F1 of a response's words with those of
the other agents. Differences between metrics are paired: both are computed on the same resampled tasks.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.stats import rankdata

import goldless
from goldless.studies import Study, read_study, study_from_frame
from truth_figure import Curve, draw_figure

Numbers = npt.NDArray[np.float64]
SETS = ("summeval", "realsumm", "newsroom", "faithbench", "ted_zhen", "alpaca_dev")
PLANTED = {"NullModel"}
"""Agents that were made to fool a metric: they are scored, and left out of the agreement."""
RESAMPLES = 1000
SUBSAMPLES = 200
LENGTH, OVERLAP = "length", "word overlap"
TEXT_METRICS = ("bleu", "rouge-l")
SCORERS = {"135m": "135M", "05b": "0.5B"}
"""Scorers whose gains are recorded, by the end of their folder's name."""
FIGURE_ESTIMATOR = "x given y, clipped"
MINUS = "\N{MINUS SIGN}"
TABLE_MARKS = ("<!-- table: begin -->", "<!-- table: end -->")


def named(form: str, numbers: str) -> tuple[str, ...]:
    """Names of tasks by their numbers."""
    return tuple(form.format(number) for number in numbers.split())


PAGE_TASKS = {
    "summeval": named("t{}", "1 3 8 10 14 15 16 18 19 20 23 26 29 30 35 36 42 46 51 52 56 58 62 66 69 81 84 88 91 94"),
    "realsumm": named("t{}", "1 3 8 10 15 16 19 20 23 46 51 52 56 58 66 69 81 88 91 94"),
    "faithbench": named(
        "t{}",
        "0 1 3 6 8 9 10 11 15 16 18 19 20 21 22 23 25 27 29 30 31 32 34 35 36 37 40 42 "
        "44 45 46 47 49 51 52 54 56 58 59 62 63 66 69 70 71 73 76 77 78 79",
    ),
    "ted_zhen": (
        *named("talk.2-{}", "89 91 94 96 117 122 126 144 156 158 168 173 200 205 208"),
        *named("talk.5-{}", "359 366 370"),
        *named("talk.6-{}", "387 399 400 404 405 421 444 449 450 464 468 475 488"),
        *named("talk.7-{}", "516 519 527 556 569"),
        *named(
            "talk.9-{}",
            "685 687 690 694 710 712 722 728 740 761 773 777 788 790 792 794 806 814 816 818 819 821 830 843",
        ),
    ),
    "alpaca_dev": named(
        "a{:0>3}", "26 33 38 72 90 92 155 166 225 234 244 291 368 388 442 448 475 486 505 535 561 658 671 724 802"
    ),
}
"""The tasks that the page's figures are of, drawn at random; all tasks of the sets that are not here."""


# --- sets with truth -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TruthSet:
    """Responses whose quality is known."""

    name: str
    tasks: Sequence[str]
    agents: Sequence[str]
    texts: Mapping[tuple[str, str], str]
    """By task and agent."""
    prompts: Mapping[str, str | None]
    truths: Mapping[tuple[str, str], float]

    @cached_property
    def words(self) -> dict[tuple[str, str], list[str]]:
        """The words of each response."""
        return {key: re.findall(r"\w+", text.lower()) for key, text in self.texts.items()}

    @property
    def truth(self) -> Numbers:
        return self.table(self.truths)

    @property
    def lengths(self) -> Numbers:
        return self.table({key: float(len(words)) for key, words in self.words.items()})

    @property
    def honest(self) -> list[int]:
        """Places of the agents that are not planted."""
        return [place for place, agent in enumerate(self.agents) if agent not in PLANTED]

    @property
    def is_rated_by_agent(self) -> bool:
        """True if an agent has the same truth on every task, so that responses to one task cannot be compared."""
        spread = np.nanmax(self.truth, axis=0) - np.nanmin(self.truth, axis=0)
        return len(self.tasks) > 1 and bool(np.all(spread[self.honest] == 0))

    @property
    def study(self) -> Study:
        """The responses as a study, without the truth."""
        rows = [
            {"task": task, "agent": agent, "text": text, "prompt": self.prompts.get(task)}
            for (task, agent), text in self.texts.items()
        ]
        return study_from_frame(rows, name=self.name)

    def table(self, values: Mapping[tuple[str, str], float]) -> Numbers:
        """Values by task and agent as an array; a missing value is NaN."""
        cells = [values.get((task, agent), np.nan) for task in self.tasks for agent in self.agents]
        return np.array(cells, dtype=np.float64).reshape(len(self.tasks), len(self.agents))

    def part(self, tasks: Sequence[str], agents: Sequence[str]) -> TruthSet:
        """The set with only these tasks and agents."""
        chosen = {(task, agent) for task in tasks for agent in agents}
        texts = {key: text for key, text in self.texts.items() if key in chosen}
        return replace(self, tasks=tasks, agents=agents, texts=texts)


def is_there(folder: Path, name: str) -> bool:
    """True if the folder has the set."""
    return (folder / name).is_dir() or (folder / f"{name}.jsonl").is_file()


def read_truth_set(folder: Path, name: str) -> TruthSet:
    """Read a set: a study folder with ratings, or a file of responses with a file of truth."""
    if (folder / f"{name}.jsonl").is_file():
        return read_truth_files(folder / f"{name}.jsonl", folder / f"{name}.truth.json")
    return truth_set_of(read_study(folder / name))


def read_truth_files(responses: Path, truth: Path) -> TruthSet:
    """Read a set from a file of responses and a file of [task, agent, truth] rows."""
    rows = [json.loads(line) for line in responses.read_text(encoding="utf-8").splitlines()]
    truths = {(task, agent): float(value) for task, agent, value in json.loads(truth.read_text(encoding="utf-8"))}
    texts = {(row["task"], row["agent"]): row["text"] for row in rows}
    prompts = {row["task"]: prompt_text(row.get("prompt")) for row in rows}
    return checked(TruthSet(responses.stem, *names_in(texts), texts, prompts, truths))


def prompt_text(prompt: Any) -> str | None:
    """The prompt as one text; of a list of messages, their contents."""
    if isinstance(prompt, list):
        return "\n\n".join(str(message["content"]) for message in prompt)
    return None if prompt is None else str(prompt)


def truth_set_of(study: Study) -> TruthSet:
    """Make a set of a study: the truth of a response is the mean of its ratings."""
    texts = {(row["task"], row["agent"]): row["text"] for row in study.rows("responses")}
    prompts = {row["task"]: row.get("prompt") for row in study.rows("tasks")}
    ratings: dict[tuple[str, str], list[float]] = {}
    for row in study.rows("labels") if study.n_ratings else ():
        ratings.setdefault((row["task"], row["agent"]), []).append(float(row["score"]))
    truths = {key: sum(values) / len(values) for key, values in ratings.items()}
    return checked(TruthSet(study.name, *names_in(texts), texts, prompts, truths))


def names_in(texts: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """The tasks and the agents of responses, each in order."""
    keys = list(texts)
    return sorted({task for task, _ in keys}), sorted({agent for _, agent in keys})


def checked(truth_set: TruthSet) -> TruthSet:
    """Return the set; end with a sentence if its responses cannot be compared with its truth."""
    if len(truth_set.honest) < 2:
        sys.exit(f"{truth_set.name} has {len(truth_set.honest)} agent. Agreement needs at least two; add another's")
    if not truth_set.truths:
        sys.exit(f"{truth_set.name} has no ratings, so nothing is known of its responses. Add a labels table")
    for task, agent in truth_set.truths:
        if (task, agent) not in truth_set.texts:
            sys.exit(f"{truth_set.name}: the truth of {agent!r} on task {task!r} has no response. Use files of one set")
    return truth_set


def smaller(truth_set: TruthSet, tasks: int | None, agents: int | None, seed: int) -> TruthSet:
    """Draw some of the tasks and agents."""
    draw = np.random.default_rng(seed)

    def some(names: Sequence[str], number: int | None) -> list[str]:
        if number is None or number >= len(names):
            return list(names)
        return [names[place] for place in sorted(draw.permutation(len(names))[:number])]

    return truth_set.part(some(truth_set.tasks, tasks), some(truth_set.agents, agents))


# --- agreement -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """A number, its 95% interval over tasks, and its value in every resample of the tasks."""

    value: float
    resampled: Numbers

    @property
    def low(self) -> float:
        return float(np.nanquantile(self.resampled, 0.025))

    @property
    def high(self) -> float:
        return float(np.nanquantile(self.resampled, 0.975))

    @property
    def half(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.value - other.value, self.resampled - other.resampled)


@dataclass(frozen=True)
class Agreement:
    """How far a score agrees with the truth of a set."""

    agents: Interval
    partial: Interval
    within: Interval | None
    """None where the truth is known by agent only."""


def agreement(score: Numbers, truth: Numbers, length: Numbers, *, by_agent: bool, seed: int = 0) -> Agreement:
    """Compare scores with truth; all three are tables of tasks by agents."""
    draws = np.random.default_rng(seed).integers(0, len(score), size=(RESAMPLES, len(score)))
    mean_score, mean_truth, mean_length = (np.nanmean(table, axis=0)[None] for table in (score, truth, length))
    drawn_score, drawn_truth, drawn_length = (resampled_means(table, draws) for table in (score, truth, length))
    agents = Interval(float(spearman(mean_score, mean_truth)[0]), spearman(drawn_score, drawn_truth))
    partial = Interval(
        float(partial_spearman(mean_score, mean_truth, mean_length)[0]),
        partial_spearman(drawn_score, drawn_truth, drawn_length),
    )
    if by_agent:
        return Agreement(agents, partial, None)
    right, pairs = ordered_pairs(score, truth)
    shares = right[draws].sum(axis=1) / np.maximum(1, pairs[draws].sum(axis=1))
    return Agreement(agents, partial, Interval(float(right.sum() / pairs.sum()), shares))


def ordered_pairs(score: Numbers, truth: Numbers) -> tuple[Numbers, Numbers]:
    """Per task: the pairs in the right order, where a tie of the score counts one half, and all pairs."""
    score_difference = score[:, :, None] - score[:, None]
    truth_difference = truth[:, :, None] - truth[:, None]
    counts = (truth_difference > 0) & ~np.isnan(score_difference)
    right = np.where(score_difference > 0, 1.0, np.where(score_difference == 0, 0.5, 0.0)) * counts
    return right.sum(axis=(1, 2)), counts.sum(axis=(1, 2)).astype(np.float64)


def resampled_means(table: Numbers, draws: npt.NDArray[np.int64]) -> Numbers:
    """Each agent's mean over the tasks of each draw."""
    times = np.zeros((len(draws), len(table)))
    np.add.at(times, (np.arange(len(draws))[:, None], draws), 1)
    present = ~np.isnan(table)
    with np.errstate(invalid="ignore"):
        return (times @ np.nan_to_num(table)) / (times @ present)


def spearman(first: Numbers, second: Numbers) -> Numbers:
    """Spearman's correlation of each row with the other's."""
    return correlation(rankdata(first, axis=1), rankdata(second, axis=1))


def partial_spearman(first: Numbers, second: Numbers, given: Numbers) -> Numbers:
    """Spearman's correlation of each row with the other's, given a third."""
    direct, first_given, second_given = spearman(first, second), spearman(first, given), spearman(second, given)
    unexplained = np.maximum(1e-12, (1 - first_given**2) * (1 - second_given**2))
    return (direct - first_given * second_given) / np.sqrt(unexplained)


def correlation(first: Numbers, second: Numbers) -> Numbers:
    """Pearson's correlation of each row with the other's."""
    first = first - first.mean(axis=1, keepdims=True)
    second = second - second.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (first * second).sum(axis=1) / np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))


# --- scores ----------------------------------------------------------------------------------------------------------


def word_overlap(truth_set: TruthSet) -> Numbers:
    """The mean F1 of a response's words with those of the other agents' responses to the same task."""
    bags = {key: Counter(words) for key, words in truth_set.words.items()}

    def f1(task: str, agent: str, peer: str) -> float:
        first, second = bags[task, agent], bags[task, peer]
        return 2 * (first & second).total() / max(1, first.total() + second.total())

    overlaps = {}
    for task, agent in bags:
        peers = [peer for peer in truth_set.agents if peer != agent and (task, peer) in bags]
        overlaps[task, agent] = float(np.mean([f1(task, agent, peer) for peer in peers])) if peers else np.nan
    return truth_set.table(overlaps)


def library_scores(truth_set: TruthSet, metrics: Sequence[str], **options: Any) -> dict[str, Numbers]:
    """The scores of metrics as ``goldless score`` gives them to responses."""
    evaluation = goldless.evaluate(truth_set.study, metrics=list(metrics), resamples=200, **options)
    scores = {}
    for metric in metrics:
        table = evaluation.to_polars().filter(pl.col("metric") == metric).select("task", "agent", "score").drop_nulls()
        scores[metric] = truth_set.table({(task, agent): score for task, agent, score in table.iter_rows()})
    return scores


@dataclass(frozen=True)
class Gains:
    """Recorded gains of one set, in nats, by task, target (x) and given response (y)."""

    gain: Numbers
    """log p(x | y) - log p(x)."""
    clipped: Numbers
    """The same with each token's gain clipped to [-2, 4]."""
    control: Numbers
    """What y gains about the target agent's response to another task."""
    information: Numbers
    """-log p(x), by task and agent."""

    def among(self, agents: Sequence[int]) -> Gains:
        """The gains between some of the agents."""
        square = np.ix_(range(len(self.gain)), agents, agents)
        return Gains(self.gain[square], self.clipped[square], self.control[square], self.information[:, agents])


def read_gains(path: Path, truth_set: TruthSet) -> Gains:
    """Read the gains of a set from a recorded table."""
    names = ("task", "target", "given", "target_task")
    rows = pl.read_parquet(path).with_columns(pl.col(*names).cast(pl.String))
    place_of_task = {task: place for place, task in enumerate(truth_set.tasks)}
    place_of_agent = {agent: place for place, agent in enumerate(truth_set.agents)}
    shape = (len(truth_set.tasks), len(truth_set.agents), len(truth_set.agents))
    gain, clipped, control = (np.full(shape, np.nan) for _ in range(3))
    information = np.full(shape[:2], np.nan)
    for row in rows.filter(pl.col("target_task") == "").iter_rows(named=True):
        task, target = place_of_task[row["task"]], place_of_agent[row["target"]]
        given = place_of_agent[row["given"]]
        gain[task, target, given] = row["gain"]
        clipped[task, target, given] = row["clipped"]
        information[task, target] = -row["base"]
    for row in rows.filter(pl.col("target_task") != "").iter_rows(named=True):
        task, target = place_of_task[row["task"]], place_of_agent[row["target"]]
        # In these rows the column has the log-probability of the response to the other task.
        marginal = -information[place_of_task[row["target_task"]], target]
        control[task, target, place_of_agent[row["given"]]] = row["gain"] - marginal
    return Gains(gain, clipped, control, information)


def over_peers(table: Numbers) -> Numbers:
    """The mean over the peers of each response."""
    return np.asarray(np.nanmean(table, axis=2))


def turned(table: Numbers) -> Numbers:
    """The same with target and given response exchanged."""
    return table.swapaxes(1, 2)


def without_peer_means(table: Numbers) -> Numbers:
    """The table less each peer's mean within the task."""
    return table - np.nanmean(table, axis=1, keepdims=True)


ESTIMATORS: Mapping[str, Callable[[Gains], Numbers]] = {
    "both directions less control": lambda gains: (
        over_peers(gains.gain + turned(gains.gain) - gains.control - turned(gains.control)) / 2
    ),
    "x given y": lambda gains: over_peers(gains.gain),
    "x given y, clipped": lambda gains: over_peers(gains.clipped),
    "x given y, clipped, adjusted": lambda gains: over_peers(without_peer_means(gains.clipped)),
    "y given x, clipped": lambda gains: over_peers(turned(gains.clipped)),
    "y given x less control": lambda gains: over_peers(turned(gains.gain) - turned(gains.control)),
    "both directions, clipped": lambda gains: over_peers(gains.clipped + turned(gains.clipped)) / 2,
    "support: gain(x given y) / H(x)": lambda gains: over_peers(gains.gain / gains.information[:, :, None]),
    "coverage: gain(y given x) / H(y)": lambda gains: over_peers(turned(gains.gain) / gains.information[:, None, :]),
}
"""Scores of responses x by their peers y, from recorded gains. ``gem-raw+control+both`` is the first."""


def scored(truth_set: TruthSet, arguments: argparse.Namespace) -> Iterator[tuple[str, str, Numbers]]:
    """The name of each metric, its scorer, and its scores."""
    yield LENGTH, "", truth_set.lengths
    yield OVERLAP, "", word_overlap(truth_set)
    for metric, table in library_scores(truth_set, TEXT_METRICS).items():
        yield metric, "", table
    if arguments.scorer:
        scores = library_scores(truth_set, arguments.metric.split(","), scorer=arguments.scorer)
        for metric, table in scores.items():
            yield metric, arguments.scorer, table
    for scorer in SCORERS if arguments.gains else ():
        path = arguments.gains / f"gains_{scorer}" / f"{truth_set.name}.parquet"
        if path.is_file():
            gains = read_gains(path, truth_set)
            for estimator, scores_of in ESTIMATORS.items():
                yield estimator, SCORERS[scorer], scores_of(gains)


# --- results ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A metric's agreement with each set it was computed on."""

    metric: str
    scorer: str
    sets: dict[str, Agreement]

    @property
    def name(self) -> str:
        return f"{self.metric} ({self.scorer})" if self.scorer else self.metric

    def mean_within(self, names: Iterable[str]) -> Interval:
        """The mean over sets of the share of pairs in the right order."""
        values, resamples = [], []
        for number, name in enumerate(names):
            if (share := self.sets[name].within) is None:
                continue
            # Sets of equal size draw the same places, so the draws are put in an order of each set's own.
            order = np.random.default_rng(number).permutation(RESAMPLES)
            values.append(share.value)
            resamples.append(share.resampled[order])
        return Interval(float(np.mean(values)), np.asarray(np.mean(resamples, axis=0)))


def measure(truth_sets: Sequence[TruthSet], arguments: argparse.Namespace) -> list[Row]:
    """The agreement of every metric with every set."""
    rows: dict[tuple[str, str], Row] = {}
    for truth_set in truth_sets:
        print(f"{truth_set.name}: {len(truth_set.tasks)} tasks, {len(truth_set.agents)} agents", file=sys.stderr)
        honest, by_agent = truth_set.honest, truth_set.is_rated_by_agent
        truth, length = truth_set.truth[:, honest], truth_set.lengths[:, honest]
        for metric, scorer, scores in scored(truth_set, arguments):
            row = rows.setdefault((metric, scorer), Row(metric, scorer, {}))
            row.sets[truth_set.name] = agreement(scores[:, honest], truth, length, by_agent=by_agent)
    return list(rows.values())


def print_set(name: str, rows: Sequence[Row]) -> None:
    """Print the agreement of every metric with one set, and its differences from the baselines."""
    print(f"\n{name}")
    print(f"  {'':40s}{'agents':>22s}{'given length':>22s}{'within':>22s}{'less overlap':>29s}{'less length':>29s}")
    by_name = {row.name: row.sets[name] for row in rows if name in row.sets}
    for metric, found in by_name.items():
        cells = [shown(found.agents), shown(found.partial), shown(found.within)]
        for baseline in (OVERLAP, LENGTH):
            measured, other = headline(found), headline(by_name[baseline])
            cells.append("" if metric == baseline else shown_difference(measured - other))
        widths = (22, 22, 22, 29, 29)
        print(f"  {metric:40s}" + "".join(f"{cell:>{width}s}" for cell, width in zip(cells, widths, strict=True)))


def headline(found: Agreement) -> Interval:
    """The number that metrics are compared by: pairs within a task, or agents given length."""
    return found.partial if found.within is None else found.within


def print_claims(rows: Sequence[Row], names: Sequence[str]) -> None:
    """Print every metric's mean share of pairs over sets, and its paired differences from each baseline."""
    by_name = {row.name: row.mean_within(names) for row in rows if set(names) <= set(row.sets)}
    print(f"\nmean share of pairs within a task over {', '.join(names)}; each difference with its 95% interval")
    for metric, mean in by_name.items():
        print(f"  {metric:40s}{shown(mean)}")
        for baseline in (LENGTH, OVERLAP, *TEXT_METRICS):
            if metric not in (LENGTH, OVERLAP, *TEXT_METRICS):
                print(f"    less {baseline:33s}{shown_difference(mean - by_name[baseline])}")


def shown(number: Interval | None) -> str:
    """A share or correlation with its interval."""
    if number is None:
        return ""
    return f"{in_hundredths(number.value)} ({in_hundredths(number.low)} … {in_hundredths(number.high)})"


def shown_difference(difference: Interval) -> str:
    """A difference with its interval, and what it shows."""
    verdict = "better" if difference.low > 0 else "worse" if difference.high < 0 else "open"
    return f"{shown(difference)} {verdict}"


def in_hundredths(value: float) -> str:
    """A number with two or three digits and a true minus sign."""
    text = f"{value:.3f}".replace("-0.000", "0.000")
    return text.replace("0.", ".", 1).replace("-", MINUS)


def append_results(path: Path, rows: Sequence[Row], truth_sets: Sequence[TruthSet]) -> None:
    """Append a line for each metric and set."""
    sizes = {truth_set.name: truth_set for truth_set in truth_sets}
    with path.open("a", encoding="utf-8") as lines:
        for row in rows:
            for name, found in row.sets.items():
                numbers = {"agents_spearman": found.agents, "given_length": found.partial, "within": found.within}
                line = {"set": name, "metric": row.metric, "scorer": row.scorer, "goldless": goldless.__version__}
                line |= {"tasks": len(sizes[name].tasks), "agents": len(sizes[name].agents)}
                for key, number in numbers.items():
                    line[key] = None if number is None else [number.value, number.low, number.high]
                lines.write(json.dumps(line) + "\n")


# --- the page ---------------------------------------------------------------------------------------------------------

PAGE_ESTIMATORS = {
    "135M": (
        "both directions less control",
        "x given y",
        "y given x, clipped",
        "support: gain(x given y) / H(x)",
        "coverage: gain(y given x) / H(y)",
    ),
    "0.5B": ("both directions less control", "x given y, clipped", "y given x, clipped"),
}
"""Rows of the page, by scorer; the command prints all."""


def markdown_table(rows: Sequence[Row], names: Sequence[str]) -> str:
    """The table of the page."""
    within_sets = [name for name in names if rows[0].sets[name].within is not None]
    agent_sets = [name for name in names if name not in within_sets]
    overlap = next(row for row in rows if row.metric == OVERLAP)
    lines = [
        "| metric | " + " | ".join(names) + " | mean within | less word overlap |",
        "|---" * (len(names) + 3) + "|",
    ]
    for row in rows:
        if row.metric not in PAGE_ESTIMATORS.get(row.scorer, (row.metric,)):
            continue
        cells = [page_cell(row.sets[name]) for name in (*within_sets, *agent_sets)]
        mean = row.mean_within(names)
        difference = "" if row is overlap else plain(mean - overlap.mean_within(names))
        lines.append(f"| {row.name} | " + " | ".join(cells) + f" | {in_hundredths(mean.value)} | {difference} |")
    return "\n".join(lines)


def page_cell(found: Agreement) -> str:
    """Pairs within a task, agents, and agents given length."""
    agents = f"{found.agents.value:.2f} / {found.partial.value:.2f}".replace("0.", ".").replace("-", MINUS)
    if found.within is None:
        return f"{agents} ± {found.partial.half:.2f}".replace("0.", ".")
    return f"{in_hundredths(found.within.value)} ± {in_hundredths(found.within.half)}<br>{agents}"


def plain(difference: Interval) -> str:
    """A difference with its interval."""
    sign = "+" if difference.value > 0 else ""
    return f"{sign}{shown(difference)}"


def write_page(page: Path, table: str, curves: Sequence[Curve]) -> None:
    """Replace the table of the page, and draw its figure."""
    text = page.read_text(encoding="utf-8")
    begin, end = TABLE_MARKS
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    if not after:
        sys.exit(f"{page} must have the marks {begin} and {end}")
    page.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")
    draw_figure(curves, page.parent / "images" / "truth.svg")


def curves_by_size(truth_set: TruthSet, gains: Gains, seed: int) -> Iterator[Curve]:
    """How agreement depends on the number of tasks and agents, from random subsets."""
    draw = np.random.default_rng(seed)
    honest, truth = np.array(truth_set.honest), truth_set.truth
    scores_of = ESTIMATORS[FIGURE_ESTIMATOR]
    scores = scores_of(gains)
    sizes = [size for size in (3, 5, 8, 12, 20, 30, 45, 60) if size <= len(truth_set.tasks)]
    correlations = []
    for size in sizes:
        tasks = [draw.permutation(len(truth_set.tasks))[:size] for _ in range(SUBSAMPLES)]
        means = [np.nanmean(scores[chosen][:, honest], axis=0) for chosen in tasks]
        # The truth of the whole set: few tasks are to tell what all would.
        wanted = np.nanmean(truth[:, honest], axis=0)
        correlations.append(float(np.mean(spearman(np.array(means), np.array([wanted] * SUBSAMPLES)))))
    yield Curve("tasks", truth_set.name, sizes, correlations)
    if truth_set.is_rated_by_agent:
        return
    sizes = [size for size in (3, 4, 6, 8, 12, 16, 20, 24) if size <= len(honest)]
    shares = []
    for size in sizes:
        chosen = [np.sort(draw.permutation(honest)[:size]) for _ in range(SUBSAMPLES)]
        counts = [ordered_pairs(scores_of(gains.among(agents)), truth[:, agents]) for agents in chosen]
        shares.append(sum(right.sum() for right, _ in counts) / sum(pairs.sum() for _, pairs in counts))
    yield Curve("agents", truth_set.name, sizes, shares)


# --- the command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> None:
    """Print how far metrics agree with the truth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="Folder with the sets.")
    parser.add_argument("--sets", help="Sets, with commas (default: those of the page that are in the folder).")
    parser.add_argument("--tasks", type=int, help="Draw N tasks of each set.")
    parser.add_argument("--agents", type=int, help="Draw N agents of each set.")
    parser.add_argument(
        "--page-tasks", action="store_true", help="Only the tasks of the page, of sets that were fetched."
    )
    parser.add_argument("--seed", type=int, default=0, help="Seed of the draws (default: 0).")
    parser.add_argument("--scorer", help="Model that gives log-probabilities (default: none).")
    parser.add_argument("--metric", default="shared-info", help="Metrics for --scorer, with commas.")
    parser.add_argument("--gains", type=Path, help="Folder with recorded gains of whole sets: gains_135m, gains_05b.")
    parser.add_argument("--results", type=Path, help="Append the figures to this file, a JSON line each.")
    parser.add_argument("--page", type=Path, help="Write the table and the figure of this page; needs --gains.")
    arguments = parser.parse_args(words)
    is_part = arguments.tasks is not None or arguments.agents is not None
    if arguments.gains and is_part:
        parser.error("--gains are of whole sets. Leave out --tasks and --agents")
    if arguments.page and not arguments.gains:
        parser.error("--page needs --gains")
    warnings.simplefilter("ignore", RuntimeWarning)  # of means over nothing, where a response is missing
    chosen = arguments.sets.split(",") if arguments.sets else SETS
    names = [name for name in chosen if is_there(arguments.data, name)]
    missing = [name for name in chosen if name not in names]
    if arguments.sets and missing:
        parser.error(f"{arguments.data} has no {missing[0]}. Try: goldless study fetch {missing[0]} --out FOLDER")
    if not names:
        parser.error(f"{arguments.data} has none of {', '.join(chosen)}. Try: goldless study fetch")
    truth_sets = [read_truth_set(arguments.data, name) for name in names]
    if arguments.page_tasks:
        truth_sets = [one.part(PAGE_TASKS.get(one.name, one.tasks), one.agents) for one in truth_sets]
    truth_sets = [smaller(one, arguments.tasks, arguments.agents, arguments.seed) for one in truth_sets]
    rows = measure(truth_sets, arguments)
    for name in names:
        print_set(name, rows)
    print_claims(rows, names)
    if arguments.results:
        append_results(arguments.results, rows, truth_sets)
    if arguments.page:
        curves = []
        for truth_set in truth_sets:
            gains = read_gains(arguments.gains / "gains_135m" / f"{truth_set.name}.parquet", truth_set)
            curves += curves_by_size(truth_set, gains, arguments.seed)
        write_page(arguments.page, markdown_table(rows, names), curves)


if __name__ == "__main__":
    main()
