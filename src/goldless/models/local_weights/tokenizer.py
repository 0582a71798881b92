"""Tokenizer and chat template of a Hugging Face model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer

from goldless.errors import CapabilityError
from goldless.models.chat_layout import ChatLayout, fast_tokenizer
from goldless.models.interface import content_hash
from goldless.models.tokens import TextTokenizer


class SlowTokenizer(TextTokenizer):
    """A transformers tokenizer that is not built on the ``tokenizers`` library."""

    def __init__(self, tokenizer: Any, control: frozenset[int]) -> None:
        super().__init__(control)
        self._tokenizer = tokenizer

    def _read_text(self, text: str) -> tuple[int, ...]:
        ids = tuple(self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))
        if self.control.intersection(ids):
            # it must not be honoured, and this tokenizer offers no way to read it as characters
            names = self._tokenizer.convert_ids_to_tokens(sorted(self.control.intersection(ids)))
            raise CapabilityError(
                f"a text contains {', '.join(names)}, which this model's tokenizer cannot read as text"
            )
        return ids

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
    control = _control(tokenizer, template or "")
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


def _control(tokenizer: Any, template: str) -> frozenset[int]:
    """Ids that only a template may write.

    An added token that the template writes is a control token even if it is not declared special (Gemma's turns,
    Qwen's ``<think>``). White space is not: templates and people both write it.
    """
    return frozenset(
        i
        for i, token in tokenizer.added_tokens_decoder.items()
        if token.special or (token.content in template and not token.content.isspace())
    )
