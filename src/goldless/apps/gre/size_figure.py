"""The figure of a board: score by model size, one panel per metric, families connected (GEM, figure 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from textwrap import wrap

from goldless.apps.gre.boards import PUBLISHED, Board
from goldless.errors import UserError
from goldless.records import Agent
from goldless.reports.html.charts import (
    COLOURS,
    SERIES,
    SHAPES,
    Band,
    Point,
    element,
    picture,
    scatter_plot,
    series_legend,
    words,
)
from goldless.reports.html.labels import label, numeral
from goldless.reports.report_table import decimals_for, large_text

TITLES = {"gem": "GEM", "gem-s[abstract]": "GEM-S (abstract)", "gem-s[assw]": "GEM-S (ASSW)"}
"""Metrics as the paper calls them, in its order."""
MOST_PANELS = 3
TONES = SERIES[:-1]
"""Grey is left to people."""
OTHER = "no family"
PANEL, PANEL_HEIGHT, EDGE, LINE = 400.0, 420.0, 16.0, 18.0
LETTER = 7.0
"""Width of a letter of the caption."""
STYLE = (
    ".chart .ground{fill:var(--ground);stroke:var(--rule)}.chart .heading{font-size:19px;font-weight:650}"
    ".chart .panel-title{font-size:15px;font-weight:650}.chart .caption{font-size:13px;fill:var(--muted)}"
    ".chart .point-label{fill:currentColor}"
)


def size_figure(board: Board) -> str:
    """The figure as one SVG file: text as text, system fonts, a ground of its own, no script, nothing from elsewhere.

    It shows GEM, GEM-S (abstract) and GEM-S (ASSW) where the board has them, else its first three metrics. It is
    dark where the reader's screen is.
    """
    chosen = [metric for metric in TITLES if metric in board.metrics] or [*board.metrics][:MOST_PANELS]
    scored = {agent for metric in chosen for agent in board.models(metric)}
    agents = [agent for agent in board.agents if agent.agent in scored]
    sized = [agent for agent in agents if agent.parameters is not None]
    if not sized:
        raise UserError(
            f"{board.name}: no agent has both a number of parameters and a score. In an edition, set parameters = 8e9 "
            "under [models.NAME] in edition.toml and score it again; in a table, fill the column parameters"
        )
    wide, top = 2 * EDGE + len(chosen) * PANEL, 56.0
    name = "" if board.name in PUBLISHED else f" {board.name}"
    title = label(f"GRE-bench{name}: score by model size", 60)
    parts = [words(title, EDGE, 34, class_="heading")]
    points: list[Point] = []
    for place, metric in enumerate(chosen):
        mine, human, heading = list(_points(board, metric, sized)), board.human(metric), TITLES.get(metric, metric)
        drawn = scatter_plot(
            mine,
            title=heading,
            x_axis="parameters (log scale)",
            y_axis="nats" if metric in TITLES else "score",
            logarithmic=True,
            unconnected=OTHER,
            band=None if human is None else Band(human.estimate, "human baseline"),
            width=PANEL,
            legend_below=False,
        )
        above = words(label(heading, 40), 58, 12, class_="panel-title")
        parts.append(element("g", above, drawn, transform=f"translate({EDGE + place * PANEL:g} {top:g})"))
        points += mine
    top += PANEL_HEIGHT + 30
    legend, tall = series_legend(points, wide - 4 * EDGE)
    parts.append(element("g", legend, transform=f"translate({2 * EDGE:g} {top:g})"))
    top += tall + 20
    unsized = [agent.agent for agent in agents if agent.parameters is None]
    for text in wrap(" ".join(_caption(board, chosen, unsized)), int(wide / LETTER)):
        parts.append(words(text, EDGE, top, class_="caption"))
        top += LINE
    ground = element("rect", x=0.5, y=0.5, width=wide - 1, height=top - 1, rx=6.0, class_="ground")
    return f"{picture(element('style', _css()), ground, *parts, width=wide, height=top, title=title)}\n"


def _css() -> str:
    """The report's chart styles with colours put in: programs that know no variables show them, too."""
    css = files("goldless.reports.html").joinpath("chart.css").read_text(encoding="utf-8") + STYLE
    light, night = css, css
    for name, colours in COLOURS.items():
        light, night = light.replace(f"var(--{name})", colours[0]), night.replace(f"var(--{name})", colours[1])
    return f"{light}@media (prefers-color-scheme:dark){{{night}}}"


def _points(board: Board, metric: str, sized: Sequence[Agent]) -> Iterator[Point]:
    """A point per model: families differ in shape, and in colour as far as there are colours."""
    families = list(dict.fromkeys(agent.family or OTHER for agent in sized))
    scores = board.metrics[metric]
    decimals = decimals_for([end for score in scores.values() for end in score.estimate.numbers])
    for agent in [agent for agent in sized if agent.agent in board.models(metric)]:
        score, family, size = scores[agent.agent], agent.family or OTHER, agent.parameters or 0.0
        about = "about " * (agent.agent in board.estimated_sizes)
        hint = f"{agent.agent} ({family}): {about}{large_text(size)} parameters, {numeral(score.score, decimals)}"
        _, low, high = score.estimate.numbers
        if low is not None and high is not None:
            hint += f" ({numeral(low, decimals)} to {numeral(high, decimals)})"
        place = families.index(family)
        shape, tone = SHAPES[place % len(SHAPES)], TONES[place % len(TONES)]
        name = agent.agent.rsplit("/", 1)[-1]
        yield Point(name, size, score.estimate, family, shape, tone, hint)


def _caption(board: Board, metrics: Sequence[str], unsized: Sequence[str]) -> Iterator[str]:
    yield from (f"{note}." for note in board.notes)
    yield "Lines connect models of one family."
    intervals = any(s.estimate.low is not None for metric in metrics for s in board.metrics[metric].values())
    human = any(board.human(metric) for metric in metrics)
    if intervals and board.level:
        yield f"Bars{' and the grey band' if human else ''} are {board.level * 100:g}% intervals."
    if lacking := [name for name, there in (("intervals", intervals), ("human baseline", human)) if not there]:
        yield f"Not available: {', '.join(lacking)}."
    if board.estimated_sizes:
        yield f"Sizes of {len(board.estimated_sizes)} models are estimates."
    if unsized:
        yield f"Not shown, because the size is unknown: {', '.join(map(label, unsized))}."
