"""Sections of the report, one a module: from the documents of a run to blocks of a page."""
