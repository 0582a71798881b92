"""``goldless serve-jury``: a qualified jury behind one OpenAI-compatible address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goldless.cli.command import own, verb
from goldless.cli.console import say
from goldless.errors import UserError
from goldless.runs.options import Options

if TYPE_CHECKING:
    from goldless.judging.licences import Licence


@verb("task_description", "journal", helps={"task_description": "As it was in the exam."})
def serve_jury(
    licences: Annotated[
        list[str],
        typer.Argument(
            metavar="LICENCE…",
            help="Licence files; FILE=SPEC where it cannot tell how to reach its model (gguf, a server, scripted).",
        ),
    ],
    *,
    host: Annotated[str, own("Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, own("Port to listen on.")] = 8321,
    token_variable: Annotated[
        str | None, own("Environment variable with the bearer token that callers must send.", flags="NAME")
    ] = None,
    options: Options,
) -> None:
    """Answer chat completions with the weighted, swap-balanced verdict of licensed reviewers. Stop it with Ctrl-C.

    Example: goldless serve-jury licences/*.json
    """
    import anyio

    from goldless.jury.server import token_from

    held = dict(map(_split, licences))
    if len(held) < len(licences):
        raise UserError("each licence is given once")
    token = None if token_variable is None else token_from(token_variable)
    anyio.run(_serve, held, host, port, token, options)


def _split(item: str) -> tuple[Path, str]:
    """The licence's file and how its model is reached."""
    from goldless.judging.licences import read_licence

    path, equals, spec = item.partition("=")
    if equals and not spec:
        raise UserError(f"{item!r}: give LICENCE or LICENCE=SPEC")
    return Path(path), spec or _spec_of(read_licence(Path(path)))


def _spec_of(licence: Licence) -> str:
    from goldless.models.catalogue import specification_of

    spec = specification_of(licence.identity)
    if spec is not None:
        return spec
    raise UserError(
        f"the licence of {licence.reviewer} does not say how to reach its model: give LICENCE=SPEC, such as "
        "FILE.json=gguf:PATH or FILE.json=http://HOST:PORT/v1#MODEL"
    )


async def _serve(held: dict[Path, str], host: str, port: int, token: str | None, options: Options) -> None:
    from goldless.judging.judges import find_judge
    from goldless.judging.licences import prompt_hash, read_licence, refuse
    from goldless.jury.panel import Juror, Jury
    from goldless.jury.server import serve
    from goldless.runs.opening import Part, open_journal, open_models

    found = {path: read_licence(path) for path in held}
    scales = {licence.scale for licence in found.values()}
    kinds = {licence.task_kind for licence in found.values()}
    if len(scales) > 1 or len(kinds) > 1:
        raise UserError(f"jurors judge the same thing on the same scale; these are for {', '.join(scales | kinds)}")
    scale = find_judge(scales.pop())
    wording, kind = prompt_hash(scale, options.task_description), kinds.pop()
    claimed = [(licence.identity, licence) for licence in found.values()]
    refuse(claimed, scale=scale.name, prompt_hash=wording, task_kind=kind)  # before any model is reached
    parts = [Part(str(path), spec, "both") for path, spec in held.items()]
    async with open_journal(options.journal) as journal, open_models(parts, Options(say=say), journal) as models:
        pairs = [(models[str(path)].identity, licence) for path, licence in found.items()]
        refuse(pairs, scale=scale.name, prompt_hash=wording, task_kind=kind)
        jurors = []
        for path, licence in found.items():
            model = models[str(path)]
            scoring = model.model.capabilities.scoring and bool(scale.labels)
            jurors.append(
                Juror(
                    path.stem,
                    model.scorer if scoring else model.chat,
                    scale,
                    licence.weight,
                    task_description=options.task_description,
                )
            )
        await serve(Jury(jurors), host=host, port=port, token=token, ready=lambda url: say(f"jury listens on {url}"))
