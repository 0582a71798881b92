"""From judgements to a review: exam results, the panel's votes, its agreement with people, and the ranking."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import polars as pl

from goldless.errors import MetricError, UserError, listed
from goldless.evidence import EXAMS, OPEN_KINDS, empty, failure_counts
from goldless.judging import licences as licensing
from goldless.judging.planted_pairs import RIGHT, WRONG
from goldless.metrics import exam_traits
from goldless.metrics.chair import usual_fusion
from goldless.metrics.exam_traits import Trait
from goldless.metrics.judgement_table import (
    PairJudgements,
    ResponseRatings,
    judgement_arrays,
    pair_judgements,
)
from goldless.metrics.label_agreement import (
    Judge,
    accuracies,
    paired_t,
    panel_judge,
    rank_agreement,
    reviewer_judges,
)
from goldless.metrics.panel_worth import panel_worth
from goldless.metrics.qualification import Candidate, Qualification, Weighting, qualify
from goldless.metrics.ranking import Ranking, rank_by_bradley_terry, rank_by_mean, rank_by_win_rate
from goldless.models.interface import ModelIdentity
from goldless.reports.decisions import STOPPED_EARLY, outlook_notes
from goldless.reports.document import InMemory
from goldless.reports.review import (
    PanelAgreement,
    ReviewerResult,
    ReviewInstructions,
    ReviewPanel,
    ReviewReport,
    SweepCell,
)
from goldless.reports.run_record import AgentSoFar, BoardSoFar, Spending, usd_per_task
from goldless.runs.collection import Collection
from goldless.runs.evaluation import highest_first
from goldless.runs.opening import OpenModel
from goldless.runs.options import PEERS, PLANTED, check_peers
from goldless.runs.plan import Rounds, RunPlan
from goldless.runs.review_evidence import CONFIDENCE, ReviewEvidence, exam_comparisons, reviewer_stage, strangers
from goldless.signature import Signature, table_hash
from goldless.statistics.answering import Until, with_outlook
from goldless.statistics.bootstrap import Draws, Estimate, task_shares
from goldless.statistics.comparisons import Comparison, all_pairs, compare_pairs
from goldless.studies import Study

REFITS = 1000
"""Number of resamples for Bradley-Terry."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Review(ReviewReport):
    """The results of one review."""

    source: InMemory[Study]
    """The study that was reviewed."""
    judgements: InMemory[pl.DataFrame]
    """Columns of ``evidence.JUDGEMENTS``."""
    answers: InMemory[pl.DataFrame] = field(default_factory=lambda: empty(EXAMS))
    """Columns of ``evidence.EXAMS``."""
    licences: InMemory[tuple[licensing.Licence, ...]] = ()
    """Issued now."""
    spending: InMemory[tuple[Spending, ...]] = ()

    @property
    def open(self) -> int:
        """Number missing for a temporary cause; 0 if no model was called."""
        return sum(n for kind, n in self.failures.items() if kind in OPEN_KINDS) if self.spending else 0


# --- who votes ---------------------------------------------------------------------------------------------------


def qualified(
    plan: RunPlan, evidence: ReviewEvidence, models: Mapping[str, OpenModel]
) -> tuple[Qualification, list[str]]:
    """The reviewers who passed or have a licence, and notes on that. ``models``: those that are called."""
    if plan.options.exam.licences:
        return _licensed(plan, {name: models[name].identity for name in evidence.reviewers}), []
    return _examined(plan, evidence)


def _examined(plan: RunPlan, evidence: ReviewEvidence) -> tuple[Qualification, list[str]]:
    options, notes = plan.options, list[str]()
    if PEERS in options.exam.traits:
        check_peers(len(evidence.reviewers))
    traits = _measured_traits(plan, evidence, notes)
    thresholds = options.usual_thresholds(len(evidence.reviewers))
    for trait in list(thresholds):
        lacking = [name for name in evidence.reviewers if trait not in traits[name]]
        if not lacking or not options.models.recorded:
            continue
        if options.labels.convention == "default" and 2 * len(lacking) <= len(evidence.reviewers):
            notes.append(f"{trait} is not recorded for {', '.join(lacking)}, which counts as not passed")
        elif options.labels.convention != "default" and trait == CONFIDENCE:
            notes.append(f"{trait} is not recorded for {', '.join(lacking)}, which counts as passed")
            for name in lacking:
                traits[name][trait] = Trait(Estimate(1.0, note="not recorded; counts as passed"))
        else:
            notes.append(f"{trait} is not recorded for most reviewers ({', '.join(lacking)}) and is not used")
            del thresholds[trait]
    if options.exam.traits and not thresholds:
        raise MetricError(f"{plan.study.name} has no recorded answers for the exam: {'; '.join(notes)}")
    # with several exams, PRE weighs votes by the human one
    weight_from = "human exam" if options.labels.convention == "pre" and "human exam" in options.exam.traits else None
    panel = qualify(
        traits,
        thresholds=thresholds,
        combination=options.exam.combination,
        weighting=options.usual_weighting if thresholds else "equal",
        weight_from=options.exam.weight_from or weight_from,
    )
    return panel, notes


def _measured_traits(plan: RunPlan, evidence: ReviewEvidence, notes: list[str]) -> dict[str, dict[str, Trait]]:
    """Return the traits of each reviewer that the exams measure, and what they are made of."""
    traits: dict[str, dict[str, Trait]] = {reviewer: {} for reviewer in evidence.reviewers}
    for name in plan.options.exam.traits:
        if name == PLANTED:
            for reviewer, traits_of_kinds in _planted(plan, evidence).items():
                traits[reviewer] |= traits_of_kinds
            continue
        for reviewer, trait in _trait(name, plan, evidence, notes).items():
            traits[reviewer][name] = trait
    return traits


def _trait(trait: str, plan: RunPlan, evidence: ReviewEvidence, notes: list[str]) -> dict[str, Trait]:
    people = plan.people
    how: dict[str, Any] = {"convention": plan.options.labels.convention, **plan.draws}
    if trait == CONFIDENCE:
        return _self_confidence(plan, evidence, notes)
    if trait == "human exam" and people.labels is not None:
        table = judged(plan, evidence)
        if table is None:
            return {}
        return exam_traits.human_exam(table, people.labels, questioners=people.questioners, **how)
    rows, names = evidence.comparisons, plan.names
    if trait == "pertinence":
        rows, names = exam_comparisons(evidence.exams, "pertinence", plan.options.labels.convention), {}
    heard = _heard(evidence, rows)
    if not heard:
        return {}
    measure = {PEERS: exam_traits.peers, "pertinence": exam_traits.pertinence}.get(trait, exam_traits.consistency)
    return measure(pair_judgements(rows, reviewers=heard, **names), **how)


def _planted(plan: RunPlan, evidence: ReviewEvidence) -> dict[str, dict[str, Trait]]:
    """Return what each reviewer got right of the planted pairs: of each kind, and of its worst kind."""
    convention = plan.options.labels.convention
    kinds = evidence.exams.filter(pl.col("exam") == PLANTED)["difficulty"].unique(maintain_order=True).to_list()
    traits: dict[str, dict[str, Trait]] = {}
    for kind in kinds:
        answers = exam_comparisons(evidence.exams.filter(pl.col("difficulty") == kind), PLANTED, convention)
        reviewers = _heard(evidence, answers)
        if not reviewers:
            continue
        judgements = pair_judgements(answers, reviewers=reviewers)
        shares = exam_traits.share_of_right_sides(judgements, RIGHT, WRONG, convention=convention, **plan.draws)
        for reviewer, share in shares.items():
            traits.setdefault(reviewer, {})[f"{PLANTED}: {kind}"] = share
    return {
        reviewer: {PLANTED: exam_traits.worst_kind(traits_of_kinds, len(kinds)), **traits_of_kinds}
        for reviewer, traits_of_kinds in traits.items()
    }


def _self_confidence(plan: RunPlan, evidence: ReviewEvidence, notes: list[str]) -> dict[str, Trait]:
    """Confidence of each reviewer: by the probability of its label if any has one, else by the level it named.

    Without those whose answers cannot be read, unless calls failed.
    """
    found = {}
    rows = evidence.exams.filter(pl.col("exam").str.starts_with(CONFIDENCE))
    for (name,), mine in rows.group_by("reviewer", maintain_order=True):
        own = mine.to_dicts()
        values = [_uncertainty(row) for row in own]
        by_labels = all(value is None for value in values)
        if by_labels:
            told = [row["value"] if row.get("label") is None else row["label"] for row in own]
            values = [exam_traits.confidence_level(one) if isinstance(one, str) else one for one in told]
        sets: dict[str, list[tuple[str, float | None]]] = {"easy": [], "hard": []}
        for row, value in zip(own, values, strict=True):
            item = row["task"] if row.get("item") is None else row["item"]
            sets[row["difficulty"]].append((str(item), value))
        readable = all(any(value is not None for _, value in one) for one in sets.values())
        if not readable and all(row.get("failure") is None for row in own):
            notes.append(f"the {len(own)} self-confidence rows of {name} lack a readable easy or hard answer")
            continue
        surer: Literal["surer", "less sure"] = "surer" if by_labels else "less sure"
        found[str(name)] = exam_traits.self_confidence(sets["easy"], sets["hard"], higher_is=surer, **plan.draws)
    return found


def _uncertainty(row: Mapping[str, Any]) -> float | None:
    """-log p of the label that an exam answer chose, in nats; None: unknown."""
    if row.get("probability") is not None:
        return -math.log(row["probability"])
    label_nats = [label["logprob_nats"] for label in row.get("label_logprobs") or []]
    known_nats = [nats for nats in label_nats if nats is not None]
    return -max(known_nats) if known_nats else None


def _licensed(plan: RunPlan, identities: Mapping[str, ModelIdentity]) -> Qualification:
    """The reviewers who may vote by licence. Raises if any has no valid licence."""
    options, held, candidates = plan.options, list[licensing.Licence](), []
    refused: list[str] = []
    for path in options.exam.licences:
        held += licensing.read_licences(path) if path.is_dir() else [licensing.Licence.read(path)]
    asked: dict[str, Any] = {
        "scale": options.review.chosen_scale.name,
        "task_kind": options.exam.task_kind or plan.study.name,
        "today": dt.datetime.now(dt.UTC).date(),
    }
    for name, identity in identities.items():
        described = options.review.descriptions.get(name, options.review.task_description)
        asked["prompt_hash"] = licensing.prompt_hash(options.review.chosen_scale, described)
        own = [one for one in held if one.reviewer == identity.short]
        good = next((one for one in own if not licensing.check(one, identity=identity, **asked)), None)
        if good is None:
            reasons = [reason for one in own for reason in licensing.check(one, identity=identity, **asked)]
            refused += [f"  {name} ({identity.short}): {reason}" for reason in reasons or ["no licence"]]
        else:
            why = f"licence until {good.expires}"
            candidates.append(Candidate(name, {}, passed=True, why=why, weight=good.weight, shortfall=0.0))
    if refused:
        raise UserError("\n".join([licensing.REFUSED, *refused]))
    return Qualification(tuple(candidates), {}, "all", "trait")


def _heard(evidence: ReviewEvidence, rows: pl.DataFrame) -> list[str]:
    """The reviewers that gave any of these answers."""
    said = set(rows["reviewer"].unique().to_list())
    return [name for name in evidence.reviewers if name in said]


def judged(plan: RunPlan, evidence: ReviewEvidence) -> PairJudgements | ResponseRatings | None:
    """The judgements on the scale of the review; None if there are none."""
    rows, heard = evidence.judgements, _heard(evidence, evidence.judgements)
    return judgement_arrays(rows, reviewers=heard, **plan.names) if heard else None


# --- votes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Votes:
    """The judgements of a plan, counted by the votes of the reviewers who passed."""

    plan: RunPlan
    evidence: ReviewEvidence
    qualification: Qualification

    @cached_property
    def table(self) -> PairJudgements | ResponseRatings | None:
        return judged(self.plan, self.evidence)

    @cached_property
    def weights(self) -> dict[str, float]:
        """Of those who passed and gave judgements."""
        heard = () if self.table is None else self.table.reviewers
        return {name: weight for name, weight in self.qualification.weights.items() if name in heard}

    @cached_property
    def panel(self) -> Judge | None:
        """Those who passed, together; None: there are no votes."""
        options = self.plan.options
        if not self.weights or self.table is None:
            return None
        return panel_judge(
            self.table, weights=self.weights, fusion=options.review.fusion, convention=options.labels.convention
        )

    def comparisons(self, until: Until | None) -> list[Comparison]:
        """The differences of agents by the panel's scores or win rates; empty where there is no panel.

        ``until``: those of a question, by a confidence sequence; None: of all pairs, for a fixed number of tasks.
        """
        if self.panel is None:
            return []
        options, found = self.plan.options, self.panel.response_scores
        values = found.score
        if options.pairing is not None:  # an agent that is decided is only a partner of others
            scored = [[(task, agent) in options.pairing for agent in found.agents] for task in found.tasks]
            values = np.where(scored, values, np.nan)
        pairs = all_pairs(values)
        if until is not None:
            return until.compare(found.agents, pairs)
        made = compare_pairs(
            found.agents, pairs, seed=options.statistics.seed, permutations=options.statistics.resamples
        )
        return with_outlook(made, pairs)

    def rankings(self, draws: Draws, *, only_first: bool = False) -> dict[str, Ranking]:
        """The agents as the panel ranks them, by the name of the ranking; empty: there is no vote."""
        panel = self.panel
        if panel is None or panel.compared is None:
            return {} if panel is None else {"mean": rank_by_mean(panel.response_scores, **draws)}
        found = {"win rate": rank_by_win_rate(panel.verdicts, **draws)}
        if not only_first:
            refits: Draws = {**draws, "resamples": min(REFITS, draws["resamples"])}
            found["bradley-terry"] = rank_by_bradley_terry(panel.verdicts, **refits)
        return found

    def agreements(self, *, only_panel: bool = False) -> dict[str, PanelAgreement]:
        """Agreement with people of each reviewer by name, and of the panel under the empty name."""
        people, options = self.plan.people, self.plan.options
        if people.tested is None or self.table is None:
            return {}
        judges = {} if self.panel is None else {"": self.panel}
        if not only_panel:
            judges = {
                one.name: one for one in reviewer_judges(self.table, convention=options.labels.convention)
            } | judges
        earned = {name: judge.credits(people.tested, options.labels.convention) for name, judge in judges.items()}
        agreements = {}
        for name, accuracy in zip(earned, accuracies([*earned.values()], **self.plan.draws), strict=True):
            spearman = kendall = difference = p = None
            if people.ratings is not None:
                both = judges[name].response_scores, people.ratings
                spearman = rank_agreement(*both, coefficient="spearman", convention=options.labels.convention)
                kendall = rank_agreement(*both, coefficient="kendall", convention=options.labels.convention)
            if name and "" in earned:
                difference, p = paired_t(earned[""], earned[name])
            agreements[name] = PanelAgreement(
                accuracy=accuracy.share,
                n_pairs=accuracy.n_pairs,
                pairs_tied=accuracy.tied,
                spearman=spearman,
                kendall_tau_a=kendall,
                accuracy_by_task=accuracy.by_task,
                accuracy_each_order=accuracy.each_order if options.review.orders == "both" else None,
                panel_difference=difference,
                panel_p_pairs=p,
            )
        return agreements


def votes_of(collected: Collection, judgements: pl.DataFrame) -> Votes:
    """These judgements, counted by the votes of those who passed."""
    return Votes(collected.plan, replace(collected.examined, judgements=judgements), collected.qualification)


def ranking_boards(rankings: Mapping[str, Ranking]) -> list[BoardSoFar]:
    """The scores of a review's first ranking; empty: there is none yet."""
    return [
        BoardSoFar(
            name, found.unit, highest_first(AgentSoFar(row.agent, row.score, row.n_tasks) for row in found.agents)
        )
        for name, found in [*rankings.items()][:1]
    ]


# --- results -----------------------------------------------------------------------------------------------------


def review_result(votes: Votes, notes: Sequence[str], collected: Collection, rounds: Rounds | None) -> Review:
    """The results of a review. ``rounds``: those of a question that decided when to stop."""
    plan, evidence, qualification = votes.plan, votes.evidence, votes.qualification
    models, spending = collected.models, collected.spending
    study, options, people = plan.study, plan.options, plan.people
    silent = [name for name in qualification.weights if name not in votes.weights]
    notes = [*notes, *([f"no judgements of {', '.join(silent)}, so there is no vote"] if silent else [])]
    if "human exam" in options.exam.traits and not options.overlapping:
        notes.append("Spearman and Kendall's tau are over all agents, including the responses of the exam")
    identities, readings = {name: model.identity for name, model in models.items()}, dict[str, str]()
    kin = []
    for name in qualification.passed:
        may = strangers(study, options, name, identities[name].name if name in identities else None)
        if own := [one for one in study.agent_list if one not in may]:
            kin.append(f"{name}: {', '.join(own)}")
    if kin:
        notes.append(f"no reviewer judges agents of its own family ({listed(kin)}); --own-family lets it")
    if models and options.review.debate is None:
        for name in qualification.passed:
            readings[name] = reviewer_stage(options, name, models[name], options.review.chosen_scale).reading
    agreements = votes.agreements()
    reviewers = _reviewers(votes, identities, agreements)
    voting = {one.name: one.weight for one in reviewers if one.passed and one.weight is not None}
    comparisons, rankings = votes.comparisons(None if rounds is None else rounds.until), votes.rankings(plan.draws)
    price = usd_per_task(spending, evidence.judgements["task"].n_unique())
    notes += [STOPPED_EARLY] if rounds is not None else outlook_notes(comparisons, price)
    answers = empty(EXAMS) if options.models.recorded else evidence.exams
    failures = failure_counts(evidence.judgements, answers)
    labels = {}
    if people.labels is not None and people.tested is not None:
        told = people.labels
        labels = {"pairs": told.n_pairs, "decided": told.n_decided, "tied": told.n_ties}
        labels["tested"] = people.tested.n_pairs
    worth = None
    if votes.weights and votes.table is not None:
        levels = len(options.review.chosen_scale.labels) or math.inf
        how: dict[str, Any] = {"levels": levels, "convention": options.labels.convention, **plan.draws}
        worth = panel_worth(votes.table, list(votes.weights), people.tested, **how)
    review = Review(
        source=study,
        study=study.name,
        fingerprint=study.fingerprint,
        scale=options.review.scale,
        exams=tuple(options.exam.exams),
        convention=options.labels.convention,
        settings=_signature(votes, identities).parts,
        reviewers=reviewers,
        nobody=qualification.note or (None if votes.weights else "the reviewers who passed gave no judgements"),
        panel=ReviewPanel(tuple(voting), voting, agreements.get(""), worth),
        rankings=rankings,
        comparisons=tuple(comparisons),
        stopped=None if rounds is None or not rankings else rounds.result(next(iter(rankings)), spending),
        judgements=evidence.judgements,
        answers=answers,
        spending=spending,
        failures=dict(sorted(failures.items())),
        complete=not spending or not any(kind in OPEN_KINDS for kind in failures),
        notes=tuple(notes),
        labels=labels,
        instructions=ReviewInstructions(
            options.review.task_description, dict(options.review.descriptions), options.review.orders, readings
        ),
        options=options.of_results(),
        sweep=sweep(plan, collected.examined) if options.models.recorded else (),
    )
    return replace(review, licences=_licences(plan, review, identities))


def _reviewers(
    votes: Votes, identities: Mapping[str, ModelIdentity], agreements: Mapping[str, PanelAgreement]
) -> tuple[ReviewerResult, ...]:
    """Results of each candidate, and its preference for the response shown first: one half is no bias.

    Each agent is shown first about as often as second, so quality cancels out.
    """
    counted = votes.evidence.judgements.group_by("reviewer").agg(asked=pl.len(), used=pl.col("value").count())
    counts = {name: (asked, used) for name, asked, used in counted.iter_rows()}
    position, table = {}, votes.table
    if isinstance(table, PairJudgements):
        value = np.stack([table.value[:, :, 0], 1 - table.value[:, :, 1]], axis=2)
        shares = task_shares(value.reshape(len(table.reviewers), -1), np.repeat(table.task, 2), **votes.plan.draws)
        position = dict(zip(table.reviewers, shares, strict=True))
    limits = votes.qualification.thresholds
    return tuple(
        ReviewerResult(
            name=(name := candidate.reviewer),
            model=identities[name].short if name in identities else None,
            traits={one: replace(trait, threshold=limits.get(one)) for one, trait in candidate.traits.items()},
            passed=candidate.passed,
            why=candidate.why,
            weight=votes.weights.get(name),
            agreement=agreements.get(name),
            asked=counts.get(name, (0, 0))[0],
            used=counts.get(name, (0, 0))[1],
            first_shown=position.get(name),
        )
        for candidate in votes.qualification.candidates
    )


def _signature(votes: Votes, identities: Mapping[str, ModelIdentity]) -> Signature:
    plan, evidence, qualification = votes.plan, votes.evidence, votes.qualification
    options, people, scale = plan.options, plan.people, plan.options.review.chosen_scale
    weights = ",".join(f"{name}={weight:.4g}" for name, weight in qualification.weights.items())
    limits = [f"{name}>{limit:.4g}" for name, limit in qualification.thresholds.items() if limit is not None]
    rows = evidence.judgements.select("reviewer", "task", "first", "second", "agent", "value")
    described = [options.review.descriptions.get(name, options.review.task_description) for name in evidence.reviewers]
    tested = "with-exam-pairs" if options.overlapping else "without-exam-pairs"
    settings = {
        "scale": scale.name,
        "wording": "+".join(dict.fromkeys(licensing.prompt_hash(scale, text)[:8] for text in described)),
        "reviewers": ",".join(identities[n].short if n in identities else n for n in evidence.reviewers),
        "exam": "licence" if options.exam.licences else ",".join(options.exam.exams),
        "pairs": None if people.labels is None else people.labels.rule,
        "questioners": "+".join(people.questioners) or None,
        "test": tested if people.questioners else None,
        "debate": options.review.debate,
        "orders": None if options.review.orders == "both" else options.review.orders,
        "limits": ",".join(limits) or "none",
        "combination": qualification.combination,
        "weights": f"{qualification.weighting}({weights})",
        "fusion": None if scale.pairwise else options.review.fusion or usual_fusion(options.labels.convention),
        "prompts": "shown" if any(task.prompt for task, _ in plan.study) else "none: responses alone",
        "own-family": "judged" if options.judges_own_family else "left-out",
        "convention": options.labels.convention,
        "evidence": f"{'recorded-' * options.models.recorded}{table_hash(rows)}",
        "until": f"{','.join(options.stopping.until)}({options.stopping.alpha:g})" if options.stopping.until else None,
        "level": f"{options.statistics.level:g}",
        "resamples": str(options.statistics.resamples),
        "seed": str(options.statistics.seed),
        "study": plan.study.fingerprint[:8],
    }
    return Signature("peer-review", {name: value for name, value in settings.items() if value is not None})


def _licences(plan: RunPlan, review: Review, identities: Mapping[str, ModelIdentity]) -> tuple[licensing.Licence, ...]:
    """Licences of the reviewers who passed an exam now, written if requested."""
    options, issued = plan.options, []
    if options.exam.issue_to is None:
        return ()
    worth, models = review.panel.worth, {reviewer.name: str(reviewer.model) for reviewer in review.reviewers}
    alike = Counter(models[voter] for voter in review.voters)
    for reviewer in review.reviewers:
        limited = any(trait.threshold is not None for trait in reviewer.traits.values())
        if not reviewer.passed or not limited or reviewer.weight is None or worth is None:
            continue
        shared = {
            models[other]: licensing.SharedErrors(errors.correlation, errors.n, worth.source)
            for errors in worth.best.between
            if (other := errors.other(reviewer.name)) is not None and alike[models[other]] == 1
        }
        licence = licensing.issue(
            identities[reviewer.name],
            options.review.chosen_scale,
            task_description=options.review.descriptions.get(reviewer.name, options.review.task_description),
            task_kind=options.exam.task_kind or plan.study.name,
            sittings=[
                licensing.Sitting(name, {"limit": str(trait.threshold)}) for name, trait in reviewer.traits.items()
            ],
            traits={
                name: licensing.LicensedTrait(trait.value, trait.estimate.n, trait.estimate.low, trait.estimate.high)
                for name, trait in reviewer.traits.items()
                if trait.value is not None
            },
            weight=reviewer.weight,
            study_fingerprint=plan.study.fingerprint,
            shared=shared,
        )
        licensing.write_licence(licence, options.exam.issue_to)
        issued.append(licence)
    return tuple(issued)


def sweep(plan: RunPlan, evidence: ReviewEvidence) -> tuple[SweepCell, ...]:
    """Agreement that the panel would have with people, for each limit of ``--sweep`` and each way to weigh votes."""
    options = plan.options
    if not options.exam.sweep:
        return ()
    varied = [trait for trait in options.exam.traits if trait != CONFIDENCE]  # which is 0 or 1
    if not varied:
        raise UserError("--sweep needs an exam whose limit can vary. Try --exam human or --exam consistency")
    if plan.people.tested is None:
        raise MetricError(f"{plan.study.name} has no labels, so there is no accuracy to sweep. Leave out --sweep")
    one = len(options.exam.weighing_traits) == 1 or options.exam.weight_from is not None
    weightings: tuple[Weighting, ...] = ("equal", "trait", "logit") if one else ("equal", "mean of traits")
    cells = []
    for told in options.exam.sweep:
        try:
            limit = told if told == "mean" else float(str(told))
        except ValueError:
            raise UserError(f"--sweep must be comma-separated numbers or mean, got {told!r}. Try 0,0.55,0.6") from None
        limits: dict[str, Any] = {**options.exam.thresholds, **dict.fromkeys(varied, limit)}
        for weighting in weightings if options.exam.weighing_traits else weightings[:1]:
            how = replace(plan, options=options.changed(thresholds=limits, weighting=weighting))
            found, _ = _examined(how, evidence)
            agreement = Votes(how, evidence, found).agreements(only_panel=True).get("")
            cells.append(SweepCell(limit, weighting, found.passed, agreement))
    return tuple(cells)
