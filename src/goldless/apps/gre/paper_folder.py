"""A folder with papers and reviews that a user already has.

The layout: ``papers.jsonl`` (or .csv, .parquet) with ``paper, title, abstract`` and more, the papers themselves as
``papers/NAME.pdf``, ``.txt`` or ``.md``, ``reviews.jsonl`` with ``paper, review`` and either ``text`` or a column for
each section, and, where there are any, ``rewrites.jsonl`` with ``rewriter, paper, review, text``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from goldless.apps.gre.paper_text import (
    MOST_UNREADABLE,
    PdfReader,
    pdf_text,
    storable,
    unix_lines,
    unreadable_share,
)
from goldless.apps.gre.papers import HumanReview, Paper, UnusablePaperError
from goldless.dates import first_day
from goldless.studies.checking import Checking, Names, Problems, Row, all_at_once, describe, is_empty
from goldless.studies.tables import ALLOWED, FORMATS, Source

TEXTS = (".txt", ".md")
ENDINGS = (".pdf", *TEXTS)
SYNOPSIS = "synopsis_"
PAPER_COLUMNS = ("paper", "title", "abstract", "public_date", "file")
REVIEW_COLUMNS = ("paper", "review", "text")
NOTED = ("rating", "confidence")
"""Columns of a review that are not sections."""


class CheckedTable(Checking):
    """A table of texts with unique rows, read line by line."""

    def __init__(self, path: Path, problems: Problems) -> None:
        super().__init__(path.name, problems)
        self.problems = problems
        self._path = path
        self._first: dict[tuple[str, ...], int] = {}

    def lines(self, empty: str = "Leave the table out if there is nothing to list") -> Iterator[tuple[int, Row]]:
        """Each row with its line, its texts storable and their lines ended by line feeds, counted."""
        for chunk in Source(self._path, self.file).chunks(self.problems):
            self.rows += len(chunk.rows)
            for line, row in zip(chunk.lines, chunk.rows, strict=True):
                yield line, {c: storable(unix_lines(v)) if isinstance(v, str) else v for c, v in row.items()}
        self.finish()
        if not self.rows and not self.broken:
            self.add(f"no rows. {empty}")

    def is_first(self, key: tuple[str, ...], line: int, repeated: str) -> bool:
        """Whether no earlier row has this key; otherwise reports ``repeated`` with the line of the first."""
        first = self._first.setdefault(key, line)
        if first != line:
            self.duplicate(f"{repeated}; first on line {first}", line)
        return first == line


class PaperFolder:
    """A folder of papers and reviews as a source of papers.

    The tables are read and checked at once: a ``StudyError`` lists all that is wrong with them, with file and line.
    The papers are read when they are asked for.
    """

    def __init__(self, folder: Path, *, reader: PdfReader = "pypdf") -> None:
        self.name = folder.resolve().name
        self._reader: PdfReader = reader
        self._papers: dict[str, Paper] = {}
        """Without texts."""
        self._files: dict[str, Path | None] = {}
        self._empty: Counter[str] = Counter()
        """Number of reviews without text."""
        self._names = Names()
        with all_at_once(str(folder)) as problems:
            tables = {table: _table(folder, table, problems) for table in ("papers", "reviews", "rewrites")}
            papers, reviews, rewrites = tables.values()
            if papers is not None:
                self._read_papers(papers, folder)
            if reviews is not None:
                self._read_reviews(reviews)
                if rewrites is not None:
                    self._read_rewrites(rewrites, reviews_known=not reviews.broken)

    def papers(self) -> Sequence[str]:
        """Names of all papers, in the order of the table."""
        return tuple(self._papers)

    def paper(self, name: str, *, reviews: int) -> Paper:
        """One of them with all its reviews. ``reviews``: fewest that it needs. Raises if it cannot be used."""
        paper, file, empty = self._papers[name], self._files[name], self._empty[name]
        if len(paper.reviews) < reviews:
            more = f"; {empty} more have no text" if empty else ""
            raise UnusablePaperError("few_reviews", f"{len(paper.reviews)} of {reviews}{more}")
        if not paper.abstract:
            raise UnusablePaperError("no_abstract", "its abstract is empty")
        if file is None:
            raise UnusablePaperError("no_paper", f"no file papers/{name}{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
        data = file.read_bytes()
        if not data:
            raise UnusablePaperError("no_paper", f"{file.name} is empty")
        if file.suffix.lower() in TEXTS:
            try:
                text = data.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                detail = f"{file.name} is not UTF-8; try: iconv -f WINDOWS-1252 -t UTF-8"
                raise UnusablePaperError("no_paper", detail) from error
            if unreadable_share(text) > MOST_UNREADABLE:
                raise UnusablePaperError("no_paper", f"{file.name} has no readable text")
            return replace(paper, text=storable(unix_lines(text)))
        try:
            return replace(paper, text=pdf_text(data, reader=self._reader).text)
        except UnusablePaperError as error:
            raise UnusablePaperError(error.reason, f"{file.name}: {error.detail}") from error

    def _read_papers(self, check: CheckedTable, folder: Path) -> None:
        for line, row in check.lines():
            name = check.name(row, "paper", line)
            paper = _paper(name or "", row, line, check)
            if name is not None and check.is_first((name,), line, f"paper {name!r} is listed twice"):
                self._names[name] = len(self._names)
                self._papers[name], self._files[name] = paper, _file(folder, name, row, line, check)
        # unknown names are allowed if some rows could not be read, to avoid wrong reports
        self._names.listed_in = "" if check.broken else check.file

    def _read_reviews(self, check: CheckedTable) -> None:
        with_text = 0
        for line, row in check.lines():
            paper, review = check.name(row, "paper", line), check.name(row, "review", line)
            if "paper" not in row or "review" not in row:
                continue  # what looks like a section may be the column that is missed
            sections = _sections(row, line, check)
            with_text += bool(sections)
            if paper is None or review is None or self._names.number(paper, line) < 0:
                continue
            repeated = f"review {review!r} of paper {paper!r} is listed twice"
            if check.is_first((paper, review), line, repeated) and paper in self._papers:
                noted = {column: row[column] for column in NOTED if not is_empty(row.get(column))}
                found, listed = HumanReview(review, sections, noted), self._papers[paper]
                if found.text:
                    self._papers[paper] = replace(listed, reviews=(*listed.reviews, found))
                self._empty[paper] += not found.text
        self._names.report_strangers("paper", check.file, check.problems)
        if check.rows and not with_text and not check.broken:
            check.add("no review has a text. Put it in a column 'text', or in one column per section")

    def _read_rewrites(self, check: CheckedTable, *, reviews_known: bool) -> None:
        for line, row in check.lines():
            rewriter, paper, review = (check.name(row, column, line) for column in ("rewriter", "paper", "review"))
            text = check.text(row, "text", line)
            if rewriter is None or paper is None or review is None or text is None:
                continue
            repeated = f"the rewrite of review {review!r} of paper {paper!r} is listed twice"
            known = self._names.number(paper, line) >= 0
            if not known or not check.is_first((paper, review), line, repeated) or paper not in self._papers:
                continue
            listed = self._papers[paper]
            if reviews_known and review not in {one.review for one in listed.reviews}:
                check.add(f"the rewrite has no review: paper {paper!r} has no review {review!r} with a text", line)
            self._papers[paper] = replace(listed, rewrites={**listed.rewrites, review: (rewriter, text)})
        self._names.report_strangers("paper", check.file, check.problems)


def _table(folder: Path, table: str, problems: Problems) -> CheckedTable | None:
    files = [file for ending in FORMATS if (file := folder / f"{table}{ending}").is_file()]
    if not files and table != "rewrites":
        problems.add(f"no table {table!r}: {table}.jsonl, {table}.csv or {table}.parquet. {ALLOWED}")
    for other in files[1:]:
        problems.add(f"duplicate of {files[0].name}. Keep one file per table", other.name)
    return CheckedTable(files[0], problems) if files else None


def _paper(name: str, row: Row, line: int, check: Checking) -> Paper:
    # columns that must be there, though the cell may be empty
    read = {c: check.optional_text if c in row else check.text for c in ("title", "abstract")}
    title, abstract = ((ask(row, column, line) or "").strip() for column, ask in read.items())
    if "title" in row and not title:
        check.add("title must not be empty", line)
    if "synopsis_abstract" in row:
        check.add("unexpected column synopsis_abstract. Put the abstract in the column 'abstract'", line)
    columns = [c for c in row if c.startswith(SYNOPSIS) and c not in {SYNOPSIS, "synopsis_abstract"}]
    synopses = {c.removeprefix(SYNOPSIS): check.optional_text(row, c, line) for c in columns}
    assw = synopses.get("assw")
    if assw and abstract and not " ".join(assw.split()).startswith(" ".join(abstract.split())):
        check.add(
            "synopsis_assw must begin with the abstract, because gem-s[assw] gives the scorer only this text", line
        )
    date_given = row.get("public_date")
    public = None if is_empty(date_given) else str(date_given).strip()[:10]  # of a moment, the day
    if public is not None and first_day(public) is None:
        check.add(f"public_date must be a date such as 2023-09-30, 2023-09 or 2023, got {public!r}", line)
    known = {*PAPER_COLUMNS, *columns, "synopsis_abstract"}
    return Paper(
        paper=name,
        title=title,
        abstract=abstract,
        text="",
        reviews=(),
        public_date=public,
        synopses={synopsis: text for synopsis, text in synopses.items() if text},
        extra={c: v for c, v in row.items() if c not in known and not is_empty(v)},
    )


def _file(folder: Path, name: str, row: Row, line: int, check: Checking) -> Path | None:
    """The paper's file; None if there is none. Reports a file that cannot be used."""
    given = check.optional_text(row, "file", line)
    what = f"paper {name!r}" if given is None else f"file {given!r}"
    names = [f"papers/{name}{ending}" for ending in ENDINGS] if given is None else [given]
    try:
        found = [folder / one for one in names if (folder / one).is_file()]
        inside = all(path.resolve().is_relative_to(folder.resolve()) for path in found)
    except (OSError, RuntimeError):  # a name that is too long, or a circle of links
        found, inside = [], True
    if not inside:
        check.add(f"{what} is outside the folder. Papers must be inside it", line)
    elif not found and given is not None:
        check.add(f"{what} is not in the folder. Leave the cell empty if there is no file", line)
    elif len(found) > 1:
        check.add(f"{what} has {' and '.join(path.name for path in found)}. Choose one in the column 'file'", line)
    elif found and found[0].suffix.lower() not in ENDINGS:
        check.add(f"{found[0].name} must be a {', '.join(ENDINGS)} file", line)
    elif found:
        return found[0]
    return None


def _sections(row: Row, line: int, check: Checking) -> dict[str, str]:
    """The sections that have a text, by title; a whole text is one section without a title."""
    columns = {c: v for c, v in row.items() if c not in {*REVIEW_COLUMNS, *NOTED} and not is_empty(v)}
    text = check.optional_text(row, "text", line)
    if text is not None and columns:
        shown = ", ".join(map(repr, list(columns)[:5]))
        check.add(f"a review must have either a text or sections, got both ({shown})", line)
    if text is not None:
        return {"": text}
    for title, value in columns.items():
        if not isinstance(value, str):
            allowed = f"Other columns: {', '.join(map(repr, NOTED))}"
            check.add(f"section {title!r} must be text, got {describe(value)}. {allowed}", line)
    return {title: value if isinstance(value, str) else "" for title, value in columns.items()}
