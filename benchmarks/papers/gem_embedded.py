"""Does GEM work with the embedded model? Matched reviews against shuffled, shortened and padded ones.

    python benchmarks/papers/gem_embedded.py [--papers 122]

Reads the recorded ICLR 2023 reviews (folder iclr23_reviews in GOLDLESS_RECORDED or ../shared/data), takes human2 as the
candidate and human1 as the reference, both cut to about 250 tokens, and scores four candidates a paper against the
reference: the review itself, another paper's, the review with every second sentence deleted (GEM paper, D.1.1), and the
review with meaningless text added (D.2.2, without its two one-line summaries). Prints the mean PMI in nats and the
pooled SMD against the review itself with its 95 % paired interval. Replies are journalled: a second run is instant.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

import numpy as np
import polars as pl

import goldless
from goldless.meta_evaluation.perturbations.changes import delete_as_published, elongate_review
from goldless.statistics.effects import pooled_smd
from goldless.studies import study_from_frame

CHARACTERS = 1_000
"""About 250 tokens."""
REFERENCE, MATCHED, OTHER, DELETED, PADDED = "reference", "matched", "another paper's", "deleted", "elongated"


def cut(text: str) -> str:
    """The beginning of a text, up to the last sentence that fits."""
    short = text[:CHARACTERS]
    ends = [m.end() for m in re.finditer(r"[.?!\n]", short)]
    return short[: ends[-1]].strip() if len(text) > CHARACTERS and ends else short.strip()


def candidates(texts: dict[tuple[str, str], str], papers: list[str], *, padded: bool) -> list[dict[str, str]]:
    """One row a paper and candidate."""
    rows = []
    for i, paper in enumerate(papers):
        review = cut(texts[paper, "human2"])
        by_agent = {
            REFERENCE: cut(texts[paper, "human1"]),
            MATCHED: review,
            OTHER: cut(texts[papers[(i + 1) % len(papers)], "human2"]),
            DELETED: delete_as_published(review + "\n"),
            **({PADDED: elongate_review(review)} if padded else {}),
        }
        rows += [{"task": paper, "agent": agent, "text": text} for agent, text in by_agent.items() if text]
    return rows


def table(study: goldless.Study, label: str) -> list[str]:
    """Two lines of the table: without and with the abstract."""
    metrics = ["gem-raw", "gem-s[abstract]"]
    result = goldless.evaluate(study, metrics=metrics, template="peer-review", peers=[REFERENCE], resamples=100)
    frame = result.to_polars().filter(pl.col("agent") != REFERENCE)
    lines = []
    for metric, given in zip(metrics, ("", ", given the abstract"), strict=True):
        scores = frame.filter(metric=metric).pivot("agent", index="task", values="score").drop_nulls()
        matched = scores[MATCHED].to_numpy()
        cells = [f"{matched.mean():.1f}"]
        for other in (OTHER, DELETED, PADDED):
            if other not in scores.columns:
                cells.append("")
                continue
            values = scores[other].to_numpy()
            effect = pooled_smd(matched, values)
            cells.append(f"{values.mean():.1f}; {effect.value:.2f} ({effect.low:.2f}, {effect.high:.2f})")
        wins = float(np.mean(matched > scores[OTHER].to_numpy()))
        lines.append(f"| {label}{given} | {' | '.join(cells)} | {wins:.0%} |")
    return lines


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--papers", type=int, default=122)
    papers_wanted = arguments.parse_args().papers
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("GOLDLESS_RECORDED", beside)) / "iclr23_reviews"
    if not folder.is_dir():
        sys.exit(f"the recorded reviews are not there: {folder}")
    recorded = goldless.read_study(folder)
    with_abstract = [task for task in recorded.tasks if "abstract" in recorded.task(task).synopses]
    papers = with_abstract[:papers_wanted]
    tasks = pl.DataFrame(
        [{"task": paper, "synopsis_abstract": recorded.task(paper).synopses["abstract"]} for paper in papers]
    )
    reviews = {(r.task, r.agent): r.text for paper in papers for r in recorded.responses(paper)}
    rewrites = recorded.table("rewrites")
    rewritten = {} if rewrites is None else {(r["task"], r["agent"]): r["text"] for r in rewrites.to_dicts()}
    print(f"SmolLM2-135M-Instruct on {len(papers)} papers\n")
    print(
        f"| | {MATCHED} | {OTHER} | every second sentence {DELETED} | fixed-text elongation | matched beats another |"
    )
    print("|---|---|---|---|---|---|")
    for label, texts, padded in (("raw reviews", reviews, True), ("recorded rewrites", rewritten, False)):
        frame = pl.DataFrame(candidates(texts, papers, padded=padded))
        for line in table(study_from_frame(frame, tasks=tasks, name=label), label):
            print(line, flush=True)


if __name__ == "__main__":
    main()
