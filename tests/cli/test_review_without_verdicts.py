"""``goldless review`` where no reply of the reviewer has a verdict."""

from __future__ import annotations

from loopback import Behaviour, LoopbackServer, chat_reply
from typer.testing import CliRunner

from goldless.cli.main import app


def test_a_review_without_a_single_verdict_does_not_end_with_0(tmp_path):
    study = tmp_path / "answers.csv"
    study.write_text("task,agent,text,prompt\nt1,ann,One.,Count\nt1,bob,Two.,Count\n")
    with LoopbackServer(Behaviour(chat=lambda _: chat_reply("Hm."))) as server:
        options = ["--reviewers", f"{server.url}#toy", "--exam", "none", "--journal", str(tmp_path / "j.sqlite")]
        shown = CliRunner().invoke(app, ["review", str(study), *options])
    assert shown.exit_code == 1
    assert "no verdict could be read" in shown.output
