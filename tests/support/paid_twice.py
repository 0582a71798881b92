"""Whether a journal shows that something was paid for twice."""

from __future__ import annotations

from goldless.models.journal import Journal


def called_after_reply(journal: Journal) -> list[str]:
    """Keys of calls that were made again although their reply was stored."""
    rows = journal.rows(
        "select attempts.key from attempts join calls on calls.key = attempts.key "
        "where attempts.started_at > calls.created_at"
    )
    return [key for (key,) in rows]


def counts(journal: Journal) -> dict[str, int]:
    """Rows of a journal by table."""
    tables = ("calls", "failures", "attempts")
    return {table: journal.rows(f"select count(*) from {table}")[0][0] for table in tables}
