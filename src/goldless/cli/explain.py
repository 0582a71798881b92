"""``goldless explain``: which sentence of one response makes which sentence of another predictable."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

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
SHADES = {
    "bright_white on red": "below -2 nats",
    "red": "below -0.5",
    "": "near 0",
    "green": "above +0.5",
    "bright_white on green": "above +2",
}
"""Colours and name of each step: misleading red, informative green."""
BAR = 8
"""Characters of the longest bar."""


@dataclass(frozen=True, kw_only=True)
class Explaining:
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
    from goldless.runs.explaining import explain_pair

    return await explain_pair(study, options, **values(own))


@explain.told
def _tell(found: InformationMap, output: Output) -> None:
    shown = sentence_table(found)
    output.print_tables([shown], lambda: asdict(found), rich=lambda: print_map(found, shown, output))


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


def print_map(found: InformationMap, shown: ReportTable, output: Output) -> None:
    """Print the map on standard output: the peer's sentences with coloured tokens, then the candidate's."""
    agent, peer = printable(found.agent), printable(found.peer)
    rows: dict[str, list[dict[str, Cell]]] = {"peer": [], "candidate": []}
    for row in shown.rows:
        rows[str(row["side"])].append(dict(row))
    out().print(Text(printable(shown.title), "bold"), end="\n\n")
    coloured = [_coloured(found, sentence) for sentence in found.peer_sentences]
    _print_sentences(f"{peer} (P): how much likelier each sentence became", rows["peer"], coloured)
    legend = Text("a token's gain: ", "dim")
    for style, name in SHADES.items():
        legend.append(f" {name} ", style).append(" ")
    out().print(legend)
    if found.end_gain_nats is not None:
        end = f"({found.end_gain_nats:+.2f})"
        out().print(Text(f"The sentences and the end of the response {end} sum to the total.", "dim"))
    out().print()
    texts = [Text(printable(sentence.text)) for sentence in found.candidate_sentences]
    _print_sentences(f"{agent} (C): what is lost without each sentence", rows["candidate"], texts)
    out().print(
        Text("Losses need not sum to the total: what two sentences both say is not lost with either alone.", "dim")
    )
    if output.with_details:
        out().print(f"\n{printable(found.signature)}", markup=False, soft_wrap=True, style="dim")


def _print_sentences(title: str, rows: Sequence[dict[str, Cell]], texts: Iterable[Text]) -> None:
    """A row per sentence: its name, value and text, a bar that is long for large values of either sign."""
    table = simple_table(title)
    for heading, more in {"": {}, "nats": {"justify": "right"}, " ": {}}.items():
        table.add_column(heading.strip(), no_wrap=True, **more)  # type: ignore[arg-type]
    table.add_column("sentence", overflow="fold", ratio=1)
    helping = any(row["side"] == "candidate" for row in rows)
    if helping:
        table.add_column("helps most", no_wrap=True)
    nats: list[float] = [row["nats"] for row in rows]  # type: ignore[misc]
    largest = max(map(abs, nats), default=0.0) or 1.0
    for row, value, text in zip(rows, nats, texts, strict=True):
        bar = Text("▇" * round(abs(value) / largest * BAR), "green" if value > 0 else "red")
        helped = f"→ {row['helps']} {row['helps_nats']:+.2f}" if "helps" in row else "-"
        table.add_row(str(row["sentence"]), f"{value:+.2f}", bar, text, *[helped] * helping)
    out().print(table)


def _coloured(found: InformationMap, sentence: PeerSentence) -> Text:
    """The sentence, each token in the colours of its gain."""
    shown = Text()
    for token in found.tokens:
        start, end = max(token.start, sentence.start), min(token.end, sentence.end)
        if start < end:
            part = printable(found.peer_text[start:end])
            word = part.lstrip()
            shown.append(part[: len(part) - len(word)])
            shown.append(word, list(SHADES)[bisect(LIMITS_NATS, token.gain_nats)])
    return shown
