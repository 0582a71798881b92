"""The report: one HTML file with all results of a run folder."""

from __future__ import annotations

from goldless.reports.html.page import write_report

__all__ = ["write_report"]
