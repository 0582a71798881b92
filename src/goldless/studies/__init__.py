"""Studies: reading, checking and writing tasks, responses, labels and recorded evidence."""

from __future__ import annotations

from goldless.studies.reading import as_study, read_study, study_from_frame
from goldless.studies.sample_study import sample_study
from goldless.studies.study import Study
from goldless.studies.writing import write_study

__all__ = ["Study", "as_study", "read_study", "sample_study", "study_from_frame", "write_study"]
