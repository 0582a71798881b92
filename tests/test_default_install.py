"""The default install has no pyarrow, NLTK or torch: what needs none of them works, the rest names its extra."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from goldless.metrics.catalogue import BASELINES, find_metric

pytestmark = pytest.mark.slow

ABSENT = ("pyarrow", "nltk", "rouge_score", "sacrebleu", "sentence_transformers", "torch", "transformers")
ROWS = [
    {"task": task, "agent": agent, "text": f"{agent} is running {task} and has runs."}
    for task in ("t1", "t2", "t3")
    for agent in ("ann", "bob", "cy")
]
WITHOUT = f"""
import json, sys
sys.modules.update(dict.fromkeys({ABSENT!r}))
import goldless
from goldless.errors import PrerequisiteError
rows = {ROWS!r}
"""
NAMES_OF_EXTRAS = {"nltk": "baselines", "sentence_transformers": "embeddings"}


def result_of(script: str, *arguments: object) -> object:
    """What a script prints as JSON where those packages cannot be imported."""
    command = [sys.executable, "-c", WITHOUT + script, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_frames_of_pandas_are_read_and_results_become_frames_of_pandas_without_pyarrow():
    script = """
import pandas
result = goldless.evaluate(pandas.DataFrame(rows), metrics="length")
frame = result.to_pandas()
assert isinstance(frame, pandas.DataFrame)
print(frame[["metric", "task", "agent", "score"]].to_json(orient="records"))
"""
    scores = {(row["task"], row["agent"]): row["score"] for row in result_of(script)}
    assert scores == {(row["task"], row["agent"]): 7 for row in ROWS}


def test_parquet_is_read_and_written_without_pyarrow(tmp_path):
    script = """
from pathlib import Path
from goldless.studies import read_study, study_from_frame, write_study
import polars
folder = Path(sys.argv[1])
write_study(study_from_frame(polars.DataFrame(rows)), folder / "study", format="parquet")
(folder / "study" / "responses.parquet").rename(folder / "answers.parquet")
study = read_study(folder / "answers.parquet")
(folder / "damaged.parquet").write_bytes((folder / "answers.parquet").read_bytes()[:-9])
try:
    read_study(folder / "damaged.parquet")
except goldless.StudyError as error:
    print(json.dumps([study.n_responses, [str(problem) for problem in error.problems]]))
"""
    n_responses, problems = result_of(script, tmp_path)
    assert n_responses == len(ROWS)
    assert len(problems) == 1
    assert problems[0].startswith("damaged.parquet: cannot be read: ")


def test_every_baseline_works_in_the_default_install_or_names_the_extra_that_adds_it():
    script = """
import polars
endings = {}
for name in sys.argv[1:]:
    try:
        goldless.evaluate(polars.DataFrame(rows), metrics=name)
        endings[name] = "scored"
    except PrerequisiteError as error:
        endings[name] = str(error)
print(json.dumps(endings))
"""
    extras = {name: find_metric(name).needs.extra for name in BASELINES}
    assert {"bleu", "bleu-1", "bleu-2", "rouge-1", "rouge-2", "rouge-l", "length"} == {
        name for name, extra in extras.items() if extra is None
    }
    endings = result_of(script, *BASELINES)
    for name, extra in extras.items():
        if extra is None:
            assert endings[name] == "scored"
        else:
            package = extra.package.replace("_", "-")
            installs = f"Run: pip install 'goldless[{NAMES_OF_EXTRAS[extra.package]}]'"
            assert endings[name] == f"{name} needs {package}, which is not installed. {installs}"
