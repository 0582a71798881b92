"""Weights, tokenizer and settings of a Hugging Face model, from a local folder, the local cache or the hub."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
import transformers

from goldless.errors import CapabilityError, PrerequisiteError
from goldless.models.interface import content_hash
from goldless.models.local_weights.network import short_of_memory
from goldless.models.local_weights.specification import Weights, adapter_folder, written_folder
from goldless.models.local_weights.tokenizer import chat_layout, tokenizer_hash

if TYPE_CHECKING:
    from goldless.models.chat_layout import ChatLayout

WEIGHT_FILES = ("*.safetensors", "*.bin", "*.pt", "*.pth", "config.json")
"""The files that determine a local model's numbers, except its tokenizer."""
PROBE_TEXT = "The quick brown fox jumps over the lazy dog; 12 boxes of liquor jugs were packed for him, he said. "


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model in memory, ready to compute."""

    model: Any
    """The transformers model, on its device."""
    tokenizer: Any
    """Its transformers tokenizer."""
    name: str
    """The name on the hub or of the folder, and the weight format if one was requested."""
    revision: str
    """The commit of a hub model; for a local folder, the hash of its files."""
    layout: ChatLayout
    tokenizer_hash: str
    context_length: int | None
    stop: frozenset[int]
    """End tokens in the model's generation settings."""
    probe: tuple[int, ...]
    """A few ordinary tokens for trying the model."""
    settings: dict[str, str]
    """Device, precision, attention and layout, for the identity."""


def load_checkpoint(
    name_or_path: str,
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    weights: Weights | None = None,
) -> Checkpoint:
    """The model with its tokenizer, on its device. Code that comes with a model is never run."""
    chosen = _device(device)
    source, folder = _source(name_or_path)
    with _explained(name_or_path), _quiet_libraries():
        config = transformers.AutoConfig.from_pretrained(source, revision=revision)
        commit = getattr(config, "_commit_hash", None)
        pinned = commit if folder is None and commit else revision
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, revision=pinned)
        layout = chat_layout(tokenizer)
        precision = dtype or ("float32" if chosen.type == "cpu" else "auto")
        few_bits = None if weights is None else _few_bits(name_or_path, weights, config, chosen, precision)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            source,
            revision=pinned,
            dtype=precision if precision == "auto" else getattr(torch, precision),
            **({} if few_bits is None else {"quantization_config": few_bits.config, "device_map": {"": chosen}}),
            # some releases of transformers leave the cap out of any other attention
            **({"attn_implementation": "eager"} if _caps_attention(config) else {}),
        )
    _check_vocabulary(name_or_path, model, tokenizer)
    # a quantised model was put on its device while it was loaded, and cannot be moved
    if getattr(model, "quantization_method", None) is None:
        model = model.to(chosen)
    _warn_of_slow_precision(name_or_path, model, chosen)
    words = layout.text(PROBE_TEXT)
    return Checkpoint(
        model=model.eval(),
        tokenizer=tokenizer,
        name=(name_or_path if folder is None else folder.name) + (f"?weights={few_bits.way}" if few_bits else ""),
        revision=str(pinned or "") if folder is None else folder_hash(folder),
        layout=layout,
        tokenizer_hash=tokenizer_hash(tokenizer),
        context_length=getattr(model.config.get_text_config(), "max_position_embeddings", None),
        stop=_stop_tokens(model),
        probe=words or (0,),
        settings={
            "device": chosen.type,
            "dtype": str(model.dtype).removeprefix("torch."),
            "attention": str(getattr(model.config, "_attn_implementation", None) or "model's own"),
            "layout": layout.name,
            **({} if few_bits is None else {"weights": few_bits.description}),
        },
    )


def _few_bits(name_or_path: str, weights: Weights, config: Any, device: torch.device, precision: str) -> Quantisation:
    """The requested weight format. Raises if the weights are already quantised."""
    if getattr(config, "quantization_config", None) is not None:
        raise CapabilityError(
            f"hf:{name_or_path}: its weights were saved quantised. Leave out ?weights={weights}, or use the "
            "original model"
        )
    saved = getattr(config, "dtype", None)
    own = saved if isinstance(saved, torch.dtype) else torch.bfloat16
    return quantisation(weights, device=device, precision=own if precision == "auto" else getattr(torch, precision))


def folder_hash(folder: Path, patterns: Sequence[str] = WEIGHT_FILES) -> str:
    """Hash over names and whole contents of a folder's weight files and its config.

    Samples would be faster, but a merged fine-tuning may differ from its base in only a few layers, and two models
    must never share their evidence.
    """
    files = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    with ThreadPoolExecutor(4) as threads:
        return content_hash([path.name for path in files], list(threads.map(_file_hash, files)))


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _warn_of_slow_precision(name_or_path: str, model: Any, device: torch.device) -> None:
    """Warn once, instead of torch at the first product, that a processor has no bfloat16 arithmetic."""
    if device.type != "cpu" or model.dtype != torch.bfloat16 or torch.ops.mkldnn._is_mkldnn_bf16_supported():  # noqa: SLF001
        return
    warnings.filterwarnings("ignore", message=".*bf16 path needs a cpu with bf16 support")
    warnings.warn(
        f"hf:{name_or_path}: this processor has no bfloat16 arithmetic, so dtype=bfloat16 is emulated and slow. "
        "Leave out dtype for float32",
        stacklevel=2,
    )


def _device(device: str | None) -> torch.device:
    cuda = torch.cuda.is_available()
    try:
        chosen = torch.device(device or ("cuda" if cuda else "cpu"))
    except RuntimeError as error:
        raise PrerequisiteError(f"unknown torch device {device!r}. Use cpu or cuda") from error
    if chosen.type == "cuda" and not cuda:
        raise PrerequisiteError("torch finds no CUDA device on this machine. Use the CPU: hf:NAME?device=cpu")
    # torch itself takes cuda:256 for cuda:0
    number = (device or "").partition(":")[2]
    if number and chosen.type != "cuda":
        raise PrerequisiteError(f"device {device!r}: only cuda devices have a number. Use {chosen.type}")
    if number and int(number) >= torch.cuda.device_count():
        known = ", ".join(f"cuda:{i}" for i in range(torch.cuda.device_count()))
        raise PrerequisiteError(f"no device {device!r}; torch finds {known}")
    return chosen


def _source(name_or_path: str) -> tuple[str, Path | None]:
    """What transformers should load, and the folder if it is a local one."""
    path = written_folder(name_or_path)
    if path.is_dir():
        if not (path / "config.json").is_file():
            adapter = f". It is an adapter, which needs its base: hf:BASE+{name_or_path}"
            hint = "" if adapter_folder(name_or_path) is None else adapter
            raise PrerequisiteError(
                f"hf:{name_or_path}: this folder has no config.json, so it is not a saved model{hint}"
            )
        return str(path), path.resolve()
    if path.suffix == ".gguf":
        raise PrerequisiteError(f"hf:{name_or_path}: open a GGUF file with gguf:{name_or_path}")
    if path.is_file() or path.is_absolute() or name_or_path.startswith((".", "~")) or name_or_path.count("/") > 1:
        raise PrerequisiteError(
            f"hf:{name_or_path}: no such folder. A local model is a folder with config.json, weights and "
            "tokenizer; a hub model is named OWNER/MODEL"
        )
    return name_or_path, None


@contextlib.contextmanager
def _explained(name_or_path: str) -> Iterator[None]:
    """Turn what transformers raises while loading into errors that say what to do."""
    try:
        yield
    except OSError as error:
        what_to_do = (
            "the folder is incomplete"
            if Path(name_or_path).expanduser().is_dir()
            else (
                "not a folder, not in the local Hugging Face cache, and not available from the hub. Check the name; "
                f"without a network, run 'hf download {name_or_path}' on a machine that has one (gated models need "
                "HF_TOKEN)"
            )
        )
        raise PrerequisiteError(f"hf:{name_or_path}: {what_to_do}. transformers says: {_first_line(error)}") from error
    except ImportError as error:
        raise PrerequisiteError(f"hf:{name_or_path}: loading needs another package: {_first_line(error)}") from error
    except (ValueError, KeyError, RuntimeError) as error:
        if short_of_memory(error):
            raise
        raise CapabilityError(
            f"hf:{name_or_path}: not a causal language model that transformers {transformers.__version__} can load "
            f"(code that comes with a model is never run): {_first_line(error)}"
        ) from error


@contextlib.contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Silence the weights' progress bar and retries of the hub: printing is the command line's job.

    Downloads still show their bars.
    """
    shown = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    hub = logging.getLogger("huggingface_hub")
    level = hub.level
    hub.setLevel(logging.ERROR)
    try:
        yield
    finally:
        hub.setLevel(level)
        if shown:
            transformers.utils.logging.enable_progress_bar()


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _check_vocabulary(name_or_path: str, model: Any, tokenizer: Any) -> None:
    known, largest = model.get_input_embeddings().weight.shape[0], max(tokenizer.get_vocab().values(), default=-1)
    if largest >= known:
        raise CapabilityError(
            f"hf:{name_or_path}: the tokenizer returns ids up to {largest}, but the model has only {known} tokens. "
            "This is not the model's tokenizer"
        )


def _caps_attention(config: Any) -> bool:
    """Whether the model caps the logits of its attention, as Gemma 2 does."""
    return getattr(config.get_text_config(), "attn_logit_softcapping", None) is not None


def _stop_tokens(model: Any) -> frozenset[int]:
    end = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    return frozenset(end if isinstance(end, list) else [] if end is None else [end])


# --- weights in few bits -----------------------------------------------------------------------------------------

Way = Literal["nf4", "int4", "int8", "llm-int8"]
"""Other weight formats give other numbers, so a model's name includes the format."""


@dataclass(frozen=True, slots=True)
class Quantisation:
    """One weight format in few bits, in transformers' form."""

    way: Way
    description: str
    """Description, with the package and its version."""
    config: Any
    """The quantisation config of transformers."""


@dataclass(frozen=True, slots=True)
class _Kind:
    package: str
    words: str
    on_processor: bool
    """Whether it also works without a CUDA device."""
    config: Callable[[Any], Any]
    """Makes the config from the compute precision."""


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
    return lambda _: transformers.TorchAoConfig(getattr(importlib.import_module("torchao.quantization"), name)())


KINDS: Mapping[Way, _Kind] = {
    "nf4": _Kind("bitsandbytes", "4-bit NormalFloat", on_processor=True, config=_nf4),
    "int4": _Kind("torchao", "4-bit integers", on_processor=False, config=_torchao("Int4WeightOnlyConfig")),
    "int8": _Kind("torchao", "8-bit integers", on_processor=True, config=_torchao("Int8WeightOnlyConfig")),
    "llm-int8": _Kind("bitsandbytes", "8-bit integers, activations too", on_processor=False, config=_llm_int8),
}
# LLM.int8() also rounds what flows through the model, by what else is in the batch: it comes second
CHOICES: Mapping[str, tuple[Way, ...]] = {"4bit": ("nf4", "int4"), "8bit": ("int8", "llm-int8")}


def quantisation(weights: Weights, *, device: Any, precision: Any) -> Quantisation:
    """The requested weight format. Raises PrerequisiteError if its package or device is missing."""
    asked: tuple[Way, ...] = CHOICES.get(weights) or (weights,)  # type: ignore[assignment]
    usable = [way for way in asked if KINDS[way].on_processor or device.type == "cuda"]
    if not usable:
        raise PrerequisiteError(
            f"weights={weights} ({KINDS[asked[0]].words}) needs a CUDA device, and the model is on {device.type}. "
            "Elsewhere use weights=8bit with torchao or weights=4bit with bitsandbytes"
        )
    way = next((way for way in usable if find_spec(KINDS[way].package) is not None), None)
    if way is None:
        packages = " or ".join(dict.fromkeys(KINDS[way].package for way in usable))
        raise PrerequisiteError(
            f"weights={weights} needs {packages}, which is not installed. Run: pip install {KINDS[usable[0]].package}"
        )
    kind = KINDS[way]
    try:
        config = kind.config(precision)
    except (ImportError, AttributeError, RuntimeError) as error:
        raise PrerequisiteError(
            f"weights={weights}: the installed {kind.package} {_version(kind.package)} does not work with torch "
            f"{torch.__version__} ({error}). Run: pip install -U {kind.package}"
        ) from error
    return Quantisation(way, f"{kind.words} by {kind.package} {_version(kind.package)}", config)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"
