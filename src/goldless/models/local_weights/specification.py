"""``hf:`` specifications: a base model, an optional adapter, and options.

``BASE``, ``BASE+ADAPTER``, each optionally followed by ``?weights=4bit`` or the like; options are joined by ``&``.
Names
on the hub contain neither ``+`` nor ``?``, but paths may: a folder that exists exactly as written is used.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from goldless.errors import ModelSpecError, nearest

Weights = Literal["4bit", "8bit", "nf4", "int4", "int8", "llm-int8"]
"""How many bits a weight is kept in, or exactly how: ``4bit`` and ``8bit`` use what is installed."""
Precision = Literal["float32", "bfloat16", "float16"]
"""The compute precision."""
Sharing = Literal["auto", "packed", "cached"]
"""``packed``: many branches in one sequence under a tree mask; ``cached``: node by node, each under the keys and values
of its path; ``auto``: packed on a GPU, cached elsewhere.
"""
WEIGHTS: tuple[str, ...] = get_args(Weights)
KNOWN: Mapping[str, tuple[str, ...]] = {
    "weights": WEIGHTS,
    "dtype": get_args(Precision),
    "device": ("cpu", "cuda"),
    "sharing": get_args(Sharing),
}
"""The options with their values; a device may have a number, as in ``cuda:1``."""
ADAPTER_CONFIG = "adapter_config.json"
TRAINING_PLAN = "plan.json"
"""The first file that a training writes into the folder of its adapter."""
OTHER_WORDS = {"gpu": "cuda"}
"""Common spellings of values."""
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES})


@dataclass(frozen=True, slots=True)
class HfSpecification:
    """A model as written after ``hf:``."""

    base: str
    """A name on the hub or a folder."""
    adapter: str | None = None
    """A folder."""
    weights: Weights | None = None
    """None: as the model was saved."""
    dtype: Precision | None = None
    """None: the checkpoint's own on a GPU, float32 elsewhere."""
    device: str | None = None
    """None: a GPU if there is one."""
    sharing: Sharing | None = None
    """None: ``auto``."""

    def __str__(self) -> str:
        """The same as text."""
        adapter = "" if self.adapter is None else f"+{self.adapter}"
        options = [f"{name}={value}" for name in KNOWN if (value := getattr(self, name)) is not None]
        return f"{self.base}{adapter}" + (f"?{'&'.join(options)}" if options else "")


def parse_specification(text: str) -> HfSpecification:
    """Parse the text after ``hf:``. Raises ModelSpecError if it is invalid or ambiguous."""
    if _is_folder(text):
        return HfSpecification(text)
    model, options = _options(text)
    if "+" not in model or _is_folder(model):
        written_folder(model)
        if "?" in model and not _is_folder(model):
            raise ModelSpecError(
                f"hf:{text}: no such folder, and a name on the hub has no question mark. Options follow it, such "
                "as ?weights=4bit; leave it out if there are none"
            )
        return HfSpecification(model, **options)
    cuts = [(model[:i], model[i + 1 :]) for i, sign in enumerate(model) if sign == "+"]
    found = [(base, adapter) for base, adapter in cuts if _is_base(base) and adapter_folder(adapter) is not None]
    if len(found) > 1:
        ways = "; ".join(f"{base} with {adapter}" for base, adapter in found)
        raise ModelSpecError(f"hf:{text} is ambiguous: {ways}. Rename one of the folders")
    if found:
        return HfSpecification(*found[0], **options)
    raise ModelSpecError(f"hf:{text}: {_what_is_wrong(cuts)}")


def adapter_folder(written: str) -> Path | None:
    """The folder of an adapter: the one written, or ``adapter`` in it; None if neither is one."""
    if not _is_folder(written):
        return None
    folder = Path(written).expanduser()
    return next((f for f in (folder, folder / "adapter") if (f / ADAPTER_CONFIG).is_file()), None)


def written_folder(written: str) -> Path:
    """The path as written, which need not exist. Raises ModelSpecError if it is not a valid path."""
    try:
        path = Path(written).expanduser()
    except RuntimeError as error:
        user = written.partition("/")[0]
        raise ModelSpecError(
            f"hf:{written}: there is no user {user[1:]!r} on this machine, so {user} is not a folder"
        ) from error
    try:
        path.stat()
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) not in ABSENT:
            shown = written if len(written) <= 60 else f"{written[:60]}…"
            said = getattr(error, "strerror", None) or error
            raise ModelSpecError(f"hf:{shown}: not a folder and not a name on the hub ({said})") from error
    return path


def _options(text: str) -> tuple[str, dict[str, Any]]:
    """The model without its options, and the options."""
    model, sign, behind = text.rpartition("?")
    if not sign or not behind:
        return text, {}
    parts = behind.split("&")
    if not any("=" in part or _named_by(part) for part in parts):
        return text, {}
    found: dict[str, Any] = {}
    for part in parts:
        name, value = _option(text, part)
        if name in found:
            raise ModelSpecError(f"hf:{text}: the option {name} is given twice")
        found[name] = value
    if model.rpartition("?")[2].partition("=")[0] in KNOWN:
        raise ModelSpecError(f"hf:{text}: join options with &, not with another ?")
    if not model:
        raise ModelSpecError(f"hf:{text}: the model is missing. Write hf:NAME_OR_PATH?{behind}")
    return model, found


def _option(text: str, part: str) -> tuple[str, str]:
    """One option's name and its value."""
    name, equals, value = part.partition("=")
    if not equals and (meant := _named_by(part)):
        raise ModelSpecError(f"hf:{text}: write ?{meant}={part}")
    if name not in KNOWN:
        raise ModelSpecError(
            f"hf:{text}: unknown option {name!r}{nearest(name, KNOWN) or '.'} Known: {', '.join(KNOWN)}, such as "
            "?weights=4bit or ?device=cpu&dtype=bfloat16"
        )
    word, colon, number = value.partition(":") if name == "device" else (value, "", "")
    if word not in KNOWN[name] or (colon and not number.isdecimal()):
        raise ModelSpecError(
            f"hf:{text}: {name} cannot be {value!r}{nearest(OTHER_WORDS.get(word, value), KNOWN[name]) or '.'} "
            f"Known: {', '.join(KNOWN[name])}; leave out the option for the default"
        )
    return name, value


def _named_by(value: str) -> str | None:
    """The option that has this value."""
    return next((name for name, values in KNOWN.items() if value.partition(":")[0] in values), None)


def _is_base(written: str) -> bool:
    return _is_folder(written) or HUB_NAME.fullmatch(written) is not None


def _what_is_wrong(cuts: list[tuple[str, str]]) -> str:
    """Which half is missing, and what to do."""
    known = [adapter for base, adapter in cuts if _is_base(base)]
    adapter = next(filter(_is_folder, known), known[0] if known else "")
    if _is_folder(adapter) and (Path(adapter).expanduser() / TRAINING_PLAN).is_file():
        return f"the training in {adapter} is not finished. Run the same goldless finetune command again to continue it"
    if not known:
        wrong = f"{cuts[0][0]!r} is not a folder and not a name on the hub"
    elif not any(known):
        wrong = "no adapter after the +"
    elif not _is_folder(adapter):
        wrong = f"no such folder: {adapter}"
    else:
        wrong = f"{adapter} has no {ADAPTER_CONFIG}, so it is not an adapter"
    return f"{wrong}. Write hf:BASE+ADAPTER, where ADAPTER is a folder"


def _is_folder(written: str) -> bool:
    """Whether this is a folder; False for what is not even a valid path."""
    try:
        return Path(written).expanduser().is_dir()
    except (OSError, RuntimeError, ValueError):
        return False


def sharing_word(settings: Mapping[str, str]) -> str | None:
    """The kind of sharing in an identity's settings, in one word for signatures; None if unknown.

    ``none``: every text is computed from its beginning.
    """
    words = {"packed prefix tree": "packed", "prefix tree": "cached", "none": "none"}
    told = settings.get("sharing", "").partition(";")[0].partition(":")[0]
    return words.get(told)
