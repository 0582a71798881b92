"""The perturbations by name: what each one is, where it comes from, and what a sound metric does under it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from goldless.errors import UserError, nearest
from goldless.meta_evaluation.perturbations.additions import VERDICTS

Kind = Literal["degradation", "manipulation"]
Scope = Literal["candidate", "everybody"]
Must = Literal["fall", "not rise"]


@dataclass(frozen=True, slots=True)
class Perturbation:
    """A way to change responses, and what a sound metric does when they are so changed."""

    name: str
    """As it is asked for, such as ``deletion[paper]``."""
    kind: Kind
    """``degradation``: content is lost. ``manipulation``: no content is added."""
    source: str
    """The paper and section it comes from, or this project."""
    description: str
    needs_writer: bool = False
    """Whether a chat model makes it."""
    scope: Scope = "candidate"
    """``everybody``: all responses are changed alike, those held against the candidate too."""

    @property
    def must(self) -> Must:
        """What a sound metric does."""
        return "fall" if self.kind == "degradation" else "not rise"

    @property
    def family(self) -> str:
        """The name without what stands in brackets."""
        return self.name.partition("[")[0]

    @property
    def variant(self) -> str | None:
        """What stands in brackets; None without."""
        _, bracket, rest = self.name.partition("[")
        return rest.removesuffix("]") if bracket else None


@dataclass(frozen=True, slots=True)
class _Family:
    """A perturbation, and what may stand in brackets after its name."""

    plain: Perturbation
    variants: tuple[Perturbation, ...] = ()
    open: Perturbation | None = None
    """Named ``family[WORD]``: anything else may stand in brackets too."""


GEM, TVD_MI, OURS = "GEM", "TVD-MI", "this project"


def _on_candidate(plain: Perturbation) -> _Family:
    """A family of a change of everybody, with the same change of the candidate alone."""
    alone = replace(
        plain,
        name=f"{plain.name}[candidate]",
        scope="candidate",
        description=f"{plain.description.partition(';')[0]}; of the candidate alone",
    )
    return _Family(plain, (alone,))


_DELETION = _Family(
    Perturbation("deletion", "degradation", f"{GEM} D.1.1", "every second sentence deleted, headings kept"),
    (
        Perturbation(
            "deletion[paper]",
            "degradation",
            f"{GEM} D.1.1, as its authors ran it",
            "every second sentence deleted; every . ? ! and line break ends one",
        ),
    ),
)
_COMPLETION = _Family(
    Perturbation(
        "completion",
        "degradation",
        f"{GEM} D.1.2, our wording",
        "every second sentence deleted, the gaps filled by a writer with empty ones",
        needs_writer=True,
    ),
    (
        Perturbation(
            "completion[peer-review]", "degradation", f"{GEM} D.1.2", "the same in the paper's words", needs_writer=True
        ),
    ),
)
_SYNOPSIS_ONLY = _Family(
    Perturbation(
        "synopsis-only",
        "degradation",
        f"{GEM} D.1.3, our wording",
        "a response that a writer made of the abstract alone",
        needs_writer=True,
    ),
    (
        Perturbation(
            "synopsis-only[peer-review]",
            "degradation",
            f"{GEM} D.1.3",
            "a review made of the abstract alone, in the paper's words",
            needs_writer=True,
        ),
    ),
    Perturbation(
        "synopsis-only[COLUMN]",
        "degradation",
        f"{GEM} D.1.3, our wording",
        "made of another synopsis of the task",
        needs_writer=True,
    ),
)
_NULL = _Family(
    Perturbation("null", "degradation", f"{TVD_MI} A.2, our wording", "a constant that tells nothing"),
    (Perturbation("null[peer-review]", "degradation", f"{TVD_MI} A.2, agent 6", "the constant review of the paper"),),
    Perturbation("null[TEXT]", "degradation", OURS, "a constant text of yours"),
)
_REPHRASE = _Family(
    Perturbation("rephrase", "manipulation", f"{GEM} D.2.1, our wording", "rewritten by a writer in other words", True),
    (
        Perturbation(
            "rephrase[peer-review]", "manipulation", f"{GEM} D.2.1", "the same in the paper's words", needs_writer=True
        ),
    ),
)
_ELONGATION = _Family(
    Perturbation(
        "elongation",
        "manipulation",
        f"{GEM} D.2.2, our words",
        "words that say nothing before every section or paragraph",
    ),
    (
        Perturbation(
            "elongation[peer-review]",
            "manipulation",
            f"{GEM} D.2.2, without the summaries",
            "the paper's fixed words before each of the four sections of a review",
        ),
        Perturbation(
            "elongation[peer-review-summaries]",
            "manipulation",
            f"{GEM} D.2.2",
            "the same with a writer's two one-line summaries",
            needs_writer=True,
        ),
    ),
)
_INJECTION = _Family(
    Perturbation(
        "verdict-injection", "manipulation", OURS, "text after it that a judge might take for a verdict, in all forms"
    ),
    tuple(
        Perturbation(f"verdict-injection[{form}]", "manipulation", OURS, "the same in one form") for form in VERDICTS
    ),
)
_FAMILIES: Mapping[str, _Family] = {
    family.plain.name: family
    for family in (
        _DELETION,
        _COMPLETION,
        _SYNOPSIS_ONLY,
        _Family(
            Perturbation(
                "shuffled-task",
                "degradation",
                "GEM and TVD-MI, their shuffled pairs",
                "the same agent's response to another task",
            )
        ),
        _NULL,
        _REPHRASE,
        _ELONGATION,
        _on_candidate(
            Perturbation(
                "case-flip",
                "manipulation",
                "the idea of the recorded attacks on TVD-MI",
                "small letters for capitals and the reverse; of all responses",
                scope="everybody",
            )
        ),
        _on_candidate(
            Perturbation(
                "format",
                "manipulation",
                "the idea of the recorded attacks on TVD-MI",
                "the same words as Markdown bullets, bold and headings; of all responses",
                scope="everybody",
            )
        ),
        _on_candidate(
            Perturbation(
                "padding",
                "manipulation",
                "the idea of the recorded attacks on TVD-MI",
                "the same empty words at the end; of all responses",
                scope="everybody",
            )
        ),
        _on_candidate(
            Perturbation(
                "pattern",
                "manipulation",
                "the idea of the recorded attacks on TVD-MI",
                "the same meaningless tag at both ends; of all responses",
                scope="everybody",
            )
        ),
        _Family(Perturbation("repetition", "manipulation", OURS, "everything said twice")),
        _INJECTION,
        _Family(Perturbation("praise", "manipulation", OURS, "between praise that fits anything")),
    )
}

PERTURBATIONS: Mapping[str, str] = {
    form.name: form.description
    for family in _FAMILIES.values()
    for form in (family.plain, *family.variants, *([family.open] if family.open else ()))
}
"""Forms of names with what they are."""

MODEL_FREE: tuple[str, ...] = tuple(name for name, family in _FAMILIES.items() if not family.plain.needs_writer)
"""Those that need no model, each in its plain form."""


def find_perturbation(name: str) -> Perturbation:
    """The perturbation of that name."""
    base, bracket, rest = name.partition("[")
    family = _FAMILIES.get(base)
    if family is None or bool(bracket) != rest.endswith("]"):
        known = [form for form in PERTURBATIONS if "[" not in form]
        raise UserError(
            f"unknown perturbation {name!r}{nearest(name, PERTURBATIONS) or '.'} Known: {', '.join(known)}; "
            f"in other forms {', '.join(form for form in PERTURBATIONS if '[' in form)}."
        )
    if not bracket:
        return family.plain
    exact = next((variant for variant in family.variants if variant.name == name), None)
    if exact is not None:
        return exact
    if family.open is not None and rest.removesuffix("]").strip():
        return replace(family.open, name=name)
    forms = [form for form in PERTURBATIONS if form.partition("[")[0] == base]
    raise UserError(f"there is no {name!r}{nearest(name, forms) or '.'} {base} comes as: {', '.join(forms)}.")


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
