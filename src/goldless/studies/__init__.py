"""Studies: reading, checking and writing tasks, responses, labels and recorded evidence."""

from __future__ import annotations

from goldless.studies.reading import (
    as_study,
    import_study,
    read_study,
    sample_study,
    study_from_frame,
    study_from_records,
    with_labels,
)
from goldless.studies.study import Study
from goldless.studies.writing import write_study

__all__ = [
    "Study",
    "as_study",
    "import_study",
    "read_study",
    "sample_study",
    "study_from_frame",
    "study_from_records",
    "with_labels",
    "write_study",
]
