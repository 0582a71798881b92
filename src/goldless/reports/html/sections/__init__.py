"""Sections of the report: from the documents of a run to blocks of a page."""
