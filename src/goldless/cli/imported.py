"""Say what was read from another tool's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldless.cli.console import say

if TYPE_CHECKING:
    from goldless.studies import Study


def counted(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def tell_import(study: Study) -> None:
    """Say in one line what was read, unless it is goldless's own format and there is nothing to note."""
    if study.origin is None or (study.origin.importer == "study" and not study.origin.notes):
        return
    from goldless.studies.summary import import_summary

    found = import_summary(study)
    said = [counted(found[noun], noun.removesuffix("s")) for noun in ("tasks", "agents", "responses")]
    lost = ", ".join(f"{cause} {count:,}" for cause, count in found["missing"].items())
    said += [f"missing: {lost}"] if lost else []
    said += [f"several samples of {counted(several, 'agent')}"] if (several := len(set(study.samples.values()))) else []
    say(f"read as {found['format']}: {', '.join(said)}")
    for note in found["notes"]:
        say(f"note: {note}", style="yellow")
