"""Everything that can go wrong, as one tree.

GoldlessError
├── UserError                 the input or the command is wrong (exit code 2)
│   ├── StudyError            a study cannot be read; carries every problem found
│   ├── ModelSpecError        an unknown model specification
│   ├── PrerequisiteError     something must be installed, set or downloaded first
│   ├── CapabilityError       this model cannot do what the metric needs
│   ├── TextTooLongError      a text does not fit the model's context
│   ├── MetricError           a metric cannot be computed on this study
│   └── BudgetError           the budget does not allow a single call
├── WaitingError              replies are not there yet: run the same command later (exit code 3)
└── ModelError                a model misbehaves
    ├── CanaryError           a scorer's log-probabilities cannot be trusted
    └── CallError             one call failed; carries the typed failure
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goldless.records import CallFailure

MOST_LISTED = 16
"""Known words that a message lists: as many as the longest list of goldless's own."""


class GoldlessError(Exception):
    """Anything goldless raises on purpose."""


class UserError(GoldlessError):
    """The input or the command is wrong: the message says what was given, what is allowed and what to do."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong in a study."""

    message: str
    """Given and allowed values."""
    file: str = ""
    """The file, as the user named it; empty for a table passed from Python."""
    line: int | None = None
    """Line of a text file, or row of a Parquet file or frame, counted from 1."""

    def __str__(self) -> str:
        """The problem as ``file:line: message``."""
        place = self.file if self.line is None else f"{self.file or 'row'}:{self.line}"
        return f"{place}: {self.message}" if place else self.message


class StudyError(UserError):
    """A study that cannot be read, with every problem found in it."""

    def __init__(self, problems: Sequence[Problem], *, study: str = "study", total: int | None = None) -> None:
        """Keep the problems and print the first hundred; ``total``: their number, where not all are given."""
        self.problems = tuple(problems)
        shown = [f"  {problem}" for problem in self.problems[:100]]
        if len(self.problems) > len(shown):
            shown.append(f"  … and {len(self.problems) - len(shown)} more")
        count = len(self.problems) if total is None else total
        super().__init__("\n".join([f"{study}: {count:,} problem{'s' * (count != 1)}", *shown]))


class ModelSpecError(UserError):
    """An unknown model specification."""


class PrerequisiteError(UserError):
    """Something must be installed, set or downloaded first; the message gives the command."""


class CapabilityError(UserError):
    """The model cannot do what is required."""


class TextTooLongError(UserError):
    """A text does not fit the model's context. Texts are never cut."""


class MetricError(UserError):
    """A metric that is unknown or cannot be computed on this study."""


class BudgetError(UserError):
    """The budget does not allow a single call."""


class WaitingError(GoldlessError):
    """Replies are not there yet; the same command goes on from here later."""


class ModelError(GoldlessError):
    """A model misbehaves."""


class CanaryError(ModelError):
    """A scorer whose log-probabilities cannot be trusted."""


class CallError(ModelError):
    """One failed call."""

    def __init__(self, failure: CallFailure) -> None:
        """Carry the typed failure."""
        self.failure = failure
        super().__init__(f"{failure.kind}: {failure.message}")


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint such as ``. Did you mean 'task'?``, or an empty string if no known word is close."""
    close = difflib.get_close_matches(word, list(known), n=5, cutoff=0.5)
    best = next((one for one in close if _alike(word, one)), None)
    return "" if best is None else f". Did you mean {best!r}?"


def listed(names: Iterable[str], most: int = 5) -> str:
    """The first names, and the number of the others: a, b and 3 more."""
    every = list(names)
    return ", ".join(every[:most]) + f" and {len(every) - most:,} more" * (len(every) > most)


def suggested(word: str, known: Collection[str], title: str) -> str:
    """The end of a message about an unknown word: the nearest known one, and the first of all."""
    return f"{nearest(word, known) or '.'} {title}: {listed(known, MOST_LISTED) or 'none'}"


def check_known(
    names: Iterable[str], known: Collection[str], said: str, title: str, error: type[UserError] = UserError
) -> None:
    """Raise at the first name that is not known; the message is ``SAID 'NAME'. TITLE: …``, with the nearest one."""
    for name in names:
        if name not in known:
            raise error(f"{said} {name!r}{suggested(name, known, title)}")


def _alike(word: str, other: str) -> bool:
    """True if one begins with the other, or is a likely slip: the first letter is seldom the wrong one."""
    if word.startswith(other) or other.startswith(word):
        return True
    same_start = word[:1].casefold() == other[:1].casefold()
    return difflib.SequenceMatcher(None, other, word).ratio() >= (0.65 if same_start else 0.75)


def kind_and_place(error: BaseException) -> str:
    """The type of an exception with its file and line, for logs: the message of an unknown error may quote a text."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" in {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return f"{type(error).__name__}{place}"
