"""Weights kept in fewer bits than they were saved in: which ways there are, and what each needs.

Another way of keeping weights gives other numbers, so a model's name says which one it is.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Literal

import torch
import transformers

from goldless.errors import PrerequisiteError
from goldless.models.local_weights.specification import Weights

Way = Literal["nf4", "int4", "int8", "llm-int8"]


@dataclass(frozen=True, slots=True)
class Quantisation:
    """One way to keep weights in few bits, ready to be handed to transformers."""

    way: Way
    description: str
    """In words, with the package and its version."""
    config: Any
    """The quantisation config of transformers."""


@dataclass(frozen=True, slots=True)
class _Kind:
    package: str
    words: str
    on_processor: bool
    """Whether it also computes without a CUDA device."""
    config: Callable[[Any], Any]
    """From the precision that is computed in."""


def _nf4(precision: Any) -> Any:
    # the paper's base was a file of this kind: NF4 with its scales quantised again
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=precision,
    )


def _llm_int8(_: Any) -> Any:
    return transformers.BitsAndBytesConfig(load_in_8bit=True)


def _torchao(name: str) -> Callable[[Any], Any]:
    def config(_: Any) -> Any:
        return transformers.TorchAoConfig(getattr(importlib.import_module("torchao.quantization"), name)())

    return config


KINDS: Mapping[Way, _Kind] = {
    "nf4": _Kind("bitsandbytes", "4-bit NormalFloat", on_processor=True, config=_nf4),
    "int4": _Kind("torchao", "4-bit integers", on_processor=False, config=_torchao("Int4WeightOnlyConfig")),
    "int8": _Kind("torchao", "8-bit integers", on_processor=True, config=_torchao("Int8WeightOnlyConfig")),
    "llm-int8": _Kind("bitsandbytes", "8-bit integers, activations too", on_processor=False, config=_llm_int8),
}
# LLM.int8() also rounds what flows through the model, by what else is in the batch: it comes second
CHOICES: Mapping[str, tuple[Way, ...]] = {"4bit": ("nf4", "int4"), "8bit": ("int8", "llm-int8")}


def quantisation(weights: Weights, *, device: Any, precision: Any) -> Quantisation:
    """The way to keep weights that was asked for. Raises PrerequisiteError where its package or device is missing."""
    asked: tuple[Way, ...] = CHOICES.get(weights) or (weights,)  # type: ignore[assignment]
    usable = [way for way in asked if KINDS[way].on_processor or device.type == "cuda"]
    if not usable:
        raise PrerequisiteError(
            f"weights={weights} ({KINDS[asked[0]].words}) is computed on CUDA devices only, and the model is on "
            f"{device.type}. Elsewhere: weights=8bit with torchao, weights=4bit with bitsandbytes."
        )
    way = next((way for way in usable if find_spec(KINDS[way].package) is not None), None)
    if way is None:
        packages = " or ".join(dict.fromkeys(KINDS[way].package for way in usable))
        raise PrerequisiteError(
            f"weights={weights} needs {packages}, which is not installed: pip install {KINDS[usable[0]].package}"
        )
    kind = KINDS[way]
    try:
        config = kind.config(precision)
    except (ImportError, AttributeError, RuntimeError) as error:
        raise PrerequisiteError(
            f"weights={weights}: the installed {kind.package} {_version(kind.package)} cannot be used with "
            f"torch {torch.__version__} ({error}): pip install -U {kind.package}"
        ) from error
    return Quantisation(way, f"{kind.words} by {kind.package} {_version(kind.package)}", config)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"
