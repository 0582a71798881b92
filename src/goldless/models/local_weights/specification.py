"""What stands behind ``hf:``: a base model, an adapter on it where there is one, and how its weights are kept.

``BASE``, ``BASE+ADAPTER``, each with ``?weights=4bit`` or the like behind it. Names on the hub hold neither ``+`` nor
``?``, but paths may: a folder that exists as it is written is taken as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from goldless.errors import ModelSpecError, nearest

Weights = Literal["4bit", "8bit", "nf4", "int4", "int8", "llm-int8"]
"""How many bits a weight is kept in, or exactly how: ``4bit`` and ``8bit`` take what is installed."""
WEIGHTS: tuple[str, ...] = get_args(Weights)
ADAPTER_CONFIG = "adapter_config.json"
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class HfSpecification:
    """A model as it is written behind ``hf:``."""

    base: str
    """A name on the hub or a folder."""
    adapter: str | None = None
    """A folder."""
    weights: Weights | None = None
    """None: as the model was saved."""

    def __str__(self) -> str:
        """The same as text."""
        adapter = "" if self.adapter is None else f"+{self.adapter}"
        return f"{self.base}{adapter}" + ("" if self.weights is None else f"?weights={self.weights}")


def parse_specification(text: str) -> HfSpecification:
    """The model that stands behind ``hf:``. Raises ModelSpecError where it can be read in no way, or in two."""
    if _folder(text).is_dir():
        return HfSpecification(text)
    model, weights = _weights(text)
    if "+" not in model or _folder(model).is_dir():
        return HfSpecification(model, weights=weights)
    cuts = [(model[:i], model[i + 1 :]) for i, sign in enumerate(model) if sign == "+"]
    found = [(base, adapter) for base, adapter in cuts if _is_base(base) and adapter_folder(adapter) is not None]
    if len(found) > 1:
        ways = "; ".join(f"{base} with {adapter}" for base, adapter in found)
        raise ModelSpecError(f"hf:{text}: this can be read in more than one way: {ways}. Rename one of the folders.")
    if found:
        return HfSpecification(*found[0], weights=weights)
    raise ModelSpecError(f"hf:{text}: {_what_is_wrong(cuts)} Write hf:BASE+ADAPTER, where ADAPTER is a folder.")


def adapter_folder(written: str) -> Path | None:
    """The folder that holds an adapter: the one written, or ``adapter`` in it; None where neither does."""
    folder = _folder(written)
    return next((f for f in (folder, folder / "adapter") if (f / ADAPTER_CONFIG).is_file()), None)


def _weights(text: str) -> tuple[str, Weights | None]:
    """The model without its options, and the weights asked for."""
    model, sign, option = text.rpartition("?")
    name, equals, value = option.partition("=")
    if not sign or not equals:
        return text, None
    if name != "weights":
        raise ModelSpecError(f"hf:{text}: unknown option {name!r}; only weights is known, such as ?weights=4bit")
    if value not in WEIGHTS:
        raise ModelSpecError(
            f"hf:{text}: weights cannot be kept as {value!r}{nearest(value, WEIGHTS) or '.'} "
            f"Known: {', '.join(WEIGHTS)}; leave the option out for the model's own."
        )
    if not model:
        raise ModelSpecError(f"hf:{text}: no model is named; write hf:NAME_OR_PATH?weights={value}")
    return model, value  # type: ignore[return-value]


def _is_base(written: str) -> bool:
    return _folder(written).is_dir() or HUB_NAME.fullmatch(written) is not None


def _what_is_wrong(cuts: list[tuple[str, str]]) -> str:
    """Which half of what was written is not there."""
    known = [adapter for base, adapter in cuts if _is_base(base)]
    if not known:
        return f"{cuts[0][0]!r} is neither a folder nor a name on the hub."
    if not any(known):
        return "no adapter is named behind the +."
    return f"{known[0]} holds no {ADAPTER_CONFIG}, so it is no adapter."


def _folder(written: str) -> Path:
    return Path(written).expanduser()
