"""Perturbations: deliberate changes of texts, to see how a metric reacts.

A *degradation* removes content, so a sound metric falls. A *manipulation* changes the form and adds no content, so a
sound metric does not rise. Those that need no model are pure functions of the text, each usable alone.
"""

from __future__ import annotations

from goldless.meta_evaluation.perturbations.perturbation import Perturbation, Setting, of_text

__all__ = ["Perturbation", "Setting", "of_text"]
