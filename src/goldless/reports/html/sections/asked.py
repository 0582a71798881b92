"""How the run was made: study, models, prompts, cost, every signature explained; and what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from goldless.reports.document import cells
from goldless.reports.html.blocks import (
    Block,
    Code,
    Fold,
    Name,
    Rendered,
    Table,
    Term,
    counts,
    listed,
    names,
    note,
    section,
    texts,
    words,
)
from goldless.reports.html.labels import excerpt, is_shortened, plural
from goldless.reports.html.words import MEANINGS
from goldless.reports.leaderboard import Leaderboards
from goldless.reports.report_table import Column
from goldless.reports.run_folder import Failed, RunFolder
from goldless.signature import Signature

CAUSES = {
    "bad_reply": "the server's reply could not be used",
    "budget": "not sent, because it would have exceeded the budget",
    "connection": "no connection to the server",
    "no_synopsis": "the task has no synopsis of that name",
    "no_control": "the peer has no response to another task, so task control has nothing to subtract",
    "not_recorded": "not in the study, and models were not called",
    "rate_limited": "the server reported too many requests",
    "refused": "the model declined to answer",
    "rejected": "the server rejected the request",
    "server_error": "the server failed",
    "timeout": "no reply before the timeout",
    "too_long": "the text is too long for the model",
    "truncated": "the reply was cut off at the length limit",
    "unparsable": "no verdict could be read from the reply",
}


MODELS = (
    *texts(part="part"),
    *names(name="model"),
    *texts("unknown", revision="revision", tokenizer="tokenizer"),
    *texts("none", settings="settings"),
)
SPENDING = (
    *texts("", verb="verb"),
    *names(model="model"),
    *counts(calls="calls", reused="from the journal", tokens="tokens"),
    Column("cost_usd", "USD", "usd", "unknown"),
    Column("result_usd", "USD of the result", "usd", "unknown"),
)
AGENTS = (
    *names("not given", agent="agent", group="group", family="family"),
    Column("parameters", "parameters", "large", "not given"),
    *names("not given", cutoff_date="knowledge cutoff"),
)


@section("asked", "How this was run, and signatures", appendix=True)
def asked_section(run: RunFolder) -> Iterator[Block]:
    """How the run was made; every report has this section."""
    board, made = run.leaderboard or Leaderboards(), run.made_by.made
    spending = [
        cells(row, verb=verb, tokens=row.usage.input_tokens + row.usage.output_tokens)
        for verb, one in made.items()
        for row in one.spending
    ]
    models = [
        {
            "part": part,
            "name": f"{model.provider}:{model.name}",
            "revision": model.revision[:12],
            "tokenizer": model.tokenizer[:12],
            "settings": ", ".join(f"{key} {value}" for key, value in model.settings.items()),
        }
        for part, model in board.models.items()
    ]
    agents = [cells(agent) for agent in run.agent_notes]
    used = str(board.settings.get("template") or "").split(",") if board.models else []
    values = {
        "run": run,
        "board": board,
        "tasks": 0 if run.scores is None else run.scores["task"].n_unique(),
        "models": (MODELS, models),
        "spending": (SPENDING, spending),
        "estimated": any(row["estimated"] for row in spending),
        "agents": ([column for column in AGENTS if any(row[column.name] for row in agents)], agents),
        "long_names": [row.agent for row in run.agent_notes if is_shortened(row.agent)],
        "templates": {name: board.template(name, "a custom file, as stored with the run") for name in used},
        "rewritten": any(part.startswith("rewriter") for part in board.models),
        "signatures": list(dict.fromkeys(_signatures(run))),
        "meanings": MEANINGS,
        "parsed": lambda line: [pair for one in line.split(" || ") for pair in Signature.parse(one).parts.items()],
    }
    yield Rendered("asked.html", values)


def _signatures(run: RunFolder) -> Iterator[tuple[str, str]]:
    metrics = {} if run.leaderboard is None else run.leaderboard.metrics
    yield from ((name, one.signature) for name, one in metrics.items() if one.signature)
    if run.review is not None and run.review.signature:
        yield "review", run.review.signature
    for name, result in run.others.items():
        lines = (line for table in result.tables() for line in table.signature.split(" || "))
        yield from ((name.replace("_", " "), line) for line in lines if line)


# --- what is missing -------------------------------------------------------------------------------------------------


@section("missing", "What is missing", appendix=True)
def missing_section(run: RunFolder) -> Iterator[Block]:
    """Failed calls by cause with an example each, and tasks that could not be scored; None if nothing is missing."""
    # only counts, for a folder without evidence
    kinds = ((run.leaderboard, "replies used by the metrics"), (run.review, "judgements and exam answers"))
    failed = run.failed or tuple(
        Failed(what, cause, times, None, None, None)
        for found, what in kinds
        if found is not None
        for cause, times in found.failures.items()
    )
    if failed:
        columns = (*texts(what="what", cause="cause"), *texts("", meaning="meaning"), *counts(count="missing"))
        rows = [cells(row, meaning=CAUSES.get(row.cause)) for row in failed]
        yield Table((Term("missing", "Missing evidence"), " by cause"), columns, rows)
        yield note("It is left out of every score; it never counts as zero.")
        for row in failed:
            if row.example is not None or row.task:
                whose = note("Task ", Name(row.task or "unknown"), " · model ", Name(row.model or "unknown"))
                text = Code(excerpt(row.example)) if row.example else note("No text was kept.")
                yield Fold(f"Example: {row.cause.replace('_', ' ')} among {row.what}", (whose, text))
    without = () if run.leaderboard is None else run.leaderboard.tasks_without_peers
    if without:
        many = plural(len(without), "task")
        yield words(f"{many} had fewer than two responses, so nothing could be compared: ", *listed(without, 12), ".")
