"""GRE-bench."""

from __future__ import annotations

from goldless.gre_bench import ADDS as ADDS
