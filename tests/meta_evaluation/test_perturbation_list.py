"""The list of perturbations in the help is that of the catalogue."""

from __future__ import annotations

from goldless.cli.trust import PERTURBATIONS as SHOWN
from goldless.meta_evaluation.perturbations.catalogue import PERTURBATIONS


def test_the_help_names_every_perturbation_of_ours():
    shown = {name.strip() for name in SHOWN.split(",")}
    assert {name.partition("[")[0] for name in shown} == {name.partition("[")[0] for name in PERTURBATIONS}
