"""Fetching a set: its files are read, checked and converted, and the study is written completely or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from goldless.apps.datasets.catalogue import DATASETS
from goldless.apps.datasets.dataset import Dataset, Tables
from goldless.apps.datasets.sources import copied_files, copy_words, downloaded_files
from goldless.errors import UserError, check_known
from goldless.files import filled_folder
from goldless.studies import Study, read_study
from goldless.studies.writing import check_target


def fetch_study(
    name: str, folder: Path | str, *, copy: Path | str | None = None, datasets: Mapping[str, Dataset] = DATASETS
) -> Study:
    """Write a public set to a folder as a study, and return the study.

    The files are downloaded from the owner's address, or read from ``copy``. Raises UserError if they cannot be had or
    are not the known ones; then nothing is written.
    """
    check_known([name], datasets, "unknown set", "Sets")
    dataset, folder = datasets[name], Path(folder)
    check_target(folder, overwrite=False)
    if copy is not None:
        files = copied_files(dataset, Path(copy))
    elif dataset.licence is None:
        raise UserError(
            f"{name} has no licence, so goldless does not download it. Get {copy_words(dataset)} yourself, and give it "
            "with --copy"
        )
    else:
        files = downloaded_files(dataset)
    tables = dataset.convert(files)

    def fill(fresh: Path) -> None:
        write_tables(tables, fresh)
        (fresh / "README.md").write_text(readme(dataset), encoding="utf-8")
        read_study(fresh)  # raises where a table is no table of a study

    filled_folder(folder, fill)
    return read_study(folder)


def write_tables(tables: Tables, folder: Path) -> None:
    """Write tables as Parquet."""
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table.write_parquet(path)


def readme(dataset: Dataset) -> str:
    """The text that describes the folder: source, licence and citation."""
    return (
        f"# {dataset.name}\n\n{dataset.question} {dataset.size}.\n\n"
        f"- Source: {dataset.source}\n- Licence: {dataset.licence or 'none is named'}\n- Cite: {dataset.citation}\n"
    )
