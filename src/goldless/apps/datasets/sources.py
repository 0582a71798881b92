"""The contents of a set's files, from the owner's address or from a copy: exactly the known bytes, or an error."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from goldless.apps.datasets.dataset import Dataset, SourceFile, SourceSeries
from goldless.errors import UserError

TIMEOUT_SECONDS = 60.0
SHOWN_DIGITS = 12
"""Digits of a hash that a message shows."""

ReadFile = Callable[[SourceFile], bytes]


class RefuseRedirects(urllib.request.HTTPRedirectHandler):
    """A redirection is an error: the set is read from its owner's address alone."""

    def redirect_request(self, *_: Any) -> None:
        return None


def downloaded_files(dataset: Dataset) -> dict[str, bytes]:
    """Download the files of a set."""
    opener = urllib.request.build_opener(RefuseRedirects)

    def read(file: SourceFile) -> bytes:
        address = dataset.address(file.path)
        request = urllib.request.Request(address, headers={"User-Agent": "goldless"})  # noqa: S310 - https
        try:
            with opener.open(request, timeout=TIMEOUT_SECONDS) as reply:
                content: bytes = reply.read(file.n_bytes + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise UserError(f"{address} {refusal(error.code)}, or use a copy: {copy_advice(dataset)}") from error
        except (OSError, HTTPException) as error:
            host = urlsplit(address).hostname
            reason = getattr(error, "reason", None) or error or type(error).__name__
            raise UserError(
                f"{host} cannot be reached ({reason}). Connect and try again, or use a copy: {copy_advice(dataset)}"
            ) from error
        return content

    return checked_files(dataset, read)


def refusal(code: int) -> str:
    """The meaning of a server's status, and the next step."""
    if code in {404, 410} or 300 <= code < 400:
        return f"has moved or is gone (HTTP {code}). Look for a newer goldless"
    return f"cannot be read now (HTTP {code}). Try again later"


def copied_files(dataset: Dataset, copy: Path) -> dict[str, bytes]:
    """Read the files of a set from a copy: its only file, or a folder with the files as in the repository."""
    if not copy.exists():
        raise UserError(f"{copy} does not exist. --copy takes {copy_words(dataset)}")
    if copy.is_file() and len(dataset.files) > 1:
        raise UserError(f"{copy} is one file, and {dataset.name} has {n_files(dataset)}. Give {copy_words(dataset)}")

    def read(file: SourceFile) -> bytes:
        path = copy if copy.is_file() else copy / file.path
        if not path.is_file():
            path = copy / Path(file.path).name
        if not path.is_file():
            raise UserError(f"{copy} has no file {file.path}. Give {copy_words(dataset)}")
        with path.open("rb") as content:
            return content.read(file.n_bytes + 1)

    return checked_files(dataset, read)


def checked_files(dataset: Dataset, read: ReadFile) -> dict[str, bytes]:
    """Read all files; raise UserError unless they are the known ones to the last byte."""
    contents: dict[str, bytes] = {}
    for source in dataset.files:
        if isinstance(source, SourceSeries):
            digest = hashlib.sha256()
            for file in source.files():
                contents[file.path] = read(file)
                digest.update(hashlib.sha256(contents[file.path]).digest())
            check_hash(dataset, source.path.format("N"), digest.hexdigest(), source.sha256)
        else:
            content = contents[source.path] = read(source)
            check_hash(dataset, source.path, hashlib.sha256(content).hexdigest(), source.sha256 or "")
    return contents


def check_hash(dataset: Dataset, path: str, found: str, known: str) -> None:
    """Raise UserError if a hash is not the known one."""
    if found != known:
        raise UserError(
            f"{path} must have the SHA-256 {known[:SHOWN_DIGITS]}…, got {found[:SHOWN_DIGITS]}…: it is not the file of "
            f"{dataset.source}. Nothing was written"
        )


def n_files(dataset: Dataset) -> int:
    """The number of files of a set."""
    return sum(source.count if isinstance(source, SourceSeries) else 1 for source in dataset.files)


def copy_words(dataset: Dataset) -> str:
    """The copy that a set is read from."""
    one_file = dataset.files[0].path if len(dataset.files) == 1 else None
    clone = f"a clone of {dataset.source}"
    return f"{one_file} or {clone}" if one_file else clone


def copy_advice(dataset: Dataset) -> str:
    """The option that reads a copy."""
    return f"--copy with {copy_words(dataset)}"
