"""Tiny GGUF files with random weights, and a plain float64 forward pass to compare the engine with."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import dequantize, quantize

CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass
class TinyModel:
    """Numbers of a tiny model and its weights as the file holds them."""

    arch: str
    layers: int = 2
    width: int = 64
    heads: int = 4
    shared: int = 2
    size: int = 32
    inner: int = 96
    vocabulary: int = 272
    base: float = 10000.0
    weights: dict[str, np.ndarray] = field(default_factory=dict)

    def linear(self, x, name):
        y = x @ self.weights[f"{name}.weight"].T
        return y + self.weights[f"{name}.bias"] if f"{name}.bias" in self.weights else y

    def norm(self, x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * self.weights[f"{name}.weight"]

    def rotate(self, x):
        """x is [positions, heads, size]."""
        frequency = self.base ** -(np.arange(0, self.size, 2) / self.size)
        angle = np.arange(len(x))[:, None, None] * frequency
        cos, sin = np.cos(angle), np.sin(angle)
        out = np.empty_like(x)
        if self.arch == "llama":
            a, b = x[..., 0::2], x[..., 1::2]
            out[..., 0::2], out[..., 1::2] = a * cos - b * sin, b * cos + a * sin
        else:
            half = self.size // 2
            a, b = x[..., :half], x[..., half:]
            out[..., :half], out[..., half:] = a * cos - b * sin, b * cos + a * sin
        return out

    def attention(self, x, layer):
        n = len(x)
        q, k, v = (self.linear(x, f"blk.{layer}.attn_{part}").reshape(n, -1, self.size) for part in "qkv")
        q, k = self.rotate(q), self.rotate(k)
        out = np.empty_like(q)
        hidden = np.arange(n)[:, None] < np.arange(n)[None, :]
        for head in range(self.heads):
            mate = head // (self.heads // self.shared)
            scores = np.where(hidden, -np.inf, q[:, head] @ k[:, mate].T / np.sqrt(self.size))
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = weights / weights.sum(-1, keepdims=True) @ v[:, mate]
        return self.linear(out.reshape(n, -1), f"blk.{layer}.attn_output")

    def logprobs(self, ids):
        """Log p of every token after every position, [positions, vocabulary]."""
        x = self.weights["token_embd.weight"][list(ids)]
        for i in range(self.layers):
            x = x + self.attention(self.norm(x, f"blk.{i}.attn_norm"), i)
            h = self.norm(x, f"blk.{i}.ffn_norm")
            g = self.linear(h, f"blk.{i}.ffn_gate")
            g = g / (1 + np.exp(-g))
            x = x + self.linear(g * self.linear(h, f"blk.{i}.ffn_up"), f"blk.{i}.ffn_down")
        x = self.norm(x, "output_norm")
        logits = x @ self.weights.get("output.weight", self.weights["token_embd.weight"]).T
        return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


def write_tiny(path, arch, *, quantisation=GGMLQuantizationType.F32, seed=0, template=CHATML, **changes):
    """Write a tiny model to a file and return it as the reference."""
    model = TinyModel(arch, **changes)
    writer = GGUFWriter(path, arch)
    writer.add_context_length(256)
    writer.add_embedding_length(model.width)
    writer.add_block_count(model.layers)
    writer.add_feed_forward_length(model.inner)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.shared)
    writer.add_key_length(model.size)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(model.base)
    _add_tokenizer(writer, model.vocabulary, template)
    random = np.random.default_rng(seed)
    for name, shape in _shapes(model).items():
        values = (random.normal(size=shape) * (0.3 if len(shape) == 1 else 0.15)).astype(np.float32)
        if "norm" in name:
            values = values + np.float32(1)
        if len(shape) == 1 or quantisation == GGMLQuantizationType.F32:
            writer.add_tensor(name, values)
        else:
            packed = quantize(values, quantisation)
            writer.add_tensor(name, packed, raw_dtype=quantisation)
            values = dequantize(packed, quantisation)
        model.weights[name] = values.astype(np.float64)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def _shapes(model):
    attention, keys = model.heads * model.size, model.shared * model.size
    shapes = {"token_embd.weight": (model.vocabulary, model.width), "output_norm.weight": (model.width,)}
    for i in range(model.layers):
        block = {
            "attn_norm": (model.width,),
            "attn_q": (attention, model.width),
            "attn_k": (keys, model.width),
            "attn_v": (keys, model.width),
            "attn_output": (model.width, attention),
            "ffn_norm": (model.width,),
            "ffn_gate": (model.inner, model.width),
            "ffn_up": (model.inner, model.width),
            "ffn_down": (model.width, model.inner),
        }
        shapes |= {f"blk.{i}.{name}.weight": shape for name, shape in block.items()}
        if model.arch == "qwen2":
            shapes |= {f"blk.{i}.attn_{part}.bias": block[f"attn_{part}"][:1] for part in "qkv"}
    return shapes


def _add_tokenizer(writer, vocabulary, template):
    """Bytes as tokens (in the printable alphabet of byte-level BPE), two merges, and control tokens."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    alphabet = [chr(b) if b in visible else chr(next(other)) for b in range(256)]
    tokens = [*alphabet, "th", "the", "<|im_start|>", "<|im_end|>"]
    tokens += [f"<unused{i}>" for i in range(vocabulary - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 258 + [3] * (vocabulary - 258))
    writer.add_token_merges(["t h", "th e"])
    writer.add_bos_token_id(258)
    writer.add_eos_token_id(259)
    if template:
        writer.add_chat_template(template)
