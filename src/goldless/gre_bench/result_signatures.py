"""Signatures of what is computed from a board, or from a part of its papers.

A result names the board it was made of by the board's own signature under that metric. A table that was published, or
a CSV file, has none: it is named by what it is and by a hash of its scores.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from goldless.gre_bench.boards import PUBLISHED, Board
from goldless.runs.recorded import evidence_hash
from goldless.signature import Signature


def settings_of(line: str) -> dict[str, str]:
    """The settings that a signature tells, by their names; that of goldless's version is among them."""
    pairs = (part.partition(":") for part in line.split("|")[1:])
    return {key: value for key, colon, value in pairs if colon}


def changed_signature(
    metric: str, line: str | None, settings: Mapping[str, str], *, without: Collection[str] = ()
) -> str:
    """A metric's signature with other settings, or more of them, or less; None: nothing else is known of it."""
    known = {key: told for key, told in settings_of(line or "").items() if key not in {"goldless", *without}}
    return str(Signature(metric, {**known, **settings}))


def board_told(board: Board, metric: str) -> str:
    """What tells a board's scores under a metric from any others."""
    line = board.signatures.get(metric)
    if line is not None:
        return line
    if board.name in PUBLISHED:
        return f"published:{PUBLISHED[board.name][0].partition('_')[0]}"
    return f"{board.name}-{evidence_hash((agent, one.score) for agent, one in board.metrics[metric].items())}"


def result_signature(name: str, metric: str, settings: Mapping[str, str], *, seed: int, permutations: int) -> str:
    """The signature of a result under one metric whose p comes from permutations."""
    return str(Signature(f"{name}[{metric}]", {**settings, "permutations": str(permutations), "seed": str(seed)}))
