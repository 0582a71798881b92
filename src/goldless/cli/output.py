"""A verb's output: tables on standard output in the requested format, results in a folder, notes, the cost."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from goldless.cli.console import ProgressBars, before_ending, echo, incomplete, out, run_async, say
from goldless.reports.findings import Said, in_text
from goldless.runs.option_forms import option

if TYPE_CHECKING:
    from goldless.reports.document import Result
    from goldless.reports.leaderboard import Leaderboard, RaterScores
    from goldless.reports.report_table import ReportTable
    from goldless.reports.run_record import BoardSoFar
    from goldless.runs.opening import Spending
    from goldless.runs.progress import Progress, Tell
    from goldless.studies import Study

OUTPUT = "Output"
RESULT_FOLDER = "Write the result to this folder, beside other results of the study."


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where a verb's result goes, and how it is shown; its fields are options of every verb that prints."""

    folder: Path | None = option(None, RESULT_FOLDER, "--out FOLDER", group=OUTPUT)
    shown_as: Literal["rich", "markdown", "csv", "json", "latex"] = option(
        "rich", "Print rich, markdown, csv, json or latex.", "--format FORMAT"
    )
    verbose: bool = option(
        False, "Also print numeric details and signatures: how exactly each number was made.", "--verbose -v"
    )

    @property
    def with_details(self) -> bool:
        """True if signatures and numeric details are printed: where asked for, and where a run is kept."""
        return self.verbose or self.folder is not None

    def run(self, verb: Any, given: Mapping[str, Any]) -> Any:
        """The result of a verb, with a bar for every stage on standard error; ``given``: what it may take.

        A folder for results is checked first, and keeps the progress in a file.
        """
        study = given["study"]
        if study is not None and study.samples and not verb.averages_samples:
            say("warning: several samples of an agent count as several agents here; goldless score averages them")
        if not inspect.iscoroutinefunction(verb.work):
            return verb.begin(**given)
        from goldless.runs.progress import ProgressFile
        from goldless.runs.store import check_writable

        with ExitStack() as stack:
            bars = stack.enter_context(ProgressBars())
            tell: Callable[[Progress], None] = bars
            listeners: list[Tell] = [bars.so_far]
            if self.folder is not None:
                check_writable(self.folder, study, replaces_evidence=verb.keeps_evidence)
                progress = ProgressFile(self.folder, verb.__name__, tell)
                stack.callback(before_ending(progress.interrupt))  # until the end is recorded
                stack.push(progress)  # before it begins: a signal in between must not leave it running
                tell = progress.__enter__()
                listeners.append(progress.so_far)

            def so_far(boards: Sequence[BoardSoFar]) -> None:
                for listener in listeners:
                    listener(boards)

            heard = so_far if verb.keeps_evidence else None
            options = replace(given["options"], progress=tell, say=say, so_far=heard)
            return run_async(functools.partial(verb.begin, **{**given, "options": options}))

    def keep(self, source: Study | None, verb: str, name: str, result: Result) -> None:
        """Write a result beside others of the study, if there is a folder for it."""
        if self.folder is not None:
            from goldless.reports.document import write
            from goldless.runs.store import save_result

            save_result(
                source,
                self.folder,
                verb=verb,
                name=name,
                data=write(result),
                markdown=result.to_markdown(),
                spending=result.spending,
            )

    def tell(self, result: Result, *, holds: str = "result", notes: Iterable[str] = (), **shown: Any) -> None:
        """Show a result, its warnings and notes, its cost and its folder; exit with 3 where calls are open.

        ``holds``: what is in the folder; ``notes``: besides the result's own; ``shown``: as ``show`` says.
        """
        self.tell_warnings(result)
        self.show(result, **shown)
        self.tell_end(result, holds=holds, notes=notes)

    def tell_warnings(self, result: Result) -> None:
        """Report on standard error what a reader of the tables must know first."""
        if result.open and result.asked:
            calls = f"{result.asked - result.open} of {result.asked}"
            say(f"INCOMPLETE: this covers {calls} calls", style="yellow")
        for warning in result.warnings:
            say(f"warning: {warning}", style="yellow")

    def tell_end(self, result: Result, *, holds: str = "result", notes: Iterable[str] = ()) -> None:
        """Report notes, what was spent and where results are; exit with 3 where calls are open."""
        for note in dict.fromkeys((*result.notes, *notes)):
            say(note, style="yellow")
        tell_spending(result.spending)
        self.tell_folder(holds)
        if result.open:
            calls = f"{result.asked - result.open} of {result.asked}"
            incomplete(calls if result.asked else f"{result.open} calls are open")

    def tell_folder(self, holds: str = "result") -> None:
        """Report where results were written, and where their report is."""
        if self.folder is not None:
            from goldless.runs.store import report_of

            say(f"{holds}: {self.folder}")
            say(f"report: {report_of(self.folder)}")

    def show(self, result: Result, *, tables: Sequence[ReportTable] | None = None, last: str = "", **more: Any) -> None:
        """Print a result: its sentences and tables, or its plain data, and on a terminal a last text.

        ``tables``: instead of its own; ``more``: as ``print_tables`` says.
        """
        from goldless.reports.document import write

        on_terminal = self.shown_as == "rich"
        if tables is None:
            tables = result.terminal_tables(details=self.verbose) if on_terminal else result.tables()
        texts: dict[str, Any] = {"csv": result.to_csv, "markdown": result.to_markdown, "findings": result.sentences()}
        self.print_tables(tables, functools.partial(write, result), **texts | more)
        if last and on_terminal:
            out().print(last, markup=False)

    def print_tables(
        self,
        tables: Sequence[ReportTable],
        as_json: Callable[[], object],
        *,
        csv: Callable[[], str] | None = None,
        markdown: Callable[[], str] | None = None,
        signatures: Sequence[str] = (),
        below: Sequence[str] = (),
        findings: Iterable[Said] = (),
    ) -> None:
        """Print tables.

        ``as_json``: the plain data behind them. ``csv``, ``markdown``: replace the tables in a format.
        ``signatures``: of the tables' evidence; without them each table's own is printed below it. On a terminal,
        ``findings`` are sentences above the tables, ``below`` notes under them.
        """
        if self.shown_as == "json":
            foreign = (sys.stdout.encoding or "").lower() not in {"utf-8", "utf8"}
            text = json.dumps(as_json(), ensure_ascii=foreign, indent=2, allow_nan=False)
            # a character that a terminal would obey is escaped, which leaves the JSON the same
            echo("".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text) + "\n")
        elif self.shown_as == "csv":
            echo("\n".join(table.to_csv() for table in tables) if csv is None else csv())
        elif self.shown_as == "markdown":
            echo((_markdown(tables) if markdown is None else markdown()) + "\n")
        elif self.shown_as == "latex":
            echo("\n".join(_latex(tables, signatures)))
        else:
            said = [in_text(one) for one in findings]
            for line in (*said, "") if said else ():
                out().print(line, markup=False)
            self._print_rich(tables, below, signatures)

    def print_rows(self, title: str, rows: Iterable[Mapping[str, Any]], data: object, **headings: Any) -> None:
        """Print one table, as ``plain_table`` makes it, if it has rows; ``data``: what JSON has instead."""
        table = plain_table(title, rows, **headings)
        self.print_tables([table] if table.rows else [], lambda: data)

    def print_signature(self, *lines: str) -> None:
        """Print signatures, each cut to one line unless all details are requested; nothing where none are."""
        rest = "… (-v for all)"
        for line in lines if self.with_details else ():
            width = out().width
            folded = line if self.verbose or len(line) <= width else line[: max(20, width - len(rest))] + rest
            out().print(folded, markup=False, soft_wrap=True, style="dim")

    def _print_rich(self, tables: Sequence[ReportTable], below: Sequence[str], signatures: Sequence[str]) -> None:
        for i, table in enumerate(tables, 1):
            print_whole(table)
            # notes that several tables share are printed below the last of them
            notes = [line for line in table.notes if all(line not in other.notes for other in tables[i:])]
            later = any(table.signature == other.signature for other in tables[i:])
            own = table.signature.split(" || ") if table.signature and not (signatures or later) else []
            for line in notes:
                out().print(line, markup=False)
            self.print_signature(*own)
            if (notes or own) and tables[i:]:
                out().print()
        for line in below:
            out().print(line, markup=False, style="dim")
        self.print_signature(*signatures)


def plain_table(title: str, rows: Iterable[Mapping[str, Any]], **headings: str | tuple[Any, ...]) -> ReportTable:
    """A table with these columns, each a heading, or heading, kind and what is shown for an absent value."""
    from goldless.reports.report_table import Column, ReportTable

    columns = (
        Column(name, said, absent="") if isinstance(said, str) else Column(name, *said)
        for name, said in headings.items()
    )
    return ReportTable(title, tuple(columns), tuple(rows))


def tell_spending(rows: Iterable[Spending]) -> None:
    """Report the calls of each model, and what they cost."""
    for row in rows:
        cost = ", price unknown" if row.cost_usd is None else f", {row.cost_usd:.4f} USD" * bool(row.cost_usd)
        tokens = row.usage.input_tokens + row.usage.output_tokens
        guessed = f", estimated for {row.estimated} of them" if row.estimated else ""
        before = f" (the result cost {row.result_usd:.4f} USD in all)" if row.reused and row.result_usd else ""
        made = f"{row.calls} call{'s' * (row.calls != 1)} now ({tokens:,} tokens{cost}{guessed})"
        say(f"{row.model}: {made}, {row.reused} from the journal{before}")


def print_whole(table: ReportTable | Leaderboard | RaterScores, **more: Any) -> None:
    """Print a table so that nothing is cut off, in several parts if the terminal is narrow."""
    for part in table.to_rich(out().width, **more):
        # a single name may be wider than the terminal, which then breaks the line
        out().print(part, crop=False, no_wrap=True, overflow="ignore", soft_wrap=True)


def _markdown(tables: Sequence[ReportTable]) -> str:
    return "\n".join(table.to_markdown() for table in tables)


def _latex(tables: Sequence[ReportTable], signatures: Sequence[str]) -> Iterator[str]:
    """Required packages and signatures, then the tables."""
    from goldless.reports.formats import NEEDS, latex_comment

    others = [line for line in signatures if line not in {table.signature for table in tables}]
    yield "".join(f"{line}\n" for line in (NEEDS, *map(latex_comment, others)))
    for table in tables:
        yield table.to_latex()


def tell_import(study: Study) -> None:
    """Say in one line what was read, unless it is goldless's own format and there is nothing to note."""
    from goldless.studies.importers.log import import_summary

    if note := study.empty_responses_note:
        say(f"note: {note}", style="yellow")
    if study.origin is None or (study.origin.importer == "study" and not study.origin.notes):
        return
    found = import_summary(study)
    samples = len(set(study.samples.values()))
    said = [_counted(found[noun], noun) for noun in ("tasks", "agents", "responses")]
    if lost := found["missing"]:
        said.append("missing: " + ", ".join(f"{cause} {count:,}" for cause, count in lost.items()))
    said += [f"several samples of {_counted(samples, 'agents')}"] if samples else []
    say(f"read as {found['format']}: {', '.join(said)}")
    for note in found["notes"]:
        say(f"note: {note}", style="yellow")


def _counted(count: int, things: str) -> str:
    return f"{count:,} {things if count != 1 else things.removesuffix('s')}"
