"""The report: one HTML file made of whatever results a run folder holds."""

from __future__ import annotations

from goldless.reports.html.page import write_report

__all__ = ["write_report"]
