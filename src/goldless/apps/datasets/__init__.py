"""Public sets with known truth, by name: fetched from their owners, checked, and converted to studies with labels.

dataset.py      what is known of a set: its files with their hashes, its licence, its converter
sources.py      the bytes of the files, from the owner's address or from a copy
catalogue.py    all sets
the others      one converter each
"""

from __future__ import annotations

ADDS = {"goldless.study_verbs": {"fetch": "goldless.apps.datasets.commands:fetch"}}
"""Parts that the app adds to goldless, by group and name."""
