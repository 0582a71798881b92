from __future__ import annotations

import errno
import gc
import os

import pytest

from goldless.errors import UserError
from goldless.studies.spool import Spool


def test_what_was_appended_is_read_back_from_memory_and_from_disk():
    spool = Spool(memory_bytes=10)
    first = spool.append(b"12345")
    assert spool._file is None
    second = spool.append("äöü".encode())
    third = spool.append(b"")
    assert spool._file is not None
    assert (first, second, third) == (0, 5, 11)
    assert spool.read(second, 6).decode() == "äöü"
    assert spool.read(first, 5) == b"12345"
    assert spool.read(third, 0) == b""


def test_the_file_has_no_name_and_is_closed_with_the_spool(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spool = Spool(memory_bytes=0)
    spool.append(b"x")
    descriptor = spool._file
    assert list(tmp_path.iterdir()) == []
    os.fstat(descriptor)
    del spool
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_full_disk_names_the_folder_and_the_setting(monkeypatch):
    spool = Spool(memory_bytes=0)

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(UserError, match="TMPDIR"):
        spool.append(b"x")
