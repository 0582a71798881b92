"""A year's edition: one folder with its config, study, evidence, leaderboard and report.

The config says which papers, which models, which scorer: one TOML file, checked as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tomlkit
from pydantic import Field, ValidationError, field_validator
from tomlkit.exceptions import TOMLKitError

from goldless.dates import last_day
from goldless.errors import UserError, nearest
from goldless.files import write_text, write_whole
from goldless.gre_bench.edition_study import draw_differences
from goldless.gre_bench.papers import CollectConfig, Part, reads_as_person
from goldless.records import Agent
from goldless.studies import Study, read_study
from goldless.studies.checking import all_at_once
from goldless.studies.tables import Source
from goldless.studies.task_table import read_agents

METRICS = ("gem", "gem-s[abstract]", "gem-s[assw]")
"""The three of the GEM paper, section 5."""


class ModelConfig(Part):
    """A model that reviews, and what is known of it."""

    model: str
    """How it is asked, such as ``openai:gpt-4o-mini``."""
    parameters: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    family: str | None = None
    cutoff_date: str | None = None
    """Knowledge cut-off: YYYY, YYYY-MM or YYYY-MM-DD."""
    context_length: Annotated[int, Field(ge=1)] | None = None
    """Most tokens it takes, where its server does not tell."""

    @field_validator("cutoff_date", mode="before")
    @classmethod
    def _date(cls, value: Any) -> Any:
        if value is None:
            return None
        if last_day(str(value)) is None:
            raise ValueError(f"a date is YYYY, YYYY-MM or YYYY-MM-DD, not {str(value)!r}")
        return str(value)

    def agent(self, name: str) -> Agent:
        """The model as an agent of that name."""
        return Agent(name, "model", self.parameters, self.family, self.cutoff_date)


class ReviewConfig(Part):
    """How models are asked for reviews."""

    max_tokens: Annotated[int, Field(ge=1)] = 4096
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    seed: Annotated[int, Field(ge=0)] | None = None
    """Seed of the sampling, for models that take one."""
    truncate: bool = False
    """Cut a paper that does not fit a model's context, instead of counting its review as missing."""
    cut: Literal["missing", "keep"] = "missing"
    """What becomes of a review that reached ``max_tokens``."""


class ScoreConfig(Part):
    """How reviews are scored."""

    metrics: tuple[str, ...] = METRICS
    scorer: str = "embedded"
    rewriter: tuple[str, ...] = ()
    """Chat models that preprocess (C.1)."""
    rewrite_max_tokens: Annotated[int, Field(ge=1)] = 1024
    """A longer rewrite is cut, and so missing."""
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


class EditionConfig(Part):
    """Everything an edition is made by."""

    demonstration: bool = False
    """Whether its papers and reviews are invented, so that its numbers are no result."""
    collect: CollectConfig | None = None
    models: Mapping[str, ModelConfig] = Field(default_factory=dict)
    """By the agent's name."""
    review: ReviewConfig = Field(default_factory=ReviewConfig)
    score: ScoreConfig = Field(default_factory=ScoreConfig)

    @field_validator("models")
    @classmethod
    def _names(cls, models: Mapping[str, ModelConfig]) -> Mapping[str, ModelConfig]:
        if taken := [name for name in models if reads_as_person(name)]:
            raise ValueError(f"{', '.join(taken)}: the human reviews are called so; name the model otherwise")
        return models


TABLES: Mapping[str, type[Part]] = {
    "collect": CollectConfig,
    "models": ModelConfig,
    "review": ReviewConfig,
    "score": ScoreConfig,
}
NEEDED = {
    "bool_parsing": "true or false is needed",
    "bool_type": "true or false is needed",
    "finite_number": "a finite number is needed",
    "float_parsing": "a number is needed",
    "float_type": "a number is needed",
    "greater_than": "a number above {gt:g} is needed",
    "greater_than_equal": "a number of at least {ge:g} is needed",
    "int_from_float": "a whole number is needed",
    "int_parsing": "a whole number is needed",
    "int_type": "a whole number is needed",
    "less_than": "a number below {lt:g} is needed",
    "literal_error": "{expected} is needed",
    "dict_type": "a table is needed",
    "missing": "it is needed",
    "model_type": "a table is needed",
    "string_type": "a text in quotes is needed",
    "tuple_type": "a list of texts in quotes is needed",
}
"""What a setting must be, by the kind of error that pydantic finds."""


def read_config(path: Path) -> EditionConfig:
    """The config in a TOML file. Raises with everything that is wrong in it."""
    return checked(_document(path).unwrap(), str(path))


def checked(given: Mapping[str, Any], where: str) -> EditionConfig:
    """A config from plain data. Raises with everything that is wrong in it."""
    try:
        return EditionConfig.model_validate(given)
    except ValidationError as error:
        told = [_problem(one) for one in error.errors(include_url=False)]
        raise UserError("\n".join([f"{where}: the config of the edition cannot be used:", *told])) from error


def _problem(one: Any) -> str:
    place = ".".join(str(part) for part in one["loc"]) or "the whole"
    needed = NEEDED.get(one["type"])
    message = needed.format(**one.get("ctx", {})) if needed else str(one["msg"]).removeprefix("Value error, ")
    if one["loc"][-1:] == ("parameters",):
        message += ", such as 8e9"
    if one["type"] == "extra_forbidden":
        table = EditionConfig if len(one["loc"]) == 1 else TABLES[one["loc"][0]]
        hint = nearest(str(one["loc"][-1]), table.model_fields) or f"; there are {', '.join(table.model_fields)}"
        message = f"there is no such setting{hint}"
    told = isinstance(one["input"], dict) or one["type"] in {"extra_forbidden", "value_error"}
    return f"  {place}: {message}" if told else f"  {place}: {message}, not {one['input']!r}"


def write_settings(path: Path, settings: Mapping[str, Any]) -> EditionConfig:
    """Put settings into a TOML file, beside those and the comments that it holds; the config it then is.

    Tables are put into tables, key by key. A value of None takes a key out. Nothing is written that cannot be used.
    """
    before, document = _with_settings(path, settings)
    config = checked(document.unwrap(), str(path))
    text = tomlkit.dumps(document)
    if text != before:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text)
        except OSError as error:
            raise UserError(f"{path}: cannot be written to ({error.strerror}). Allow writing there.") from error
    return config


def _with_settings(path: Path, settings: Mapping[str, Any]) -> tuple[str | None, tomlkit.TOMLDocument]:
    """What a file holds, None where it is not there, and the same with settings put in."""
    there = path.exists()
    document = _document(path) if there else tomlkit.document()
    before = tomlkit.dumps(document) if there else None
    _put(document, settings)
    return before, document


def _document(path: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, TOMLKitError) as error:
        if twice := re.search(r'Key "(.+)" already exists', str(error)):
            raise UserError(f"{path}: {twice[1]!r} is written twice; keep one of the two") from error
        raise UserError(f"{path}: is no TOML file ({error})") from error


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
    """What a .csv, .jsonl or .parquet table says of agents, by name. Raises with everything that is wrong in it."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; give a table with agent, {', '.join(FACTS)}")
    with all_at_once(str(path)) as problems:
        agents = read_agents(Source(path, path.name), problems).records()
    return {agent.agent: {k: v for k, v in asdict(agent).items() if k in FACTS and v is not None} for agent in agents}


# --- the folder ----------------------------------------------------------------------------------------------------


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
        path = self.folder / CONFIG
        _, document = _with_settings(path, settings)
        where = f"{path}, with the settings given" if settings else str(path)
        return Edition(self.folder, checked(document.unwrap(), where))

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
