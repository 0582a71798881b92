"""``goldless jury``: a qualified jury behind one OpenAI-compatible address."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goldless.cli.command import verb
from goldless.cli.console import run_async, say
from goldless.errors import UserError
from goldless.runs.option_forms import LINES, argument, option
from goldless.runs.options import Options

if TYPE_CHECKING:
    from goldless.apps.jury.server import Tokens
    from goldless.judging.licences import Licence


@dataclass(frozen=True, kw_only=True)
class JuryOptions:
    """Options of ``jury``."""

    licences: list[str] = argument(
        "LICENCE…",
        "Licence files; FILE=MODEL if the licence does not say how to reach its model (gguf, a server).",
        form=LINES,
    )
    host: str = option("127.0.0.1", "Address to listen on.")
    port: int = option(8321, "Port to listen on.")
    token_variable: str | None = option(
        None,
        "Environment variable with the bearer token, or several, of which clients must send one.",
        "NAME",
        group="Access",
    )
    token_file: Path | None = option(None, "File with such tokens, one per line; read anew for every request.", "FILE")


@verb(
    *("task_description", "journal"),
    prominent=("host", "port", "task_description", "journal"),
    helps={"task_description": "Task description as in the exam."},
)
def jury(verb_options: JuryOptions, options: Options) -> None:
    """Answer chat completions with the weighted, order-balanced verdict of licensed reviewers. Stop it with Ctrl-C.

    Examples:
      goldless jury licences/*.json
      goldless jury licences/a.json licences/b.json --port 8000
    """
    from goldless.apps.jury.server import Tokens

    licensed = [_read_licence(item) for item in verb_options.licences]
    if len({path for path, _, _ in licensed}) < len(licensed):
        raise UserError("a licence was given twice; name each once")
    if verb_options.token_variable is not None and verb_options.token_file is not None:
        raise UserError("--token-variable and --token-file exclude each other. Give one")
    tokens = None
    if verb_options.token_variable is not None or verb_options.token_file is not None:
        tokens = Tokens(variable=verb_options.token_variable, file=verb_options.token_file)
    run_async(_serve, licensed, verb_options, tokens, options)


def _read_licence(item: str) -> tuple[Path, Licence, str]:
    """Return a licence with its file and the model spec of its reviewer."""
    from goldless.judging.licences import Licence
    from goldless.models.catalogue import specification_of

    path, equals, spec = item.partition("=")
    if equals and not spec:
        raise UserError(f"a licence must be FILE or FILE=MODEL, got {item!r}")
    licence = Licence.read(Path(path))
    known = spec or specification_of(licence.identity)
    if known is None:
        raise UserError(
            f"the licence of {licence.reviewer} does not say how to reach its model. Try FILE.json=gguf:PATH or "
            "FILE.json=http://HOST:PORT/v1#MODEL"
        )
    return Path(path), licence, known


async def _serve(
    licensed: list[tuple[Path, Licence, str]], verb_options: JuryOptions, tokens: Tokens | None, options: Options
) -> None:
    from goldless.apps.jury.panel import Juror, Jury, jury_worth
    from goldless.apps.jury.server import listening
    from goldless.http_serving import serve_until_told
    from goldless.judging.judges import find_judge
    from goldless.judging.licences import Licence
    from goldless.runs.opening import Part, open_journal, open_models

    licences = [licence for _, licence, _ in licensed]
    scales, kinds = {one.scale for one in licences}, {one.task_kind for one in licences}
    if len(scales) > 1 or len(kinds) > 1:
        raise UserError(
            f"all licences must be for one task kind and one scale, got {', '.join(sorted(scales | kinds))}"
        )
    scale = find_judge(scales.pop())
    requirements: dict[str, Any] = {"scale": scale, "task_description": options.review.task_description}
    requirements["task_kind"] = kinds.pop()
    Licence.require([(one.identity, one) for one in licences], **requirements)  # before any model is reached
    parts = [Part(str(path), spec, "both") for path, _, spec in licensed]
    async with (
        open_journal(options.models.journal) as journal,
        open_models(parts, replace(options, say=say), journal) as models,
    ):
        Licence.require([(models[str(path)].identity, licence) for path, licence, _ in licensed], **requirements)
        described = options.review.task_description
        jurors = [
            Juror(path.stem, models[str(path)].judge, scale, licence.weight, described) for path, licence, _ in licensed
        ]
        worth = jury_worth(licences)
        say(str(worth))
        server = listening(Jury(jurors, worth=worth), host=verb_options.host, port=verb_options.port, tokens=tokens)
        await serve_until_told(server, lambda url: say(f"jury listens on {url}"))
