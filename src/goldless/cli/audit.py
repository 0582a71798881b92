"""``goldless audit``: what texts and scores show before anyone trusts a ranking."""

from __future__ import annotations

from typing import Any

from goldless.cli.command import verb
from goldless.cli.output import Output, plain_table
from goldless.reports.report_table import Column, ReportTable


@verb()
def audit(study: Any, *, output: Output) -> None:
    """Look for shared texts, copied prompts, colluding agents and metrics that contradict each other.

    Calls no model. In a folder written by goldless score --out, the scores are audited too, with the peer graph.

    Examples:
      goldless audit answers.csv
      goldless audit runs/first
    """
    from goldless.audit.texts import text_findings
    from goldless.reports.document import write
    from goldless.reports.run_folder import RunFolder
    from goldless.studies import as_study

    run = RunFolder(study)
    run.required("leaderboard")
    of_texts = text_findings(as_study(study))
    of_scores = () if run.leaderboard is None else (one for one in run.leaderboard.findings if one.metrics)
    shown: list[Any] = [*of_texts, *of_scores]
    found: list[dict[str, Any]] = [
        {"kind": one.kind, "agents": list(one.agents), "metrics": list(one.metrics), "message": one.message}
        for one in shown
    ]
    boards = {} if run.leaderboard is None else run.boards
    graphs = {metric: write(board.peer_graph) for metric, board in boards.items() if board.peer_graph}
    tables = [plain_table("Findings", found, kind="kind", message="finding")] if found else []
    tables += [_links(metric, graph["links"]) for metric, graph in graphs.items() if graph["links"]]
    output.print_tables(
        tables,
        lambda: {"study": study, "findings": found, "peer_graphs": graphs},
        below=() if found else ("Nothing suspicious was found.",),
    )


def _links(metric: str, links: list[dict[str, Any]]) -> ReportTable:
    columns = (
        Column("first", "agent"),
        Column("second", "agent"),
        Column("excess", "excess", "signed", decimals=2),
        Column("standard_error", "standard error", "number", decimals=2),
    )
    return ReportTable(f"Agents that predict each other more than expected under {metric}", columns, tuple(links))
