"""The public board's result of an edition: whether it is as registered, and the best submission of each team."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from goldless import Evaluation
from goldless.apps.gre.edition import Edition
from goldless.apps.gre.results import FILE, table_blocks
from goldless.apps.gre_board.preregistration import Registered, check_registration
from goldless.apps.gre_board.submissions import Submissions, read_log, submission_results
from goldless.reports.document import Unreadable, read_document
from goldless.reports.html.blocks import Block, section, words
from goldless.reports.report_table import ReportTable
from goldless.reports.run_folder import RunFolder
from goldless.studies import Study


@dataclass(frozen=True)
class PublicBoard:
    """The registration of an edition and its submissions."""

    preregistered: Registered | None = None
    """None: it was not registered."""
    submissions: Submissions | None = None
    """None: there are none."""

    def tables(self) -> list[ReportTable]:
        """One table of teams per metric."""
        return [] if self.submissions is None else self.submissions.tables()


class BoardAddition:
    """Additions of the public board to the results of editions."""

    def sentences(self, edition: Edition) -> Iterator[str]:
        """Return True if the edition is as it was registered. Raises if the registration or the log was damaged."""
        read_log(edition.folder)
        registered = check_registration(edition)
        if registered is not None:
            yield f"The edition was {registered.sentence}."

    def result(self, edition: Edition, study: Study, evaluation: Evaluation) -> PublicBoard | None:
        log, registered = read_log(edition.folder), check_registration(edition)
        if registered is None and not log:
            return None
        return PublicBoard(registered, submission_results(log, study, evaluation, edition.config.score.draws))


PUBLIC_BOARD = BoardAddition()


@section("board", "The public board")
def board_section(run: RunFolder) -> Iterator[Block]:
    """The section of the report: the teams with their best submissions."""
    board = read_document(run.path / f"{FILE}_board.json", PublicBoard)
    if isinstance(board, Unreadable):
        yield words(f"{board}.", style="warning")
    if isinstance(board, PublicBoard):
        for table in board.tables():
            yield from table_blocks(table)
