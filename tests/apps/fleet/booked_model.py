"""A model for workers that keeps a book of what it computed, and falls when it is told to."""

from __future__ import annotations

import functools
import os
import re
import signal
import time
from collections import Counter
from pathlib import Path

from goldless.models.interface import ChatRequest, content_hash
from goldless.models.scripted import ScriptedModel

BY_CANARIES = 21
"""Rows that the canaries compute, nine of them different."""
FALLS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}


class Book:
    """A folder that all workers see: what was computed, and orders to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def order(self, what: str, text: str = "") -> None:
        (self.folder / what).write_text(text)

    def rows(self) -> list[tuple[str, int]]:
        """What was computed, by which process; in order."""
        path = self.folder / "book"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(key, int(process)) for key, process in map(str.split, lines)]

    def computed_again(self) -> int:
        """How many computations were of something that had been computed before."""
        rows = self.rows()[BY_CANARIES:]
        return sum(count - 1 for count in Counter(key for key, _ in rows).values())

    def enter(self, *request: str) -> None:
        with (self.folder / "book").open("a") as book:
            book.write(f"{content_hash(request)} {os.getpid()}\n")

    def obey(self) -> None:
        """Fall if there is an order to; each order is for one worker, some rows after the one before."""
        done = len(self.rows())
        if done < BY_CANARIES:
            return
        for order in sorted(self.folder.glob("fall-*")):
            how, after = order.read_text().split()
            if done >= int(after):
                try:
                    order.unlink()
                except FileNotFoundError:
                    continue  # another worker obeyed
                os.kill(os.getpid(), FALLS[how])
        pause = self.folder / "pause"
        time.sleep(float(pause.read_text()) if pause.exists() else 0)


def score(book: Book, context: str, target: str) -> list[float]:
    """One value a word: likely if the context has it."""
    words = re.findall(r"\w+", target)
    if "broken" in words:
        raise ArithmeticError("this row is broken")
    if "deadly" in words:
        os.kill(os.getpid(), signal.SIGKILL)
    book.obey()
    known = set(re.findall(r"\w+", context))
    book.enter(context, target)
    return [-0.5 if word in known else -2.0 for word in words]


def say(book: Book, request: ChatRequest) -> str:
    """One of the choices, or a text, by a hash of the request."""
    prompt = request.messages[-1].content
    book.obey()
    book.enter(prompt)
    number = int(content_hash(prompt), 16)
    return request.choices[number % len(request.choices)] if request.choices else f"said {number % 1000}"


def booked_model(folder: Path) -> ScriptedModel:
    book = Book(folder)
    return ScriptedModel(name="booked", logprobs=functools.partial(score, book), answers=functools.partial(say, book))
