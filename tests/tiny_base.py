"""Tiny models with a tokenizer of bytes, and a toy study that they can learn."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers

from byte_tokenizer import byte_tokenizer
from goldless.records import Task

AGENTS = ("ann", "bob", "cy")
TEMPLATE = 'rewrite = "r"\npredict = "Say."\nsynopsis_heading = "S"\ncandidate_heading = "C"\n'
"""So short that a training takes seconds."""


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
