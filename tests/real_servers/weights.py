"""The embedded model's weights for other servers: ``python weights.py GGUF FOLDER`` writes float32 safetensors.

Runs where transformers, torch and gguf are installed. Dequantised weights are the numbers that the embedded engine
computes with.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main(file: Path, folder: Path) -> None:
    """Write model and tokenizer."""
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    # dequantised already, but still marked as GGUF, which cannot be saved
    model.hf_quantizer = None
    del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
