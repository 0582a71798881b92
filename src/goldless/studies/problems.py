"""Every problem found in a study, counted to the last and kept within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from goldless.errors import Problem, StudyError

KEPT = 10_000


class Problems:
    """The problems found so far."""

    def __init__(self, *, kept: int = KEPT) -> None:
        self.total = 0
        """How many were found; no more than ``kept`` of them are held."""
        self._kept = kept
        self._problems: list[Problem] = []

    def add(self, message: str, file: str = "", line: int | None = None) -> None:
        """Count one problem, and hold it while there is room."""
        self.total += 1
        if len(self._problems) < self._kept:
            self._problems.append(Problem(message, file, line))

    def error(self, study: str) -> StudyError:
        """The error that carries them, ordered by file as read and by line."""
        rank: dict[str, int] = {}
        for problem in self._problems:
            rank.setdefault(problem.file, len(rank))
        ordered = sorted(self._problems, key=lambda problem: (rank[problem.file], problem.line or 0))
        if self.total > len(ordered):
            ordered.append(Problem(f"… and {self.total - len(ordered):,} more problems"))
        return StudyError(ordered, study=study)


@contextmanager
def all_at_once(study: str) -> Iterator[Problems]:
    """Problems to be filled inside; a ``StudyError`` with all of them on the way out, if there are any."""
    problems = Problems()
    yield problems
    if problems.total:
        raise problems.error(study)
