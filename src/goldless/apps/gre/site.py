"""The board for others, made from the evidence of editions alone: a static site, and files for the Hugging Face Hub.

No page of the site has a script, a time or anything from elsewhere, and numbers are rounded before they are written, so
the same evidence gives the same bytes on every machine. The files are those of
https://huggingface.co/docs/hub/eval-results; the Hub knows the framework after it is listed in huggingface.js
(packages/tasks/src/eval.ts), and a benchmark after it is on its allow-list.
"""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from goldless.apps.gre.boards import OTHER_SCALES
from goldless.apps.gre.papers import HUMAN, is_person
from goldless.apps.gre.results import model_means, table_blocks
from goldless.apps.gre.scoring import Recomputed
from goldless.apps.gre.submissions import cells, estimate_columns
from goldless.errors import UserError
from goldless.exporting.scored_run import path_name, scored_run, write_folder
from goldless.exporting.tables import write_results
from goldless.files import write_text
from goldless.reports.findings import direction
from goldless.reports.html import blocks
from goldless.reports.html.blocks import Block, Section, code, fold, link, note, sentence, warning, words
from goldless.reports.html.charts import Band, IntervalRow, interval_plot, pictures
from goldless.reports.html.labels import label, numeral, percent, plural
from goldless.reports.html.page import site_page
from goldless.reports.report_table import Column, ReportTable
from goldless.statistics.bootstrap import Estimate

NAME = "GRE-bench"
GENERATOR = '<meta name="generator" content="goldless gre site">'
"""The tag that marks a page of a site."""
FOOTER = (
    "Made by goldless gre site from the evidence of the editions alone: scores, intervals and ranks were recomputed "
    "without a model. The same evidence gives the same bytes."
)
KNOWN = {"title": "title", "public_date": "public since"}
"""The columns of facts about a paper, each with its heading."""
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
        signatures += [blocks.heading(one.name), *(code(scored.signature) for scored in one.scored)]
    pages: dict[str, tuple[str, Iterable[Section]]] = {
        **{boards[one.name]: (one.name, _edition(one)) for one in editions},
        "editions.html": ("Editions and models", _editions(editions)),
        "submit.html": ("How to submit", _told("submit", latest)),
        "method.html": ("Method", [*_told("method", latest), Section("signatures", "Signatures", tuple(signatures))]),
    }
    contents = {boards[one.name]: f"Board: {one.name}" for one in editions[::-1]}
    contents |= {file: title for file, (title, _) in pages.items() if file not in contents}
    return {
        file: site_page(title, tuple(sections), site=NAME, file=file, contents=contents, footer=FOOTER)
        for file, (title, sections) in pages.items()
    }


def write_site(pages: Mapping[str, str], folder: Path) -> None:
    """Write the pages into a folder; of earlier pages of a site there, those that are gone are removed.

    Other files stay. Raises, and writes nothing, if one of them has the name of a page.
    """
    there = {path.name: path.read_text(encoding="utf-8", errors="replace")[:4000] for path in folder.glob("*.html")}
    if foreign := sorted(name for name in pages if GENERATOR not in there.get(name, GENERATOR)):
        raise UserError(
            f"{folder}: {', '.join(foreign)} was not made by goldless gre site. Choose another folder, or remove it"
        )
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
    found: list[Block] = []
    for table in tables:
        rows = tuple({key: _rounded(value) for key, value in row.items()} for row in table.rows)
        columns = [replace(column, kind="name") if column.name == "agent" else column for column in table.columns]
        found += table_blocks(replace(table, columns=tuple(columns), rows=rows), folded=folded)
    return tuple(found)


# --- the board -------------------------------------------------------------------------------------------------------


def _edition(one: Recomputed) -> Iterator[Section]:
    result = one.result
    yield Section("board", "", tuple(_board(one)))
    yield Section("firm", "How firm the ranking is", _tables(one.standing.tables()))
    if result.submissions is not None:
        log = fold("All submissions", _tables([result.submissions.log_table()]))
        yield Section("submissions", "Submissions", (*_tables(result.submissions.tables()), log))
    if result.injected is not None:
        yield Section("hidden", "Hidden instructions", _tables(result.injected.tables()))
    registered: tuple[Block, ...] = (words("This edition was not preregistered."),)
    if (said := result.preregistered) is not None:
        registered = ((words if said.matches else warning)(sentence(said.sentence)), code(said.hash))
    yield Section("registered", "Pre-registration", registered)
    yield Section("clock", "Contamination", _tables(one.clock.tables(), folded=True))
    yield Section("metrics", "All metrics", _tables([replace(result.table(), notes=())]))
    yield Section("papers", "Papers", tuple(_papers(one)))


def _board(one: Recomputed) -> Iterator[Block]:
    result, board, rows = one.result, one.result.boards[one.metric], one.clock.rows(one.metric, "all")
    ranked, unit = [row for row in rows if row.rank is not None], f"{board.unit}, {direction(one.metric)}"
    if result.demonstration is not None:
        yield warning(result.demonstration)
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
    level = percent(one.clock.level)
    caption = f"Mean over papers. Lines are {level} intervals, the grey band is that of the human baseline."
    title = f"{one.metric}: score of each model with its {level} interval"
    plots = pictures(interval_plot, drawn, title=title, axis=unit, band=band)
    yield blocks.figure("board", "Scores", caption, plots, ())
    yield from (note(text) for text in result.table().notes if text != result.demonstration)


def _papers(one: Recomputed) -> Iterator[Block]:
    scores = one.scored[0].scores
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
            "models": len(model_means(one.scored[0].scores)),
            "rank 1": next((flip.leader for flip in one.standing.flips if flip.metric == one.metric), None),
            "scorers": ", ".join(one.standing.scorers.values()),
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
        return blocks.bullets(tuple(item.replace("\n", " ") for item in text.removeprefix("- ").split("\n- ")))
    return code(textwrap.dedent(text)) if text.startswith("    ") else words(text.replace("\n", " "))


# --- the Hub ---------------------------------------------------------------------------------------------------------


def write_hub_files(found: Recomputed, folder: Path, *, dataset: str, url: str | None) -> list[str]:
    """Write the benchmark's dataset and each model's results; returns the commands that upload them.

    The files have no texts of papers or reviews. Results of models are pull requests to their repositories.
    """
    run, result = scored_run(found.edition.run_folder()), found.result
    (board,) = run.chosen(found.metric).values()
    board = replace(board, rows=tuple(row for row in board.rows if not is_person(row.agent)))
    # the task of an edition: its name and the metric that ranks
    task = re.sub(r"[^a-z0-9]+", "_", f"{found.name}_{found.metric}".lower()).strip("_")
    models = folder / "models"
    write_results(board, models, dataset=dataset, task_id=task, date=run.made_at[:10], url=url)
    said = (
        f"{result.demonstration or ''} Which model writes the most informative peer reviews? {result.papers} papers "
        f"from {result.source}, scored by {found.metric}."
    ).strip()
    benchmark = {
        "name": f"GRE-bench {found.name}",
        "description": said,
        "evaluation_framework": "goldless",
        "tasks": [{"id": task, "config": "default", "split": "test"}],
    }
    data = [{"split": "test", "path": "papers.jsonl"}]
    card = {"pretty_name": benchmark["name"], "configs": [{"config_name": "default", "data_files": data}]}
    extras = {paper: found.study.task(paper).extra for paper in found.study.tasks}
    papers = [{"paper": paper, **{key: of.get(key) for key in KNOWN}} for paper, of in extras.items()]
    below = "The table lists the papers, without their texts. Scores and evidence:"
    signed = "".join(f"    {scored.signature}\n" for scored in found.scored)
    made = {
        # JSON is YAML
        "eval.yaml": [json.dumps(benchmark, ensure_ascii=False, indent=2) + "\n"],
        "README.md": [
            f"---\n{json.dumps(card, indent=2)}\n---\n\n# {benchmark['name']}\n\n{said}\n\n{below}\n\n{signed}"
        ],
        "papers.jsonl": [json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in papers],
    }
    write_folder(folder / "dataset", made)
    commands = [f"hf upload {shlex.quote(dataset)} {shlex.quote(str(folder / 'dataset'))} . --repo-type dataset"]
    for agent in [row.agent for row in board.rows if row.score is not None]:
        model = found.edition.config.models.get(agent)
        named = re.fullmatch(r"hf:([\w.-]+/[\w.-]+)", model.model) if model else None
        repository = named[1] if named else f"OWNER/REPOSITORY-OF-{agent}"
        own = shlex.quote(str(models / path_name(agent)))
        commands.append(f"hf upload {shlex.quote(repository)} {own} . --create-pr")
    return commands
