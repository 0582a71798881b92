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

from goldless.apps.gre.paper_text import MOST_UNREADABLE, PdfReader, pdf_text, unreadable_share
from goldless.apps.gre.papers import HumanReview, Paper, UnusablePaperError
from goldless.dates import first_day
from goldless.studies.checking import Checking, Names, Problems, Row, all_at_once, describe, is_empty
from goldless.studies.tables import ALLOWED, FORMATS, Source

ENDINGS = (".pdf", ".txt", ".md")
SYNOPSIS = "synopsis_"
NOTED = ("rating", "confidence")
"""Columns of a review that are not sections."""


class CheckedTable(Checking):
    """A table whose rows have unique names, read line by line; ``papers``: the names that its papers may have."""

    def __init__(self, path: Path, problems: Problems, papers: Names | None = None) -> None:
        super().__init__(path.name, problems)
        self._source, self._papers = Source(path, path.name), papers
        self._lines: dict[tuple[str, ...], int] = {}

    def lines(self, empty: str = "Leave the table out if there is nothing to list") -> Iterator[tuple[int, Row]]:
        """Each row with its line."""
        for chunk in self._source.chunks(self._problems):
            self.rows += len(chunk.rows)
            yield from zip(chunk.lines, chunk.rows, strict=True)
        self.finish()
        if self._papers is not None:
            self._papers.report_strangers("paper", self.file, self._problems)
        if not self.rows and not self.broken:
            self.add(f"no rows. {empty}")

    def names(self, row: Row, line: int, *columns: str) -> tuple[str, ...]:
        """The names in these columns; empty, with a problem, if one is missing or unknown, or all were there before."""
        names = tuple(name for column in columns if (name := self.name(row, column, line)) is not None)
        if len(names) < len(columns):
            return ()
        if self._papers is not None and self._papers.number(names[columns.index("paper")], line) < 0:
            return ()
        first = self._lines.setdefault(names, line)
        if first != line:
            what = " of ".join(f"{column} {name!r}" for column, name in zip(columns, names, strict=True))
            self.duplicate(f"{what} is listed twice; first on line {first}", line)
        return names if first == line else ()


class PaperFolder:
    """A folder of papers and reviews as a source of papers.

    The tables are read and checked at once: a ``StudyError`` lists all that is wrong with them, with file and line.
    The papers are read when they are asked for.
    """

    def __init__(self, folder: Path, *, reader: PdfReader = "pypdf") -> None:
        self.name = folder.resolve().name
        self._folder, self._reader = folder, reader
        self._papers: dict[str, Paper] = {}
        """Without texts."""
        self._files: dict[str, Path | None] = {}
        self._empty: Counter[str] = Counter()
        """Number of reviews without text."""
        with all_at_once(str(folder)) as problems:
            papers, reviews, rewrites = (self._table(name, problems) for name in ("papers", "reviews", "rewrites"))
            names = Names()
            if papers is not None:
                table = CheckedTable(papers, problems)
                self._read_papers(table)
                names.update({name: place for place, name in enumerate(self._papers)})
                # unknown names are allowed if some rows could not be read, to avoid wrong reports
                names.listed_in = "" if table.broken else table.file
            if reviews is not None:
                table = CheckedTable(reviews, problems, names)
                self._read_reviews(table)
                if rewrites is not None:
                    self._read_rewrites(CheckedTable(rewrites, problems, names), reviews_known=not table.broken)

    def _table(self, table: str, problems: Problems) -> Path | None:
        files = [file for ending in FORMATS if (file := self._folder / f"{table}{ending}").is_file()]
        if not files and table != "rewrites":
            problems.add(f"no table {table!r}: {table}.jsonl, {table}.csv or {table}.parquet. {ALLOWED}")
        for other in files[1:]:
            problems.add(f"duplicate of {files[0].name}. Keep one file per table", other.name)
        return files[0] if files else None

    def papers(self) -> Sequence[str]:
        return tuple(self._papers)

    def paper(self, name: str, *, reviews: int) -> Paper:
        paper, file, empty = self._papers[name], self._files[name], self._empty[name]
        if len(paper.reviews) < reviews:
            more = f"; {empty} more have no text" if empty else ""
            raise UnusablePaperError("few_reviews", f"{len(paper.reviews)} of {reviews}{more}")
        if not paper.abstract:
            raise UnusablePaperError("no_abstract", "its abstract is empty")
        data = b"" if file is None else file.read_bytes()
        if file is None or not data:
            said = f"no file papers/{name}.pdf, .txt or .md" if file is None else f"{file.name} is empty"
            raise UnusablePaperError("no_paper", said)
        if file.suffix.lower() == ".pdf":
            try:
                return replace(paper, text=pdf_text(data, reader=self._reader).text)
            except UnusablePaperError as error:
                raise UnusablePaperError(error.reason, f"{file.name}: {error.detail}") from error
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            detail = f"{file.name} is not UTF-8; try: iconv -f WINDOWS-1252 -t UTF-8"
            raise UnusablePaperError("no_paper", detail) from error
        if unreadable_share(text) > MOST_UNREADABLE:
            raise UnusablePaperError("no_paper", f"{file.name} has no readable text")
        return replace(paper, text=text)

    def _read_papers(self, check: CheckedTable) -> None:
        for line, row in check.lines():
            names = check.names(row, line, "paper")
            # columns that must be there, though the cell may be empty
            read = {c: check.optional_text if c in row else check.text for c in ("title", "abstract")}
            title, abstract = ((ask(row, column, line) or "").strip() for column, ask in read.items())
            if "title" in row and not title:
                check.add("title must not be empty", line)
            if "synopsis_abstract" in row:
                check.add("unexpected column synopsis_abstract. Put the abstract in the column 'abstract'", line)
            columns = [c for c in row if c.startswith(SYNOPSIS) and c != SYNOPSIS]
            synopses = {c.removeprefix(SYNOPSIS): text for c in columns if (text := check.optional_text(row, c, line))}
            assw = " ".join(synopses.get("assw", "").split())
            if assw and not assw.startswith(" ".join(abstract.split())):
                given = "because gem-s[assw] gives the scorer only this text"
                check.add(f"synopsis_assw must begin with the abstract, {given}", line)
            date = row.get("public_date")
            public = None if is_empty(date) else str(date).strip()[:10]  # of a moment, the day
            if public is not None and first_day(public) is None:
                check.add(f"public_date must be a date such as 2023-09-30, 2023-09 or 2023, got {public!r}", line)
            known = {"paper", "title", "abstract", "public_date", "file", *columns}
            extra = {c: v for c, v in row.items() if c not in known and not is_empty(v)}
            for name in names:
                self._papers[name] = Paper(name, title, abstract, "", (), public, synopses, {}, extra)
                self._files[name] = self._file(name, check.optional_text(row, "file", line), line, check)

    def _file(self, name: str, given: str | None, line: int, check: Checking) -> Path | None:
        """The paper's file; None if there is none. Reports a file that cannot be used."""
        what = f"paper {name!r}" if given is None else f"file {given!r}"
        places = [f"papers/{name}{ending}" for ending in ENDINGS] if given is None else [given]
        try:
            found = [path for place in places if (path := self._folder / place).is_file()]
            inside = all(path.resolve().is_relative_to(self._folder.resolve()) for path in found)
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

    def _read_reviews(self, check: CheckedTable) -> None:
        with_text = False
        for line, row in check.lines():
            names = check.names(row, line, "review", "paper")
            if "paper" not in row or "review" not in row:
                continue  # what looks like a section may be the column that is missed
            sections = _sections(row, line, check)
            with_text |= any(sections.values())
            if names and names[1] in self._papers:
                noted = {column: row[column] for column in NOTED if not is_empty(row.get(column))}
                found, listed = HumanReview(names[0], sections, noted), self._papers[names[1]]
                if found.text:
                    self._papers[names[1]] = replace(listed, reviews=(*listed.reviews, found))
                self._empty[names[1]] += not found.text
        if check.rows and not with_text and not check.broken:
            check.add("no review has a text. Put it in a column 'text', or in one column per section")

    def _read_rewrites(self, check: CheckedTable, *, reviews_known: bool) -> None:
        for line, row in check.lines():
            names = check.names(row, line, "review", "paper")
            rewriter, text = check.name(row, "rewriter", line), check.text(row, "text", line)
            if not names or rewriter is None or text is None or names[1] not in self._papers:
                continue
            review, listed = names[0], self._papers[names[1]]
            if reviews_known and review not in {one.review for one in listed.reviews}:
                check.add(f"the rewrite has no review: paper {names[1]!r} has no review {review!r} with a text", line)
            self._papers[names[1]] = replace(listed, rewrites={**listed.rewrites, review: (rewriter, text)})


def _sections(row: Row, line: int, check: Checking) -> dict[str, str]:
    """The sections that have a text, by title; a whole text is one section without a title."""
    columns = {c: v for c, v in row.items() if c not in {"paper", "review", "text", *NOTED} and not is_empty(v)}
    text = check.optional_text(row, "text", line)
    if text is not None and columns:
        shown = ", ".join(map(repr, list(columns)[:5]))
        check.add(f"a review must have either a text or sections, got both ({shown})", line)
    for title, value in columns.items():
        if not isinstance(value, str):
            allowed = f"Other columns: {', '.join(map(repr, NOTED))}"
            check.add(f"section {title!r} must be text, got {describe(value)}. {allowed}", line)
    return {"": text} if text is not None else {title: str(value) for title, value in columns.items()}
