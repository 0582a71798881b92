"""The perturbations by name: built-in ones, and those of plugins (entry points ``goldless.perturbations``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from goldless.errors import UserError, nearest
from goldless.meta_evaluation.perturbations.degradations import COLLUSION, DECEPTIVE, DEGRADATIONS, PROMPT_COPY
from goldless.meta_evaluation.perturbations.manipulations import MANIPULATIONS, NEAR_COPY, STYLE_OF_ALL, TRANSLATION
from goldless.meta_evaluation.perturbations.perturbation import Perturbation
from goldless.plugins import Catalogue

OURS: tuple[Perturbation, ...] = (
    *(*DEGRADATIONS, *MANIPULATIONS),
    *(COLLUSION, PROMPT_COPY, DECEPTIVE, STYLE_OF_ALL, NEAR_COPY, TRANSLATION),
)
"""The built-in perturbations, in the order in which they are listed and applied."""

PERTURBATIONS: Mapping[str, str] = {form.name: form.description for each in OURS for form in (each, *each.forms)}
"""Names of the built-in perturbations, with descriptions."""

MODEL_FREE: tuple[str, ...] = tuple(each.name for each in OURS if each.by_default and not each.needs_writer)
"""Those of ours that need no model, each in its plain form: the default. ``near-copy`` has to be requested."""


def _wrong(value: Any) -> str | None:
    """What is wrong with what a package registers as a perturbation."""
    if not isinstance(value, Perturbation):
        return f"a perturbation must be a Perturbation, got {type(value).__name__}"
    if set(value.name) & set("[],~") or not value.name.strip():
        return f"a perturbation's name must be a word without any of [ ] , ~, got {value.name!r}"
    return None


CATALOGUE: Catalogue[Perturbation] = Catalogue("goldless.perturbations", {each.name: each for each in OURS}, _wrong)
"""All perturbations."""


def find_perturbation(name: str) -> Perturbation:
    """The perturbation with this name, in the form given in brackets."""
    base, bracket, rest = name.partition("[")
    found = CATALOGUE.get(base)
    if found is None or bool(bracket) != rest.endswith("]"):
        CATALOGUE.refuse_broken(base)
        forms = [form.name for each in CATALOGUE.all().values() for form in (each, *each.forms)]
        raise UserError(
            f"unknown perturbation {name!r}{nearest(name, forms) or '.'} "
            f"Known: {', '.join(form for form in forms if '[' not in form)}; "
            f"in other forms {', '.join(form for form in forms if '[' in form)}"
        )
    if found.name != base:
        raise UserError(f"the plugin {base!r} must have the name of its perturbation, got {found.name!r}")
    known = {form.name: form for form in (found, *found.forms)}
    if name in known:
        return known[name]
    if rest.removesuffix("]").strip():
        for form in found.forms:
            if form.name.removeprefix(base).isupper():  # a word in capitals stands for any
                return replace(form, name=name)
    raise UserError(f"unknown perturbation {name!r}{nearest(name, known) or '.'} Forms of {base}: {', '.join(known)}")


def split_names(given: Iterable[str]) -> tuple[str, ...]:
    """Comma-separated names, each once; commas within brackets do not separate."""
    names = (name.strip() for item in given for name in re.findall(r"(?:[^,\[]|\[[^\]]*\]?)+", item))
    return tuple(dict.fromkeys(name for name in names if name))
