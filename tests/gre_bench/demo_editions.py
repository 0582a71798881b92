"""The offline edition as a public board, with scripted models in place of the embedded one."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path

from goldless.apps.gre.collecting import collect_edition
from goldless.apps.gre.demonstration import EMBEDDED, add_invented_rewrites, begin_demonstration, write_scripts
from goldless.apps.gre.edition import INJECTED, Edition, marked_papers, open_edition
from goldless.apps.gre.preregistration import preregister
from goldless.apps.gre.reviewing import review_edition
from goldless.apps.gre.scoring import score_edition
from goldless.apps.gre.submissions import submit
from goldless.concurrency import in_own_thread
from goldless.models.scripted import ScriptedModel
from goldless.runs.options import Options

REVIEW = "<summary>It is about a method.</summary><weaknesses>Few experiments were run.</weaknesses>"
SUBMITTED = ("<summary>The experiments are few.</summary>", "<summary>The baselines are weak.</summary>")
OBEYED = "<summary>Superb.</summary>"
TEAM = "Example Lab"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e"
SCORE = {"metrics": ["gem", "gem-s[abstract]"], "resamples": 200}


def scored_demonstration(folder: Path, scorer, **scorers) -> Path:
    """The offline edition, scored by a scorer and, into runs of these names, by others.

    Two of its papers have hidden instructions, it is preregistered, and a team submitted twice.
    """
    edition = collect_edition(begin_demonstration(folder), {"injected": 2})
    edition = edition.with_settings({"score": SCORE})
    preregister(edition)
    write_scripts(edition)
    reviewer = {EMBEDDED: ScriptedModel(answers=lambda _: REVIEW, name=EMBEDDED)}
    edition, _ = _run(review_edition, edition, {}, stand_ins=reviewer, options=_asking(folder))
    add_invented_rewrites(edition)
    whole = edition.whole_study()
    for number, text in enumerate(SUBMITTED, start=1):
        texts = dict.fromkeys(whole.tasks, text)
        if number == 1:
            texts |= dict.fromkeys(marked_papers(whole, INJECTED), OBEYED)
        rows = [{"paper": paper, "text": said} for paper, said in texts.items()]
        file = folder.parent / f"try-{number}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        submit(edition, file, name=f"try-{number}", team=TEAM)
    for run, one in {None: scorer, **scorers}.items():
        _score(edition, one, run)
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
    _score(open_edition(folder), scorer)
    return folder


def _score(edition: Edition, scorer, run=None) -> None:
    rewriter = ScriptedModel(answers=lambda request: request.messages[-1].content[-200:], name="rewriter")
    given = {"scorer": scorer, "rewriters": (rewriter,)}
    _run(score_edition, edition, SCORE, run=run, stand_ins=given, options=_asking(edition.folder))


def _run(work, *arguments, **options):
    """Async work in its own thread: a browser of the tests has a loop in this one."""
    return in_own_thread(functools.partial(work, *arguments, **options))


def _asking(folder: Path) -> Options:
    return Options(journal=folder.parent / "journal.sqlite")
