"""``goldless gre site`` and ``publish``: an edition's board for others, from its evidence alone. No model is called."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from goldless.cli.command import own, verb
from goldless.cli.console import out, say
from goldless.cli.gre.editions import EditionFolder
from goldless.cli.signals import run_async
from goldless.errors import UserError


@verb(first=("folder",))
def site(
    editions: Annotated[
        list[Path], typer.Argument(metavar="EDITION…", help="Folders of editions, by year; the last is the front page.")
    ],
    *,
    folder: Annotated[Path, own("Folder for the site.", flags="--out FOLDER")],
) -> None:
    """Make the board of one or more editions as a static site: no script, no network, the same bytes every time.

    All numbers are recomputed from the evidence in the editions; results that do not follow from it are refused.

    Example:
      goldless gre site iclr2024 iclr2025 --out site
    """
    from goldless.gre_bench.edition import open_edition
    from goldless.gre_bench.recomputing import recompute
    from goldless.gre_bench.site import check_names, site_pages, write_site

    opened = [open_edition(edition) for edition in editions]
    check_names(opened)
    pages = site_pages([run_async(partial(recompute, one)) for one in opened])
    write_site(pages, folder)
    say(f"site: {folder / 'index.html'} ({len(pages)} pages)")


@verb(first=("dry_run", "dataset", "folder"))
def publish(
    edition: EditionFolder,
    *,
    dry_run: Annotated[bool, own("Write the files; nothing is uploaded.", flags="--dry-run")] = False,
    dataset: Annotated[
        str | None, own("The benchmark's dataset on the Hugging Face Hub.", flags="--dataset OWNER/NAME")
    ] = None,
    url: Annotated[str | None, own("Address of the board, as the source of the scores.", flags="--url URL")] = None,
    folder: Annotated[
        Path | None, own("Folder for the files (default: EDITION/hub).", flags="--out FOLDER", show_default=False)
    ] = None,
) -> None:
    """Write the files for the Hugging Face Hub: eval.yaml of the benchmark, .eval_results of each model.

    goldless itself uploads nothing: it prints the commands that do.

    Example:
      goldless gre publish iclr2025 --dry-run --dataset acme/gre-bench
    """
    from goldless.exporting.files import check_free, path_name, write_folder
    from goldless.exporting.hub_results import write_results
    from goldless.exporting.scored_run import scored_run
    from goldless.gre_bench.edition import open_edition
    from goldless.gre_bench.hub_dataset import dataset_files, task_id, upload_commands
    from goldless.gre_bench.papers import is_person
    from goldless.gre_bench.recomputing import recompute

    opened = open_edition(edition)
    target = folder or opened.folder / "hub"
    if not dry_run:
        raise UserError(
            "goldless uploads nothing. Write the files with --dry-run, read them, and upload them yourself; the "
            "commands are printed then"
        )
    if dataset is None:
        raise UserError("--dataset is missing: name the benchmark's dataset on the Hub, such as acme/gre-bench")
    check_free(target, folder=True)
    found = run_async(partial(recompute, opened))
    run = scored_run(opened.run_folder())
    (board,) = run.chosen(found.metric).values()
    board = replace(board, rows=tuple(row for row in board.rows if not is_person(row.agent)))
    models = target / "models"
    write_results(board, models, dataset=dataset, task_id=task_id(found), date=run.made_at[:10], url=url)
    write_folder(target / "dataset", dataset_files(found))
    folders = {row.agent: models / path_name(row.agent) for row in board.rows if row.score is not None}
    say(f"files: {target}. Nothing was uploaded. To upload them:")
    for line in upload_commands(found, dataset, target / "dataset", folders):
        out().print(line, markup=False, highlight=False, soft_wrap=True)
