"""A fleet: copies of a model in workers of a Ray cluster, used like one model on this machine."""

from __future__ import annotations

ADDS = {"goldless.places": {"ray": "goldless.apps.fleet.crew:RAY"}}
"""Parts that the app adds to goldless, by group and name: a place where models compute."""
