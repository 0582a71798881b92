"""Marks: a word that a question asks its verdict to carry, so that no response can write a verdict.

A mark is made from the question by a secret of the journal (HMAC-SHA-256). A response cannot contain the mark of the
question that shows it, because nobody without the secret can compute it; a plain hash could be computed by the
response itself. Calls that differ by their mark alone are the same call, so replies from a journal with another secret
are found; each stored reply keeps the mark that its question carried.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets

SECRET_VARIABLE = "GOLDLESS_MARK_SECRET"  # noqa: S105 - the name of a variable
"""Environment variable that replaces the journal's secret, so that documents and tests are the same everywhere."""
LETTERS = "bcdfghjklmnpqrstvwxz"
"""Consonants, so that a mark is no word of any language."""
LENGTH = 8
SECRET_BYTES = 32


def new_secret() -> bytes:
    """Return a secret for a new journal."""
    return secrets.token_bytes(SECRET_BYTES)


def mark_of(secret: bytes, question: str) -> str:
    """Return the mark of a question: eight letters that depend on the question and the secret."""
    fixed_secret = os.environ.get(SECRET_VARIABLE)
    key = fixed_secret.encode() if fixed_secret else secret
    digest = hmac.digest(key, question.encode(), hashlib.sha256)
    number = int.from_bytes(digest, "big")
    letters = []
    for _ in range(LENGTH):
        number, index = divmod(number, len(LETTERS))
        letters.append(LETTERS[index])
    return "".join(letters)


_PROCESS_SECRET = new_secret()


def process_mark(question: str) -> str:
    """Return the mark of a question to a model without a journal."""
    return mark_of(_PROCESS_SECRET, question)
