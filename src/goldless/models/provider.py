"""Providers: everything goldless knows about one kind of model, in one record.

A provider is registered under its prefix, which users write before the colon. A package adds its own by an entry point:

    [project.entry-points."goldless.models"]
    toy = "my_package:toy"

where ``my_package.toy`` is a ``Provider``. The built-in ones are in ``catalogue``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from goldless.models.interface import Model, ModelIdentity, Use

Say = Callable[[str], None]  # receives messages for the user while a model is downloaded or loaded


@dataclass(frozen=True, slots=True)
class Form:
    """One way to name a model."""

    form: str
    """The way it is written."""
    purpose: str
    """A description in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One kind of model."""

    forms: tuple[Form, ...]
    """The ways to write it, for ``goldless list models`` and for messages."""
    make: Callable[[str, Use, Say], Model]
    """Opens a model from the text after the prefix. Nothing is loaded or sent before the model's ``prepare``."""
    local: bool
    """True if it computes on this machine and is therefore free; False: it runs elsewhere or in a separate process."""
    bare: bool = False
    """True if the prefix alone names the model, as in ``embedded``."""
    small: bool = False
    """True if its models are too small to judge."""
    price_id: str | None = None
    """Its id in the price table of genai-prices; None: it has no public prices."""
    unopened: Callable[[str], ModelIdentity] | None = None
    """The identity after the prefix, as far as known without a key. None: only an opened model knows."""
    choice: bool = True
    """True if its models may return probabilities of what they write."""
    batch_share: float | None = None
    """The price of a call in a batch as a share of the usual price; None: it takes no batches."""
    names: str = ""
    """A regular expression for names that are probably its models, for a hint where the prefix was left out."""
    check_scorer: Callable[[str], None] | None = None
    """Raises CapabilityError for a model after the prefix that cannot score, without a key. None: any may."""
    reopened_by_name: bool = False
    """True if the name in an identity opens the same model, and is safe to take from a file, unlike an address."""
