"""The reward against plain transformers, one text at a time, on a tiny model."""

from __future__ import annotations

import statistics

import pytest

import goldless
from goldless.templates import GENERAL

pytestmark = pytest.mark.transformers


@pytest.mark.usefixtures("one_thread")
def test_it_is_what_plain_transformers_gives_pair_by_pair(tmp_path):
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    from tiny_base import save_reader  # noqa: PLC0415

    folder = save_reader(tmp_path / "reader")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()

    def logprob(prompt, completion, target):
        messages = [
            {"role": "system", "content": GENERAL.predict},
            {"role": "user", "content": GENERAL.question(prompt, completion)},
        ]
        shown = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        context = tokenizer(shown, add_special_tokens=False)["input_ids"]
        ids = tokenizer(f"{target}<|im_end|>", add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            logits = model(torch.tensor([context + ids])).logits[0, len(context) - 1 : -1]
        return float(logits.double().log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).sum())

    references = {"say red": "red is good", "say blue": "blue is poor", "say gold": "gold is fine"}
    rows = [(prompt, text) for prompt in references for text in ("red is it", "blue, poor", "")]
    expected = []
    for prompt, completion in rows:
        gain = {y: logprob(prompt, completion, y) - logprob(prompt, None, y) for y in references.values()}
        own = gain.pop(references[prompt])
        expected.append(own - statistics.fmean(gain.values()))
    with goldless.reward(scorer=f"hf:{folder}", bank=references.values()) as reward:
        found = reward(
            [prompt for prompt, _ in rows],
            [completion for _, completion in rows],
            reference=[references[prompt] for prompt, _ in rows],
        )
    assert found == pytest.approx(expected, abs=1e-3)
    assert found[2] == 0.0
