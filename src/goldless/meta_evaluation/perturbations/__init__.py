"""Perturbations: texts changed on purpose, to see what a metric makes of it.

A *degradation* takes content away, so a sound metric falls. A *manipulation* changes the dress and adds no content, so
it must not rise. Those that need no model are pure functions of the text, each usable alone.
"""

from __future__ import annotations

from goldless.meta_evaluation.perturbations.perturbation import Perturbation, Setting, of_text

__all__ = ["Perturbation", "Setting", "of_text"]
