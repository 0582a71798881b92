"""Answers of a server, kept on disk as they come, so that nothing is asked for twice.

One file an answer: a line of JSON with address, status, kind of content and length, then the body as it came. A file is
written whole or not at all, so a process that is killed leaves no half answer behind. Only what was asked and what came
back is kept: no header that was sent, no cookie, no token.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from goldless.errors import UserError

SUFFIX = ".answer"


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What a server answered."""

    address: str
    """What was asked for, with all parameters."""
    status: int
    content_type: str
    body: bytes


class KeptAnswers:
    """A folder of answers, found by their addresses. Delete the folder, or one file, to have it asked for anew."""

    def __init__(self, folder: Path, *, oldest_seconds: float = math.inf) -> None:
        """Use a folder; it is made when the first answer comes. An answer that is older counts as none."""
        self.folder = folder
        self._oldest_seconds = oldest_seconds

    def read(self, address: str) -> KeptAnswer | None:
        """The answer kept for an address; none where there is none, or only a damaged file or one that is too old."""
        path = self._path(address)
        try:
            if time.time() - path.stat().st_mtime > self._oldest_seconds:
                return None
            head, found, body = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UserError(
                f"{self.folder}: answers cannot be kept there ({error.strerror}); name another folder."
            ) from error
        try:
            data = orjson.loads(head)
            if not found or data["address"] != address or data["bytes"] != len(body):
                return None
            return KeptAnswer(address, int(data["status"]), str(data["content_type"]), body)
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return None

    def keep(self, answer: KeptAnswer) -> None:
        """Write an answer, whole or not at all."""
        head = {"address": answer.address, "status": answer.status, "content_type": answer.content_type}
        path = self._path(answer.address)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".", suffix=".part", delete=False) as aside:
                try:
                    aside.write(orjson.dumps(head | {"bytes": len(answer.body)}) + b"\n" + answer.body)
                    aside.flush()
                    os.fsync(aside.fileno())
                    Path(aside.name).replace(path)
                except BaseException:
                    Path(aside.name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise UserError(
                f"{self.folder}: answers cannot be kept there ({error.strerror}); make room or name another folder."
            ) from error

    def forget(self, address: str) -> None:
        """Drop the answer kept for an address, if there is one."""
        self._path(address).unlink(missing_ok=True)

    def _path(self, address: str) -> Path:
        """The file of an address: the last word of its path for the reader, a hash of all of it for us."""
        word = re.sub(r"[^a-z]", "", urlsplit(address).path.rpartition("/")[2].lower())[:20]
        return self.folder / f"{word or 'answer'}-{hashlib.sha256(address.encode()).hexdigest()[:40]}{SUFFIX}"
