"""The crash test: how a metric reacts when responses lose content, or change without gaining any (GEM, Algorithm 1).

Every response is scored unchanged and after each perturbation, with the same peers. A degradation must lower the score,
a manipulation must not raise it. A perturbed copy is a separate agent with the peers of the original response, so that
any metric scores both in the same way. The effect is the standardised mean difference of the paper,
(mean after - mean before) / sqrt((variance before + variance after) / 2), over the samples that have both scores; the
independent units are tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import stdtr, stdtrit

from goldless.arrays import FloatArray
from goldless.errors import MetricError, UserError, nearest
from goldless.evidence import Evidence, is_open
from goldless.meta_evaluation.judges import response_scores
from goldless.meta_evaluation.perturbations.catalogue import MODEL_FREE, find_perturbation
from goldless.meta_evaluation.perturbations.perturbation import Must, Perturbation, PerturbedText, open_writer, perturb
from goldless.meta_evaluation.rating_card import CrashCard, CrashResult, CrashTest, Rating
from goldless.models.interface import ChatModel, content_hash
from goldless.records import Response
from goldless.runs.opening import Spending
from goldless.runs.options import Options, check_options
from goldless.runs.outcomes import MetricScores
from goldless.runs.pipeline import score_study
from goldless.signature import Signature
from goldless.statistics.bootstrap import Estimate
from goldless.statistics.comparisons import holm, sign_flip_p
from goldless.statistics.effects import paired_d, pooled_smd
from goldless.studies import Study, study_from_records

DEFAULT_REFERENCES = 2
"""Peers that a response is compared with, as in the GEM paper."""
DEFAULT_RESPONSES = 300
"""Maximum number of perturbed responses, the number of the paper's candidates."""
DEFAULT_MARGIN = 0.2
"""Smaller effects count as none: Cohen's "small"."""
_Sample = tuple[str, float | None, float | None]
"""Task, score before and score after; None: missing."""
UNBOUNDED = "every score moves from one value to another, so the effect is unbounded"


@dataclass(frozen=True, kw_only=True, slots=True)
class CrashOptions:
    """Which responses are perturbed and how, in addition to the options of the metrics."""

    perturbations: Sequence[str] = MODEL_FREE
    agents: Sequence[str] | None = None
    """Agents whose responses are perturbed; None: all."""
    references: int | Sequence[str] = DEFAULT_REFERENCES
    """The number of peers a response is compared with, or their names."""
    responses: int = DEFAULT_RESPONSES
    """Maximum number of perturbed responses."""
    writer: str | ChatModel | None = None
    """Chat model for the perturbations that need one."""
    margin: float = DEFAULT_MARGIN
    """A smaller effect counts as none."""


Perturbed = Mapping[str, tuple[Perturbation, Sequence[PerturbedText]]]
"""By name, each perturbation and the perturbed responses."""


async def crash_test(study: Study, options: Options, *, crash: CrashOptions | None = None) -> CrashTest:
    """Score responses before and after perturbations with every metric, and rate the effects."""
    crash = crash or CrashOptions()
    perturbations = _check(options, crash)
    candidates = choose_candidates(
        study, agents=crash.agents, references=crash.references, most=crash.responses, seed=options.seed
    )
    perturbed, writing = await _perturbed(study, candidates, perturbations, options, crash)
    made = crash_study(study, candidates, perturbed)
    scored = await score_study(made.study, replace(options, pairing=made.pairing, over_peers="own"))
    mine = [
        (perturbation, [text for text in texts if (text.task, text.agent) in candidates.peers])
        for perturbation, texts in perturbed.values()
    ]
    settings = {
        "perturbations": "+".join(perturbed),
        **({"writer": writing[0].model} if writing else {}),
        "responses": f"{len(candidates.peers)}of{candidates.of}",
        "candidates": "all" if crash.agents is None else "+".join(crash.agents),
        "references": str(crash.references) if isinstance(crash.references, int) else "+".join(crash.references),
        "margin": f"{crash.margin:g}",
        "missing": "left-out",
        "interval": f"tasks-jackknife-t-{options.level:g}",
        "test": "one-sided-t-holm",
        "resamples": str(options.resamples),
        "seed": str(options.seed),
        "study": study.fingerprint[:8],
    }
    evidence = scored.collected.evidence
    written = [text for one, texts in perturbed.values() if one.needs_writer for text in texts]
    return CrashTest(
        study=study.name,
        margin=crash.margin,
        level=options.level,
        responses=len(candidates.peers),
        responses_there_are=candidates.of,
        problems=_problems(perturbed, scored.scores, evidence),
        metrics={
            name: CrashCard(
                str(Signature(f"crash-test[{name}]", {**_of_metric(scores), **settings})),
                tuple(crash_results(scores, mine, made.copies, options=options, margin=crash.margin)),
            )
            for name, scores in scored.scores.items()
        },
        source=study,
        perturbed=tuple(text for _, texts in perturbed.values() for text in texts),
        peers=candidates.peers,
        spending=(*writing, *scored.spending),
        asked=len(written) + evidence.asked,
        open=sum(is_open(text.failure) for text in written) + evidence.open,
    )


def _of_metric(scores: MetricScores) -> dict[str, str]:
    """The settings of a metric's signature, without those that a crash test sets differently from a leaderboard."""
    ours = {"peers", "missing", "interval", "test", "resamples", "seed", "study"}
    return {key: value for key, value in scores.signature.settings.items() if key not in ours}


def _check(options: Options, crash: CrashOptions) -> dict[str, Perturbation]:
    """The perturbations by name. Raises where something cannot be crash-tested."""
    check_options(options)
    if options.recorded:
        raise UserError("a crash test scores changed responses, which have no recorded evidence. Leave out --recorded")
    if options.peers is not None or options.peer_sample is not None or options.budget_calls is not None:
        raise UserError(
            "a crash test chooses the peers itself. Use --references to choose what responses are compared with"
        )
    for metric in options.chosen_metrics():
        if metric.needs.labels or metric.needs.table is not None:
            raise MetricError(
                f"{metric.name} cannot be crash-tested: it uses recorded labels or comparisons, and changed responses "
                "have none"
            )
    if not 0 <= crash.margin < 10:
        raise UserError(f"margin must be a standardised difference from 0 to 10, got {crash.margin}. Try 0.2")
    found = {name: find_perturbation(name) for name in dict.fromkeys(crash.perturbations)}
    if not found:
        raise UserError("no perturbation given. Name at least one")
    needing = [name for name, perturbation in found.items() if perturbation.needs_writer]
    if needing and crash.writer is None:
        raise UserError(f"{', '.join(needing)}: needs a chat model. Name one with --writer")
    return found


async def _perturbed(
    study: Study,
    candidates: Candidates,
    perturbations: Mapping[str, Perturbation],
    options: Options,
    crash: CrashOptions,
) -> tuple[Perturbed, tuple[Spending, ...]]:
    """The changed texts by perturbation, and what they cost."""
    found: dict[str, tuple[Perturbation, Sequence[PerturbedText]]] = {}
    needed = any(perturbation.needs_writer for perturbation in perturbations.values())
    async with open_writer(crash.writer if needed else None, options, to="perturb responses") as writer:
        for name, perturbation in perturbations.items():
            keys = dict.fromkeys(candidates.peers)
            if perturbation.scope == "everybody":
                keys |= dict.fromkeys(candidates.references)
            texts = await perturb(
                study,
                perturbation,
                responses=_responses(study, keys),
                seed=options.seed,
                writer=writer.chat,
                at_once=writer.at_once,
                peers=candidates.peers,
                # those without a writer are too fast for progress
                tell=partial(writer.tell, f"perturbing: {name}") if perturbation.needs_writer else lambda *_: None,
            )
            found[name] = perturbation, texts
        return found, writer.spending


def _problems(perturbed: Perturbed, scores: Mapping[str, MetricScores], evidence: Evidence) -> dict[str, int]:
    examples = evidence.examples
    found = {f"{kind}, for example: {examples[kind]}": count for kind, count in sorted(evidence.failures.items())}
    missing = [(name, text.failure) for name, (_, texts) in perturbed.items() for text in texts]
    found |= Counter(f"{name}: {one.kind}: {one.message}" for name, one in missing if one is not None)
    return found | {f"{name}: {problem}": n for name, one in scores.items() for problem, n in one.problems.items()}


# --- who is tested, against whom -------------------------------------------------------------------------------------

Key = tuple[str, str]
"""Task and agent."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The responses to perturb, with the peers each is compared with."""

    peers: Mapping[Key, tuple[str, ...]]
    of: int
    """Number of eligible responses."""

    @property
    def references(self) -> tuple[Key, ...]:
        """The responses used as peers, each once."""
        return tuple(dict.fromkeys((task, peer) for (task, _), peers in self.peers.items() for peer in peers))


@dataclass(frozen=True, slots=True)
class Copy:
    """A perturbed copy of a candidate's response."""

    task: str
    agent: str
    """The agent of the original response."""
    perturbation: str
    name: str
    """The copy's agent name in the study."""
    peers: Mapping[str, str | None]
    """What it is compared with in place of each peer of the original; None: that peer could not be perturbed."""


@dataclass(frozen=True, slots=True)
class CrashStudy:
    """The responses, their perturbed copies and their peers as one study."""

    study: Study
    copies: tuple[Copy, ...]
    pairing: Mapping[Key, tuple[str, ...]]
    """The peers of each response and each copy."""


def choose_candidates(
    study: Study,
    *,
    agents: Sequence[str] | None = None,
    references: int | Sequence[str] = DEFAULT_REFERENCES,
    most: int = DEFAULT_RESPONSES,
    seed: int = 0,
) -> Candidates:
    """Responses of the given agents, or of all, that have a peer; at most ``most``, drawn by the seed.

    ``references``: the agents used as peers, or their number: the next ones around a circle that the seed draws, so
    that an agent has the same peers on every task that they answered.
    """
    known = [agent.agent for agent in study.agents]
    if most < 1:
        raise UserError(f"the number of responses must be at least 1, got {most}")
    for name in (*(agents or ()), *(() if isinstance(references, int) else references)):
        if name not in known:
            raise UserError(f"unknown agent {name!r}{nearest(name, known)}")
    if isinstance(references, int) and references < 1:
        raise UserError(f"references must be at least 1, got {references}")
    circle = sorted(known, key=lambda name: content_hash("references", seed, name))
    found: dict[Key, tuple[str, ...]] = {}
    for task, responses in study:
        there = {response.agent for response in responses}
        for agent in [name for name in known if name in there and (agents is None or name in agents)]:
            place = circle.index(agent)
            around = [name for name in (*circle[place + 1 :], *circle[:place]) if name in there]
            peers = around[:references] if isinstance(references, int) else [n for n in around if n in references]
            if peers:
                found[task.task, agent] = tuple(peers)
    if not found:
        raise MetricError(
            f"{study.name}: no response has a peer to compare with. A crash test needs tasks with responses of at "
            "least two agents"
        )
    drawn = set(sorted(found, key=lambda key: content_hash("candidate", seed, *key))[:most])
    return Candidates({key: peers for key, peers in found.items() if key in drawn}, len(found))


def crash_study(study: Study, candidates: Candidates, perturbed: Perturbed) -> CrashStudy:
    """The responses and their peers unchanged, and a copy of each for every perturbation that changed it.

    A perturbation of all responses compares copies with copies; where a peer could not be perturbed, the pair is left
    out.
    """
    originals = _responses(study, dict.fromkeys((*candidates.peers, *candidates.references)))
    copies: list[Copy] = []
    copied: list[Response] = []
    for perturbation, texts in perturbed.values():
        made = {(text.task, text.agent): text for text in texts if text.text is not None}
        mine = _copies(candidates, perturbation, made)
        kept = made if perturbation.scope == "everybody" else {(copy.task, copy.agent): None for copy in mine}
        copies += mine
        copied += [Response(t.task, t.copy, t.text or "") for key, t in made.items() if key in kept]
    if clash := {response.agent for response in originals} & {response.agent for response in copied}:
        raise UserError(f"the study has an agent {min(clash)!r}, the name of a perturbed copy. Rename it")
    pairing = dict(candidates.peers)
    pairing |= {(c.task, c.name): tuple(peer for peer in c.peers.values() if peer is not None) for c in copies}
    kept_tasks = {task for task, _ in pairing}
    tasks = [study.task(task) for task in study.tasks if task in kept_tasks]
    return CrashStudy(study_from_records(tasks, [*originals, *copied], name=study.name), tuple(copies), pairing)


def _copies(candidates: Candidates, perturbation: Perturbation, made: Mapping[Key, PerturbedText]) -> list[Copy]:
    """The candidates' responses that were changed, with what each is compared with."""
    found = []
    for (task, agent), peers in candidates.peers.items():
        text = made.get((task, agent))
        if text is None or text.unchanged:
            continue
        held: dict[str, str | None] = {peer: peer for peer in peers}
        if perturbation.scope == "everybody":
            held = {peer: made[task, peer].copy if (task, peer) in made else None for peer in peers}
        found.append(Copy(task, agent, perturbation.name, text.copy, held))
    return found


def _responses(study: Study, keys: Iterable[Key]) -> list[Response]:
    return [found for task, agent in keys if (found := study.response(task, agent)) is not None]


# --- the effect of each perturbation ---------------------------------------------------------------------------------


def crash_results(
    scores: MetricScores,
    perturbed: Iterable[tuple[Perturbation, Sequence[PerturbedText]]],
    copies: Sequence[Copy],
    *,
    options: Options,
    margin: float,
) -> list[CrashResult]:
    """The effect of every perturbation on a metric's scores, with p corrected for all of them.

    ``perturbed``: each perturbation with the perturbed responses.
    """
    pairs = {}
    if scores.metric.needs.verdicts is None:
        pairs = {tuple(key): score for *key, score in scores.pairs.select("task", "agent", "peer", "score").iter_rows()}
    responses = response_scores(scores)
    rows = []
    for perturbation, texts in perturbed:
        own = [copy for copy in copies if copy.perturbation == perturbation.name]
        if pairs:  # a sample for every pair, as in the paper
            held = [(copy, peer, other or "") for copy in own for peer, other in copy.peers.items()]
            samples = [(c.task, pairs.get((c.task, c.agent, p)), pairs.get((c.task, c.name, o))) for c, p, o in held]
        else:
            samples = [(c.task, responses.get((c.task, c.agent)), responses.get((c.task, c.name))) for c in own]
        rows.append(_crash_result(scores.metric.name, perturbation, texts, samples, options=options, margin=margin))
    return [replace(row, p_holm=p) for row, p in zip(rows, holm([row.p for row in rows]), strict=True)]


def _crash_result(
    metric: str,
    perturbation: Perturbation,
    texts: Sequence[PerturbedText],
    samples: Sequence[_Sample],
    *,
    options: Options,
    margin: float,
) -> CrashResult:
    """The effect of a perturbation; responses that it left as they were are counted, and are in no effect."""
    tasks = [task for task, _, _ in samples]
    before, after = np.array([scores for _, *scores in samples], dtype=np.float64).reshape(-1, 2).T
    both = ~(np.isnan(before) | np.isnan(after))
    smd = _effect(before[both], after[both], [task for task, used in zip(tasks, both, strict=True) if used], options)
    paired = paired_d(after - before, clusters=tasks, level=options.level)
    rating, reason = rate(perturbation.must, smd, margin=margin)
    p = p_of_passing(perturbation.must, smd, margin=margin)
    if smd.note == UNBOUNDED:
        flipped = sign_flip_p(_task_means(after - before, tasks), seed=options.seed, permutations=options.resamples)
        rises = bool(after[both][0] > before[both][0])
        if flipped is not None:
            p = 1 - flipped / 2 if rises else flipped / 2
            if flipped < 1 - options.level:
                rating, reason = ("fail", "rises") if rises else ("pass", "falls")
    return CrashResult(
        metric=metric,
        perturbation=perturbation.name,
        kind=perturbation.kind,
        must=perturbation.must,
        rating=rating,
        reason=reason if samples else "no response was changed",
        mean_before=float(before[both].mean()) if both.any() else None,
        mean_after=float(after[both].mean()) if both.any() else None,
        smd=smd.value,
        smd_low=smd.low,
        smd_high=smd.high,
        paired_d=paired.value,
        paired_d_low=paired.low,
        paired_d_high=paired.high,
        p=p,
        p_holm=None,
        samples=int(both.sum()),
        tasks=smd.n,
        responses=len(texts),
        unchanged=sum(text.unchanged for text in texts),
        not_made=sum(text.text is None for text in texts),
        missing=int((~both).sum()),
        note=smd.note,
    )


def _effect(before: FloatArray, after: FloatArray, tasks: Sequence[str], options: Options) -> Estimate:
    """The pooled SMD; 0 where no score moved, and unbounded where all of one value moved to another."""
    n = len(set(tasks))
    if n < 2:
        return Estimate(None, None, None, n, options.level, f"no effect size: n = {n}, needs at least 2 tasks")
    if (before == after).all():
        return Estimate(0.0, 0.0, 0.0, n, options.level, "every score is the same before and after")
    if len({*before.tolist()}) == len({*after.tolist()}) == 1:
        return Estimate(None, None, None, n, options.level, UNBOUNDED)
    return pooled_smd(before, after, clusters=tasks, level=options.level)


def _task_means(differences: FloatArray, tasks: Sequence[str]) -> FloatArray:
    """The mean difference of each task that has one."""
    by_task: dict[str, list[float]] = {}
    for task, difference in zip(tasks, differences.tolist(), strict=True):
        if difference == difference:  # noqa: PLR0124 - not NaN
            by_task.setdefault(task, []).append(difference)
    return np.array([sum(values) / len(values) for values in by_task.values()])


def p_of_passing(must: Must, smd: Estimate, *, margin: float = DEFAULT_MARGIN) -> float | None:
    """One-sided p of what a sound metric does: that the effect is below 0, or below the margin for a manipulation.

    It is of the same t distribution as the interval, so a rating is ``pass`` where it is below half of 1 - level.
    """
    if smd.value is None or smd.high is None:
        return None
    distance = smd.value - (0.0 if must == "fall" else max(margin, 0.0))
    error = (smd.high - smd.value) / float(stdtrit(smd.n - 1, (1 + smd.level) / 2))
    if error == 0:
        return 0.0 if distance < 0 or (must == "not rise" and distance == 0) else 1.0
    return float(stdtr(smd.n - 1, distance / error))


def rate(must: Must, smd: Estimate, *, margin: float = DEFAULT_MARGIN) -> tuple[Rating, str]:
    """Whether an effect is what a sound metric shows, and why.

    A degradation passes if the whole interval is below 0, and fails if the metric is shown not to fall by more than the
    margin. A manipulation passes if the metric is shown not to rise by more than the margin, and otherwise fails if the
    whole interval is above 0. Otherwise the interval is too wide to decide.
    """
    if smd.value is None or smd.low is None or smd.high is None:
        return "not shown", smd.note or "no interval"
    if must == "fall":
        falls, stays = smd.high < 0, smd.low > -margin
        if falls or not stays:
            return ("pass", "falls") if falls else ("not shown", "interval too wide")
        return "fail", "rises" if smd.low > 0 else f"does not fall by {margin:g}"
    if smd.high <= max(margin, 0):
        return "pass", "falls" if smd.high < 0 else f"does not rise by {margin:g}"
    return ("fail", "rises") if smd.low > 0 else ("not shown", "interval too wide")
