"""How fast samples of lm-evaluation-harness become a study, beside polars reading the same files.

    python benchmarks/speed/importing.py [--samples 1000000]

The files have the form that ``--log_samples`` writes, one per model; each reading runs in a fresh process, in turn.
``polars`` reads all columns into frames; ``study`` is ``goldless.import_study``, checked and ready to be scored;
``import`` also writes it to a folder, as ``goldless study import`` does.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from goldless.studies import import_study, write_study

MODELS = 8
STEPS = ("polars", "study", "import")
DATE = "2026-01-01T00-00-00.000000"


def make_samples(folder: Path, samples: int) -> int:
    """Write the samples of all models; the bytes of the files."""
    source = random.Random(0)
    words = ["".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=source.randint(2, 9))) for _ in range(5000)]
    texts = [" ".join(source.choices(words, k=30)) for _ in range(10_000)]
    for model in range(MODELS):
        home = folder / f"lab__model{model}"
        home.mkdir()
        results = {"model_name": f"lab/model{model}", "model_source": "hf", "config": {"model_args": f"{model}"}}
        (home / f"results_{DATE}.json").write_text(json.dumps(results), encoding="utf-8")
        with (home / f"samples_qa_{DATE}.jsonl").open("w", encoding="utf-8") as file:
            for doc in range(samples // MODELS):
                question, text = f"{doc} {texts[doc % len(texts)]}", f"{doc} {source.choice(texts)}"
                arguments = {"arg_0": f"Question: {question}\nAnswer:", "arg_1": {"until": ["\n"], "max_gen_toks": 64}}
                row = {"doc_id": doc, "doc": {"question": question, "answer": "yes"}, "target": "yes"}
                row |= {"arguments": {"gen_args_0": arguments}, "resps": [[text]], "filtered_resps": [text]}
                row |= {"filter": "none", "metrics": ["exact_match"], "doc_hash": f"{doc:064x}"}
                row |= {"prompt_hash": f"{doc:064x}", "target_hash": "0" * 64, "exact_match": 0.0}
                file.write(json.dumps(row) + "\n")
    return sum(path.stat().st_size for path in folder.rglob("*.jsonl"))


def take(step: str, folder: Path) -> dict[str, float]:
    """Rows, seconds and processor seconds of one reading."""
    start, used = time.perf_counter(), time.process_time()
    if step == "polars":
        frames = [pl.read_ndjson(path) for path in sorted(folder.rglob("samples_*.jsonl"))]
        rows = sum(frame.height for frame in frames)
    else:
        study = import_study([folder])
        rows = study.n_responses
        if step == "import":
            with tempfile.TemporaryDirectory() as place:
                write_study(study, Path(place) / "study", format="parquet")
    return {"rows": rows, "seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - used}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        print(json.dumps(take(given.step, given.folder)))
        return
    with tempfile.TemporaryDirectory() as place:
        size = make_samples(Path(place), given.samples)
        print(f"{given.samples:,} samples of {MODELS} models, {size / 1e9:.2f} GB")
        found = {}
        for step in STEPS:
            command = [sys.executable, __file__, "--step", step, "--folder", place]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - this script
            found[step] = json.loads(done.stdout)
    first = found["polars"]
    print("step     rows        seconds  ratio  CPU seconds  ratio")
    for step, one in found.items():
        ratio, cpu = one["seconds"] / first["seconds"], one["cpu_seconds"] / first["cpu_seconds"]
        print(
            f"{step:7}  {one['rows']:>9,}  {one['seconds']:9.1f}  {ratio:5.2f}  {one['cpu_seconds']:11.1f}  {cpu:5.2f}"
        )


if __name__ == "__main__":
    main()
