"""Peer prediction: 29 ways to summarise, in good faith or not, with what a critic, judges and a scorer said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import orjson
import polars as pl

from goldless.apps.datasets.dataset import Dataset, SourceSeries, Tables

N_EXAMPLES = 200
SERIES = (
    "log_individual_examples/peer_prediction_example_{}.json",
    "tvd_mi_individual_examples/tvd_mi_example_{}.json",
    "llm_context_individual_examples/judge_with_context_example_{}.json",
    "llm_without_context_individual_examples/judge_without_context_example_{}.json",
)
"""Files of each example: log-probabilities, the critic's contrasts, and two judges' wins."""
ATTACKED = "eval_results/summarization_gpt_4o_mini_20250708_012535_{}_transformed_results"
FOLDERS = {
    "samsum": "eval_results/samsum_200_config_results",
    "reddit": "eval_results/reddit_tifu_200_config_results",
    "case_flip": ATTACKED.format("case_flip"),
    "format": ATTACKED.format("format"),
    "padding": ATTACKED.format("padding"),
    "pattern": ATTACKED.format("pattern"),
}
ATTACKS = ("case_flip", "format", "padding", "pattern")
SIZES_AND_HASHES = {
    "samsum": (
        (82263, "459ea89280998ac24b6a4db0c56b53e74c4e2397dd49a37afae7f4a6ddaecffb"),
        (13464, "a54b84224c5aa41a525019060f9f57019d0294fd5e5efc5ffe081bf547bdda09"),
        (12183, "92101aeb8b426b284137e048fe4fa90d62cfef920cf4e2ae41b46cafbc4363c1"),
        (12181, "676971fde5457db8951326b6aeb2109d3c1e47e56ed96f824a6f221ba4dc0d99"),
    ),
    "reddit": (
        (83132, "f388168bea73437f4ca331e5923b0c37b6da062112372bd1e3762121af36ec70"),
        (13387, "e9e978ffd5cd1b1cfeecaf505e4fd7f9f111796d575d02563751225313160047"),
        (12192, "dd31b8ee5415f9aabfe91118ca31ba666ed0763da22a3eba27ac8c839dc21ca6"),
        (12194, "aae57219af88b3096f39a9db783d6d7700f1392ff138bfd58653e68de4d4af27"),
    ),
    "case_flip": (
        (81158, "2a5e9ea28ba36eb79296bed510ff58ac3638178915705d70805589eddbd709b2"),
        (13294, "9c7d97a794aa028c068a3f202f5029f87a6505375a5e01b10ee455a2ca00d524"),
        (12197, "95f1daca7a520cd40df625c1c773296106fe7f9fb51a46f69db857ad6eda413f"),
        (12201, "7f5573abfd1399bf549cb364830882bf0cf3d37da8df393826b02272dbf037c0"),
    ),
    "format": (
        (83226, "2b96239886e7b5d953910a24127ee3902a8c756b32319f61ff6b3b7455529905"),
        (13328, "6a68928a3d6aefd65cee46aaeb87b2c28141dac26f114fb88ec81b03eabfec15"),
        (12192, "1e52ec257c6796d41c20b8d4a8b6935421bf92c942988eb2def4753eebcd10eb"),
        (12197, "7f3b18bf6af1ad412868a126dccc81bb997f37d9ebc576401950f1eb408de050"),
    ),
    "padding": (
        (83270, "0834e5a749dcf21322a85d22a3b34f4da5238645a7197b2ab7e8557d5d45c268"),
        (13349, "c25fee172f61bd77edf208be83808a0c3ffdff4ed85374f7a1c2cb53c40a2a89"),
        (12193, "6172a9cd58102c1c17e65e2c682637559d9f05a29f55acd7d904ba0156199ba2"),
        (12197, "499ab08f07116a56f9621074d9b9f83468596ae5c22e992720226997e2922225"),
    ),
    "pattern": (
        (91756, "adb568416a5bd56791a2f7be8bd161ef52aa5b779a3a928e2d3ad3313e581ae4"),
        (13305, "7e01ce461c423b12c17c79d29ca82226f9a3fd86d6aa1f31a3cfdd60cfd0aeda"),
        (12208, "b73a520c3c116af8ec776d7e5c685b488adebc56191cd41c8ae0f16fb078f54e"),
        (11753, "c8686cfdc56395c13088a9eb4940eb6972170ec04bd5b40ebbc3d3735e69267f"),
    ),
}
"""Most bytes and hash of each series, by folder, in the order of the series above."""
REFERENCE = "Reference"
PROBLEMATIC = {
    "Fact Manipulation",
    "Selective Omission",
    "Misleading Emphasis",
    "Sentiment Flip",
    "Conspiracy Theory",
    "Contradictory",
    "Context Removal",
    "False Attribution",
    "Agenda Push",
    "Cherry Pick",
    "Low Effort",
    "Ultra Concise",
    "Template Response",
    "Surface Skim",
    "Minimal Detail",
}


def convert(name: str, attacks: Sequence[str], files: Mapping[str, bytes]) -> Tables:
    """Make the tables of a study, and those of its copies in which every text was attacked."""
    tables = dict(tables_of_folder(name, name, files))
    for attack in attacks:
        of_attack = tables_of_folder(attack, name, files)
        tables |= {f"attacks/{attack}/{table}": of_attack[table] for table in of_attack if table != "responses"}
    return tables


def tables_of_folder(folder: str, prefix: str, files: Mapping[str, bytes]) -> Tables:
    """The tables of one folder of the repository."""
    responses: list[dict[str, Any]] = []
    logprobs: list[dict[str, Any]] = []
    contrasts: list[dict[str, Any]] = []
    with_context: list[dict[str, Any]] = []
    without_context: list[dict[str, Any]] = []
    agents: list[str] = []
    for number in range(N_EXAMPLES):
        task = f"{prefix}-{number:03}"
        scored, criticised, judged, judged_alone = (
            orjson.loads(files[f"{FOLDERS[folder]}/{series.format(number)}"]) for series in SERIES
        )
        agents = scored["condition_keys"]
        for agent, text in zip(agents, scored["translations"], strict=True):
            responses.append({"task": task, "agent": agent, "text": text})
        logprobs += logprob_rows(task, scored)
        contrasts += pair_rows(task, agents, criticised["tvd_mi_matrix"], "contrast")
        with_context += win_rows(task, judged)
        without_context += win_rows(task, judged_alone)
    tables = {
        "responses": responses,
        "agents": [{"agent": agent, "group": group_of(agent)} for agent in agents],
        "logprobs": logprobs,
        "critic_contrasts": contrasts,
        "judge_with_context": with_context,
        "judge_without_context": without_context,
    }
    return {table: pl.DataFrame(rows) for table, rows in tables.items() if rows}


def group_of(agent: str) -> str:
    """The group of an agent, as the paper assigns it."""
    if agent == REFERENCE:
        return "reference"
    return "problematic" if agent in PROBLEMATIC else "good faith"


def logprob_rows(task: str, scored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Mean log-probabilities per token of each response, alone and given each other one."""
    name, agents = "mean_token_logprob_nats", scored["condition_keys"]
    rows = [
        {"task": task, "target": target, "given": None, name: value}
        for target, value in zip(agents, scored["logp_base"], strict=True)
    ]
    given_others = pair_rows(task, agents, scored["logp_cond"], name)
    rows += [
        {"task": task, "target": pair["first"], "given": pair["second"], name: pair[name]} for pair in given_others
    ]
    return rows


def win_rows(task: str, judged: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A judge's wins; none where it compared nothing."""
    if judged["metadata"]["total_comparisons"] == 0:
        return []
    return pair_rows(task, judged["condition_keys"], judged["win_matrix"], "first_wins")


def pair_rows(task: str, agents: Sequence[str], matrix: Sequence[Sequence[float]], name: str) -> list[dict[str, Any]]:
    """The cells of a matrix outside its diagonal."""
    rows = []
    for first, values in zip(agents, matrix, strict=True):
        for second, value in zip(agents, values, strict=True):
            if first != second:
                rows.append({"task": task, "first": first, "second": second, name: value})
    return rows


def series_of(*folders: str) -> tuple[SourceSeries, ...]:
    """The files of folders of the repository."""
    return tuple(
        SourceSeries(f"{FOLDERS[folder]}/{path}", N_EXAMPLES, most_bytes, sha256)
        for folder in folders
        for path, (most_bytes, sha256) in zip(SERIES, SIZES_AND_HASHES[folder], strict=True)
    )


REPOSITORY = "zrobertson466920/llm-peer-prediction"
COMMIT = "d1333d1ec1e2c2be104401d628820a3ab8a38623"
CITATION = "Robertson et al. 2025, Information-Theoretic Measures for LLM Output Evaluation"
SAMSUM = Dataset(
    name="samsum",
    question="Was a summary of a dialogue written in good faith, or made to mislead? Known by construction.",
    size="30 agents, 200 dialogues, with recorded evidence",
    licence=None,
    citation=CITATION,
    repository=REPOSITORY,
    commit=COMMIT,
    files=series_of("samsum"),
    convert=partial(convert, "samsum", ()),
)
REDDIT = Dataset(
    name="reddit",
    question="Was a summary of a post written in good faith, or made to mislead? Also with four attacks on all texts.",
    size="30 agents, 200 posts, with recorded evidence",
    licence=None,
    citation=CITATION,
    repository=REPOSITORY,
    commit=COMMIT,
    files=series_of("reddit", *ATTACKS),
    convert=partial(convert, "reddit", ATTACKS),
)
