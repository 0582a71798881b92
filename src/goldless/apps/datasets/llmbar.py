"""LLMBar: pairs of responses of which exactly one follows the instruction, checked by experts."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
import polars as pl

from goldless.apps.datasets.dataset import Dataset, SourceFile, Tables

FOLDER = "Dataset/LLMBar"
PART_OF_PATH = {
    f"{FOLDER}/Natural/dataset.json": "Natural",
    f"{FOLDER}/Adversarial/Neighbor/dataset.json": "Adversarial-Neighbor",
    f"{FOLDER}/Adversarial/GPTInst/dataset.json": "Adversarial-GPTInst",
    f"{FOLDER}/Adversarial/GPTOut/dataset.json": "Adversarial-GPTOut",
    f"{FOLDER}/Adversarial/Manual/dataset.json": "Adversarial-Manual",
}
PREFERENCES = {1: 1, 2: -1}
"""Preference by the number of the better response."""


def convert(files: Mapping[str, bytes]) -> Tables:
    """Make the tables of a study with the preference of the experts for each pair."""
    tasks, responses, labels = [], [], []
    for path, part in PART_OF_PATH.items():
        for number, pair in enumerate(orjson.loads(files[path])):
            task = f"{part}-{number:03}"
            tasks.append({"task": task, "prompt": pair["input"], "part": part})
            responses.append({"task": task, "agent": "out1", "text": pair["output_1"]})
            responses.append({"task": task, "agent": "out2", "text": pair["output_2"]})
            preference = PREFERENCES[pair["label"]]
            labels.append({"task": task, "first": "out1", "second": "out2", "rater": "gold", "preference": preference})
    return {"tasks": pl.DataFrame(tasks), "responses": pl.DataFrame(responses), "labels": pl.DataFrame(labels)}


LLMBAR = Dataset(
    name="llmbar",
    question="Which of two responses follows the instruction? Checked by experts; 319 pairs are made to mislead.",
    size="419 pairs in 5 parts",
    licence="MIT",
    citation="Zeng et al. 2024, Evaluating Large Language Models at Evaluating Instruction Following",
    repository="princeton-nlp/LLMBar",
    commit="900616bff90b6c6c8e1681f7d079250637c55992",
    files=(
        SourceFile(
            f"{FOLDER}/Natural/dataset.json", 91269, "f7127b7aa78104cb8e03a2b1b3ac0077e95b125714dd441a8ee63666145a3375"
        ),
        SourceFile(
            f"{FOLDER}/Adversarial/Neighbor/dataset.json",
            131988,
            "6712c7eda6342602e0bc7c06c282fa95e2110d4e741a284026a62d937f9780a0",
        ),
        SourceFile(
            f"{FOLDER}/Adversarial/GPTInst/dataset.json",
            211768,
            "1002425f73c2cf54b6e6de99bce3f6c60fa2a17d13194772e37d7481c1351d42",
        ),
        SourceFile(
            f"{FOLDER}/Adversarial/GPTOut/dataset.json",
            32640,
            "1ff56e520d7607750a9866a3be0f5b850392ca4477a1f69d80f32bd3e310f561",
        ),
        SourceFile(
            f"{FOLDER}/Adversarial/Manual/dataset.json",
            79050,
            "0d9598769a39cdbbd265778c37e49939d41d5f76dcfb17bd75dcfa07516d3837",
        ),
    ),
    convert=convert,
)
