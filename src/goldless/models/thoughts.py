"""Where a reply begins behind the model's thoughts, and which of the listed tokens are the reply's.

Thoughts come first and are known by their marks:

- A text that begins with an opening mark begins with thoughts, up to the first closing mark that is not in quotes;
  several such blocks may follow each other. Without a closing mark the thoughts have no end, and there is no reply.
- A closing mark without an opening one ends thoughts as well, since the chat templates of DeepSeek, Qwen and others
  write the opening mark themselves. It must stand where models write it: at the beginning of a line, or directly behind
  a word or a full stop; behind a space ("it writes </think> first") or in quotes it is only mentioned. One that closes
  an opening mark further down in the text ends nothing. Of several, the last counts: thoughts may contain others.

What is left has no thoughts, and reading it again changes nothing. No reply copies a mark from the texts that it is
about, since questions show those with a backslash in them (``turn_signs``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from goldless.models.turn_signs import is_control

_CHANNEL = r"(?:<\|start\|>assistant)?<\|channel\|>"
_MESSAGE = r"[^<>]{0,80}(?:<\|constrain\|>[^<>]{0,80})?<\|message\|>"
MARKS = (
    ("<think>", "</think>"),  # DeepSeek, Qwen, GLM, Nemotron, MiniMax, Hunyuan, Olmo, Phi and most others
    ("<thinking>", "</thinking>"),  # models that were asked to
    ("<thought>", "</thought>"),  # EXAONE Deep, and Gemini in OpenAI's format
    ("<reasoning>", "</reasoning>"),  # gpt-oss at Bedrock
    ("<seed:think>", "</seed:think>"),
    ("<longcat_think>", "</longcat_think>"),
    (r"\[THINK\]", r"\[/THINK\]"),  # Mistral
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # Kimi
    (r"<\|channel>", r"<channel\|>"),  # Gemma 4
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>(?:\s{0,9}<\|START_RESPONSE\|>)?"),  # Command
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),  # OpenThinker
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),  # Apertus
    (rf"{_CHANNEL}(?:analysis|commentary){_MESSAGE}", rf"{_CHANNEL}final{_MESSAGE}"),  # gpt-oss
    (r"(?-i:analysis(?=[^\W\d_a-z]))", "(?-i:assistantfinal)"),  # gpt-oss, its special tokens left out
)
"""Patterns of the opening and the closing mark of each kind of thoughts."""
MOST_BLOCKS = 32
"""Blocks of thoughts in one text; if it has more, they have no end."""
NEAR = 80
"""Characters before a place that are looked at."""

_KINDS = [re.compile(rf"(?P<opening>{opening})|(?P<closing>{closing})", re.IGNORECASE) for opening, closing in MARKS]
_AT_END = re.compile(rf"(?:{'|'.join(opening for opening, _ in MARKS)})\s*\Z", re.IGNORECASE)
_OPENING_QUOTES = frozenset("`'\"([{\u201c\u2018\u00ab\u300c")
_CLOSING_QUOTES = frozenset("`'\")]}\u201d\u2019\u00bb\u300d")
_SPACES_OF_VOCABULARIES = str.maketrans({"\u2581": " ", "\u0120": " ", "\u010a": "\n"})


def reply_start(text: str) -> int | None:
    """The place at which the reply begins, behind all thoughts; None if they have no end."""
    kinds = [kind for kind in _KINDS if kind.search(text)]
    if not kinds:
        return 0
    start = 0
    for _ in range(MOST_BLOCKS):
        begin = _after_space(text, start)
        block = next((kind for kind in kinds if (mark := kind.match(text, begin)) and mark["opening"]), None)
        end = max(_lone_end(kind, text, start) for kind in kinds) if block is None else _block_end(block, text, begin)
        if end is None:
            return None
        if end == start:
            return begin if start else 0
        start = end
    return None


def template_opening(prompt: str) -> str:
    """The opening mark at the end of a prompt, where the chat template writes it; empty if there is none."""
    mark = _AT_END.search(prompt[-NEAR:])
    return mark[0] if mark else ""


def _after_space(text: str, place: int) -> int:
    return len(text) - len(text[place:].lstrip())


def _block_end(kind: re.Pattern[str], text: str, begin: int) -> int | None:
    """The end of the thoughts that begin here; None if they have none."""
    marks = kind.finditer(text, begin)
    return next((mark.end() for mark in marks if mark["closing"] and not _is_quoted(mark)), None)


def _lone_end(kind: re.Pattern[str], text: str, start: int) -> int:
    """The end of the last closing mark without an opening one; the start if there is none."""
    end, depth = start, 0
    for mark in kind.finditer(text, start):
        if _is_quoted(mark) or not _stands_alone(mark):
            continue
        if mark["opening"]:
            depth += 1
        elif depth:
            depth -= 1
        else:
            end = mark.end()
    return end


def _is_quoted(mark: re.Match[str]) -> bool:
    text, begin, end = mark.string, mark.start(), mark.end()
    return text[begin - 1 : begin] in _OPENING_QUOTES and text[end : end + 1] in _CLOSING_QUOTES


def _stands_alone(mark: re.Match[str]) -> bool:
    """True if a mark is at the beginning of its line or directly behind a word."""
    near = mark.string[max(0, mark.start() - NEAR) : mark.start()]
    before = near.rstrip(" \t")
    return before == near or not before or before.endswith("\n")


def reply_tokens(tokens: Sequence[str], text: str) -> dict[int, str]:
    """The tokens of a reply by their number among all; they concatenate to its text but for space behind it.

    Servers that take the thoughts out of a text still list their tokens, and marks of its end. Empty if the tokens do
    not end in the text.
    """
    words, written = text.strip(), list(tokens)
    while written and (not written[-1] or _is_end_mark(written[-1].strip(), words)):
        written.pop()
    for pieces in (written, [token.translate(_SPACES_OF_VOCABULARIES) for token in written]):
        joined = "".join(pieces).rstrip()
        if words and joined.endswith(words):
            whole = joined.endswith(text.rstrip())
            begin = len(joined) - len(text.rstrip() if whole else words)
            return _last_pieces(pieces, begin, "" if whole else text[: text.index(words)])
    return {}


def _is_end_mark(token: str, words: str) -> bool:
    return is_control(token, "", special=False) and bool(token) and not words.endswith(token)


def _last_pieces(pieces: Sequence[str], begin: int, indent: str) -> dict[int, str]:
    """The pieces from this character on; none if there are other words in the piece before it."""
    first = 0
    while begin >= len(pieces[first]):
        begin -= len(pieces[first])
        first += 1
    if pieces[first][:begin].translate(_SPACES_OF_VOCABULARIES).strip():
        return {}
    return dict(enumerate([indent + pieces[first][begin:], *pieces[first + 1 :]], first))
