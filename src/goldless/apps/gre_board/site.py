"""The board for others, made from the evidence of editions alone: a static site.

No page has a script, a time or anything from elsewhere, and numbers are rounded before they are written, so the same
evidence gives the same bytes on every machine.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from goldless.apps.gre.papers import HUMAN, is_person
from goldless.apps.gre.results import estimate_columns, flip_table, model_means, table_blocks
from goldless.apps.gre_board.recomputing import Recomputed
from goldless.errors import UserError
from goldless.files import write_text
from goldless.reports.document import cells
from goldless.reports.html.blocks import (
    Block,
    Section,
    bullets,
    code,
    fold,
    heading,
    interval_figure,
    link,
    sentence,
    words,
)
from goldless.reports.html.charts import Band, IntervalRow
from goldless.reports.html.labels import label, numeral, plural
from goldless.reports.html.page import site_page
from goldless.reports.report_table import Column, ReportTable
from goldless.statistics.bootstrap import Estimate

NAME = "GRE-bench"
VERB = "goldless gre publish"
GENERATOR = f'<meta name="generator" content="{VERB}">'
"""The tag that marks a page of a site."""
FOOTER = (
    f"Made by {VERB} from the evidence of the editions alone: scores, intervals and ranks were recomputed without a "
    "model. The same evidence gives the same bytes."
)
KNOWN = {"title": "title", "public_date": "public since"}
"""The columns of facts about a paper, each with its heading."""
OTHER_SCALES = (
    "Scores of different scorers or papers are on different scales: compare ranks, correlations and distances to the "
    "human baseline; the change of a score alone means nothing."
)
DECIMALS = 4
"""Of every number on a page: processors differ in the last digits of a sum."""


def site_pages(editions: Sequence[Recomputed]) -> dict[str, str]:
    """The pages of a site by file name; editions in the order of their years, the last one is the front page."""
    latest, files = editions[-1], [_file(one.name) for one in editions]
    if twice := sorted({one.name for one in editions if files.count(_file(one.name)) > 1}):
        raise UserError(f"two editions have the same name: {', '.join(twice)}. Rename a folder")
    boards = {one.name: _file(one.name) for one in editions} | {latest.name: "index.html"}
    signatures: list[Block] = []
    for one in editions[::-1]:
        signatures += [heading(one.name), *map(code, one.result.signatures.values())]
    pages: dict[str, tuple[str, Iterable[Section]]] = {
        **{boards[one.name]: (one.name, _edition(one)) for one in editions},
        "editions.html": ("Editions and models", _editions(editions)),
        "submit.html": ("How to submit", _told("submit", latest)),
        "method.html": ("Method", [*_told("method", latest), Section("signatures", "Signatures", tuple(signatures))]),
    }
    contents = {boards[one.name]: f"Board: {one.name}" for one in editions[::-1]}
    contents |= {file: title for file, (title, _) in pages.items() if file not in contents}
    return {
        file: site_page(title, tuple(sections), site=NAME, file=file, contents=contents, made_by=VERB, footer=FOOTER)
        for file, (title, sections) in pages.items()
    }


def write_site(pages: Mapping[str, str], folder: Path) -> None:
    """Write the pages into a folder; of earlier pages of a site there, those that are gone are removed.

    Other files stay. Raises, and writes nothing, if one of them has the name of a page.
    """
    there = {path.name: path.read_text(encoding="utf-8", errors="replace")[:4000] for path in folder.glob("*.html")}
    if foreign := sorted(name for name in pages if GENERATOR not in there.get(name, GENERATOR)):
        raise UserError(f"{folder}: {', '.join(foreign)} was not made by {VERB}. Choose another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        write_text(folder / name, page)
    for name in [name for name, text in there.items() if GENERATOR in text and name not in pages]:
        (folder / name).unlink()


def _file(edition: str) -> str:
    """The file of an edition's board; some file systems ignore case."""
    return f"edition-{re.sub('[^a-z0-9._-]+', '-', edition.lower())}.html"


def _rounded(value: Any) -> Any:
    """A value that is the same on every machine; adding zero makes of a negative zero a plain one."""
    return round(value, DECIMALS) + 0.0 if isinstance(value, float) else value


def _tables(tables: Iterable[ReportTable], *, folded: bool = False) -> tuple[Block, ...]:
    parts: list[Block] = []
    for table in tables:
        rows = tuple({key: _rounded(value) for key, value in row.items()} for row in table.rows)
        columns = [replace(column, kind="name") if column.name == "agent" else column for column in table.columns]
        parts += table_blocks(replace(table, columns=tuple(columns), rows=rows), folded=folded)
    return tuple(parts)


# --- the board -------------------------------------------------------------------------------------------------------


def _edition(one: Recomputed) -> Iterator[Section]:
    result, public = one.result, one.board
    yield Section("board", "", tuple(_board(one)))
    yield Section("firm", "How firm the ranking is", _tables([flip_table(result.flips)]))
    if public.submissions is not None:
        log = fold("All submissions", _tables([public.submissions.log_table()]))
        yield Section("submissions", "Submissions", (*_tables(public.submissions.tables()), log))
    if result.injected is not None:
        yield Section("hidden", "Hidden instructions", _tables(result.injected.tables()))
    registered: tuple[Block, ...] = (words("This edition was not preregistered."),)
    if (noted := public.preregistered) is not None:
        style: Literal["warning"] | None = None if noted.matches else "warning"
        registered = (words(sentence(noted.sentence), style=style), code(noted.hash))
    yield Section("registered", "Pre-registration", registered)
    yield Section("clock", "Contamination", _tables(one.clock.tables(), folded=True))
    yield Section("metrics", "All metrics", _tables([replace(result.table(), notes=())]))
    yield Section("papers", "Papers", tuple(_papers(one)))


def _board(one: Recomputed) -> Iterator[Block]:
    result, board, rows = one.result, one.result.boards[one.metric], one.clock.rows(one.metric, "all")
    ranked, unit = [row for row in rows if row.rank is not None], board.scale
    if result.demonstration is not None:
        yield words(result.demonstration, style="warning")
    lead = "No model has a score."
    if ranked:
        first, apart = ranked[0], ranked[0].difference
        lead = f"{label(first.agent)} is first with {numeral(first.score.value, 2)}"
        if apart.low is not None and apart.high is not None:
            against = "above" if apart.low > 0 else "below" if apart.high < 0 else "not apart from"
            lead += f", {against} the human baseline ({numeral(apart.value, 2, signed=True)})"
        beaten = next(row.better_than or () for row in board.rows if row.agent == first.agent)
        decided = sum(row.agent in beaten for row in ranked)
        others = plural(len(ranked) - 1, "other model")
        lead += f"; this is decided against {decided} of {others}." if len(ranked) > 1 else "."
    yield words(lead, style="lead")
    yield words(
        f"{plural(len(ranked), 'model')} reviewed {plural(result.papers, 'paper')} from {result.source}. ",
        f"The score is {one.metric} ({unit}). ",
        link("method.html", "Method"),
    )
    title = f"The board, by {one.metric}. human is one human review of each paper, scored like the models'."
    shown = replace(one.clock.leaderboard(one.metric, "all"), title=title, signature="", notes=())
    yield from _tables([shown])
    drawn, band = [], None
    for row in rows:
        score = Estimate(*map(_rounded, row.score.numbers))
        if row.agent != HUMAN:
            drawn.append(IntervalRow(row.agent, score, numeral(score.value, 2, absent="")))
        elif score.value is not None:
            band = Band(score, "human baseline")
    level = f"{one.clock.level * 100:g}%"
    caption = f"Mean over papers. Lines are {level} intervals, the grey band is that of the human baseline."
    title = f"{one.metric}: score of each model with its {level} interval"
    yield interval_figure("board", "Scores", caption, drawn, title=title, axis=board.scale, band=band)
    yield from (words(text, style="note") for text in result.table().notes if text != result.demonstration)


def _papers(one: Recomputed) -> Iterator[Block]:
    scores = one.scores[one.metric]
    agents = [HUMAN, *sorted({agent for _, agent in scores if not is_person(agent)})]
    facts = {task: one.study.task(task).extra for task in one.study.tasks}
    columns = (
        Column("paper", "paper", "name"),
        *(Column(key, said) for key, said in KNOWN.items() if any(of.get(key) for of in facts.values())),
        *(Column(f"score {agent}", agent, "number", decimals=2) for agent in agents),
    )
    rows = tuple(
        {"paper": task, **{key: extra.get(key) for key in KNOWN}}
        | {f"score {agent}": scores.get((task, agent)) for agent in agents}
        for task, extra in facts.items()
    )
    title = f"{one.metric} by paper"
    yield fold(title, _tables([ReportTable(title, columns, rows)]))


# --- all editions ----------------------------------------------------------------------------------------------------


def _editions(editions: Sequence[Recomputed]) -> Iterator[Section]:
    rows = [
        {
            "edition": one.name,
            "source": one.result.source,
            "papers": one.result.papers,
            "models": len(model_means(one.scores[one.metric])),
            "rank 1": next((flip.leader for flip in one.result.flips if flip.metric == one.metric), None),
            "scorer": one.result.boards[one.metric].settings.get("scorer", "none"),
        }
        for one in editions[::-1]
    ]
    columns = tuple(Column(name, name) for name in rows[0])
    yield Section("editions", "", _tables([ReportTable("Editions, the latest first", columns, tuple(rows))]))
    yield Section("models", "Models over the editions", _tables([_models(editions)]))


def _models(editions: Sequence[Recomputed]) -> ReportTable:
    rows: list[dict[str, Any]] = []
    for one in editions[::-1]:
        facts = {agent.agent: agent for agent in one.study.agents}
        scores = [score for score in one.clock.rows(one.metric, "all") if score.agent != HUMAN]
        rows += [asdict(facts[score.agent]) | cells(score, edition=one.name) for score in scores]
    columns = (
        Column("agent", "model"),
        Column("family", "family"),
        Column("parameters", "size", "large"),
        Column("cutoff_date", "cutoff"),
        Column("edition", "edition"),
        Column("rank", "#", "count", "-"),
        *estimate_columns("score", "score", editions[-1].clock.level),
        Column("difference", "minus human", "signed", "-", 2),
        Column("score_n", "papers", "count"),
    )
    rows.sort(key=lambda row: str(row["agent"]))
    return ReportTable("Models, by name", columns, tuple(rows), notes=(OTHER_SCALES,) if len(editions) > 1 else ())


def _told(page: str, latest: Recomputed) -> Iterator[Section]:
    """The sections of a page of fixed words: paragraphs, bullets and commands; {edition} is the latest edition."""
    text = (Path(__file__).parent / "site_words" / f"{page}.md").read_text(encoding="utf-8")
    for part in text.replace("{edition}", latest.name).split("## ")[1:]:
        title, _, body = part.partition("\n")
        yield Section(re.sub("[^a-z]+", "-", title.lower()), title, tuple(map(_block, body.strip("\n").split("\n\n"))))


def _block(text: str) -> Block:
    if text.startswith("- "):
        return bullets(tuple(item.replace("\n", " ") for item in text.removeprefix("- ").split("\n- ")))
    return code(textwrap.dedent(text)) if text.startswith("    ") else words(text.replace("\n", " "))
