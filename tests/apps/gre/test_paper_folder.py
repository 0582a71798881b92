"""Papers and reviews in a folder on this machine."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from goldless.apps.gre.paper_folder import PaperFolder
from goldless.errors import StudyError
from tests.apps.gre.paper_listing import drawn
from tests.apps.gre.pdf_files import text_pdf
from tests.support.study_files import write_rows

PAPERS = [
    {"paper": "a", "title": "On A", "abstract": "A is studied.", "public_date": "2023-09-30", "area": "theory"},
    {"paper": "b", "title": "On B", "abstract": "B is studied.", "synopsis_assw": "B is studied.\n\nAuthors claim B."},
]
REVIEWS = [
    {"paper": paper, "review": f"r{n}", "Summary": f"Review {n} of {paper}.", "Strengths": "Many.", "rating": n}
    for paper in "ab"
    for n in range(1, 4)
]


def table(path: Path, rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".jsonl":
        write_rows(path, rows)
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(dict.fromkeys(c for row in rows for c in row)))
            writer.writeheader()
            writer.writerows(rows)
    else:
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)


@pytest.fixture
def make(tmp_path):
    """A folder with these tables, and a text of each paper."""

    def make(papers=PAPERS, reviews=REVIEWS, rewrites=None, ending=".jsonl", texts=("a", "b")) -> Path:
        folder = tmp_path / "mine"
        (folder / "papers").mkdir(parents=True, exist_ok=True)
        for name, rows in (("papers", papers), ("reviews", reviews), ("rewrites", rewrites)):
            if rows is not None:
                table(folder / f"{name}{ending}", rows)
        for text in texts:
            (folder / "papers" / f"{text}.txt").write_text(f"The whole text of {text}.", encoding="utf-8")
        return folder

    return make


def problems(folder: Path) -> list[str]:
    with pytest.raises(StudyError) as error:
        PaperFolder(folder)
    return [str(problem) for problem in error.value.problems]


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_a_paper_comes_with_all_that_the_tables_say_whatever_their_format(make, ending):
    source = PaperFolder(make(ending=ending))
    assert source.name == "mine"
    assert list(source.papers()) == ["a", "b"]
    paper = source.paper("a", reviews=3)
    known = {"title": "On A", "synopsis_abstract": "A is studied.", "public_date": "2023-09-30", "area": "theory"}
    assert (paper.text, paper.columns) == ("The whole text of a.", known)
    assert paper.reviews[0].text == "Summary:\n\nReview 1 of a.\n\nStrengths:\n\nMany."
    assert [str(review.extra["rating"]) for review in paper.reviews] == ["1", "2", "3"]
    assert source.paper("b", reviews=3).columns["synopsis_assw"] == "B is studied.\n\nAuthors claim B."


def test_rewrites_go_to_their_reviews(make):
    rewrites = [{"rewriter": "gpt", "paper": "a", "review": "r2", "text": "As judgments."}]
    source = PaperFolder(make(rewrites=rewrites))
    given = {one.review: one.rewrite for one in source.paper("a", reviews=3).reviews}
    assert given == {"r1": None, "r2": ("gpt", "As judgments."), "r3": None}


@pytest.mark.parametrize("name", ["a.md", "a.pdf", "elsewhere/a-final.PDF"])
def test_a_paper_may_be_markdown_or_pdf_or_a_named_file(make, name):
    folder = make(papers=[{**PAPERS[0], "file": name if "/" in name else None}], reviews=REVIEWS[:3], texts=())
    path = folder / name if "/" in name else folder / "papers" / name
    path.parent.mkdir(exist_ok=True)
    words = "The text of the paper."
    path.write_bytes(text_pdf(words) if path.suffix.lower() == ".pdf" else words.encode())
    assert PaperFolder(folder).paper("a", reviews=3).text == words


@pytest.mark.parametrize(
    ("file", "data", "reason", "detail"),
    [
        ("none", b"", "no_paper", "no file papers/a.pdf, .txt or .md"),
        ("a.txt", b"\xef\xbb\xbf \x00\n", "no_paper", "its text is empty or not readable"),
        ("a.txt", b"\x01\x02\x00 a \x07\x07", "no_paper", "its text is empty or not readable"),
        ("a.txt", b"\xff\xfe", "no_paper", "a.txt is not UTF-8; try: iconv -f WINDOWS-1252 -t UTF-8"),
        ("a.pdf", b"", "broken_pdf", "a.pdf: not a PDF: it begins with ''"),
        ("a.pdf", text_pdf("A page of words.")[:-60], "cut_pdf", "a.pdf: it has no end mark (%%EOF)"),
    ],
)
def test_a_paper_whose_file_cannot_be_used_is_left_out(make, file, data, reason, detail):
    folder = make(texts=["b"])
    (folder / "papers" / file).write_bytes(data)
    assert drawn(PaperFolder(folder))["left_out"] == [{"paper": "a", "reason": reason, "detail": detail}]


def test_everything_wrong_with_a_folder_is_said_at_once(make):
    papers = [
        PAPERS[0],
        {**PAPERS[0], "title": "Again"},
        {"paper": "b", "title": "", "abstract": "B.", "public_date": "30.9.2023"},
        {"paper": " ", "title": "T", "abstract": 7},
    ]
    reviews = [REVIEWS[0], REVIEWS[0], {"paper": "a", "review": "r9", "Summary": "S", "Soundness": 3}]
    rewrites = [{"rewriter": "gpt", "paper": "a", "review": "r1", "text": " "}]
    assert problems(make(papers, reviews, rewrites)) == [
        "papers.jsonl:2: paper 'a' is listed twice; first on line 1",
        "papers.jsonl:3: public_date must be a date such as 2023-09-30, 2023-09 or 2023, got '30.9.2023'",
        "papers.jsonl:4: paper must be a name, got an empty cell",
        "papers.jsonl:4: abstract must be a string, got int 7",
        "reviews.jsonl:2: review 'r1' of paper 'a' is listed twice; first on line 1",
        "reviews.jsonl:3: section 'Soundness' must be text, got int 3. Other columns: 'rating', 'confidence'",
        "rewrites.jsonl:1: text is blank. Leave out rows that have no text",
    ]


def test_a_review_of_a_paper_that_is_not_listed_is_a_problem(make):
    rewrites = [{"rewriter": "gpt", "paper": "zz", "review": "r1", "text": "T."}]
    found = problems(make(reviews=[*REVIEWS, {"paper": "aa", "review": "r1", "Summary": "S."}], rewrites=rewrites))
    assert found == [
        "reviews.jsonl:7: paper 'aa' is not in papers.jsonl. Did you mean 'a'?",
        "rewrites.jsonl:1: paper 'zz' is not in papers.jsonl",
    ]


@pytest.mark.parametrize("file", ["../secret.txt", "papers/../../secret.txt", "/etc/hostname", "linked.txt"])
def test_no_named_file_leads_out_of_the_folder(make, tmp_path, file):
    folder = make(papers=[{**PAPERS[0], "file": file}], reviews=REVIEWS[:3])
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (folder / "linked.txt").symlink_to(tmp_path / "secret.txt")
    assert problems(folder) == [f"papers.jsonl:1: file {file!r} is outside the folder. Papers must be inside it"]


def test_no_name_of_a_paper_leads_out_of_the_folder(make, tmp_path):
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    papers = [{**PAPERS[0], "paper": "../../secret"}, {**PAPERS[1], "paper": "x" * 5000}]
    found = problems(make(papers=papers, reviews=[{"paper": "../../secret", "review": "r", "text": "T"}]))
    assert found == ["papers.jsonl:1: paper '../../secret' is outside the folder. Papers must be inside it"]


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (
            {"papers": [{**PAPERS[0], "synopsis_assw": "Authors claim A."}], "reviews": REVIEWS[:3]},
            "papers.jsonl:1: synopsis_assw must begin with the abstract",
        ),
        (
            {"papers": [{"paper": "a", "title": "On A"}], "reviews": REVIEWS[:3]},
            "papers.jsonl: no column 'abstract'; the columns are 'paper', 'title'",
        ),
        (
            {"reviews": [{"paper": "a", "review": "r1", "text": "All.", "Summary": "Some."}]},
            "reviews.jsonl:1: a review must have either a text or sections, got both ('Summary')",
        ),
        ({"papers": []}, "papers.jsonl: no rows. Leave the table out if there is nothing to list"),
    ],
)
def test_a_table_that_cannot_be_used_is_one_problem_with_its_place(make, tables, said):
    assert problems(make(**tables))[0].startswith(said)
