"""How to evaluate and review: every option of a run, declared once.

A field says how the option is written on the command line, what the help says of it, how it is called in Python and
what is allowed. Importing this is light: the command line reads it before anything else is needed.
"""

# ruff: noqa: RUF009 - option() makes a field, not a value
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from goldless.errors import MetricError, UserError, nearest
from goldless.runs.option_forms import (
    BUDGET,
    FILE,
    FILES,
    FLAG,
    LEVEL,
    LIMITS,
    METRIC_NAMES,
    MODEL,
    NAMES,
    NUMBER,
    ONE_LIST,
    PRICE,
    TEXT,
    TWO_AGENTS,
    TWO_GROUPS,
    Form,
    by_name,
    check_each,
    metric_names,
    one_of,
    option,
    several,
    split,
    whole,
)

if TYPE_CHECKING:
    # what these stand in takes a second to import
    from goldless.judging.asking import Verdicts
    from goldless.judging.scales import Scale
    from goldless.metrics.chair import Normalisation
    from goldless.metrics.judgement_table import Convention
    from goldless.metrics.metric import Metric
    from goldless.metrics.qualification import Combination, Threshold, Weighting
    from goldless.models.interface import ChatModel, Scorer
    from goldless.models.usage import Price
    from goldless.templates import Template

__all__ = ["Options", "Progress", "check_options", "check_review_options", "metric_names"]

METRICS = "Metrics"
CRITIC = "TVD-MI"
REVIEWERS = "Reviewers"
EXAM = "Exam"
LABELS = "People's labels"
GROUPS = "Groups of agents"
STATISTICS = "Statistics"
MODELS = "Models and money"
SCORING = (METRICS, CRITIC, GROUPS, STATISTICS, MODELS)
"""The groups that evaluating takes."""
REVIEWING = (REVIEWERS, EXAM, LABELS, STATISTICS, MODELS)
"""The groups that reviewing takes."""

OnTooLong = Literal["error", "skip"]
ExamName = Literal["none", "human", "consistency", "pertinence", "self-confidence", "auto"]
TRAITS: Mapping[ExamName, tuple[str, ...]] = {
    "none": (),
    "human": ("human exam",),
    "consistency": ("consistency",),
    "pertinence": ("pertinence",),
    "self-confidence": ("self-confidence",),
    "auto": ("consistency", "pertinence", "self-confidence"),
}
"""What each exam measures."""
HUMAN_THRESHOLD = 0.6
AUTO_EXAM_THRESHOLD = 0.55
"""PRE's fixed limit of consistency, and ours where one candidate alone has no mean to be held against."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is."""

    stage: str
    done: int
    total: int
    tokens: int
    cost_usd: float | None


def _exam_names(given: Any) -> tuple[str, ...]:
    return split([given]) if isinstance(given, str) else tuple(given)


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to evaluate or review."""

    metrics: Sequence[str | Callable[..., object]] = option(
        ("gem-raw",),
        METRIC_NAMES,
        METRICS,
        "--metric -m",
        "Metrics to compute; repeat it or separate them by commas: gem-raw, gem, gem-s[COLUMN], tvd-mi, "
        "tvd-mi[given], tvd-mi[about], tvd-mi[labels], mi, gppm, bartscore, bartscore-recall, bartscore-precision, "
        "gptscore, bleu, rouge-l, bertscore, bertscore[MODEL], rouge-l[reference], length, judge[TABLE], "
        "judge-first[TABLE], python:MODULE:FUNCTION, command:WORDS, promptfoo:FILE.py[:FUNCTION], "
        "deepeval:MODULE:OBJECT, inspect:MODULE:SCORER. goldless plugins lists those that packages add.",
    )
    """Names, or functions of a response."""
    scorer: str | Scorer = option(
        "embedded",
        MODEL,
        METRICS,
        "--scorer",
        "Model that gives log-probabilities: embedded, gguf:PATH, hf:NAME, http://…/v1#MODEL.",
    )
    rewriters: Sequence[str | ChatModel] = option(
        (),
        NAMES,
        METRICS,
        "--rewriter",
        "Chat model that preprocesses for gem and gem-s: openai:MODEL, http://…/v1#MODEL, … Repeat it to average "
        "over several.",
        keyword="rewriter",
    )
    """Chat models that preprocess; several are averaged over."""
    rewrite_max_tokens: int = option(1024, whole(1), METRICS)
    """Longest rewrite; a longer one is missing."""
    synopsis_writer: str | ChatModel | None = option(
        None,
        MODEL,
        METRICS,
        "--synopsis-writer",
        "Chat model that writes the abstract or assw of a task that has none, for gem-s.",
    )
    templates: Sequence[str] = option(
        (),
        NAMES,
        METRICS,
        "--template",
        "Prompt wording: general, plain, peer-review, or FILE.toml. Repeat it to average over several.",
        keyword="template",
        default_text="general",
    )
    """Wordings; several are averaged over. None: ``general``, and of recorded evidence all there are."""
    peers: Sequence[str] | None = option(
        None, ONE_LIST, METRICS, "--peers AGENTS", "Comma-separated agents to use as peers; all by default."
    )
    """Agents that serve as peers; None: all."""
    panel: int | None = option(None, whole(1), METRICS, "--panel", "Use that many randomly drawn agents as peers.")
    on_too_long: OnTooLong = option(
        "error",
        one_of("error", "skip"),
        METRICS,
        "--on-too-long",
        "A text that does not fit the scorer's context: stop, or count it as missing.",
    )
    metric_timeout_seconds: float | None = option(
        None,
        NUMBER,
        METRICS,
        "--metric-timeout SECONDS",
        "Timeout in seconds for metrics of your own; 600 for a command by default.",
    )
    critic: str | ChatModel = option(
        "embedded", MODEL, CRITIC, "--critic", "Model that tells matched pairs from shuffled ones."
    )
    critic_prompt: str = option(
        "same-source", TEXT, CRITIC, "--critic-prompt", "What the critic is asked: same-source, three-level."
    )
    shuffles: int | None = option(
        None, whole(1), CRITIC, "--shuffles", "Shuffled pairs for each matched one; 4 by default, or tasks - 1."
    )
    """Shuffled partners of each matched pair; None: by the number of tasks."""
    budget_calls: int | None = option(
        None, whole(), CRITIC, "--budget-calls CALLS", "Maximum critic calls; the pairs that rank best are chosen."
    )
    reviewers: Sequence[Any] | Mapping[str, Any] = option(
        (),
        Form(list[str], parse=split, accept=lambda given: given if isinstance(given, Mapping) else several(given)),
        REVIEWERS,
        "--reviewers",
        "Chat models, comma-separated or repeated: SPEC or NAME=SPEC; with --recorded names. The same model under "
        "two names, with --describe, is two reviewers.",
    )
    """``SPEC``, ``NAME=SPEC``, a model, or names with either; with recorded evidence names, none: all there are."""
    scale: str = option(
        "pairwise",
        TEXT,
        REVIEWERS,
        "--scale",
        "What reviewers are asked: pairwise, pairwise-tie, 5-level, 100-level, completeness, medical-completeness, "
        "medical-correctness, medical-conciseness, pandalm, lm-examiner, lm-examiner-criteria, lm-examiner-general.",
    )
    task_description: str = option(
        "", TEXT, REVIEWERS, "--task-description", "What is judged and what counts, in a sentence or two."
    )
    descriptions: Mapping[str, str] = option(
        {}, by_name("TEXT"), REVIEWERS, "--describe NAME=TEXT", "A task description of its own for a reviewer."
    )
    families: Mapping[str, str] = option(
        {},
        by_name("FAMILY", last=True),
        REVIEWERS,
        "--family NAME=FAMILY",
        "Family of a reviewer; those of agents are in the agents table.",
    )
    own_family: bool = option(
        False, FLAG, REVIEWERS, "--own-family", "Count judgements of reviewers on their own family."
    )
    debate: str | None = option(
        None, TEXT, REVIEWERS, "--debate", "Each reviewer is a debate among copies of its model: C1, C2, C3."
    )
    """Each reviewer is a debate of this kind among copies of its model (C1, C2, C3); None: it is asked alone."""
    fusion: Normalisation | None = option(
        None,
        one_of("z", "raw"),
        REVIEWERS,
        "--fusion",
        "How ratings are added up: z-normalised for each reviewer, or raw.",
    )
    """Of ratings; None: z, or raw with the papers' convention."""
    exams: Sequence[ExamName] = option(
        ("none",),
        Form(list[str], parse=split, accept=_exam_names),
        EXAM,
        "--exam",
        "What must be passed, comma-separated: none, human, consistency, pertinence, self-confidence, auto.",
    )
    thresholds: Mapping[str, Threshold] = option(
        {},
        LIMITS,
        EXAM,
        "--threshold [TRAIT=]LIMIT",
        "A number, mean (over the candidates) or none; of one trait or of all.",
    )
    """By trait, or ``all``; what is not named has its usual one."""
    combination: Combination = option(
        "all", one_of("all", "any"), EXAM, "--combine", "All limits must be passed, or any."
    )
    weighting: Weighting | None = option(
        None,
        one_of("equal", "mean of traits", "trait", "logit"),
        EXAM,
        "--weights",
        "How votes are weighed; by default as the exam's paper does.",
    )
    """None: the usual one of the exam."""
    weight_from: str | None = option(None, TEXT, EXAM, "--weight-from TRAIT", "The trait that weights come from.")
    """The trait that a weight by one trait comes from; None: the first one."""
    questioners: Sequence[str] | None = option(
        None, ONE_LIST, EXAM, "--questioners AGENTS", "Agents whose responses the human exam is made of."
    )
    """Agents whose responses the human exam is made of; None: three drawn by the seed."""
    overlap: bool = option(False, FLAG, EXAM, "--overlap", "Test on the human exam's pairs as well.")
    exam_items: int | None = option(
        100,
        whole(parse=lambda items: items or None, or_none=True),
        EXAM,
        "--exam-items",
        "Most pairs or tasks of an automatic exam; 0: all.",
    )
    """Most pairs, or tasks, of an automatic exam; None: all."""
    relevant: str | None = option(None, TEXT, EXAM, "--relevant AGENT", "Whose responses are the relevant answers.")
    irrelevant: str | None = option(None, TEXT, EXAM, "--irrelevant AGENT", "Whose responses are the irrelevant ones.")
    """Agents of the pertinence exam; None: the one that answered most, as both."""
    changer: Any = option(
        None,
        MODEL,
        EXAM,
        "--changer SPEC",
        "Chat model that changes questions for the pertinence exam; by default the nearest other question.",
    )
    """Chat model that changes questions for the pertinence exam and answers the changed ones; None: the study's own."""
    easy: tuple[str, str] | None = option(None, TWO_AGENTS, EXAM, "--easy A,B", "Agents of the easy set: far apart.")
    hard: tuple[str, str] | None = option(
        None, TWO_AGENTS, EXAM, "--hard A,C", "Agents of the hard set: close together."
    )
    """Agents of the self-confidence exam; None: by the candidates' own first comparisons."""
    licences: Sequence[Path] = option((), FILES, EXAM, "--licence", "Licence file or folder, instead of an exam.")
    issue_to: Path | None = option(None, FILE, EXAM, "--issue FOLDER", "Write licences of those who pass here.")
    task_kind: str = option(
        "", TEXT, EXAM, "--task-kind", "What is judged, in a few words, for licences; the study's name by default."
    )
    criterion: str | None = option(
        None, TEXT, LABELS, "--criterion", "Which label criterion to use, if there is more than one."
    )
    margin: float | None = option(
        None,
        NUMBER,
        LABELS,
        "--margin VOTES",
        "Votes that people's preferences must be ahead by to decide a pair; 2, or 1 where there are few.",
    )
    """Votes that people's preferences must be ahead by; None: 2, or 1 where pairs have fewer than three votes."""
    convention: Convention = option(
        "default",
        one_of("default", "paper"),
        LABELS,
        "--convention",
        "paper: count as the papers do; what is missing or tied is one half, and exam pairs are tested on.",
    )
    compare_groups: tuple[str, str] | None = option(
        None,
        TWO_GROUPS,
        GROUPS,
        "--compare-groups A B",
        "Compare two groups of the agents table: effect sizes and AUC.",
    )
    seed: int = option(0, whole(0), STATISTICS, "--seed", "Seed of draws, resampling and tests.")
    resamples: int = option(
        10_000, whole(100), STATISTICS, "--resamples", "Resamples of tasks for intervals and tests."
    )
    level: float = option(0.95, LEVEL, STATISTICS, "--level", "Level of the intervals.")
    recorded: bool = option(
        False, FLAG, MODELS, "--recorded", "Use only evidence that the study carries; ask no model."
    )
    verdicts: Verdicts = option(
        "auto",
        one_of("auto", "probabilities", "labels"),
        MODELS,
        "--verdicts",
        "Read verdicts as probabilities of the labels, or as the label written; auto: the first where possible.",
    )
    budget_usd: float | None = option(None, BUDGET, MODELS, "--budget USD", "Stop before this is exceeded, e.g. 2USD.")
    price: Price | None = option(
        None,
        PRICE,
        MODELS,
        "--price IN,OUT",
        "USD per million tokens, for a model whose price is unknown.",
        keyword="price_usd_per_million",
    )
    """Price of a model whose price is not known."""
    journal: Path | None = option(None, FILE, MODELS, "--journal", "Journal file; by default one for all your runs.")
    pairing: Mapping[tuple[str, str], Sequence[str]] | None = None
    """The peers of each response that is scored, by task and agent; None: as ``peers`` says."""
    told: Mapping[str, str] = field(default_factory=dict)
    """What signatures say beside what a run knows itself, such as how the responses were asked for."""
    progress: Callable[[Progress], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)

    def some(self, *names: str) -> dict[str, Any]:
        """The options of these names, to be handed on."""
        return {name: getattr(self, name) for name in names}

    def chosen_metrics(self) -> list[Metric]:
        """The metrics asked for, each once."""
        if not self.metrics or not all(isinstance(name, str) or callable(name) for name in self.metrics):
            raise MetricError("no metric was named. Try gem-raw, or goldless score --help for all of them.")
        found = [self._metric(name) for name in dict.fromkeys(self.metrics)]
        names = [metric.name for metric in found]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise MetricError(f"two metrics are called {', '.join(twice)}; give each function a name of its own")
        return found

    def _metric(self, name: str | Callable[..., object]) -> Metric:
        """The metric of that name: somebody else's, or ours; of a function, that function."""
        from goldless.metrics.catalogue import find_metric  # noqa: PLC0415 - a help needs no metric
        from goldless.metrics.text_metrics import UserMetric  # noqa: PLC0415 - as above
        from goldless.user_metrics.catalogue import find_user_metric, function_metric  # noqa: PLC0415 - as above

        if not isinstance(name, str):
            given = function_metric(name, timeout_seconds=self.metric_timeout_seconds)
            return UserMetric(given.name, given)
        theirs = find_user_metric(name, timeout_seconds=self.metric_timeout_seconds)
        return find_metric(name) if theirs is None else UserMetric(name, theirs)

    def chosen_templates(self) -> list[Template]:
        """The templates asked for, each once."""
        from goldless.templates import find_template  # noqa: PLC0415 - as above

        return [find_template(name) for name in dict.fromkeys(self.templates or ("general",))]

    @property
    def chosen_scale(self) -> Scale:
        """The scale."""
        from goldless.judging.judges import find_judge  # noqa: PLC0415 - as above

        return find_judge(self.scale)

    @property
    def traits(self) -> tuple[str, ...]:
        """What the exams measure, each once."""
        return tuple(dict.fromkeys(trait for exam in self.exams for trait in TRAITS[exam]))

    @property
    def overlapping(self) -> bool:
        """Whether the human exam's pairs are tested on as well."""
        return self.overlap or self.convention == "paper"

    @property
    def judges_own_family(self) -> bool:
        """Whether a reviewer judges agents of its own family."""
        return self.own_family or self.convention == "paper"

    def usual_thresholds(self, candidates: int) -> dict[str, Threshold]:
        """The limit of each trait, as named or as usual.

        Automatic traits are held against the mean over the candidates; where there is one candidate, or with the
        papers' convention and consistency alone (PRE), against 0.55. Self-confidence is passed or not.
        """
        alone = candidates < 2 or (self.convention == "paper" and self.traits == ("consistency",))
        limits: dict[str, Threshold] = {
            "human exam": HUMAN_THRESHOLD,
            "consistency": AUTO_EXAM_THRESHOLD if alone else "mean",
            "pertinence": AUTO_EXAM_THRESHOLD if alone else "mean",
            "self-confidence": 0.0,
        }
        for trait, limit in self.thresholds.items():
            limits |= dict.fromkeys(self.traits if trait == "all" else (trait,), limit)
        return {trait: limits[trait] for trait in self.traits}

    @property
    def usual_weighting(self) -> Weighting:
        """How votes are weighed, as named or as usual: PRE's logit, Auto-PRE's mean of traits, else equal."""
        if self.weighting is not None:
            return self.weighting
        if self.traits == ("human exam",):
            return "trait" if self.convention == "paper" else "logit"
        return "mean of traits" if len(self.traits) > 1 else "equal"


def check_options(options: Options) -> None:
    """Refuse what no study could be evaluated with."""
    from goldless.judging.critic_prompts import find_critic_prompt  # noqa: PLC0415 - a help needs no prompt

    options.chosen_metrics()
    options.chosen_templates()
    find_critic_prompt(options.critic_prompt)
    check_each(options)
    if options.panel is not None and options.peers is not None:
        raise UserError("name the peers or say how many to draw, not both")
    if options.pairing is not None and (options.peers, options.panel, options.budget_calls) != (None, None, None):
        raise UserError("a pairing says who is whose peer: leave out the peers, the panel and the budget of calls")
    if options.budget_calls is not None and (options.panel is not None or options.peers is not None):
        raise UserError("a budget of critic calls chooses the partners itself: leave out the peers and the panel")


def check_review_options(options: Options) -> None:
    """Refuse what no study could be reviewed with."""
    from goldless.judging.debate import find_debate  # noqa: PLC0415 - a help needs no debate
    from goldless.judging.judges import find_judge  # noqa: PLC0415 - as above

    find_judge(options.scale)
    if options.debate is not None:
        find_debate(options.debate)
    _check_exams(options)
    check_each(options)
    _check_reviewers(options)


def _check_exams(options: Options) -> None:
    for exam in options.exams:
        if exam not in TRAITS:
            raise UserError(f"unknown exam {exam!r}{nearest(exam, TRAITS) or '.'} Exams: {', '.join(TRAITS)}.")
    if not options.exams or ("none" in options.exams and len(options.exams) > 1):
        given = ", ".join(options.exams) or "nothing"
        raise UserError(f"exams must be the exams to be passed, or none alone, got {given}")
    measured = ", ".join(options.traits) or "nothing"
    for trait in options.thresholds:
        if trait not in {*options.traits, "all"}:
            raise UserError(f"unknown trait {trait!r} in the thresholds; the exams measure {measured}")
    if options.weighting not in {None, "equal"} and not options.traits:
        raise UserError(f"weights by {options.weighting} come from an exam: name one, or leave the weights out")
    if options.weight_from is not None and options.weight_from not in options.traits:
        raise UserError(f"weights are to come from {options.weight_from!r}, but the exams measure {measured}")
    if (options.easy is None) != (options.hard is None):
        raise UserError("name the agents of the easy and of the hard set, or of neither")


def _check_reviewers(options: Options) -> None:
    if options.licences and tuple(options.exams) != ("none",):
        raise UserError("licences stand for an exam that was passed: leave the exam out, or the licences")
    if options.recorded and (options.licences or options.issue_to):
        raise UserError("licences are for reviewers that are asked; recorded judgements have none")
    if options.debate is not None and (options.licences or options.issue_to is not None):
        raise UserError("a licence is for one model asked alone, not for a debate: leave one of the two out")
    if options.issue_to is not None and not options.traits:
        raise UserError("a licence says which exam was passed: name one with --exam")
    if not options.recorded and not options.reviewers:
        raise UserError("name at least one reviewer, such as openai:MODEL, NAME=http://HOST:PORT/v1#MODEL or embedded")
