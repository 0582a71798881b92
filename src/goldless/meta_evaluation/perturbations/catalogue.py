"""The perturbations by name: built-in ones, and those of plugins (entry points ``goldless.perturbations``)."""

from __future__ import annotations

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

PERTURBATIONS: Mapping[str, str] = {form.name: form.description for each in OURS for form in each.all_forms}
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
        forms = [form.name for each in CATALOGUE.all().values() for form in each.all_forms]
        raise UserError(
            f"unknown perturbation {name!r}{nearest(name, forms) or '.'} "
            f"Known: {', '.join(form for form in forms if '[' not in form)}; "
            f"in other forms {', '.join(form for form in forms if '[' in form)}"
        )
    if found.name != base:
        raise UserError(f"the plugin {base!r} must have the name of its perturbation, got {found.name!r}")
    if not bracket:
        return found
    exact = next((form for form in found.forms if form.name == name), None)
    if exact is not None:
        return exact
    if found.open_form is not None and rest.removesuffix("]").strip():
        return replace(found.open_form, name=name)
    known = [form.name for form in found.all_forms]
    raise UserError(f"unknown perturbation {name!r}{nearest(name, known) or '.'} Forms of {base}: {', '.join(known)}")


def split_names(given: Iterable[str]) -> tuple[str, ...]:
    """Comma-separated names, each once; commas within brackets do not separate."""
    found: dict[str, None] = {}
    for item in given:
        depth, current = 0, ""
        for character in f"{item},":
            depth += (character == "[") - (character == "]")
            if character == "," and depth <= 0:
                found |= {current.strip(): None} if current.strip() else {}
                depth, current = 0, ""
            else:
                current += character
        if current.strip():  # a bracket that is never closed: an unknown name, to be said whole
            found[current.removesuffix(",").strip()] = None
    return tuple(found)
