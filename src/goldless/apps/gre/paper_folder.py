"""Papers and reviews in a folder on this machine; its layout is in docs/gre_bench.md."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from goldless.apps.gre.paper_text import pdf_text
from goldless.apps.gre.papers import HumanReview, Paper, UnusablePaperError
from goldless.errors import nearest
from goldless.studies.checking import Problems, Row, all_at_once, describe, is_empty, possible_days
from goldless.studies.tables import ALLOWED, FORMATS, Table

ENDINGS = (".pdf", ".txt", ".md")
OWN_COLUMNS = ("paper", "title", "abstract", "file", "public_date")
TAKEN = ("task", "prompt", "reference", "source")
"""Columns that tasks have for something else."""
NOTED = ("rating", "confidence")
"""Columns of a review that are not sections."""


class CheckedTable(Table):
    """A table whose rows have unique names, read line by line; ``papers``: all that its rows may be about."""

    def __init__(
        self, path: Path, problems: Problems, papers: Collection[str] | None = None, listed_in: str = ""
    ) -> None:
        super().__init__(path, problems)
        self._papers, self._listed_in = papers, listed_in
        self._lines: dict[tuple[str, ...], int] = {}

    def lines(self, empty: str = "Leave the table out if there is nothing to list") -> Iterator[tuple[int, Row]]:
        yield from zip(self.numbers, self.frame.to_dicts(), strict=True)
        if not self.rows and not self.broken:
            self.add(f"no rows. {empty}")

    def names(self, row: Row, line: int, *columns: str) -> tuple[str, ...]:
        """The names in these columns; empty, with a problem, if one is missing or unknown, or all were there before."""
        names = tuple(name for column in columns if (name := self.name(row, column, line)) is not None)
        if len(names) < len(columns):
            return ()
        paper = names[-1]
        if self._papers is not None and paper not in self._papers:
            self.add(f"paper {paper!r} is not in {self._listed_in}{nearest(paper, self._papers)}", line)
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

    def __init__(self, folder: Path) -> None:
        self.name = folder.resolve().name
        self._folder = folder
        self._columns: dict[str, Row] = {}
        """Of the task of each paper."""
        self._files: dict[str, Path | None] = {}
        self._reviews: dict[str, dict[str, HumanReview]] = {}
        with all_at_once(str(folder)) as problems:
            files: dict[str, Path] = {}
            for table in ("papers", "reviews", "rewrites"):
                found = [file for ending in FORMATS if (file := folder / f"{table}{ending}").is_file()]
                if found:
                    files[table] = found[0]
                elif table != "rewrites":
                    problems.add(f"no table {table!r}: {table}.jsonl, {table}.csv or {table}.parquet. {ALLOWED}")
            if len(files.keys() & {"papers", "reviews"}) == 2:
                papers = CheckedTable(files["papers"], problems)
                self._read_papers(papers)
                # a row that could not be read may have listed any paper
                known = None if papers.broken else self._columns
                self._read_reviews(CheckedTable(files["reviews"], problems, known, papers.file))
                if "rewrites" in files:
                    self._read_rewrites(CheckedTable(files["rewrites"], problems, known, papers.file))

    def papers(self) -> Sequence[str]:
        return tuple(self._columns)

    def paper(self, name: str, *, reviews: int) -> Paper:  # noqa: ARG002 - all of them are at hand
        file = self._files[name]
        if file is None:
            raise UnusablePaperError("no_paper", f"no file papers/{name}.pdf, .txt or .md")
        return Paper(name, self._text(file), self._columns[name], tuple(self._reviews.get(name, {}).values()))

    def _text(self, file: Path) -> str:
        data = file.read_bytes()
        try:
            return pdf_text(data)[0] if file.suffix.lower() == ".pdf" else data.decode("utf-8-sig")
        except UnusablePaperError as error:
            raise UnusablePaperError(error.reason, f"{file.name}: {error.detail}") from error
        except UnicodeDecodeError as error:
            detail = f"{file.name} is not UTF-8; try: iconv -f WINDOWS-1252 -t UTF-8"
            raise UnusablePaperError("no_paper", detail) from error

    def _read_papers(self, check: CheckedTable) -> None:
        for line, row in check.lines():
            names = check.names(row, line, "paper")
            for column in ("title", "abstract"):
                check.lacks(column)
            title, abstract = ((check.optional_text(row, c, line) or "").strip() for c in ("title", "abstract"))
            synopses = {
                c: text for c in row if c.startswith("synopsis_") and (text := check.optional_text(row, c, line))
            }
            assw = " ".join(synopses.get("synopsis_assw", "").split())
            if assw and not assw.startswith(" ".join(abstract.split())):
                given = "because gem-s[assw] gives the scorer only this text"
                check.add(f"synopsis_assw must begin with the abstract, {given}", line)
            date = row.get("public_date")
            public = None if is_empty(date) else str(date).strip()[:10]  # of a moment, the day
            if public is not None and possible_days(public) is None:
                check.add(f"public_date must be a date such as 2023-09-30, 2023-09 or 2023, got {public!r}", line)
            known = {**synopses, "title": title, "synopsis_abstract": abstract, "public_date": public}
            known |= {
                f"paper_{column}" if column in TAKEN else column: value
                for column, value in row.items()
                if column not in {*OWN_COLUMNS, *known} and not is_empty(value)
            }
            for name in names:
                self._columns[name] = known
                self._files[name] = self._file(name, check.optional_text(row, "file", line), line, check)

    def _file(self, name: str, given: str | None, line: int, check: CheckedTable) -> Path | None:
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
        elif given is not None and (not found or found[0].suffix.lower() not in ENDINGS):
            check.add(f"{what} must be a {', '.join(ENDINGS)} file in the folder, or an empty cell", line)
        elif len(found) > 1:
            check.add(f"{what} has {' and '.join(path.name for path in found)}. Choose one in the column 'file'", line)
        return found[0] if found else None

    def _read_reviews(self, check: CheckedTable) -> None:
        for line, row in check.lines():
            names = check.names(row, line, "review", "paper")
            columns = {c: v for c, v in row.items() if c not in {"paper", "review", "text", *NOTED} and not is_empty(v)}
            text = check.optional_text(row, "text", line)
            if text is not None and columns:
                shown = ", ".join(map(repr, list(columns)[:5]))
                check.add(f"a review must have either a text or sections, got both ({shown})", line)
            for title, value in columns.items():
                if not isinstance(value, str):
                    allowed = f"Other columns: {', '.join(map(repr, NOTED))}"
                    check.add(f"section {title!r} must be text, got {describe(value)}. {allowed}", line)
            # a whole text is one section without a title
            sections = {"": text} if text is not None else {title: str(value) for title, value in columns.items()}
            noted = {column: row[column] for column in NOTED if not is_empty(row.get(column))}
            if names:
                self._reviews.setdefault(names[1], {})[names[0]] = HumanReview(names[0], sections, noted)

    def _read_rewrites(self, check: CheckedTable) -> None:
        for line, row in check.lines():
            names = check.names(row, line, "review", "paper")
            rewriter, text = check.name(row, "rewriter", line), check.text(row, "text", line)
            if not names or rewriter is None or text is None:
                continue
            review, paper = names
            found = self._reviews.get(paper, {}).get(review)
            if found is None or not found.text:
                check.add(f"paper {paper!r} has no review {review!r} with a text to be rewritten", line)
            else:
                self._reviews[paper][review] = replace(found, rewrite=(rewriter, text))
