"""Auto-PRE on XSum: summaries rated and compared by people, with the verdicts of ten reviewers and their exams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import polars as pl

from goldless.apps.datasets.dataset import Dataset, SourceFile, Tables

DATA = "data-Xsum"
OUTPUT = "output"
ARTICLES = f"{DATA}/XSum-100-thre2500_v2.json"
REFERENCES = f"{DATA}/XSum-100-thre2500_v2.tsv"
RATINGS = f"{DATA}/annotation/pointwise.json"
PREFERENCES = f"{DATA}/annotation/preference.json"
N_TASKS = 100
AGENTS = ("alpaca-7b", "ChatGLM2-6B", "chatgpt", "claude", "fastchat-t5-3b", "RWKV-4-Raven-7B-v11", "vicuna-7b")
ALL_PAIRS = f"{DATA}/response0-XSum-thre2500-100-onlyL_pairwise_v2_total11LLMs_{{}}.tsv"
OTHER_PAIRS = f"{DATA}/pairwise/response0-XSum-thre2500-100-onlyL_pairwise_v2_total11LLMs_{{}}.tsv"
PAIRS_OF_REVIEWER = {
    "vicuna-7b": OTHER_PAIRS,
    "chatglm3-6b": ALL_PAIRS,
    "baichuan2-13b": ALL_PAIRS,
    "fastchat-t5-3b": ALL_PAIRS,
    "chatgpt": ALL_PAIRS,
    "chatglm_pro": ALL_PAIRS,
    "gpt4": ALL_PAIRS,
    "deepseek-r1": OTHER_PAIRS.replace("XSum", "Xsum"),
    "chatEval": OTHER_PAIRS,
    "claude": ALL_PAIRS,
}
"""The file of each reviewer's verdicts on pairs."""
ORDER_OF_PAIRS = "gpt4"
"""A reviewer whose file begins with the pairs in order; in the files of some others are only those of the agents."""
WITHOUT_RATINGS = {"claude"}
EXAMINED = ("vicuna-7b", "chatglm3-6b", "baichuan2-13b", "fastchat-t5-3b", "chatgpt", "chatglm_pro", "gpt4")
NAMES_IN_OUTPUT = {"gpt4": "gpt-4", "chatgpt": "gpt-3.5-turbo", "fastchat-t5-3b": "fastchat-t5"}
"""Reviewers that some files name in another way."""
VERDICTS = {-1: "one", 1: "two"}
CONFIDENCES = {5: "expert", 4: "high", 3: "medium", 2: "low"}
PREFERENCE_UNIT = 10
"""People moved a slider in tenths; a negative number prefers the first summary."""


def convert(files: Mapping[str, bytes]) -> Tables:
    """Make the tables of a study with people's labels, recorded judgements and exams."""
    tasks = [f"xsum-{number:03}" for number in range(N_TASKS)]
    articles = [row["original_text"] for row in json_lines(files[ARTICLES])]
    references = [line.split("\t")[-1] for line in files[REFERENCES].decode("utf-8").splitlines()[1:]]
    responses = []
    for agent in AGENTS:
        texts = [row["response"] for row in json_lines(files[summaries_path(agent)])]
        responses += [
            {"task": task, "agent": agent, "text": text} for task, text in zip(tasks, texts[:N_TASKS], strict=True)
        ]
    return {
        "tasks": pl.DataFrame({"task": tasks, "prompt": articles, "reference": references}),
        "responses": pl.DataFrame(responses),
        "labels": pl.DataFrame(label_rows(tasks, articles, files), infer_schema_length=None),
        "judgements": pl.DataFrame(judgement_rows(tasks, files), infer_schema_length=None),
        "exams": pl.DataFrame(exam_rows(tasks, files), infer_schema_length=None),
    }


def label_rows(tasks: Sequence[str], articles: Sequence[str], files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Ratings of summaries and preferences between two, each by five people."""
    rows: list[dict[str, Any]] = []
    ratings = orjson.loads(files[RATINGS])
    for task, article in zip(tasks, articles, strict=True):
        for agent in AGENTS:
            for number, score in enumerate(ratings[article][agent], 1):
                rows.append({"task": task, "agent": agent, "rater": f"r{number}", "score": score})
    for place, first, second, values in orjson.loads(files[PREFERENCES]):
        for number, value in enumerate(values, 1):
            preference = -value / PREFERENCE_UNIT
            pair = {"task": tasks[place], "first": first, "second": second}
            rows.append({**pair, "rater": f"r{number}", "preference": preference})
    return rows


def judgement_rows(tasks: Sequence[str], files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Verdicts on pairs and ratings, as the reviewers said them."""
    rows: list[dict[str, Any]] = []
    first_line = lines_of(files[pairs_path(ORDER_OF_PAIRS)])[0]
    all_pairs = [tuple(pair) for pair in orjson.loads(first_line)]
    agent_pairs = [pair for pair in all_pairs if set(pair) <= set(AGENTS)]
    for reviewer in PAIRS_OF_REVIEWER:
        outputs = lines_of(files[pairs_path(reviewer)])[1:]
        pairs = all_pairs if len(outputs) > len(agent_pairs) * N_TASKS + 1 else agent_pairs
        for number, (first, second) in enumerate(pairs):
            if {first, second} <= set(AGENTS):
                of_pair = outputs[number * N_TASKS : (number + 1) * N_TASKS]
                common = {"reviewer": reviewer, "format": "pairwise", "first": first, "second": second}
                rows += [{**common, "task": task, "output": said} for task, said in zip(tasks, of_pair, strict=True)]
        for scale in ("5-level", "100-level") if reviewer not in WITHOUT_RATINGS else ():
            ratings = orjson.loads(files[ratings_path(reviewer, scale)])
            for agent in AGENTS:
                common = {"reviewer": reviewer, "format": scale, "agent": agent}
                of_agent = zip(tasks, ratings[agent], strict=True)
                rows += [{**common, "task": task, "output": str(rating)} for task, rating in of_agent]
    return rows


def exam_rows(tasks: Sequence[str], files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Exams of pertinence, and how sure a reviewer was of easy and hard pairs."""
    rows: list[dict[str, Any]] = []
    for reviewer in EXAMINED:
        for number, answer in enumerate(json_lines(files[pertinence_path(reviewer)])):
            first, second = ("relevant", "irrelevant") if number % 2 == 0 else ("irrelevant", "relevant")
            row = {"reviewer": reviewer, "exam": "pertinence", "task": tasks[number // 2]}
            rows.append({**row, "first": first, "second": second, "output": VERDICTS[answer["result"]]})
    for difficulty in ("easy", "hard"):
        for number, answer in enumerate(json_lines(files[confidence_path(difficulty)])):
            if (label := CONFIDENCES.get(answer["result"])) is not None:
                row = {"reviewer": "chatgpt", "exam": "self-confidence-label", "difficulty": difficulty}
                rows.append({**row, "item": number, "label": label})
    return rows


def json_lines(content: bytes) -> list[dict[str, Any]]:
    """The rows of a file with a JSON object on each line."""
    return [orjson.loads(line) for line in content.splitlines() if line.strip()]


def lines_of(content: bytes) -> list[str]:
    """The lines of a file, where only a line feed ends one."""
    return [line.rstrip("\r") for line in content.decode("utf-8").split("\n")]


def summaries_path(agent: str) -> str:
    """The file with an agent's summaries."""
    return f"{OUTPUT}/task_responses/Xsum_{agent}.json"


def pairs_path(reviewer: str) -> str:
    """The file with a reviewer's verdicts on pairs."""
    return PAIRS_OF_REVIEWER[reviewer].format(reviewer)


def ratings_path(reviewer: str, scale: str) -> str:
    """The file with a reviewer's ratings."""
    return f"{DATA}/{scale}/Xsum_result_detail_{NAMES_IN_OUTPUT.get(reviewer, reviewer)}.json"


def pertinence_path(reviewer: str) -> str:
    """The file with a reviewer's exam of pertinence."""
    return f"{OUTPUT}/exam_pertinence/Xsum_{NAMES_IN_OUTPUT.get(reviewer, reviewer)}.json"


def confidence_path(difficulty: str) -> str:
    """The file with the answers to easy or hard pairs."""
    return f"{OUTPUT}/exam_self_confidence/Xsum_gpt-3.5-turbo_{difficulty}.json"


SIZES_AND_HASHES = {
    "data-Xsum/XSum-100-thre2500_v2.json": (127460, "a2eecb1122ef54529edb1997f520c2507d45619d88df683d81d68cbff7831350"),
    "data-Xsum/XSum-100-thre2500_v2.tsv": (136444, "993fd52930f87c31d0cf7dffa38932281ebbfa78f5b3384303d102573d29f2fe"),
    "data-Xsum/annotation/pointwise.json": (151460, "306d734908cb4262e20268519bc703034263fe72d2d816b36369762e81205acb"),
    "data-Xsum/annotation/preference.json": (41804, "4147461cb917fbcd9ade9dc824b3937abc8346ad4283e904d624749f79b0f74d"),
    "output/task_responses/Xsum_alpaca-7b.json": (
        89877,
        "6b7d477ff232490acab251ae07ce8d48c03bb5258851c5dc2dc899710ef0c062",
    ),
    "output/task_responses/Xsum_ChatGLM2-6B.json": (
        106914,
        "34773d4d87b648e0261a5d9abc0f9e5eb2c75a3c08ecbb1c1adb2c05c2a7644b",
    ),
    "output/task_responses/Xsum_chatgpt.json": (
        93541,
        "13c499fb910469cb6c58cb1059c39fd15ded07bc1edb690ebb20530bef2dd2a6",
    ),
    "output/task_responses/Xsum_claude.json": (
        108116,
        "ddb9cd63ab1c53d6d20d95f8268d1f20953e47977905230c41dd27008d663a6a",
    ),
    "output/task_responses/Xsum_fastchat-t5-3b.json": (
        56420,
        "5f75b61cd327471b00fd0580637c2d7c7b7ab4f12020a0dc92d42e6410612eb7",
    ),
    "output/task_responses/Xsum_RWKV-4-Raven-7B-v11.json": (
        115273,
        "ea8010402ac5957b6eaf60e1ce871ffcb96589a4860dffcf4be5556c9c587f0c",
    ),
    "output/task_responses/Xsum_vicuna-7b.json": (
        98101,
        "9c7584afe0e5cca08d22d53db11ce795882998383092730ebbc884dee24e29b3",
    ),
    "data-Xsum/pairwise/response0-XSum-thre2500-100-onlyL_pairwise_v2_total11LLMs_vicuna-7b.tsv": (
        16897,
        "01b1bd1e0384e58fff9c0405acbe7eff243a0ab229d93a6477fa602d5ac42a9c",
    ),
    "data-Xsum/response0-XSum-thre2500-100-onlyL_pairwise_v2_total11LLMs_chatglm3-6b.tsv": (
        16810,
        "09190ec7e2a1d66608092d9728413930835b0cc796f2befb8a1af4560b141d21",
    ),
    "data-Xsum/response0-XSum-thre2500-100-onlyL_pairwise_v2_total11LLMs_baichuan2-13b.tsv": (
        47361,
        "545f7bd5795a2ee92b681ccecc22fe54a9a58a161f3ea2211da7f1aa7d878c43",
    ),
    "data-Xsum/response0-XSum-thre2500-100-onlyL_pairwise_v2_total11LLMs_fastchat-t5-3b.tsv": (
        1965414,
        "09db5bceaf0990803c5b4781bc634ac8f90c289454b22c8c28a149372d85fbdd",
    ),
    "data-Xsum/response0-XSum-thre2500-100-onlyL_pairwise_v2_total11LLMs_chatgpt.tsv": (
        48227,
        "e8c65686b8c85728c45a2afc9ffe2245cfb612191c946280d49cf17978b7441a",
    ),
    "data-Xsum/response0-XSum-thre2500-100-onlyL_pairwise_v2_total11LLMs_chatglm_pro.tsv": (
        86054,
        "09e2a58e2eb9170bf5aa71291d3368518fb1f3411118d1ea39882bff6804857f",
    ),
    "data-Xsum/response0-XSum-thre2500-100-onlyL_pairwise_v2_total11LLMs_gpt4.tsv": (
        47998,
        "91321dd1b481530f4f4300b5324237d484cde5bf5036b60fc02ff1d6f8b2e125",
    ),
    "data-Xsum/pairwise/response0-Xsum-thre2500-100-onlyL_pairwise_v2_total11LLMs_deepseek-r1.tsv": (
        16801,
        "1e0ad830cda01994024e3d893f135ff8e955cd1c612962f1cf6ab2b2b4da1bed",
    ),
    "data-Xsum/pairwise/response0-XSum-thre2500-100-onlyL_pairwise_v2_total11LLMs_chatEval.tsv": (
        16801,
        "0a116647ecf3948184329116de497cbf4d24e6bcc014f60e273f41e87dad90df",
    ),
    "data-Xsum/response0-XSum-thre2500-100-onlyL_pairwise_v2_total11LLMs_claude.tsv": (
        1771981,
        "edadacdfeb0ce4108a37c45f852dbf6bc95ce743f34e6969d294f9751685e71e",
    ),
    "data-Xsum/5-level/Xsum_result_detail_vicuna-7b.json": (
        2217,
        "d9738980303afe5d0323ea44489e356f68241485e56603aa7994f88b4fce152e",
    ),
    "data-Xsum/5-level/Xsum_result_detail_chatglm3-6b.json": (
        2217,
        "3918f0e31e69a64579e24a5a60a132be4d230ee41c59b1526f9f524a1c0afb75",
    ),
    "data-Xsum/5-level/Xsum_result_detail_baichuan2-13b.json": (
        2217,
        "fc244387deae90cd252c1450189426d69e1eebcad2968253b5f7618ccae61c10",
    ),
    "data-Xsum/5-level/Xsum_result_detail_fastchat-t5.json": (
        2217,
        "55124c24c7cbb0e28bc50a426ca4f9f27f68458afcb8c476404c70b1f09740fe",
    ),
    "data-Xsum/5-level/Xsum_result_detail_gpt-3.5-turbo.json": (
        2217,
        "d4b4f66715a7eaf4ad1f9f90a7b26fd4e586b59d039ba2b8b92755946effdcb9",
    ),
    "data-Xsum/5-level/Xsum_result_detail_chatglm_pro.json": (
        2217,
        "cc138545f589bc59bc6e1ec8278683f2a25e582ef9d393691e1397d806007ba7",
    ),
    "data-Xsum/5-level/Xsum_result_detail_gpt-4.json": (
        2217,
        "de6a9560b5472a74191f985c7d38d328482750008d258cd7cc038fbf45d419c2",
    ),
    "data-Xsum/5-level/Xsum_result_detail_deepseek-r1.json": (
        2217,
        "b7422107c04e9ec8fb6d0d6e4e70bce8469b6542daea31d16b37867fb3722b96",
    ),
    "data-Xsum/5-level/Xsum_result_detail_chatEval.json": (
        2240,
        "82e2021eefaa7d372e45d29861bc9e20c69954238096a897101e867d6f242817",
    ),
    "data-Xsum/100-level/Xsum_result_detail_vicuna-7b.json": (
        2948,
        "e6656dee95af61d9d3756d537ca8061ee8e979c1ee50f8bd1332d6db73a1bb5d",
    ),
    "data-Xsum/100-level/Xsum_result_detail_chatglm3-6b.json": (
        4574,
        "ce88e51ba42d0b34e39c5c6c493f277d1b2c149abe5df2940e4d25b308b15f3e",
    ),
    "data-Xsum/100-level/Xsum_result_detail_baichuan2-13b.json": (
        4572,
        "0c198db748d6352b557402877c37db3dce342608f7ae5fc44809df3060b73046",
    ),
    "data-Xsum/100-level/Xsum_result_detail_fastchat-t5.json": (
        5254,
        "bb40ba3ede0464ed964c7cccbd8cd68c4dc404971b56ed215802fac9ceb68ebf",
    ),
    "data-Xsum/100-level/Xsum_result_detail_gpt-3.5-turbo.json": (
        4552,
        "d1c7dec0303f10b64438073ad29d1bf232b8f48fffdbabbdff2287ff193e7848",
    ),
    "data-Xsum/100-level/Xsum_result_detail_chatglm_pro.json": (
        4504,
        "2a0850a7c852c0dac3544ea4c1e8001f4d79b6e2d0936d374ec4a200f0accfe5",
    ),
    "data-Xsum/100-level/Xsum_result_detail_gpt-4.json": (
        4461,
        "a176482abd1d3247d69c99232d5832773c2fbe9637128ea6a32a35891c8132eb",
    ),
    "data-Xsum/100-level/Xsum_result_detail_deepseek-r1.json": (
        2870,
        "f0e7a5bd400daaa438d413b695178ff66b3c6494ccf718ca9e77883f0a40715a",
    ),
    "data-Xsum/100-level/Xsum_result_detail_chatEval.json": (
        3540,
        "e477c5fd9b5540d468c8bc157a47ffb8947e6006101f31a4ce5cce9b8d82a5f2",
    ),
    "output/exam_pertinence/Xsum_vicuna-7b.json": (
        516097,
        "51d5aa1e53facac998747d7a248627c982c8eacde0d731bb676f950bf9033ba1",
    ),
    "output/exam_pertinence/Xsum_chatglm3-6b.json": (
        515647,
        "ebb4ade599a09e4ec2860bab3a976a58b8d609c201bb2ecb5d96b0becce25f9f",
    ),
    "output/exam_pertinence/Xsum_baichuan2-13b.json": (
        515658,
        "489a7d3cf3bf4e7d98d299a7e2dfe448cb8bb9213fc34317eeb3256c7e833cf7",
    ),
    "output/exam_pertinence/Xsum_fastchat-t5.json": (
        517208,
        "d5fac9546d13d40115c9ff78bc23d34ac1911d6705125f4ff5dd5f084082caab",
    ),
    "output/exam_pertinence/Xsum_gpt-3.5-turbo.json": (
        524828,
        "3fe9ecc584ae0ab235b1f3551a739020c228ecb4a6e640c2d2ba50421e9ba9ac",
    ),
    "output/exam_pertinence/Xsum_chatglm_pro.json": (
        515596,
        "1cfe0fdb0e8ccf898294404e5e6aedf1988da78b2d931f65b765914a706723af",
    ),
    "output/exam_pertinence/Xsum_gpt-4.json": (
        515593,
        "5867a790d4a92abc0a3a69331d92c8d408483f08d9891fa871eb26b9f191c6ab",
    ),
    "output/exam_self_confidence/Xsum_gpt-3.5-turbo_easy.json": (
        784562,
        "808114bdbcded5af7b1268442b0ddafe4c13ed140cb170dbb25848385ce8876d",
    ),
    "output/exam_self_confidence/Xsum_gpt-3.5-turbo_hard.json": (
        814102,
        "22baf9f1e8e5921e833dbeb893ee61427013bfca87b68a2ab5e9843557c57ac3",
    ),
}
"""Size and SHA-256 of every file."""
AUTO_PRE = Dataset(
    name="auto_pre",
    question="How good is a summary, and which of two is better? Five people rated and compared them.",
    size="7 models, 100 articles, with recorded judgements of 10 reviewers",
    licence=None,
    citation="Chen et al. 2026, Auto-PRE: An Automatic and Cost-Efficient Peer-Review Framework",
    repository="cjj826/Auto-PRE",
    commit="1588f83a524758d595ef2f245d9848fe747ee98b",
    files=tuple(SourceFile(path, n_bytes, sha256) for path, (n_bytes, sha256) in SIZES_AND_HASHES.items()),
    convert=convert,
)
