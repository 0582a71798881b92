"""The A/A certificate of a gate: how often its judge decides otherwise on identical inputs, asked twice."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import methodcaller
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from scipy.special import betaincinv

from goldless.comparison.pairing import Run, Sides, differing_settings, known_metric
from goldless.errors import UserError
from goldless.evidence import OPEN_KINDS, TABLES, of_verb
from goldless.files import write_table
from goldless.judging.judges import find_judge
from goldless.models.canaries import TEXTS
from goldless.reports.document import written_property
from goldless.reports.run_folder import RunFolder

REPEATS = "repeats"
"""The folder of a run with the answers of the second asking, in the tables and columns of the first."""


# --- verdicts asked once and twice -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Judged:
    """The questions about two agents under a judged metric, in frames.

    An asking has the columns ``run`` (its number), the table's ``key``, ``value`` and ``open``: true if the call failed
    and can be made again.
    """

    sides: Sides
    metric: str
    table: Literal["judgements", "verdicts"]
    scale: str | None = None
    """Of reviewers."""
    rates: bool = False
    """True if single responses are rated; a verdict is then two ratings by one judge, one of each agent."""
    voters: tuple[str, ...] = ()
    """Reviewers that count; empty: all."""
    verb: Literal["review", "score"] = "score"
    """The verb that asked first."""

    @cached_property
    def asked(self) -> pl.DataFrame:
        """The first asking: what the runs' scores are computed from."""
        return self._asking([run.path for run in self.sides.runs])

    def asked_again(self, folders: Sequence[Path] = ()) -> pl.DataFrame:
        """The second asking: of the folders given, one per run, or as kept with each run."""
        return self._asking(folders or [run.path / REPEATS for run in self.sides.runs])

    def verdicts(self, asking: pl.DataFrame) -> pl.DataFrame:
        """One row per verdict on the two agents; of ratings, keyed by judge, way and task.

        ``outcome``: 1 and -1 for either agent, 0 for neither, 9 where the judge gave no verdict; null: no answer yet.
        """
        value = pl.col("value")
        lean, lost = value - 0.5, pl.col("open")
        if self.rates:
            numbers = (self.sides.runs.index(side.run) for side in self.sides)
            one, other = (
                asking.filter(run=number, agent=side.agent) for number, side in zip(numbers, self.sides, strict=True)
            )
            asking = one.join(other, on=TABLES[self.table].key[:3], suffix="_other", maintain_order="left")
            lean, lost = pl.col("value_other") - value, pl.col("open") | pl.col("open_other")
        said = pl.when(~lost).then(lean.sign().cast(pl.Int8).fill_null(9))
        return asking.with_columns(outcome=said)

    def both(self, folders: Sequence[Path] = ()) -> pl.DataFrame:
        """The verdicts that were given twice: ``outcome`` and ``again``."""
        key = TABLES[self.table].key[:3] if self.rates else ("run", *TABLES[self.table].key)
        again = self.verdicts(self.asked_again(folders)).select(*key, again="outcome")
        asked = self.verdicts(self.asked).select(*key, "outcome")
        return asked.join(again, on=key, nulls_equal=True).drop_nulls(["outcome", "again"])

    def questions(self, n: int, seed: int) -> pl.DataFrame:
        """The questions behind n verdicts that have no second answer yet, in the order they were asked.

        Verdicts are drawn without replacement; a larger n only adds to those of a smaller one.
        """
        units, key = self.verdicts(self.asked), ["run", *TABLES[self.table].key]
        drawn = units[np.random.default_rng(seed).permutation(len(units))[:n]]
        wanted = [drawn.select(key)]
        if self.rates:
            wanted.append(
                drawn.select(*key[1:4], "^.*_other$").rename(lambda name: name.removesuffix("_other")).select(key)
            )
        known = self.asked_again().filter(~pl.col("open"))
        there = self.asked.select(key).join(pl.concat(wanted), on=key, how="semi", nulls_equal=True)
        return there.join(known, on=key, how="anti", nulls_equal=True)

    def keep(self, run: Run, rows: pl.DataFrame) -> None:
        """Add answers to those kept with a run."""
        folder = run.path / REPEATS
        before = RunFolder(folder).rows(self.table, lambda table: table.select(*TABLES[self.table].columns))
        whole = pl.concat([before, rows]).unique(TABLES[self.table].key, keep="last", maintain_order=True)
        folder.mkdir(exist_ok=True)
        write_table(whole.lazy(), folder, self.table)

    def _asking(self, folders: Sequence[Path]) -> pl.DataFrame:
        key, frames = TABLES[self.table].key, []
        agents = [name for name, kind in TABLES[self.table].names.items() if kind == "agent"]
        lost = pl.col("value").is_null() & pl.col("failure").is_in(list(OPEN_KINDS)).fill_null(value=False)
        for number, (run, folder) in enumerate(zip(self.sides.runs, folders, strict=True)):
            mine = [name for side in self.sides if side.run is run for name in run.samples[side.agent]]
            about = pl.any_horizontal(pl.col(*agents).is_in(mine)).fill_null(value=False)
            rows = RunFolder(folder).rows(self.table, methodcaller("filter", about))
            rows = of_verb(rows.lazy(), self.verb).collect()
            if self.scale is not None:
                rows = rows.filter(pl.col("format") == self.scale)
            if self.voters:
                rows = rows.filter(pl.col("reviewer").is_in(list(self.voters)))
            rows = rows.select(pl.lit(number).alias("run"), *key, "value", lost.alias("open"))
            frames.append(rows.unique(key, keep="last", maintain_order=True))
        return pl.concat(frames)


def find_judged(sides: Sides, metric: str) -> Judged | None:
    """The verdicts behind a metric of the runs; None: it is not computed from verdicts."""
    scored = sides.first.run.metrics[metric]
    if scored.review is not None:
        scale = find_judge(scored.review.scale)
        return Judged(sides, metric, "judgements", scale.name, not scale.pairwise, tuple(scored.voters), "review")
    known = known_metric(metric)
    if known is None:
        return None
    if known.needs.judgements is not None:
        return Judged(sides, metric, "judgements", known.needs.judgements, rates=True)
    return Judged(sides, metric, "verdicts") if known.needs.verdicts is not None else None


# --- the certificate -------------------------------------------------------------------------------------------------


State = Literal["certified", "refused", "missing", "not needed"]
SUMS_OF_A_DIFFERENCE = 4
"""Log-probabilities in the difference of two pair scores: two of each, conditional and marginal."""
ROUNDED = 1.5
"""A signature gives the noise with one digit: it may be half as large again."""
MOST_VERDICTS = 100_000
TWICE = len(TEXTS) ** 2
"""Texts that canaries have scored twice: each after each."""


@dataclass(frozen=True)
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

    @written_property
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
    judged, known = find_judged(sides, metric), known_metric(metric)
    if repeats:
        _check_repeats(sides, metric, repeats)
    if judged is not None:
        exact = _scored_verdicts(judged, alpha) if not repeats else None
        return exact or _asked_twice(judged, alpha, repeats)
    if known is None:
        words = f"{metric} is a custom metric, which goldless cannot ask twice: whether it repeats itself is not known"
        return Certificate("missing", words)
    if known.needs.table is not None:
        return Certificate("missing", f"the table {known.needs.table} has one answer per question")
    needs = known.needs.logprobs
    if needs is None:
        return Certificate("not needed", f"{metric} is computed from the texts: the same texts give the same score")
    rewritten = needs.text != "responses" and "rewriter" in sides.first.run.metrics[metric].settings
    return _log_probabilities(sides, metric, control=needs.control, rewritten=rewritten)


def _check_repeats(sides: Sides, metric: str, folders: Sequence[Path]) -> None:
    """Refuse folders that are not a second asking of the same questions, one per run."""
    for run, folder in zip(sides.runs, folders, strict=True):
        again = Run(folder)
        if folder.resolve() == run.path.resolve():
            raise UserError(f"--second-run must be another run than {run.path}: the same answers twice certify nothing")
        if again.study.fingerprint != run.study.fingerprint:
            raise UserError(f"--second-run {folder} is a run of other texts than {run.path}. Run the same study again")
        if metric not in again.metrics:
            raise UserError(f"--second-run {folder} has no {metric}. It has: {', '.join(again.metrics) or 'no metric'}")
        differing_settings(run.metrics[metric].settings, again.metrics[metric].settings, (run.name, again.name))
        spent = again.made_by.spending
        if sum(row.reused or 0 for row in spent) and not sum(row.calls or 0 for row in spent):
            raise UserError(
                f"--second-run {folder} took all its answers from the journal, so nothing was asked a second time. Run "
                "it with another --journal"
            )


def _asked_twice(judged: Judged, alpha: float, repeats: Sequence[Path]) -> Certificate:
    both = judged.both(repeats)
    asked, flips = len(both), int((both["outcome"] != both["again"]).sum())
    if not asked:
        words = f"the judge of {judged.metric} was not asked twice. Ask it again with --aa {verdicts_needed(0, alpha)}"
        return Certificate("missing", words)
    upper = flip_bound(flips, asked, alpha)
    found = f"{flips} of {asked} verdicts flipped when asked twice (at most {upper:.1%} with confidence {1 - alpha:g})"
    if upper <= alpha:
        return Certificate("certified", found, asked, flips, upper)
    needed, there = verdicts_needed(flips, alpha), len(judged.verdicts(judged.asked))
    if flips / asked > alpha or needed is None:
        more = "Use a steadier judge"
    elif needed <= there:
        more = f"Ask {needed} twice with --aa {needed}, or use a steadier judge"
    else:
        more = f"{needed} verdicts would be needed, and these tasks have {there}: add tasks"
    return Certificate("refused", f"{found}, which is above alpha {alpha:g}. {more}", asked, flips, upper)


def _scored_verdicts(judged: Judged, alpha: float) -> Certificate | None:
    """The certificate of verdicts read from log-probabilities whose noise is known; None: they are not.

    Where each log-probability moves by at most e, the odds of a verdict change by a factor of at most exp(2e).
    """
    settings = judged.sides.first.run.metrics[judged.metric].settings
    noise = _signed_noise(settings)
    if judged.rates or noise is None or settings.get("verdicts") != "probabilities-scored":
        return None
    values = judged.asked["value"].drop_nulls().to_numpy()
    with np.errstate(divide="ignore"):
        odds = np.log(values) - np.log1p(-values)
    flips, asked = int((np.abs(odds) <= 2 * noise).sum()), len(values)
    words = (
        f"log-probabilities differ by at most {noise:.2g} nats on {TWICE} texts asked twice, so at most {flips} of "
        f"{asked} verdicts can flip"
    )
    rate = flips / asked if asked else 1.0
    return Certificate("certified" if rate <= alpha else "refused", words, asked, flips, rate, noise)


def _log_probabilities(sides: Sides, metric: str, *, control: bool, rewritten: bool) -> Certificate:
    known = []
    for run in sides.runs:
        board = run.leaderboard
        exact = None if board is None or board.canaries is None else board.canaries.noise_nats
        known.append(_signed_noise(run.metrics[metric].settings) if exact is None else exact)
    more = ". Rewrites are one sample each and were not asked for again" if rewritten else ""
    if None in known:
        words = f"log-probabilities of given texts involve no sampling; their noise was not measured in this run{more}"
        return Certificate("not needed", words)
    noise = max(found for found in known if found is not None)
    words = f"log-probabilities differ by at most {noise:.2g} nats on {TWICE} texts asked twice{more}"
    sums = SUMS_OF_A_DIFFERENCE * (2 if control else 1)
    return Certificate("certified", words, noise_nats=noise, shift=sums * noise)


def _signed_noise(settings: Mapping[str, str]) -> float | None:
    found = re.fullmatch(r"([\d.e+-]+)nats", settings.get("noise", ""))
    return None if found is None else ROUNDED * float(found[1])
