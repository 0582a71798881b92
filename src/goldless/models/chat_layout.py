"""Conversion of messages to token ids, for models whose tokenizer is available.

Texts of people and models are encoded with special tokens switched off, so a response that contains ``<|im_end|>`` is
read as those characters and cannot end its turn. Only the template's own text may become special tokens.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jinja2 import Template, TemplateError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from goldless.errors import CapabilityError
from goldless.models.interface import Message
from goldless.models.tokens import TextTokenizer, token_texts

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TEMPLATE_DATE = dt.date(2024, 7, 26)
"""The date given to templates, the default of the Llama 3 ones: a prompt must not change overnight."""


PLAIN_END = "\n\n"
"""Separator after every message for a model without chat template."""
STAND_IN = "\ue000{}\ue001"
"""Placeholder for a content while the template is rendered, to find the template's own text."""


def fast_tokenizer(backend: Tokenizer, control: frozenset[int] = frozenset()) -> TextTokenizer:
    """The tokenizer, and a copy for texts, in which these tokens, too, are read as characters."""
    rules = json.loads(backend.to_str())
    # a tokenizer file may ask for texts to be cut or padded: never here
    rules["truncation"] = rules["padding"] = None
    plain = type(backend).from_str(json.dumps(rules))
    for token in rules["added_tokens"]:
        token["special"] = token["special"] or token["id"] in control
    return TextTokenizer(plain, type(backend).from_str(json.dumps(rules)))


@dataclass(frozen=True, slots=True)
class ChatLayout:
    """The way messages become token ids: by the model's chat template, or plainly without one."""

    tokenizer: TextTokenizer
    template: str | None
    begin: str
    """Beginning-of-sequence token."""
    end: str
    """End-of-sequence token."""
    add_begin: bool
    """True if a sequence without template starts with the beginning-of-sequence token."""

    @property
    def name(self) -> str:
        return "plain" if self.template is None else "chat"

    def context(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids up to where the assistant's turn begins."""
        if self.template is None:
            begin = self.tokenizer.token_id(self.begin) if self.add_begin else None
            text = self.tokenizer.text_ids(_plain(messages))
            return text if begin is None else (begin, *text)
        turns, (first, *others) = self._turns(messages)
        ids = self.tokenizer.template_ids(first)
        for message, piece in zip(turns, others, strict=True):
            ids += self.tokenizer.text_ids(message.content) + self.tokenizer.template_ids(piece)
        return ids

    def read(self, contexts: Iterable[Sequence[Message]], targets: Iterable[str]) -> None:
        """Tokenise many texts together, so that ``context`` and ``target`` find them."""
        if self.template is None:
            texts = [_plain(messages) for messages in contexts]
        else:
            texts = [turn.content for messages in contexts for turn in self._turns(messages)[0]]
        self.tokenizer.read([*texts, *targets])

    def target(self, text: str) -> tuple[int, ...]:
        """Token ids of a whole assistant's turn: the text, and the end-of-turn token if there is one."""
        ids, end = self.tokenizer.text_ids(text), self.end_of_turn()
        return ids if end is None else (*ids, end)

    def pieces(self, target: tuple[int, ...]) -> tuple[str, ...] | None:
        """The texts of a target's tokens, an end-of-turn token as ""; None if the tokenizer cannot be split."""
        ended = target[-1:] == (self.end_of_turn(),)
        texts = token_texts(self.tokenizer, target[:-1] if ended else target)
        return None if texts is None else (*texts, *[""] * ended)

    def merges_at_join(self, target: str) -> bool:
        """True if the tokenizer merges the end of the context with the start of the target when given both as one text.

        If so, the model was trained on the merged token and never saw the boundary where its log-probabilities would be
        read.
        """
        encode, decode = self.tokenizer.template_ids, self.tokenizer.decode
        if self.template is None:
            encode, before = self.tokenizer.text_ids, PLAIN_END
        else:
            before = self._pieces((Message("user", ""),), open_turn=True)[-1]
        apart, together = decode(encode(before), skip_special_tokens=False), encode(before + target)
        beginnings = (decode(together[:end], skip_special_tokens=False) for end in range(len(together) + 1))
        return apart not in beginnings

    def end_of_turn(self) -> int | None:
        """The token that closes the assistant's turn, or None without template."""
        if self.template is None:
            return None
        closing = self._pieces((Message("user", ""), Message("assistant", "")), open_turn=False)[-1]
        ids = self.tokenizer.template_ids(closing)
        # a template may write a blank before the token that closes the turn
        special = [i for i in ids if i in self.tokenizer.control]
        if special:
            return special[0]
        return ids[0] if ids else self.tokenizer.token_id(self.end)

    def stop_tokens(self) -> frozenset[int]:
        return frozenset(t for t in (self.end_of_turn(), self.tokenizer.token_id(self.end)) if t is not None)

    def _turns(self, messages: Sequence[Message]) -> tuple[Sequence[Message], list[str]]:
        """The messages as the template takes them, and its own text around them."""
        try:
            return messages, self._pieces(messages, open_turn=True)
        except CapabilityError:
            if len(messages) < 2 or messages[0].role != "system":
                raise
        # some templates know no system role: its words then open the first turn
        merged = Message(messages[1].role, f"{messages[0].content}\n\n{messages[1].content}")
        return self._turns([merged, *messages[2:]])

    def _pieces(self, messages: Sequence[Message], *, open_turn: bool) -> list[str]:
        """The template's own text before, between and after the messages' contents."""
        if self.template is None:
            raise CapabilityError("this model has no chat template")
        roles = tuple(message.role for message in messages)
        text = _rendered(self.template, roles, open_turn=open_turn, begin=self.begin, end=self.end)
        pieces = []
        for i in range(len(messages)):
            before, found, text = text.partition(STAND_IN.format(i))
            if not found:
                raise CapabilityError("the model's chat template drops or reorders messages")
            pieces.append(before)
        return [*pieces, text]


def _plain(messages: Sequence[Message]) -> str:
    return "".join(f"{message.content}{PLAIN_END}" for message in messages)


@functools.lru_cache(maxsize=256)
def _rendered(template: str, roles: tuple[str, ...], *, open_turn: bool, begin: str, end: str) -> str:
    stand_ins = [{"role": role, "content": STAND_IN.format(i)} for i, role in enumerate(roles)]
    try:
        return _compiled(template).render(
            messages=stand_ins, add_generation_prompt=open_turn, bos_token=begin, eos_token=end
        )
    except TemplateError as error:
        raise CapabilityError(f"the model's chat template does not accept these messages: {error}") from error


@functools.lru_cache(maxsize=16)
def _compiled(template: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
    )

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = TEMPLATE_DATE.strftime
    return environment.from_string(template)


class _Generation(Extension):
    """``{% generation %}``, which some templates use to mark the assistant's text for training: ignored here."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Any) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)
