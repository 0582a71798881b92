"""The settings of an edition: tables of ``edition.toml``, and options of the commands that write into them.

A setting is declared once. ``as_given`` makes the options of a command from a table: what is not given stays as the
file has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from goldless.apps.gre.papers import reads_as_person
from goldless.cli.command import same
from goldless.errors import UserError, nearest
from goldless.runs.option_forms import OptionForm, as_tuple, declared, defaults, integer, option, split

if TYPE_CHECKING:
    from goldless.records import Agent
    from goldless.statistics.bootstrap import Draws

PAPERS = "Papers"
ASKED = "Generation"
METRICS = ("gem", "gem-s[abstract]", "gem-s[assw]")
"""The three of the GEM paper, section 5."""


NOT_NEGATIVE = OptionForm(float, must_be="a number of at least 0", allows=lambda given: 0 <= given < float("inf"))


def _is_date(text: str) -> bool:
    from goldless.studies.checking import possible_days  # noqa: PLC0415 - a help needs no studies

    return possible_days(text) is not None


class ConfigPart:
    """A table of the file; unknown settings are errors, and so are values that a setting's declaration excludes."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic reads it by this name

    def __post_init__(self) -> None:
        """Refuse values out of bounds."""
        kind: Any = type(self)
        for name, one in declared(kind).items():
            value = getattr(self, name)
            if isinstance(value, str) and "\0" in value:
                raise ValueError(f"{name} must be a text without null characters, got {value!r}")
            if value is not None and not one.form.allows(value):
                raise ValueError(f"{name} must be {one.form.must_be}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class CollectConfig(ConfigPart):
    """The papers to collect."""

    venue: str | None = option(None, "OpenReview venue, such as ICLR.cc/2024/Conference.", "ID", group=PAPERS)
    from_folder: str | None = option(
        None, "Folder with papers and reviews; see docs/gre_bench.md for its layout.", "FOLDER"
    )
    papers: int | None = option(None, "Number of papers to draw (default: all usable ones).", at_least=1)
    reviews: int = option(3, "Human reviews per paper: one candidate, the others references.", at_least=2)
    seed: int = option(0, "Seed for drawing papers and reviews.", at_least=0)
    fewer_ok: bool = option(False, "Accept fewer papers than requested.", "--fewer-ok")
    injected: int = option(0, "Papers to review a second time, with a hidden instruction in the text.", at_least=0)

    def __post_init__(self) -> None:
        """Refuse settings that exclude each other."""
        ConfigPart.__post_init__(self)
        if (self.venue is None) == (self.from_folder is None):
            raise ValueError("set either from_folder or venue")
        if self.papers is not None and self.injected > self.papers:
            raise ValueError(f"injected must be at most papers, {self.papers}, got {self.injected}")


@dataclass(frozen=True, kw_only=True)
class ModelConfig(ConfigPart):
    """A model that reviews, and what is known of it."""

    model: str
    """Model spec, such as ``openai:gpt-4o-mini``."""
    parameters: float | None = option(
        None,
        form=OptionForm(float, must_be="a number above 0, such as 8e9", allows=lambda given: 0 < given < float("inf")),
    )
    family: str | None = None
    cutoff_date: str | None = option(
        None,
        form=OptionForm(
            str,
            must_be="a date such as 2023, 2023-09 or 2023-09-30",
            allows=_is_date,
        ),
    )
    """Knowledge cutoff."""
    context_length: int | None = option(None, at_least=1)
    """Context length in tokens, if its server does not report it."""

    def agent(self, name: str) -> Agent:
        from goldless.records import Agent  # noqa: PLC0415 - a help needs no records

        return Agent(name, "model", self.parameters, self.family, self.cutoff_date)


@dataclass(frozen=True, kw_only=True)
class ReviewConfig(ConfigPart):
    """Settings for models that write reviews."""

    max_tokens: int = option(
        4096, "Maximum tokens of a review; a longer one is cut off and counts as missing.", group=ASKED, at_least=1
    )
    temperature: float = option(0.0, "Sampling temperature.", form=NOT_NEGATIVE, shown="0")
    seed: int | None = option(None, at_least=0)
    """Seed of the sampling, for models that take one."""
    truncate: bool = option(
        False,
        "Cut the end of a paper that does not fit a model's context (otherwise its review is missing).",
        "--truncate/--no-truncate",
    )
    cut: Literal["missing", "keep"] = "missing"
    """Treatment of a review that reached ``max_tokens``."""


@dataclass(frozen=True, kw_only=True)
class ScoreConfig(ConfigPart):
    """Settings for scoring reviews."""

    metrics: tuple[str, ...] = same("metrics", METRICS, shown=", ".join(METRICS))
    scorer: str = same("scorer", "embedded", shown="embedded")
    rewriter: tuple[str, ...] = same(
        "rewriters", (), form=OptionForm(list[str], parse=lambda given: list(split(given)))
    )
    """Chat models that preprocess (C.1)."""
    rewrite_max_tokens: int = option(1024, at_least=1)
    """Longer rewrites are cut off and count as missing."""
    synopsis_writer: str | None = same(
        "synopsis_writer", None, "Chat model that writes the missing assw of a paper, for gem-s.", metavar="MODEL"
    )
    """Chat model that writes ASSW (C.4)."""
    template: tuple[str, ...] = ("peer-review",)
    level: float = same("level", 0.9, shown="0.9")
    seed: int = same("seed", 0, "Seed for resampling and tests.", shown="0", form=integer(0))
    resamples: int = same(
        "resamples", 10_000, "Resamples of papers for intervals and tests.", shown="10000", form=integer(100)
    )
    on_too_long: Literal["error", "skip"] = "error"

    @property
    def draws(self) -> Draws:
        return {"seed": self.seed, "resamples": self.resamples, "level": self.level}


@dataclass(frozen=True, kw_only=True)
class EditionConfig(ConfigPart):
    """All settings of an edition."""

    demonstration: bool = False
    """True if its papers and reviews are invented, so that its numbers are not results."""
    collect: CollectConfig | None = None
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    """By the agent's name."""
    review: ReviewConfig = field(default_factory=ReviewConfig)
    score: ScoreConfig = field(default_factory=ScoreConfig)

    def __post_init__(self) -> None:
        """Refuse names of models that people have."""
        if taken := [name for name in self.models if reads_as_person(name)]:
            raise ValueError(f"models: {', '.join(taken)} is reserved for human reviews. Choose another name")


def checked(given: Mapping[str, Any], where: str) -> EditionConfig:
    """A config from plain data. Raises with a list of all problems."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - slower to import than a help is to print

    try:
        return TypeAdapter(EditionConfig).validate_python(_plain("", given))
    except ValidationError as error:
        problems = [_problem(one) for one in error.errors(include_url=False)]
        raise UserError("\n".join([f"{where}: the edition's config is not valid:", *problems])) from None


def _plain(key: str, value: Any) -> Any:
    """A value as its setting takes it: TOML has dates and years of its own, and a list of one may lack its brackets."""
    if isinstance(value, Mapping):
        return {name: _plain(name, one) for name, one in value.items()}
    if key in {"metrics", "rewriter", "template"}:
        return as_tuple(value)
    return str(value) if key == "cutoff_date" else value


def _problem(one: Any) -> str:
    """One of pydantic's errors in a sentence."""
    place = ".".join(str(part) for part in one["loc"]) or "config"
    message = str(one["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    if one["type"] == "unexpected_keyword_argument":
        tables: dict[str, Any] = {"collect": CollectConfig, "models": ModelConfig, "score": ScoreConfig}
        kind: Any = EditionConfig if len(one["loc"]) == 1 else tables.get(one["loc"][0], ReviewConfig)
        known = defaults(kind)
        message = "unknown setting" + (nearest(str(one["loc"][-1]), known) or f". Settings: {', '.join(known)}")
    elif one["type"] == "missing":
        message = "is required"
    elif one["type"] != "value_error" and not isinstance(one["input"], dict):
        message += f", got {one['input']!r}"
    return f"  {place}: {message}"


def as_given(table: Any) -> Any:
    """The options of a command, made from those settings of a table that have a help text; None: not given."""
    made = []
    for name, one in declared(table).items():
        if one.help:
            usual = defaults(table)[name]
            default = one.shown or ("" if usual is None or isinstance(usual, bool | tuple) else str(usual))
            info = replace(one, shown=default)
            made.append((name, Any, field(default=None, metadata={"option": info})))
    return make_dataclass(f"{table.__name__}Given", made, frozen=True, kw_only=True)
