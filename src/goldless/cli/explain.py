"""``goldless explain``: which sentence of one response makes which sentence of another predictable."""

from __future__ import annotations

import functools
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from rich.table import Table
from rich.text import Text

from goldless.cli.command import same, verb
from goldless.cli.console import out
from goldless.cli.output import Output
from goldless.reports.formats import printable, simple_table
from goldless.reports.report_table import Cell, Column, ReportTable
from goldless.runs.option_forms import REQUIRED, TEXT, option, values
from goldless.runs.options import CALLING, Options

if TYPE_CHECKING:
    from goldless.metrics.information_map import InformationMap, PeerSentence
    from goldless.studies import Study

LIMITS_NATS = (-2.0, -0.5, 0.5, 2.0)
"""Gains of a token at which its colours change."""
SHADES = (
    ("bright_white on red", "below -2 nats"),
    ("red", "below -0.5"),
    ("", "near 0"),
    ("green", "above +0.5"),
    ("bright_white on green", "above +2"),
)
"""Colours and name of each step: misleading red, informative green."""
BAR = 8
"""Characters of the longest bar."""


@dataclass(frozen=True, kw_only=True)
class Explaining:
    """Options of ``explain``."""

    task: str = option(REQUIRED, "Task that both agents answered.", "NAME")
    agent: str = option(REQUIRED, "Agent whose response is given.", "NAME")
    peer: str = option(REQUIRED, "Agent whose response is predicted.", "NAME")
    template: str = same(
        "templates", "general", "Prompt wording: general, plain, peer-review, or FILE.toml.", form=TEXT
    )
    synopsis: str | None = option(
        None, "Text of the task that is given as well: prompt, abstract, or any text column.", "COLUMN", group=None
    )
    text: Literal["responses", "rewrites"] = option("responses", "Explain the responses, or their recorded rewrites.")


@verb("scorer", "journal", *CALLING, first=("task", "agent", "peer", "scorer", "template", "synopsis", "text"))
async def explain(study: Study, own: Explaining, options: Options) -> InformationMap:
    """Show which sentence of one response makes which sentence of another more predictable.

    Example:
      goldless explain answers.csv --task refund --agent careful --peer brief
    """
    from goldless.runs.explaining import ExplainOptions, explain_pair

    asked = ExplainOptions(
        **values(own),
        **options.some("scorer", "journal", *CALLING, "say"),
    )
    return await explain_pair(study, asked)


@explain.told
def _tell(found: InformationMap, output: Output) -> None:
    printed = functools.partial(print_map, found, details=output.with_details)
    output.print_tables([sentence_table(found)], lambda: asdict(found), rich=printed)


def sentence_table(found: InformationMap) -> ReportTable:
    """The peer's sentences with what each gained, then the candidate's with what is lost without each."""
    columns = (
        Column("side", "whose", wide=True),
        Column("agent", "agent", wide=True),
        Column("sentence", ""),
        Column("nats", "nats", "signed", decimals=2),
        Column("helps", "helps most", absent=""),
        Column("helps_nats", "nats", "signed", "", 2),
        Column("text", "text"),
    )
    rows: list[dict[str, Cell]] = []
    for number, told in enumerate(found.peer_sentences, 1):
        row: dict[str, Cell] = {"side": "peer", "agent": found.peer, "sentence": f"P{number}"}
        rows.append(row | {"nats": told.gain_nats, "text": told.text})
    for number, telling in enumerate(found.candidate_sentences):
        row = {"side": "candidate", "agent": found.agent, "sentence": f"C{number + 1}", "text": telling.text}
        best = found.helps_most(number)
        if best is not None:
            row |= {"helps": f"P{best + 1}", "helps_nats": found.matrix_nats[number][best]}
        rows.append(row | {"nats": telling.contribution_nats})
    told_nats = (
        f"{found.task}: the response of {found.agent} gives {found.total_nats:+.2f} nats about that of {found.peer}"
    )
    notes = ("P: how much likelier a sentence of the peer became. C: what is lost without a sentence of the agent.",)
    return ReportTable(told_nats, columns, tuple(rows), found.signature, notes)


def print_map(found: InformationMap, *, details: bool = False) -> None:
    """Print the map on standard output: the peer's sentences, then the candidate's."""
    agent, peer, task = map(printable, (found.agent, found.peer, found.task))
    out().print(
        Text(f"{task}: the response of {agent} gives {found.total_nats:+.2f} nats about that of {peer}", "bold")
    )
    out().print()
    out().print(_peer_table(found, f"{peer} (P): how much likelier each sentence became"))
    out().print(_legend())
    if found.end_gain_nats is not None:
        out().print(
            Text(f"The sentences and the end of the response ({found.end_gain_nats:+.2f}) sum to the total.", "dim")
        )
    out().print()
    out().print(_candidate_table(found, f"{agent} (C): what is lost without each sentence"))
    out().print(
        Text("Losses need not sum to the total: what two sentences both say is not lost with either alone.", "dim")
    )
    if details:
        out().print()
        out().print(printable(found.signature), markup=False, soft_wrap=True, style="dim")


def _peer_table(found: InformationMap, title: str) -> Table:
    table = _table(title)
    gains = [sentence.gain_nats for sentence in found.peer_sentences]
    for number, sentence in enumerate(found.peer_sentences, 1):
        cells = _number_cells(f"P{number}", sentence.gain_nats, gains)
        table.add_row(*cells, _coloured(found, sentence))
    return table


def _candidate_table(found: InformationMap, title: str) -> Table:
    table = _table(title)
    table.add_column("helps most", no_wrap=True)
    contributions = [sentence.contribution_nats for sentence in found.candidate_sentences]
    for number, sentence in enumerate(found.candidate_sentences):
        cells = _number_cells(f"C{number + 1}", sentence.contribution_nats, contributions)
        best = found.helps_most(number)
        helped = "-" if best is None else f"→ P{best + 1} {found.matrix_nats[number][best]:+.2f}"
        table.add_row(*cells, Text(printable(sentence.text)), Text(helped))
    return table


def _table(title: str) -> Table:
    table = simple_table(title)
    table.add_column("", no_wrap=True)
    table.add_column("nats", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("sentence", overflow="fold", ratio=1)
    return table


def _number_cells(name: str, value: float, all_values: Sequence[float]) -> Iterable[Text]:
    """Name, value and a bar that is long for large values of either sign."""
    largest = max(map(abs, all_values)) or 1.0
    length = round(abs(value) / largest * BAR)
    return Text(name), Text(f"{value:+.2f}"), Text("▇" * length, "green" if value > 0 else "red")


def _coloured(found: InformationMap, sentence: PeerSentence) -> Text:
    """The sentence, each token in the colours of its gain."""
    shown = Text()
    for token in found.tokens:
        start, end = max(token.start, sentence.start), min(token.end, sentence.end)
        if start < end:
            part = printable(found.peer_text[start:end])
            word = part.lstrip()
            shown.append(part[: len(part) - len(word)])
            shown.append(word, _shade(token.gain_nats))
    return shown


def _shade(gain_nats: float) -> str:
    """The colours of a gain."""
    return SHADES[bisect(LIMITS_NATS, gain_nats)][0]


def _legend() -> Text:
    shown = Text("a token's gain: ", "dim")
    for style, name in SHADES:
        shown.append(f" {name} ", style)
        shown.append(" ")
    return shown
