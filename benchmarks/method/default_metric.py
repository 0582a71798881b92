"""Which metric should be the default? The search that docs/decisions/0009_the_default_metric.md lays down.

    python benchmarks/method/default_metric.py
    python benchmarks/method/default_metric.py --gains gains_05b      # another scorer; no grounding is recorded for it

Reads the folder truth in GOLDLESS_RECORDED or ../shared/data: six public sets with known truth, the embedded model's
log-probabilities of every response alone and given every other response to its task, and, for some tasks, given its
prompt. Calls no model. The rule, the candidates and what each figure means are in the decision record.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.stats import rankdata

Numbers = npt.NDArray[np.float64]
RANKED_BY_AGENT = "alpaca_dev"
SETS = ("summeval", "realsumm", "newsroom", "faithbench", "ted_zhen", RANKED_BY_AGENT)
OTHER_SETS = {"llmbar": "llmbar/natural", "llmbar neighbor": "llmbar/neighbor", "xsum": "xsum_peer_review"}
"""Sets without a part in the choice, to which only the rule on kinds is applied."""
PLANTED = "NullModel"
CLIP = (-2.0, 4.0)
CLEAR_GAIN = 0.5
ROUNDS_OF_WEIGHTS = 4
RESAMPLES = 2000
TODAY = "both, less control, but closest"
TAKEN_WITH_SOURCES, TAKEN_WITHOUT = "grounding + coverage", "x|y, but closest"
"""The candidates that were taken; why not those that the rule chose is in the decision record."""


# --- the sets ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Study:
    """The texts of a set and its truth."""

    tasks: Sequence[str]
    agents: Sequence[str]
    prompts: Mapping[str, str]
    responses: Mapping[tuple[str, str], str]
    truth: Mapping[tuple[str, str], float]

    @cached_property
    def truths(self) -> Numbers:
        """[tasks, agents]."""
        return self.table(self.truth)

    @cached_property
    def lengths(self) -> Numbers:
        """[tasks, agents]: words."""
        return self.table({key: float(len(words(text))) for key, text in self.responses.items()})

    def table(self, values: Mapping[tuple[str, str], float]) -> Numbers:
        """[tasks, agents], NaN where there is no value."""
        return np.array([[values.get((task, agent), np.nan) for agent in self.agents] for task in self.tasks])


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def read_study(folder: Path, name: str) -> Study:
    rows = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["agent"] != PLANTED]
    truth = json.loads((folder / f"{name}.truth.json").read_text(encoding="utf-8"))
    return Study(
        sorted({row["task"] for row in rows}),
        sorted({row["agent"] for row in rows}),
        {row["task"]: row.get("prompt") or "" for row in rows},
        {(row["task"], row["agent"]): row["text"] for row in rows},
        {(task, agent): value for task, agent, value in truth},
    )


def share_of_tasks_with_source(prompts: Mapping[str, str], responses: Mapping[tuple[str, str], str]) -> float:
    """The share of tasks with a prompt whose prompt holds what the responses are about."""
    texts: dict[str, list[list[str]]] = {}
    for (task, _), text in responses.items():
        if words(text):
            texts.setdefault(task, []).append(words(text))
    with_source = [holds_source(words(prompts[task]), texts[task]) for task in texts if words(prompts.get(task, ""))]
    return float(np.mean(with_source)) if with_source else 0.0


def holds_source(prompt: Sequence[str], responses: Sequence[Sequence[str]]) -> bool:
    """True if the prompt is longer than the median response, and half of whose distinct words are in it."""
    in_prompt = set(prompt)
    taken = statistics.median(len(in_prompt & set(response)) / len(set(response)) for response in responses)
    return len(prompt) > statistics.median(map(len, responses)) and taken >= 0.5


# --- evidence ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gains:
    """What the responses to each task say about each other, [task, x, y]: how much better x is predicted given y."""

    plain: Numbers
    clipped: Numbers
    share: Numbers
    """The share of tokens that gain more than ``CLEAR_GAIN``."""
    control: Numbers
    """The gain of the other tasks' responses of x, given y."""
    bits: Numbers
    """[task, x]: -log p(x), in nats."""


def read_gains(folder: Path, gains: str, name: str, study: Study) -> Gains:
    rows = pl.read_parquet(folder / gains / f"{name}.parquet").with_columns(
        pl.col("task", "target", "given", "target_task").cast(pl.String)
    )
    task_places = {task: place for place, task in enumerate(study.tasks)}
    agent_places = {agent: place for place, agent in enumerate(study.agents)}
    shape = len(study.tasks), len(study.agents), len(study.agents)
    plain, clipped, share = (np.full(shape, np.nan) for _ in range(3))
    control_sum, controls = np.zeros(shape), np.zeros(shape)
    bits = np.full(shape[:2], np.nan)
    rows = rows.filter(pl.col("target").is_in(study.agents), pl.col("given").is_in(study.agents))
    matched = rows.filter(pl.col("target_task") == "")
    for row in matched.iter_rows(named=True):
        place = task_places[row["task"]], agent_places[row["target"]], agent_places[row["given"]]
        plain[place], clipped[place], share[place] = row["gain"], row["clipped"], row["share"]
        bits[place[:2]] = -row["base"]
    for row in rows.filter(pl.col("target_task") != "").iter_rows(named=True):
        place = task_places[row["task"]], agent_places[row["target"]], agent_places[row["given"]]
        # in these rows `gain` holds the log-probability of the other task's response
        control_sum[place] += row["gain"] + bits[task_places[row["target_task"]], place[1]]
        controls[place] += 1
    control = np.divide(control_sum, controls, out=np.full(shape, np.nan), where=controls > 0)
    return Gains(plain, clipped, share, control, bits)


def read_grounding(folder: Path, name: str, study: Study) -> dict[str, Numbers]:
    """Each estimator of grounding [tasks, agents]; NaN where it is not recorded."""
    path = folder / "grounding_135m" / f"{name}.json"
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    tables: dict[str, dict[tuple[str, str], float]] = {}
    for task, agent, tokens in rows:
        alone, own, other = (np.array(tokens[context]) for context in ("none", "own", "other"))
        gain, bits = own - alone, -alone.sum()
        clipped = np.clip(gain, *CLIP)
        estimates = {
            "gain / H": gain.sum() / bits,
            "clipped / H": clipped.sum() / bits,
            "share": (gain > CLEAR_GAIN).mean(),
            "log p per token": own.mean(),
            "against another's, per token": (own - other).mean(),
            "clipped sum": clipped.sum(),
        }
        for estimator, value in estimates.items():
            tables.setdefault(estimator, {})[task, agent] = float(value)
    return {estimator: study.table(values) for estimator, values in tables.items()}


# --- candidates ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """The scores [tasks, agents] of a candidate on a set, and what the rule needs to order equals."""

    scores: Numbers
    terms: int
    clipped: bool
    calls: float
    """Calls per ordered pair of responses."""
    plain_peers: bool = True
    eligible: bool = True

    @property
    def simplicity(self) -> tuple[int, bool, float, bool]:
        return self.terms, self.clipped, self.calls, not self.plain_peers


def turned(pairs: Numbers) -> Numbers:
    return pairs.swapaxes(1, 2)


def over_all(pairs: Numbers) -> Numbers:
    return np.asarray(np.nanmean(pairs, axis=2))


def but_closest(pairs: Numbers) -> Numbers:
    without = pairs.copy()
    highest = np.nanargmax(np.where(np.isnan(pairs), -np.inf, pairs), axis=2)
    np.put_along_axis(without, highest[:, :, None], np.nan, axis=2)
    return over_all(without)


def adjusted(pairs: Numbers) -> Numbers:
    return over_all(pairs - np.nanmean(pairs, axis=1, keepdims=True))


def weighted(pairs: Numbers) -> Numbers:
    """The mean over peers weighted by their own scores: softmax of z-scores, some rounds."""
    weights = np.ones(pairs.shape[2])
    there = ~np.isnan(pairs)
    for _ in range(ROUNDS_OF_WEIGHTS):
        scores = (np.nan_to_num(pairs) * weights).sum(axis=2) / (there * weights).sum(axis=2)
        means = np.nanmean(scores, axis=0)
        weights = np.exp((means - means.mean()) / means.std())
    return np.asarray(scores)


OVER_PEERS: Mapping[str, Callable[[Numbers], Numbers]] = {
    "": over_all,
    ", but closest": but_closest,
    ", adjusted": adjusted,
    ", weighted": weighted,
}


def pair_candidates(gains: Gains) -> dict[str, Candidate]:
    """The candidates that need no source."""
    forms = {
        "": gains.plain,
        ", less control": gains.plain - gains.control,
        ", clipped": gains.clipped,
    }
    candidates = {}
    for form, pairs in forms.items():
        calls = 3.0 if "control" in form else 1.0
        directions = {"x|y": pairs, "y|x": turned(pairs), "both": (pairs + turned(pairs)) / 2}
        for direction, values in directions.items():
            terms = 2 if direction == "both" else 1
            for over, mean in OVER_PEERS.items():
                candidates[direction + form + over] = Candidate(
                    mean(values), terms + ("control" in form), "clip" in form, calls, not over
                )
    for form, (support, coverage) in peer_ratios(gains).items():
        clipped = form == ", clipped"
        candidates[f"support{form}"] = Candidate(support, 1, clipped, 1)
        candidates[f"coverage{form}"] = Candidate(coverage, 1, clipped, 1)
        candidates[f"support + coverage{form}"] = Candidate((support + coverage) / 2, 2, clipped, 1)
    return candidates


def peer_ratios(gains: Gains) -> dict[str, tuple[Numbers, Numbers]]:
    """Support and coverage [tasks, agents] in three forms."""
    own_bits, peer_bits = gains.bits[:, :, None], gains.bits[:, None, :]
    return {
        "": (over_all(gains.plain / own_bits), over_all(turned(gains.plain) / peer_bits)),
        ", clipped": (over_all(gains.clipped / own_bits), over_all(turned(gains.clipped) / peer_bits)),
        ", share": (over_all(gains.share), over_all(turned(gains.share))),
    }


def source_candidates(gains: Gains, grounding: Mapping[str, Numbers]) -> dict[str, Candidate]:
    """The candidates that need a source."""
    candidates = {}
    for estimator, scores in grounding.items():
        candidates[f"grounding: {estimator}"] = Candidate(scores, 1, "clip" in estimator or estimator == "share", 0)
    ratios = peer_ratios(gains)
    for form, estimator in (("", "gain / H"), (", clipped", "clipped / H"), (", share", "share")):
        grounded, (support, coverage) = grounding[estimator], ratios[form]
        clipped = form != ""
        candidates[f"grounding + coverage{form}"] = Candidate((grounded + coverage) / 2, 2, clipped, 1)
        candidates[f"grounding + support{form}"] = Candidate((grounded + support) / 2, 2, clipped, 1)
        candidates[f"all three{form}"] = Candidate((grounded + support + coverage) / 3, 3, clipped, 1)
    support, coverage = ratios[""]
    for estimator in ("gain / H", "share", "log p per token"):
        for name, other in (("support", support), ("coverage", coverage)):
            scores = standardised(grounding[estimator]) + standardised(other)
            candidates[f"standardised: {estimator} + {name}"] = Candidate(scores, 2, False, 1, eligible=False)
    return candidates


def standardised(scores: Numbers) -> Numbers:
    spread = np.nanstd(scores, axis=1, keepdims=True)
    return np.asarray((scores - np.nanmean(scores, axis=1, keepdims=True)) / np.where(spread > 0, spread, 1))


def word_overlap(study: Study) -> Numbers:
    """The mean F1 of distinct counts of words with the other agents' responses."""
    bags = {key: Counter(words(text)) for key, text in study.responses.items()}
    sizes = {key: bag.total() for key, bag in bags.items()}
    overlaps = {}
    for (task, agent), bag in bags.items():
        shares = [
            2 * (bag & bags[task, peer]).total() / max(1, sizes[task, agent] + sizes[task, peer])
            for peer in study.agents
            if peer != agent and (task, peer) in bags
        ]
        overlaps[task, agent] = float(np.mean(shares))
    return study.table(overlaps)


# --- figures -------------------------------------------------------------------------------------------------------


def right_pairs(scores: Numbers, truth: Numbers) -> tuple[Numbers, Numbers]:
    """Per task: the number of pairs in the right order (ties one half), and of all pairs of different truth."""
    gaps, true_gaps = scores[:, :, None] - scores[:, None], truth[:, :, None] - truth[:, None]
    counted = (true_gaps > 0) & ~np.isnan(gaps)
    right = np.where(gaps > 0, 1.0, np.where(gaps == 0, 0.5, 0.0)) * counted
    return right.sum(axis=(1, 2)), counted.sum(axis=(1, 2)).astype(np.float64)


def partial_spearman(scores: Numbers, truth: Numbers, length: Numbers) -> float:
    ranks = [rankdata(np.nanmean(table, axis=0)) for table in (scores, truth, length)]
    r = np.corrcoef(ranks)
    return float((r[0, 1] - r[0, 2] * r[1, 2]) / np.sqrt(max(1e-12, (1 - r[0, 2] ** 2) * (1 - r[1, 2] ** 2))))


@dataclass(frozen=True)
class Column:
    """The candidates on one set."""

    name: str
    study: Study
    candidates: Mapping[str, Candidate]
    tasks: npt.NDArray[np.bool_]
    """The tasks that are compared."""

    def figure(self, candidate: str, drawn: npt.NDArray[np.int64] | None = None) -> float:
        """Its figure on these tasks, or on those drawn of them."""
        places = np.flatnonzero(self.tasks)
        places = places if drawn is None else places[drawn]
        scores = self.candidates[candidate].scores
        if self.name == RANKED_BY_AGENT:
            return partial_spearman(scores[places], self.study.truths[places], self.study.lengths[places])
        right, counted = right_pairs(scores[places], self.study.truths[places])
        return float(right.sum() / counted.sum())

    def resampled(self, candidate: str, draws: Sequence[npt.NDArray[np.int64]]) -> Numbers:
        if self.name == RANKED_BY_AGENT:
            return np.array([self.figure(candidate, drawn) for drawn in draws])
        places = np.flatnonzero(self.tasks)
        right, counted = right_pairs(self.candidates[candidate].scores[places], self.study.truths[places])
        return np.array([right[drawn].sum() / counted[drawn].sum() for drawn in draws])


Columns = Mapping[str, Column]


def criterion(columns: Columns, names: Sequence[str], *, mean_within: bool) -> dict[str, float]:
    """The rule's number for each candidate: the mean z over sets, or over the mean within and partial."""
    figures = {name: np.array([columns[place].figure(name) for place in columns]) for name in names}
    table = np.array([figures[name] for name in names])
    if mean_within and RANKED_BY_AGENT in columns and len(columns) > 1:
        is_partial = np.array([place == RANKED_BY_AGENT for place in columns])
        table = np.column_stack([table[:, ~is_partial].mean(axis=1), table[:, is_partial][:, 0]])
    z = (table - table.mean(axis=0)) / table.std(axis=0)
    return dict(zip(names, z.mean(axis=1).tolist(), strict=True))


def choose(columns: Columns, names: Sequence[str], *, mean_within: bool) -> tuple[str, str]:
    """The candidate that is best, and the simplest of those that lose almost nothing against it."""
    values = criterion(columns, names, mean_within=mean_within)
    best = max(values, key=values.__getitem__)
    within = [place for place in columns if place != RANKED_BY_AGENT]

    def loses_little(name: str) -> bool:
        loss = {place: columns[place].figure(best) - columns[place].figure(name) for place in columns}
        lost_within = np.mean([loss[place] for place in within]) if within else 0.0
        return bool(lost_within <= 0.01 and loss.get(RANKED_BY_AGENT, 0.0) <= 0.02)

    near = [name for name in names if loses_little(name)]
    first = next(iter(columns.values())).candidates
    return best, min(near, key=lambda name: (*first[name].simplicity, -values[name]))


# --- output --------------------------------------------------------------------------------------------------------


def print_table(columns: Columns, names: Sequence[str], values: Mapping[str, float]) -> None:
    print(f"{'':48s}" + "".join(f"{place:>12s}" for place in columns) + f"{'mean within':>13s}{'z':>7s}")
    for name in names:
        figures = {place: column.figure(name) for place, column in columns.items()}
        within = [figure for place, figure in figures.items() if place != RANKED_BY_AGENT]
        cells = "".join(f"{100 * figure:12.1f}" for figure in figures.values())
        mean = f"{100 * np.mean(within):13.1f}" if within else f"{'':13s}"
        z = f"{values[name]:7.2f}" if name in values else ""
        print(f"{name:48s}{cells}{mean}{z}")


def print_choice(title: str, columns: Columns, baselines: Sequence[str], *, mean_within: bool) -> str:
    """Print all candidates, the choice, and the choices without each of the sets."""
    first = next(iter(columns.values())).candidates
    names = [name for name, candidate in first.items() if candidate.eligible and name not in baselines]
    shown = [name for name, candidate in first.items() if not candidate.eligible and name not in baselines]
    values = criterion(columns, names, mean_within=mean_within)
    print(f"\n## {title}: {', '.join(f'{place} ({c.tasks.sum()} tasks)' for place, c in columns.items())}\n")
    print_table(columns, [*baselines, *sorted(names, key=lambda name: -values[name]), *shown], values)
    best, simplest = choose(columns, names, mean_within=mean_within)
    print(f"\nbest: {best}; chosen, the simplest near it: {simplest}")
    for place in columns:
        rest = {other: column for other, column in columns.items() if other != place}
        best_of_rest, chosen = choose(rest, names, mean_within=mean_within)
        print(
            f"  without {place:12s} best {best_of_rest}, chosen {chosen}: on {place} "
            f"{100 * columns[place].figure(chosen):.1f}, today {100 * columns[place].figure(TODAY):.1f}"
        )
    return simplest


def print_acceptance(columns: Columns, chosen: Mapping[str, str], seed: int) -> None:
    """Print the paired differences from today's default on each set and in the mean within."""
    random = np.random.default_rng(seed)
    differences, observed = {}, {}
    for place, column in columns.items():
        tasks = int(column.tasks.sum())
        draws = list(random.integers(0, tasks, size=(RESAMPLES, tasks)))
        differences[place] = column.resampled(chosen[place], draws) - column.resampled(TODAY, draws)
        observed[place] = column.figure(chosen[place]) - column.figure(TODAY)
    within = [place for place in columns if place != RANKED_BY_AGENT]
    differences["mean within"] = np.mean([differences[place] for place in within], axis=0)
    observed["mean within"] = float(np.mean([observed[place] for place in within]))
    print("\n## The choice less today's default, 95% interval over tasks\n")
    for place, drawn in differences.items():
        low, high = np.nanquantile(drawn, [0.025, 0.975])
        limit = -0.01 if place == "mean within" else -0.03
        verdict = "accepted" if low >= limit else f"a loss of {-limit:g} is not excluded"
        print(f"{place:12s} {chosen.get(place, ''):42s} {observed[place]:+.3f} ({low:+.3f}, {high:+.3f})  {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gains", default="gains_135m", help="the folder of recorded gains (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the resampled tasks")
    options = parser.parse_args()
    root = Path(os.environ.get("GOLDLESS_RECORDED", Path(__file__).parents[3] / "shared" / "data"))
    folder = root / "truth"
    if not folder.is_dir():
        sys.exit(f"{folder} is not a folder. Set GOLDLESS_RECORDED to the folder that has truth")
    with_grounding = options.gains == "gains_135m"

    print("## Kinds: the share of tasks whose prompt holds a source\n")
    for_all: dict[str, Column] = {}
    sources: dict[str, Column] = {}
    open_questions: dict[str, Column] = {}
    has_sources: dict[str, bool] = {}
    for name in SETS:
        study = read_study(folder, name)
        share = share_of_tasks_with_source(study.prompts, study.responses)
        has_sources[name] = share >= 0.5
        print(f"{name:16s} {share:.2f} {'has sources' if has_sources[name] else 'has none'}")
        gains = read_gains(folder, options.gains, name, study)
        overlap, length = Candidate(word_overlap(study), 1, False, 0), Candidate(study.lengths, 1, False, 0)
        candidates = {"word overlap": overlap, "length": length, **pair_candidates(gains)}
        every = np.ones(len(study.tasks), dtype=np.bool_)
        for_all[name] = Column(name, study, candidates, every)
        grounding = read_grounding(folder, name, study) if with_grounding else {}
        if has_sources[name] and grounding:
            recorded = ~np.isnan(grounding["gain / H"]).all(axis=1)
            candidates = candidates | source_candidates(gains, grounding)
            sources[name] = Column(name, study, candidates, recorded)
        elif not has_sources[name]:
            open_questions[name] = for_all[name]
    for name, place in OTHER_SETS.items():
        print_kind(name, root / place)

    baselines = ["word overlap", "length"]
    everywhere = print_choice("All kinds", for_all, baselines, mean_within=True)
    print_acceptance(for_all, dict.fromkeys(for_all, everywhere), options.seed)
    if not sources:
        return
    with_sources = print_choice("Studies with sources", sources, baselines, mean_within=False)
    without = print_choice("Studies without", open_questions, baselines, mean_within=False)
    columns = {name: sources.get(name, for_all[name]) for name in SETS}
    for source_choice, open_choice in ((with_sources, without), (TAKEN_WITH_SOURCES, TAKEN_WITHOUT)):
        chosen = {name: source_choice if has_sources[name] else open_choice for name in SETS}
        print_acceptance(columns, chosen, options.seed)


def print_kind(name: str, folder: Path) -> None:
    """Print the kind of a set that has no part in the choice."""
    responses = read_rows(folder, "responses")
    prompts = {row["task"]: row.get("prompt") or "" for row in read_rows(folder, "tasks")}
    texts = {(row["task"], row["agent"]): row["text"] for row in responses if row["text"]}
    share = share_of_tasks_with_source(prompts, texts)
    print(f"{name:16s} {share:.2f} {'has sources' if share >= 0.5 else 'has none'}")


def read_rows(folder: Path, table: str) -> list[dict[str, str]]:
    path = next(iter(sorted(folder.glob(f"{table}.*"))))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
    return list(frame.iter_rows(named=True))


if __name__ == "__main__":
    main()
