"""Fine-tuning from a study to an adapter that a scorer loads, and to what it changed on tasks it never saw.

Expected log-probabilities come from peft and transformers over each sequence alone.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import anyio
import polars as pl
import pytest

from goldless.apps.finetune.options import FinetuneOptions
from goldless.apps.finetune.pipeline import finetune_study
from goldless.errors import CapabilityError, PrerequisiteError, UserError
from goldless.models.catalogue import open_model
from goldless.models.interface import Message
from goldless.reports.document import write
from goldless.runs.options import Options
from goldless.studies import read_study, study_from_frame

torch = pytest.importorskip("torch", reason="needs the transformers extra: pip install 'goldless[transformers]'")
transformers = pytest.importorskip("transformers", reason="needs the transformers extra")
for package in ("peft", "trl"):
    pytest.importorskip(package, reason="needs the finetune extra: pip install 'goldless[finetune]'")

import peft  # noqa: E402

from goldless.apps.finetune import training as training_module  # noqa: E402
from tests.support.byte_tokenizer import byte_tokenizer  # noqa: E402
from tests.support.tiny_base import TEMPLATE, save_reader, toy_rows  # noqa: E402

pytestmark = [pytest.mark.transformers, pytest.mark.usefixtures("one_thread")]

TASKS = 12
OPTIONS = Options.of(resamples=200)


def tune(study, own, **options):
    """Fine-tune, with a journal of its own unless the options name one."""
    return anyio.run(finetune_study, study, own, OPTIONS.changed(**{"journal": own.folder.parent / "j.db", **options}))


def toy_study(name: str = "toy"):
    tasks = pl.DataFrame([{"task": f"t{i}", "synopsis_abstract": f"thing {i}"} for i in range(TASKS)])
    return study_from_frame(pl.DataFrame(toy_rows(TASKS)), tasks=tasks, name=name)


@pytest.fixture(scope="module")
def tuned(base: Path, tmp_path_factory: pytest.TempPathFactory):
    """A finished fine-tuning, the options it was made with, and the tasks that were handed to the training."""
    folder = tmp_path_factory.mktemp("tuned")
    template = folder / "short.toml"
    template.write_text(TEMPLATE, encoding="utf-8")
    options = FinetuneOptions(
        base=f"hf:{base}",
        folder=folder / "out",
        template=str(template),
        raw=True,
        held_out=0.25,
        epochs=1,
        learning_rate=1e-2,
        # random weights may or may not read their context
        untested_base=True,
    )
    handed: set[str] = set()
    train = training_module.train_adapter

    def watched(checkpoint, examples, *rest, **more):
        handed.update(example.task for example in examples)
        return train(checkpoint, examples, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_module, "train_adapter", watched)
        found = tune(toy_study(), options)
    return found, options, handed


def test_held_out_tasks_are_never_trained_on(tuned):
    found, _, handed = tuned
    assert len(found.held_out_tasks) == 3
    assert handed == {f"t{i}" for i in range(TASKS)} - set(found.held_out_tasks)
    assert found.counts.examples == 18 * 9
    assert found.counts.held_out_texts_seen == 0


def test_the_adapter_raises_the_likelihood_of_held_out_texts_in_every_way_of_asking(tuned):
    found, _, _ = tuned
    rows = [row for row in found.held_out if row.term != "difference"]
    assert [(row.metric, row.term) for row in rows] == [
        (metric, term) for metric in ("gem", "gem-s") for term in ("conditional", "marginal")
    ]
    for row in rows:
        assert (row.tasks, row.missing) == (3, 0)
        assert row.asked == 3 * (6 if row.term == "conditional" else 3)
        assert row.per_token.change.low > 0
        assert row.per_response.after > row.per_response.before


def test_the_numbers_are_those_of_peft_over_each_sequence_alone(tuned, base: Path):
    found, options, _ = tuned
    plain = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    model = peft.PeftModel.from_pretrained(plain, options.folder / "adapter").eval()
    scorer = open_model(found.specification)

    async def requests():
        await scorer.prepare()
        study, asked = toy_study(), []
        for task in found.held_out_tasks:
            for response in study.responses(task):
                question = "S\n\nNot available\n\nC\n\nNot available"
                messages = [Message("system", "Say."), Message("user", question)]
                asked.append((task, await scorer.encode(messages, response.text)))
        return asked

    sums: dict[str, list[float]] = {}
    for task, request in anyio.run(requests):
        ids = torch.tensor([[*request.context, *request.target]])
        with torch.no_grad():
            logprobs = torch.log_softmax(model(ids).logits[0].double(), -1)
        places = range(len(request.context), ids.shape[1])
        sums.setdefault(task, []).append(sum(float(logprobs[at - 1, ids[0, at]]) for at in places))
    means = [sum(values) / len(values) for values in sums.values()]
    marginal = next(row for row in found.held_out if (row.metric, row.term) == ("gem", "marginal"))
    assert marginal.per_response.after == pytest.approx(sum(means) / len(means), rel=1e-5)


def test_the_result_is_on_disk_as_it_was_returned_and_checkpoints_are_gone(tuned):
    found, options, _ = tuned
    written = json.loads((options.folder / "finetune.json").read_text(encoding="utf-8"))
    assert written == write(found)
    assert written["step_losses"][0] == {"step": 1, "nats_per_token": found.training.losses[0][1]}
    assert {"signature", "training", "plan", "counts"} <= written.keys()
    assert written["training"]["steps"] == found.training.steps
    assert not {"adapter", "spending", "resumed_at"} & written.keys()
    assert not (options.folder / "checkpoints").exists()
    record = json.loads((options.folder / "adapter" / "goldless_adapter.json").read_text(encoding="utf-8"))
    assert record["base"]["revision"] == found.plan.base.revision
    assert record["template"]["predict"] == "Say."


def test_a_second_run_of_the_same_plan_trains_and_scores_nothing(tuned, monkeypatch: pytest.MonkeyPatch):
    found, options, _ = tuned
    monkeypatch.setattr(training_module, "train_adapter", lambda *_, **__: pytest.fail("trained again"))
    again = tune(toy_study(), options)
    assert write(again) == write(found)
    assert [row.calls for row in again.spending] == [0, 0]


@pytest.mark.filterwarnings("ignore:.*no bfloat16 arithmetic")  # depends on the processor
@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"rank": 8}, r"recipe rank was 16, now 8\."),
        ({"dtype": "bfloat16"}, "base settings dtype was float32, now bfloat16"),
        ({"template": "plain"}, r"template name was short@\w+, now plain; different template predict"),
        ({"held_out": 0.5}, r"different examples; different held_out\."),
    ],
)
def test_another_plan_in_the_same_folder_is_refused_with_what_differs(tuned, changed, named):
    _, options, _ = tuned
    before = (options.folder / "plan.json").read_bytes()
    if "dtype" in changed:
        changed = {"base": f"{options.base}?dtype={changed['dtype']}"}
    with pytest.raises(UserError, match=rf"another plan: .*{named}"):
        tune(toy_study(), replace(options, **changed))
    assert (options.folder / "plan.json").read_bytes() == before


def test_it_trains_on_recorded_rewrites_and_says_whose(tmp_path: Path, base: Path, tuned):
    _, options, _ = tuned
    folder = tmp_path / "study"
    folder.mkdir()
    rows = toy_rows(4)
    pl.DataFrame(rows).write_ndjson(folder / "responses.jsonl")
    rewrites = [{**row, "rewriter": "gpt", "text": f"re {row['text']}"} for row in rows]
    pl.DataFrame(rewrites).write_ndjson(folder / "rewrites.jsonl")
    said: list[str] = []
    asked = replace(options, folder=tmp_path / "out", raw=False, learning_rate=2e-4)
    found = tune(read_study(folder), asked, say=said.append)
    assert found.plan.texts == "gpt"
    assert "no task has a synopsis 'abstract'" in said[0]
    assert {row.metric for row in found.held_out} == {"gem"}
    # 9 examples a task, and each text appears in three of them: "re red is good, ann of 0." and the like with its end
    texts = {row["task"]: 0 for row in rows}
    for row in rewrites:
        texts[row["task"]] += len(row["text"].encode()) + 1
    assert found.counts.tokens == sum(3 * n for task, n in texts.items() if task not in found.held_out_tasks)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"raw": False}, UserError, r"has no recorded rewrites.*--raw"),
        ({"template": "nope"}, UserError, "unknown template"),
        ({"base": "hf:./no/such/folder"}, PrerequisiteError, "must be a folder with"),
        ({"base": "hf:x?weights=8bit"}, UserError, "8bit weights cannot be trained on"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(tuned, tmp_path: Path, changed, error, message):
    _, options, _ = tuned
    with pytest.raises(error, match=message):
        tune(toy_study(), replace(options, folder=tmp_path / "new", **changed))
    assert not (tmp_path / "new").exists()


def test_a_missing_package_is_named_with_the_command_that_installs_it(tuned, tmp_path: Path, monkeypatch):
    _, options, _ = tuned
    monkeypatch.setitem(__import__("sys").modules, "trl", None)
    with pytest.raises(PrerequisiteError, match=r"needs trl.*pip install 'goldless\[finetune\]'"):
        tune(toy_study(), replace(options, folder=tmp_path / "new"))


class KilledError(Exception):
    """The run is ended from outside."""


def test_a_killed_run_goes_on_from_its_checkpoint_and_comes_to_what_a_run_in_one_go_comes_to(tuned, tmp_path: Path):
    found, options, _ = tuned
    asked = replace(options, folder=tmp_path / "out", save_every=2)

    def kill(progress) -> None:
        if progress.stage == "training" and progress.done == 5:
            raise KilledError

    with pytest.raises(KilledError):
        tune(toy_study(), asked, journal=options.folder.parent / "j.db", progress=kill)
    again = tune(toy_study(), replace(asked, base=f"{asked.base}?sharing=packed"))
    assert again.training.resumed_at == 4
    assert again.training.losses == found.training.losses
    assert again.scorer.settings["sharing"] == "packed prefix tree"
    assert not (tmp_path / "out" / "checkpoints").exists()


@pytest.mark.parametrize("name", ["adapter", ".adapter", "checkpoints", "finetune.json", "training.json", "my.csv"])
def test_what_no_training_of_ours_made_is_refused_before_anything_is_loaded_and_stays(tuned, tmp_path: Path, name: str):
    _, options, _ = tuned
    mine = tmp_path / "out" / name if "." in name[1:] else tmp_path / "out" / name / "model.bin"
    mine.parent.mkdir(parents=True)
    mine.write_text("weeks of work", encoding="utf-8")
    said = rf"is not a training folder: it has {name}, but no plan\.json\. Choose a new or empty folder"
    with pytest.raises(UserError, match=said):
        tune(toy_study(), replace(options, folder=tmp_path / "out", base="hf:./no/such/folder"))
    assert mine.read_text(encoding="utf-8") == "weeks of work"
    assert not (tmp_path / "out" / "plan.json").exists()


def test_a_base_and_an_adapter_that_read_their_context_pass_and_the_noise_is_shown(tuned, tmp_path: Path):
    _, options, _ = tuned
    reader = save_reader(tmp_path / "reader")
    asked = replace(
        options,
        base=f"hf:{reader}?dtype=float32&device=cpu&sharing=cached",
        folder=tmp_path / "out",
        learning_rate=1e-5,
        untested_base=False,
    )
    found = tune(toy_study(), asked)
    assert found.canaries.base.passed
    assert found.canaries.adapter.passed
    assert found.canaries.refused is None
    # what was asked of the base holds for base, training and adapter alike
    assert found.specification == f"hf:{reader}+{tmp_path / 'out'}?dtype=float32&device=cpu&sharing=cached"
    assert found.scorer.settings["sharing"] == "prefix tree"
    # how it scores is no part of what is trained
    assert found.plan.base.settings == {"device": "cpu", "dtype": "float32"}
    noise = found.canaries.adapter.noise_nats
    assert found.tables()[-1].notes == (
        f"With the adapter, sums differ between batches of this engine by up to {noise:.1e} nats.",
    )


def test_a_base_that_no_adapter_fits_is_refused(tuned, tmp_path: Path):
    _, options, _ = tuned
    config = transformers.MambaConfig(
        vocab_size=272, hidden_size=16, num_hidden_layers=1, state_size=4, bos_token_id=256, eos_token_id=257
    )
    transformers.MambaForCausalLM(config).save_pretrained(tmp_path / "mamba")
    byte_tokenizer().save_pretrained(tmp_path / "mamba")
    asked = replace(options, base=f"hf:{tmp_path / 'mamba'}", folder=tmp_path / "out")
    with pytest.raises(CapabilityError, match="peft cannot train an adapter on a model of type mamba"):
        tune(toy_study(), asked)
