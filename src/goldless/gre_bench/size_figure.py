"""The figure of a board: score by model size, one panel per metric, families connected (GEM, figure 5)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from markupsafe import Markup

from goldless.errors import UserError
from goldless.gre_bench.boards import PUBLISHED, Board, BoardScore
from goldless.gre_bench.papers import HUMAN
from goldless.records import Agent
from goldless.reports.html.charts.axis import LogScale, log_scale
from goldless.reports.html.charts.row_plots import Band
from goldless.reports.html.charts.scatter import Area, Panel, Point, scatter_panel
from goldless.reports.html.charts.svg import COLOURS, Shape, element, line, mark, picture, words
from goldless.reports.html.labels import decimals_for, fitted, label, numeral, text_width

TITLES = {"gem": "GEM", "gem-s[abstract]": "GEM-S (abstract)", "gem-s[assw]": "GEM-S (ASSW)"}
"""Metrics as the paper calls them, in its order."""
MOST_PANELS = 3
TONES = ("blue", "vermilion", "green", "purple", "ochre")
"""Grey is left to people."""
SHAPES: tuple[Shape, ...] = ("dot", "square", "diamond", "triangle", "ring", "cross")
OTHER = "no family"
LONGEST_NAME = 24
PANEL, GAP, EDGE = 404.0, 8.0, 16.0
HEIGHT = 484.0
LEFT, RIGHT, TOP, BOTTOM = 40.0, 10.0, 70.0, 430.0
"""Of the area of a panel that is drawn on."""
LINE, HEADING = 24.0, 19.0
RULE = re.compile(r"\s*([^{}]+)\{([^{}]*)\}")
VARIABLE = re.compile(r"var\(--([a-z]+)\)")
LETTERS = 13.5
"""Size of labels."""
UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
STYLE = (
    ".chart .ground{fill:var(--ground);stroke:var(--rule)}.chart .panel-title{font-size:16px;font-weight:650}"
    f".chart .heading{{font-size:{HEADING:g}px;font-weight:650}}.chart .family{{stroke-width:1.8;stroke-opacity:.5}}"
    f".chart .point-label{{font-size:{LETTERS}px}}"
    ".chart .tick,.chart .axis-title,.chart .caption{font-size:13px}.chart .caption{fill:var(--muted)}"
    ".chart .key{font-size:14px}.chart .ring{stroke-width:2.2}"
    + "".join(f".chart .point-label.{tone}{{fill:var(--{tone})}}" for tone in TONES)
)


@dataclass(frozen=True, slots=True)
class _Look:
    """Shape and colour of a family."""

    tone: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class _Sized:
    """An agent with a size."""

    agent: Agent
    parameters: float
    family: str
    name: str
    """Label of its point."""
    look: _Look


def size_figure(board: Board, *, dark: bool = False) -> str:
    """The figure as one SVG file: text as text, system fonts, a ground of its own, no script, nothing from elsewhere.

    It shows GEM, GEM-S (abstract) and GEM-S (ASSW) where the board has them, else its first three metrics. ``dark``:
    always dark; else light, and dark where the reader's screen is.
    """
    chosen = [metric for metric in TITLES if metric in board.metrics] or [*board.metrics][:MOST_PANELS]
    sized, unsized = _sized(board, chosen)
    wide = 2 * EDGE + len(chosen) * PANEL + (len(chosen) - 1) * GAP
    name = "" if board.name in PUBLISHED else f" {board.name}"
    title = label(f"GRE-bench{name}: score by model size", 200)
    headings = _wrapped(title, wide - 2 * EDGE, HEADING)
    down = LINE * (len(headings) - 1)
    across = log_scale([one.parameters for one in sized], LEFT, PANEL - RIGHT)
    panels, unnamed = [], 0
    for place, metric in enumerate(chosen):
        panel = _panel(board, metric, sized, across)
        unnamed += panel.unnamed
        panels.append(
            element("g", panel.drawn, transform=f"translate({EDGE + place * (PANEL + GAP):g} {LINE + 4 + down:g})")
        )
    has_human = any(board.human(metric) for metric in chosen)
    legend, lines = _legend(sized, wide, has_human=has_human, top=HEIGHT + down + LINE + 12)
    captions = _wrapped(_caption(board, chosen, sized, unsized, unnamed), wide - 2 * EDGE)
    top = HEIGHT + down + LINE * (1 + lines) + 22
    told = [words(text, EDGE, top + 18 * place, class_="caption") for place, text in enumerate(captions)]
    tall = top + 18 * len(captions)
    drawn = picture(
        element("style", _css(dark=dark)),
        element("rect", x=0.5, y=0.5, width=wide - 1, height=tall - 1, rx=6.0, class_="ground"),
        *(words(text, EDGE, 34 + LINE * place, class_="heading") for place, text in enumerate(headings)),
        *panels,
        legend,
        *told,
        width=wide,
        height=tall,
        title=title,
    )
    return f"{drawn}\n"


def _css(*, dark: bool) -> str:
    """The report's chart styles with colours put in: programs that know no variables show them, too."""
    css = files("goldless.reports.html").joinpath("chart.css").read_text(encoding="utf-8") + STYLE
    if dark:
        return _coloured(css, 1)
    # of the rules for a dark screen only what names a colour
    rules = ((selector, declarations.split(";")) for selector, declarations in RULE.findall(css))
    named = [(selector, [one for one in declared if "var(" in one]) for selector, declared in rules]
    changed = "".join(f"{selector}{{{';'.join(declared)}}}" for selector, declared in named if declared)
    return f"{_coloured(css, 0)}@media (prefers-color-scheme:dark){{{_coloured(changed, 1)}}}"


def _coloured(css: str, theme: int) -> str:
    return VARIABLE.sub(lambda found: COLOURS[found[1]][theme], css)


# --- agents --------------------------------------------------------------------------------------------------------


def _sized(board: Board, metrics: Sequence[str]) -> tuple[list[_Sized], list[str]]:
    """Agents with a size and a score, those of a group together; and the names of those without a size."""
    scored = {agent for metric in metrics for agent in board.models(metric)}
    agents = [agent for name, agent in board.agents.items() if name in scored]
    sized = [agent for agent in agents if agent.parameters is not None]
    if not sized:
        raise UserError(
            f"{board.name}: no agent has both a number of parameters and a score. In an edition, set parameters = 8e9 "
            "under [models.NAME] in edition.toml and score it again; in a table, fill the column parameters"
        )
    groups = list(dict.fromkeys(agent.group or "" for agent in sized))
    sized.sort(key=lambda agent: groups.index(agent.group or ""))
    looks, short = _looks(sized), _short_names(sized)
    found = [_Sized(a, a.parameters or 0.0, a.family or OTHER, short[a.agent], looks[a.family or OTHER]) for a in sized]
    return found, [agent.agent for agent in agents if agent.parameters is None]


def _looks(agents: Sequence[Agent]) -> dict[str, _Look]:
    """A shape for each family; a colour for each group where there are several, else for each family."""
    group = {agent.family or OTHER: agent.group or "" for agent in agents}
    by_group = len(set(group.values())) > 1
    kinds = list(dict.fromkeys(group[f] if by_group else f for f in group))
    looks: dict[str, _Look] = {}
    for place, family in enumerate(group):
        tone = TONES[kinds.index(group[family] if by_group else family) % len(TONES)]
        taken = {look.shape for look in looks.values() if look.tone == tone}
        turned = [*SHAPES[place % len(SHAPES) :], *SHAPES[: place % len(SHAPES)]]
        looks[family] = _Look(tone, next((shape for shape in turned if shape not in taken), turned[0]))
    return looks


def _short_names(agents: Sequence[Agent]) -> dict[str, str]:
    """Each agent's name without words that all names of its family begin with: colour and shape tell the family.

    A word stays where its name would be empty, or not the only one of its kind in the figure, without it.
    """
    families: dict[str, list[str]] = {}
    for agent in agents:
        families.setdefault(agent.family or OTHER, []).append(agent.agent)
    parts = {agent.agent: agent.agent.rsplit("/", 1)[-1].split("-") for agent in agents}
    ends = Counter("-".join(words_[place:]) for words_ in parts.values() for place in range(len(words_)))
    found: dict[str, str] = {}
    for family, names in families.items():
        shared = 0
        while family != OTHER and len(names) > 1 and all(len(parts[name]) > shared + 1 for name in names):
            if len({parts[name][shared] for name in names}) > 1:
                break
            if any(ends["-".join(parts[name][shared + 1 :])] > 1 for name in names):
                break
            shared += 1
        found |= {name: label("-".join(parts[name][shared:]), LONGEST_NAME) for name in names}
    return found


# --- a panel -------------------------------------------------------------------------------------------------------


def _panel(board: Board, metric: str, sized: Sequence[_Sized], across: LogScale) -> Panel:
    """One metric."""
    shown = [one for one in sized if one.agent.agent in board.models(metric)]
    scores = [board.metrics[metric][one.agent.agent] for one in shown]
    decimals = decimals_for([value for score in scores for value in (score.score, score.low, score.high)])
    points = [
        Point(
            label=one.name,
            x=one.parameters,
            y=score.score or 0.0,
            low=score.low,
            high=score.high,
            shape=one.look.shape,
            tone=one.look.tone,
            hint=_told(board, one, score, decimals),
            size=_size(one.look.shape),
        )
        for one, score in zip(shown, scores, strict=True)
    ]
    families: dict[str, list[Point]] = {}
    for one, point in zip(shown, points, strict=True):
        if one.family != OTHER:
            families.setdefault(one.family, []).append(point)
    human = board.human(metric)
    panel = scatter_panel(
        points,
        Area(LEFT, TOP, PANEL - RIGHT, BOTTOM, PANEL),
        across=across,
        axis=_size_axis(across),
        y_axis="nats" if metric in TITLES else "score",
        lines=[(f"family {f[0].tone}", sorted((point.x, point.y) for point in f)) for f in families.values()],
        band=None if human is None else Band(human.low, human.high, "", middle=human.score),
        letters=LETTERS,
        coloured=True,
    )
    title = words(fitted(TITLES.get(metric, metric), PANEL - LEFT, 16), LEFT, 36, class_="panel-title")
    return Panel(title + panel.drawn, panel.unnamed)


def _size(shape: Shape) -> float:
    return {"cross": 3.8, "ring": 4.4, "diamond": 4.4, "triangle": 4.8}.get(shape, 4.6)


def _size_axis(across: LogScale) -> Markup:
    ticks = across.ticks(5)
    parts = [line(across(tick), TOP, across(tick), BOTTOM, "grid") for tick in ticks]
    parts += [words(_parameters(tick), across(tick), BOTTOM + 19, class_="tick", anchor="middle") for tick in ticks]
    middle = (across.begin + across.end) / 2
    parts.append(words("parameters (log scale)", middle, BOTTOM + 40, class_="axis-title", anchor="middle"))
    return Markup("").join(parts)


def _parameters(number: float) -> str:
    """A number of parameters as models are named by: 8B, 1.5B, 2T."""
    for size, letter in UNITS:
        if number >= size * 0.9995:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def _told(board: Board, one: _Sized, score: BoardScore, decimals: int) -> str:
    about = "about " * (one.agent.agent in board.estimated_sizes)
    text = f"{one.agent.agent} ({one.family}): {about}{_parameters(one.parameters)} parameters, "
    text += numeral(score.score, decimals)
    if score.low is not None and score.high is not None:
        text += f" ({numeral(score.low, decimals)} to {numeral(score.high, decimals)})"
    return text


# --- below the panels ----------------------------------------------------------------------------------------------


def _legend(sized: Sequence[_Sized], wide: float, *, has_human: bool, top: float) -> tuple[Markup, int]:
    """Families with their marks, and how many lines they need."""
    parts: list[Markup] = []
    x, row = EDGE + LEFT, 0
    looks: Mapping[str, _Look | None] = {one.family: one.look for one in sized}
    for family, look in {**looks, **({HUMAN: None} if has_human else {})}.items():
        text = fitted(family if look is not None else "human baseline", 200, 14)
        needed = 18 + text_width(text, 14) * 0.93
        if x + needed > wide - EDGE and x > EDGE + LEFT:
            x, row = EDGE + LEFT, row + 1
        y = top + LINE * row
        if look is None:
            parts += [
                element("rect", x=x - 2, y=y - 5, width=14.0, height=10.0, class_="band"),
                line(x - 2, y, x + 12, y, "band-line"),
            ]
        else:
            parts.append(mark(look.shape, x + 5, y, look.tone, size=_size(look.shape) + 0.4))
        parts.append(words(text, x + 17, y + 4.5, class_="key"))
        x += needed + 20
    return Markup("").join(parts), row + 1


def _caption(
    board: Board, metrics: Sequence[str], sized: Sequence[_Sized], unsized: Sequence[str], unnamed: int
) -> str:
    told = ["Lines connect models of one family."]
    intervals = any(s.low is not None for metric in metrics for s in board.metrics[metric].values())
    human = any(board.human(metric) for metric in metrics)
    if intervals and board.level:
        told.append(f"Bars{' and the grey band' if human else ''} are {board.level * 100:g}% intervals.")
    lacking = [name for name, there in (("intervals", intervals), ("human baseline", human)) if not there]
    if lacking:
        told.append(f"Not available: {', '.join(lacking)}.")
    guessed = sum(one.agent.agent in board.estimated_sizes for one in sized)
    if guessed:
        told.append(f"Sizes of {guessed} of {len(sized)} models are estimates.")
    if unsized:
        told.append(f"Not shown, because the size is unknown: {', '.join(map(label, unsized))}.")
    if unnamed:
        told.append(f"{unnamed} labels are left out for lack of space.")
    return " ".join([*(f"{note}." for note in board.notes), *told])


def _wrapped(text: str, wide: float, size: float = 13) -> list[str]:
    """The text in lines that fit."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) * 0.93 <= wide:
            lines[-1] += f" {word}"
        else:
            lines.append(fitted(word, wide, size))
    return lines
