"""What was asked and how: the study, the models, the wordings, what it cost, and every signature in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from goldless.reports.html.blocks import (
    Block,
    Code,
    Column,
    Fold,
    Heading,
    Name,
    Section,
    Table,
    Term,
    note,
    words,
)
from goldless.reports.html.documents import RunDocuments
from goldless.reports.html.labels import is_shortened
from goldless.reports.html.numerals import count, number, numeral, plural
from goldless.reports.html.signature_words import signature_parts
from goldless.templates import FIELDS, TEMPLATES, Template


def asked_section(run: RunDocuments) -> Section:
    """The section; every report has it."""
    blocks = [_facts(run), *_models(run), *_canaries(run), *_spending(run), *_agents(run), *_prompts(run)]
    return Section("asked", "What was asked, and how", (*blocks, *_signatures(run)))


def _facts(run: RunDocuments) -> Table:
    board, made = run.get("leaderboard") or {}, run.get("made_by") or {}
    rows: list[tuple[str, object]] = [("study", run.study)]
    prints = [document.get("fingerprint") for document in run.documents.values()]
    rows += [("fingerprint of tasks and responses", str(value)[:16]) for value in prints[:1] if value]
    if run.scores is not None and len(run.scores):
        rows.append(("tasks", f"{run.scores['task'].n_unique():,}"))
    if run.agents:
        rows.append(("agents", f"{len(run.agents):,}"))
    if board.get("metrics"):
        rows.append(("metrics", ", ".join(board["metrics"])))
    if "asked" in board:
        rows.append(("answers of models the metrics rest on", f"{count(board, 'asked'):,}"))
    rows += [(f"made by goldless {verb}", str(one.get("at", ""))) for verb, one in (made.get("made") or {}).items()]
    if made.get("goldless"):
        rows.append(("version", f"goldless {made['goldless']}, Python {made.get('python', 'unknown')}"))
    columns = (Column("what", "what"), Column("value", "value", "name"))
    return Table(("The run",), columns, tuple({"what": key, "value": value} for key, value in rows))


def _models(run: RunDocuments) -> Iterator[Block]:
    models: Mapping[str, Mapping[str, Any]] = (run.get("leaderboard") or {}).get("models") or {}
    rows = [
        {
            "part": part,
            "name": f"{identity.get('provider', '')}:{identity.get('name', '')}",
            "revision": str(identity.get("revision") or "")[:12],
            "tokenizer": str(identity.get("tokenizer") or "")[:12],
            "settings": ", ".join(f"{key} {value}" for key, value in (identity.get("settings") or {}).items()),
        }
        for part, identity in models.items()
    ]
    if rows:
        columns = (
            Column("part", "part"),
            Column("name", "model", "name"),
            Column("revision", "revision", absent="unknown"),
            Column("tokenizer", "tokenizer", absent="unknown"),
            Column("settings", "settings", absent="none"),
        )
        yield Table(("Models that were asked",), columns, tuple(rows))
    elif "leaderboard" in run.documents:
        yield words("No model was asked: the scores are made of evidence that the study carries, or of texts alone.")


def _canaries(run: RunDocuments) -> Iterator[Block]:
    found = (run.get("leaderboard") or {}).get("canaries")
    if not found:
        return
    copied, shuffled = number(found, "copied_nats"), number(found, "shuffled_nats")
    noise = number(found, "noise_nats")
    yield words(
        "Before anything was scored, ",
        Term("canary", "canaries"),
        " checked the scorer: a text it had just read scored ",
        f"{numeral(copied, 1)} nats and the same words shuffled {numeral(shuffled, 1)}; the same sum in other batches "
        f"differed by {'an unknown amount' if noise is None else f'{noise:.1g} nats'}.",
    )


def _spending(run: RunDocuments) -> Iterator[Block]:
    made = (run.get("made_by") or {}).get("made") or {}
    sources = {verb: one.get("spending") or [] for verb, one in made.items()}
    if not sources:
        sources = {"": (run.get("made_by") or {}).get("spending") or []}
    rows = [
        {
            "verb": verb,
            "model": row.get("model"),
            "calls": row.get("calls"),
            "reused": row.get("reused"),
            "tokens": sum((row.get("usage") or {}).values()),
            "usd": row.get("cost_usd"),
        }
        for verb, spent in sources.items()
        for row in spent
    ]
    if rows:
        columns = (
            Column("verb", "by goldless", absent=""),
            Column("model", "model", "name"),
            Column("calls", "calls", "count"),
            Column("reused", "from the journal", "count"),
            Column("tokens", "tokens", "count"),
            Column("usd", "USD", "usd", absent="unknown"),
        )
        yield Table(
            ("What the last run was charged; replies from the journal were paid for before",), columns, tuple(rows)
        )


def _agents(run: RunDocuments) -> Iterator[Block]:
    told = [key for key in ("group", "family", "parameters", "cutoff_date") if any(row.get(key) for row in run.agents)]
    long = [str(row["agent"]) for row in run.agents if is_shortened(row["agent"])]
    if told:
        headings = {"cutoff_date": "knowledge cut-off"}
        columns = [
            Column(key, headings.get(key, key), "large" if key == "parameters" else "name", absent="not told")
            for key in told
        ]
        table = Table(("The agents",), (Column("agent", "agent", "name"), *columns), run.agents)
        yield Fold((f"The {plural(len(run.agents), 'agent')}",), (table,))
    if long:
        blocks: list[Block] = []
        for name in long:
            blocks += [note(Name(name)), Code(name)]
        yield Fold((f"{plural(len(long), 'name')} too long to be shown whole",), tuple(blocks))


def _prompts(run: RunDocuments) -> Iterator[Block]:
    board = run.get("leaderboard") or {}
    settings = board.get("settings") or {}
    used = str(settings.get("template") or "").split(",") if board.get("models") else []
    given = {str(name): str(text) for name, text in (board.get("prompts") or {}).items()}
    for name in used:
        template = _template(board, name)
        if template is not None:
            texts = (Code(f"{template.predict}\n\n{template.question('…', '…')}"), note("From: ", template.source))
            yield Fold(("Wording ", Name(name), ": how a second response is predicted"), texts)
            if any(part.startswith("rewriter") for part in board.get("models") or {}):
                yield Fold(("Wording ", Name(name), ": how a response is rewritten"), (Code(template.rewrite),))
        elif name and name not in given:
            yield note("Wording ", Name(name), ": a file of the user's, whose text is not in the run.")
    for name, text in given.items():
        yield Fold(("Wording ", Name(name)), (Code(text),))


def _template(board: Mapping[str, Any], name: str) -> Template | None:
    """The template of that name: one of ours, or one whose words the run holds."""
    if name in TEMPLATES:
        return TEMPLATES[name]
    held = (board.get("templates") or {}).get(name) or {}
    if not all(isinstance(held.get(field), str) for field in FIELDS):
        return None
    return Template(name=name, source="a file of the user's, as the run keeps it", **{key: held[key] for key in FIELDS})


def _signatures(run: RunDocuments) -> Iterator[Block]:
    found = list(dict.fromkeys(_signature_lines(run)))
    if not found:
        return
    yield Heading(("Signatures",))
    yield note(
        "A ", Term("signature"), " says exactly how a number was made. Two numbers with the same line can be compared."
    )
    columns = (Column("key", "key", absent=""), Column("value", "value"), Column("meaning", "meaning", absent=""))
    for what, line in found:
        parts = [{"key": key, "value": value, "meaning": meaning} for key, value, meaning in signature_parts(line)]
        yield note(Name(what))
        yield Code(line)
        yield Fold(("In words",), (Table(("The parts of the signature",), columns, tuple(parts)),))


def _signature_lines(run: RunDocuments) -> Iterator[tuple[str, str]]:
    for name, metric in ((run.get("leaderboard") or {}).get("metrics") or {}).items():
        if metric.get("signature"):
            yield name, str(metric["signature"])
    for name, card in ((run.get("crash_test") or {}).get("metrics") or {}).items():
        if card.get("signature"):
            yield f"the crash test of {name}", str(card["signature"])
    yield from _held_against_others(run)
    for document in ("review", "bias"):
        line = (run.get(document) or {}).get("signature")
        if line:
            yield f"the {document}" if document == "review" else document, str(line)
    line = ((run.get("cost") or {}).get("panels") or {}).get("signature")
    if line:
        yield "the panels", str(line)


def _held_against_others(run: RunDocuments) -> Iterator[tuple[str, str]]:
    """Signatures of what was held against people, and of scorers held against each other."""
    for criterion in (run.get("agreement") or {}).get("criteria") or ():
        if criterion.get("signature"):
            yield (
                f"agreement on {criterion['criterion']}" if criterion.get("criterion") else "agreement",
                str(criterion["signature"]),
            )
    for name, line in ((run.get("consistency") or {}).get("signatures") or {}).items():
        yield f"consistency, {name}", str(line)
