"""A verb's output: tables on standard output in the requested format, results in a folder, notes."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from goldless.cli.console import ProgressBars, echo, incomplete, out, say
from goldless.cli.signals import before_ending, run_async
from goldless.reports.findings import Said, in_text

if TYPE_CHECKING:
    from goldless.reports.leaderboard import Leaderboard, RaterScores
    from goldless.reports.report_table import ReportTable
    from goldless.reports.run_record import BoardSoFar
    from goldless.runs.opening import Spending
    from goldless.runs.options import Options
    from goldless.runs.progress import Progress, Tell
    from goldless.studies import Study

Format = Literal["rich", "markdown", "csv", "json", "latex"]


@dataclass(frozen=True, slots=True)
class Output:
    """Where a verb's result goes, and how it is shown."""

    shown_as: Format = "rich"
    folder: Path | None = None
    """For results and evidence; None: nothing is written."""
    verbose: bool = False
    signatures: bool = False
    """Whether signatures are printed in full."""

    @property
    def with_details(self) -> bool:
        """Whether signatures and numeric details are printed: where asked for, and where a run is kept."""
        return self.verbose or self.folder is not None

    def run(self, verb: Any, study: Any, own: Any, options: Options) -> tuple[Any, Study | None]:
        """The result of a verb and the study that it was given, with a bar for every stage on standard error.

        A folder for results is checked first, and keeps the progress in a file.
        """
        from goldless.runs.progress import ProgressFile
        from goldless.runs.store import check_writable
        from goldless.studies import as_study

        source = None if study is None else as_study(study)
        if source is not None and source.samples and not verb.averages_samples:
            say("warning: several samples of an agent count as several agents here; goldless score averages them")
        if not inspect.iscoroutinefunction(verb.work):
            return verb.begin(source, own, options), source
        with ExitStack() as stack:
            bars = stack.enter_context(ProgressBars())
            tell: Callable[[Progress], None] = bars
            listeners: list[Tell] = [bars.so_far]
            if self.folder is not None:
                check_writable(self.folder, source, replaces_evidence=verb.keeps_evidence)
                progress = ProgressFile(self.folder, verb.__name__, tell)
                stack.callback(before_ending(progress.interrupt))  # until the end is recorded
                stack.push(progress)  # before it begins: a signal in between must not leave it running
                tell = progress.__enter__()
                listeners.append(progress.so_far)

            def so_far(boards: Sequence[BoardSoFar]) -> None:
                for listener in listeners:
                    listener(boards)

            options = replace(options, progress=tell, say=say, so_far=so_far if verb.keeps_evidence else None)
            return run_async(verb.begin, source, own, options), source

    def keep(
        self,
        study: Study | None,
        verb: str,
        result: object,
        markdown: Callable[[], str],
        *,
        name: str | None = None,
        spending: Sequence[Spending] = (),
    ) -> None:
        """Write a result beside others of the study, if there is a folder for it."""
        if self.folder is not None:
            from goldless.reports.document import write
            from goldless.runs.store import save_result

            text, data = markdown(), write(result)
            save_result(study, self.folder, verb=verb, name=name or verb, data=data, markdown=text, spending=spending)

    def tell_folder(self, holds: str = "result") -> None:
        """Report where results were written, and where their report is."""
        if self.folder is not None:
            from goldless.runs.store import report_of

            say(f"{holds}: {self.folder}")
            say(f"report: {report_of(self.folder)}")

    def show(self, result: Any, *, below: Sequence[str] = (), **more: Any) -> None:
        """Print a result: its sentences and tables, or its plain data; the options are those of ``print_tables``."""
        from goldless.reports.document import write

        shown: dict[str, Any] = {
            "csv": getattr(result, "to_csv", None),
            "markdown": getattr(result, "to_markdown", None),
            "findings": result.findings() if hasattr(result, "findings") else (),
        }
        tables = result.tables() if hasattr(result, "tables") else [result.table()]
        as_json = getattr(result, "as_json", None) or functools.partial(write, result)
        self.print_tables(tables, as_json, below=below, **shown | more)

    def print_tables(
        self,
        tables: Sequence[ReportTable],
        as_json: Callable[[], object],
        *,
        csv: Callable[[], str] | None = None,
        markdown: Callable[[], str] | None = None,
        rich: Callable[[], None] | None = None,
        signatures: Sequence[str] = (),
        below: Sequence[str] = (),
        findings: Iterable[Said] = (),
    ) -> None:
        """Print tables.

        ``as_json``: the plain data behind them. ``csv``, ``markdown``, ``rich``: replace the tables in a format.
        ``signatures``: of the tables' evidence; without them each table's own is printed below it. On a terminal,
        ``findings`` are sentences above the tables, ``below`` notes under them.
        """
        if self.shown_as == "json":
            text = json.dumps(as_json(), ensure_ascii=False, indent=2, allow_nan=False)
            echo(re.sub(r"[^\n -~]", _escaped, text) + "\n")
        elif self.shown_as == "csv":
            echo("\n".join(table.to_csv() for table in tables) if csv is None else csv())
        elif self.shown_as == "markdown":
            echo(("\n".join(table.to_markdown() for table in tables) if markdown is None else markdown()) + "\n")
        elif self.shown_as == "latex":
            echo("\n".join(_latex(tables, signatures)))
        else:
            print_findings(findings)
            if rich is not None:
                rich()
            else:
                self._print_rich(tables, signatures, below)

    def print_signature(self, *lines: str) -> None:
        """Print signatures, each on one line unless all of it is asked for; nothing where no details are wanted."""
        for line in lines if self.with_details or self.signatures else ():
            shown = line if self.signatures else folded_signature(line, out().width)
            out().print(shown, markup=False, soft_wrap=True, style="dim")

    def _print_rich(self, tables: Sequence[ReportTable], signatures: Sequence[str], below: Sequence[str]) -> None:
        for i, table in enumerate(tables, 1):
            print_whole(table)
            # notes that several tables share are printed below the last of them
            notes = [line for line in table.notes if all(line not in other.notes for other in tables[i:])]
            later = any(table.signature == other.signature for other in tables[i:])
            own = table.signature.split(" || ") if table.signature and not (signatures or later) else []
            for line in notes:
                out().print(line, markup=False, soft_wrap=True)
            self.print_signature(*own)
            if (notes or own) and tables[i:]:
                out().print()
        for line in below:
            out().print(line, markup=False, style="dim")
        self.print_signature(*signatures)


def plain_table(title: str, rows: Sequence[Mapping[str, Any]], **headings: str) -> ReportTable:
    """A table of texts, with the columns of these headings; what is absent is left empty."""
    from goldless.reports.report_table import Column, ReportTable

    return ReportTable(title, tuple(Column(name, said, absent="") for name, said in headings.items()), tuple(rows))


def tell_result(found: Any, output: Output) -> None:
    """Show a result, what it says beside its tables, and what it cost; exit with 3 if the same command resumes it."""
    output.show(found)
    for warning in getattr(found, "warnings", ()):
        say(f"warning: {warning}", style="yellow")
    tell_spending(getattr(found, "spending", ()))
    if open_calls := getattr(found, "open", 0):
        incomplete(f"{open_calls} calls are open")


def tell_spending(rows: Iterable[Spending]) -> None:
    """Report the calls of each model, and what they cost."""
    for row in rows:
        cost = ", price unknown" if row.cost_usd is None else f", {row.cost_usd:.4f} USD" * bool(row.cost_usd)
        tokens = row.usage.input_tokens + row.usage.output_tokens
        guessed = f", estimated for {row.estimated} of them" if row.estimated else ""
        before = f" (the result cost {row.result_usd:.4f} USD in all)" if row.reused and row.result_usd else ""
        made = f"{row.calls} call{'s' * (row.calls != 1)} now ({tokens:,} tokens{cost}{guessed})"
        say(f"{row.model}: {made}, {row.reused} from the journal{before}")


def _escaped(character: re.Match[str]) -> str:
    """A character of a JSON text; one that a terminal would obey is escaped, which leaves the JSON the same."""
    return character[0] if character[0].isprintable() else json.dumps(character[0])[1:-1]


def _latex(tables: Sequence[ReportTable], signatures: Sequence[str]) -> Iterator[str]:
    """Required packages and signatures, then the tables."""
    from goldless.reports.formats import NEEDS, latex_comment

    others = [line for line in signatures if line not in {table.signature for table in tables}]
    yield "".join(f"{line}\n" for line in (NEEDS, *map(latex_comment, others)))
    for table in tables:
        yield table.to_latex()


def print_whole(table: ReportTable | Leaderboard | RaterScores, **more: Any) -> None:
    """Print a table so that nothing is cut off, in several parts if the terminal is narrow."""
    for part in table.to_rich(out().width, **more):
        # a single name may be wider than the terminal, which then breaks the line
        out().print(part, crop=False, no_wrap=True, overflow="ignore", soft_wrap=True)


def print_findings(findings: Iterable[Said]) -> None:
    """Print sentences above the tables."""
    said = [in_text(one) for one in findings]
    for line in said:
        out().print(line, markup=False)
    if said:
        out().print()


def folded_signature(line: str, width: int) -> str:
    """The signature on one line: its beginning, and how to see the rest."""
    rest = "… (--signature for all)"
    return line if len(line) <= width else line[: max(20, width - len(rest))] + rest
