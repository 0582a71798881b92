"""What task control and the prompt take off: empty, copied, colluding and dressed-up responses.

    python benchmarks/method/task_control.py [--scorer embedded] [--only support]

Scores invented support tickets (two agents with one empty text for every ticket; one that copies the ticket and one
that answers in German) and the sample study, as it is, with a tag before every response and with a closing sentence
after it. Prints each agent's mean in nats under the plain metric, with control, and with both directions. Replies are
journalled: a second run is instant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl

import goldless

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.support_studies import COLLUSION, SUPPORT, support_rows

SAMPLE_TASKS = 10
TAG = "[Answer by our team, version 2.1 of the guidelines, checked for spelling and tone] "
CLOSING = (
    " We hope that this answer is helpful to you. If anything remains unclear, we will be glad to explain it in more "
    "detail, and we thank you for the interesting question."
)
RAW = ("gem-raw", "gem-raw+control", "gem-raw+control+both")
BEYOND = (*RAW, "gem-s[prompt]", "gem-s[prompt]+control", "gem-s[prompt]+control+both")


def sample_rows(dressed: Callable[[str], str]) -> list[dict[str, str]]:
    """The first tasks of the sample study, every response dressed alike."""
    study = goldless.read_study(goldless.sample_study())
    tasks = list(study.tasks)[:: len(study.tasks) // SAMPLE_TASKS][:SAMPLE_TASKS]
    return [{"task": t, "agent": r.agent, "text": dressed(r.text)} for t in tasks for r in study.responses(t)]


STUDIES: dict[str, tuple[Callable[[], list[dict[str, str]]], tuple[str, ...], int]] = {
    "collusion": (lambda: support_rows(*COLLUSION), RAW, 2),
    "support": (lambda: support_rows(*SUPPORT), BEYOND, 1),
    "sample": (lambda: sample_rows(lambda text: text), RAW, 2),
    "sample, tag": (lambda: sample_rows(lambda text: TAG + text), RAW, 2),
    "sample, closing": (lambda: sample_rows(lambda text: text + CLOSING), RAW, 2),
}
"""What makes the rows, the metrics, and the number of other tasks."""


def main() -> None:
    """Print one row per study and metric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scorer", default="embedded", help="Model that gives log-probabilities (default: embedded).")
    parser.add_argument("--only", choices=list(STUDIES), action="append", help="Score this study alone; repeatable.")
    arguments = parser.parse_args()
    print("| study | metric | mean per agent, nats |\n|---|---|---|")
    for name in arguments.only or STUDIES:
        rows, metrics, others = STUDIES[name]
        result = goldless.evaluate(
            pl.DataFrame(rows()), metrics=list(metrics), scorer=arguments.scorer, control_tasks=others, resamples=200
        )
        for metric in metrics:
            found = ", ".join(f"{row.agent} {row.score:.1f}" for row in result.leaderboard(metric).rows)
            print(f"| {name} | `{metric}` | {found} |", flush=True)


if __name__ == "__main__":
    main()
