"""``goldless gre run``: a whole edition from its config."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import anyio

from goldless.cli.console import ProgressBars, say
from goldless.cli.gre.arguments import EditionFolder, asking
from goldless.cli.gre.collect import tell_collected, unanswered_is_incomplete
from goldless.cli.gre.review import tell_generated
from goldless.cli.gre.score import print_scores, tell_scores
from goldless.cli.metric_options import BudgetOption, FormatOption, JournalOption, JsonOption, PriceOption
from goldless.gre_bench.edition import open_edition
from goldless.gre_bench.making import collect_edition, review_edition, score_edition


def run(
    edition: EditionFolder,
    *,
    budget: BudgetOption = None,
    price: PriceOption = None,
    journal: JournalOption = None,
    table: FormatOption = "rich",
    json_only: JsonOption = False,
) -> None:
    """Collect, review and score as edition.toml says, as far as that is not done. The budget holds for each stage.

    Example: goldless gre run iclr2024 --budget 50USD
    """
    opened = open_edition(edition)
    with ProgressBars() as bars, unanswered_is_incomplete():
        opened, left_out = collect_edition(opened, {}, progress=bars, say=say)
    tell_collected(opened, left_out)
    with ProgressBars() as bars:
        asked = asking(budget, price, journal, bars)
        opened, generated = anyio.run(partial(review_edition, opened, {}, asking=asked))
    tell_generated(generated)
    with ProgressBars() as bars:
        opened, scores = anyio.run(partial(score_edition, opened, {}, asking=replace(asked, progress=bars)))
    print_scores(scores, "json" if json_only else table)
    tell_scores(opened, scores)
