"""Signatures: one line that says exactly how a number was computed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

import goldless._version as version

Words = npt.NDArray[np.uint64]
NOTHING = np.uint64(0x2545F4914F6CDD1D)
"""The text for a missing value."""


@dataclass(frozen=True)
class Signature:
    """A number's making in one line: ``metric|key:value|…|goldless:version``. Equal lines mean comparable numbers."""

    metric: str
    settings: Mapping[str, str]

    @classmethod
    def parse(cls, line: str) -> Self:
        """The signature in a line; its settings include the version of goldless."""
        metric, *parts = line.split("|")
        return cls(metric, {key: value for key, _, value in (part.partition(":") for part in parts)})

    @property
    def parts(self) -> dict[str, str]:
        """The metric, the settings and the version of goldless by name; empty without a metric."""
        made_by = {"goldless": self.settings.get("goldless", version.__version__)}
        settings = {key: value for key, value in self.settings.items() if key != "goldless"}
        return {"metric": self.metric, **settings, **made_by} if self.metric else {}

    def __str__(self) -> str:
        return self.line(self.parts)

    @staticmethod
    def line(parts: Mapping[str, str]) -> str:
        """The line of a signature's parts; empty for none."""
        fields = (value if key == "metric" else f"{key}:{value}" for key, value in parts.items())
        # a name may hold the sign that parts the line
        return "|".join(field.replace("|", "/") for field in fields)


def evidence_hash(rows: Iterable[tuple[Any, ...]]) -> str:
    """Eight digits that identify a small table, independent of the order of its rows."""
    digest = hashlib.sha256()
    for line in sorted(repr(row) for row in rows):
        digest.update(line.encode())
    return digest.hexdigest()[:8]


def table_hash(table: pl.DataFrame) -> str:
    """Eight digits that distinguish two evidence tables, independent of row order and machine."""
    rows = np.zeros(len(table), np.uint64)
    for column in table:
        rows = rows * np.uint64(0x9E3779B97F4A7C15) + _words(column)  # odd, so that no bit is lost
    rows = _mixed(rows)
    total, either = rows.sum(dtype=np.uint64), np.bitwise_xor.reduce(rows, initial=np.uint64(0))
    return hashlib.sha256(total.tobytes() + either.tobytes() + len(rows).to_bytes(8, "little")).hexdigest()[:8]


def _words(column: pl.Series) -> Words:
    """One number for each value: its bits, or a hash of its text."""
    if column.dtype.is_numeric():
        values = column.cast(pl.Float64).fill_nan(None)
        bits = (values.fill_null(0.0).to_numpy() + 0.0).view(np.uint64)  # minus zero is zero
        return np.where(values.is_null().to_numpy(), NOTHING, _mixed(bits))
    known = column.unique().drop_nulls()
    if known.is_empty():
        return np.full(len(column), NOTHING)
    if column.dtype == pl.String:
        column = column.cast(pl.Enum(known))
        known = known.cast(column.dtype)
    places = known.to_physical().to_numpy()
    hashes = np.zeros(int(places.max()) + 1, np.uint64)
    digests = (hashlib.sha256(name.encode()).digest() for name in known.cast(pl.String))
    hashes[places] = [int.from_bytes(digest[:8], "little") for digest in digests]
    words = hashes[column.to_physical().fill_null(0).to_numpy()]
    return np.where(column.is_null().to_numpy(), NOTHING, words) if column.null_count() else words


def _mixed(words: Words) -> Words:
    """Every bit of a number spread over all of its bits (the finaliser of MurmurHash3)."""
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    mixed: Words = words ^ (words >> np.uint64(33))
    return mixed
