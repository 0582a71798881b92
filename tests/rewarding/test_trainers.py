"""The reward inside the trainers' own code; these tests need trl or verifiers, which are not test dependencies."""

from __future__ import annotations

import asyncio
import math
import re

import pytest

import goldless
from goldless.errors import MetricError
from goldless.meta_evaluation.perturbations.catalogue import find_perturbation
from tests.support.paths import DOCS


def test_completions_scored_one_by_one_are_computed_together(toy_scorer):
    """Eight completions of which two are different: the reference alone and given each of the two, once."""
    scorer = toy_scorer()
    texts = ["zarn", "bluk"] * 4

    async def all_at_once(reward):
        return await asyncio.gather(*(reward.one("p", text, reference="zarn") for text in texts))

    with goldless.reward("gem-raw", scorer=scorer) as reward:
        expected = reward(["p"] * 8, texts, reference=["zarn"] * 8)
        before = len(scorer.calls)
        assert asyncio.run(all_at_once(reward)) == expected
        assert len(scorer.calls) - before == 3
        with pytest.raises(MetricError, match="no reward: no_reference"), pytest.warns(UserWarning, match="no_ref"):
            asyncio.run(reward.one("p", "zarn", reference=None))


@pytest.mark.filterwarnings("default")
def test_a_task_of_verifiers_takes_it_as_its_reward(toy_scorer):
    """As its own template for a task says: a coroutine marked as a reward, which returns a float."""
    vf = pytest.importorskip("verifiers.v1", reason="needs verifiers from 0.4 on: pip install verifiers")
    from verifiers.v1.utils.decorators import discover_decorated, invoke_all  # noqa: PLC0415

    reward = goldless.reward("gem-raw", scorer=toy_scorer())

    class Data(vf.TaskData):
        reference: str

    class Toy(vf.Task[Data]):
        @vf.reward(weight=1.0)
        async def informative(self, completion: str) -> float:
            return await reward.one(self.data.prompt, completion, reference=self.data.reference)

    task = Toy(Data(idx=0, prompt="p", reference="zarn"))
    marked = discover_decorated(task, "reward")
    with reward:
        assert asyncio.run(invoke_all(marked, {"completion": "zarn"})) == pytest.approx([math.log(4)])


def test_the_attacks_of_the_example_exist():
    script = DOCS / "examples" / "reward_grpo.py"
    (names,) = re.findall(r'^ATTACKS = "(.+)"$', script.read_text(encoding="utf-8"), re.MULTILINE)
    assert [find_perturbation(name).name for name in names.split(",")] == names.split(",")


@pytest.mark.slow
@pytest.mark.transformers
@pytest.mark.filterwarnings("default")
def test_trls_own_trainer_takes_it_as_a_reward_function(toy_scorer, tmp_path, one_thread):
    trl = pytest.importorskip("trl", reason="needs trl: pip install 'goldless[finetune]'")
    import transformers  # noqa: PLC0415
    from datasets import Dataset  # noqa: PLC0415

    from tests.support.tiny_base import save_base  # noqa: PLC0415

    base = save_base(tmp_path / "base")
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    tokenizer.pad_token = "</s>"
    data = Dataset.from_list([{"prompt": f"say {word}", "reference": [word, "quex"]} for word in ("zarn", "vond")])
    settings = trl.GRPOConfig(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=4,
        num_generations=2,
        max_completion_length=8,
        max_steps=1,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        bf16=False,
    )
    with goldless.reward(scorer=toy_scorer(), bank=data["reference"]) as reward:
        model = transformers.AutoModelForCausalLM.from_pretrained(base)
        trainer = trl.GRPOTrainer(
            model=model, reward_funcs=reward, args=settings, train_dataset=data, processing_class=tokenizer
        )
        trainer.train()
        assert reward.asked == 4
    (logged, *_) = [entry for entry in trainer.state.log_history if "rewards/goldless/mean" in entry]
    assert math.isfinite(logged["rewards/goldless/mean"])
