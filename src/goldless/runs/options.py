"""Options to evaluate and review: every option of a run, declared once.

A field gives the option's flags, help text, name in Python and allowed values. Importing this is light: the command
line reads it before anything else is needed.
"""

# ruff: noqa: RUF009 - an option is a field, not a value
from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from goldless.errors import MetricError, UserError, check_known, nearest
from goldless.runs import option_forms as forms
from goldless.runs.option_forms import (
    build,
    by_name,
    change,
    check_each,
    declared,
    defaults,
    flat_values,
    group,
    metric_names,
    option,
)

if TYPE_CHECKING:
    # importing these takes a second
    from goldless.judging.scales import Scale
    from goldless.metrics.metric import Metric
    from goldless.metrics.qualification import Threshold, Weighting
    from goldless.models.interface import ChatModel, Scorer
    from goldless.models.usage import Price
    from goldless.runs.progress import Progress, Tell
    from goldless.statistics.bootstrap import Draws
    from goldless.templates import Template

__all__ = ["Options", "check_options", "check_review_options", "metric_names"]

METRICS = "Metrics"
CRITIC = "TVD-MI"
REVIEWERS = "Reviewers"
EXAM = "Exam"
LABELS = "People's labels"
GROUPS = "Comparing agents"
STATISTICS = "Statistics"
STOPPING = "Stopping early"
DETECTION = "Tasks needed"
MODELS = "Models and money"
SCORING = (METRICS, CRITIC, GROUPS, STATISTICS, MODELS)
"""The groups that evaluating takes."""
REVIEWING = (REVIEWERS, EXAM, LABELS, STATISTICS, STOPPING, MODELS)
"""The groups that reviewing takes."""
ASKED_OF_MODELS = {
    *("scorer", "jurors", "examples", "rewriters", "rewrite_max_tokens", "synopsis_writer", "critic", "changer"),
    *("reviewers", "licences", "issue_to", "task_kind", "metric_timeout_seconds", "budget_calls"),
}
"""Options of other groups than models that change evidence alone, or where it goes."""
ExamName = Literal[
    "none", "planted", "human", "consistency", "pertinence", "self-confidence", "auto", "peers", "auto+peers"
]
AUTOMATIC = ("consistency", "pertinence", "self-confidence")
PLANTED: Literal["planted"] = "planted"
PEERS = "peers"
"""The trait that others' votes show. It decides who votes, never a vote's weight: it claims far too much."""
TRAITS: Mapping[ExamName, tuple[str, ...]] = {
    "none": (),
    "planted": (PLANTED,),
    "human": ("human exam",),
    "consistency": ("consistency",),
    "pertinence": ("pertinence",),
    "self-confidence": ("self-confidence",),
    "auto": AUTOMATIC,
    "peers": (PEERS,),
    "auto+peers": (*AUTOMATIC, PEERS),
}
"""The traits that each exam measures."""
DEFAULT_METRICS = "default"
"""Placeholder for the study's default metrics."""
OVER_LOGPROBS = "shared-info gem-raw gem gem-s mi gppm gptscore bartscore bartscore-recall bartscore-precision"
IN_NAMES: Mapping[str, Mapping[str, str]] = {
    "tvd-mi": {"shuffles": "shuffles", "prompt": "critic_prompt", "calls": "budget_calls"},
    "peer-prediction": {"juror": "jurors", "family": "juror_families", "examples": "examples"},
    **{name: {"writer": "synopsis_writer", "control": "control_tasks"} for name in OVER_LOGPROBS.split()},
    "shared-info": {"writer": "synopsis_writer", "control": "control_tasks", "peers": "drawn_peers"},
}
"""Options that some metrics alone read, by what they are called in their names: ``tvd-mi[shuffles=4]``."""
REPEATED = {"jurors", "juror_families"}
"""Those of them that may be in a name several times, each with another value."""
Settings = dict[str, tuple[str, tuple[str, ...]]]
"""Options in the names of metrics, each with what it is called there and its values."""
TIMEOUT = re.compile(r"(command:.*\S(?=\s)|(?!command:)[\w-]+:.*\S)\s*\?timeout=(\S+)", re.DOTALL)
"""A custom metric with its time limit: ``python:FILE.py:FUNCTION?timeout=60``, ``command:WORDS ?timeout=60``."""
HUMAN_THRESHOLD = 0.6
PLANTED_THRESHOLD = 0.7
"""Limit of the share of planted pairs of the worst kind that a reviewer judges right."""
AUTO_EXAM_THRESHOLD = 0.55
"""PRE's fixed limit of consistency, and ours where a single candidate has no mean to be compared with."""


@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """Options of the evidence that metrics need, and how it is asked for."""

    metrics: Sequence[str | Callable[..., object]] = option(
        (DEFAULT_METRICS,),
        "Comma-separated metrics, such as shared-info, gem, tvd-mi, rouge-l, length or python:FILE.py:FUNCTION.",
        "--metric -m NAMES",
        group=METRICS,
        form=forms.METRIC_NAMES,
        shown="shared-info, length; shared-info[prompt] if prompts are repeated",
    )
    scorer: str | Scorer = option(
        "embedded", "Model that gives log-probabilities: embedded, gguf:PATH, hf:NAME, http://…/v1#MODEL.", "MODEL"
    )
    rewriters: Sequence[str | ChatModel] = option(
        (),
        "Chat model that rewrites responses for gem and gem-s. Repeat it for several.",
        "--rewriter MODEL",
        keyword="rewriter",
    )
    rewrite_max_tokens: int = option(1024, "", at_least=1)
    """Longest rewrite; a longer one is missing."""
    synopsis_writer: str | ChatModel | None = option(None)
    """Chat model that writes the missing abstract or assw of a task: gem-s[abstract,writer=MODEL]."""
    templates: Sequence[str] = option(
        (),
        "Prompt wording: general, plain, peer-review, or FILE.toml. Repeat it to average over several.",
        "--template NAME",
        form=forms.NAMES,
        keyword="template",
        shown="general",
    )
    peers: int | Sequence[str] | None = option(
        None,
        "Peers of a response: names, N drawn, or all.",
        "N|AGENTS",
        form=forms.PEERS,
        shown="all; shared-info: 8",
    )
    drawn_peers: int | None = option(None, at_least=1)
    """Peers drawn for each response by shared-info alone: shared-info[peers=N]."""
    control_tasks: int = option(2, at_least=1)
    """Other tasks per response for metrics with +control: gem-raw[control=N]+control."""
    own_samples: bool = option(False, "Compare a response with its agent's other samples of the task too.")
    jurors: Sequence[str | Scorer] = option((), keyword="juror")
    """Models that predict responses for peer-prediction, which averages them; none: the scorer alone."""
    juror_families: Mapping[str, str] = option({}, form=by_name("FAMILY", last=True))
    """The model family of a juror, which does not predict agents of this family."""
    examples: int = option(3, at_least=0)
    """Worked examples that a juror is shown: peer-prediction[examples=N]."""
    on_too_long: Literal["error", "skip"] = option(
        "error", "Stop if a text does not fit the scorer's context, or skip it and count it as missing."
    )
    metric_timeout_seconds: float | None = option(None, form=forms.POSITIVE)
    """Of custom metrics, by default 600 for command: and 3600 for python:, as in python:FILE.py:FUNCTION?timeout=60."""
    critic: str | ChatModel = option(
        "embedded", "Model that says whether two responses answer the same task.", "MODEL", group=CRITIC
    )
    critic_prompt: str = option("same-source")
    """Prompt for the critic: tvd-mi[prompt=three-level]."""
    shuffles: int | None = option(None, at_least=1)
    """Shuffled pairs per matched pair: tvd-mi[shuffles=N]."""
    budget_calls: int | None = option(None, at_least=1)
    """Maximum calls of the critic, on the pairs that inform most: tvd-mi[calls=N]."""

    def __post_init__(self) -> None:
        """Take options out of the names of metrics."""
        settings: Settings = {}
        metrics = [_plain_name(one, settings) if isinstance(one, str) else one for one in self.metrics]
        if settings:
            object.__setattr__(self, "metrics", tuple(dict.fromkeys(metrics)))
        for name, (key, values) in settings.items():
            object.__setattr__(self, name, _setting_in_name(name, key, values))

    def chosen_metrics(self) -> list[Metric]:
        """The requested metrics, each once: custom or ours; a function is made a metric."""
        from goldless.metrics.catalogue import find_metric  # noqa: PLC0415 - a help needs no metric
        from goldless.metrics.metric import Metric  # noqa: PLC0415 - as above
        from goldless.metrics.text_metrics import UserMetric  # noqa: PLC0415 - as above
        from goldless.user_metrics import find_user_metric, function_metric  # noqa: PLC0415 - as above

        def made(name: Any) -> Metric:
            if isinstance(name, Metric):
                return name
            make: Callable[..., Any] = find_user_metric if isinstance(name, str) else function_metric
            theirs = make(name, timeout_seconds=self.metric_timeout_seconds)
            if theirs is None:
                return find_metric(name)
            if isinstance(theirs, Metric):
                return theirs
            return UserMetric(name if isinstance(name, str) else theirs.name, theirs)

        known = (isinstance(name, str | Metric) or callable(name) for name in self.metrics)
        if not self.metrics or not all(known):
            raise MetricError("no metric was named. Try shared-info; goldless list metrics lists all")
        found = [made(name) for name in dict.fromkeys(self.spelled_metrics())]
        names = [metric.name for metric in found]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise MetricError(f"two metrics have the same name: {', '.join(twice)}. Give each function its own name")
        return found

    def spelled_metrics(
        self, default: Sequence[str] = ("shared-info", "length")
    ) -> Sequence[str | Callable[..., object]]:
        """The metrics named, with these in place of the name that stands for the default ones."""
        return tuple(each for name in self.metrics for each in (default if name == DEFAULT_METRICS else (name,)))

    def chosen_templates(self) -> list[Template]:
        """The requested templates, each once."""
        from goldless.templates import find_template  # noqa: PLC0415 - as above

        return [find_template(name) for name in dict.fromkeys(self.templates or ("general",))]


@dataclass(frozen=True, kw_only=True)
class ReviewOptions:
    """Options of the reviewers, and of the question that they answer."""

    reviewers: Sequence[Any] | Mapping[str, Any] = option(
        (),
        "Comma-separated chat models, MODEL or NAME=MODEL; with --recorded, names. One model under two names, each "
        "with its own --describe, is two reviewers.",
        "MODELS",
        group=REVIEWERS,
        form=forms.REVIEWER_NAMES,
    )
    scale: str = option(
        "pairwise",
        "Question to the reviewers: pairwise, pairwise-tie, 5-level, 100-level, completeness, medical-completeness, "
        "medical-correctness, medical-conciseness, pandalm, lm-examiner, lm-examiner-criteria, lm-examiner-general.",
        "NAME",
    )
    orders: Literal["both", "one-random"] = option(
        "both", "Ask about each pair in both orders, or once, in a balanced order drawn by the seed: half the calls."
    )
    task_description: str = option("", "Say what is judged and what counts, in a sentence or two.")
    descriptions: Mapping[str, str] = option(
        {}, "Task description for one reviewer alone.", "--describe NAME=TEXT", form=by_name("TEXT")
    )
    families: Mapping[str, str] = option(
        {},
        "Model family of a reviewer (agents: column family of the agents table).",
        "--family NAME=FAMILY",
        form=by_name("FAMILY", last=True),
    )
    own_family: bool = option(False, "Count judgements of reviewers on agents of their own family.")
    debate: str | None = option(None, "Make each reviewer a debate among copies of its model: C1, C2, C3.", "NAME")
    fusion: Literal["z", "raw"] | None = option(
        None, "Add up ratings z-normalised per reviewer, or raw (default: z; raw with --convention auto-pre)."
    )

    @property
    def chosen_scale(self) -> Scale:
        from goldless.judging.judges import find_judge  # noqa: PLC0415 - as above

        return find_judge(self.scale)


@dataclass(frozen=True, kw_only=True)
class ExamOptions:
    """Options of what a reviewer must pass before its vote counts."""

    exams: Sequence[ExamName] = option(
        ("none",),
        "Comma-separated exams to pass: none, planted, human, consistency, pertinence, self-confidence, auto, peers, "
        "auto+peers.",
        "--exam NAMES",
        group=EXAM,
        form=forms.EXAM_NAMES,
        shown="none",
    )
    thresholds: Mapping[str, Threshold] = option(
        {},
        "Limit of one trait or of all: a number, mean (over the candidates) or none.",
        "--threshold [TRAIT=]LIMIT",
        form=forms.LIMITS,
    )
    sweep: Sequence[str] = option(
        (),
        "Comma-separated limits, such as 0,0.55,0.6: also show the panel's accuracy at each, with each kind of weights "
        "(needs --recorded and labels).",
        "LIMITS",
        form=forms.ONE_LIST,
    )
    combination: Literal["all", "any"] = option("all", "Require reviewers to pass all limits, or any.", "--combine")
    weighting: Literal["equal", "mean of traits", "trait", "logit"] | None = option(
        None, "Weights of the votes (default: as in the exam's paper).", "--weights"
    )
    weight_from: str | None = option(None, "Trait that the weights are computed from (default: the first).", "TRAIT")
    questioners: Sequence[str] | None = option(
        None,
        "Comma-separated agents whose responses make the human exam (default: three, drawn by the seed).",
        "AGENTS",
        form=forms.ONE_LIST,
    )
    overlap: bool = option(False, "Test on the human exam's pairs as well.")
    exam_items: int | None = option(
        100,
        "Maximum pairs or tasks of an automatic exam; 0 means all.",
        form=forms.integer(1, parse=lambda items: items or None, or_none=True),
    )
    relevant: str | None = option(
        None, "Agent whose responses are the pertinence exam's relevant answers (default: the one with most).", "AGENT"
    )
    irrelevant: str | None = option(
        None, "Agent whose responses to other questions are its irrelevant answers (default: the same).", "AGENT"
    )
    changer: Any = option(
        None,
        "Chat model that changes questions for the pertinence exam (default: the nearest other question).",
        "MODEL",
        form=forms.MODEL,
    )
    easy: tuple[str, str] | None = option(
        None,
        "Two agents of very different quality, for the easy set (default: by the first comparisons).",
        "A,B",
        form=forms.TWO_AGENTS,
    )
    hard: tuple[str, str] | None = option(
        None, "Two agents of similar quality, for the hard set (default: as for --easy).", "A,C", form=forms.TWO_AGENTS
    )
    licences: Sequence[Path] = option(
        (), "Licence file or folder, in place of an exam. Repeat it for several.", "--licence PATH"
    )
    issue_to: Path | None = option(
        None, "Write a licence for each reviewer who passes to this folder.", "--issue FOLDER"
    )
    task_kind: str = option("", "Say what is judged, in a few words, for licences (default: the study's name).")

    @property
    def traits(self) -> tuple[str, ...]:
        """The traits that the exams measure, each once."""
        return tuple(dict.fromkeys(trait for exam in self.exams for trait in TRAITS[exam]))

    @property
    def weighing_traits(self) -> tuple[str, ...]:
        """The traits that votes can be weighed by."""
        return tuple(trait for trait in self.traits if trait != PEERS)


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Options of the human labels, and of how votes on them are counted."""

    criterion: str | None = option(None, "Label criterion to use, if there is more than one.", "NAME", group=LABELS)
    margin: float | None = option(
        None,
        "Lead in votes that decides a pair of human preferences (default: 2, or 1 if votes are few).",
        "--vote-lead VOTES",
        keyword="vote_lead",
        form=forms.POSITIVE,
    )
    convention: Literal["default", "paper", "pre", "auto-pre"] = option(
        "default",
        "Count as in PRE or Auto-PRE (or paper): missing comparisons one half, missing ratings 0, exam pairs tested "
        "on. pre: weights log(p/(1-p)), ratings z-normalised; auto-pre: exam accuracies as weights, raw ratings.",
    )


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """Options of which agents are compared, and over which peers."""

    compare_groups: tuple[str, str] | None = option(
        None,
        "Compare two groups of the agents table: effect sizes and AUC.",
        "A B",
        group=GROUPS,
        form=forms.TWO_GROUPS,
    )
    rater_groups: Mapping[str, str] = option(
        {},
        "Group of a rater, for tvd-mi[labels] by groups. Repeat it for several.",
        "--rater-group RATER=GROUP",
        form=by_name("GROUP", last=True),
    )
    baseline: str | None = option(None, "Compare only this agent with each of the others.", "AGENT")
    compare: Literal["all", "leader"] = option(
        "all", "Compare all pairs of agents, or only the leader with each of the others."
    )
    over_peers: Literal["common", "own"] = option(
        "common",
        "Score all agents over the same peers, or each by its mean over its own, as the papers do. shared-info leaves "
        "out each response's closest peer where there are eight agents or more.",
    )


@dataclass(frozen=True, kw_only=True)
class StatisticsOptions:
    """Options of intervals and tests."""

    seed: int = option(0, "Seed for draws, resampling and tests.", group=STATISTICS, at_least=0)
    resamples: int = option(10_000, "Resamples of tasks for intervals and tests.", at_least=100)
    level: float = option(0.95, "Confidence level of the intervals.", "LEVEL", form=forms.LEVEL)

    @property
    def draws(self) -> Draws:
        """The arguments of a function that resamples tasks."""
        return {"seed": self.seed, "resamples": self.resamples, "level": self.level}


@dataclass(frozen=True, kw_only=True)
class StoppingOptions:
    """Options of the question that ends a run early, and of the tasks that it would take."""

    until: Sequence[str] = option(
        (),
        "Stop once the first metric decides this: 'A>B', best, top=N or baseline=AGENT.",
        "QUESTION",
        group=STOPPING,
        form=forms.LINES,
    )
    alpha: float = option(
        0.05, "Error rate that --until aims at, over all of its looks at the data.", "ALPHA", form=forms.LEVEL
    )
    at_least: int = option(10, "Minimum number of tasks before --until may stop.", at_least=2)
    detect: float | None = option(
        None,
        "Also give the tasks needed to show a difference of this many standard deviations, such as 0.3.",
        "SD",
        group=DETECTION,
        form=forms.POSITIVE,
    )


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of model calls: where from, at what price, and where they are stored."""

    recorded: bool = option(False, "Use recorded evidence alone; call no model.", group=MODELS)
    verdicts: Literal["auto", "probabilities", "labels"] = option(
        "auto", "Read verdicts as label probabilities or as the label written (auto: probabilities where possible)."
    )
    budget_usd: float | None = option(None, "Maximum spending, such as 2USD.", "--budget USD", form=forms.BUDGET)
    price: Price | None = option(None, form=forms.PRICE, keyword="price_usd_per_million")
    """Of models whose price nobody knows; in the name of one: MODEL?price=IN:OUT."""
    batch: bool = option(
        False, "Send chat calls as batches at half the price; run the same command again to collect the replies."
    )
    on: str | None = option(
        None,
        "Run local models on a Ray cluster: ray, ray?workers=4&gpus=1 or ray://HOST:PORT.",
        "PLACE",
        form=forms.PLACE,
    )
    journal: Path | None = option(
        None, "Journal of model replies (default: one for all runs; see goldless journal show).", "FILE"
    )


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a run, in groups; the command line and Python name each of them without its group."""

    scoring: ScoringOptions = group(ScoringOptions)
    review: ReviewOptions = group(ReviewOptions)
    exam: ExamOptions = group(ExamOptions)
    labels: LabelOptions = group(LabelOptions)
    comparison: ComparisonOptions = group(ComparisonOptions)
    statistics: StatisticsOptions = group(StatisticsOptions)
    stopping: StoppingOptions = group(StoppingOptions)
    models: ModelOptions = group(ModelOptions)
    pairing: Mapping[tuple[str, str], Sequence[str]] | None = None
    """The peers of each response that is scored, by task and agent; None: as ``peers`` says."""
    signature_settings: Mapping[str, str] = field(default_factory=dict)
    """Further settings for the signature, such as how the responses were requested."""
    occasion: str = ""
    """On another occasion models are asked the same again, past the replies in the journal."""
    progress: Callable[[Progress], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)
    so_far: Tell | None = None
    """Takes agents' means while evidence arrives; None: they are not computed."""

    @classmethod
    def of(cls, **values: Any) -> Options:
        """Make options from values by name, each put into its group."""
        return build(cls, values)

    def changed(self, **values: Any) -> Options:
        """Return a copy in which these options, by name, have other values."""
        return change(self, values)

    def subset(self, *names: str) -> dict[str, Any]:
        """Return these options as keyword arguments."""
        values = flat_values(self)
        return {name: values[name] for name in names}

    @property
    def journal_file(self) -> Path:
        """The journal: the one named, or the user's."""
        from goldless.models.cache import default_journal  # noqa: PLC0415 - a help needs no journal

        return Path(self.models.journal or default_journal())

    def of_results(self) -> dict[str, Any]:
        """The options that results depend on, besides evidence, as plain data; defaults are left out."""
        values = flat_values(self)
        usual_values = defaults(Options)
        results: dict[str, Any] = {}
        for name, declaration in declared(Options).items():
            of_models = declaration.group == MODELS or name in ASKED_OF_MODELS
            if not of_models and values[name] != usual_values[name]:
                results[name] = values[name]
        results["metrics"] = [name if isinstance(name, str) else f"{name!r}" for name in self.scoring.metrics]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in results.items()}

    @property
    def overlapping(self) -> bool:
        """True if the human exam's pairs are tested on as well."""
        return self.exam.overlap or self.labels.convention != "default"

    @property
    def judges_own_family(self) -> bool:
        """True if a reviewer judges agents of its own family."""
        return self.review.own_family or self.labels.convention != "default"

    def usual_thresholds(self, candidates: int) -> dict[str, Threshold]:
        """The limit of each trait, as named or as usual.

        Automatic traits are compared with the mean over the candidates; where there is one candidate, or with the
        papers' conventions and consistency alone, or with PRE's always, with 0.55. Self-confidence is passed or not.
        """
        by_itself = self.labels.convention != "default" and self.exam.traits == ("consistency",)
        alone = candidates < 2 or self.labels.convention == "pre" or by_itself
        limits: dict[str, Threshold] = dict.fromkeys(
            ("consistency", "pertinence", PEERS), AUTO_EXAM_THRESHOLD if alone else "mean"
        )
        limits |= {PLANTED: PLANTED_THRESHOLD, "human exam": HUMAN_THRESHOLD, "self-confidence": 0.0}
        for trait, limit in self.exam.thresholds.items():
            limits |= dict.fromkeys(self.exam.traits if trait == "all" else (trait,), limit)
        return {trait: limits[trait] for trait in self.exam.traits}

    @property
    def usual_weighting(self) -> Weighting:
        """The way votes are weighed, as named or as usual: PRE's logit, Auto-PRE's mean of traits, else equal."""
        if self.exam.weighting is not None:
            return self.exam.weighting
        if self.exam.weighing_traits == ("human exam",):
            return "trait" if self.labels.convention in {"paper", "auto-pre"} else "logit"
        if self.labels.convention == "pre":
            return "logit" if "human exam" in self.exam.traits else "equal"
        return "mean of traits" if len(self.exam.weighing_traits) > 1 else "equal"


def _setting_in_name(name: str, key: str, values: tuple[str, ...]) -> Any:
    """The value of an option that is given in the name of a metric, where it is called ``key``."""
    form = declared(ScoringOptions)[name].form
    try:
        return form.parse(form.words(values if name in REPEATED else values[0]))
    except ValueError as error:
        raise UserError(f"{key} in the name of a metric must be {error}") from None


def _plain_name(metric: str, settings: Settings) -> str:
    """The name of a metric without the options in it, which are added to ``settings``."""
    if limited := TIMEOUT.fullmatch(metric):
        _keep_setting(settings, "metric_timeout_seconds", "timeout", limited[2])
        return limited[1]
    base, bracket, rest = metric.partition("[")
    inside, _, after = rest.partition("]")
    known = IN_NAMES.get(base, {})
    if not bracket or not known or "=" not in inside:
        return metric
    parts = [part.strip() for part in inside.split(",")]
    values: dict[str, list[str]] = {}
    for key, equals, value in (part.partition("=") for part in parts):
        if equals and key not in known:
            raise MetricError(f"{base} has no option {key!r}{nearest(key, known)} Try {base}[{next(iter(known))}=…]")
        if equals:
            values.setdefault(key, []).append(value)
    for key, given in values.items():
        if known[key] not in REPEATED and len(given) > 1:
            raise MetricError(f"{key} must be given once in the name of a metric, got {' and '.join(given)}")
        _keep_setting(settings, known[key], key, *given)
    kept = ",".join(part for part in parts if "=" not in part)
    return f"{base}[{kept}]{after}" if kept else f"{base}{after}"


def _keep_setting(settings: Settings, name: str, key: str, *values: str) -> None:
    """Keep the values of an option, which must be the same in all names."""
    _, earlier = settings.setdefault(name, (key, values))
    if earlier != values:
        raise MetricError(
            f"{key} must be the same for all metrics of a run, got {','.join(earlier)} and {','.join(values)}"
        )


def check_options(options: Options) -> list[Metric]:
    """The requested metrics. Refuses what no study could be evaluated with."""
    from goldless.judging.judges import find_critic_prompt  # noqa: PLC0415 - a help needs no prompt

    metrics = options.scoring.chosen_metrics()
    options.scoring.chosen_templates()
    find_critic_prompt(options.scoring.critic_prompt)
    check_each(options)
    named, selected = options.scoring.peers is not None, options.scoring.budget_calls is not None
    if options.comparison.baseline is not None and options.comparison.compare == "leader":
        raise UserError("--baseline and --compare leader exclude each other. Give one of them")
    if options.stopping.until and options.comparison.baseline is not None:
        raise UserError(
            "--baseline must be left out with --until, which decides what is compared. "
            f"Try --until baseline={options.comparison.baseline}"
        )
    if options.stopping.until and options.comparison.compare == "leader":
        raise UserError(
            "--compare leader must be left out with --until, which decides what is compared. Try --until best"
        )
    if options.pairing is not None and (named or selected):
        raise UserError("a pairing names the peers of each response: leave out peers and budget_calls")
    if named and options.scoring.drawn_peers is not None:
        raise UserError("--peers and shared-info[peers=N] exclude each other. Give one of them")
    if selected and named:
        raise UserError("tvd-mi[calls=N] selects the pairs itself: leave out --peers")
    return metrics


def check_review_options(options: Options) -> None:
    """Refuse what no study could be reviewed with."""
    from goldless.judging.review_stages import find_review_stage  # noqa: PLC0415 - a help needs no stage

    review, exam = options.review, options.exam
    scale = review.chosen_scale
    if review.debate is not None:
        find_review_stage(review.debate)
    _check_exams(options.exam, recorded=options.models.recorded)
    check_each(options)
    if review.orders != "both" and not scale.pairwise:
        raise UserError(
            f"--orders {review.orders} must be used with a scale that compares two responses, "
            f"got {review.scale}, which rates single ones. Try --scale pairwise, or leave out --orders"
        )
    if PEERS in exam.traits and review.reviewers:
        check_peers(len(review.reviewers))
    if exam.licences and tuple(exam.exams) != ("none",):
        raise UserError("--licence replaces the exam: leave out --exam or --licence")
    if exam.licences or exam.issue_to is not None:
        if options.models.recorded:
            raise UserError("--licence and --issue need reviewers that are called; leave them out with --recorded")
        if review.debate is not None:
            raise UserError("a licence is for a single model: leave out --debate, or --licence and --issue")
    if exam.issue_to is not None and not exam.traits:
        raise UserError("--issue needs an exam to pass. Name one with --exam")
    if not options.models.recorded and not review.reviewers:
        raise UserError("no reviewer was named. Try --reviewers openai:MODEL, NAME=http://HOST:PORT/v1#MODEL")


def _check_exams(exam: ExamOptions, *, recorded: bool) -> None:
    check_known(exam.exams, TRAITS, "unknown exam", "Exams")
    if not exam.exams or ("none" in exam.exams and len(exam.exams) > 1):
        given = ", ".join(exam.exams) or "nothing"
        raise UserError(f"exams must be one or more exams, or none alone, got {given}")
    measured, trait = ", ".join(exam.traits) or "nothing", exam.weight_from
    if unknown := next((name for name in exam.thresholds if name not in {*exam.traits, "all"}), None):
        raise UserError(f"unknown trait {unknown!r} in the thresholds; these exams measure: {measured}")
    if exam.weighting not in {None, "equal"} and not exam.weighing_traits:
        others = " other than peers, which decides who votes but never a weight" * (PEERS in exam.traits)
        said = f"--weights {exam.weighting!r} needs an exam to compute weights from{others}"
        raise UserError(f"{said}. Name one with --exam")
    if trait == PEERS:
        raise UserError("--weight-from must not be peers: it decides who votes, never a weight. Name another trait")
    if trait is not None and trait not in exam.traits:
        raise UserError(f"--weight-from must be a trait that these exams measure ({measured}), got {trait!r}")
    if exam.sweep and not recorded:
        raise UserError("--sweep needs the judgements of all candidates. Use it with --recorded")
    if (exam.easy is None) != (exam.hard is None):
        raise UserError("--easy and --hard go together: give both, or neither")


def check_peers(reviewers: int) -> None:
    """Refuse the exam by peers where there are too few of them."""
    from goldless.metrics.panel_worth import FEWEST_PEERS  # noqa: PLC0415 - a help needs no metric

    if reviewers < FEWEST_PEERS:
        raise UserError(
            f"the exam peers must have at least {FEWEST_PEERS} reviewers, got {reviewers}: it compares each with the "
            "others. Name more with --reviewers, or try --exam auto"
        )
