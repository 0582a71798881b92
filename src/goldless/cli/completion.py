"""``goldless completion``: scripts for shells, and the words that they offer.

A script calls ``goldless`` with ``GOLDLESS_COMPLETING`` set and the words typed so far, the last of them unfinished.
The answer is one line per word on offer, with a tab and what it is.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from goldless.cli.command import verb

MODELS = {
    *(
        "scorer",
        "jurors",
        "critic",
        "rewriters",
        "rewriter",
        "synopsis_writer",
        "writer",
        "sampler",
        "changer",
        "reviewers",
        "models",
    ),
    *("model", "base"),
}
"""Parameters that take models."""
LISTED = {"templates", "template", "critic_prompt", "scale", "debate", "exams", "perturbation", "strategy"}
"""Parameters whose help lists their words."""
STUDY_FILES = (".csv", ".jsonl", ".parquet", ".json", ".tsv")
RUN_FILE = "made_by.json"
Offer = tuple[str, str]

BASH = """\
_goldless() {
    local line=${COMP_LINE:0:COMP_POINT} current prefix reply
    local -a words
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[${#words[@]}-1]}
    # bash splits words at : and =, so that only the rest behind the last of them is completed
    prefix=${current%"${current##*[:=]}"}
    COMPREPLY=()
    while IFS= read -r reply; do
        reply=${reply%%$'\\t'*}
        COMPREPLY+=("${reply#"$prefix"}")
    done < <(GOLDLESS_COMPLETING=1 "$1" "${words[@]:1}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} == 1 && $COMPREPLY == *[:/=\\[] ]] && type compopt &>/dev/null; then
        compopt -o nospace
    fi
}
complete -o default -F _goldless goldless
"""
ZSH = """\
#compdef goldless
_goldless() {
    local -a replies whole begun
    local reply word
    replies=("${(@f)$(GOLDLESS_COMPLETING=1 "${words[1]}" "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -z ${replies[1]} ]]; then
        _files
        return
    fi
    for reply in $replies; do
        word=${reply%%$'\\t'*}
        reply="${word//:/\\\\:}:${${reply#$word}#$'\\t'}"
        if [[ $word == *[:/=\\[] ]]; then begun+=("$reply"); else whole+=("$reply"); fi
    done
    (( ${#whole} )) && _describe -V goldless whole
    (( ${#begun} )) && _describe -V goldless begun -S ''
    return 0
}
if [[ $funcstack[1] == _goldless ]]; then
    _goldless "$@"
else
    compdef _goldless goldless
fi
"""
FISH = """\
function __goldless_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    test -n "$current"; or set current ''
    set -l replies (GOLDLESS_COMPLETING=1 $words[1] $words[2..-1] $current 2>/dev/null)
    if test (count $replies) -eq 0
        __fish_complete_path $current
    else
        printf '%s\\n' $replies
    end
end
complete --command goldless --no-files --arguments '(__goldless_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@verb()
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that makes the Tab key complete verbs, options, metrics, models and run folders.

    bash: add the line eval "$(goldless completion bash)" to ~/.bashrc. zsh: the same with zsh, in ~/.zshrc after
    compinit. fish: write it to ~/.config/fish/completions/goldless.fish.

    Examples:
      goldless completion bash
      goldless completion fish
    """
    typer.echo(SCRIPTS[shell], nl=False)


def complete(app: typer.Typer, panels: Mapping[str, Mapping[str, str]], words: Sequence[str]) -> None:
    """Print the words on offer for a command line, the last word of which is unfinished."""
    root = typer.main.get_command(app)
    lines = {name: line for verbs in panels.values() for name, line in verbs.items()}
    for value, said in offers(root, lines, words):
        typer.echo(f"{value}\t{said}" if said else value)


def offers(root: Any, lines: Mapping[str, str], words: Sequence[str]) -> Iterator[Offer]:
    """The words on offer; ``lines``: the verbs of the root with what they do."""
    command, rest, unfinished = root, [], words[-1] if words else ""
    for word in words[:-1]:
        if hasattr(command, "commands"):
            if word in command.commands:
                command = command.commands[word]
            elif not word.startswith("-"):
                return
        else:
            rest.append(word)
    if hasattr(command, "commands"):
        found = lines if command is root else {name: _first_line(one) for name, one in command.commands.items()}
        yield from _fitting(unfinished, found.items() if not unfinished.startswith("-") else _options(command, rest))
    else:
        yield from _of_verb(command, rest, unfinished)


def _of_verb(command: Any, rest: Sequence[str], unfinished: str) -> Iterator[Offer]:
    flags = {flag: parameter for parameter in command.params for flag in parameter.opts if flag.startswith("-")}
    before = flags.get(rest[-1]) if rest else None
    flag, equals, value = unfinished.partition("=")
    if before is not None and not _is_flag(before):
        yield from _values(command, before, unfinished)
    elif equals and flag in flags:
        yield from ((f"{flag}={word}", said) for word, said in _values(command, flags[flag], value))
    elif unfinished.startswith("-"):
        yield from _fitting(unfinished, _options(command, rest))
    else:
        yield from _of_arguments(command, _positions(rest, flags), unfinished)


def _positions(rest: Sequence[str], flags: Mapping[str, Any]) -> int:
    """How many arguments were typed."""
    taken = {i + 1 for i, word in enumerate(rest) if word in flags and not _is_flag(flags[word])}
    return sum(i not in taken and not word.startswith("-") for i, word in enumerate(rest))


def _of_arguments(command: Any, typed: int, unfinished: str) -> Iterator[Offer]:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    if not arguments or (typed >= len(arguments) and arguments[-1].nargs == 1):
        yield from _fitting(unfinished, _options(command, ()))
    else:
        yield from _values(command, arguments[min(typed, len(arguments) - 1)], unfinished)


def _options(command: Any, given: Iterable[str]) -> Iterator[Offer]:
    """The options that were not given yet, or may be repeated."""
    used = set(given)
    for parameter in (one for one in command.params if one.param_type_name == "option" and not one.hidden):
        if parameter.multiple or not used & {*parameter.opts, *parameter.secondary_opts}:
            yield parameter.opts[0], _plain(parameter.help or "")
    yield "--help", "Show this message and exit."


def _values(command: Any, parameter: Any, unfinished: str) -> Iterator[Offer]:
    """The words that a parameter takes; those before a comma are kept."""
    annotation = inspect.signature(command.callback).parameters[parameter.name].annotation
    kinds = {annotation, *get_args(annotation), *(kind for one in get_args(annotation) for kind in get_args(one))}
    words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    kept, comma, last = unfinished.rpartition(",")
    metavar = parameter.metavar or ""
    if words:
        yield from _fitting(unfinished, ((word, "") for word in words))
    elif parameter.name in {"metrics", "metric"}:
        yield from ((f"{kept}{comma}{word}", said) for word, said in _fitting(last, _metrics()))
    elif parameter.name in MODELS:
        yield from ((f"{kept}{comma}{word}", said) for word, said in _fitting(last, _models()))
    elif parameter.name in LISTED:
        listed = re.findall(
            r"[\w-]+", _plain(parameter.help).partition(": ")[2].partition(".")[0].partition(", each")[0]
        )
        yield from ((f"{kept}{comma}{word}", "") for word, _ in _fitting(last, ((word, "") for word in listed)))
    elif "STUDY" in metavar or "RUNS" in metavar or parameter.name in {"run", "files"}:
        yield from _paths(unfinished, studies="STUDY" in metavar or parameter.name == "files")


def _metrics() -> Iterator[Offer]:
    from goldless.metrics.catalogue import BASELINES, CATALOGUE, METRICS
    from goldless.user_metrics.catalogue import USER_METRICS

    for name, said in (*METRICS.items(), *USER_METRICS.items()):
        yield re.sub(r"([\[:])[A-Z].*", r"\1", name), said
    for name in (*BASELINES, *(plugin.name for plugin in CATALOGUE.plugins() if plugin.failure is None)):
        if name not in METRICS:
            yield name, ""


def _models() -> Iterator[Offer]:
    from goldless.models.catalogue import PROVIDERS

    for prefix, provider in PROVIDERS.all().items():
        said = provider.forms[0].purpose if provider.forms else ""
        yield (prefix if provider.bare else f"{prefix}:{'//' * prefix.startswith('http')}"), said


def _paths(unfinished: str, *, studies: bool) -> Iterator[Offer]:
    """Run folders, other folders, and files of studies where these are wanted."""
    if studies and "sample".startswith(unfinished):
        yield "sample", "The sample study"
    begin, name = os.path.split(unfinished)
    try:
        found = sorted(Path(begin or ".").expanduser().iterdir())
    except OSError:
        return
    for path in found:
        if not path.name.startswith(name) or (path.name.startswith(".") and not name):
            continue
        word = os.path.join(begin, path.name)  # noqa: PTH118 - as it was typed, ~ and ./ too
        if path.is_dir():
            yield (word, "Run folder") if (path / RUN_FILE).exists() else (f"{word}/", "")
        elif studies and path.suffix in STUDY_FILES:
            yield word, "File"


def _fitting(unfinished: str, found: Iterable[Offer]) -> Iterator[Offer]:
    yield from dict.fromkeys((word, said) for word, said in found if word.startswith(unfinished))


def _is_flag(parameter: Any) -> bool:
    return bool(getattr(parameter, "is_flag", False))


def _first_line(command: Any) -> str:
    return _plain((command.help or "").split("\n\n")[0])


def _plain(text: str) -> str:
    """A help text without markup."""
    return re.sub(r"\s*\[/?dim\]", " ", text).replace("\\[", "[").strip()
