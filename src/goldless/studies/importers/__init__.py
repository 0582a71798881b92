"""Importers: the file formats a study can be read from, one module per format."""

from __future__ import annotations

from goldless.studies.importers.catalogue import IMPORTERS, Importer, imported_tables
from goldless.studies.importers.log import Log

__all__ = ["IMPORTERS", "Importer", "Log", "imported_tables"]
