"""Weights, tokenizer and adapter of a Hugging Face model, from a local folder, the local cache or the hub.

Code that comes with a model is never run. An adapter's layers (``peft``'s format) stay separate from the weights they
were trained on and are not merged into them: in half precision part of what was learnt would be rounded away.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from tokenizers import Tokenizer

from goldless.errors import CapabilityError, GoldlessError, PrerequisiteError
from goldless.models.interface import ModelIdentity, content_hash
from goldless.models.local_weights.engine import short_of_memory
from goldless.models.local_weights.specification import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    HUB_NAME,
    HfSpecification,
    Weights,
    adapter_folder,
    adapter_record,
    is_folder,
)
from goldless.models.tokens import ChatLayout, fast_tokenizer
from goldless.models.turn_signs import is_control

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
    """The model with its tokenizer and adapter, on its device."""
    cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
    known = ["cpu", *(["cuda"] if cards else []), *(f"cuda:{i}" for i in range(cards))]
    if wanted.device is not None and wanted.device not in known:
        raise PrerequisiteError(
            f"device must be {' or '.join(known)} on this machine (torch finds {cards or 'no'} CUDA devices), got "
            f"{wanted.device!r}. Leave it out for the fastest"
        )
    device, folder = torch.device(wanted.device or ("cuda" if cards else "cpu")), _folder(wanted.base)
    source = wanted.base if folder is None else str(folder)
    problem = (
        f"hf:{wanted.base}: transformers {transformers.__version__} cannot load this as a causal language model ({{}})"
        ". A folder must be complete, and code that comes with a model is never run; for a name on the hub, check it, "
        f"and without a network run 'hf download {wanted.base}' on a machine that has one (gated models need HF_TOKEN)"
    )
    options: dict[str, Any] = {}
    name, weights = wanted.base if folder is None else folder.name, ""
    with _explained(PrerequisiteError, problem), _quiet_libraries():
        config = transformers.AutoConfig.from_pretrained(source)
        pinned = getattr(config, "_commit_hash", None) if folder is None else None
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, revision=pinned)
        if wanted.weights is not None:
            way, weights, few_bits = quantisation(wanted.weights, config, device, wanted.dtype)
            options = {"quantization_config": few_bits, "device_map": {"": device}}
            name = f"{name}?weights={way}"  # other weight formats give other numbers
        if getattr(config.get_text_config(), "attn_logit_softcapping", None) is not None:
            # some releases of transformers leave the cap of Gemma 2 out of any other attention
            options["attn_implementation"] = "eager"
        dtype = wanted.dtype or ("float32" if device.type == "cpu" else "auto")
        model = transformers.AutoModelForCausalLM.from_pretrained(
            source, revision=pinned, dtype=dtype if dtype == "auto" else getattr(torch, dtype), **options
        )
        # a quantised model was put on its device while it was loaded, and cannot be moved
        if getattr(model, "quantization_method", None) is None:
            model = model.to(device)
    size, largest = model.get_input_embeddings().weight.shape[0], max(tokenizer.get_vocab().values(), default=-1)
    if largest >= size:
        raise CapabilityError(
            f"hf:{wanted.base}: the tokenizer returns ids up to {largest}, but the model has only {size} tokens. "
            "This is not the model's tokenizer"
        )
    layout, tokenizer_hash = _layout(tokenizer, wanted.base)
    identity = ModelIdentity(
        provider="hf",
        name=name,
        revision=str(pinned or "") if folder is None else folder_hash(folder),
        tokenizer=tokenizer_hash,
        settings={
            "device": device.type,
            "dtype": str(model.dtype).removeprefix("torch."),
            "attention": str(getattr(model.config, "_attn_implementation", None) or "model's own"),
            "layout": layout.name,
            **({"weights": weights} if weights else {}),
        },
    )
    checkpoint = Checkpoint(model.eval(), tokenizer, layout, identity)
    return checkpoint if wanted.adapter is None else _with_adapter(checkpoint, wanted.adapter)


def _layout(tokenizer: Any, name: str) -> tuple[ChatLayout, str]:
    """The tokenizer's layout of messages, and a hash of all that determines token ids: vocabulary, rules, template."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise CapabilityError(
            f"hf:{name}: its tokenizer has no tokenizer.json, so special tokens in a text cannot be read as "
            "characters. Serve the model with vLLM or SGLang and use http://HOST:PORT/v1#MODEL"
        )
    template = tokenizer.get_chat_template() if tokenizer.chat_template else None
    added = tokenizer.added_tokens_decoder.items()
    control = frozenset(i for i, token in added if is_control(token.content, template or "", special=token.special))
    begin = tokenizer.bos_token_id
    layout = ChatLayout(
        tokenizer=fast_tokenizer(backend, control),
        template=template,
        begin=tokenizer.bos_token or "",
        end=tokenizer.eos_token or "",
        add_begin=begin is not None and list(tokenizer.encode("a"))[:1] == [begin],
    )
    return layout, content_hash(backend.to_str(), tokenizer.chat_template)


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
def _explained(kind: type[GoldlessError], problem: str) -> Iterator[None]:
    """Turn whatever a package raises into an error that says what to do; ``{}`` in it is replaced by what it said."""
    try:
        yield
    except GoldlessError:
        raise
    except Exception as error:
        if short_of_memory(error):
            raise
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise kind(problem.replace("{}", said[:300])) from error


@contextlib.contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Silence the weights' progress bar and retries of the hub, but not the bars of downloads."""
    bars, hub = transformers.utils.logging, logging.getLogger("huggingface_hub")
    shown, level = bars.is_progress_bar_enabled(), hub.level
    bars.disable_progress_bar()
    hub.setLevel(logging.ERROR)
    try:
        yield
    finally:
        hub.setLevel(level)
        if shown:
            bars.enable_progress_bar()


# --- weights in few bits -----------------------------------------------------------------------------------------


class WeightFormat(NamedTuple):
    """A weight format in few bits."""

    package: str
    on_cpu: bool
    """True if it works without a CUDA device."""
    description: str
    config: Callable[[torch.dtype], Any]
    """The quantisation config of transformers, for a compute precision."""


def _torchao(name: str) -> Any:
    return transformers.TorchAoConfig(getattr(importlib.import_module("torchao.quantization"), name)())


# the paper's base was a file of the first kind: NF4 with its scales quantised again
_NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
FORMATS = {
    "nf4": WeightFormat(
        *("bitsandbytes", True, "4-bit NormalFloat"),
        config=lambda precision: transformers.BitsAndBytesConfig(bnb_4bit_compute_dtype=precision, **_NF4),
    ),
    "int4": WeightFormat("torchao", False, "4-bit integers", lambda _: _torchao("Int4WeightOnlyConfig")),
    "int8": WeightFormat("torchao", True, "8-bit integers", lambda _: _torchao("Int8WeightOnlyConfig")),
    "llm-int8": WeightFormat(
        *("bitsandbytes", False, "8-bit integers, activations too"),
        config=lambda _: transformers.BitsAndBytesConfig(load_in_8bit=True),
    ),
}
# LLM.int8() also rounds what flows through the model, by what else is in the batch: it comes second
CHOICES: Mapping[str, tuple[str, ...]] = {"4bit": ("nf4", "int4"), "8bit": ("int8", "llm-int8")}


def quantisation(weights: Weights, config: Any, device: torch.device, dtype: str | None) -> tuple[str, str, Any]:
    """The requested weight format for a model, its description with the package's version, and transformers' config.

    Raises if its package or device is missing.
    """
    if getattr(config, "quantization_config", None) is not None:
        raise CapabilityError(
            f"weights={weights}: this model's weights were saved quantised. Leave out ?weights={weights}, or use the "
            "original model"
        )
    asked = {way: FORMATS[way] for way in CHOICES.get(weights, (weights,))}
    usable = {way: found for way, found in asked.items() if found.on_cpu or device.type == "cuda"}
    way = next((way for way, found in usable.items() if find_spec(found.package) is not None), None)
    if way is None:
        needs = " or ".join(found.package + " and a CUDA device" * (not found.on_cpu) for found in asked.values())
        first = next(iter((usable or asked).values()))
        raise PrerequisiteError(
            f"weights={weights} needs {needs}, and the model is on {device.type}. Run: pip install {first.package}"
        )
    package = f"{FORMATS[way].package} {version(FORMATS[way].package)}"
    precision = getattr(torch, dtype or "float32")
    if dtype is None and device.type != "cpu":
        saved = getattr(config, "dtype", None)
        precision = saved if isinstance(saved, torch.dtype) else torch.bfloat16
    with _explained(
        PrerequisiteError,
        f"weights={weights}: the installed {package} does not work with torch {torch.__version__} ({{}}). Run: pip "
        f"install -U {FORMATS[way].package}",
    ):
        return way, f"{FORMATS[way].description} by {package}", FORMATS[way].config(precision)


# --- adapters ----------------------------------------------------------------------------------------------------


def _with_adapter(checkpoint: Checkpoint, written: str) -> Checkpoint:
    try:
        import peft  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise PrerequisiteError(
            f"an adapter needs peft, which cannot be imported ({error}). Run: pip install 'goldless[finetune]'"
        ) from error
    folder = adapter_folder(written)
    if folder is None or not (folder / ADAPTER_WEIGHTS).is_file():
        raise PrerequisiteError(
            f"{written}: an adapter must be a folder with {ADAPTER_CONFIG} and {ADAPTER_WEIGHTS}. Download one from "
            f"the hub with 'hf download {written} --local-dir FOLDER'"
        )
    folder, identity = folder.resolve(), checkpoint.identity
    with _explained(
        CapabilityError,
        f"{folder}: peft {peft.__version__} cannot put this adapter on this base ({{}}). Use the base it was made for",
    ):
        config = peft.PeftConfig.from_pretrained(str(folder))
        if config.peft_type is None or config.is_prompt_learning or config.task_type not in {None, "CAUSAL_LM"}:
            raise ValueError(f"it must be LoRA or a variant of it for a causal language model, got {config.peft_type}")
        _check_base(identity, folder, config)
        with warnings.catch_warnings():
            # layers that are missing are found below; GPT-2's kind of layer is announced and then handled
            warnings.simplefilter("ignore", UserWarning)
            tuned = peft.PeftModel.from_pretrained(checkpoint.model, str(folder), config=config, is_trainable=False)
        there = set(peft.get_peft_model_state_dict(tuned, save_embedding_layers=False))
        strange = sorted(there.symmetric_difference(peft.load_peft_weights(str(folder), device="cpu")))
        if strange:
            raise ValueError(f"{len(strange)} layers are in only one of them, such as {strange[0]}")
    digest = folder_hash(folder, (ADAPTER_CONFIG, ADAPTER_WEIGHTS))
    base, sign, option = identity.name.partition("?")
    own = folder.parent.name if folder.name == "adapter" else folder.name
    both = replace(
        identity,
        name=f"{base}+{own}{sign}{option}",
        # one hash over both: tables and recorded evidence know a model by its first digits
        revision=content_hash(identity.revision, digest),
        settings={**identity.settings, "base": identity.revision, "adapter": digest},
    )
    # the base itself, whose linear layers now have the adapter's beside them
    return replace(checkpoint, model=tuned.get_base_model().eval(), identity=both)


def _check_base(here: ModelIdentity, folder: Path, config: Any) -> None:
    base = adapter_record(folder).get("base")
    if base is None:
        made_for = str(config.base_model_name_or_path or "").rstrip("/")
        names = {name.rsplit("/", 1)[-1] for name in (made_for, here.name.partition("?")[0])}
        differ = ["names"] if len(names) > 1 else []
    else:
        made_for = f"{base.get('name')}@{str(base.get('revision'))[:8]}"
        pairs = (("weights", "revision", here.revision), ("tokenizer", "tokenizer", here.tokenizer))
        differ = [what for what, key, have in pairs if base.get(key) != have]
    if differ:
        raise CapabilityError(
            f"{folder}: made for the base {made_for}, but the base here is {here.name}@{here.revision[:8]}, with "
            f"different {' and '.join(differ)}. Use the base it was made for, from the same source (hub or folder); if "
            f"both names are of the same model, set base_model_name_or_path in {ADAPTER_CONFIG}"
        )
