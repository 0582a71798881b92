"""A small training with TRL's GRPO and ``goldless.reward`` on a CPU, with the crash test before and after.

    pip install 'goldless[finetune]'
    python docs/examples/reward_grpo.py

Eight questions, each with an answer that the policy never sees (birch's, in answers.csv). The policy is
a transformer of two layers with random weights, which knows the words of the questions and the three longest words of
another agent's answer to each (atlas's). It is rewarded for what it says about birch's answer beyond the question, by
the embedded model. It is far too small to learn more than which words go with which question: the run shows the loop,
not a useful model.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import torch
import transformers
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from trl import GRPOConfig, GRPOTrainer

import goldless

ANSWERS = Path(__file__).parent / "answers.csv"
REFERENCE, TEACHER = "birch", "atlas"
METRIC = "gem-s[prompt]+control"
ATTACKS = "null,prompt-copy,shuffled-task,elongation,padding[candidate],praise,pattern[candidate]"
MARKS = {"pad_token": "<pad>", "eos_token": "<end>", "unk_token": "<unknown>"}
WORDS = 4
"""The longest completion."""


def tiny_policy(texts: list[str], seed: int) -> tuple[Any, Any]:
    """A random transformer and its tokenizer of whole words."""
    words = sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s]", text)})
    vocabulary = {word: i for i, word in enumerate([*MARKS.values(), *words])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=MARKS["unk_token"]))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, padding_side="left", **MARKS)
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(config), tokenizer


def samples(model: Any, tokenizer: Any, prompts: list[str], each: int, seed: int) -> list[tuple[str, str]]:
    """So many samples of each prompt at temperature 1."""
    torch.manual_seed(seed)
    asked = [prompt for prompt in prompts for _ in range(each)]
    given = tokenizer(asked, return_tensors="pt", padding=True, return_token_type_ids=False)
    with torch.inference_mode():
        made = model.generate(**given, do_sample=True, top_k=0, max_new_tokens=WORDS)
    texts = tokenizer.batch_decode(made[:, given["input_ids"].shape[1] :], skip_special_tokens=True)
    return list(zip(asked, texts, strict=True))


def report(name: str, made: list[tuple[str, str]], known: dict[str, str], reward: goldless.Reward, each: int) -> None:
    """The mean reward of samples, and the crash test of the metric on them."""
    prompts, texts = map(list, zip(*made, strict=True))
    found = reward(prompts, texts, reference=[known[prompt] for prompt in prompts])
    by_prompt = [found[i : i + each] for i in range(0, len(found), each)]
    means = [statistics.fmean(one for one in some if one is not None) for some in by_prompt]
    spread = statistics.stdev(means) / len(means) ** 0.5
    distinct = len(set(texts))
    print(f"\n## {name}: reward {statistics.fmean(means):.2f} nats (standard error over questions {spread:.2f})")
    print(f"{len(texts)} samples, {distinct} different texts, {found.count(None)} without a reward")
    for prompt, text in made[:: 2 * each]:
        print(f"  {prompt} -> {text}")
    rows = [{"task": prompt, "prompt": prompt, "agent": REFERENCE, "text": text} for prompt, text in known.items()]
    rows += [
        {"task": prompt, "prompt": prompt, "agent": f"policy {i % each + 1}", "text": text or "-"}
        for i, (prompt, text) in enumerate(made)
    ]
    test = goldless.crash_test(
        pl.DataFrame(rows),
        metrics=METRIC,
        agents=[f"policy {i + 1}" for i in range(each)],
        references=[REFERENCE],
        perturbations=ATTACKS.split(","),
    )
    print("\n| attack on the completions | must | reward before | after | rating |\n|---|---|---|---|---|")
    for result in test.results:
        values = [f"{value:.2f}" if value is not None else "" for value in (result.mean_before, result.mean_after)]
        print(f"| `{result.perturbation}` | {result.must} | {' | '.join(values)} | {result.rating} |", flush=True)


def main() -> None:
    """Train, and report before and after."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--each", type=int, default=2, help="samples of each question before and after")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    answers = pl.read_csv(ANSWERS)
    known = dict(answers.filter(pl.col("agent") == REFERENCE).select("prompt", "text").iter_rows())
    texts = answers.filter(pl.col("agent") == TEACHER)["text"].to_list()
    longest = [
        " ".join(sorted(set(re.findall(r"\w+", text)), key=lambda word: (-len(word), word))[:3]) for text in texts
    ]
    model, tokenizer = tiny_policy([*known, *longest], arguments.seed)
    reward = goldless.reward(METRIC, scorer="embedded", bank=known.values(), missing="group-mean")
    report("before", samples(model, tokenizer, list(known), arguments.each, 1), known, reward, arguments.each)

    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=reward,
            train_dataset=Dataset.from_list([{"prompt": p, "reference": text} for p, text in known.items()]),
            args=GRPOConfig(
                output_dir=folder,
                per_device_train_batch_size=16,
                num_generations=8,
                max_completion_length=WORDS,
                max_steps=arguments.steps,
                learning_rate=5e-3,
                lr_scheduler_type="constant",
                beta=0.0,
                logging_steps=5,
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                disable_tqdm=True,
                seed=arguments.seed,
            ),
        )
        trainer.train()
    print("\n| step | mean reward, nats |\n|---|---|")
    for entry in trainer.state.log_history:
        if "rewards/goldless/mean" in entry:
            print(f"| {entry['step']} | {entry['rewards/goldless/mean']:.2f} |")
    report("after", samples(model, tokenizer, list(known), arguments.each, 1), known, reward, arguments.each)
    print(f"\n{reward.asked} completions rewarded, {reward.missing.total()} without a reward\n{reward.signature}")


if __name__ == "__main__":
    main()
