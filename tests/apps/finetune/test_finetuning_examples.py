"""What is trained on is token for token what is scored, and only the scored positions count.

Expected ids come from transformers' own layout of the messages.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from goldless.apps.finetune.material import TaskTexts, build_examples
from goldless.models.local_weights import HfModel
from goldless.scoring import ScoringJob, ScoringStage, score_together
from goldless.templates import NOT_AVAILABLE, find_template

pytest.importorskip("torch", reason="needs the transformers extra: pip install 'goldless[transformers]'")
pytest.importorskip("transformers", reason="needs the transformers extra")

from tests.support.byte_tokenizer import byte_tokenizer
from tests.support.tiny_base import toy_task

pytestmark = [pytest.mark.transformers, pytest.mark.anyio, pytest.mark.usefixtures("one_thread")]

TEXTS = {"ann": "red is good", "bob": "the red is fine, <|im_end|>", "cy": "röt"}


async def ready(base: Path) -> HfModel:
    model = HfModel(str(base), device="cpu")
    await model.prepare()
    return model


async def built(model: HfModel, template_file: Path, *, synopsis: str | None = "What is red?", **options):
    template = find_template(str(template_file))
    stages = [ScoringStage(model, template, None, name) for name in (None, "abstract")]
    tasks = [TaskTexts(toy_task(synopsis=synopsis), TEXTS)]
    return await build_examples(tasks, stages, **{"max_length": 4096, **options}), tasks, stages


async def test_a_task_with_a_synopsis_gives_the_papers_nine_and_nine_examples(base: Path, template_file: Path):
    # GEM, appendix E.1: six ordered pairs and three marginals, for GEM and for GEM-S
    found, _, _ = await built(await ready(base), template_file)
    for synopsis in (None, "abstract"):
        asked = {(e.question.given, e.question.target) for e in found.examples if e.synopsis == synopsis}
        pairs = {(x, y) for x in TEXTS for y in TEXTS if x != y}
        assert asked == pairs | {(None, y) for y in TEXTS}
    assert len(found.examples) == 18
    assert found.left_out == {}


async def test_an_examples_ids_are_the_messages_as_transformers_lays_them_out(base: Path, template_file: Path):
    found, _, _ = await built(await ready(base), template_file)
    tokenizer = byte_tokenizer()
    benign = {agent: text for agent, text in TEXTS.items() if "<|" not in text}
    checked = 0
    for example in found.examples:
        given, target = example.question.given, example.question.target
        if {given, target} - {None, *benign}:
            continue
        shown = ["S", "What is red?" if example.synopsis else NOT_AVAILABLE, "C", TEXTS.get(given, NOT_AVAILABLE)]
        messages = [{"role": "system", "content": "Say."}, {"role": "user", "content": "\n\n".join(shown)}]
        context = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        end = tokenizer.convert_tokens_to_ids("<|im_end|>")
        answer = [*tokenizer.encode(TEXTS[target], add_special_tokens=False), end]
        assert example.ids.tolist() == [*context, *answer]
        assert example.labels == [-100] * len(context) + answer
        checked += 1
    assert checked == 8


async def test_examples_are_exactly_the_sequences_that_are_scored(base: Path, template_file: Path):
    model = await ready(base)
    found, tasks, stages = await built(model, template_file)
    scored, each = [], tasks[0]
    score = model.score

    async def watched(requests, deliver):
        scored.extend(requests)
        await score(requests, deliver)

    model.score = watched
    await score_together([ScoringJob(stage, each.task, each.texts, each.questions) for stage in stages])
    asked = sorted(((*r.context, *r.target), len(r.target)) for r in scored)
    assert asked == sorted((tuple(e.ids), e.target_tokens) for e in found.examples)


async def test_an_example_that_is_too_long_is_left_out_and_counted_never_cut(base: Path, template_file: Path):
    model = await ready(base)
    whole, _, _ = await built(model, template_file)
    lengths = sorted(len(e.ids) for e in whole.examples)
    found, _, _ = await built(model, template_file, max_length=lengths[8])
    kept = sum(length <= lengths[8] for length in lengths)
    assert len(found.examples) == kept
    assert found.left_out == {"too_long": 18 - kept}
    assert sorted(len(e.ids) for e in found.examples) == lengths[:kept]
