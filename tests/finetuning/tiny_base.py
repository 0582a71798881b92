"""A tiny random model with a tokenizer of bytes, and a toy study that such a model can learn."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from goldless.records import Task

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
AGENTS = ("ann", "bob", "cy")
TEMPLATE = 'rewrite = "r"\npredict = "Say."\nsynopsis_heading = "S"\ncandidate_heading = "C"\n'
"""So short that a training takes seconds."""


def byte_tokenizer():
    """A tokenizer of bytes, with ChatML's special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(
        [AddedToken(word, special=True, normalized=False) for word in ("<s>", "</s>", "<|im_start|>", "<|im_end|>")]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = CHATML
    return tokenizer


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
