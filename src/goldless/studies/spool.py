"""A store for texts: in memory while small, then in an unnamed temporary file."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path

from goldless.errors import UserError

MEMORY_BYTES = 64 * 1024 * 1024


class Spool:
    """An append-only store of bytes; its file, if any, is deleted with it."""

    def __init__(self, *, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory = bytearray()
        self._memory_bytes = memory_bytes
        self._file: int | None = None
        self._size = 0

    def append(self, data: bytes) -> int:
        """Append ``data`` and return its offset."""
        start = self._size
        if self._file is None and start + len(data) > self._memory_bytes:
            self._file = self._open()
            self._write(self._memory)
            self._memory = bytearray()
        if self._file is None:
            self._memory += data
        else:
            self._write(data)
        self._size += len(data)
        return start

    def read(self, start: int, length: int) -> bytes:
        """The ``length`` bytes at ``start``; safe to call from several threads."""
        if self._file is None:
            return bytes(self._memory[start : start + length])
        # One pread gives at most about 2 GiB.
        parts = []
        while length and (part := os.pread(self._file, length, start)):
            parts.append(part)
            start += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _open(self) -> int:
        descriptor, path = tempfile.mkstemp(prefix="goldless-")
        # Without a name the file cannot be left behind, however the process ends.
        Path(path).unlink()
        weakref.finalize(self, os.close, descriptor)
        return descriptor

    def _write(self, data: bytes | bytearray) -> None:
        assert self._file is not None
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            folder = tempfile.gettempdir()
            raise UserError(
                f"the study's texts do not fit in the temporary folder {folder} ({error.strerror}). Set the "
                "environment variable TMPDIR to a folder with more space"
            ) from error
