"""The library: the runs of a folder, with what is needed to look under their numbers."""

from __future__ import annotations

from pathlib import Path

from goldless.errors import UserError, nearest
from goldless.viewer.journal_lookup import JournalLookup
from goldless.viewer.pair_map import MapMaker
from goldless.viewer.run_folders import RunFolder, RunSummary, find_runs, listed
from goldless.viewer.task_index import IndexShelf, TaskIndex
from goldless.viewer.token_strip import Tokenizers


class PageNotFoundError(UserError):
    """There is no such run, task or response."""


class Library:
    """Run folders and their indexes; nothing is written into the folders."""

    def __init__(self, root: Path, *, journal: Path) -> None:
        find_runs(root)
        self.root = root
        self.journal = JournalLookup(journal)
        self.tokenizers = Tokenizers()
        self.maps = MapMaker(journal)
        self._shelf = IndexShelf()

    def summaries(self) -> list[RunSummary]:
        """All runs, the newest first."""
        return list(listed(self.root))

    def run(self, name: str) -> RunFolder:
        """The run of that name: one that was found in the folder, so a name never becomes a path."""
        runs = find_runs(self.root)
        if name not in runs:
            raise PageNotFoundError(f"no run {name!r} here{nearest(name, runs)}")
        return runs[name]

    def index(self, run: RunFolder) -> TaskIndex:
        """Its scores and failures by task."""
        return self._shelf.index(run.path)
