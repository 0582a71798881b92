"""GRE-bench: the model that writes the most informative reviews, on papers it cannot have seen."""

from __future__ import annotations

ADDS = {
    "goldless.sections": {"edition": "goldless.gre_bench.edition_results:edition_section"},
}
"""What the app adds to goldless: by group and name, the place of the object."""
