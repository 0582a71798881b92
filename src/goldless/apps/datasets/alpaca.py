"""AlpacaEval 2: answers of 22 models to open questions, and of NullModel, a constant text that won the board."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

import orjson
import polars as pl

from goldless.apps.datasets.dataset import Dataset, SourceFile, Tables

BOARD = "src/alpaca_eval/leaderboards/data_AlpacaEval_2/weighted_alpaca_eval_gpt4_turbo_leaderboard.csv"
BOARD_BYTES = 28339
BOARD_SHA256 = "fe32bf85c2f7429038faa4c9a884d1d131726454ff84a4b810a91c1c7a2aa0e9"
SIZES_AND_HASHES = {
    "baichuan-13b-chat": (1667411, "88d65cbce8608eb9d52e7e32d1a88b69eebc96a705e2700b4b300871c0a03093"),
    "alpaca-7b_concise": (509299, "935b416bd085cc5110d58b0933b986419615e81468b447f99b030654ac88afc9"),
    "vicuna-7b": (1069846, "c7cf62e384503eb314f537768b7b816340728b77585cabccee343d634003259a"),
    "vicuna-7b-v1.5": (1110759, "4a8c197fd1bf6852cb300698aa919efb2221f182fcf24efd921e0db0b4dd4575"),
    "openbuddy-falcon-40b-v9": (1119495, "d6fc9b5c858e6d494cdffeed68325bb555eddac04844854ff3fd64bdb9d8d733"),
    "openbuddy-llama-30b-v7.1": (1020400, "0c43b664bf63c82174fe5dfa74f8426b47673b3b78204f4c6d3de765b1ec6212"),
    "airoboros-65b": (1455089, "456d10e93ebae805ad979a3e148f58ff3a4937e3248e9e289b69638244280aee"),
    "openbuddy-llama2-70b-v10.1": (1113464, "de797e56910f55cc85b3975ba2f3b7b8eb5aa1f5776c00acc6979c41229390b9"),
    "llama-2-70b-chat-hf": (1685265, "854b753c5135d4b698027d3423a12a94317afc654b3271fc8e384812fbe0b3c9"),
    "OpenHermes-2.5-Mistral-7B": (1135149, "293cfb19ff9d954d9eceea5d8eafd1f3e65a3420e76a434c02f6bd2f4e22c160"),
    "deepseek-llm-67b-chat": (1184384, "92d4e454aa1cdc557a886da908d11cb0b81050b0137cc729f78b6a2f44c0f0c6"),
    "Meta-Llama-3.1-8B-Instruct-Turbo": (2028413, "c6c9ef2ef48edf3395c95ed062733d09ad0c77a49eb5013ab98824d4a2fdbc7d"),
    "Mixtral-8x7B-Instruct-v0.1_concise": (980923, "fa534d4bdf2641786d1f121e74bd0c1f41b442adf91411e50828b3985ecba070"),
    "FuseChat-Llama-3.2-1B-Instruct": (2089695, "94de1cd88af0250a1adead73fd9f6b3d9f08be78adc447bf35f938c9c618db49"),
    "Infinity-Instruct-3M-0625-Llama3-8B": (
        1353953,
        "6497d6bce56fb15279b797afe18d61d19b378ed623dfcb0371e9d02a1060e57a",
    ),
    "Mixtral-8x22B-Instruct-v0.1": (1413241, "e2cb060776096ce11b893f868ad856ec724281a06c48feed09d771423f47dea9"),
    "FsfairX-Zephyr-Chat-v0.1": (2103448, "5dfcd0abeff8348f070f48ca0ead37d4fb977ad767f1ce1348b42f64cce82458"),
    "gpt4": (1329994, "9c5149c146fadc99285f23abbaec2a62ba94ffa35c1dddacb70686571d9d780e"),
    "Qwen1.5-110B-Chat": (1560737, "d3545f6b61c2f3af3ff9e2a80f037647bf21be1f12851832ad9d6b9102a8aa65"),
    "Llama-3-Instruct-8B-RainbowPO": (1800286, "8c9fe90d3355d4644bfe7a52d1f2a1e2a87afb34b8ffad35030ac9c41992154d"),
    "Storm-7B-best-of-64": (2158767, "7fec34a9d66b3dc684c37663e078ee411f024461b6e8ffc5229412898261e13e"),
    "blendaxai-gm-l3-v35": (2034275, "41fed00eeb8ed1cc6147b658b26fe86b080405e726a386cca61fac2bce48701a"),
    "NullModel": (1006170, "9bd0b067066c43cff5f57d7d8d17c844acd817c266f642a43beff23a9b5f5a74"),
}
"""Size and SHA-256 of each model's answers."""
PLANTED = "NullModel"
MOST_WORDS = 200
"""Words of an answer that are kept; line breaks are no spaces here."""


def convert(files: Mapping[str, bytes]) -> Tables:
    """Make the tables of a study; an agent's label, on every task, is its length-controlled win rate on the board."""
    board = csv.DictReader(io.StringIO(files[BOARD].decode("utf-8"), newline=""))
    win_rates = {row[""]: float(row["length_controlled_winrate"]) for row in board}
    answers = {agent: orjson.loads(files[answers_path(agent)]) for agent in SIZES_AND_HASHES}
    task_of_instruction: dict[str, str] = {}
    for answer in answers["gpt4"]:
        task_of_instruction.setdefault(answer["instruction"], f"a{len(task_of_instruction):03}")
    responses, labels = [], []
    for agent, of_agent in answers.items():
        for answer in of_agent:
            task = task_of_instruction[answer["instruction"]]
            responses.append({"task": task, "agent": agent, "text": first_words(answer["output"])})
            if agent != PLANTED:
                labels.append({"task": task, "agent": agent, "rater": "AlpacaEval 2", "score": win_rates[agent]})
    tasks = [{"task": task, "prompt": instruction} for instruction, task in task_of_instruction.items()]
    agents = [{"agent": agent, "group": "planted" if agent == PLANTED else "model"} for agent in answers]
    return {
        "tasks": pl.DataFrame(tasks),
        "responses": pl.DataFrame(responses),
        "agents": pl.DataFrame(agents),
        "labels": pl.DataFrame(labels),
    }


def answers_path(agent: str) -> str:
    """The file with a model's answers."""
    return f"results/{agent}/model_outputs.json"


def first_words(text: str) -> str:
    """The beginning of an answer."""
    return " ".join(text.split(" ")[:MOST_WORDS])


ALPACA_DEV = Dataset(
    name="alpaca_dev",
    question="Which model answers open questions best? Length-controlled win rate of the public board, by model only.",
    size="22 models and NullModel, 805 instructions, the first 200 words",
    licence="CC BY-NC 4.0",
    citation="Dubois et al. 2024, Length-Controlled AlpacaEval: A Simple Way to Debias Automatic Evaluators",
    repository="tatsu-lab/alpaca_eval",
    commit="cd543a149df89434d8a54582c0151c0b945c3d20",
    files=(
        SourceFile(BOARD, BOARD_BYTES, BOARD_SHA256),
        *(SourceFile(answers_path(agent), n_bytes, sha256) for agent, (n_bytes, sha256) in SIZES_AND_HASHES.items()),
    ),
    convert=convert,
)
