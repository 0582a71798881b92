"""``goldless gre``: GRE-bench, from collecting papers to a year's leaderboard."""

from __future__ import annotations

from goldless.cli.command import Command, verbs_app
from goldless.cli.gre.boards import compare, correlate, figure, show
from goldless.cli.gre.editions import collect, demo, review, run, score
from goldless.cli.gre.public import preregister, submit
from goldless.cli.gre.publishing import publish, site

VERBS = (demo, run, collect, preregister, review, submit, score, show, compare, correlate, figure, site, publish)
app = verbs_app("GRE-bench: which model writes the most informative reviews, on papers it cannot have seen?")
for each in VERBS:
    app.command(cls=Command)(each)
