"""Which metrics are controls and baselines: for them a higher score is higher, or longer, and never called better."""

from __future__ import annotations

import re
from typing import Literal

BASELINES = ("bertscore", "bleu", "rouge")
Comparative = Literal["better", "higher", "longer"]
DIRECTIONS: dict[Comparative, str] = {
    "better": "higher is better",
    "higher": "a baseline: higher is more overlap",
    "longer": "a control: longer is not better",
}


def comparative(metric: str) -> Comparative:
    """What a response with a higher score is called."""
    base = re.split(r"[\[+]", metric, maxsplit=1)[0]
    if base == "length":
        return "longer"
    return "higher" if base.startswith(BASELINES) else "better"


def direction(metric: str) -> str:
    """What a higher score means, for the heading of a table or axis."""
    return DIRECTIONS[comparative(metric)]


def heading(metric: str, unit: str) -> str:
    """A metric with what it measures in one line."""
    shared = " shared on the task alone" * metric.startswith("shared-info")
    return f"{metric} ({unit}{shared}, {direction(metric)})"
