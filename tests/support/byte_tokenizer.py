"""A tokenizer of bytes with ChatML's special tokens: one token a byte, made without a hub."""

from __future__ import annotations

import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer(
    template: str | None = CHATML,
    *,
    plain_words: tuple[str, ...] = (),
    begin: bool = False,
    merges: tuple[tuple[str, str], ...] = (),
):
    """The tokenizer; ``plain_words`` are tokens of their own, ``begin`` puts the first token before every text."""
    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, merges)]
    backend = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, list(merges)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    words = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
    backend.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in words])
    backend.add_tokens([AddedToken(word, normalized=False) for word in plain_words])
    if begin:
        backend.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", backend.token_to_id("<s>"))])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = template
    return tokenizer
