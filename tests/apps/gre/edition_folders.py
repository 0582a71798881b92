"""Folders of papers and editions of words that a toy scorer understands, for the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from goldless.apps.gre.collecting import collect_edition
from goldless.apps.gre.edition import open_or_begin
from goldless.apps.gre.reviewing import review_edition
from goldless.models.scripted import ScriptedModel
from goldless.runs.options import Options
from tests.support.study_files import write_rows

TAGS = "<summary>{0}</summary>\n<strengths>good</strengths>\n<weaknesses>bad</weaknesses>\n<questions>why</questions>"
QUICK = {"metrics": ["gem-raw"], "resamples": 200}
"""Settings of scoring that ask no rewriter."""
REVIEWS = {"p1": ("zarn bluk", "zarn mipo", "quex bluk"), "p2": ("vors", "vors tilm", "vors tilm hask")}
"""Three reviews of each paper; words in common are what a toy scorer counts."""
DATES = {"p1": "2024-03-01", "p2": "2024-09-01"}


def papers_folder(folder: Path, reviews=REVIEWS) -> Path:
    """A folder for ``--from-folder``."""
    write_rows(
        folder / "papers.jsonl",
        [
            {"paper": p, "title": f"On {p}", "abstract": f"Of {p}.", "public_date": DATES.get(p)}
            | {"synopsis_assw": f"Of {p}. It claims."}
            for p in reviews
        ],
    )
    write_rows(
        folder / "reviews.jsonl",
        [{"paper": p, "review": f"r{i}", "text": text} for p, texts in reviews.items() for i, text in enumerate(texts)],
    )
    (folder / "papers").mkdir()
    for paper in reviews:
        (folder / "papers" / f"{paper}.txt").write_text(f"The whole of paper {paper}, word for word.")
    return folder


@pytest.fixture
def asking(tmp_path):
    return Options.of(journal=tmp_path / "journal.sqlite")


@pytest.fixture
def edition(tmp_path):
    """An edition of two papers, collected."""
    papers_folder(tmp_path / "papers")
    begun = open_or_begin(tmp_path / "2024")
    return collect_edition(begun, {"from_folder": str(tmp_path / "papers"), "seed": 0})


@pytest.fixture
def collected(goldless, tmp_path):
    """An edition of two papers."""
    folder = tmp_path / "2024"
    ended = goldless("gre", "collect", folder, "--from-folder", papers_folder(tmp_path / "papers"), "--seed", "1")
    assert ended.code == 0, ended.err
    return folder


def reviewer(texts, name="reviewer") -> ScriptedModel:
    """Says of each paper what is written down for it."""

    def answer(request):
        return TAGS.format(
            next(text for paper, text in texts.items() if f"paper {paper}" in request.messages[1].content)
        )

    return ScriptedModel(answers=answer, name=name)


async def reviewed(edition, asking, **models):
    """The edition after these models, named with what is known of them, wrote the same about both papers."""
    settings = {name: {"model": "embedded", **known} for name, known in models.items()}
    stand_ins = {name: reviewer(dict.fromkeys(("p1", "p2"), "zarn vors"), name) for name in models}
    return (await review_edition(edition, {}, models=settings, stand_ins=stand_ins, options=asking))[0]
