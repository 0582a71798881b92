"""Tiny models of many architectures, a tokenizer of bytes, and a toy study that they can learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import transformers

from goldless.records import Task
from tests.support.byte_tokenizer import byte_tokenizer

AGENTS = ("ann", "bob", "cy")
TEMPLATE = 'rewrite = "r"\npredict = "Say."\nsynopsis_heading = "S"\ncandidate_heading = "C"\n'
"""So short that a training takes seconds."""


SIZE = {"vocab_size": 272, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
WIDE = {**SIZE, "intermediate_size": 96, "num_key_value_heads": 2, "max_position_embeddings": 2048}
LOCAL = {"head_dim": 16, "sliding_window": 24, "query_pre_attn_scalar": 16}
"""A window shorter than the shared parts, so that keeping too little of the past, or by index, would show."""
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**WIDE),
    "qwen2": lambda: transformers.Qwen2Config(**WIDE),
    "qwen2, three heads to a key": lambda: transformers.Qwen2Config(
        **{**WIDE, "hidden_size": 96, "num_attention_heads": 6}
    ),
    "qwen3": lambda: transformers.Qwen3Config(**WIDE, head_dim=16),
    "mistral": lambda: transformers.MistralConfig(**WIDE, sliding_window=24),
    "gemma": lambda: transformers.GemmaConfig(**WIDE, head_dim=16),
    "gemma2": lambda: transformers.Gemma2Config(**WIDE, **LOCAL, final_logit_softcapping=3.0),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **WIDE, **LOCAL, layer_types=["sliding_attention", "full_attention"]
    ),
    "phi3": lambda: transformers.Phi3Config(**WIDE, pad_token_id=0),
    "granite": lambda: transformers.GraniteConfig(**WIDE, logits_scaling=0.25),
    "gpt2": lambda: transformers.GPT2Config(vocab_size=272, n_embd=64, n_layer=2, n_head=4, n_positions=2048),
    "bloom": lambda: transformers.BloomConfig(vocab_size=272, hidden_size=32, n_layer=2, n_head=4),
    "mamba": lambda: transformers.MambaConfig(vocab_size=272, hidden_size=32, num_hidden_layers=2, state_size=4),
}
NOT_PACKED = ("bloom", "mamba")


def random_model(kind: str, seed: int = 0, config=None):
    """A tiny random model of an architecture."""
    config = CONFIGS[kind]() if config is None else config
    config.bos_token_id, config.eos_token_id, config.pad_token_id = 256, 257, None
    torch.manual_seed(seed)
    # as when it is loaded: some releases of transformers leave the cap of Gemma 2 out of any other attention
    attention = {"attn_implementation": "eager"} if kind == "gemma2" else {}
    model = transformers.AutoModelForCausalLM.from_config(config, **attention)
    for weight in model.parameters():
        # so wide that every model prefers some tokens, and that neither a window nor a scale can hide in noise
        torch.nn.init.normal_(weight, std=0.2)
    return model.eval()


@torch.inference_mode()
def plain_logprobs(model, context: tuple[int, ...], target: tuple[int, ...]) -> np.ndarray:
    """Log p of the target's tokens by one whole forward pass."""
    logits = model(torch.tensor([context + target], device=model.device), use_cache=False).logits[0]
    chosen = torch.tensor(target, device=model.device)[:, None]
    return logits.double().log_softmax(-1)[len(context) - 1 : -1].gather(1, chosen)[:, 0].cpu().numpy()


def save_base(folder: Path, seed: int = 0, hidden_size: int = 32, layers: int = 2) -> Path:
    """A tiny random model in a folder."""
    config = transformers.LlamaConfig(
        vocab_size=272,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        max_position_embeddings=1024,
        bos_token_id=256,
        eos_token_id=257,
    )
    torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(config)
    for weight in model.parameters():
        # so wide that the model prefers some tokens
        torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def save_reader(folder: Path, *, deaf: bool = False) -> Path:
    """A model that finds likely whatever bytes stand before, by construction; ``deaf``: it reads nothing before."""
    size = 272
    config = transformers.LlamaConfig(
        vocab_size=size,
        hidden_size=size,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        intermediate_size=8,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        bos_token_id=256,
        eos_token_id=257,
    )
    model = transformers.LlamaForCausalLM(config)
    layer = model.model.layers[0]
    one = torch.eye(size)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.zero_()
        # every token is a direction of its own; attention, equal everywhere, adds those before; the head reads them
        for weight in (model.model.embed_tokens.weight, layer.self_attn.v_proj.weight, model.lm_head.weight):
            weight.copy_(one)
        if not deaf:
            layer.self_attn.o_proj.weight.copy_(one)
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def toy_rows(tasks: int) -> list[dict[str, str]]:
    """Three agents who say much the same of every task, and something else of every other task."""
    colours, marks = ("red", "blue", "green", "gold"), ("good", "poor", "fine")
    return [
        {"task": f"t{i}", "agent": agent, "text": f"{colours[i % 4]} is {marks[i % 3]}, {agent} of {i}."}
        for i in range(tasks)
        for agent in AGENTS
    ]


def toy_task(name: str = "t0", synopsis: str | None = None) -> Task:
    """A task with an abstract or without."""
    return Task(name, synopses={} if synopsis is None else {"abstract": synopsis})
