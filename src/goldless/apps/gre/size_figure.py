"""The figure of a board: score by model size, one panel per metric, families connected (GEM, figure 5)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files

from markupsafe import Markup

from goldless.apps.gre.boards import PUBLISHED, Board
from goldless.errors import UserError
from goldless.records import Agent
from goldless.reports.html.charts.row_plots import Band
from goldless.reports.html.charts.scatter import Point, family_lines, scatter_plot, series_legend
from goldless.reports.html.charts.svg import COLOURS, SERIES, SHAPES, Shape, element, picture, words
from goldless.reports.html.labels import decimals_for, fitted, label, numeral, text_width
from goldless.reports.report_table import large_text

TITLES = {"gem": "GEM", "gem-s[abstract]": "GEM-S (abstract)", "gem-s[assw]": "GEM-S (ASSW)"}
"""Metrics as the paper calls them, in its order."""
MOST_PANELS = 3
TONES = SERIES[:-1]
"""Grey is left to people."""
OTHER = "no family"
PANEL, PANEL_HEIGHT, EDGE = 400.0, 420.0, 16.0
LINE, HEADING = 24.0, 19.0
STYLE = (
    ".chart .ground{fill:var(--ground);stroke:var(--rule)}.chart .heading{font-size:19px;font-weight:650}"
    ".chart .panel-title{font-size:15px;font-weight:650}.chart .caption{font-size:13px;fill:var(--muted)}"
    ".chart .point-label{fill:currentColor}"
)


def size_figure(board: Board, *, dark: bool = False) -> str:
    """The figure as one SVG file: text as text, system fonts, a ground of its own, no script, nothing from elsewhere.

    It shows GEM, GEM-S (abstract) and GEM-S (ASSW) where the board has them, else its first three metrics. ``dark``:
    always dark; else light, and dark where the reader's screen is.
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
    groups = list(dict.fromkeys(agent.group or "" for agent in sized))
    sized.sort(key=lambda agent: groups.index(agent.group or ""))
    points = {metric: _points(board, metric, sized) for metric in chosen}
    wide = 2 * EDGE + len(chosen) * PANEL
    name = "" if board.name in PUBLISHED else f" {board.name}"
    title = label(f"GRE-bench{name}: score by model size", 200)
    headings = _wrapped(title, wide - 2 * EDGE, HEADING)
    top = 32 + LINE * len(headings)
    parts = [words(text, EDGE, 34 + LINE * place, class_="heading") for place, text in enumerate(headings)]
    for place, metric in enumerate(chosen):
        inside = _panel(board, metric, points[metric])
        parts.append(element("g", inside, transform=f"translate({EDGE + place * PANEL:g} {top:g})"))
    top += PANEL_HEIGHT + 30
    legend, tall = series_legend([one for of in points.values() for one in of], wide - 4 * EDGE)
    parts.append(element("g", legend, transform=f"translate({2 * EDGE:g} {top:g})"))
    top += tall + 20
    unsized = [agent.agent for agent in agents if agent.parameters is None]
    captions = _wrapped(_caption(board, chosen, sized, unsized), wide - 2 * EDGE)
    parts += [words(text, EDGE, top + 18 * place, class_="caption") for place, text in enumerate(captions)]
    tall = top + 18 * len(captions)
    ground = element("rect", x=0.5, y=0.5, width=wide - 1, height=tall - 1, rx=6.0, class_="ground")
    style = element("style", _css(dark=dark))
    return f"{picture(style, ground, *parts, width=wide, height=tall, title=title)}\n"


def _css(*, dark: bool) -> str:
    """The report's chart styles with colours put in: programs that know no variables show them, too."""
    css = files("goldless.reports.html").joinpath("chart.css").read_text(encoding="utf-8") + STYLE

    def coloured(theme: int) -> str:
        return re.sub(r"var\(--([a-z]+)\)", lambda found: COLOURS[found[1]][theme], css)

    return coloured(1) if dark else f"{coloured(0)}@media (prefers-color-scheme:dark){{{coloured(1)}}}"


def _points(board: Board, metric: str, sized: Sequence[Agent]) -> list[Point]:
    looks, names = _looks(sized), _names(sized)
    scores = board.metrics[metric]
    decimals = decimals_for([end for score in scores.values() for end in (score.score, score.low, score.high)])
    found = []
    for agent in sized:
        if agent.agent not in board.models(metric):
            continue
        score, family, size = scores[agent.agent], agent.family or OTHER, agent.parameters or 0.0
        about = "about " * (agent.agent in board.estimated_sizes)
        hint = f"{agent.agent} ({family}): {about}{large_text(size)} parameters, {numeral(score.score, decimals)}"
        if score.low is not None and score.high is not None:
            hint += f" ({numeral(score.low, decimals)} to {numeral(score.high, decimals)})"
        tone, shape = looks[family]
        ends = (score.score or 0.0, score.low, score.high)
        found.append(Point(names[agent.agent], size, *ends, family, shape, tone, hint))
    return found


def _looks(agents: Sequence[Agent]) -> dict[str, tuple[str, Shape]]:
    """Colour and shape of each family: a colour for each group where there are several, else for each family."""
    group = {agent.family or OTHER: agent.group or "" for agent in agents}
    if len(set(group.values())) == 1:
        group = {family: family for family in group}
    kinds = list(dict.fromkeys(group.values()))
    looks: dict[str, tuple[str, Shape]] = {}
    for place, (family, kind) in enumerate(group.items()):
        tone = TONES[kinds.index(kind) % len(TONES)]
        shapes = [SHAPES[(place + turn) % len(SHAPES)] for turn in range(len(SHAPES))]
        looks[family] = tone, next((shape for shape in shapes if (tone, shape) not in looks.values()), shapes[0])
    return looks


def _names(agents: Sequence[Agent]) -> dict[str, str]:
    """The names on the labels: without the family, which colour and shape tell, unless another would be the same."""
    whole = {agent.agent: agent.agent.rsplit("/", 1)[-1] for agent in agents}
    families = {agent.agent: f"{(agent.family or '').lower().replace(' ', '-')}-" for agent in agents}
    short = {name: said.removeprefix(families[name]) for name, said in whole.items()}
    often = Counter(short.values())
    return {name: said if often[said] == 1 else whole[name] for name, said in short.items()}


def _panel(board: Board, metric: str, points: Sequence[Point]) -> Markup:
    human = board.human(metric)
    title = TITLES.get(metric, metric)
    drawn = scatter_plot(
        points,
        title=title,
        x_axis="parameters (log scale)",
        y_axis="nats" if metric in TITLES else "score",
        logarithmic=True,
        lines=family_lines(point for point in points if point.series != OTHER),
        band=None if human is None else Band(human.low, human.high, "human baseline", middle=human.score),
        width=PANEL,
        legend_below=False,
    )
    return words(fitted(title, PANEL - 60, 15), 58, 12, class_="panel-title") + drawn


def _caption(board: Board, metrics: Sequence[str], sized: Sequence[Agent], unsized: Sequence[str]) -> str:
    told = [*(f"{note}." for note in board.notes), "Lines connect models of one family."]
    intervals = any(s.low is not None for metric in metrics for s in board.metrics[metric].values())
    human = any(board.human(metric) for metric in metrics)
    if intervals and board.level:
        told.append(f"Bars{' and the grey band' if human else ''} are {board.level * 100:g}% intervals.")
    lacking = [name for name, there in (("intervals", intervals), ("human baseline", human)) if not there]
    if lacking:
        told.append(f"Not available: {', '.join(lacking)}.")
    guessed = sum(agent.agent in board.estimated_sizes for agent in sized)
    if guessed:
        told.append(f"Sizes of {guessed} of {len(sized)} models are estimates.")
    if unsized:
        told.append(f"Not shown, because the size is unknown: {', '.join(map(label, unsized))}.")
    return " ".join(told)


def _wrapped(text: str, wide: float, size: float = 13) -> list[str]:
    """The text in lines that fit."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) * 0.93 <= wide:
            lines[-1] += f" {word}"
        else:
            lines.append(fitted(word, wide, size))
    return lines
