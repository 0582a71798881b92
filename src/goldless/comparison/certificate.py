"""The A/A certificate of a gate: how often its judge decides otherwise on identical inputs, asked twice."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.special import betaincinv

from goldless.comparison.judged import Judged, find_judged
from goldless.comparison.pairing import Sides
from goldless.comparison.run_scores import Run, open_run
from goldless.comparison.settings import differing_settings
from goldless.errors import GoldlessError, UserError
from goldless.metrics.catalogue import find_metric
from goldless.models.canaries import TEXTS
from goldless.models.catalogue import PROVIDERS
from goldless.signature import Signature

State = Literal["certified", "refused", "missing", "not needed"]
SUMS_OF_A_DIFFERENCE = 4
"""Log-probabilities in the difference of two pair scores: two of each, conditional and marginal."""
ROUNDED = 1.5
"""A signature gives the noise with one digit: it may be half as large again."""
MOST_VERDICTS = 100_000


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is known about the noise of the judge behind a score."""

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
    """How far this noise can move a difference of scores."""
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
    """How many verdicts must be asked twice for a bound of at most alpha, with as many flips as there are."""
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
            raise UserError(f"--repeats must be another run than {run.path}: the same answers twice certify nothing")
        if again.study.fingerprint != run.study.fingerprint:
            raise UserError(f"--repeats {folder} is a run of other texts than {run.path}. Run the same study again")
        if metric not in again.metrics:
            raise UserError(f"--repeats {folder} has no {metric}. It has: {', '.join(again.metrics) or 'no metric'}")
        differing_settings(run.metrics[metric].signature, again.metrics[metric].signature, (run.name, again.name))
        spent = again.made_by.spending
        if sum(row.reused or 0 for row in spent) and not sum(row.calls or 0 for row in spent):
            raise UserError(
                f"--repeats {folder} took all its answers from the journal, so nothing was asked a second time. Run it "
                "with another --journal"
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
        f"deterministic: log-probabilities differ by at most {noise:.2g} nats on {_texts()} texts asked twice, so at "
        f"most {flips} of {asked} verdicts can flip"
    )
    rate = flips / asked if asked else 1.0
    return Certificate("certified" if rate <= alpha else "refused", words, asked, flips, rate, noise)


# --- log-probabilities -----------------------------------------------------------------------------------------------


def _log_probabilities(sides: Sides, metric: str, *, control: bool, rewritten: bool) -> Certificate:
    runs = dict.fromkeys((sides.first.run, sides.second.run))
    known = [_noise(run, metric) for run in runs]
    more = ". Rewrites are one sample each and were not asked for again" if rewritten else ""
    if None in known:
        words = f"log-probabilities of given texts involve no sampling; their noise was not measured in this run{more}"
        return Certificate("not needed", words)
    noise = max(found for found in known if found is not None)
    local = all(_local(run) for run in runs)
    words = (
        f"{'deterministic: ' * local}log-probabilities differ by at most {noise:.2g} nats on {_texts()} texts asked "
        f"twice{more}"
    )
    sums = SUMS_OF_A_DIFFERENCE * (2 if control else 1)
    return Certificate("certified", words, noise_nats=noise, shift=sums * noise)


def _texts() -> int:
    """Texts that canaries have scored twice: each after each."""
    return len(TEXTS) ** 2


def _noise(run: Run, metric: str) -> float | None:
    canaries = None if run.leaderboard is None else run.leaderboard.canaries
    exact = None if canaries is None else canaries.noise_nats
    return _signed_noise(run.metrics[metric].signature) if exact is None else exact


def _signed_noise(signature: str) -> float | None:
    found = re.fullmatch(r"([\d.e+-]+)nats", Signature.parse(signature).settings.get("noise", ""))
    return None if found is None else ROUNDED * float(found[1])


def _local(run: Run) -> bool:
    scorer = None if run.leaderboard is None else run.leaderboard.models.get("scorer")
    provider = None if scorer is None else PROVIDERS.get(scorer.provider)
    return provider is not None and provider.local
