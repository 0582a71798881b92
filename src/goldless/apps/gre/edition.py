"""A year's edition: one folder with its config, study, evidence, leaderboard and report.

The config says which papers, which models, which scorer: one TOML file, checked as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tomlkit
from pydantic import Field, ValidationError, field_validator
from tomlkit.exceptions import TOMLKitError

from goldless.apps.gre.edition_study import draw_differences
from goldless.apps.gre.hidden_instructions import injected_papers
from goldless.apps.gre.papers import CollectConfig, Part, reads_as_person
from goldless.dates import last_day
from goldless.errors import UserError, nearest
from goldless.files import write_text
from goldless.records import Agent
from goldless.statistics.bootstrap import Draws
from goldless.studies import Study, read_study
from goldless.studies.checking import all_at_once
from goldless.studies.frames import read_agents
from goldless.studies.tables import Source

METRICS = ("gem", "gem-s[abstract]", "gem-s[assw]")
"""The three of the GEM paper, section 5."""


class ModelConfig(Part):
    """A model that reviews, and what is known of it."""

    model: str
    """Model spec, such as ``openai:gpt-4o-mini``."""
    parameters: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    family: str | None = None
    cutoff_date: str | None = None
    """Knowledge cutoff: YYYY, YYYY-MM or YYYY-MM-DD."""
    context_length: Annotated[int, Field(ge=1)] | None = None
    """Context length in tokens, if its server does not report it."""

    @field_validator("cutoff_date", mode="before")
    @classmethod
    def _date(cls, value: Any) -> Any:
        if value is None:
            return None
        if last_day(str(value)) is None:
            raise ValueError(f"must be a date such as 2023, 2023-09 or 2023-09-30, got {str(value)!r}")
        return str(value)

    def agent(self, name: str) -> Agent:
        """The model as an agent of that name."""
        return Agent(name, "model", self.parameters, self.family, self.cutoff_date)


class ReviewConfig(Part):
    """How models write reviews."""

    max_tokens: Annotated[int, Field(ge=1)] = 4096
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    seed: Annotated[int, Field(ge=0)] | None = None
    """Seed of the sampling, for models that take one."""
    truncate: bool = False
    """Cut off papers that are too long for a model's context, instead of counting the review as missing."""
    cut: Literal["missing", "keep"] = "missing"
    """How to treat a review that reached ``max_tokens``."""


class ScoreConfig(Part):
    """How reviews are scored."""

    metrics: tuple[str, ...] = METRICS
    scorer: str = "embedded"
    rewriter: tuple[str, ...] = ()
    """Chat models that preprocess (C.1)."""
    rewrite_max_tokens: Annotated[int, Field(ge=1)] = 1024
    """Longer rewrites are cut off and count as missing."""
    synopsis_writer: str | None = None
    """Chat model that writes ASSW (C.4)."""
    template: tuple[str, ...] = ("peer-review",)
    level: Annotated[float, Field(gt=0, lt=1)] = 0.9
    seed: Annotated[int, Field(ge=0)] = 0
    resamples: Annotated[int, Field(ge=100)] = 10_000
    on_too_long: Literal["error", "skip"] = "error"

    @field_validator("metrics", "rewriter", "template", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @property
    def draws(self) -> Draws:
        """How papers are resampled."""
        return {"seed": self.seed, "resamples": self.resamples, "level": self.level}


class EditionConfig(Part):
    """All settings of an edition."""

    demonstration: bool = False
    """Whether its papers and reviews are invented, so that its numbers are not results."""
    collect: CollectConfig | None = None
    models: Mapping[str, ModelConfig] = Field(default_factory=dict)
    """By the agent's name."""
    review: ReviewConfig = Field(default_factory=ReviewConfig)
    score: ScoreConfig = Field(default_factory=ScoreConfig)

    @field_validator("models")
    @classmethod
    def _names(cls, models: Mapping[str, ModelConfig]) -> Mapping[str, ModelConfig]:
        if taken := [name for name in models if reads_as_person(name)]:
            raise ValueError(f"{', '.join(taken)}: reserved for human reviews. Choose another name for the model")
        return models


TABLES: Mapping[str, type[Part]] = {
    "collect": CollectConfig,
    "models": ModelConfig,
    "review": ReviewConfig,
    "score": ScoreConfig,
}
NEEDED = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be a number above {gt:g}",
    "greater_than_equal": "must be a number of at least {ge:g}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "less_than": "must be a number below {lt:g}",
    "literal_error": "must be {expected}",
    "dict_type": "must be a table",
    "missing": "is required",
    "model_type": "must be a table",
    "string_type": "must be a text in quotes",
    "tuple_type": "must be a list of texts in quotes",
}
"""What a setting must be, by pydantic's error type."""


def checked(given: Mapping[str, Any], where: str) -> EditionConfig:
    """A config from plain data. Raises with a list of all problems."""
    try:
        return EditionConfig.model_validate(given)
    except ValidationError as error:
        problems = [_problem(one) for one in error.errors(include_url=False)]
        raise UserError("\n".join([f"{where}: the edition's config is not valid:", *problems])) from error


def _problem(one: Any) -> str:
    place = ".".join(str(part) for part in one["loc"]) or "config"
    needed = NEEDED.get(one["type"])
    message = needed.format(**one.get("ctx", {})) if needed else str(one["msg"]).removeprefix("Value error, ")
    if one["loc"][-1:] == ("parameters",):
        message += ", such as 8e9"
    if one["type"] == "extra_forbidden":
        table = EditionConfig if len(one["loc"]) == 1 else TABLES[one["loc"][0]]
        hint = nearest(str(one["loc"][-1]), table.model_fields) or f". Settings: {', '.join(table.model_fields)}"
        message = f"unknown setting{hint}"
    complete = isinstance(one["input"], dict) or one["type"] in {"extra_forbidden", "value_error"}
    return f"  {place}: {message}" if complete else f"  {place}: {message}, got {one['input']!r}"


def _document(path: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, TOMLKitError) as error:
        if twice := re.search(r'Key "(.+)" already exists', str(error)):
            raise UserError(f"{path}: {twice[1]!r} is set twice. Keep one") from error
        raise UserError(f"{path}: not a valid TOML file ({error})") from error


def _put(table: Any, settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            if value and key not in table:
                table[key] = tomlkit.table()
            _put(table.get(key), value)
        elif value is None:
            table.pop(key, None)
        elif key not in table or table[key] != value:
            table[key] = list(value) if isinstance(value, tuple) else value


FACTS = ("parameters", "family", "cutoff_date")


def read_agent_facts(path: Path) -> dict[str, dict[str, Any]]:
    """Facts about agents in a .csv, .jsonl or .parquet table, by name. Raises with a list of all problems."""
    if not path.is_file():
        raise UserError(f"{path}: no such file. Give a table with the columns agent, {', '.join(FACTS)}")
    with all_at_once(str(path)) as problems:
        agents = read_agents(Source(path, path.name), problems).records()
    return {agent.agent: {k: v for k, v in asdict(agent).items() if k in FACTS and v is not None} for agent in agents}


# --- the folder ----------------------------------------------------------------------------------------------------


CONFIG = "edition.toml"
STUDY = "study"
RUN = "run"
COLLECTED = "collected"
INVENTED = " (demonstration, invented)"
"""Appended to the name of a study with invented papers."""


@dataclass(frozen=True, slots=True)
class Edition:
    """An edition's folder."""

    folder: Path
    config: EditionConfig

    @property
    def study_folder(self) -> Path:
        """Folder of its papers and reviews, an ordinary study."""
        return self.folder / STUDY

    def run_folder(self, name: str | None = None) -> Path:
        """Folder of the results; ``name``: of additional results, such as with another scorer."""
        if name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise UserError(f"--run must consist of letters, digits, '.', '_' and '-', got {name!r}")
        if name in {STUDY, COLLECTED}:
            raise UserError(f"--run: {name} is another folder of the edition. Choose another name")
        folder = self.folder / (name or RUN)
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is a file, not a folder. Choose another name with --run")
        return folder

    @property
    def collected(self) -> bool:
        """Whether its study is there."""
        return self.study_folder.is_dir()

    def study(self) -> Study:
        """Its papers and reviews, with the config's facts about its models, without second versions of papers."""
        whole = self.whole_study()
        second = injected_papers(whole)
        return whole.subset(tasks=[task for task in whole.tasks if task not in second]) if second else whole

    def whole_study(self) -> Study:
        """The same with the second versions of papers that have hidden instructions: all that is reviewed.

        Raises if the config describes other papers than those collected, because the numbers would be mislabelled.
        """
        if not self.collected:
            raise UserError(
                f"{self.folder}: no papers collected yet. Run: goldless gre collect {self.folder} "
                "--venue VENUE, --from-reviewarena FOLDER or --from-folder FOLDER"
            )
        study = read_study(self.study_folder)
        collect = self.config.collect
        if collect is not None and (changed := draw_differences(study, collect, self.folder)):
            raise UserError(
                f"{self.folder}: the papers were drawn with other settings ({', '.join(changed)}). Use another folder "
                f"for other papers, or restore [collect] in {CONFIG}"
            )
        facts = {agent.agent: agent for agent in self.models}
        known = {a.agent: replace(facts[a.agent], group=a.group) for a in study.agents if a.agent in facts}
        study = study.with_agents(known)
        study.name = self.folder.resolve().name + (INVENTED if self.config.demonstration else "")
        return study

    @property
    def models(self) -> tuple[Agent, ...]:
        """The models of the config, as agents."""
        return tuple(model.agent(name) for name, model in self.config.models.items())

    def planned(self, settings: Mapping[str, Any]) -> Edition:
        """The edition as it would be with these settings; nothing is written."""
        where = f"{self._file}, with the settings given" if settings else str(self._file)
        return Edition(self.folder, checked(self._with(settings).unwrap(), where))

    def with_settings(self, settings: Mapping[str, Any]) -> Edition:
        """The edition after writing settings into its config file, keeping its other settings and comments.

        Tables are merged key by key. None removes a key. Nothing is written if the result is not valid.
        """
        document = self._with(settings)
        config = checked(document.unwrap(), str(self._file))
        text = tomlkit.dumps(document)
        if not self._file.exists() or text != tomlkit.dumps(_document(self._file)):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                write_text(self._file, text)
            except OSError as error:
                raise UserError(f"{self._file}: cannot write ({error.strerror}). Make it writable") from error
        return Edition(self.folder, config)

    @property
    def _file(self) -> Path:
        return self.folder / CONFIG

    def _with(self, settings: Mapping[str, Any]) -> tomlkit.TOMLDocument:
        document = _document(self._file) if self._file.exists() else tomlkit.document()
        _put(document, settings)
        return document


def is_edition(folder: Path) -> bool:
    """Whether a folder has the config of an edition."""
    return (folder / CONFIG).is_file()


def open_edition(folder: Path) -> Edition:
    """The edition in a folder."""
    if not is_edition(folder):
        raise UserError(
            f"{folder}: not an edition, because it has no {CONFIG}. Start one with: goldless gre collect {folder} "
            "--venue VENUE, or --from-folder FOLDER"
        )
    return Edition(folder, checked(_document(folder / CONFIG).unwrap(), str(folder / CONFIG)))


def open_or_begin(folder: Path) -> Edition:
    """The edition in a folder, or a new one; nothing is written yet."""
    if is_edition(folder):
        return open_edition(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: not an edition, and not empty. Choose a new or empty folder")
    return Edition(folder, EditionConfig())
