# Made by tests/typing/stubs.py from the declarations of verbs and options.
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from goldless.cli.command import Verb
from goldless.comparison.comparing import PairedComparison
from goldless.comparison.gating import Gate
from goldless.meta_evaluation.agreement import Agreement
from goldless.meta_evaluation.bias import BiasReport
from goldless.meta_evaluation.calibration import Calibration
from goldless.meta_evaluation.consistency import Consistency
from goldless.meta_evaluation.cost import CostReport
from goldless.meta_evaluation.crash_test import CrashTest
from goldless.metrics.information_map import InformationMap
from goldless.models.interface import ChatModel
from goldless.models.interface import Scorer
from goldless.rewarding.reward import Missing
from goldless.rewarding.reward import Reward
from goldless.runs.estimate import Plan
from goldless.runs.evaluation import Evaluation
from goldless.runs.progress import Progress
from goldless.runs.review_outcome import Review
from goldless.selection.selecting import Selection
from pathlib import Path
from typing import Any
from typing import Literal

def agree(
    study: Any,
    *,
    scores: Any = ...,
    scale: str | None = ...,
    measurement: Literal['auto', 'nominal', 'ordinal', 'interval'] = ...,
    metrics: str | Callable[..., object] | Sequence[str | Callable[..., object]] = ...,
    scorer: str | Scorer = ...,
    rewriter: str | ChatModel | Sequence[str | ChatModel] = ...,
    rewrite_max_tokens: int = ...,
    synopsis_writer: str | ChatModel | None = ...,
    template: str | Sequence[str] = ...,
    peers: int | str | Sequence[str] | None = ...,
    drawn_peers: int | None = ...,
    control_tasks: int = ...,
    own_samples: bool = ...,
    juror: str | Scorer | Sequence[str | Scorer] = ...,
    juror_families: Mapping[str, str] = ...,
    examples: int = ...,
    on_too_long: Literal['error', 'skip'] = ...,
    metric_timeout_seconds: float | None = ...,
    critic: str | ChatModel = ...,
    critic_prompt: str = ...,
    shuffles: int | None = ...,
    budget_calls: int | None = ...,
    reviewers: str | ChatModel | Sequence[str | ChatModel] | Mapping[str, str | ChatModel] = ...,
    own_family: bool = ...,
    criterion: str | None = ...,
    vote_lead: float | None = ...,
    convention: Literal['default', 'paper', 'pre', 'auto-pre'] = ...,
    seed: int = ...,
    resamples: int = ...,
    level: float = ...,
    recorded: bool = ...,
    verdicts: Literal['auto', 'probabilities', 'labels'] = ...,
    budget_usd: float | None = ...,
    price_usd_per_million: tuple[float, float] | None = ...,
    batch: bool = ...,
    on: str | None = ...,
    journal: str | Path | None = ...,
    importer: str | None = ...,
    columns: Mapping[str, str | Sequence[str]] | None = ...,
    wide: bool = ...,
    repeats: Literal['samples', 'first', 'agents', 'tasks'] | None = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> Agreement:
    """Compare metrics, recorded reviewers or external scores with the study's human labels.

    - ``scores``: File with scores computed elsewhere: metric (optional), task, agent, score. Repeat it for several.
    - ``scale``: Scale of the reviewers' judgements: pairwise, pairwise-tie, 5-level, 100-level.
    - ``measurement``: Level of measurement of the labels, for Krippendorff's alpha.

    The other arguments are the options of ``goldless agree``.
    """

def bias(
    study: Any,
    *,
    weights: Mapping[str, float] | None = ...,
    favours: str | tuple[str, str] | Sequence[str | tuple[str, str]] = ...,
    count_orders: Literal['each', 'together'] = ...,
    metrics: str | Callable[..., object] | Sequence[str | Callable[..., object]] = ...,
    scorer: str | Scorer = ...,
    rewriter: str | ChatModel | Sequence[str | ChatModel] = ...,
    rewrite_max_tokens: int = ...,
    synopsis_writer: str | ChatModel | None = ...,
    template: str | Sequence[str] = ...,
    peers: int | str | Sequence[str] | None = ...,
    drawn_peers: int | None = ...,
    control_tasks: int = ...,
    own_samples: bool = ...,
    juror: str | Scorer | Sequence[str | Scorer] = ...,
    juror_families: Mapping[str, str] = ...,
    examples: int = ...,
    on_too_long: Literal['error', 'skip'] = ...,
    metric_timeout_seconds: float | None = ...,
    critic: str | ChatModel = ...,
    critic_prompt: str = ...,
    shuffles: int | None = ...,
    budget_calls: int | None = ...,
    reviewers: str | ChatModel | Sequence[str | ChatModel] | Mapping[str, str | ChatModel] = ...,
    scale: str = ...,
    task_description: str = ...,
    families: Mapping[str, str] = ...,
    criterion: str | None = ...,
    vote_lead: float | None = ...,
    convention: Literal['default', 'paper', 'pre', 'auto-pre'] = ...,
    seed: int = ...,
    resamples: int = ...,
    level: float = ...,
    recorded: bool = ...,
    verdicts: Literal['auto', 'probabilities', 'labels'] = ...,
    budget_usd: float | None = ...,
    price_usd_per_million: tuple[float, float] | None = ...,
    batch: bool = ...,
    on: str | None = ...,
    journal: str | Path | None = ...,
    importer: str | None = ...,
    columns: Mapping[str, str | Sequence[str]] | None = ...,
    wide: bool = ...,
    repeats: Literal['samples', 'first', 'agents', 'tasks'] | None = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> BiasReport:
    """Measure what reviewers and metrics favour besides quality: position, length, markup, their own family, an agent.

    - ``weights``: Weight of a reviewer in the panel's vote; others do not vote (default: all equal).
    - ``favours``: Measure how often FIRST is favoured where people see a tie or prefer SECOND.
    - ``count_orders``: Count each order of a pair alone, or one vote on both, for --favours.

    The other arguments are the options of ``goldless bias``.
    """

def calibrate(
    study: Any,
    *,
    scores: Any = ...,
    scale: str | None = ...,
    labels: Any = ...,
    average: bool = ...,
    next_count: int = ...,
    drawn: Path | str | Sequence[Path | str] = ...,
    metrics: str | Callable[..., object] | Sequence[str | Callable[..., object]] = ...,
    scorer: str | Scorer = ...,
    rewriter: str | ChatModel | Sequence[str | ChatModel] = ...,
    rewrite_max_tokens: int = ...,
    synopsis_writer: str | ChatModel | None = ...,
    template: str | Sequence[str] = ...,
    peers: int | str | Sequence[str] | None = ...,
    drawn_peers: int | None = ...,
    control_tasks: int = ...,
    own_samples: bool = ...,
    juror: str | Scorer | Sequence[str | Scorer] = ...,
    juror_families: Mapping[str, str] = ...,
    examples: int = ...,
    on_too_long: Literal['error', 'skip'] = ...,
    metric_timeout_seconds: float | None = ...,
    critic: str | ChatModel = ...,
    critic_prompt: str = ...,
    shuffles: int | None = ...,
    budget_calls: int | None = ...,
    reviewers: str | ChatModel | Sequence[str | ChatModel] | Mapping[str, str | ChatModel] = ...,
    criterion: str | None = ...,
    baseline: str | None = ...,
    seed: int = ...,
    level: float = ...,
    recorded: bool = ...,
    verdicts: Literal['auto', 'probabilities', 'labels'] = ...,
    budget_usd: float | None = ...,
    price_usd_per_million: tuple[float, float] | None = ...,
    batch: bool = ...,
    on: str | None = ...,
    journal: str | Path | None = ...,
    importer: str | None = ...,
    columns: Mapping[str, str | Sequence[str]] | None = ...,
    wide: bool = ...,
    repeats: Literal['samples', 'first', 'agents', 'tasks'] | None = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> Calibration:
    """Estimate agents' scores on the people's scale from labels on some tasks and metrics or reviewers on all.

    - ``scores``: File with scores computed elsewhere: metric (optional), task, agent, score. Repeat it for several.
    - ``scale``: Scale of the reviewers' judgements: pairwise, pairwise-tie, 5-level, 100-level.
    - ``labels``: File with ratings: task, agent, rater, score (default: the study's labels).
    - ``average``: Use the mean of the standardised metrics and reviewers as one; better than several with few labels.
    - ``next_count``: Draw N tasks to label next, by what would change a decision.
    - ``drawn``: File of an earlier --next: the tasks drawn, with their chances. Repeat it for several, in order.

    The other arguments are the options of ``goldless calibrate``.
    """

def compare(
    *runs: Path | str,
    agents: str | Sequence[str] = ...,
    metrics: str | Sequence[str] = ...,
    seed: int = ...,
    resamples: int = ...,
    level: float = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> PairedComparison:
    """Compare two agents on common tasks: the difference, its interval, which tasks pull which way, what would decide.

    - ``runs``: A run folder, or two: before and after the change.
    - ``agents``: Two agents to compare, before and after; one name is the same agent in both runs.
    - ``metrics``: Comma-separated metrics of the runs (default: all that both have).

    The other arguments are the options of ``goldless compare``.
    """

def consistency(
    *runs: Path | str,
    metrics: str | Sequence[str] = ...,
    seed: int = ...,
    resamples: int = ...,
    level: float = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> Consistency:
    """Compare agents' scores in two or more runs: Pearson, Spearman and Kendall's tau-b, with intervals.

    - ``runs``: Two or more run folders of one study.
    - ``metrics``: Comma-separated metrics of the runs (default: all that two have).

    The other arguments are the options of ``goldless compare --rankings``.
    """

def cost(
    *runs: Path | str,
    tasks: int = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> CostReport:
    """Show what runs cost: calls, tokens and USD of each model, in all, per task, and on more tasks. Calls no model.

    - ``runs``: Run folders of scores and reviews.
    - ``tasks``: Also give the cost on N tasks like these.

    The other arguments are the options of ``goldless plan --cost``.
    """

def crash_test(
    study: Any,
    *,
    perturbations: str | Sequence[str] = ...,
    writer: str | ChatModel | None = ...,
    agents: str | Sequence[str] | None = ...,
    references: int | str | Sequence[str] = ...,
    responses: int = ...,
    margin: float = ...,
    metrics: str | Callable[..., object] | Sequence[str | Callable[..., object]] = ...,
    scorer: str | Scorer = ...,
    rewriter: str | ChatModel | Sequence[str | ChatModel] = ...,
    rewrite_max_tokens: int = ...,
    synopsis_writer: str | ChatModel | None = ...,
    template: str | Sequence[str] = ...,
    drawn_peers: int | None = ...,
    control_tasks: int = ...,
    own_samples: bool = ...,
    juror: str | Scorer | Sequence[str | Scorer] = ...,
    juror_families: Mapping[str, str] = ...,
    examples: int = ...,
    on_too_long: Literal['error', 'skip'] = ...,
    metric_timeout_seconds: float | None = ...,
    critic: str | ChatModel = ...,
    critic_prompt: str = ...,
    shuffles: int | None = ...,
    reviewers: str | ChatModel | Sequence[str | ChatModel] | Mapping[str, str | ChatModel] = ...,
    seed: int = ...,
    resamples: int = ...,
    level: float = ...,
    verdicts: Literal['auto', 'probabilities', 'labels'] = ...,
    budget_usd: float | None = ...,
    price_usd_per_million: tuple[float, float] | None = ...,
    batch: bool = ...,
    on: str | None = ...,
    journal: str | Path | None = ...,
    importer: str | None = ...,
    columns: Mapping[str, str | Sequence[str]] | None = ...,
    wide: bool = ...,
    repeats: Literal['samples', 'first', 'agents', 'tasks'] | None = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> CrashTest:
    """Stress-test metrics: degraded responses should score lower, superficially altered ones no higher.

    - ``perturbations``: Comma-separated perturbations: deletion, completion, synopsis-only, shuffled-task, null, rephrase, elongation, case-flip, format, padding, pattern, repetition, verdict-injection, praise, collusion, prompt-copy, deceptive, style-of-all, near-copy, translation.
    - ``writer``: Chat model that writes texts, such as openai:MODEL, for perturbations that need one.
    - ``agents``: Comma-separated agents whose responses are perturbed (default: all).
    - ``references``: Peers that a response is compared with: how many, or their names.
    - ``responses``: Maximum number of responses to perturb, drawn by the seed.
    - ``margin``: Effects shown to be smaller than this count as none.

    The other arguments are the options of ``goldless crashtest``.
    """

def evaluate(
    study: Any,
    *,
    metrics: str | Callable[..., object] | Sequence[str | Callable[..., object]] = ...,
    scorer: str | Scorer = ...,
    rewriter: str | ChatModel | Sequence[str | ChatModel] = ...,
    rewrite_max_tokens: int = ...,
    synopsis_writer: str | ChatModel | None = ...,
    template: str | Sequence[str] = ...,
    peers: int | str | Sequence[str] | None = ...,
    drawn_peers: int | None = ...,
    control_tasks: int = ...,
    own_samples: bool = ...,
    juror: str | Scorer | Sequence[str | Scorer] = ...,
    juror_families: Mapping[str, str] = ...,
    examples: int = ...,
    on_too_long: Literal['error', 'skip'] = ...,
    metric_timeout_seconds: float | None = ...,
    critic: str | ChatModel = ...,
    critic_prompt: str = ...,
    shuffles: int | None = ...,
    budget_calls: int | None = ...,
    reviewers: str | ChatModel | Sequence[str | ChatModel] | Mapping[str, str | ChatModel] = ...,
    compare_groups: tuple[str, str] | None = ...,
    rater_groups: Mapping[str, str] = ...,
    baseline: str | None = ...,
    compare: Literal['all', 'leader'] = ...,
    over_peers: Literal['common', 'own'] = ...,
    seed: int = ...,
    resamples: int = ...,
    level: float = ...,
    until: str | Sequence[str] = ...,
    alpha: float = ...,
    at_least: int = ...,
    recorded: bool = ...,
    verdicts: Literal['auto', 'probabilities', 'labels'] = ...,
    budget_usd: float | None = ...,
    price_usd_per_million: tuple[float, float] | None = ...,
    batch: bool = ...,
    on: str | None = ...,
    journal: str | Path | None = ...,
    importer: str | None = ...,
    columns: Mapping[str, str | Sequence[str]] | None = ...,
    wide: bool = ...,
    repeats: Literal['samples', 'first', 'agents', 'tasks'] | None = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> Evaluation:
    """Score a study and print the leaderboard with intervals.

    The other arguments are the options of ``goldless score``.
    """

def explain(
    study: Any,
    *,
    task: str,
    agent: str,
    peer: str,
    template: str = ...,
    synopsis: str | None = ...,
    text: Literal['responses', 'rewrites'] = ...,
    scorer: str | Scorer = ...,
    journal: str | Path | None = ...,
    importer: str | None = ...,
    columns: Mapping[str, str | Sequence[str]] | None = ...,
    wide: bool = ...,
    repeats: Literal['samples', 'first', 'agents', 'tasks'] | None = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> InformationMap:
    """Show which sentence of one response makes which sentence of another more predictable.

    - ``task``: Task that both agents answered.
    - ``agent``: Agent whose response is given.
    - ``peer``: Agent whose response is predicted.
    - ``template``: Prompt wording: general, plain, peer-review, or FILE.toml.
    - ``synopsis``: Text of the task that is given as well: prompt, abstract, or any text column.
    - ``text``: Explain the responses, or their recorded rewrites.

    The other arguments are the options of ``goldless explain``.
    """

def gate(
    *runs: Path | str,
    margin: str | float,
    baseline: str | None = ...,
    candidate: str | None = ...,
    metric: str | None = ...,
    alpha: float = ...,
    aa: int | None = ...,
    second_runs: Path | str | Sequence[Path | str] = ...,
    uncertified: bool = ...,
    critic: str | ChatModel = ...,
    reviewers: str | ChatModel | Sequence[str | ChatModel] | Mapping[str, str | ChatModel] = ...,
    seed: int = ...,
    resamples: int = ...,
    level: float = ...,
    verdicts: Literal['auto', 'probabilities', 'labels'] = ...,
    budget_usd: float | None = ...,
    price_usd_per_million: tuple[float, float] | None = ...,
    on: str | None = ...,
    journal: str | Path | None = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> Gate:
    """Decide whether a candidate may replace the baseline: SHIP, BLOCK or INCONCLUSIVE.

    - ``runs``: A run folder, or two: before and after the change.
    - ``margin``: Allow the candidate to be this much worse: in the metric's unit, or in standard deviations of the baseline's scores, such as 0.2sd.
    - ``baseline``: Agent that the candidate is to replace.
    - ``candidate``: Agent that may replace it (default: the only other one).
    - ``metric``: Metric that decides.
    - ``alpha``: Error rate to aim at, for a wrong SHIP and for a wrong BLOCK.
    - ``aa``: Ask the run's judge N of its questions a second time, and keep the answers.
    - ``second_runs``: Run folder with the same questions asked a second time; once per run.
    - ``uncertified``: Decide although the judge was never asked twice.

    The other arguments are the options of ``goldless gate``.
    """

def plan(
    study: Any,
    *,
    metrics: str | Callable[..., object] | Sequence[str | Callable[..., object]] = ...,
    scorer: str | Scorer = ...,
    rewriter: str | ChatModel | Sequence[str | ChatModel] = ...,
    rewrite_max_tokens: int = ...,
    synopsis_writer: str | ChatModel | None = ...,
    template: str | Sequence[str] = ...,
    peers: int | str | Sequence[str] | None = ...,
    drawn_peers: int | None = ...,
    control_tasks: int = ...,
    own_samples: bool = ...,
    juror: str | Scorer | Sequence[str | Scorer] = ...,
    juror_families: Mapping[str, str] = ...,
    examples: int = ...,
    metric_timeout_seconds: float | None = ...,
    critic: str | ChatModel = ...,
    critic_prompt: str = ...,
    shuffles: int | None = ...,
    budget_calls: int | None = ...,
    reviewers: str | ChatModel | Sequence[str | ChatModel] | Mapping[str, str | ChatModel] = ...,
    seed: int = ...,
    alpha: float = ...,
    at_least: int = ...,
    detect: float | None = ...,
    recorded: bool = ...,
    verdicts: Literal['auto', 'probabilities', 'labels'] = ...,
    price_usd_per_million: tuple[float, float] | None = ...,
    batch: bool = ...,
    on: str | None = ...,
    journal: str | Path | None = ...,
    importer: str | None = ...,
    columns: Mapping[str, str | Sequence[str]] | None = ...,
    wide: bool = ...,
    repeats: Literal['samples', 'first', 'agents', 'tasks'] | None = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> Plan:
    """Estimate calls, tokens, cost and time of a score, for each metric alone and for all together. Calls no model.

    The other arguments are the options of ``goldless plan``.
    """

def review(
    study: Any,
    *,
    reviewers: str | ChatModel | Sequence[str | ChatModel] | Mapping[str, str | ChatModel] = ...,
    scale: str = ...,
    orders: Literal['both', 'one-random'] = ...,
    task_description: str = ...,
    descriptions: Mapping[str, str] = ...,
    families: Mapping[str, str] = ...,
    own_family: bool = ...,
    debate: str | None = ...,
    fusion: Literal['z', 'raw'] | None = ...,
    exams: str | Sequence[str] = ...,
    thresholds: Mapping[str, float | Literal['mean'] | None] = ...,
    sweep: str | Sequence[str | float] = ...,
    combination: Literal['all', 'any'] = ...,
    weighting: Literal['equal', 'mean of traits', 'trait', 'logit'] | None = ...,
    weight_from: str | None = ...,
    questioners: str | Sequence[str] | None = ...,
    overlap: bool = ...,
    exam_items: int | None = ...,
    relevant: str | None = ...,
    irrelevant: str | None = ...,
    changer: Any = ...,
    easy: tuple[str, str] | None = ...,
    hard: tuple[str, str] | None = ...,
    licences: str | Path | Sequence[Path] = ...,
    issue_to: str | Path | None = ...,
    task_kind: str = ...,
    criterion: str | None = ...,
    vote_lead: float | None = ...,
    convention: Literal['default', 'paper', 'pre', 'auto-pre'] = ...,
    seed: int = ...,
    resamples: int = ...,
    level: float = ...,
    until: str | Sequence[str] = ...,
    alpha: float = ...,
    at_least: int = ...,
    recorded: bool = ...,
    verdicts: Literal['auto', 'probabilities', 'labels'] = ...,
    budget_usd: float | None = ...,
    price_usd_per_million: tuple[float, float] | None = ...,
    batch: bool = ...,
    on: str | None = ...,
    journal: str | Path | None = ...,
    importer: str | None = ...,
    columns: Mapping[str, str | Sequence[str]] | None = ...,
    wide: bool = ...,
    repeats: Literal['samples', 'first', 'agents', 'tasks'] | None = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> Review:
    """Have chat models take an exam, let those who pass judge the responses, and rank the agents by weighted votes.

    The other arguments are the options of ``goldless review``.
    """

def select(
    study: Any,
    *,
    tolerance: str | float = ...,
    sampler: str | ChatModel | None = ...,
    most: int = ...,
    temperature: float = ...,
    max_tokens: int = ...,
    system: str = ...,
    metrics: str | Callable[..., object] | Sequence[str | Callable[..., object]] = ...,
    scorer: str | Scorer = ...,
    rewriter: str | ChatModel | Sequence[str | ChatModel] = ...,
    rewrite_max_tokens: int = ...,
    synopsis_writer: str | ChatModel | None = ...,
    template: str | Sequence[str] = ...,
    drawn_peers: int | None = ...,
    control_tasks: int = ...,
    on_too_long: Literal['error', 'skip'] = ...,
    metric_timeout_seconds: float | None = ...,
    critic: str | ChatModel = ...,
    critic_prompt: str = ...,
    shuffles: int | None = ...,
    seed: int = ...,
    alpha: float = ...,
    at_least: int = ...,
    recorded: bool = ...,
    verdicts: Literal['auto', 'probabilities', 'labels'] = ...,
    budget_usd: float | None = ...,
    price_usd_per_million: tuple[float, float] | None = ...,
    batch: bool = ...,
    on: str | None = ...,
    journal: str | Path | None = ...,
    importer: str | None = ...,
    columns: Mapping[str, str | Sequence[str]] | None = ...,
    wide: bool = ...,
    repeats: Literal['samples', 'first', 'agents', 'tasks'] | None = ...,
    progress: Callable[[Progress], None] | None = ...,
) -> Selection:
    """Choose the most informative response to each task among all of its responses, whoever gave them.

    - ``tolerance``: Ignore a response that is better by no more than this: in the metric's unit, or in standard deviations of the responses' scores on the task, such as 0.5sd.
    - ``sampler``: Chat model that is asked for more samples while a task is undecided.
    - ``most``: Maximum samples per task, including those in the file.
    - ``temperature``: Temperature of the samples.
    - ``max_tokens``: Maximum tokens per sample; a longer one counts as missing.
    - ``system``: System message for the sampler.

    The other arguments are the options of ``goldless select``.
    """

def function(verb: Verb, name: str) -> Callable[..., Any]:
    """A verb as a Python function of that name."""

def reward(metric: str | None=None, *, reference: str='reference', bank: Iterable[Any] | None=None, answer: Callable[[str], str] | None=None, missing: Missing='none', **options: Any) -> Reward:
    """A reward function for GRPO: what a completion says about references that the policy does not see.

    - ``metric``: gem-s[COLUMN] or gem-raw, with +control or without.
    - ``reference``: the column of the data set with a reference, or a list of them, for each prompt.
    - ``bank``: references of other tasks for +control, such as the whole column (default: those in the same batch).
    - ``answer``: takes the part of a completion that counts, such as what follows the reasoning (default: all).
    - ``missing``: the reward of a completion that cannot be scored: none, or the mean of its group.
    - ``options``: ``scorer``, ``control_tasks``, ``journal`` and others of ``evaluate``.
    """

def load(run: Path | str, result: str | None=None) -> Any:
    """The result in a run folder, as the function that made it returned it, without evidence and texts.

    - ``result``: which, such as review or agreement, where the folder has several (default: the leaderboards of score).
    """

def export(source: Any, path: Path | str, *, exporter: str, **options: Any) -> Path:
    """Write scores or a study in another tool's format and return the path: the formats of ``goldless export``.

    - ``source``: a run folder, a study, or the result of ``evaluate`` or ``review``.
    - ``options``: those of the format, such as ``metric``, ``margin``, ``dataset``, ``task_id`` and ``logs``.
    """
