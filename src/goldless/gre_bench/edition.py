"""A year's edition: one folder with its config, study, evidence, leaderboard and report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goldless.errors import UserError
from goldless.files import write_whole
from goldless.gre_bench.config import EditionConfig, planned_config, read_config, write_settings
from goldless.gre_bench.edition_study import draw_differences
from goldless.records import Agent
from goldless.studies import Study, read_study

CONFIG = "edition.toml"
STUDY = "study"
RUN = "run"
COLLECTED = "collected"
INVENTED = " (demonstration, invented)"
"""Added to the name of a study whose papers are made up."""


@dataclass(frozen=True, slots=True)
class Edition:
    """An edition's folder."""

    folder: Path
    config: EditionConfig

    @property
    def study_folder(self) -> Path:
        """Where its papers and reviews are, as an ordinary study."""
        return self.folder / STUDY

    @property
    def cache(self) -> Path:
        """Where what a venue answered is kept."""
        return self.folder / COLLECTED

    def run_folder(self, name: str | None = None) -> Path:
        """Where results are; ``name``: those of another scorer, say, beside the edition's own."""
        if name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise UserError(f"a run is named by letters, digits, '.', '_' and '-', not {name!r}")
        if name in {STUDY, COLLECTED}:
            raise UserError(f"{name} is another folder of the edition; name the run otherwise")
        folder = self.folder / (name or RUN)
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is a file, and a run is a folder; name the run otherwise with --run")
        return folder

    @property
    def collected(self) -> bool:
        """Whether its study is there."""
        return self.study_folder.is_dir()

    def study(self) -> Study:
        """Its papers and reviews, with what the config knows of its models.

        Raises where the config asks for other papers than those that are there: numbers would go under a wrong name.
        """
        if not self.collected:
            raise UserError(
                f"{self.folder}: no papers were collected yet. Run: goldless gre collect {self.folder} "
                "--venue VENUE, or --from-folder FOLDER"
            )
        study = read_study(self.study_folder)
        collect = self.config.collect
        if collect is not None and (told := draw_differences(study, collect, self.folder)):
            raise UserError(
                f"{self.folder}: holds papers of another draw ({', '.join(told)}); begin an edition of other papers in "
                f"another folder, or put [collect] of {CONFIG} back"
            )
        facts = {agent.agent: agent for agent in self.models}
        known = {a.agent: replace(facts[a.agent], group=a.group) for a in study.agents if a.agent in facts}
        study = study.with_agents(known)
        study.name = self.folder.resolve().name + (INVENTED if self.config.demonstration else "")
        return study

    @property
    def models(self) -> tuple[Agent, ...]:
        """The models that the config names, as agents, with what it knows of them."""
        return tuple(model.agent(name) for name, model in self.config.models.items())

    def planned(self, settings: Mapping[str, Any]) -> Edition:
        """The edition as it would be with these settings; nothing is written."""
        return Edition(self.folder, planned_config(self.folder / CONFIG, settings))

    def with_settings(self, settings: Mapping[str, Any]) -> Edition:
        """The edition after settings were put into its config file; what they do not name stays."""
        return Edition(self.folder, write_settings(self.folder / CONFIG, settings))

    @contextmanager
    def trying(self, settings: Mapping[str, Any]) -> Iterator[Edition]:
        """The edition with settings in its config file; they go again where what is done inside raises an error.

        They stay where it is interrupted, so that it can be gone on with, and where the file was edited meanwhile.
        """
        path = self.folder / CONFIG
        before = path.read_bytes()
        tried = self.with_settings(settings)
        after = path.read_bytes()
        try:
            yield tried
        except Exception:
            if path.read_bytes() == after != before:
                write_whole(path, lambda aside: aside.write_bytes(before))
            raise


def is_edition(folder: Path) -> bool:
    """Whether a folder has the config of an edition."""
    return (folder / CONFIG).is_file()


def open_edition(folder: Path) -> Edition:
    """The edition in a folder."""
    if not is_edition(folder):
        raise UserError(
            f"{folder}: is no edition, it has no {CONFIG}. Begin one with: goldless gre collect {folder} "
            "--venue VENUE, or --from-folder FOLDER"
        )
    return Edition(folder, read_config(folder / CONFIG))


def open_or_begin(folder: Path) -> Edition:
    """The edition in a folder, or the beginning of one; nothing is written yet."""
    if is_edition(folder):
        return open_edition(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: holds something else than an edition; give a folder that is new or empty")
    return Edition(folder, EditionConfig())
