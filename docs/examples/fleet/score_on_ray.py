# /// script
# requires-python = ">=3.11"
# dependencies = ["goldless[ray,transformers]"]
# ///
"""Score a study on all graphics cards of this machine, or of the Ray cluster in RAY_ADDRESS.

uv run score_on_ray.py answers.csv --scorer hf:meta-llama/Llama-3.1-8B-Instruct --out runs/first
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import goldless


def main() -> None:
    """Read the arguments, score, write the run, print the leaderboards."""
    parser = argparse.ArgumentParser(description="Score a study on a fleet.")
    parser.add_argument("study", help="a study as goldless reads it: a table or a folder")
    parser.add_argument("--scorer", default="embedded", help="the model, such as hf:NAME")
    parser.add_argument("--metrics", default="gem-raw+control,length", help="comma-separated metrics")
    parser.add_argument("--on", default="ray", help="such as ray?workers=4&gpus=1")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results and the journal")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    result = goldless.evaluate(
        given.study,
        metrics=given.metrics,
        scorer=given.scorer,
        on=given.on,
        # beside the results, so that the folder is all there is to copy from a rented machine
        journal=given.out / "journal.sqlite",
        say=lambda line: print(line, file=sys.stderr),
    )
    goldless.save_run(result, given.out / "run")
    for metric in result.outcomes:
        print(result.leaderboard(metric).to_markdown())


if __name__ == "__main__":
    main()
