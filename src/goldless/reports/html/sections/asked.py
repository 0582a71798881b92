"""How the run was made: study, models, prompts, cost, every signature explained; and what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from goldless.reports.document import cells
from goldless.reports.html.blocks import (
    Block,
    Code,
    Fold,
    Heading,
    Name,
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
from goldless.reports.html.labels import excerpt, is_shortened, numeral, plural
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


MODEL_COLUMNS = (
    *texts(part="part"),
    *names(name="model"),
    *texts("unknown", revision="revision", tokenizer="tokenizer"),
    *texts("none", settings="settings"),
)
SPENDING_COLUMNS = (
    *texts("", verb="verb"),
    *names(model="model"),
    *counts(calls="calls", reused="from the journal", tokens="tokens"),
    Column("cost_usd", "USD", "usd", "unknown"),
    Column("result_usd", "USD of the result", "usd", "unknown"),
)
AGENT_COLUMNS = (
    *names("not given", agent="agent", group="group", family="family"),
    Column("parameters", "parameters", "large", "not given"),
    *names("not given", cutoff_date="knowledge cutoff"),
)


@section("asked", "How this was run, and signatures", appendix=True)
def asked_section(run: RunFolder) -> Iterator[Block]:
    """How the run was made; every report has this section."""
    board = run.leaderboard or Leaderboards()
    yield _facts(run, board)
    for part in (_models(run, board), _spending(run), _agents(run), _prompts(board), _signatures(run)):
        yield from part


def _facts(run: RunFolder, board: Leaderboards) -> Table:
    tasks = 0 if run.scores is None else run.scores["task"].n_unique()
    made = run.made_by
    rows = [
        ("study", run.study_name or "study"),
        ("fingerprint of tasks and responses", run.fingerprint[:16]),
        ("tasks", f"{tasks:,}" if tasks else ""),
        ("agents", f"{len(run.agent_notes):,}" if run.agent_notes else ""),
        ("metrics", ", ".join(board.metrics)),
        ("model replies used by the metrics", f"{board.asked:,}" if run.leaderboard is not None else ""),
        *((f"made by goldless {verb}", one.at) for verb, one in made.made.items()),
        ("version", f"goldless {made.goldless}, Python {made.python}" if made.goldless else ""),
    ]
    columns = (*texts(what="what"), *names(value="value"))
    return Table("The run", columns, [{"what": key, "value": value} for key, value in rows if value])


def _models(run: RunFolder, board: Leaderboards) -> Iterator[Block]:
    rows = [
        {
            "part": part,
            "name": f"{model.provider}:{model.name}",
            "revision": model.revision[:12],
            "tokenizer": model.tokenizer[:12],
            "settings": ", ".join(f"{key} {value}" for key, value in model.settings.items()),
        }
        for part, model in board.models.items()
    ]
    if rows:
        yield Table("Models used", MODEL_COLUMNS, rows)
    elif run.leaderboard is not None:
        yield words("No model was called: the scores use evidence recorded in the study, or the texts alone.")
    found = board.canaries
    if found is not None:
        noise = "an unknown amount" if found.noise_nats is None else f"{found.noise_nats:.1g} nats"
        yield words(
            "Before anything was scored, ",
            Term("canary", "canaries"),
            " checked the scorer: a text it had just read scored ",
            f"{numeral(found.copied_nats, 1)} nats and the same words shuffled {numeral(found.shuffled_nats, 1)}; "
            f"the same sum in other batches differed by {noise}.",
        )


def _spending(run: RunFolder) -> Iterator[Block]:
    rows = [
        cells(row, verb=verb, tokens=row.usage.input_tokens + row.usage.output_tokens)
        for verb, one in run.made_by.made.items()
        for row in one.spending
    ]
    if rows:
        caption = "What the last process paid, and what the result cost with the replies that had been paid for before"
        guessed = counts(estimated="estimated calls") if any(row["estimated"] for row in rows) else ()
        yield Table(caption, (*SPENDING_COLUMNS, *guessed), rows)
        if guessed:
            yield note(
                "For estimated calls the server did not report what it charged, or nothing credible: they are counted "
                "at the most that they can cost."
            )


def _agents(run: RunFolder) -> Iterator[Block]:
    rows = [cells(agent) for agent in run.agent_notes]
    given = [column for column in AGENT_COLUMNS if any(row[column.name] for row in rows)]
    if len(given) > 1:
        yield Fold(f"The {plural(len(rows), 'agent')}", [Table("The agents", given, rows)])
    long = [row.agent for row in run.agent_notes if is_shortened(row.agent)]
    if long:
        blocks = [block for name in long for block in (note(Name(name)), Code(name))]
        yield Fold(f"{plural(len(long), 'name')} too long to show in full", blocks)


def _prompts(board: Leaderboards) -> Iterator[Block]:
    used = str(board.settings.get("template") or "").split(",") if board.models else []
    for name in used:
        template = board.template(name, "a custom file, as stored with the run")
        if template is not None:
            asked = Code(f"{template.predict}\n\n{template.question('…', '…')}")
            summary = ("Prompt ", Name(name), ": predict a second response")
            yield Fold(summary, (asked, note("From: ", template.source)))
            if any(part.startswith("rewriter") for part in board.models):
                yield Fold(("Prompt ", Name(name), ": rewrite a response"), (Code(template.rewrite),))
        elif name and name not in board.prompts:
            yield note("Prompt ", Name(name), ": a custom file whose text is not stored with the run.")
    for name, text in board.prompts.items():
        yield Fold(("Prompt ", Name(name)), (Code(text),))


def _signatures(run: RunFolder) -> Iterator[Block]:
    lines = [] if run.leaderboard is None else [(name, one.signature) for name, one in run.leaderboard.metrics.items()]
    lines += [] if run.review is None else [("review", run.review.signature)]
    for name, result in run.others.items():
        own = (line for table in result.tables() for line in table.signature.split(" || "))
        lines += [(name.replace("_", " "), line) for line in own]
    found = [(what, line) for what, line in dict.fromkeys(lines) if line]
    if not found:
        return
    yield Heading("Signatures")
    yield note(
        "A ",
        Term("signature"),
        " records exactly how a number was made. Numbers with the same signature can be compared.",
    )
    columns = (*texts("", key="key"), *texts(value="value"), *texts("", meaning="meaning"))
    for what, line in found:
        parts = [
            {"key": key, "value": value, "meaning": MEANINGS.get(key, "")}
            for one in line.split(" || ")
            for key, value in Signature.parse(one).parts.items()
        ]
        yield note(Name(what))
        yield Code(line)
        yield Fold("Explained", [Table("The parts of the signature", columns, parts)])


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
