"""The perturbations by name: ours, and those of other packages (entry points ``goldless.perturbations``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from goldless.errors import UserError, nearest
from goldless.meta_evaluation.perturbations.collusion import COLLUSIONS
from goldless.meta_evaluation.perturbations.degradations import DEGRADATIONS
from goldless.meta_evaluation.perturbations.manipulations import MANIPULATIONS
from goldless.meta_evaluation.perturbations.perturbation import Perturbation
from goldless.plugins import Catalogue

OURS: tuple[Perturbation, ...] = (*DEGRADATIONS, *MANIPULATIONS, *COLLUSIONS)
"""In the order in which they are listed and made."""

PERTURBATIONS: Mapping[str, str] = {form.name: form.description for each in OURS for form in each.all_forms}
"""Forms of our names with what they are."""

MODEL_FREE: tuple[str, ...] = tuple(each.name for each in OURS if not each.needs_writer)
"""Those of ours that need no model, each in its plain form: what is done where nothing is named."""


def _wrong(value: Any) -> str | None:
    """What is wrong with what a package registers as a perturbation."""
    if not isinstance(value, Perturbation):
        return f"a perturbation must be a Perturbation, got {type(value).__name__}"
    if set(value.name) & set("[],~") or not value.name.strip():
        return f"a perturbation's name must be a word without any of [ ] , ~, got {value.name!r}"
    return None


CATALOGUE: Catalogue[Perturbation] = Catalogue("goldless.perturbations", {each.name: each for each in OURS}, _wrong)
"""All that can be asked for."""


def find_perturbation(name: str) -> Perturbation:
    """The perturbation of that name, in the form that stands in brackets after it."""
    base, bracket, rest = name.partition("[")
    found = CATALOGUE.get(base)
    if found is None or bool(bracket) != rest.endswith("]"):
        CATALOGUE.refuse_broken(base)
        forms = [form.name for each in CATALOGUE.all().values() for form in each.all_forms]
        raise UserError(
            f"unknown perturbation {name!r}{nearest(name, forms) or '.'} "
            f"Known: {', '.join(form for form in forms if '[' not in form)}; "
            f"in other forms {', '.join(form for form in forms if '[' in form)}."
        )
    if found.name != base:
        raise UserError(f"the plugin {base!r} adds a perturbation called {found.name!r}: both must have one name")
    if not bracket:
        return found
    exact = next((form for form in found.forms if form.name == name), None)
    if exact is not None:
        return exact
    if found.open_form is not None and rest.removesuffix("]").strip():
        return replace(found.open_form, name=name)
    known = [form.name for form in found.all_forms]
    raise UserError(f"there is no {name!r}{nearest(name, known) or '.'} {base} comes as: {', '.join(known)}.")


def split_names(given: Iterable[str]) -> tuple[str, ...]:
    """Names separated by commas, each once; a comma within brackets separates nothing."""
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
