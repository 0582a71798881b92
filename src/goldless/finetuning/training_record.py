"""What a training came to, kept beside its adapter so that a finished training is never done again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from goldless.files import write_text
from goldless.models.local_weights.specification import ADAPTER_CONFIG

FILE = "training.json"
RESULT_FILE = "finetune.json"
ADAPTER = "adapter"
"""Folder of the adapter in that of its training."""
CHECKPOINTS = "checkpoints"
"""Folder of what an interrupted training goes on from."""


@dataclass(frozen=True, slots=True)
class Training:
    """What a training came to."""

    steps: int
    losses: tuple[tuple[int, float], ...]
    """Step, and the mean of -log p per predicted token of what was trained on since the one before, in nats."""
    resumed_at: int = 0
    """The step of the checkpoint it went on from; 0: it began anew."""


def note_training(folder: Path, training: Training) -> None:
    """Keep what a training came to."""
    data = {"steps": training.steps, "losses": [list(row) for row in training.losses]}
    write_text(folder / FILE, json.dumps(data) + "\n")


def finished_training(folder: Path) -> Training | None:
    """What the training in a folder came to; None where it was not finished."""
    if not (folder / ADAPTER / ADAPTER_CONFIG).is_file():
        return None
    try:
        data = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return Training(data["steps"], tuple((int(step), float(loss)) for step, loss in data["losses"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
