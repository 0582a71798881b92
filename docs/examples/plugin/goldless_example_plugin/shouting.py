"""A perturbation: every response in capital letters. It adds no content, so a sound metric must not rise."""

from __future__ import annotations

from goldless.meta_evaluation.perturbations.perturbation import Perturbation, of_text

shouting = Perturbation(
    name="shouting",
    kind="manipulation",
    source="this example",
    description="the response in capital letters",
    apply=of_text(str.upper),
)
