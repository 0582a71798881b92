"""Tokenizers on this machine for models on servers: the embedded model's, a file or folder, or one from the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from goldless.errors import ModelSpecError, PrerequisiteError
from goldless.models.chat_layout import ChatLayout, fast_tokenizer
from goldless.models.http_api.scoring import LocalTokenizer
from goldless.models.interface import content_hash
from goldless.models.turn_signs import is_control

FILE = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"


def open_tokenizer(given: str) -> LocalTokenizer:
    """The tokenizer that ``tokenizer=`` names. Raises a UserError if there is none."""
    if given == "embedded":
        from goldless.models.embedded import locate_embedded  # noqa: PLC0415 - loads the engine
        from goldless.models.gguf.model import build_model  # noqa: PLC0415

        built = build_model(locate_embedded())
        return LocalTokenizer(built.layout, built.tokenizer_hash)
    path = Path(given).expanduser()
    if not path.exists():
        path = _from_hub(given)
    file = path / FILE if path.is_dir() else path
    try:
        text = file.read_text(encoding="utf-8")
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # noqa: BLE001 - the library raises plain exceptions
        raise ModelSpecError(
            f"tokenizer must be embedded, a tokenizer.json, a folder with one, or a model of the hub, got {given!r} "
            f"({error})"
        ) from None
    settings, template = _settings(file.parent)
    control = frozenset(
        token["id"]
        for token in json.loads(text).get("added_tokens") or ()
        if is_control(token["content"], template or "", special=token["special"])
    )
    marks = [settings.get(name) or "" for name in ("bos_token", "eos_token")]
    begin, end = (str(mark.get("content") or "") if isinstance(mark, dict) else str(mark) for mark in marks)
    begins = bool(begin) and tokenizer.encode("a").ids[:1] == [tokenizer.token_to_id(begin)]
    layout = ChatLayout(fast_tokenizer(tokenizer, control), template, begin, end, begins)
    return LocalTokenizer(layout, content_hash(text, template))


def _from_hub(name: str) -> Path:
    """The folder of a hub model's tokenizer files, from the local cache or the hub."""
    try:
        from huggingface_hub import snapshot_download  # noqa: PLC0415 - an extra
    except ImportError:
        raise PrerequisiteError(
            f"tokenizer={name}: there is no such file or folder, and a tokenizer from the hub needs huggingface_hub.\n"
            "Install it: pip install 'goldless[hub]'"
        ) from None
    try:
        return Path(snapshot_download(name, allow_patterns=[FILE, SETTINGS, TEMPLATE]))
    except Exception as error:  # noqa: BLE001 - whatever the hub's client raises, the answer is the same
        raise PrerequisiteError(
            f"tokenizer={name}: neither a file or folder here nor found on the hub ({type(error).__name__}). "
            "Give the path of a tokenizer.json or of a folder with one"
        ) from None


def _settings(folder: Path) -> tuple[dict[str, Any], str | None]:
    """The settings beside a tokenizer file, and its chat template."""
    file, separate = folder / SETTINGS, folder / TEMPLATE
    settings = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if separate.is_file():
        return settings, separate.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):  # several, by name
        template = next((one["template"] for one in template if one.get("name") == "default"), None)
    return settings, template
