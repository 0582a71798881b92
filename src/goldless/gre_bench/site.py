"""The board as a static site: pages of links and tables, made from the evidence of one or more editions alone.

No page has a script, a time or anything from elsewhere, and numbers are rounded before they are written, so the same
evidence gives the same bytes on every machine.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.files import write_text
from goldless.gre_bench.edition import Edition
from goldless.gre_bench.linking import Link, Side, link_sides, side
from goldless.gre_bench.papers import is_person
from goldless.gre_bench.recomputing import Recomputed
from goldless.gre_bench.site_board import agent_cell, board_sections, report_blocks, rounded
from goldless.gre_bench.standing import model_means, model_rank
from goldless.records import Agent
from goldless.reports.html.blocks import (
    Block,
    Bullets,
    Code,
    Heading,
    Section,
    Table,
    counts,
    ends,
    names,
    note,
    number,
    signed,
    texts,
    warning,
    words,
)
from goldless.reports.html.labels import percent, plural
from goldless.reports.html.page import site_page

NAME = "GRE-bench"
GENERATOR = '<meta name="generator" content="goldless gre site">'
"""What a page of a site can be told by."""
FOOTER = (
    "Made by goldless gre site from the evidence of the editions alone: scores, intervals and ranks were recomputed "
    "without a model. The same evidence gives the same bytes."
)


def site_pages(editions: Sequence[Recomputed]) -> dict[str, str]:
    """The pages of a site by file name; editions in the order of their years, the last one is the front page."""
    made = _Site(editions)
    pages = dict(made.pages())
    return {
        file: site_page(title, sections, site=NAME, file=file, contents=made.contents, footer=FOOTER)
        for file, (title, sections) in pages.items()
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
    there = {path.name: _is_page(path) for path in folder.glob("*.html")} if folder.is_dir() else {}
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


def _is_page(path: Path) -> bool:
    return GENERATOR in path.read_text(encoding="utf-8", errors="replace")[:4000]


def slugs(kind: str, names_: Sequence[str]) -> dict[str, str]:
    """A file for each name, distinct even where file systems ignore case."""
    found: dict[str, str] = {}
    for name in names_:
        plain = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-.") or "unnamed"
        file, number_ = f"{kind}-{plain}.html", 1
        while file in found.values():
            number_ += 1
            file = f"{kind}-{plain}-{number_}.html"
        found[name] = file
    return found


Page = tuple[str, tuple[Section, ...]]


class _Site:
    """What the pages share: names of files, and links of the editions' scales."""

    def __init__(self, editions: Sequence[Recomputed]) -> None:
        self.editions = list(editions)
        self.latest = self.editions[-1]
        boards = slugs("edition", [one.name for one in editions])
        self.boards = boards | {self.latest.name: "index.html"}
        self.papers = slugs("papers", [one.name for one in editions])
        agents = [a.agent for one in reversed(self.editions) for a in one.study.agents if not is_person(a.agent)]
        self.models = slugs("model", list(dict.fromkeys(agents)))
        self.links: dict[str, tuple[list[Link], list[str]]] = {}
        """Of each edition to the one before."""
        self.scales: dict[str, tuple[float, float] | None] = {self.editions[0].name: (1.0, 0.0)}
        """Slope and intercept from each edition's scale to that of the first, link by link; None: not linked."""
        for before, one in itertools.pairwise(self.editions):
            self.links[one.name] = link_sides(_side(before), _side(one))
            self.scales[one.name] = self._chained(before, one)
        self.contents = {
            "index.html": f"Board: {self.latest.name}",
            **{self.boards[one.name]: f"Board: {one.name}" for one in reversed(self.editions[:-1])},
            "editions.html": "Editions",
            "submit.html": "How to submit",
            "method.html": "Method",
        }

    def _chained(self, before: Recomputed, one: Recomputed) -> tuple[float, float] | None:
        link = next((link for link in self.links[one.name][0] if link.metric == one.metric), None)
        scale = self.scales[before.name]
        if link is None or scale is None or before.metric != one.metric:
            return None
        return scale[0] * link.slope, scale[0] * link.intercept + scale[1]

    def pages(self) -> Iterator[tuple[str, Page]]:
        """Files with their titles and sections."""
        for one in self.editions:
            sections = board_sections(one, self.models, self.papers[one.name])
            yield self.boards[one.name], (one.name, tuple(sections))
            yield self.papers[one.name], (f"{one.name}: papers", (Section("papers", "", tuple(self._papers(one))),))
        for agent, file in self.models.items():
            yield file, (agent, tuple(self._model(agent)))
        yield "editions.html", ("Editions", tuple(self._editions()))
        yield "submit.html", ("How to submit", tuple(_told("submit", self.latest)))
        yield "method.html", ("Method", (*_told("method", self.latest), self._signatures()))

    def _papers(self, one: Recomputed) -> Iterator[Block]:
        scores = one.review_scores()
        rows = []
        for task in one.study.tasks:
            known = one.study.task(task).extra
            mine = {a: s for (t, a), s in scores.items() if t == task and s is not None and not is_person(a)}
            best = min(mine, key=lambda agent: (-mine[agent], agent)) if mine else None
            rows.append(
                {
                    "paper": task,
                    "title": known.get("title"),
                    "public": known.get("public_date"),
                    "anchor": known.get("anchor"),
                    "human": scores.get((task, "human")),
                    "best": agent_cell(best, self.models),
                    "score": mine.get(best) if best else None,
                    "reviews": len(mine),
                }
            )
        columns = (
            *names(paper="paper"),
            *texts("-", title="title", public="public since"),
            *texts("-", anchor="anchor of") * any(row["anchor"] for row in rows),
            number("human", "human", 2, absent="-"),
            *texts("-", best="best model"),
            number("score", "its score", 2, absent="-"),
            *counts(reviews="models scored"),
        )
        yield words(f"{plural(len(rows), 'paper')}. Scores are {one.metric}; texts and reviews stay with the edition.")
        yield Table("Papers", columns, rounded(rows))
        left_out = one.scores.left_out
        if left_out:
            yield note("Left out when collecting: ", ", ".join(f"{n} {why}" for why, n in left_out.items()), ".")

    def _model(self, agent: str) -> Iterator[Section]:
        facts = next(a for one in reversed(self.editions) for a in one.study.agents if a.agent == agent)
        yield Section("model", "", (words(_facts(facts)), self._over_years(agent)))
        for one in reversed(self.editions):
            papers = tuple(self._of_papers(agent, one))
            if papers:
                yield Section(f"scores-{self.editions.index(one)}", one.name, papers)

    def _over_years(self, agent: str) -> Table:
        rows = []
        for one in reversed(self.editions):
            found = _row(one, agent)
            if found is None:
                continue
            scale, score = self.scales[one.name], found["score"]
            ranks = next((r.ranks for r in one.standing.ranks if (r.metric, r.agent) == (one.metric, agent)), {})
            rows.append(
                {
                    "edition": _link(self.boards[one.name], one.name),
                    "rank": model_rank(model_means(one.review_scores()), agent),
                    "ranks": ", ".join(f"{run} {rank or '-'}" for run, rank in list(ranks.items())[1:]) or None,
                    **found,
                    "linked": None if scale is None or score is None else scale[0] * score + scale[1],
                }
            )
        first = self.editions[0].name
        columns = (
            *texts(None, edition="edition"),
            *counts("-", rank="rank"),
            *texts("-", ranks="rank by other scorers") * any(row["ranks"] for row in rows),
            number("score", "score", 2),
            ends(percent(self.latest.edition.config.score.level), 2),
            signed("difference", "minus human", 2, absent="-"),
            *counts(n="papers"),
            *[number("linked", f"on the scale of {first}", 2, absent="not linked")] * (len(self.editions) > 1),
        )
        return Table("Over the editions", columns, rounded(rows))

    def _of_papers(self, agent: str, one: Recomputed) -> Iterator[Block]:
        scores = one.review_scores()
        rows = [
            {"paper": task, "title": one.study.task(task).extra.get("title"), **_against(scores, task, agent)}
            for task in one.study.tasks
            if (task, agent) in scores
        ]
        columns = (
            *names(paper="paper"),
            *texts("-", title="title"),
            number("score", "score", 2),
            signed("difference", "minus human", 2, absent="-"),
        )
        if rows:
            yield Table(f"{one.metric} by paper", columns, rounded(rows))
        written = next((w for w in one.scores.written if w.agent == agent), None)
        if written is not None and written.missing:
            yield note("Papers without a review: ", ", ".join(f"{n} {why}" for why, n in written.missing.items()), ".")

    def _editions(self) -> Iterator[Section]:
        rows = []
        for one in reversed(self.editions):
            flips = [flip for flip in one.standing.flips if flip.metric == one.metric]
            rows.append(
                {
                    "edition": _link(self.boards[one.name], one.name),
                    "source": one.scores.source,
                    "papers": _link(self.papers[one.name], plural(one.scores.papers, "paper")),
                    "models": len(model_means(one.review_scores())),
                    "leader": agent_cell(flips[0].leader if flips else None, self.models),
                    "scorers": ", ".join(one.standing.scorers.values()),
                }
            )
        columns = (
            *texts(None, edition="edition", source="source", papers="papers"),
            *counts(models="models"),
            *texts("-", leader="rank 1", scorers="scorers"),
        )
        yield Section("editions", "", (Table("Editions, the latest first", columns, rows),))
        for name, (links, lacking) in reversed(self.links.items()):
            blocks: list[Block] = []
            for link in links:
                blocks += report_blocks(link.table(), self.models)
            blocks += [warning(text) for text in lacking]
            yield Section(f"link-{list(self.links).index(name)}", f"{name} on one scale", tuple(blocks))

    def _signatures(self) -> Section:
        blocks: list[Block] = []
        for one in reversed(self.editions):
            blocks.append(Heading(one.name))
            blocks += [Code(scored.signature) for scored in one.scored]
        return Section("signatures", "Signatures", tuple(blocks))


def _side(one: Recomputed) -> Side:
    own = [scored for scored in one.scored if scored.scorer == one.scored[0].scorer]
    return side(one.name, one.study, {s.metric: s.scores for s in own}, {s.metric: s.signature for s in own})


def _link(file: str, word: str) -> Any:
    return agent_cell(word, {word: file})


def _row(one: Recomputed, agent: str) -> dict[str, Any] | None:
    clock = one.scores.clock
    rows = (
        [] if clock is None else [r for r in clock.scores if (r.metric, r.scope, r.agent) == (one.metric, "all", agent)]
    )
    return {key: getattr(rows[0], key) for key in ("score", "low", "high", "difference", "n")} if rows else None


def _against(scores: Mapping[tuple[str, str], float | None], task: str, agent: str) -> dict[str, float | None]:
    mine, human = scores.get((task, agent)), scores.get((task, "human"))
    return {"score": mine, "difference": None if mine is None or human is None else mine - human}


def _facts(agent: Agent) -> str:
    size = "unknown" if agent.parameters is None else f"{agent.parameters:,.0f}"
    return (
        f"Family: {agent.family or 'unknown'}. Parameters: {size}. Knowledge cutoff: {agent.cutoff_date or 'unknown'}."
    )


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
