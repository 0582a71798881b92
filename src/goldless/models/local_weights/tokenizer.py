"""Tokenizer and chat template of a Hugging Face model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer

from goldless.errors import CapabilityError
from goldless.models.chat_layout import ChatLayout, fast_tokenizer
from goldless.models.interface import content_hash
from goldless.models.tokens import TextTokenizer
from goldless.models.turn_signs import is_control


class SlowTokenizer(TextTokenizer):
    """A transformers tokenizer that is not built on the ``tokenizers`` library."""

    def __init__(self, tokenizer: Any, control: frozenset[int]) -> None:
        super().__init__(control)
        self._tokenizer = tokenizer

    def _read_texts(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        encode = self._tokenizer.encode
        read = [tuple(encode(text, add_special_tokens=False, split_special_tokens=True)) for text in texts]
        if honoured := self.control.intersection(itertools.chain.from_iterable(read)):
            # this tokenizer offers no way to read them as characters
            names = self._tokenizer.convert_ids_to_tokens(sorted(honoured))
            raise CapabilityError(
                f"a text contains {', '.join(names)}, which this model's tokenizer cannot read as text"
            )
        return read

    def _read_template(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=False))

    def token_id(self, token: str) -> int | None:
        """The id of one token of the vocabulary, or None if there is no such token."""
        found: int | None = self._tokenizer.get_vocab().get(token)
        return found

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of token ids."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens))


def chat_layout(tokenizer: Any) -> ChatLayout:
    """How a transformers tokenizer lays out messages: by its default chat template, or plainly without one."""
    template = tokenizer.get_chat_template() if tokenizer.chat_template else None
    control = frozenset(
        i
        for i, token in tokenizer.added_tokens_decoder.items()
        if is_control(token.content, template or "", special=token.special)
    )
    backend = getattr(tokenizer, "backend_tokenizer", None)
    begin = tokenizer.bos_token_id
    return ChatLayout(
        tokenizer=fast_tokenizer(backend, control)
        if isinstance(backend, Tokenizer)
        else SlowTokenizer(tokenizer, control),
        template=template,
        begin=tokenizer.bos_token or "",
        end=tokenizer.eos_token or "",
        add_begin=begin is not None and list(tokenizer.encode("a"))[:1] == [begin],
    )


def tokenizer_hash(tokenizer: Any) -> str:
    """Hash of everything that determines token ids: vocabulary, rules and chat template."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules = backend.to_str() if isinstance(backend, Tokenizer) else [type(tokenizer).__name__, tokenizer.get_vocab()]
    return content_hash(rules, tokenizer.chat_template)
