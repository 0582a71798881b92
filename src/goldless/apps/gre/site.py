"""The board as a static site: pages of links and tables, made from the evidence of one or more editions alone.

No page has a script, a time or anything from elsewhere, and numbers are rounded before they are written, so the same
evidence gives the same bytes on every machine.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from goldless.apps.gre.contamination import CleanScore
from goldless.apps.gre.edition import Edition
from goldless.apps.gre.linking import Link, Side, link_sides
from goldless.apps.gre.papers import HUMAN, is_person
from goldless.apps.gre.results import table_blocks
from goldless.apps.gre.scoring import Recomputed
from goldless.apps.gre.standing import model_means, model_rank
from goldless.errors import UserError
from goldless.files import write_text
from goldless.reports.controls import direction
from goldless.reports.html.blocks import (
    Block,
    Bullets,
    Code,
    Figure,
    Fold,
    Heading,
    PageLink,
    Paragraph,
    Section,
    note,
    sentence,
    warning,
    words,
)
from goldless.reports.html.charts.row_plots import Band, IntervalRow, interval_plot
from goldless.reports.html.charts.svg import pictures
from goldless.reports.html.labels import label, numeral, percent, plural
from goldless.reports.html.page import site_page
from goldless.reports.report_table import Column, ReportTable

NAME = "GRE-bench"
GENERATOR = '<meta name="generator" content="goldless gre site">'
"""What a page of a site can be told by."""
FOOTER = (
    "Made by goldless gre site from the evidence of the editions alone: scores, intervals and ranks were recomputed "
    "without a model. The same evidence gives the same bytes."
)
DECIMALS = 4
"""Of every number on a page: processors differ in the last digits of a sum."""
SCORE = Column("score", "score", "number", decimals=2)
APART = Column("difference", "minus human", "signed", "-", 2)


def site_pages(editions: Sequence[Recomputed]) -> dict[str, str]:
    """The pages of a site by file name; editions in the order of their years, the last one is the front page."""
    made = _Site(editions)
    return {
        file: site_page(title, tuple(sections), site=NAME, file=file, contents=made.contents, footer=FOOTER)
        for file, title, sections in made.pages()
    }


def check_names(editions: Sequence[Edition]) -> None:
    """Reject two editions of one name, which their pages would share."""
    names = {one.name: _file(one.name) for one in editions}
    files = [_file(one.name) for one in editions]
    if twice := sorted(name for name, file in names.items() if files.count(file) > 1):
        raise UserError(f"two editions have the same name: {', '.join(twice)}. Rename a folder")


def write_site(pages: Mapping[str, str], folder: Path) -> None:
    """Write the pages into a folder; of earlier pages of a site there, those that are gone are removed.

    Other files stay. Raises, and writes nothing, if one of them has the name of a page.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out must be a folder, got the file {folder}")
    ours = {
        path.name: GENERATOR in path.read_text(encoding="utf-8", errors="replace")[:4000]
        for path in (folder.glob("*.html") if folder.is_dir() else ())
    }
    if foreign := sorted(name for name in pages if not ours.get(name, True)):
        raise UserError(
            f"{folder}: {', '.join(foreign)} was not made by goldless gre site. Choose another folder, or remove it"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, page in pages.items():
            write_text(folder / name, page)
        for name in [name for name, is_ours in ours.items() if is_ours and name not in pages]:
            (folder / name).unlink()
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror})") from error


def _file(edition: str) -> str:
    """The file of an edition's board; some file systems ignore case."""
    return f"edition-{re.sub('[^a-z0-9._-]+', '-', edition.lower())}.html"


def _rounded(value: Any) -> Any:
    """A value that is the same on every machine; adding zero makes of a negative zero a plain one."""
    return round(value, DECIMALS) + 0.0 if isinstance(value, float) else value


class _Site:
    """What the pages share: names of files, and links of the editions' scales."""

    def __init__(self, editions: Sequence[Recomputed]) -> None:
        self.editions = list(editions)
        self.latest = self.editions[-1]
        self.boards = {one.name: _file(one.name) for one in editions} | {self.latest.name: "index.html"}
        self.links: dict[str, tuple[list[Link], list[str]]] = {}
        """Of each edition to the one before."""
        self.scales: dict[str, tuple[float, float] | None] = {self.editions[0].name: (1.0, 0.0)}
        """Slope and intercept from each edition's scale to that of the first, link by link; None: not linked."""
        for before, one in itertools.pairwise(self.editions):
            self.links[one.name] = link_sides(_side(before), _side(one))
            link = next((link for link in self.links[one.name][0] if link.metric == one.metric), None)
            scale = self.scales[before.name] if before.metric == one.metric else None
            chained = link and scale and (scale[0] * link.slope, scale[0] * link.intercept + scale[1])
            self.scales[one.name] = chained or None
        self.contents = {
            "index.html": f"Board: {self.latest.name}",
            **{self.boards[one.name]: f"Board: {one.name}" for one in reversed(self.editions[:-1])},
            "editions.html": "Editions and models",
            "submit.html": "How to submit",
            "method.html": "Method",
        }

    def pages(self) -> Iterator[tuple[str, str, Iterable[Section]]]:
        """Files with their titles and sections."""
        for one in self.editions:
            yield self.boards[one.name], one.name, self._edition(one)
        yield "editions.html", "Editions and models", self._editions()
        yield "submit.html", "How to submit", _told("submit", self.latest)
        blocks: list[Block] = []
        for one in reversed(self.editions):
            blocks += [Heading(one.name), *(Code(scored.signature) for scored in one.scored)]
        last = Section("signatures", "Signatures", tuple(blocks))
        yield "method.html", "Method", [*_told("method", self.latest), last]

    def _tables(self, tables: Iterable[ReportTable], *, folded: bool = False) -> tuple[Block, ...]:
        """Tables as the terminal shows them, with links to the boards of editions."""
        found: list[Block] = []
        for table in tables:
            rows = [
                {key: self._link(value) if key == "edition" else _rounded(value) for key, value in row.items()}
                for row in table.rows
            ]
            columns = [replace(column, kind="name") if column.name == "agent" else column for column in table.columns]
            found += table_blocks(replace(table, columns=tuple(columns), rows=tuple(rows)), folded=folded)
        return tuple(found)

    def _link(self, edition: str) -> Markup:
        return Markup('<a href="{}"><bdi>{}</bdi></a>').format(self.boards[edition], label(edition))

    # --- the board ---------------------------------------------------------------------------------------------------

    def _edition(self, one: Recomputed) -> Iterator[Section]:
        result, clock, firm = one.result, one.clock, list[Block]()
        yield Section("board", "", tuple(self._board(one)))
        for flip in one.standing.flips:
            if flip.metric == one.metric:
                firm.append(words(f"How few papers flip rank 1? {flip.sentence}"))
        if len(one.standing.scorers) < 2:
            firm.append(
                words("There is one scorer. A second one, scored with --run, shows whether ranks depend on it.")
            )
        yield Section("firm", "How firm the ranking is", (*firm, *self._tables(one.standing.tables())))
        if result.submissions is not None:
            log = Fold("All submissions", self._tables([result.submissions.log_table()]))
            yield Section("submissions", "Submissions", (*self._tables(result.submissions.tables()), log))
        if result.injected is not None:
            yield Section("hidden", "Hidden instructions", self._tables(result.injected.tables()))
        registered: tuple[Block, ...] = (words("This edition was not preregistered."),)
        if (said := result.preregistered) is not None:
            registered = ((words if said.matches else warning)(sentence(said.sentence)), Code(said.hash))
        yield Section("registered", "Pre-registration", registered)
        yield Section("clock", "Contamination", self._tables(clock.tables(), folded=True))
        yield Section("metrics", "All metrics", self._tables([replace(result.table(), notes=())]))
        yield Section("papers", "Papers", tuple(self._papers(one)))

    def _board(self, one: Recomputed) -> Iterator[Block]:
        result, clock = one.result, one.clock
        if result.demonstration is not None:
            yield warning(result.demonstration)
        rows = sorted(clock.rows(one.metric, "all"), key=lambda row: (row.score is None, -(row.score or 0), row.agent))
        means, board = model_means(one.scores), result.boards[one.metric]
        unit, level = f"{board.unit}, {direction(one.metric)}", percent(clock.level)
        yield Paragraph((_lead(rows, {row.agent: row.better_than for row in board.rows}),), style="lead")
        yield words(
            f"{plural(len(means), 'model')} reviewed {plural(result.papers, 'paper')} from {result.source}. ",
            f"The score is {one.metric} ({unit}). ",
            PageLink("method.html", "Method"),
        )
        columns = (
            Column("rank", "#", "count", "-"),
            Column("agent", "model"),
            SCORE,
            Column("low high", level, "interval", decimals=2),
            APART,
            Column("difference_low difference_high", level, "signed interval", "-", 2),
            Column("n", "papers", "count"),
        )
        shown = tuple(
            asdict(row)
            | {"rank": model_rank(means, row.agent), "agent": "human baseline" if row.agent == HUMAN else row.agent}
            for row in rows
        )
        human = "The human baseline is one human review of each paper, scored like the models'."
        yield from self._tables([ReportTable(f"The board, by {one.metric}. {human}", columns, shown)])
        yield _figure(one.metric, unit, level, rows)
        yield from (note(text) for text in result.table().notes if text != result.demonstration)

    def _papers(self, one: Recomputed) -> Iterator[Block]:
        """The scores of every paper."""
        agents = [HUMAN, *sorted({agent for _, agent in one.scores if not is_person(agent)})]
        facts = {task: one.study.task(task).extra for task in one.study.tasks}
        known = {"title": "title", "public_date": "public since", "anchor": "anchor of"}
        columns = (
            Column("paper", "paper", "name"),
            *(Column(key, said) for key, said in known.items() if any(of.get(key) for of in facts.values())),
            *(Column(f"score {agent}", agent, "number", decimals=2) for agent in agents),
        )
        rows = tuple(
            {"paper": task, **{key: facts[task].get(key) for key in known}}
            | {f"score {agent}": one.scores.get((task, agent)) for agent in agents}
            for task in one.study.tasks
        )
        yield Fold(f"{one.metric} by paper", self._tables([ReportTable(f"{one.metric} by paper", columns, rows)]))
        if one.result.left_out:
            left_out = ", ".join(f"{n} {why}" for why, n in one.result.left_out.items())
            yield note(f"Left out when collecting: {left_out}.")

    # --- all editions ------------------------------------------------------------------------------------------------

    def _editions(self) -> Iterator[Section]:
        rows = [
            {
                "edition": one.name,
                "source": one.result.source,
                "papers": one.result.papers,
                "models": len(model_means(one.scores)),
                "leader": next((flip.leader for flip in one.standing.flips if flip.metric == one.metric), None),
                "scorers": ", ".join(one.standing.scorers.values()),
            }
            for one in reversed(self.editions)
        ]
        columns = tuple(Column(name, "rank 1" if name == "leader" else name) for name in rows[0])
        yield Section("editions", "", self._tables([ReportTable("Editions, the latest first", columns, tuple(rows))]))
        yield Section("models", "Models over the editions", self._tables([self._models()]))
        for place, (name, (links, lacking)) in reversed([*enumerate(self.links.items())]):
            blocks = (*self._tables(link.table() for link in links), *map(warning, lacking))
            yield Section(f"link-{place}", f"{name} on one scale", blocks)

    def _models(self) -> ReportTable:
        rows = []
        for one in reversed(self.editions):
            facts, means, scale = {a.agent: a for a in one.study.agents}, model_means(one.scores), self.scales[one.name]
            for found in [row for row in one.clock.rows(one.metric, "all") if row.agent != HUMAN]:
                linked = None if scale is None or found.score is None else scale[0] * found.score + scale[1]
                ranked = {"edition": one.name, "rank": model_rank(means, found.agent), "linked": linked}
                rows.append(asdict(facts[found.agent]) | asdict(found) | ranked)
        columns = (
            Column("agent", "model"),
            Column("family", "family"),
            Column("parameters", "size", "large"),
            Column("cutoff_date", "cutoff"),
            Column("edition", "edition"),
            Column("rank", "rank", "count"),
            SCORE,
            Column("low high", percent(self.latest.clock.level), "interval", decimals=2),
            APART,
            Column("n", "papers", "count"),
            Column("linked", f"on the scale of {self.editions[0].name}", "number", "not linked", 2),
        )
        rows.sort(key=lambda row: row["agent"])
        return ReportTable("Models, by name", columns[: None if len(self.editions) > 1 else -1], tuple(rows))


def _side(one: Recomputed) -> Side:
    own = [scored for scored in one.scored if scored.scorer == one.scored[0].scorer]
    return Side.of(one.name, one.study, own)


def _lead(rows: Sequence[CleanScore], beaten: Mapping[str, Sequence[str]]) -> str:
    ranked = [row for row in rows if not is_person(row.agent) and row.score is not None]
    if not ranked:
        return "No model has a score."
    first, *others = ranked
    said = f"{label(first.agent)} is first with {numeral(first.score, 2)}"
    if first.difference is not None and first.difference_low is not None and first.difference_high is not None:
        against = "above" if first.difference_low > 0 else "below" if first.difference_high < 0 else "not apart from"
        said += f", {against} the human baseline ({numeral(first.difference, 2, signed=True)})"
    decided = sum(row.agent in beaten.get(first.agent, ()) for row in others)
    return said + (f"; this is decided against {decided} of {plural(len(others), 'other model')}." if others else ".")


def _figure(metric: str, unit: str, level: str, rows: Sequence[CleanScore]) -> Figure:
    drawn, band = [], None
    for row in rows:
        score, low, high = map(_rounded, (row.score, row.low, row.high))
        if row.agent != HUMAN:
            drawn.append(IntervalRow(row.agent, score, low, high, aside=numeral(row.score, 2, absent="")))
        elif score is not None:
            band = Band(low, high, "human baseline", middle=score)
    title = f"{metric}: score of each model with its {level} interval"
    caption = f"Mean over papers. Lines are {level} intervals, the grey band is that of the human baseline."
    return Figure("board", "Scores", caption, pictures(interval_plot, drawn, title=title, axis=unit, band=band), ())


def _told(page: str, latest: Recomputed) -> Iterator[Section]:
    """The sections of a page of fixed words: paragraphs, bullets and commands; {edition} is the latest edition."""
    text = (Path(__file__).parent / "site_words" / f"{page}.md").read_text(encoding="utf-8")
    for part in text.replace("{edition}", latest.name).split("## ")[1:]:
        title, _, body = part.partition("\n")
        yield Section(re.sub("[^a-z]+", "-", title.lower()), title, tuple(map(_block, body.strip("\n").split("\n\n"))))


def _block(text: str) -> Block:
    if text.startswith("- "):
        return Bullets(tuple(item.replace("\n", " ") for item in text.removeprefix("- ").split("\n- ")))
    return Code(textwrap.dedent(text)) if text.startswith("    ") else words(text.replace("\n", " "))
