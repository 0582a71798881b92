"""``goldless study fetch``: public sets with known truth, by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from goldless.cli.command import verb
from goldless.cli.console import say
from goldless.cli.output import Output
from goldless.errors import UserError
from goldless.runs.option_forms import argument, option


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
    name: str | None = argument("NAME", "Name of the set; without one, the sets are listed.", None)
    folder: Path | None = option(None, "Write the study to this folder.", "--out FOLDER", group=None)
    copy: Path | None = option(
        None, "Read a copy that you have, and download nothing.", "--copy FILE_OR_FOLDER", group=None
    )


@verb(prominent=("name", "folder", "copy"))
def fetch(verb_options: FetchOptions) -> None:
    """List public sets with known truth, or fetch one as a study with labels.

    The files come from their owner's address at a fixed commit, and their SHA-256 is checked. A set whose owner names
    no licence is read only from a copy that you have.

    Examples:
      goldless study fetch
      goldless study fetch summeval --out summeval
      goldless study fetch samsum --copy llm-peer-prediction/ --out samsum
    """
    from goldless.apps.datasets.catalogue import DATASETS
    from goldless.apps.datasets.fetching import fetch_study

    if verb_options.name is None:
        if verb_options.folder is not None or verb_options.copy is not None:
            raise UserError("NAME is missing. goldless study fetch lists the sets")
        rows = [
            {
                "name": dataset.name,
                "question": dataset.question,
                "size": dataset.size,
                "licence": dataset.licence or "none: with --copy only",
                "citation": dataset.citation,
            }
            for dataset in DATASETS.values()
        ]
        columns = {name: (name, "text") for name in ("question", "size", "licence", "citation")}
        Output().print_rows("Public sets with known truth", rows, rows, name="name", **columns)
        return
    if verb_options.folder is None:
        raise UserError(f"--out is missing. Try: goldless study fetch {verb_options.name} --out {verb_options.name}")
    study = fetch_study(verb_options.name, verb_options.folder, copy=verb_options.copy)
    dataset = DATASETS[verb_options.name]
    counts = {"tasks": len(study.tasks), "agents": len(study.agents), "responses": study.n_responses}
    counts["ratings"] = study.n_ratings
    counts["preferences"] = study.n_preferences
    labels = [{"what": what, "count": count} for what, count in counts.items() if count]
    summary = {"name": verb_options.name, "folder": str(verb_options.folder), **counts, "licence": dataset.licence}
    Output().print_rows(f"Fetched {verb_options.name}", labels, summary, what="what", count=("count", "count"))
    say(f"source: {dataset.source}")
    say(f"licence: {dataset.licence or 'the owner names none; ask before you pass it on'}")
    say(f"cite: {dataset.citation}")
    say(f"study: {verb_options.folder}")
    say(f"next: goldless score {quote(str(verb_options.folder))}")
