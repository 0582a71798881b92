"""``goldless score``, ``review``, ``select`` and ``explain``: from a study to what is better, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from goldless.cli.command import RUN_FOLDER, same, verb
from goldless.cli.console import NOBODY_PASSED, NOTHING, NOTHING_SCORED, end, say
from goldless.cli.output import Output
from goldless.reports.report_table import Column, ReportTable
from goldless.runs.option_forms import REQUIRED, TEXT, option, values
from goldless.runs.options import CRITIC, METRICS, MODELS, REVIEWING, SCORING, STOPPING, Options

if TYPE_CHECKING:
    from goldless.metrics.information_map import InformationMap, PeerSentence
    from goldless.models.interface import ChatModel
    from goldless.runs.evaluation import Evaluation
    from goldless.runs.review_outcome import Review
    from goldless.selection.selecting import Selection
    from goldless.statistics.bootstrap import Estimate
    from goldless.studies import Study


@verb(
    *SCORING,
    STOPPING,
    "reviewers",
    prominent=("metrics", "scorer", "rewriters", "recorded", "folder"),
    out=RUN_FOLDER,
    keeps_evidence=True,
    averages_samples=True,
)
async def score(study: Study, *, options: Options) -> Evaluation:
    """Score a study and print the leaderboard with intervals.

    Examples:
      goldless score answers.csv
      goldless score answers.csv --metric gem-raw,rouge-l,length --out runs/first
      goldless score answers.csv --scorer gguf:model.gguf --until best
    """
    from goldless.runs.pipeline import evaluate_study

    return await evaluate_study(study, options)


@score.renderer
def tell_evaluation(found: Evaluation, output: Output, *, words: str = "", last: str = "") -> None:
    """Keep and print an evaluation; ``words``: of the study, to suggest what to run next; ``last``: a text after it."""
    from goldless.reports.run_folder import RunFolder
    from goldless.runs.store import save_run

    if output.folder is not None:
        before = RunFolder(output.folder).leaderboard
        save_run(found, output.folder)
        if before is not None and (gone := {*before.metrics} - {*found.outcomes}):
            say(f"{output.folder}: replaced the earlier results of {', '.join(sorted(gone))}", style="yellow")
    output.tell(found, holds="results and evidence", notes=_noise(found, output), below=list(_groups(found)), last=last)
    if found.nothing_scored:
        end(NOTHING, NOTHING_SCORED)
    if output.shown_as == "rich" and words:
        for line in _suggested(words, found, output):
            say(line)


def _noise(evaluation: Evaluation, output: Output) -> Iterator[str]:
    if evaluation.canaries is not None and output.verbose:
        yield f"sums differ between batches of this engine by up to {evaluation.canaries.noise_nats:.1e} nats"


def _groups(evaluation: Evaluation) -> Iterator[str]:
    """A line per metric that compares two groups of agents."""

    def three(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    def with_interval(estimate: Estimate) -> str:
        interval = "" if estimate.low is None else f" ({three(estimate.low)} … {three(estimate.high)})"
        return f"{three(estimate.value)}{interval}"

    for board in evaluation.boards.values():
        if (groups := board.groups) is not None:
            effects = f"d_response {three(groups.d_response)}, AUC {three(groups.auc)}, d_task {three(groups.d_task)}"
            compared = f"{board.metric}: {evaluation.settings.get('groups')}, {groups.difference.n} tasks"
            difference = f"difference {with_interval(groups.difference)}"
            yield f"{compared}: {difference}; {effects}; AUC within tasks {with_interval(groups.auc_by_task)}"


def _suggested(name: str, evaluation: Evaluation, output: Output) -> Iterator[str]:
    """Commands to run next: where a score comes from, and whether the metric can be trusted here."""
    metrics = [outcome.metric for outcome in evaluation.outcomes.values()]
    if not metrics or not evaluation.complete:
        return
    few = " --perturbation deletion,padding" if evaluation.evidence.asked else ""  # all would take many calls
    tested = f"goldless crashtest {name} --metric {quote(metrics[0])}{few}"
    yield f"next: {tested}  # can the metric be trusted on this study?"
    agents = [row.agent for row in evaluation.outcomes[metrics[0]].rows]
    task = next(iter(evaluation.outcomes[metrics[0]].responses["task"]), None)
    if evaluation.logprobs.height and task is not None and len(agents) > 1:
        first = {of: sample for sample, of in reversed(list(evaluation.source.samples.items()))}
        chosen = {"task": task, "agent": first.get(agents[0], agents[0]), "peer": first.get(agents[1], agents[1])}
        words = " ".join(f"--{key} {quote(word)}" for key, word in chosen.items())
        yield f"      goldless explain {name} {words}  # which sentences make the score?"
    if output.folder is not None:
        yield f"      goldless view {quote(str(output.folder))}  # every response and reply behind the numbers"


# --- review ----------------------------------------------------------------------------------------------------------


@verb(
    *REVIEWING,
    prominent=("reviewers", "scale", "exams", "recorded", "folder"),
    out=RUN_FOLDER,
    keeps_evidence=True,
)
async def review(study: Study, *, options: Options) -> Review:
    """Have chat models take an exam, let those who pass judge the responses, and rank the agents by weighted votes.

    Exit code 4: no reviewer passed.

    Examples:
      goldless review answers.csv --reviewers openai:gpt-4o,openai:gpt-4o-mini --exam auto
      goldless review study/ --recorded --scale pairwise
    """
    from goldless.runs.pipeline import review_study

    return await review_study(study, options)


@review.renderer
def _tell_review(found: Review, output: Output) -> None:
    """Keep and print a review; exit with 3 if it is incomplete, 4 if no reviewer passed, or 1."""
    from goldless.runs.store import save_review

    if output.folder is not None:
        save_review(found, output.folder)
    if not found.complete:
        say(f"INCOMPLETE: {found.open} calls are left", style="yellow")
    if found.failures:
        causes = ", ".join(f"{count} {kind}" for kind, count in sorted(found.failures.items()))
        say(f"missing: {sum(found.failures.values())} ({causes})", style="yellow")
    stopped = [found.stopped.table()] if found.stopped is not None and output.shown_as == "rich" else []
    output.tell(found, holds="results and evidence", tables=[*found.tables(), *stopped])
    if found.nobody is not None:
        end(NOBODY_PASSED, found.nobody)
    if len(found.judgements) and found.judgements["value"].null_count() == len(found.judgements):
        end(NOTHING, "no verdict could be read")


# --- select -----------------------------------------------------------------------------------------------------------

SAMPLES = "More samples"


def _questions(given: Any) -> Any:
    """A study of a mapping of questions to lists of answers; anything else as it is."""
    from goldless.selection.selecting import samples_study

    return samples_study(given.items()) if isinstance(given, Mapping) else given


@dataclass(frozen=True, kw_only=True)
class SelectOptions:
    tolerance: str | float = option(
        "1sd",
        "Ignore a response that is better by no more than this: in the metric's unit, or in standard "
        "deviations of the responses' scores on the task, such as 0.5sd.",
        form=TEXT,
    )
    sampler: str | ChatModel | None = option(
        None, "Chat model that is asked for more samples while a task is undecided.", "MODEL", group=SAMPLES
    )
    most: int = option(24, "Maximum samples per task, including those in the file.")
    temperature: float = option(1.0, "Temperature of the samples.")
    max_tokens: int = option(1024, "Maximum tokens per sample; a longer one counts as missing.")
    system: str = option("", "System message for the sampler.")


@verb(
    *(METRICS, CRITIC, "alpha", "at_least", "seed", MODELS),
    excluded=("jurors", "juror_families", "examples", "own_samples", "peers", "budget_calls"),
    prominent=("metrics", "scorer", "sampler", "most", "recorded"),
    helps={
        "metrics": "Metric to choose by, such as gem-raw+control, gem-s[prompt]+control or tvd-mi (default: "
        "gem-raw+control; gem-raw where there is one task).",
        "alpha": "Error rate of choices that are called decided.",
        "at_least": "Minimum number of common peers before a choice is called decided.",
    },
    averages_samples=True,
    study_from=_questions,
    exit_status=lambda found: None if found.texts() else (NOTHING, "nothing could be chosen: no response has a score"),
)
async def select(study: Study, verb_options: SelectOptions, options: Options) -> Selection:
    """Choose the most informative response to each task among all of its responses, whoever gave them.

    Each response is scored with all others as peers; the best one is chosen, with its margin over the runner-up and
    whether that is decided. With a sampler, tasks that are not decided get more samples. Use --format csv or json for
    the chosen texts.

    Examples:
      goldless select samples.jsonl --repeats samples
      goldless select samples.csv --metric 'gem-s[prompt]+control' --format csv
      goldless select tasks/ --sampler openai:gpt-4o-mini --most 20
    """
    from goldless.selection.selecting import Sampling, select_responses

    sampling = None
    if verb_options.sampler is not None:
        sampling = Sampling(
            writer=verb_options.sampler,
            most=verb_options.most,
            temperature=verb_options.temperature,
            max_tokens=verb_options.max_tokens,
            system=verb_options.system,
        )
    return await select_responses(study, options, tolerance=verb_options.tolerance, sampling=sampling)


# --- explain ----------------------------------------------------------------------------------------------------------

LONGEST_BAR = 8
"""Characters."""
MOST_WORDS = 3
LEAST_NATS = 0.5
"""Gain of a word that is named."""


@dataclass(frozen=True, kw_only=True)
class ExplainOptions:
    task: str = option(REQUIRED, "Task that both agents answered.", "NAME")
    agent: str = option(REQUIRED, "Agent whose response is given.", "NAME")
    peer: str = option(REQUIRED, "Agent whose response is predicted.", "NAME")
    template: str = same(
        "templates", "general", "Prompt wording: general, plain, peer-review, or FILE.toml.", form=TEXT
    )
    synopsis: str | None = option(
        None, "Text of the task that is given as well: prompt, abstract, or any text column.", "COLUMN", group=None
    )
    text: Literal["responses", "rewrites"] = option("responses", "Explain the responses, or their recorded rewrites.")


@verb("scorer", "journal", prominent=("task", "agent", "peer", "scorer", "template", "synopsis", "text"))
async def explain(study: Study, verb_options: ExplainOptions, options: Options) -> InformationMap:
    """Show which sentence of one response makes which sentence of another more predictable.

    Example:
      goldless explain answers.csv --task refund --agent careful --peer brief
    """
    from goldless.runs.explaining import explain_pair

    return await explain_pair(study, options, **values(verb_options))


@explain.renderer
def _tell_map(found: InformationMap, output: Output) -> None:
    output.print_tables([sentence_table(found)], lambda: asdict(found))


def sentence_table(found: InformationMap) -> ReportTable:
    """The peer's sentences with what each gained, then the candidate's with what is lost without each."""
    columns = (
        Column("side", "whose", wide=True),
        Column("agent", "agent", wide=True),
        Column("sentence", ""),
        Column("nats", "nats", "signed", decimals=2),
        Column("bar", "", "plot"),
        Column("helps", "helps most", data=True),
        Column("helps_nats", "nats", "signed", decimals=2, data=True),
        Column("text", "text"),
        Column("mostly", "mostly", absent=""),
    )
    rows: list[dict[str, Any]] = [
        {"side": "peer", "agent": found.peer, "sentence": f"P{i}", "nats": one.gain_nats, "text": one.text}
        | {"mostly": ", ".join(_likelier(found, one))}
        for i, one in enumerate(found.peer_sentences, 1)
    ]
    for i, told in enumerate(found.candidate_sentences):
        row: dict[str, Any] = {"side": "candidate", "agent": found.agent, "sentence": f"C{i + 1}", "text": told.text}
        best = found.helps_most(i)
        if best is not None:
            nats = found.matrix_nats[i][best]
            row |= {"helps": f"P{best + 1}", "helps_nats": nats, "mostly": f"P{best + 1} {nats:+.2f}"}
        rows.append(row | {"nats": told.contribution_nats})
    for row in rows:
        largest = max(abs(one["nats"]) for one in rows if one["side"] == row["side"]) or 1.0
        row["bar"] = "▇" * round(abs(row["nats"]) / largest * LONGEST_BAR)
    given = f"the response of {found.agent} gives {found.total_nats:+.2f} nats about that of {found.peer}"
    notes = [
        f"P: how much likelier each sentence of {found.peer} became, mostly by which words.",
        f"C: what is lost without a sentence of {found.agent}, mostly where. What two both say is not lost with one.",
    ]
    if found.end_gain_nats is not None:
        notes.append(f"The sentences of {found.peer} and the end of it ({found.end_gain_nats:+.2f}) sum to the total.")
    return ReportTable(f"{found.task}: {given}", columns, tuple(rows), found.signature, tuple(notes))


def _likelier(found: InformationMap, sentence: PeerSentence) -> Iterator[str]:
    """The words of a peer's sentence that gained most, each with its nats."""
    gains: dict[str, float] = {}
    for word in re.finditer(r"\w+", found.peer_text):
        if sentence.start <= word.start() < sentence.end:
            within = [one for one in found.tokens if one.start < word.end() and word.start() < one.end]
            gains[word[0]] = gains.get(word[0], 0.0) + sum(token.gain_nats for token in within)
    for likelier in sorted(gains, key=gains.__getitem__, reverse=True)[:MOST_WORDS]:
        if gains[likelier] > LEAST_NATS:
            yield f"{likelier} {gains[likelier]:+.2f}"
