"""The tables of agreement with people: judges, correlations, the human ceiling, and who agrees more than whom."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

Data = Mapping[str, Any]
SHOWN = {"spearman": "Spearman", "kendall_tau_b": "tau-b", "kendall_tau_a": "tau-a"}
OVER = {"tasks": "tasks", "responses": "all", "agents": "agents"}
LEAST_WIDTH = 12
"""Of a column of words, where they need it: the rest is folded."""
MANY = 20
"""More comparisons than this are shown for the best judge only."""


@dataclass(frozen=True, slots=True)
class AgreementTable:
    """Cells with a heading."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1
    """How many columns hold words."""

    def to_rich(self) -> Table:
        """A table for the terminal."""
        table = Table(
            title=Text(self.title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
        )
        for i, name in enumerate(self.header):
            words = i < self.left
            longest = max([len(name), *(len(row[i]) for row in self.rows)])
            least = min(LEAST_WIDTH, longest) if words else longest
            table.add_column(
                name, justify="left" if words else "right", no_wrap=not words, overflow="fold", min_width=least
            )
        for row in self.rows:
            # a name may hold what a terminal takes for a command
            table.add_row(*(Text("".join(ch for ch in cell if ch.isprintable())) for cell in row))
        return table

    def to_markdown(self) -> str:
        """A Markdown table under its heading."""
        lines: Sequence[Sequence[str]] = [self.header, ("---",) * len(self.header), *self.rows]
        cells = ["| " + " | ".join(map(_markdown_cell, line)) + " |" for line in lines]
        return "\n".join([f"**{_markdown_cell(self.title)}**", "", *cells, ""])


def judge_table(data: Data, name: str, level: float) -> AgreementTable:
    """One row a judge: its accuracy on the pairs that people decided."""
    labels = data["labels"]
    interval = f"{level * 100:g}% interval"
    rows = []
    for judge in data["judges"]:
        found = judge["accuracy"]
        rows.append(
            (
                judge["name"],
                _number(found["accuracy"]),
                _ends(found),
                str(found["used"]),
                f"{found['missing']}/{found['asked']}",
                str(found["tied"]),
            )
        )
    title = (
        f"Agreement with people{name}: {labels['decided']} of {labels['pairs']} pairs decided "
        f"({labels['tied']} tied), {labels['raters']} rater{'s' * (labels['raters'] != 1)}"
    )
    return AgreementTable(title, ("judge", "accuracy", interval, "pairs", "missing", "ties"), tuple(rows))


def correlation_table(data: Data, name: str, level: float) -> AgreementTable:
    """One row a judge and what a correlation is over."""
    rows = []
    for judge in data["judges"]:
        for i, over in enumerate(OVER):
            cells = []
            for coefficient in SHOWN:
                found = _coefficient(judge, coefficient, over)
                cells += ["-", ""] if found is None else [_short(found["value"]), _short_ends(found)]
            rows.append((judge["name"] if i == 0 else "", OVER[over], *cells))
    interval = f"{level * 100:g}%"
    header = ("judge", "over", *(cell for shown in SHOWN.values() for cell in (shown, interval)))
    title = (
        f"Rank correlations with the raters' medians{name}: mean over tasks, over all responses, over the agents' means"
    )
    return AgreementTable(title, header, tuple(rows), left=2)


def ceiling_table(data: Data, name: str, level: float) -> AgreementTable:
    """What people agree with each other on."""
    ceiling = data["ceiling"]
    header = ("people", "accuracy", f"{level * 100:g}% interval", "pairs", "Spearman", f"{level * 100:g}% interval")
    if ceiling["alpha"] is None:
        return AgreementTable(f"Human ceiling{name}: {ceiling['note']}", header, ())
    alpha = ceiling["alpha"]
    what = "responses" if ceiling["source"] == "ratings" else "pairs"
    shown = "not defined" if alpha["alpha"] is None else f"{alpha['alpha']:.3f}"
    ends = f" ({_ends(alpha)})" if alpha["low"] is not None else ""
    title = (
        f"Human ceiling{name}: Krippendorff's alpha ({alpha['measurement']}) {shown}{ends}, "
        f"{alpha['n_values']} {ceiling['source']} of {alpha['n_units']} {what}"
    )
    rows = [_person("a rater, the rest", ceiling)] + [_person(one["rater"], one) for one in ceiling["raters"]]
    return AgreementTable(title, header, tuple(rows))


def comparison_table(data: Data, name: str, level: float) -> AgreementTable:
    """One row for each two judges and statistic; where they are many, the most accurate judge against the others."""
    shown, best = data["comparisons"], ""
    if len(shown) > MANY:
        known = [judge for judge in data["judges"] if judge["accuracy"]["accuracy"] is not None]
        first = max(known, key=lambda judge: float(judge["accuracy"]["accuracy"]), default=data["judges"][0])["name"]
        best = f"; {first}, the most accurate, only: all are in the CSV and JSON"
        shown = [one for one in shown if first in {one["first"], one["second"]}]
    rows = tuple(
        (
            one["statistic"],
            one["first"],
            one["second"],
            _signed(one["difference"]),
            "" if one["low"] is None else f"{one['low']:.3f}…{one['high']:.3f}",
            "-" if one["p"] is None else f"{one['p']:.2g}",
            "-" if one["p_holm"] is None else f"{one['p_holm']:.2g}",
            str(one["n"]),
        )
        for one in shown
    )
    header = ("of", "first", "second", "diff", f"{level * 100:g}% interval", "p", "Holm", "n")
    return AgreementTable(f"First less second, on what both judged{name}{best}", header, rows, left=3)


def _person(name: str, found: Data) -> tuple[str, ...]:
    share, spearman = found["accuracy"], found["spearman"]
    return (
        name,
        _number(None if share is None else share["value"]),
        "" if share is None else _ends(share),
        "-" if share is None else str(share["n"]),
        _number(None if spearman is None else spearman["mean"]),
        "" if spearman is None else _ends(spearman),
    )


def _coefficient(judge: Data, coefficient: str, over: str) -> Data | None:
    found = (c for c in judge["correlations"] if (c["coefficient"], c["over"]) == (coefficient, over))
    return next(found, None)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _short_ends(found: Data) -> str:
    return "" if found["low"] is None else f"{found['low']:.2f}…{found['high']:.2f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


def _ends(found: Data) -> str:
    return "" if found["low"] is None else f"{found['low']:.3f} … {found['high']:.3f}"


def _markdown_cell(text: str) -> str:
    """The text on one line, its bars and HTML taken literally."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|")
