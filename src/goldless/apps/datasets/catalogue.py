"""All sets that ``goldless study fetch`` knows."""

from __future__ import annotations

from collections.abc import Mapping

from goldless.apps.datasets.alpaca import ALPACA_DEV
from goldless.apps.datasets.auto_pre import AUTO_PRE
from goldless.apps.datasets.dataset import Dataset
from goldless.apps.datasets.faithbench import FAITHBENCH
from goldless.apps.datasets.llmbar import LLMBAR
from goldless.apps.datasets.peer_prediction import REDDIT, SAMSUM
from goldless.apps.datasets.summaries import NEWSROOM, REALSUMM, SUMMEVAL
from goldless.apps.datasets.translations import TED_ZHEN

DATASETS: Mapping[str, Dataset] = {
    dataset.name: dataset
    for dataset in (SUMMEVAL, REALSUMM, NEWSROOM, FAITHBENCH, TED_ZHEN, ALPACA_DEV, LLMBAR, SAMSUM, REDDIT, AUTO_PRE)
}
"""Sets by name, in the order in which they are listed."""
