"""GGUF models as scorers and chat models, computed on the CPU: ``gguf:PATH``, and the embedded default.

The engine's files, two ONNX graphs and a tokenizer, are built once and cached; after that the model loads without
reading the GGUF again. Weights are expanded to float32.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from gguf import GGUFReader
from gguf.quants import dequantize
from onnx import TensorProto, helper, numpy_helper
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from goldless.errors import CapabilityError, PrerequisiteError, UserError
from goldless.models.cache import file_sha256, models_folder
from goldless.models.interface import ChatReply, ChatRequest, ModelIdentity, content_hash
from goldless.models.local_engine import HEAD_ELEMENTS, FloatArray, LocalEngine
from goldless.models.local_model import LoadedModel, LocalModel
from goldless.models.tokens import ChatLayout, TextTokenizer
from goldless.models.turn_signs import is_control

if TYPE_CHECKING:
    from goldless.records import CallFailure

Past = list[FloatArray]
"""Keys and values of a path, layer by layer: [key-value heads, tokens, head size]."""

FORMAT = 4
"""Increased whenever the graphs change what they compute or how they are called."""
KERNEL = "float32"
"""The precision of matrix products, as a model's identity names it."""
CALL_TOKENS = 384
BLOCKED = np.float32(-1e30)
"""Added to the score of a position that must not be seen."""


class GgufModel(LocalModel):
    """A model in a GGUF file, computed on the CPU."""

    def __init__(
        self,
        locate: Path | Callable[[], Path],
        *,
        provider: str = "gguf",
        name: str | None = None,
        too_small_to_write: bool = False,
    ) -> None:
        """``locate`` is the file, or a function that returns it when first needed."""
        super().__init__()
        self._locate = locate
        self._provider, self._name = provider, name
        self._too_small_to_write = too_small_to_write

    async def chat(self, request: ChatRequest) -> ChatReply | CallFailure:
        """A written text, or the most likely of the given answers; warns once if the model is too small for that."""
        if self._too_small_to_write:
            self._too_small_to_write = False
            warnings.warn(
                f"{self._name} is a small model: it can score given texts, but is not suitable for rewriting or "
                "judging. Use a larger model for that (openai:MODEL, http://HOST:PORT/v1#MODEL, gguf:PATH, "
                "hf:NAME_OR_PATH)",
                stacklevel=1,
            )
        return await super().chat(request)

    def _load(self) -> LoadedModel:
        path = self._locate if isinstance(self._locate, Path) else self._locate()
        return build_model(path, provider=self._provider, name=self._name)


# --- the engine's files --------------------------------------------------------------------------------------------


def build_model(path: Path, *, provider: str = "gguf", name: str | None = None) -> LoadedModel:
    """The model of a GGUF file; the engine's files are from the cache or built now."""
    sha256 = file_sha256(path)
    folder = models_folder() / f"{sha256[:16]}-{KERNEL}-v{FORMAT}"
    if not (folder / "settings.json").exists():
        _build(GgufFile(path), folder)
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    tokenizer_text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    architecture = Architecture(**settings.pop("architecture"))
    tokenizer = TextTokenizer(Tokenizer.from_str(tokenizer_text), Tokenizer.from_str(tokenizer_text))
    layout = ChatLayout(tokenizer, **settings)
    return LoadedModel(
        identity=ModelIdentity(
            provider=provider,
            name=name or path.stem,
            revision=sha256,
            tokenizer=content_hash(tokenizer_text, layout.template),
            settings={"kernel": KERNEL, "layout": layout.name},
        ),
        layout=layout,
        context_length=architecture.context_length,
        stop=layout.stop_tokens(),
        engine=Engine(architecture, folder),
    )


def _build(checkpoint: GgufFile, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # another process may build the same model now: each builds aside, the first rename wins
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".building-"))
    tokens = checkpoint.get("tokenizer.ggml.tokens")
    begin = checkpoint.get("tokenizer.ggml.bos_token_id")
    end = checkpoint.get("tokenizer.ggml.eos_token_id")
    settings = {
        "architecture": asdict(checkpoint.architecture),
        "template": checkpoint.get("tokenizer.chat_template"),
        "begin": tokens[begin] if begin is not None else "",
        "end": tokens[end] if end is not None else "",
        "add_begin": bool(begin is not None and checkpoint.get("tokenizer.ggml.add_bos_token", False)),
    }
    try:
        _tokenizer(checkpoint).save(str(aside / "tokenizer.json"))
        save_body(checkpoint, aside / "body.onnx")
        save_head(checkpoint, aside / "head.onnx")
        (aside / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        if not folder.exists():
            aside.rename(folder)
    except OSError as error:
        if not (folder / "settings.json").exists():
            raise PrerequisiteError(
                f"cannot write the converted model to {folder} ({error}). Free some disk space, or set "
                "GOLDLESS_HOME to a folder on a larger disk"
            ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


class Engine(LocalEngine):
    """Computes with the graphs in a folder, on the CPU."""

    def __init__(self, architecture: Architecture, folder: Path) -> None:
        super().__init__(call_tokens=CALL_TOKENS)
        self.architecture = architecture
        self._folder = folder
        self._past_names = past_names(architecture)

    # weights are loaded when first needed: a run that finds everything in the journal needs none

    @cached_property
    def _body(self) -> Any:
        return self._session("body.onnx")

    @cached_property
    def _head(self) -> Any:
        return self._session("head.onnx")

    def _session(self, name: str) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = available_cores()
        options.log_severity_level = 3
        options.enable_mem_pattern = False  # made for inputs of one shape; with ours it only keeps memory
        return onnxruntime.InferenceSession(self._folder / name, options, providers=["CPUExecutionProvider"])

    def _run(self, rows: Sequence[tuple[int, ...]], past: Past | None) -> tuple[FloatArray, Callable[[int], Past]]:
        if past is None:
            shape = (self.architecture.key_value_heads, 0, self.architecture.head_size)
            past = [np.zeros(shape, np.float32) for _ in self._past_names]
        lengths, before = np.asarray([len(row) for row in rows]), past[0].shape[1]
        column = np.arange(lengths.max())
        inside = column[None, :] < lengths[:, None]
        ends = np.cumsum(lengths)
        # padding is at the end of a row, so hiding the future keeps it out of every real position
        mask = np.where(np.arange(before + len(column)) > before + column[:, None], BLOCKED, np.float32(0))
        feed: dict[str, Any] = {
            "ids": np.concatenate([np.asarray(row, np.int64) for row in rows]),
            "positions": np.concatenate([np.arange(before, before + length, dtype=np.int64) for length in lengths]),
            "rows": np.where(inside, (ends - lengths)[:, None] + column[None, :], 0).astype(np.int64),
            "places": np.flatnonzero(inside).astype(np.int64),
            "mask": np.broadcast_to(mask, (len(rows), *mask.shape)),
            **{f"past_{name}": array for name, array in zip(self._past_names, past, strict=True)},
        }
        hidden, *new = self._body.run(None, feed)

        def extended(row: int) -> Past:
            own = slice(ends[row] - lengths[row], ends[row])
            return [
                np.concatenate([old, fresh[own].transpose(1, 0, 2)], axis=1)
                for old, fresh in zip(past, new, strict=True)
            ]

        return hidden, extended

    def _chosen(self, states: FloatArray, tokens: Sequence[int]) -> Iterator[float]:
        targets, size = np.asarray(tokens, np.int64), max(1, HEAD_ELEMENTS // self.architecture.vocabulary)
        for begin in range(0, len(targets), size):
            feed = {"hidden": states[begin : begin + size], "targets": targets[begin : begin + size]}
            yield from self._head.run(["chosen"], feed)[0]

    def _logprobs(self, state: FloatArray) -> FloatArray:
        feed = {"hidden": state, "targets": np.zeros(1, np.int64)}
        logits, normaliser = self._head.run(["logits", "normaliser"], feed)
        logprobs: FloatArray = (logits - normaliser)[0]
        return logprobs


def available_cores() -> int:
    """Cores this process may use; OMP_NUM_THREADS limits them, as Ray and batch systems set it for their workers."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        return int(limit)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- the file -------------------------------------------------------------------------------------------------------

ARCHITECTURES = ("llama", "qwen2")
LAYER_PARTS = (
    *("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output"),
    *("ffn_norm", "ffn_gate", "ffn_up", "ffn_down"),
)


@dataclass(frozen=True, slots=True)
class Architecture:
    """The numbers that shape a decoder-only transformer."""

    name: str
    layers: int
    width: int
    heads: int
    key_value_heads: int
    head_size: int
    context_length: int
    norm_epsilon: float
    rope_base: float
    rope_half_split: bool
    """True if the file's query and key rows are already in half-split order."""
    vocabulary: int


class GgufFile:
    """A GGUF file: metadata by key, ``architecture``, and weights by name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._reader = GGUFReader(path)
        except (ValueError, OSError, IndexError) as error:
            raise UserError(
                f"{path}: not a readable GGUF file ({error}). Give the path of a .gguf file; join the parts of a "
                "split file first"
            ) from error
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        name = self.get("general.architecture")
        if name not in ARCHITECTURES:
            raise self.unsupported(f"architecture {name!r} (supported: {', '.join(ARCHITECTURES)})")

        def number(key: str, default: Any = None) -> Any:
            return self.get(f"{name}.{key}", default)

        width, heads = number("embedding_length"), number("attention.head_count")
        self.architecture = Architecture(
            name=name,
            layers=number("block_count"),
            width=width,
            heads=heads,
            key_value_heads=number("attention.head_count_kv", heads),
            head_size=number("attention.key_length") or width // heads,
            context_length=number("context_length"),
            norm_epsilon=float(number("attention.layer_norm_rms_epsilon", 1e-6)),
            rope_base=float(number("rope.freq_base", 10000.0)),
            rope_half_split=name != "llama",
            vocabulary=len(self.get("tokenizer.ggml.tokens") or ()),
        )
        scaling = number("rope.scaling.type")
        if scaling not in {None, "none"} and "rope_freqs.weight" not in self:
            raise self.unsupported(f"rope scaling {scaling!r}")
        # quantisations that cannot be read, and layers of another kind, such as mixtures of experts
        for tensor in self._tensors.values():
            try:
                dequantize(tensor.data[:1], tensor.tensor_type)
            except NotImplementedError:
                kind = tensor.tensor_type.name
                raise self.unsupported(f"quantisation {kind} (supported: Q4 to Q8, F16, BF16, F32)") from None
        layers = [f"blk.{i}." for i in range(self.architecture.layers)]
        needed = {"token_embd.weight", "output_norm.weight"}
        needed.update(f"{layer}{part}.weight" for layer in layers for part in LAYER_PARTS)
        known = needed | {"output.weight", "rope_freqs.weight"}
        known.update(f"{layer}attn_{part}.bias" for layer in layers for part in "qkv")
        missing, unknown = sorted(needed - self._tensors.keys()), sorted(self._tensors.keys() - known)
        if missing or unknown:
            first = f"there is no tensor {missing[0]}" if missing else f"there is a tensor {unknown[0]}"
            raise self.unsupported(f"layers: {first} ({len(missing)} tensors are missing, {len(unknown)} are unknown)")

    def unsupported(self, what: str) -> CapabilityError:
        """The error of a file that the engine cannot compute exactly."""
        return CapabilityError(
            f"{self._path}: unsupported {what}. Load the original weights with hf:NAME_OR_PATH, or serve the model "
            "with vLLM or SGLang and use http://HOST:PORT/v1#MODEL"
        )

    def get(self, key: str, default: Any = None) -> Any:
        field = self._reader.fields.get(key)
        return default if field is None else field.contents()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def dense(self, name: str) -> FloatArray:
        """A tensor in float32, rows first."""
        tensor = self._tensors[name]
        return np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)


# --- the graphs -----------------------------------------------------------------------------------------------------
# The *body* takes new tokens and the keys and values of the path above them, under any mask, and gives the final hidden
# states and the new keys and values. The *head* turns chosen hidden states into log-probabilities. Kept apart, the head
# runs on scored positions only.

Shapes = Mapping[str, Sequence[int | str]]
"""Arrays by name; a dimension of any size is a letter."""

OPSET = 21
SMALL_WEIGHT = 1024
"""Weights below this many bytes are in the graph itself."""
PAGE = 4096
"""Larger weights start on a new page, so that the runtime can map the file."""
VOCABULARY_BLOCK = 256
"""Logits summed per block."""
NO_LOGIT = -1e30
"""Padding for the logits missing from the last block."""


class GraphBuilder:
    """Nodes and weights of one graph, added step by step. Each method returns the name of what it computed."""

    def __init__(self, path: Path) -> None:
        """Weights are written to a file beside ``path`` one by one: the whole model is never in memory."""
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._path = path
        self._data = path.with_suffix(".data").open("wb")

    def op(self, kind: str, *inputs: str, domain: str = "", name: str | None = None, **attributes: Any) -> str:
        name = name or f"{kind}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        return self.weight(np.asarray(value, dtype=dtype))

    def weight(self, array: np.ndarray[Any, Any]) -> str:
        name = f"w{len(self._weights)}"
        if array.nbytes < SMALL_WEIGHT:
            self._weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
            return name
        self._data.seek(-(-self._data.tell() // PAGE) * PAGE)
        tensor = TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        where = {"location": self._path.with_suffix(".data").name, "offset": self._data.tell(), "length": array.nbytes}
        for key, value in where.items():
            tensor.external_data.add(key=key, value=str(value))
        np.ascontiguousarray(array).tofile(self._data)
        self._weights.append(tensor)
        return name

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(shape))

    def linear(self, x: str, matrix: FloatArray, bias: FloatArray | None = None) -> str:
        """X times the transpose of a weight matrix [outputs, inputs], plus a bias."""
        out = self.op("MatMul", x, self.weight(matrix.T))
        return out if bias is None else self.op("Add", out, self.weight(bias))

    def norm(self, x: str, gain: FloatArray, epsilon: float, name: str | None = None) -> str:
        return self.op("SimplifiedLayerNormalization", x, self.weight(gain), name=name, axis=-1, epsilon=epsilon)

    def save(self, *, integers: Shapes, floats: Shapes, outputs: Shapes) -> None:
        """Write the graph from its inputs to its outputs, which are names given to ``op``."""
        self._data.close()
        value = helper.make_tensor_value_info
        inputs = [value(name, TensorProto.INT64, shape) for name, shape in integers.items()]
        inputs += [value(name, TensorProto.FLOAT, shape) for name, shape in floats.items()]
        found = [value(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
        graph = helper.make_graph(self._nodes, "goldless", inputs, found, initializer=self._weights)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        self._path.write_bytes(model.SerializeToString())


def save_body(checkpoint: GgufFile, path: Path) -> None:
    """Write the body graph.

    New tokens are packed, one after the other: ``ids`` and ``positions`` [n]. For attention alone they are laid out
    as ``rows`` [b, l] of indices into them, one row per sequence, padded at the end; ``places`` [n] maps back from the
    flattened rows. Every row sees the whole past, as far as ``mask`` [b, l, p + l] allows.
    """
    arch, g = checkpoint.architecture, GraphBuilder(path)
    x = g.op("Gather", g.weight(checkpoint.dense("token_embd.weight")), "ids")
    count = g.op("Squeeze", g.op("Shape", "ids"))
    order = g.op("Unsqueeze", g.op("Range", g.constant(0), count, g.constant(1)), g.constant([0]))
    mask = g.op("Unsqueeze", "mask", g.constant([1, 2]))
    frequencies = arch.rope_base ** -(np.arange(0, arch.head_size, 2, dtype=np.float64) / arch.head_size)
    if "rope_freqs.weight" in checkpoint:
        frequencies = frequencies / checkpoint.dense("rope_freqs.weight").astype(np.float64)
    positions = g.op("Unsqueeze", g.op("Cast", "positions", to=TensorProto.FLOAT), g.constant([1]))
    angles = g.op("Mul", positions, g.weight(frequencies.astype(np.float32)[None, :]))
    shared = (mask, order, g.op("Cos", angles), g.op("Sin", angles))
    for layer in range(arch.layers):
        prefix, epsilon = f"blk.{layer}.", arch.norm_epsilon
        normed = g.norm(x, checkpoint.dense(f"{prefix}attn_norm.weight"), epsilon)
        x = g.op("Add", x, _attention(g, checkpoint, layer, normed, shared))
        h = g.norm(x, checkpoint.dense(f"{prefix}ffn_norm.weight"), epsilon)
        gate = g.linear(h, checkpoint.dense(f"{prefix}ffn_gate.weight"))
        gate = g.op("Mul", gate, g.op("Sigmoid", gate))
        up = g.linear(h, checkpoint.dense(f"{prefix}ffn_up.weight"))
        x = g.op("Add", x, g.linear(g.op("Mul", gate, up), checkpoint.dense(f"{prefix}ffn_down.weight")))
    g.norm(x, checkpoint.dense("output_norm.weight"), arch.norm_epsilon, name="hidden")
    heads, size, past = arch.key_value_heads, arch.head_size, past_names(arch)
    g.save(
        integers={"ids": ["n"], "positions": ["n"], "places": ["n"], "rows": ["b", "l"]},
        floats={"mask": ["b", "l", "t"], **{f"past_{name}": [heads, "p", size] for name in past}},
        outputs={"hidden": ["n", arch.width], **{name: ["n", heads, size] for name in past}},
    )


def save_head(checkpoint: GgufFile, path: Path) -> None:
    """Write the head graph: hidden states [n, width] and targets [n] → log p of the targets.

    Beside it the logits and their normaliser [n, 1]: log p of everything is their difference.
    """
    arch, g = checkpoint.architecture, GraphBuilder(path)
    name = "output.weight" if "output.weight" in checkpoint else "token_embd.weight"
    logits = g.op("Identity", g.linear("hidden", checkpoint.dense(name)), name="logits")
    normaliser = log_sum_exp(g, logits, arch.vocabulary, name="normaliser")
    of_targets = g.op("GatherElements", logits, g.op("Unsqueeze", "targets", g.constant([1])), axis=1)
    g.op("Squeeze", g.op("Sub", of_targets, normaliser), g.constant([1]), name="chosen")
    g.save(
        integers={"targets": ["n"]},
        floats={"hidden": ["n", arch.width]},
        outputs={"logits": ["n", arch.vocabulary], "normaliser": ["n", 1], "chosen": ["n"]},
    )


def log_sum_exp(g: GraphBuilder, logits: str, vocabulary: int, *, name: str) -> str:
    """Log of the sum of exponentials of each row [n, vocabulary] → [n, 1], block by block.

    LogSoftmax over a whole row adds tens of thousands of float32 numbers one after the other, in 4 to 16 partial sums
    by processor. What is small beside a sum is lost from it, so every log-probability came out too high, on arm64 most.
    """
    missing = -vocabulary % VOCABULARY_BLOCK
    if missing:
        logits = g.op("Pad", logits, g.constant([0, 0, 0, missing]), g.constant(NO_LOGIT, np.float32))
    blocks = g.reshape(logits, 0, -1, VOCABULARY_BLOCK)
    within = g.op("LogSoftmax", blocks, axis=-1)
    first = [g.op("Slice", x, g.constant([0]), g.constant([1]), g.constant([-1])) for x in (blocks, within)]
    of_blocks = g.op("Squeeze", g.op("Sub", *first), g.constant([-1]))
    top = g.op("ReduceMax", of_blocks, g.constant([1]), keepdims=1)
    total = g.op("ReduceSum", g.op("Exp", g.op("Sub", of_blocks, top)), g.constant([1]), keepdims=1)
    return g.op("Add", top, g.op("Log", total), name=name)


def _attention(g: GraphBuilder, checkpoint: GgufFile, layer: int, x: str, shared: Sequence[str]) -> str:
    """Grouped-query attention over the past and the new tokens, without repeating keys or values for each head."""
    arch, (mask, *angles) = checkpoint.architecture, shared
    heads, key_heads, size = arch.heads, arch.key_value_heads, arch.head_size

    def project(part: str) -> str:
        """New queries, keys or values: [n, heads x head_size]."""
        name = f"blk.{layer}.attn_{part}"
        bias = checkpoint.dense(f"{name}.bias") if f"{name}.bias" in checkpoint else None
        return g.linear(x, checkpoint.dense(f"{name}.weight"), bias)

    def rotated(y: str, count: int) -> str:
        flat, interleaved = g.reshape(y, 1, -1, count * size), int(not arch.rope_half_split)
        return g.op("RotaryEmbedding", flat, *angles, domain="com.microsoft", interleaved=interleaved)

    def in_rows(y: str) -> str:
        """Packed [n, heads, head_size] laid out as [b, heads, l, head_size]."""
        return g.op("Transpose", g.op("Gather", y, "rows"), perm=[0, 2, 1, 3])

    def with_past(part: str, y: str) -> str:
        """The past before each row: [b, key-value heads, p + l, head_size]."""
        new = g.op("Reshape", y, g.constant([-1, key_heads, size]), name=f"{part}_{layer}")
        batch = g.op("Shape", "rows", start=0, end=1)
        past = g.op("Expand", f"past_{part}_{layer}", g.op("Concat", batch, g.constant([1, 1, 1]), axis=0))
        return g.op("Concat", past, in_rows(new), axis=2)

    keys = with_past("key", rotated(project("k"), key_heads))
    values = with_past("value", project("v"))
    query = g.reshape(rotated(project("q"), heads), -1, heads, size)
    # queries that share a key stand below each other, so that one product serves them all
    grouped = g.reshape(in_rows(query), 0, key_heads, -1, size)
    scaled = g.op("Mul", grouped, g.constant(size**-0.5, np.float32))
    scores = g.op("MatMul", scaled, g.op("Transpose", keys, perm=[0, 1, 3, 2]))
    groups = g.constant([0, key_heads, heads // key_heads])
    by_head = g.op("Concat", groups, g.op("Shape", mask, start=-2), axis=0)
    weights = g.op("Softmax", g.op("Add", g.op("Reshape", scores, by_head), mask), axis=-1)
    mixed = g.op("MatMul", g.op("Reshape", weights, g.op("Shape", scores)), values)
    packed = g.op("Transpose", g.reshape(mixed, 0, heads, -1, size), perm=[0, 2, 1, 3])
    joined = g.op("Gather", g.reshape(packed, -1, heads * size), "places")
    return g.linear(joined, checkpoint.dense(f"blk.{layer}.attn_output.weight"))


def past_names(arch: Architecture) -> list[str]:
    """The names of the past, in order: key and value of layer 0, of layer 1 and so on."""
    return [f"{part}_{layer}" for layer in range(arch.layers) for part in ("key", "value")]


# --- the tokenizer ------------------------------------------------------------------------------------------------

CONTROL, USER_DEFINED = 3, 4
"""GGUF token types. User-defined tokens are whole words of the vocabulary (runs of spaces, tags), found in any text."""
QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_WORDS = QWEN_WORDS.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
"""Word patterns the two tokenizers were trained with (published in their tokenizer files)."""


def _bytes(*, words: bool) -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=words)


def _split(pattern: str) -> Any:
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), _bytes(words=False)])


PRE_TOKENIZERS: dict[str, Callable[[], Any]] = {
    "default": lambda: _bytes(words=True),
    "gpt-2": lambda: _bytes(words=True),
    "smollm": lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _bytes(words=True)]),
    "qwen2": lambda: _split(QWEN_WORDS),
    "llama-bpe": lambda: _split(LLAMA3_WORDS),
}


def _tokenizer(checkpoint: GgufFile) -> Tokenizer:
    kind, words_by = checkpoint.get("tokenizer.ggml.model"), checkpoint.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2":
        raise checkpoint.unsupported(f"tokenizer {kind!r} (supported: gpt2)")
    if words_by not in PRE_TOKENIZERS:
        raise checkpoint.unsupported(f"pre-tokenizer {words_by!r} (supported: {', '.join(PRE_TOKENIZERS)})")
    tokens: list[str] = checkpoint.get("tokenizer.ggml.tokens")
    types: list[int] = checkpoint.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    merges = [tuple(merge.split(" ", 1)) for merge in checkpoint.get("tokenizer.ggml.merges")]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=words_by == "llama-bpe"))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[words_by]()
    tokenizer.decoder = decoders.ByteLevel()
    if words_by == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    template = checkpoint.get("tokenizer.chat_template") or ""
    control: list[str] = []
    words: list[str] = []
    for token, type_ in zip(tokens, types, strict=True):
        if type_ in {CONTROL, USER_DEFINED}:
            (control if is_control(token, template, special=type_ == CONTROL) else words).append(token)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    tokenizer.add_tokens([AddedToken(token, normalized=True) for token in words])
    return tokenizer
