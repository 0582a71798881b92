"""Weights, tokenizer and settings of a Hugging Face model, from a local folder, the local cache or the hub."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import transformers

from goldless.errors import CapabilityError, PrerequisiteError
from goldless.models.interface import ModelIdentity, content_hash
from goldless.models.local_weights.network import short_of_memory
from goldless.models.local_weights.specification import HUB_NAME, HfSpecification, Weights, adapter_folder, is_folder
from goldless.models.local_weights.tokenizer import chat_layout, tokenizer_hash

if TYPE_CHECKING:
    from goldless.models.chat_layout import ChatLayout

WEIGHT_FILES = ("*.safetensors", "*.bin", "*.pt", "*.pth", "config.json")
"""The files that determine a local model's numbers, except its tokenizer."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model in memory, ready to compute."""

    model: Any
    """The transformers model, on its device."""
    tokenizer: Any
    """Its transformers tokenizer."""
    layout: ChatLayout
    identity: ModelIdentity
    """By its name on the hub or that of its folder, with the weight format if one was requested; the revision is the
    commit of a hub model, or the hash of a folder's files.
    """


def load_checkpoint(wanted: HfSpecification) -> Checkpoint:
    """The base with its tokenizer, on its device. Code that comes with a model is never run."""
    chosen, folder = _device(wanted.device), _folder(wanted.base)
    source = wanted.base if folder is None else str(folder)
    with _explained(wanted.base), _quiet_libraries():
        config = transformers.AutoConfig.from_pretrained(source)
        pinned = getattr(config, "_commit_hash", None) if folder is None else None
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, revision=pinned)
        few_bits = None if wanted.weights is None else quantisation(wanted.weights, config, chosen, wanted.dtype)
        model = _loaded(source, config, chosen, revision=pinned, dtype=wanted.dtype, few_bits=few_bits)
    known, largest = model.get_input_embeddings().weight.shape[0], max(tokenizer.get_vocab().values(), default=-1)
    if largest >= known:
        raise CapabilityError(
            f"hf:{wanted.base}: the tokenizer returns ids up to {largest}, but the model has only {known} tokens. "
            "This is not the model's tokenizer"
        )
    layout = chat_layout(tokenizer)
    identity = ModelIdentity(
        provider="hf",
        name=(wanted.base if folder is None else folder.name) + (f"?weights={few_bits.way}" if few_bits else ""),
        revision=str(pinned or "") if folder is None else folder_hash(folder),
        tokenizer=tokenizer_hash(tokenizer),
        settings={
            "device": chosen.type,
            "dtype": str(model.dtype).removeprefix("torch."),
            "attention": str(getattr(model.config, "_attn_implementation", None) or "model's own"),
            "layout": layout.name,
            **({} if few_bits is None else {"weights": few_bits.description}),
        },
    )
    return Checkpoint(model.eval(), tokenizer, layout, identity)


def _loaded(
    source: str,
    config: Any,
    device: torch.device,
    *,
    revision: str | None,
    dtype: str | None,
    few_bits: Quantisation | None,
) -> Any:
    """The transformers model on its device."""
    precision = dtype or ("float32" if device.type == "cpu" else "auto")
    options: dict[str, Any] = {}
    if few_bits is not None:
        options = {"quantization_config": few_bits.config, "device_map": {"": device}}
    if getattr(config.get_text_config(), "attn_logit_softcapping", None) is not None:
        # some releases of transformers leave the cap of Gemma 2 out of any other attention
        options["attn_implementation"] = "eager"
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source, revision=revision, dtype=precision if precision == "auto" else getattr(torch, precision), **options
    )
    # a quantised model was put on its device while it was loaded, and cannot be moved
    if getattr(model, "quantization_method", None) is None:
        model = model.to(device)
    bfloat16_on_cpu = device.type == "cpu" and model.dtype == torch.bfloat16
    if bfloat16_on_cpu and not torch.ops.mkldnn._is_mkldnn_bf16_supported():  # noqa: SLF001
        # once, instead of torch's own warning at the first product
        warnings.filterwarnings("ignore", message=".*bf16 path needs a cpu with bf16 support")
        warnings.warn(
            f"hf:{source}: this processor has no bfloat16 arithmetic, so dtype=bfloat16 is emulated and slow. Leave "
            "out dtype for float32",
            stacklevel=2,
        )
    return model


def folder_hash(folder: Path, patterns: Sequence[str] = WEIGHT_FILES) -> str:
    """Hash over names and whole contents of a folder's weight files and its config.

    Samples would be faster, but a merged fine-tuning may differ from its base in only a few layers, and two models
    must never share their evidence.
    """
    files = sorted({path for pattern in patterns for path in folder.glob(pattern)})

    def digest(path: Path) -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    with ThreadPoolExecutor(4) as threads:
        return content_hash([path.name for path in files], list(threads.map(digest, files)))


def _device(device: str | None) -> torch.device:
    cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
    known = ["cpu", *(["cuda"] if cards else []), *(f"cuda:{i}" for i in range(cards))]
    if device is not None and device not in known:
        raise PrerequisiteError(
            f"device must be {' or '.join(known)} on this machine (torch finds {cards or 'no'} CUDA devices), got "
            f"{device!r}. Leave it out for the fastest"
        )
    return torch.device(device or ("cuda" if cards else "cpu"))


def _folder(name_or_path: str) -> Path | None:
    """The folder of a local model, None for a name on the hub. Raises if it is neither."""
    path = Path(name_or_path)
    if is_folder(name_or_path) and (path.expanduser() / "config.json").is_file():
        return path.expanduser().resolve()
    if HUB_NAME.fullmatch(name_or_path) and not path.exists() and path.suffix != ".gguf":
        return None
    hint = "" if adapter_folder(name_or_path) is None else f". It is an adapter: write hf:BASE+{name_or_path}"
    hint = f". Open a GGUF file with gguf:{name_or_path}" if path.suffix == ".gguf" else hint
    raise PrerequisiteError(
        f"hf:{name_or_path}: a model must be a folder with config.json, weights and tokenizer, or OWNER/MODEL on the "
        f"hub{hint}"
    )


@contextlib.contextmanager
def _explained(name_or_path: str) -> Iterator[None]:
    """Turn what transformers raises while loading into an error that says what to do."""
    try:
        yield
    except (OSError, ImportError, ValueError, KeyError, RuntimeError) as error:
        if short_of_memory(error):
            raise
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise PrerequisiteError(
            f"hf:{name_or_path}: transformers {transformers.__version__} cannot load this as a causal language model "
            f"({line}). A folder must be complete, and code that comes with a model is never run; for a name on the "
            f"hub, check it, and without a network run 'hf download {name_or_path}' on a machine that has one (gated "
            "models need HF_TOKEN)"
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


# --- weights in few bits -----------------------------------------------------------------------------------------

FORMATS = {
    "nf4": ("bitsandbytes", "4-bit NormalFloat", True),
    "int4": ("torchao", "4-bit integers", False),
    "int8": ("torchao", "8-bit integers", True),
    "llm-int8": ("bitsandbytes", "8-bit integers, activations too", False),
}
"""The package of each weight format, its description, and whether it works without a CUDA device."""
# LLM.int8() also rounds what flows through the model, by what else is in the batch: it comes second
CHOICES: Mapping[str, tuple[str, ...]] = {"4bit": ("nf4", "int4"), "8bit": ("int8", "llm-int8")}


class Quantisation(NamedTuple):
    """One weight format in few bits, in transformers' form."""

    way: str
    """Other weight formats give other numbers, so a model's name includes the format."""
    description: str
    """Description, with the package and its version."""
    config: Any
    """The quantisation config of transformers."""


def quantisation(weights: Weights, config: Any, device: torch.device, dtype: str | None) -> Quantisation:
    """The requested weight format for a model. Raises if its package or device is missing."""
    if getattr(config, "quantization_config", None) is not None:
        raise CapabilityError(
            f"weights={weights}: this model's weights were saved quantised. Leave out ?weights={weights}, or use the "
            "original model"
        )
    asked = CHOICES.get(weights, (weights,))
    usable = [way for way in asked if FORMATS[way][2] or device.type == "cuda"]
    way = next((way for way in usable if find_spec(FORMATS[way][0]) is not None), None)
    if way is None:
        needs = " or ".join(f"{FORMATS[way][0]}{'' if FORMATS[way][2] else ' and a CUDA device'}" for way in asked)
        raise PrerequisiteError(
            f"weights={weights} needs {needs}, and the model is on {device.type}. Run: pip install "
            f"{FORMATS[(usable or asked)[0]][0]}"
        )
    package, description, _ = FORMATS[way]
    precision = getattr(torch, dtype or "float32")
    if dtype is None and device.type != "cpu":
        saved = getattr(config, "dtype", None)
        precision = saved if isinstance(saved, torch.dtype) else torch.bfloat16
    try:
        made = _quantisation_config(way, precision)
    except (ImportError, AttributeError, RuntimeError) as error:
        raise PrerequisiteError(
            f"weights={weights}: the installed {package} {version(package)} does not work with torch "
            f"{torch.__version__} ({error}). Run: pip install -U {package}"
        ) from error
    return Quantisation(way, f"{description} by {package} {version(package)}", made)


def _quantisation_config(way: str, precision: torch.dtype) -> Any:
    if way == "llm-int8":
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    if way == "nf4":
        # the paper's base was a file of this kind: NF4 with its scales quantised again
        return transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=precision,
        )
    kinds = importlib.import_module("torchao.quantization")
    return transformers.TorchAoConfig(getattr(kinds, way.capitalize() + "WeightOnlyConfig")())
