"""Names of tasks and agents, numbered in the order they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldless.errors import nearest

if TYPE_CHECKING:
    from goldless.studies.problems import Problems

HINT_AMONG = 1000
"""Among more names than this the nearest one is not looked for: it takes too long."""


class Names(dict[str, int]):
    """A name's number; a new name gets the next one, unless a table has listed them all."""

    def __init__(self, listed_in: str = "") -> None:
        super().__init__()
        self.listed_in = listed_in
        """The file that lists them all; empty while any name is taken."""
        self._strangers: dict[str, tuple[int, int]] = {}

    def __missing__(self, name: str) -> int:
        """The number of a name that is new."""
        number = self[name] = len(self)
        return number

    def number(self, name: str, line: int) -> int:
        """The name's number, or -1, noted as a stranger, where all names are listed and this is none of them."""
        if not self.listed_in:
            return self[name]
        number = self.get(name, -1)
        if number < 0:
            first, count = self._strangers.get(name, (line, 0))
            self._strangers[name] = (first, count + 1)
        return number

    def report_strangers(self, what: str, file: str, problems: Problems) -> None:
        """One problem for each stranger, at its first line, and none is kept."""
        for name, (line, count) in self._strangers.items():
            hint = nearest(name, self) if len(self) <= HINT_AMONG else ""
            more = f" ({count:,} rows from here on)" if count > 1 else ""
            problems.add(f"{what} {name!r} is not in {self.listed_in}{more}{hint}", file, line)
        self._strangers.clear()
