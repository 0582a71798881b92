"""Checking what models are named before a name is stored or anything is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from goldless.errors import UserError
from goldless.models.catalogue import open_model
from goldless.models.provider import Use


def check_models(given: Iterable[tuple[Any, Use]]) -> None:
    """Refuse specifications that name no model, or one that cannot be had here; all that is wrong at once.

    Nothing is loaded or sent. Models themselves are taken as they are. What is said does not repeat an address, which
    may hold a secret.
    """
    wrong = []
    for spec, use in given:
        if not isinstance(spec, str):
            continue
        try:
            open_model(spec, use=use)
        except UserError as error:
            wrong.append(error)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        raise UserError("\n".join(dict.fromkeys(map(str, wrong))))
