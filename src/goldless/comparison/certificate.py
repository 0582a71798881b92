"""The A/A certificate of a gate: how often its judge decides otherwise on identical inputs, asked twice."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from scipy.special import betaincinv

from goldless.comparison.pairing import Side, Sides, differing_settings
from goldless.comparison.run_scores import ReviewedMetric, Run, Scored, open_run
from goldless.errors import GoldlessError, UserError
from goldless.evidence import OPEN_KINDS, TABLES
from goldless.files import write_table
from goldless.judging.judges import find_judge
from goldless.metrics.catalogue import find_metric
from goldless.models.canaries import TEXTS
from goldless.models.catalogue import PROVIDERS
from goldless.reports.run_folder import RunFolder
from goldless.signature import Signature

REPEATS = "repeats"
"""The folder of a run with the answers of the second asking, in the tables and columns of the first."""
NO_VERDICT = "none"


class EvidenceKey(NamedTuple):
    """The number of a run, and what identifies a row of evidence in it."""

    run: int
    judge: str
    way: str
    """The scale, or the critic's prompt."""
    task: str
    first: str | None
    second: str | None
    other: str | None
    """The agent that was rated, or the task of a critic's second response."""


Answer = float | str | None
"""A value; ``none``: the judge gave no verdict; None: not asked, or the call failed and can be made again."""
Unit = tuple[EvidenceKey, ...]
"""The questions that make one verdict."""
KEYS = {
    "judgements": ("reviewer", "format", "task", "first", "second", "agent"),
    "verdicts": ("critic", "prompt", "task", "first", "second", "second_task"),
}
AGENTS = {"judgements": ("first", "second", "agent"), "verdicts": ("first", "second")}
Table = Literal["judgements", "verdicts"]


@dataclass(frozen=True, eq=False)
class Judged:
    """The questions about two agents under a judged metric."""

    sides: Sides
    metric: str
    table: Table
    scale: str | None = None
    """Of reviewers."""
    rates: bool = False
    """True if single responses are rated."""
    voters: tuple[str, ...] = ()
    """Reviewers that count; empty: all."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """One run, or that of each agent."""
        return tuple(dict.fromkeys((self.sides.first.run, self.sides.second.run)))

    def agents(self, number: int) -> tuple[str, ...]:
        """The agents that are compared in the run of that number, with their samples."""
        sides: tuple[Side, ...] = (self.sides.first, self.sides.second)
        mine = (side for side in sides if side.run is self.runs[number])
        return tuple(name for side in mine for name in side.run.samples[side.agent])

    @cached_property
    def asked(self) -> dict[EvidenceKey, Answer]:
        """The first asking: what the runs' scores are computed from."""
        return self._answers([run.path for run in self.runs])

    @cached_property
    def units(self) -> list[Unit]:
        """The verdicts on the two agents."""
        if not self.rates:
            return [(question,) for question in self.asked]
        first, second = self.sides.first, self.sides.second
        numbers = [self.runs.index(side.run) for side in (first, second)]
        pairs: list[Unit] = []
        for question in self.asked:
            if (question.run, question.other) == (numbers[0], first.agent):
                other = question._replace(run=numbers[1], other=second.agent)
                if other in self.asked:
                    pairs.append((question, other))
        return pairs

    def outcome(self, unit: Unit, answers: Mapping[EvidenceKey, Answer]) -> str | None:
        """The verdict; None: a question of it has no answer yet."""
        found = [answers.get(question) for question in unit]
        if any(answer is None for answer in found):
            return None
        values = [answer for answer in found if isinstance(answer, float)]
        if len(values) < len(found):
            return NO_VERDICT
        lean = values[1] - values[0] if self.rates else values[0] - 0.5
        return "tie" if lean == 0 else "second" if (lean > 0) == self.rates else "first"

    def answered_again(self, folders: Sequence[Path] = ()) -> dict[EvidenceKey, Answer]:
        """The second asking: of the folders given, one per run, or as kept with each run."""
        return self._answers(folders or [run.path / REPEATS for run in self.runs])

    def sample(self, n: int, seed: int) -> list[Unit]:
        """Units drawn without replacement; a larger n only adds to those of a smaller one."""
        order = np.random.default_rng(seed).permutation(len(self.units))
        return [self.units[i] for i in order[:n]]

    def keep(self, number: int, rows: pl.DataFrame) -> None:
        """Add answers to those kept with a run."""
        folder = self.runs[number].path / REPEATS
        stored = RunFolder(folder).scan(self.table)
        before = [] if stored is None else [stored.select(*TABLES[self.table]).collect()]
        whole = pl.concat([*before, rows]).unique(KEYS[self.table], keep="last", maintain_order=True)
        folder.mkdir(exist_ok=True)
        write_table(whole.lazy(), folder, self.table)

    def _answers(self, folders: Sequence[Path]) -> dict[EvidenceKey, Answer]:
        found: dict[EvidenceKey, Answer] = {}
        for number, folder in enumerate(folders):
            for row in self._rows(number, folder).iter_rows():
                *key, value, failure = row
                lost = None if failure in OPEN_KINDS else NO_VERDICT
                found[EvidenceKey(number, *key)] = lost if value is None else float(value)
        return found

    def _rows(self, number: int, folder: Path) -> pl.DataFrame:
        """Key, value and failure of the rows about the agents of a run."""
        key = KEYS[self.table]
        table = RunFolder(folder).scan(self.table)
        if table is None:
            return pl.DataFrame(schema={**dict.fromkeys(key, pl.String), "value": pl.Float64, "failure": pl.String})
        there = table.collect_schema().names()
        lacking = [name for name in (*key[:3], "value") if name not in there]
        if lacking:
            raise UserError(f"{folder}: the table {self.table} has no column {', '.join(lacking)}")
        columns = [pl.col(name) if name in there else pl.lit(None, pl.String).alias(name) for name in (*key, "failure")]
        about = pl.any_horizontal(
            pl.col(name).is_in(list(self.agents(number))) for name in AGENTS[self.table] if name in there
        )
        rows = table.with_columns(columns).filter(about.fill_null(value=False))
        if self.scale is not None:
            rows = rows.filter(pl.col("format") == self.scale)
        if self.voters:
            rows = rows.filter(pl.col("reviewer").is_in(list(self.voters)))
        return rows.select(
            *(pl.col(name).cast(pl.String) for name in key), pl.col("value").cast(pl.Float64), "failure"
        ).collect()


def find_judged(sides: Sides, metric: str) -> Judged | None:
    """The verdicts behind a metric of the runs; None: it is not computed from verdicts."""
    scored: Scored = sides.first.run.metrics[metric]
    if isinstance(scored, ReviewedMetric):
        scale = scored.review.scale
        return Judged(sides, metric, "judgements", scale, not find_judge(scale).pairwise, tuple(scored.weights))
    try:
        needs = find_metric(metric).needs
    except GoldlessError:
        return None
    if needs.judgements is not None:
        return Judged(sides, metric, "judgements", needs.judgements, rates=True)
    return Judged(sides, metric, "verdicts") if needs.verdicts is not None else None


State = Literal["certified", "refused", "missing", "not needed"]
SUMS_OF_A_DIFFERENCE = 4
"""Log-probabilities in the difference of two pair scores: two of each, conditional and marginal."""
ROUNDED = 1.5
"""A signature gives the noise with one digit: it may be half as large again."""
MOST_VERDICTS = 100_000
TWICE = len(TEXTS) ** 2
"""Texts that canaries have scored twice: each after each."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Evidence about the noise of the judge behind a score."""

    state: State
    """``missing``: a judge that was not asked twice. ``not needed``: no model decides anything."""
    words: str
    asked: int = 0
    """Verdicts asked twice."""
    flips: int = 0
    """Those that were another the second time."""
    upper: float | None = None
    """Upper confidence bound of the flip rate."""
    noise_nats: float | None = None
    """Largest change of a log-probability when the same texts were scored again."""
    shift: float = 0.0
    """The most this noise can move a difference of scores."""
    KEYS = ("*", "rate")

    @property
    def rate(self) -> float | None:
        return self.flips / self.asked if self.asked else None

    @property
    def allows(self) -> bool:
        return self.state in {"certified", "not needed"}


def flip_bound(flips: int, asked: int, alpha: float) -> float:
    """The upper bound of the flip rate with confidence 1 - alpha, by Clopper and Pearson.

    Verdicts are drawn from those of the run, so it is a bound for the run's mean flip rate however much verdicts differ
    in theirs.
    """
    return 1.0 if flips >= asked else float(betaincinv(flips + 1, asked - flips, 1 - alpha))


def verdicts_needed(flips: int, alpha: float) -> int | None:
    """The number of verdicts that must be asked twice for a bound of at most alpha, with as many flips as there are."""
    if flip_bound(flips, MOST_VERDICTS, alpha) > alpha:
        return None
    return next(n for n in itertools.count(flips + 1) if flip_bound(flips, n, alpha) <= alpha)


def certify(sides: Sides, metric: str, *, alpha: float, repeats: Sequence[Path] = ()) -> Certificate:
    """The certificate from what the runs' folders hold. ``repeats``: folders of the second asking, one per run."""
    judged = find_judged(sides, metric)
    if repeats:
        check_repeats(sides, metric, repeats)
    if judged is not None:
        exact = _scored_verdicts(judged, alpha) if not repeats else None
        return exact or _asked_twice(judged, alpha, repeats)
    try:
        needs = find_metric(metric).needs
    except GoldlessError:
        words = f"{metric} is a custom metric, which goldless cannot ask twice: whether it repeats itself is not known"
        return Certificate("missing", words)
    if needs.table is not None:
        return Certificate("missing", f"the table {needs.table} has one answer per question")
    if needs.logprobs is None:
        return Certificate("not needed", f"{metric} is computed from the texts: the same texts give the same score")
    rewritten = needs.logprobs.text != "responses" and "rewriter:" in sides.first.run.metrics[metric].signature
    return _log_probabilities(sides, metric, control=needs.logprobs.control, rewritten=rewritten)


def check_repeats(sides: Sides, metric: str, folders: Sequence[Path]) -> None:
    """Refuse folders that are not a second asking of the same questions, one per run."""
    for run, folder in zip(dict.fromkeys((sides.first.run, sides.second.run)), folders, strict=True):
        again = open_run(folder)
        if folder.resolve() == run.path.resolve():
            raise UserError(f"--second-run must be another run than {run.path}: the same answers twice certify nothing")
        if again.study.fingerprint != run.study.fingerprint:
            raise UserError(f"--second-run {folder} is a run of other texts than {run.path}. Run the same study again")
        if metric not in again.metrics:
            raise UserError(f"--second-run {folder} has no {metric}. It has: {', '.join(again.metrics) or 'no metric'}")
        differing_settings(run.metrics[metric].signature, again.metrics[metric].signature, (run.name, again.name))
        spent = again.made_by.spending
        if sum(row.reused or 0 for row in spent) and not sum(row.calls or 0 for row in spent):
            raise UserError(
                f"--second-run {folder} took all its answers from the journal, so nothing was asked a second time. Run "
                "it with another --journal"
            )


# --- verdicts --------------------------------------------------------------------------------------------------------


def _asked_twice(judged: Judged, alpha: float, repeats: Sequence[Path]) -> Certificate:
    again = judged.answered_again(repeats)
    pairs = [(judged.outcome(unit, judged.asked), judged.outcome(unit, again)) for unit in judged.units]
    both = [(one, two) for one, two in pairs if one is not None and two is not None]
    if not both:
        words = f"the judge of {judged.metric} was not asked twice. Ask it again with --aa {verdicts_needed(0, alpha)}"
        return Certificate("missing", words)
    asked, flips = len(both), sum(one != two for one, two in both)
    upper = flip_bound(flips, asked, alpha)
    found = f"{flips} of {asked} verdicts flipped when asked twice (at most {upper:.1%} with confidence {1 - alpha:g})"
    if upper <= alpha:
        return Certificate("certified", found, asked, flips, upper)
    needed = verdicts_needed(flips, alpha)
    more = (
        "Use a steadier judge"
        if flips / asked > alpha or needed is None
        else f"Ask {needed} twice with --aa {needed}, or use a steadier judge"
        if needed <= len(judged.units)
        else f"{needed} verdicts would be needed, and these tasks have {len(judged.units)}: add tasks"
    )
    return Certificate("refused", f"{found}, which is above alpha {alpha:g}. {more}", asked, flips, upper)


def _scored_verdicts(judged: Judged, alpha: float) -> Certificate | None:
    """The certificate of verdicts read from log-probabilities whose noise is known; None: they are not.

    Where each log-probability moves by at most e, the odds of a verdict change by a factor of at most exp(2e).
    """
    signature = judged.sides.first.run.metrics[judged.metric].signature
    settings = Signature.parse(signature).settings
    noise = _signed_noise(signature)
    if judged.rates or noise is None or settings.get("verdicts") != "probabilities-scored":
        return None
    values = np.array([answer for answer in judged.asked.values() if isinstance(answer, float)])
    with np.errstate(divide="ignore"):
        odds = np.log(values) - np.log1p(-values)
    flips, asked = int((np.abs(odds) <= 2 * noise).sum()), len(values)
    words = (
        f"deterministic: log-probabilities differ by at most {noise:.2g} nats on {TWICE} texts asked twice, so at "
        f"most {flips} of {asked} verdicts can flip"
    )
    rate = flips / asked if asked else 1.0
    return Certificate("certified" if rate <= alpha else "refused", words, asked, flips, rate, noise)


# --- log-probabilities -----------------------------------------------------------------------------------------------


def _log_probabilities(sides: Sides, metric: str, *, control: bool, rewritten: bool) -> Certificate:
    runs = dict.fromkeys((sides.first.run, sides.second.run))
    known, local = [], []
    for run in runs:
        board = run.leaderboard
        exact = None if board is None or board.canaries is None else board.canaries.noise_nats
        known.append(_signed_noise(run.metrics[metric].signature) if exact is None else exact)
        scorer = None if board is None else board.models.get("scorer")
        provider = None if scorer is None else PROVIDERS.get(scorer.provider)
        local.append(provider is not None and provider.local)
    more = ". Rewrites are one sample each and were not asked for again" if rewritten else ""
    if None in known:
        words = f"log-probabilities of given texts involve no sampling; their noise was not measured in this run{more}"
        return Certificate("not needed", words)
    noise = max(found for found in known if found is not None)
    words = (
        f"{'deterministic: ' * all(local)}log-probabilities differ by at most {noise:.2g} nats on {TWICE} texts asked "
        f"twice{more}"
    )
    sums = SUMS_OF_A_DIFFERENCE * (2 if control else 1)
    return Certificate("certified", words, noise_nats=noise, shift=sums * noise)


def _signed_noise(signature: str) -> float | None:
    found = re.fullmatch(r"([\d.e+-]+)nats", Signature.parse(signature).settings.get("noise", ""))
    return None if found is None else ROUNDED * float(found[1])
