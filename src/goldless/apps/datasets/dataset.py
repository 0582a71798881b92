"""A public set: where its files are, what they must contain, and how they become the tables of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

import polars as pl

RAW_FILES = "https://raw.githubusercontent.com"
"""The address at which the owners of all sets publish the files of a commit."""

Tables = Mapping[str, pl.DataFrame]
"""Tables of a study by name; ``attacks/format/logprobs`` is a table of a study inside its folder."""


@dataclass(frozen=True)
class SourceFile:
    """A file at the owner's commit."""

    path: str
    n_bytes: int
    """Its size, or for files of a series that of the largest."""
    sha256: str | None
    """None for a file of a series, which has one hash for all."""


@dataclass(frozen=True)
class SourceSeries:
    """Files that differ by a number in their path, counted from 0."""

    path: str
    """Has ``{}`` where the number is."""
    count: int
    most_bytes: int
    sha256: str
    """Of the files' SHA-256 digests, in order."""

    def files(self) -> Iterator[SourceFile]:
        """The files in order."""
        for number in range(self.count):
            yield SourceFile(self.path.format(number), self.most_bytes, None)


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A public set that can be fetched as a study."""

    name: str
    question: str
    """The question that people answered about the responses, or the source of the truth."""
    size: str
    licence: str | None
    """None where the owner names none: then only a copy that the user has is read."""
    citation: str
    repository: str
    commit: str
    files: tuple[SourceFile | SourceSeries, ...]
    convert: Callable[[Mapping[str, bytes]], Tables]
    """Makes the tables of the study from the files' contents by path."""
    host: str = RAW_FILES

    def address(self, path: str) -> str:
        """The address of a file at the commit."""
        return f"{self.host}/{self.repository}/{self.commit}/{quote(path)}"

    @property
    def source(self) -> str:
        """The repository and commit, as messages name them."""
        return f"github.com/{self.repository} at commit {self.commit[:12]}"
