"""``goldless audit``: what texts and scores show before anyone trusts a ranking."""

from __future__ import annotations

from typing import Any

from goldless.cli.command import verb
from goldless.cli.output import Output, plain_table


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
    scored = run.leaderboard is not None
    of_scores = [one for one in run.leaderboard.findings if one.metrics] if run.leaderboard is not None else []
    keys = ("kind", "agents", "metrics", "message")
    found = [{key: getattr(one, key) for key in keys} for one in (*of_texts, *of_scores)]
    boards = run.boards if scored else {}
    graphs = {metric: write(board.peer_graph) for metric, board in boards.items() if board.peer_graph}
    tables = [plain_table("Findings", found, kind="kind", message="finding")] if found else []
    for metric, graph in graphs.items():
        title = f"Agents that predict each other more than expected under {metric}"
        numbers = {"excess": ("excess", "signed", None, 2), "standard_error": ("standard error", "number", None, 2)}
        if graph["links"]:
            tables.append(plain_table(title, graph["links"], first="agent", second="agent", **numbers))
    output.print_tables(
        tables,
        lambda: {"study": study, "findings": found, "peer_graphs": graphs},
        below=() if found else ("Nothing suspicious was found.",),
    )
