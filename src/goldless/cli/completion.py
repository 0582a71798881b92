"""``goldless config completion``: scripts for shells, and the words that they offer.

A script calls ``goldless`` with ``GOLDLESS_COMPLETING`` set and the words typed so far, the last of them unfinished.
The answer is one line per word on offer, with a tab and what it is.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from goldless.cli.command import verb
from goldless.runs.option_forms import argument

LISTED = {"templates", "template", "critic_prompt", "scale", "debate", "exams", "perturbations", "strategies"}
"""Options whose help lists their words."""
STUDY_FILES = (".csv", ".jsonl", ".parquet", ".json", ".tsv")
RUN_FILE = "made_by.json"
Offers = Iterable[tuple[str, str]]
"""Words, each with what it is."""

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


@dataclass(frozen=True, kw_only=True)
class Shell:
    """Options of ``completion``."""

    shell: Literal["bash", "zsh", "fish"] = argument("SHELL", "bash, zsh or fish.")


@verb()
def completion(own: Shell) -> None:
    """Print a script that makes the Tab key complete verbs, options, metrics, models and run folders.

    bash: add the line eval "$(goldless config completion bash)" to ~/.bashrc. zsh: the same with zsh, in ~/.zshrc after
    compinit. fish: write it to ~/.config/fish/completions/goldless.fish.

    Examples:
      goldless config completion bash
      goldless config completion fish
    """
    typer.echo(SCRIPTS[own.shell], nl=False)


def complete(app: typer.Typer, panels: Mapping[str, Mapping[str, str]], words: Sequence[str]) -> None:
    """Print the words on offer for a command line, the last word of which is unfinished."""
    lines = {name: line for verbs in panels.values() for name, line in verbs.items()}
    *before, unfinished = words or [""]
    for word, said in dict.fromkeys(_offers(typer.main.get_command(app), lines, before, unfinished)):
        if word.startswith(unfinished):
            typer.echo(f"{word}\t{said}" if said else word)


def _offers(command: Any, lines: Mapping[str, str], before: Sequence[str], unfinished: str) -> Offers:
    """The words for what follows others; ``lines``: the verbs of a group with what they do."""
    if not hasattr(command, "commands"):
        return _for_verb(command, before, unfinished)
    word = next((word for word in before if not word.startswith("-")), None)
    if word is None:
        return _options(command, before) if unfinished.startswith("-") else lines.items()
    if word not in command.commands:
        return ()
    found = command.commands[word]
    under = getattr(found, "commands", {})
    helps = {name: _plain((one.help or "").split("\n\n")[0]) for name, one in under.items()}
    return _offers(found, helps, before[before.index(word) + 1 :], unfinished)


def _for_verb(command: Any, before: Sequence[str], unfinished: str) -> Offers:
    takers = {flag: one for one in command.params for flag in one.opts if flag.startswith("-") and not _is_flag(one)}
    if before and before[-1] in takers:
        return _values(command, takers[before[-1]], unfinished)
    flag, equals, value = unfinished.partition("=")
    if equals and flag in takers:
        return ((f"{flag}={word}", said) for word, said in _values(command, takers[flag], value))
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    values = {i + 1 for i, word in enumerate(before) if word in takers}
    typed = sum(i not in values and not word.startswith("-") for i, word in enumerate(before))
    if unfinished.startswith("-") or not arguments or (typed >= len(arguments) and arguments[-1].nargs == 1):
        return _options(command, before)
    return _values(command, arguments[min(typed, len(arguments) - 1)], unfinished)


def _options(command: Any, given: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The options that were not given yet, or may be repeated."""
    used = set(given)
    for one in command.params:
        shown = one.param_type_name == "option" and not one.hidden
        if shown and (one.multiple or not used & {*one.opts, *one.secondary_opts}):
            yield one.opts[0], _plain(one.help or "")
    yield "--help", "Show this message and exit."


def _values(command: Any, one: Any, unfinished: str) -> Offers:
    """The words that an option or argument takes; those before a comma are kept."""
    kept, comma, _ = unfinished.rpartition(",")
    metavar = one.metavar or ""
    words: Offers = ()
    annotation = inspect.signature(command.callback).parameters[one.name].annotation
    kinds = [annotation, *get_args(annotation), *(kind for inner in get_args(annotation) for kind in get_args(inner))]
    if choices := [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]:
        return ((word, "") for word in choices)
    if "STUDY" in metavar or "RUN" in metavar or "FILES" in metavar:
        return _paths(unfinished, studies="STUDY" in metavar or "FILES" in metavar)
    if one.name in {"metrics", "metric"}:
        words = _metrics()
    elif "MODEL" in metavar or one.name == "base":
        words = _models()
    elif one.name in LISTED:
        listed = _plain(one.help).partition(": ")[2].partition(".")[0].partition(", each")[0]
        words = ((word, "") for word in re.findall(r"[\w-]+", listed))
    return ((f"{kept}{comma}{word}", said) for word, said in words)


def _metrics() -> Iterator[tuple[str, str]]:
    from goldless.metrics.catalogue import BASELINES, CATALOGUE, METRICS
    from goldless.user_metrics.catalogue import USER_METRICS

    for name, said in (*METRICS.items(), *USER_METRICS.items()):
        yield re.sub(r"([\[:])[A-Z].*", r"\1", name), said
    for name in (*BASELINES, *(plugin.name for plugin in CATALOGUE.plugins() if plugin.failure is None)):
        if name not in METRICS:
            yield name, ""


def _models() -> Iterator[tuple[str, str]]:
    from goldless.models.catalogue import PROVIDERS

    for prefix, provider in PROVIDERS.all().items():
        said = provider.forms[0].purpose if provider.forms else ""
        yield (prefix if provider.bare else f"{prefix}:{'//' * prefix.startswith('http')}"), said


def _paths(unfinished: str, *, studies: bool) -> Iterator[tuple[str, str]]:
    """Run folders, other folders, and files of studies where these are wanted."""
    if studies:
        yield "sample", "The sample study"
    begin, name = os.path.split(unfinished)
    folder = Path(begin or ".").expanduser()
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        word = os.path.join(begin, path.name)  # noqa: PTH118 - as it was typed, ~ and ./ too
        if path.name.startswith(".") and not name:
            continue
        if path.is_dir():
            yield (word, "Run folder") if (path / RUN_FILE).exists() else (f"{word}/", "")
        elif studies and path.suffix in STUDY_FILES:
            yield word, "File"


def _is_flag(one: Any) -> bool:
    return bool(getattr(one, "is_flag", False))


def _plain(text: str) -> str:
    """A help text without markup."""
    return re.sub(r"\s*\[/?dim\]", " ", text).replace("\\[", "[").strip()
