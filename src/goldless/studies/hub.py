"""Files of datasets on the Hugging Face Hub, by ``hf://datasets/OWNER/NAME[@REVISION][/FILE]``; kept in its cache."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from goldless.errors import PrerequisiteError, UserError, listed
from goldless.studies.tables import SINGLE

PREFIX = "hf://"
ADDRESS = re.compile(r"hf://datasets/(?P<name>[^/@]+/[^/@]+)(?:@(?P<revision>[^/]+))?(?:/(?P<file>.+))?")


def hub_files(address: str) -> list[Path]:
    """The files of an address, downloaded if they are not in the cache; ``FILE`` may have wildcards."""
    found = ADDRESS.fullmatch(address.rstrip("/"))
    if found is None:
        raise UserError(f"a dataset must be hf://datasets/OWNER/NAME or hf://datasets/OWNER/NAME/FILE, got {address!r}")
    try:
        from huggingface_hub import HfApi, snapshot_download  # noqa: PLC0415 - an extra
        from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415
    except ImportError as error:
        raise PrerequisiteError(f"{address} needs huggingface_hub: pip install 'goldless[hub]'") from error
    name, revision, file = found["name"], found["revision"], found["file"]
    given: dict[str, Any] = {"repo_id": name, "repo_type": "dataset", "revision": revision}
    try:
        there = HfApi().list_repo_files(**given)
        files = _chosen(there, name, file)
        folder = Path(snapshot_download(**given, allow_patterns=files))
    except UserError:
        raise
    except HfHubHTTPError as error:
        said = str(error).strip().splitlines()[-1]
        raise UserError(f"{name} cannot be read from the Hub: {said}. Private datasets need: hf auth login") from error
    except Exception as error:  # noqa: BLE001 - of several HTTP clients
        # The Hub cannot be reached, in whichever way the client says it: what is in the cache is enough.
        try:
            wanted = [file] if file else [f"*{suffix}" for suffix in SINGLE]
            folder = Path(snapshot_download(**given, allow_patterns=wanted, local_files_only=True))
        except Exception:  # noqa: BLE001
            raise UserError(
                f"the Hub cannot be reached ({type(error).__name__}), and {name} is not in the cache. Connect once, or "
                f"copy the files here and give their paths"
            ) from error
        cached = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
        files = _chosen(sorted(cached), name, file)
    return [folder / one for one in files]


def _chosen(there: list[str], name: str, file: str | None) -> list[str]:
    tables = [one for one in there if Path(one).suffix.lower() in SINGLE]
    files = [one for one in tables if fnmatch(one, file)] if file else tables
    if not files:
        raise UserError(f"{name} has no file {file or 'with a table'}. Its tables: {listed(tables) or 'none'}")
    if file is None and len(files) > 1:
        raise UserError(f"{name} has {len(files)} tables: {listed(tables)}. Choose with hf://datasets/{name}/FILE")
    return files
