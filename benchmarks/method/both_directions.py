"""Crash test of the metrics with one and with both directions, on the sample study.

    python benchmarks/method/both_directions.py [--scorer embedded]

By default the scorer is a script that knows no language: a word has -1 nat if the context or the text before has it,
else -3. That takes a minute without a model and shows what an attack gains by words alone. With ``--scorer`` a real
model is asked. Prints the standardised mean difference and the rating of every perturbation that needs no model.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

import goldless
from goldless.models.scripted import ScriptedModel

METRICS = ("gem-raw+control", "gem-raw+control+both", "gem-s[prompt]+control", "gem-s[prompt]+control+both")


def known_words(context: str, target: str) -> list[float]:
    """Log p of each word of the target."""
    known = set(re.findall(r"[\w']+", context.lower()))
    found = []
    for word in re.findall(r"[\w']+", target.lower()):
        found.append(-1.0 if word in known else -3.0)
        known.add(word)
    return found or [-1.0]


def main() -> None:
    """Print one row per perturbation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scorer", help="Model that gives log-probabilities (default: a script that counts words).")
    scorer = parser.parse_args().scorer
    with tempfile.TemporaryDirectory() as folder:
        test = goldless.crash_test(
            goldless.sample_study(),
            metrics=list(METRICS),
            scorer=scorer or ScriptedModel(logprobs=known_words, name="known-words"),
            journal=None if scorer else Path(folder) / "journal.sqlite",
        )
    print("| | " + " | ".join(f"`{metric}`" for metric in METRICS) + " |\n|" + "---|" * (1 + len(METRICS)))
    for rows in zip(*(test.metrics[metric].perturbations for metric in METRICS), strict=True):
        cells = [f"{row.smd.value or 0:+.2f} {row.rating}" for row in rows]
        print(f"| {rows[0].perturbation} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
