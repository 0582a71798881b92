"""``goldless demo --study``: a small study to try everything on."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from shlex import quote

from goldless.cli.command import verb
from goldless.cli.console import out
from goldless.errors import UserError
from goldless.runs.option_forms import argument

NAME = "answers.csv"


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """Options of ``quickstart``."""

    folder: Path = argument("FOLDER", "Where to write the file.", Path())


@verb()
def quickstart(own: Beginning) -> None:
    """Write answers.csv, a small study of invented answers to ten support tickets, and say what to run next.

    Examples:
      goldless demo --study
      goldless demo --study trial
    """
    path = own.folder / NAME
    content = files("goldless.cli").joinpath("quickstart_answers.csv").read_bytes()
    try:
        if path.exists() and path.read_bytes() != content:
            raise UserError(
                f"{path} exists and would be overwritten. Choose another folder: goldless demo --study FOLDER"
            )
        own.folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from error
    name = quote(str(path))
    out().print(f"Wrote {path}: 10 tasks, 4 agents, 40 responses, with prompts. Next:", markup=False, soft_wrap=True)
    for command, purpose in (
        (f"goldless study show {name}", "what is in it"),
        (f"goldless score {name}", "who is most informative, on this machine"),
        (f"goldless crashtest {name} --metric rouge-l,length", "which cheap metric can be trusted"),
    ):
        out().print(f"  {command}  # {purpose}", markup=False, soft_wrap=True)
