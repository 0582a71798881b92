"""Run folders from elsewhere: a folder, an archive, or the address of one. Nothing in them is run or trusted."""

from __future__ import annotations

import contextlib
import lzma
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from goldless.errors import UserError
from goldless.runs.store import MADE_BY

ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar")
MOST_BYTES = 4 << 30
"""The most that an archive may hold, unpacked."""
SECONDS = 60
"""Longest silence of a server."""


@contextlib.contextmanager
def published_run(given: str) -> Iterator[Path]:
    """The run folder at a path or address, for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="goldless-replay-") as room:
        if given.startswith(("https://", "http://")):
            yield _run_in(_unpacked(_fetched(given, Path(room)), Path(room) / "run"), given)
            return
        path = Path(given)
        if path.is_dir():
            yield path
        elif path.is_file():
            yield _run_in(_unpacked(path, Path(room) / "run"), given)
        else:
            raise UserError(f"{given}: no such folder or archive. Give a run folder, an archive of one, or its address")


def _fetched(address: str, room: Path) -> Path:
    """The archive at an address."""
    name = address.partition("?")[0].rstrip("/").rpartition("/")[2]
    file = room / (name or "run")
    try:
        with urllib.request.urlopen(address, timeout=SECONDS) as reply, file.open("wb") as kept:  # noqa: S310 - http(s)
            left = MOST_BYTES
            while block := reply.read(1 << 20):
                left -= len(block)
                if left < 0:
                    raise UserError(
                        f"{address}: larger than {MOST_BYTES >> 30} GB. Unpack it yourself, and give the folder"
                    )
                kept.write(block)
    except (urllib.error.URLError, OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it is the server's reply, whose connection is still open
        raise UserError(f"{address}: cannot be fetched ({error}). Fetch it yourself, and give its path") from error
    return file


def _unpacked(archive: Path, folder: Path) -> Path:
    """An archive, unpacked: plain files below the folder alone, and no more than allowed."""
    folder.mkdir()
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                _check_size(archive, sum(one.file_size for one in packed.infolist()))
                packed.extractall(folder)  # noqa: S202 - drops what leads outside; links become plain files
        elif tarfile.is_tarfile(archive):
            _untar(archive, folder)
        else:
            raise UserError(f"{archive.name}: not an archive ({', '.join(ARCHIVES)}). Give a run folder or its archive")
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, ValueError, EOFError, OSError) as error:
        raise UserError(f"{archive.name}: cannot be unpacked ({error}). Fetch it again") from error
    return folder


def _untar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        _check_size(archive, sum(one.size for one in packed))
        for one in packed:  # extractall has no filter before Python 3.11.4
            place = (folder / one.name).resolve()
            content = packed.extractfile(one) if one.isfile() and place.is_relative_to(folder.resolve()) else None
            if content is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                with content, place.open("wb") as file:
                    shutil.copyfileobj(content, file)
        while packed.fileobj is not None and packed.fileobj.read(1 << 20):
            continue  # to the end, where gzip has its checksum


def _check_size(archive: Path, size: int) -> None:
    if size > MOST_BYTES or size > shutil.disk_usage(archive.parent).free:
        raise UserError(f"{archive.name}: {size / 1e9:.1f} GB unpacked, which is more than is allowed or free here")


def _run_in(folder: Path, given: str) -> Path:
    """The run folder in an unpacked archive: itself, or the only one in it."""
    found = sorted({path.parent for path in folder.rglob(MADE_BY)}, key=lambda path: (len(path.parts), path))
    if len(found) != 1:
        listed = ", ".join(str(path.relative_to(folder)) for path in found) or "none"
        raise UserError(f"{given}: must hold one run folder (with {MADE_BY}), got {len(found)}: {listed}")
    return found[0]
