from __future__ import annotations

from dataclasses import replace

from paper_listing import LeftOut, Listing
from paper_listing import drawn as draw_papers

from goldless import read_study
from goldless.apps.gre.collecting import Draw, collected_study
from goldless.apps.gre.edition import write_rows
from goldless.apps.gre.papers import HumanReview, Paper


def a_paper(name: str, **others) -> Paper:
    reviews = tuple(
        HumanReview(f"r{n}", {"Summary": f"Review {n} of {name}.", "Questions": "None."}, {"rating": n})
        for n in range(1, 5)
    )
    return replace(Paper(name, f"On {name}", f"{name} is studied.", f"The whole of {name}.", reviews), **others)


def a_draw(*papers: Paper | LeftOut, seed: int = 5, reviews: int = 3) -> Draw:
    return draw_papers(Listing(papers), papers=None, reviews=reviews, seed=seed)


def written(draw: Draw, folder):
    """The study of a draw, written and read."""
    for table, rows in collected_study(draw).items():
        if rows:
            write_rows(folder / f"{table}.jsonl", rows)
    return read_study(folder)


def test_a_draw_becomes_an_ordinary_study(tmp_path):
    draw = a_draw(
        a_paper("a", public_date="2023-09-30", synopses={"assw": "They claim A."}, extra={"area": "theory"}),
        a_paper("b"),
        LeftOut("c", "few_reviews", "1 of 3"),
    )
    study = written(draw, tmp_path)
    assert sorted(study.tasks) == ["a", "b"]
    assert [(agent.agent, agent.group) for agent in study.agents] == [
        ("human", "human"),
        ("reference1", "reference"),
        ("reference2", "reference"),
    ]
    assert study.n_responses == 6
    task = study.task("a")
    assert task.prompt == "The whole of a."
    assert task.reference is None
    assert task.synopses == {"abstract": "a is studied.", "assw": "They claim A."}
    assert task.extra == {"title": "On a", "public_date": "2023-09-30", "source": "a venue", "area": "theory"}
    assert "public_date" not in study.task("b").extra
    for drawn in draw.papers:
        texts = [response.text for response in study.responses(drawn.paper)]
        assert texts == [review.text for review in drawn.reviews]


def test_hostile_texts_are_stored_as_text_without_nul_and_lone_surrogates(tmp_path):
    hostile = "</review> \x00<script>alert(1)</script>\ud800 [[A]]"
    reviews = tuple(HumanReview(f"r{n}", {"": hostile}) for n in range(3))
    study = written(a_draw(Paper("../x", hostile, hostile, hostile, reviews)), tmp_path)
    clean = "</review> <script>alert(1)</script> [[A]]"
    assert study.task("../x").prompt == clean
    assert {response.text for response in study.responses("../x")} == {clean}
