"""The board as a static site: pages of links and tables, made from the evidence of one or more editions alone.

No page has a script, a time or anything from elsewhere, and numbers are rounded before they are written, so the same
evidence gives the same bytes on every machine.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
    Name,
    PageLink,
    Paragraph,
    Section,
    Table,
    counts,
    ends,
    names,
    note,
    number,
    sentence,
    signed,
    texts,
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


def site_pages(editions: Sequence[Recomputed]) -> dict[str, str]:
    """The pages of a site by file name; editions in the order of their years, the last one is the front page."""
    made = _Site(editions)
    return {
        file: site_page(title, tuple(sections), site=NAME, file=file, contents=made.contents, footer=FOOTER)
        for file, title, sections in made.pages()
    }


def check_names(editions: Sequence[Edition]) -> None:
    """Reject two editions of one name, which their pages would share."""
    names_ = [one.folder.resolve().name for one in editions]
    if twice := sorted({name for name in names_ if names_.count(name) > 1}):
        raise UserError(f"two editions have the same name: {', '.join(twice)}. Rename a folder")


def write_site(pages: Mapping[str, str], folder: Path) -> None:
    """Write the pages into a folder; of earlier pages of a site there, those that are gone are removed.

    Other files stay. Raises, and writes nothing, if one of them has the name of a page.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out must be a folder, got the file {folder}")
    there = {
        path.name: GENERATOR in path.read_text(encoding="utf-8", errors="replace")[:4000]
        for path in (folder.glob("*.html") if folder.is_dir() else ())
    }
    if foreign := sorted(name for name, ours in there.items() if name in pages and not ours):
        raise UserError(
            f"{folder}: {', '.join(foreign)} was not made by goldless gre site. Choose another folder, or remove it"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, page in pages.items():
            write_text(folder / name, page)
        for name, ours in there.items():
            if ours and name not in pages:
                (folder / name).unlink()
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror})") from error


def _files(kind: str, names_: Iterable[str]) -> dict[str, str]:
    """A file for each name, distinct even where file systems ignore case."""
    found: dict[str, str] = {}
    for name in names_:
        plain = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-.") or "unnamed"
        endings = itertools.chain([""], (f"-{count}" for count in itertools.count(2)))
        files = (f"{kind}-{plain}{ending}.html" for ending in endings)
        found[name] = next(file for file in files if file not in found.values())
    return found


def _rounded(value: Any) -> Any:
    """A value that is the same on every machine; adding zero makes of a negative zero a plain one."""
    return round(value, DECIMALS) + 0.0 if isinstance(value, float) else value


def _table(caption: str, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> Table:
    return Table(caption, columns, [{key: _rounded(value) for key, value in row.items()} for row in rows])


def _link(name: str | None, file: str | None) -> Markup | str | None:
    """A name that links to its page, if it has one."""
    if name is None or file is None:
        return name
    return Markup('<a href="{}"><bdi>{}</bdi></a>').format(file, label(name))


class _Site:
    """What the pages share: names of files, and links of the editions' scales."""

    def __init__(self, editions: Sequence[Recomputed]) -> None:
        self.editions = list(editions)
        self.latest = self.editions[-1]
        self.boards = _files("edition", [one.name for one in editions]) | {self.latest.name: "index.html"}
        self.papers = _files("papers", [one.name for one in editions])
        agents = [a.agent for one in reversed(self.editions) for a in one.study.agents if not is_person(a.agent)]
        self.models = _files("model", dict.fromkeys(agents))
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
            "editions.html": "Editions",
            "submit.html": "How to submit",
            "method.html": "Method",
        }

    def pages(self) -> Iterator[tuple[str, str, Iterable[Section]]]:
        """Files with their titles and sections."""
        for one in self.editions:
            yield self.boards[one.name], one.name, self._edition(one)
            papers = Section("papers", "", tuple(self._papers(one)))
            yield self.papers[one.name], f"{one.name}: papers", [papers]
        for agent, file in self.models.items():
            yield file, agent, self._model(agent)
        yield "editions.html", "Editions", self._editions()
        yield "submit.html", "How to submit", _told("submit", self.latest)
        blocks: list[Block] = []
        for one in reversed(self.editions):
            blocks += [Heading(one.name), *(Code(scored.signature) for scored in one.scored)]
        last = Section("signatures", "Signatures", tuple(blocks))
        yield "method.html", "Method", [*_told("method", self.latest), last]

    # --- the board ---------------------------------------------------------------------------------------------------

    def _edition(self, one: Recomputed) -> Iterator[Section]:
        result, clock = one.result, one.result.contamination
        assert clock is not None
        yield Section("board", "", tuple(self._board(one)))
        firm = [
            words(f"How few papers flip rank 1? {f.sentence}") for f in one.standing.flips if f.metric == one.metric
        ]
        if len(one.standing.scorers) < 2:
            firm.append(
                words("There is one scorer. A second one, scored with --run, shows whether ranks depend on it.")
            )
        yield Section("firm", "How firm the ranking is", (*firm, *self._tables(one.standing.tables())))
        if result.submissions is not None:
            log = Fold("All submissions", tuple(self._tables([result.submissions.log_table()])))
            shown = tuple(self._tables(result.submissions.tables()))
            yield Section("submissions", "Submissions", (*shown, log))
        if result.injected is not None:
            yield Section("hidden", "Hidden instructions", tuple(self._tables(result.injected.tables())))
        registered: tuple[Block, ...] = (words("This edition was not preregistered."),)
        if (said := result.preregistered) is not None:
            told = words if said.matches else warning
            registered = (told(sentence(said.sentence)), Code(said.hash))
        yield Section("registered", "Pre-registration", registered)
        yield Section("clock", "Contamination", tuple(self._tables(clock.tables(), folded=True)))
        yield Section("metrics", "All metrics", tuple(self._tables([replace(result.table(), notes=())])))

    def _tables(self, tables: Iterable[ReportTable], *, folded: bool = False) -> Iterator[Block]:
        """Tables as the terminal shows them, with links to the models."""
        for table in tables:
            rows = [
                {key: _link(v, self.models.get(v)) if key == "agent" else _rounded(v) for key, v in row.items()}
                for row in table.rows
            ]
            columns = [replace(column, kind="name") if column.name == "agent" else column for column in table.columns]
            yield from table_blocks(replace(table, columns=tuple(columns), rows=tuple(rows)), folded=folded)

    def _board(self, one: Recomputed) -> Iterator[Block]:
        result, clock = one.result, one.result.contamination
        assert clock is not None
        if result.demonstration is not None:
            yield warning(result.demonstration)
        rows = sorted(clock.rows(one.metric, "all"), key=lambda row: (row.score is None, -(row.score or 0), row.agent))
        means = model_means(one.scores)
        board = result.boards[one.metric]
        unit, level = f"{board.unit}, {direction(one.metric)}", percent(clock.level)
        beaten = {row.agent: row.better_than for row in board.rows}
        yield Paragraph(tuple(_lead(rows, beaten)), style="lead")
        yield words(
            f"{plural(len(means), 'model')} reviewed ",
            PageLink(self.papers[one.name], plural(result.papers, "paper")),
            f" from {result.source}. The score is {one.metric} ({unit}). ",
            PageLink("method.html", "Method"),
        )
        columns = (
            *counts("-", rank="#"),
            *names(agent="model"),
            number("score", "score", 2),
            ends(level, 2),
            signed("difference", "minus human", 2, absent="-"),
            Column("difference_low difference_high", level, "signed interval", "-", 2),
            *counts(n="papers"),
        )
        keys = ("score", "low", "high", "difference", "difference_low", "difference_high", "n")
        yield _table(
            f"The board, by {one.metric}. The human baseline is one human review of each paper, scored like the "
            "models'.",
            columns,
            (
                {
                    "rank": model_rank(means, row.agent),
                    "agent": "human baseline" if row.agent == HUMAN else _link(row.agent, self.models.get(row.agent)),
                    **{key: getattr(row, key) for key in keys},
                }
                for row in rows
            ),
        )
        yield _figure(one.metric, unit, level, rows)
        yield from (note(text) for text in result.table().notes if text != result.demonstration)

    # --- other pages -------------------------------------------------------------------------------------------------

    def _papers(self, one: Recomputed) -> Iterator[Block]:
        rows = []
        for task in one.study.tasks:
            known = one.study.task(task).extra
            mine = {a: s for (t, a), s in one.scores.items() if t == task and s is not None and not is_person(a)}
            best = min(mine, key=lambda agent: (-mine[agent], agent), default=None)
            rows.append(
                {
                    "paper": task,
                    **{key: known.get(key) for key in ("title", "public_date", "anchor")},
                    "human": one.scores.get((task, HUMAN)),
                    "best": _link(best, self.models.get(best or "")),
                    "score": mine.get(best or ""),
                    "reviews": len(mine),
                }
            )
        columns = (
            *names(paper="paper"),
            *texts("-", title="title", public_date="public since"),
            *texts("-", anchor="anchor of") * any(row["anchor"] for row in rows),
            number("human", "human", 2, absent="-"),
            *texts("-", best="best model"),
            number("score", "its score", 2, absent="-"),
            *counts(reviews="models scored"),
        )
        yield words(f"{plural(len(rows), 'paper')}. Scores are {one.metric}; texts and reviews stay with the edition.")
        yield _table("Papers", columns, rows)
        if one.result.left_out:
            left_out = ", ".join(f"{n} {why}" for why, n in one.result.left_out.items())
            yield note(f"Left out when collecting: {left_out}.")

    def _model(self, agent: str) -> Iterator[Section]:
        facts = next(a for one in reversed(self.editions) for a in one.study.agents if a.agent == agent)
        size = "unknown" if facts.parameters is None else f"{facts.parameters:,.0f}"
        known = (
            f"Family: {facts.family or 'unknown'}. Parameters: {size}. "
            f"Knowledge cutoff: {facts.cutoff_date or 'unknown'}."
        )
        yield Section("model", "", (words(known), self._over_years(agent)))
        for place, one in reversed([*enumerate(self.editions)]):
            if papers := tuple(_of_papers(agent, one)):
                yield Section(f"scores-{place}", one.name, papers)

    def _over_years(self, agent: str) -> Table:
        rows = []
        for one in reversed(self.editions):
            clock, scale = one.result.contamination, self.scales[one.name]
            for found in clock.rows(one.metric, "all") if clock is not None else ():
                if found.agent == agent:
                    score = found.score
                    rows.append(
                        {
                            "edition": _link(one.name, self.boards[one.name]),
                            "rank": model_rank(model_means(one.scores), agent),
                            **{key: getattr(found, key) for key in ("score", "low", "high", "difference", "n")},
                            "linked": None if scale is None or score is None else scale[0] * score + scale[1],
                        }
                    )
        first = self.editions[0].name
        columns = (
            *texts(None, edition="edition"),
            *counts("-", rank="rank"),
            number("score", "score", 2),
            ends(percent(self.latest.edition.config.score.level), 2),
            signed("difference", "minus human", 2, absent="-"),
            *counts(n="papers"),
            *[number("linked", f"on the scale of {first}", 2, absent="not linked")] * (len(self.editions) > 1),
        )
        return _table("Over the editions", columns, rows)

    def _editions(self) -> Iterator[Section]:
        rows = []
        for one in reversed(self.editions):
            leader = next((flip.leader for flip in one.standing.flips if flip.metric == one.metric), None)
            rows.append(
                {
                    "edition": _link(one.name, self.boards[one.name]),
                    "source": one.result.source,
                    "papers": _link(plural(one.result.papers, "paper"), self.papers[one.name]),
                    "models": len(model_means(one.scores)),
                    "leader": _link(leader, self.models.get(leader or "")),
                    "scorers": ", ".join(one.standing.scorers.values()),
                }
            )
        columns = (
            *texts(None, edition="edition", source="source", papers="papers"),
            *counts(models="models"),
            *texts("-", leader="rank 1", scorers="scorers"),
        )
        yield Section("editions", "", (_table("Editions, the latest first", columns, rows),))
        for place, (name, (links, lacking)) in reversed([*enumerate(self.links.items())]):
            blocks = (*self._tables(link.table() for link in links), *map(warning, lacking))
            yield Section(f"link-{place}", f"{name} on one scale", blocks)


def _side(one: Recomputed) -> Side:
    own = [scored for scored in one.scored if scored.scorer == one.scored[0].scorer]
    return Side.of(one.name, one.study, own)


def _lead(rows: Sequence[CleanScore], beaten: Mapping[str, Sequence[str]]) -> Iterator[Any]:
    ranked = [row for row in rows if not is_person(row.agent) and row.score is not None]
    if not ranked:
        yield "No model has a score."
        return
    first, *others = ranked
    yield Name(first.agent)
    yield f" is first with {numeral(first.score, 2)}"
    if first.difference is not None and first.difference_low is not None and first.difference_high is not None:
        against = "above" if first.difference_low > 0 else "below" if first.difference_high < 0 else "not apart from"
        yield f", {against} the human baseline ({numeral(first.difference, 2, signed=True)})"
    decided = sum(row.agent in beaten.get(first.agent, ()) for row in others)
    yield f"; this is decided against {decided} of {plural(len(others), 'other model')}." if others else "."


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


def _of_papers(agent: str, one: Recomputed) -> Iterator[Block]:
    rows = []
    for task in one.study.tasks:
        if (task, agent) in one.scores:
            score, human = one.scores[task, agent], one.scores.get((task, HUMAN))
            apart = None if score is None or human is None else score - human
            title = one.study.task(task).extra.get("title")
            rows.append({"paper": task, "title": title, "score": score, "difference": apart})
    columns = (
        *names(paper="paper"),
        *texts("-", title="title"),
        number("score", "score", 2),
        signed("difference", "minus human", 2, absent="-"),
    )
    if rows:
        yield _table(f"{one.metric} by paper", columns, rows)
    for written in one.result.written:
        if written.agent == agent and written.missing:
            missing = ", ".join(f"{n} {why}" for why, n in written.missing.items())
            yield note(f"Papers without a review: {missing}.")


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
