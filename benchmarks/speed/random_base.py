"""A base model of random weights with a tokenizer of bytes, made on the spot: for machines that reach no hub.

    python benchmarks/speed/random_base.py FOLDER [--shape 1b]

The arithmetic of a training or a forward pass is that of a real model of the same shape; what it predicts is not.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

SHAPES: dict[str, dict[str, int]] = {
    "tiny": {
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
    "1b": {  # Llama-3.2-1B
        "vocab_size": 128_256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    "8b": {  # Llama-3.1-8B
        "vocab_size": 128_256,
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
}
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer() -> Any:
    """A tokenizer of bytes with ChatML's special tokens: one token a byte."""
    import transformers  # noqa: PLC0415 - an extra
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    words = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
    backend.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in words])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=words[0], eos_token=words[1])
    tokenizer.chat_template = CHATML
    return tokenizer


def build_base(folder: Path, shape: str, *, seed: int = 0) -> Path:
    """The model in a folder, in bf16; built once and kept."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    if (folder / "config.json").is_file():
        return folder
    config = transformers.LlamaConfig(
        **SHAPES[shape], max_position_embeddings=8192, bos_token_id=256, eos_token_id=257, dtype=torch.bfloat16
    )
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    byte_tokenizer().save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def main() -> None:
    """Build it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="1b")
    arguments = parser.parse_args()
    print(build_base(arguments.folder, arguments.shape))


if __name__ == "__main__":
    main()
