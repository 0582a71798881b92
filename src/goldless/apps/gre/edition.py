"""A year's edition: one folder with its config, study, evidence, leaderboard and report.

Its study has papers as tasks and people's reviews as responses. Beside the papers of the draw it may have second
versions of some, with a hidden instruction (see ``collecting``).
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from goldless.apps.gre.config import CollectConfig, EditionConfig, checked
from goldless.errors import PrerequisiteError, UserError
from goldless.files import write_text
from goldless.records import Agent
from goldless.studies import Study, read_study

CONFIG = "edition.toml"
STUDY = "study"
RUN = "run"
COLLECTED = "collected"
INVENTED = " (demonstration, invented)"
"""Appended to the name of a study with invented papers."""
INJECTED = "injected"
"""The column of tasks with the paper that the task is a second version of."""
CANARY = "canary"
"""The column of tasks with the word that a second version asks for."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Edition:
    """An edition's folder."""

    folder: Path
    config: EditionConfig

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def study_folder(self) -> Path:
        return self.folder / STUDY

    @property
    def run_folder(self) -> Path:
        """Folder of the results."""
        return self.folder / RUN

    @property
    def collected(self) -> bool:
        return self.study_folder.is_dir()

    def study(self) -> Study:
        """Its papers and reviews, with the config's facts about its models, without second versions of papers."""
        whole = self.whole_study()
        second = marked_papers(whole, INJECTED)
        return whole.subset(tasks=[task for task in whole.tasks if task not in second]) if second else whole

    def whole_study(self) -> Study:
        """The same with the second versions of papers that have hidden instructions: all that is reviewed.

        Raises if the config describes other papers than those collected, because the numbers would be mislabelled.
        """
        if not self.collected:
            raise UserError(
                f"{self.folder}: no papers collected yet. Run: goldless gre collect {self.folder} "
                "--venue VENUE, or --from-folder FOLDER"
            )
        study = read_study(self.study_folder)
        collect, noted = self.config.collect, noted_draw(study)
        if collect is not None and noted is not None:
            asked = draw_settings(self.source, collect)
            changed = [
                f"{name.removesuffix('_asked')} "
                + ", not ".join("none" if one.get(name) is None else str(one[name]) for one in (noted, asked))
                for name in dict.fromkeys([*asked, INJECTED])
                if noted.get(name) != asked.get(name)
            ]
            if changed:
                raise UserError(
                    f"{self.folder}: the papers were drawn with other settings ({', '.join(changed)}). Use another "
                    f"folder for other papers, or restore [collect] in {CONFIG}"
                )
        facts = {agent.agent: agent for agent in self.models}
        known = {a.agent: replace(facts[a.agent], group=a.group) for a in study.agents if a.agent in facts}
        return replace(study.with_agents(known), name=self.name + (INVENTED if self.config.demonstration else ""))

    @property
    def source(self) -> str:
        """The name of its source in a draw: the venue, or the folder's name."""
        collect = self.config.collect
        if collect is None:
            return self.name
        return collect.venue or (self.folder / str(collect.from_folder)).resolve().name

    @property
    def models(self) -> tuple[Agent, ...]:
        return tuple(model.agent(name) for name, model in self.config.models.items())

    def planned(self, settings: Mapping[str, Any]) -> Edition:
        """The edition as it would be with these settings; nothing is written. Raises if they could not be."""
        where = f"{self.folder / CONFIG}{', with the settings given' if settings else ''}"
        config = checked(self._merged(settings), where)
        self._text_with(settings)
        return Edition(self.folder, config)

    def with_settings(self, settings: Mapping[str, Any]) -> Edition:
        """The edition after writing settings into its config file, keeping its other settings and comments.

        Tables are merged key by key. None removes a key. Nothing is written if the result is not valid.
        """
        file = self.folder / CONFIG
        config = checked(self._merged(settings), str(file))
        text = self._text_with(settings)
        if text is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(file, text)
        return Edition(self.folder, config)

    def _merged(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The tables of the config file with these settings, as plain data."""
        file = self.folder / CONFIG
        tables = _read_config(file) if file.is_file() else {}
        _put(tables, settings, new_table=dict)
        return tables

    def _text_with(self, settings: Mapping[str, Any]) -> str | None:
        """The new text of the config file, with its comments; None if it says all of these settings already."""
        file = self.folder / CONFIG
        if file.is_file() and self._merged(settings) == _read_config(file):
            return None
        try:
            import tomlkit  # noqa: PLC0415 - only writing needs it, and it needs an extra
            from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415 - as above
        except ImportError as error:
            raise PrerequisiteError(f"writing {CONFIG} needs tomlkit. Run: pip install 'goldless[gre]'") from error
        document = tomlkit.document()
        try:
            if file.is_file():
                document = tomlkit.parse(file.read_text(encoding="utf-8-sig"))
            _put(document, settings, new_table=tomlkit.table)
        except TOMLKitError as error:
            raise UserError(f"{file}: settings cannot be written into this file ({error})") from error
        return tomlkit.dumps(document)


def is_edition(folder: Path) -> bool:
    """True if a folder has the config of an edition."""
    return (folder / CONFIG).is_file()


def open_edition(folder: Path) -> Edition:
    """The edition in a folder."""
    if not is_edition(folder):
        raise UserError(
            f"{folder}: not an edition, because it has no {CONFIG}. Start one with: goldless gre collect {folder} "
            "--venue VENUE, or --from-folder FOLDER"
        )
    return Edition(folder, checked(_read_config(folder / CONFIG), str(folder / CONFIG)))


def open_or_begin(folder: Path) -> Edition:
    """The edition in a folder, or a new one; nothing is written yet."""
    if is_edition(folder):
        return open_edition(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: not an edition, and not empty. Choose a new or empty folder")
    return Edition(folder, EditionConfig())


def _read_config(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{file}: not a valid TOML file ({error})") from error


def _put(table: Any, settings: Mapping[str, Any], *, new_table: Callable[[], Any]) -> None:
    """Put settings into a table and those below it; ``new_table`` makes one that is not there yet."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            if value and key not in table:
                table[key] = new_table()
            _put(table.get(key), value, new_table=new_table)
        elif value is None:
            table.pop(key, None)
        elif key not in table or table[key] != value:
            table[key] = list(value) if isinstance(value, tuple) else value


# --- tables of the study -------------------------------------------------------------------------------------------


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines."""
    with path.open("wb") as lines:
        for row in rows:
            lines.write(orjson.dumps(row, default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE))


def table_rows(study: Study, table: str) -> list[Row]:
    """The rows of one of its tables; empty if there is no such table."""
    found = study.table(table)
    return [] if found is None else found.to_dicts()


def draw_settings(source: str, asked: CollectConfig) -> Row:
    """The settings that decide which papers and reviews a study has; those of what is not added are not there."""
    found: Row = {"source": source, "seed": asked.seed, "papers_asked": asked.papers, "reviews_asked": asked.reviews}
    return found | ({INJECTED: asked.injected} if asked.injected else {})


def noted_draw(study: Study) -> Mapping[str, Any] | None:
    """The settings of the study's draw; None if it has none, as in a study from elsewhere."""
    return next(iter(table_rows(study, "draw")), None)


def marked_papers(study: Study, column: str) -> dict[str, str]:
    """Values of the papers in a column, in the study's order.

    ``INJECTED``: the paper of each second version; ``CANARY``: the word that it asks for.
    """
    found = {task: study.task(task).extra.get(column) for task in study.tasks}
    return {task: str(value) for task, value in found.items() if value is not None}
