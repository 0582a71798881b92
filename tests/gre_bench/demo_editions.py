"""The offline edition with scripted models in place of the embedded one, scored once and copied for each test."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

from goldless.gre_bench.demonstration import EMBEDDED, add_invented_rewrites, begin_demonstration, write_scripts
from goldless.gre_bench.edition import open_edition
from goldless.gre_bench.stages import Asking, collect_edition, review_edition, score_edition
from goldless.models.scripted import ScriptedModel

REVIEW = "<summary>It is about a method.</summary><weaknesses>Few experiments were run.</weaknesses>"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e"
SCORE = {"metrics": ["gem", "gem-s[abstract]"], "resamples": 200}


def scored_demonstration(folder: Path, scorer, **scorers) -> Path:
    """The offline edition, scored by a scorer and, into runs of these names, by others."""
    asking = Asking(journal=folder.parent / "journal.sqlite")
    edition, _ = collect_edition(begin_demonstration(folder), {})
    write_scripts(edition)
    reviewer = {EMBEDDED: ScriptedModel(answers=lambda _: REVIEW, name=EMBEDDED)}
    edition, _ = asyncio.run(review_edition(edition, {}, stand_ins=reviewer, asking=asking))
    add_invented_rewrites(edition)
    rewriter = (ScriptedModel(answers=lambda _: "Few experiments were run.", name="rewriter"),)
    for run, one in {None: scorer, **scorers}.items():
        given = {"scorer": one, "rewriters": rewriter}
        edition, _ = asyncio.run(score_edition(edition, SCORE, run=run, stand_ins=given, asking=asking))
    return folder


def later_edition(folder: Path, earlier: Path, scorer) -> Path:
    """A second edition of the same papers, marked as anchors of the first, scored by another scorer.

    The title of its first paper would do harm if a page took it for markup.
    """
    shutil.copytree(earlier, folder, ignore=shutil.ignore_patterns("run*", "by-*"))
    tasks = folder / "study" / "tasks.jsonl"
    rows = [json.loads(line) | {"anchor": earlier.name} for line in tasks.read_text().splitlines()]
    rows[0]["title"] = HOSTILE
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asking = Asking(journal=folder.parent / "journal.sqlite")
    rewriter = (ScriptedModel(answers=lambda _: "Few experiments were run.", name="rewriter"),)
    given = {"scorer": scorer, "rewriters": rewriter}
    asyncio.run(score_edition(open_edition(folder), SCORE, stand_ins=given, asking=asking))
    return folder
