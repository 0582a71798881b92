"""The peer graph as a circle: agents around it, a line between two that predict each other more than expected."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from goldless.reports.html.charts.svg import WIDTH, element, hint, mark, picture, words
from goldless.reports.html.labels import fitted

LABEL_ROOM = 170.0
MOST_AGENTS = 60
"""Beyond it names would cover each other."""


def peer_circle(
    names: Sequence[str],
    links: Sequence[tuple[str, str, float, str]],
    blocks: Mapping[str, int],
    *,
    title: str,
    width: float = WIDTH,
) -> Markup:
    """The circle. A link has two names, its weight from 0 to 1 and a hint; a name with a block is drawn as an alarm."""
    radius = min(0.5 * width - LABEL_ROOM, 30.0 + 7.0 * len(names), 190.0)
    middle, height = width / 2, 2 * radius + 60
    angle = {name: 2 * math.pi * place / len(names) - math.pi / 2 for place, name in enumerate(names)}
    at = {name: (middle + radius * math.cos(a), height / 2 + radius * math.sin(a)) for name, a in angle.items()}
    parts = []
    for first, second, weight, said in links:
        (x1, y1), (x2, y2) = at[first], at[second]
        alarm = first in blocks and blocks[first] == blocks.get(second)
        class_, wide = f"link {'vermilion' if alarm else 'blue'}", 1 + 4 * weight
        parts.append(element("line", hint(said), x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, stroke_width=wide))
    for name, (x, y) in at.items():
        right = math.cos(angle[name]) >= -1e-9
        parts.append(mark(*(("square", x, y, "vermilion") if name in blocks else ("dot", x, y, "blue")), hint(name)))
        label = fitted(name, LABEL_ROOM - 20)
        parts.append(words(label, x + (9 if right else -9), y + 4, class_="label", anchor="start" if right else "end"))
    return picture(*parts, width=width, height=height, title=title)
